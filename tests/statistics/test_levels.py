"""The three levels by hand and against scipy, with exact means from fractions."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from refladder.errors import UnknownNameError
from refladder.statistics.levels import correlate_level, mean_within

NAN = float("nan")
ORACLES = {"spearman": stats.spearmanr, "kendall": stats.kendalltau, "pearson": stats.pearsonr}
# Row 1: 1 2 3 against 1 3 2, Spearman .5. Row 2: the same order, 1. Row 3: constant ratings. Row 4: constant
# prediction. Row 5: nothing was scored.
PREDICTED = np.array([[1, 2, 3], [10, 20, 30], [1, 2, 3], [7, 7, 7], [NAN, NAN, NAN]], dtype=float)
HUMAN = np.array([[1, 3, 2], [1, 2, 3], [4, 4, 4], [1, 2, 3], [1, 2, 3]], dtype=float)


@pytest.mark.parametrize(
    ("constant", "value", "contexts", "skipped"),
    [
        ("skip", (0.5 + 1) / 2, 2, 3),
        ("zero", (0.5 + 1 + 0) / 3, 3, 2),
        ("one", (0.5 + 1 + 1 + 0) / 4, 4, 1),
    ],
)
def test_within_context_counts_what_it_uses(constant, value, contexts, skipped):
    found = correlate_level(PREDICTED, HUMAN, constant=constant)
    assert found.value == pytest.approx(value, abs=1e-15)
    assert (found.contexts, found.skipped, found.constant_predicted) == (contexts, skipped, 1)


@pytest.mark.parametrize(("statistic", "oracle"), ORACLES.items())
def test_pooled_is_scipy_over_all_outputs(statistic, oracle):
    found = correlate_level(PREDICTED, HUMAN, level="pooled", statistic=statistic)
    expected = oracle(PREDICTED[:4].ravel(), HUMAN[:4].ravel())[0]
    assert found.value == pytest.approx(expected, abs=1e-12)
    assert (found.contexts, found.skipped) == (4, 1)


@pytest.mark.parametrize(("statistic", "oracle"), ORACLES.items())
def test_between_systems_is_scipy_over_exact_means(statistic, oracle):
    # Means of thirds over 7 contexts: the fractions tie where sums of floats do not always.
    def exact_means(grid):
        return [float(sum(Fraction(int(n), 3) for n in row) / 7) for row in grid.T]

    generator = np.random.default_rng(11)
    options = {"level": "between_systems", "statistic": statistic}
    for _ in range(40):
        scores, thirds = generator.integers(3, 7, (2, 7, 12))
        found = correlate_level(scores / 3, thirds / 3, **options)
        expected = oracle(exact_means(scores), exact_means(thirds))[0]
        assert found.value == pytest.approx(expected, abs=1e-12)


def test_between_systems_uses_the_contexts_where_both_are_present():
    # System means over complete pairs: A (1+2)/2 and (1+2)/2, B 5 and 3 (context 1 only), C 0 and 9.
    predicted = np.array([[1, 5, 0], [2, NAN, 0]], dtype=float)
    human = np.array([[1, 3, 9], [2, 1, 9]], dtype=float)
    found = correlate_level(predicted, human, level="between_systems", statistic="pearson")
    assert found.value == pytest.approx(stats.pearsonr([1.5, 5, 0], [1.5, 3, 9])[0], abs=1e-12)
    # A system without any pair is left out.
    predicted[:, 2] = NAN
    assert correlate_level(predicted, human, level="between_systems").value == 1.0


@pytest.mark.parametrize("level", ["within_context", "pooled", "between_systems"])
@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (3, 3)])
def test_no_pairs_no_value(level, shape):
    found = correlate_level(np.full(shape, NAN), np.ones(shape), level=level)
    assert np.isnan(found.value)
    assert (found.contexts, found.skipped) == (0, shape[0])


def test_level_names():
    message = "unknown level 'sample-level'. Known: between_systems, pooled, within_context"
    with pytest.raises(UnknownNameError, match=message):
        correlate_level(PREDICTED, HUMAN, level="sample-level")


@pytest.mark.parametrize(("statistic", "oracle"), ORACLES.items())
def test_the_mean_within_is_that_of_the_correlations_of_contexts(statistic, oracle):
    random = np.random.default_rng(3)
    contexts = random.integers(0, 30, size=200)
    target = random.normal(size=200)
    predicted = target + random.normal(size=200)
    predicted[contexts == 4] = 1.0  # constant: skipped
    chosen = [contexts == context for context in np.unique(contexts) if context != 4]
    expected = [oracle(predicted[own], target[own])[0] for own in chosen if own.sum() > 1]
    found = mean_within(predicted, target, contexts, statistic)
    assert found == pytest.approx(np.mean(expected), abs=1e-12)
    # contexts of one row have none
    assert math.isnan(mean_within(np.arange(3.0), np.arange(3.0), np.arange(3)))
