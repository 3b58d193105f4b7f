"""Correlations against scipy.stats and against hand work."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from refusals import refuses
from scipy import stats

from refladder.errors import ShapeError, UnknownNameError, UsageError
from refladder.statistics import STATISTICS
from refladder.statistics.correlation import (
    area_under_curve,
    average_ranks,
    correlate,
    correlate_rows,
    partial_correlate_rows,
    row_kinds,
)

ORACLES = {"spearman": stats.spearmanr, "kendall": stats.kendalltau, "pearson": stats.pearsonr}
NAN = float("nan")


def by_scipy(x, y, statistic):
    """scipy's value over the complete pairs; NaN where it has none (asked first, since it warns)."""
    complete = ~(np.isnan(x) | np.isnan(y))
    x, y = x[complete], y[complete]
    if len(x) < 2 or len(set(x)) == 1 or len(set(y)) == 1:
        return NAN
    return ORACLES[statistic](x, y)[0]


def random_grid(generator, shape, values, gaps):
    """Thirds with many ties (or floats without any), and gaps."""
    grid = generator.integers(0, values, shape) / 3 if values else generator.normal(size=shape)
    grid[generator.random(shape) < gaps] = np.nan
    return grid


@pytest.mark.parametrize("statistic", STATISTICS)
@pytest.mark.parametrize("shape", [(100, 10), (60, 3), (8, 150)])
def test_rows_equal_scipy_on_random_grids(statistic, shape):
    for values, gaps in itertools.product([2, 3, 7, 0], [0.0, 0.3, 0.8]):
        generator = np.random.default_rng([values, int(gaps * 10), *shape])
        predicted = random_grid(generator, shape, values, gaps)
        human = random_grid(generator, shape, 6, gaps)
        found = correlate_rows(predicted, human, statistic)
        expected = [by_scipy(x, y, statistic) for x, y in zip(predicted, human, strict=True)]
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("shape", [(223, 10), (1, 1600), (5, 0)])
@pytest.mark.parametrize("values", [2, 7, 0])
def test_ranks_are_exactly_those_of_scipy(shape, values):
    grid = random_grid(np.random.default_rng(values), shape, values, 0.2)
    expected = stats.rankdata(grid, axis=1, nan_policy="omit")
    np.testing.assert_array_equal(average_ranks(grid), expected)


VALUES = st.integers(-3, 3).map(float) | st.sampled_from([NAN, -0.0, 1e-6, 1 / 3, 2 / 3, 1e6])


@settings(max_examples=60, deadline=None)
@given(data=st.data(), statistic=st.sampled_from(STATISTICS), columns=st.integers(0, 40))
def test_a_vector_equals_scipy(data, statistic, columns):
    x, y = (data.draw(hnp.arrays(np.float64, columns, elements=VALUES)) for _ in range(2))
    found, expected = correlate(x, y, statistic), by_scipy(x, y, statistic)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("values", [5, 1000, 0])
def test_long_kendall_equals_scipy(values):
    generator = np.random.default_rng(3)
    x = random_grid(generator, 20_001, values, 0.1)
    y = np.round(np.nan_to_num(x) + generator.normal(size=len(x)), 1)
    assert correlate(x, y, "kendall") == pytest.approx(by_scipy(x, y, "kendall"), abs=1e-12)


def test_by_hand():
    # Ranks 1 2.5 2.5 4 and 1 2 3.5 3.5; less their mean 2.5: -1.5 0 0 1.5 and -1.5 -.5 1 1.
    # Products sum to 3.75, squares to 4.5 and 4.5. Kendall: of 6 pairs 4 agree, one is tied left and another right,
    # so 4 / sqrt(5 * 5). Pearson: 0 1 1 2 and 0 1 3 3 less 1 and 7/4: products sum to 3, squares to 2 and 27/4.
    x, y = np.array([0.0, 1, 1, 2]), np.array([0.0, 1, 3, 3])
    assert correlate(x, y, "spearman") == pytest.approx(3.75 / 4.5, abs=1e-15)
    assert correlate(x, y, "kendall") == pytest.approx(0.8, abs=1e-15)
    assert correlate(x, y, "pearson") == pytest.approx(3 / (2 * 6.75) ** 0.5, abs=1e-15)


@pytest.mark.parametrize("statistic", STATISTICS)
def test_the_same_order_is_exactly_one_and_the_reverse_minus_one(statistic):
    x = np.random.default_rng(0).permutation(101) / 1.0
    assert correlate(x, x, statistic) == 1.0
    assert correlate(x, -x, statistic) == -1.0


@pytest.mark.parametrize("statistic", STATISTICS)
def test_constant_means_equal_not_nearly_equal(statistic):
    # The three floats are neighbours: not constant, although their variance underflows any threshold.
    near = np.array([1.0, np.nextafter(1.0, 2.0), np.nextafter(np.nextafter(1.0, 2.0), 2.0)])
    assert correlate(near, np.array([1.0, 2.0, 3.0]), statistic) > 0.8
    assert np.isnan(correlate(np.full(3, 0.1 + 0.2), np.array([1.0, 2.0, 3.0]), statistic))


def test_pearson_keeps_to_the_range_of_floats():
    large = np.array([1e308, -1e308, 1e308, 0.0])
    small = np.array([1.0, -1.0, 1.0, 0.0])
    assert correlate(large, small, "pearson") == pytest.approx(1.0, abs=1e-12)
    assert correlate(small * 1e-200, small, "pearson") == pytest.approx(1.0, abs=1e-12)


