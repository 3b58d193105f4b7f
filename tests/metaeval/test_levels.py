"""The three levels by hand and against scipy, with exact means from fractions."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from refladder.errors import UnknownNameError
from refladder.metaeval.levels import correlate_level, mean_within

NAN = float("nan")
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


@pytest.mark.parametrize(
    ("statistic", "oracle"),
    [("spearman", stats.spearmanr), ("kendall", stats.kendalltau), ("pearson", stats.pearsonr)],
)
def test_pooled_is_scipy_over_all_outputs(statistic, oracle):
    found = correlate_level(PREDICTED, HUMAN, level="pooled", statistic=statistic)
    assert found.value == pytest.approx(
        oracle(PREDICTED[:4].ravel(), HUMAN[:4].ravel())[0], abs=1e-12
    )
    assert (found.contexts, found.skipped) == (4, 1)


@pytest.mark.parametrize(
    ("statistic", "oracle"),
    [("spearman", stats.spearmanr), ("kendall", stats.kendalltau), ("pearson", stats.pearsonr)],
)
def test_between_systems_is_scipy_over_exact_means(statistic, oracle):
    # Means of thirds over 7 contexts: the fractions tie where sums of floats do not always.
    generator = np.random.default_rng(11)
    for _ in range(40):
        thirds, scores = generator.integers(3, 7, (7, 12)), generator.integers(3, 7, (7, 12))
        exact = [
            [float(sum(Fraction(int(n), 3) for n in row) / 7) for row in grid.T]
            for grid in (scores, thirds)
        ]
        found = correlate_level(
            scores / 3, thirds / 3, level="between_systems", statistic=statistic
        )
        assert found.value == pytest.approx(oracle(*exact)[0], abs=1e-12)


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
    with pytest.raises(
        UnknownNameError,
        match="unknown level 'sample-level'; Known: between_systems, pooled, within_context",
    ):
        correlate_level(PREDICTED, HUMAN, level="sample-level")


NAMED = {"spearman": stats.spearmanr, "pearson": stats.pearsonr, "kendall": stats.kendalltau}


@pytest.mark.parametrize("statistic", NAMED)
def test_it_is_the_mean_of_the_correlations_of_contexts(statistic):
    random = np.random.default_rng(3)
    contexts = random.integers(0, 30, size=200)
    target = random.normal(size=200)
    predicted = target + random.normal(size=200)
    predicted[contexts == 4] = 1.0  # constant: skipped
    expected = [
        NAMED[statistic](predicted[contexts == context], target[contexts == context])[0]
        for context in np.unique(contexts)
        if (contexts == context).sum() > 1 and context != 4
    ]
    assert mean_within(predicted, target, contexts, statistic) == pytest.approx(
        np.mean(expected), abs=1e-12
    )


def test_contexts_of_one_row_have_none():
    assert math.isnan(mean_within(np.arange(3.0), np.arange(3.0), np.arange(3)))