# One context each: fewer than two pairs, constant ratings, constant prediction, both constant, and 1 2 3 against 1 3 2,
# whose Spearman correlation is 1 - 6 * (0 + 1 + 1) / (3 * 8) = 0.5.
PREDICTED = np.array([[1, NAN, 2], [1, 2, 3], [4, 4, 4], [4, 4, 4], [1, 2, 3]], dtype=float)
HUMAN = np.array([[1, 2, NAN], [5, 5, 5], [1, 2, 3], [5, 5, 5], [1, 3, 2]], dtype=float)


@pytest.mark.parametrize(
    ("constant", "expected"),
    [
        # UniEval's reproduce/correlation.py and G-Eval leave a context out when either side is constant.
        ("skip", [NAN, NAN, NAN, NAN, 0.5]),
        # comparative-assessment, src/evaluation/eval_tools.py: constant labels are passed over, then a constant
        # rating appends 0.
        ("zero", [NAN, NAN, 0.0, NAN, 0.5]),
        # PairS and ZEPO, calculate_correlation: a NaN becomes 1 when all reference scores are equal, else 0.
        ("one", [NAN, 1.0, 0.0, 1.0, 0.5]),
    ],
)
def test_conventions_for_constant_contexts(constant, expected):
    np.testing.assert_array_equal(correlate_rows(PREDICTED, HUMAN, "spearman", constant), expected)


def test_row_kinds():
    kinds = row_kinds(PREDICTED, HUMAN)
    assert kinds.too_few.tolist() == [True, False, False, False, False]
    assert kinds.human_constant.tolist() == [False, True, False, True, False]
    assert kinds.predicted_constant.tolist() == [False, False, True, False, False]


def test_gaps_can_make_a_row_constant():
    predicted, human = np.array([[1.0, 2.0, NAN]]), np.array([[3.0, 3.0, 4.0]])
    assert row_kinds(predicted, human).human_constant.tolist() == [True]
    assert np.isnan(correlate_rows(predicted, human)).all()


@pytest.mark.parametrize("shape", [(0, 4), (4, 0), (0, 0)])
def test_empty_grids_have_no_correlation(shape):
    values = correlate_rows(np.empty(shape), np.empty(shape))
    assert values.shape == (shape[0],)
    assert np.isnan(values).all()


def by_residuals(x, y, z):
    """Partial Spearman another way: correlate what a line through the control's ranks leaves of the other ranks."""
    complete = ~(np.isnan(x) | np.isnan(y) | np.isnan(z))
    *ranks, control = (stats.rankdata(values[complete]) for values in (x, y, z))
    design = np.column_stack([np.ones(len(control)), control])
    fits = [design @ np.linalg.lstsq(design, values, rcond=None)[0] for values in ranks]
    return np.corrcoef(ranks[0] - fits[0], ranks[1] - fits[1])[0, 1]


def test_partial_correlation_equals_the_correlation_of_residuals():
    generator = np.random.default_rng(5)
    x, y = random_grid(generator, (50, 16), 9, 0.1), random_grid(generator, (50, 16), 5, 0.1)
    z = np.round(np.nan_to_num(x) + generator.integers(0, 4, (50, 16)))
    expected = [by_residuals(*rows) for rows in zip(x, y, z, strict=True)]
    np.testing.assert_allclose(partial_correlate_rows(x, y, z), expected, rtol=0, atol=1e-10)


def test_partial_correlation_at_its_ends():
    x, y = np.array([[1.0, 2, 3, 4]]), np.array([[1.0, 2, 4, 3]])
    # A constant control takes nothing out: 1 - 6 * 2 / 60 = .8.
    assert partial_correlate_rows(x, y, np.full((1, 4), 7.0))[0] == pytest.approx(0.8, abs=1e-12)
    # The prediction is the control: nothing is left of it.
    assert np.isnan(partial_correlate_rows(x, y, x * 10)[0])
    assert np.isnan(partial_correlate_rows(x, np.full((1, 4), 2.0), y)[0])
    # Two complete triples lie on a line whatever they are.
    assert np.isnan(partial_correlate_rows(x, y, np.array([[5.0, 1.0, NAN, NAN]]))[0])


def test_what_is_refused():
    message = r"\(contexts, systems\); got \(2, 3\) and \(3, 2\); give both one row"
    refuses(ShapeError, message, correlate_rows, np.zeros((2, 3)), np.zeros((3, 2)))
    square = np.zeros((2, 2))
    refuses(ShapeError, "predicted and human must both be", correlate, square, square)
    message = r"human\[0, 1\] is inf; values must be finite, or NaN"
    refuses(UsageError, message, correlate_rows, np.zeros((1, 2)), np.array([[0.0, np.inf]]))
    message = "unknown statistic 'spearmn'; did you mean 'spearman'"
    refuses(UnknownNameError, message, correlate_rows, PREDICTED, HUMAN, "spearmn")
    message = "unknown convention for constant contexts 'ones'; did you mean 'one'"
    refuses(UnknownNameError, message, correlate_rows, PREDICTED, HUMAN, "kendall", "ones")


def test_the_area_under_the_curve_counts_pairs():
    generator = np.random.default_rng(0)
    scores, good = generator.integers(0, 5, 40).astype(float), generator.random(40) < 0.4
    pairs = [(a > b) + 0.5 * (a == b) for a in scores[good] for b in scores[~good]]
    assert float(area_under_curve(scores, good)) == pytest.approx(np.mean(pairs), abs=1e-12)
    assert area_under_curve(scores, np.ones(40, bool)) is None
