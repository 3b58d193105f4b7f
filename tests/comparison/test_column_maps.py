"""Maps of one column of scores to another: equal ranks, the interval of a text, and which map is used."""

import numpy as np
import pytest
from scipy import special

from refladder.comparison.column_maps import (
    best_of,
    equipercentile,
    half_width,
    held_out,
    map_of,
    mapped,
)


def test_equal_ranks_by_hand():
    """The ranks of 1, 2 and 3 among (1, 2, 3) are 1/6, 1/2 and 5/6, so of (10, 20, 30) they are 13.3, 20 and 26.7."""
    lists = ([1.0, 2.0, 3.0], [3.0, 1.0, 2.0], [10.0, 30.0, 20.0])
    values = equipercentile(*map(np.array, lists))
    assert values == pytest.approx([10 + 10 / 3, 20.0, 30 - 10 / 3])


def test_the_interval_of_a_text_by_hand():
    """Rank 20 * .95 = 19 of 19 residuals is the greatest; of 18 there is no rank 18.05. Of 29, rank 28.5 lies in the
    middle of the residuals 27 and 28."""
    assert half_width(np.arange(19.0)) == pytest.approx(18.0)
    assert half_width(np.arange(18.0)) is None
    assert half_width(np.arange(29.0)) == pytest.approx(27.5)
    assert half_width(np.arange(99.0)) == pytest.approx(94.0)


@pytest.mark.parametrize("rows", [20, 35, 50])
def test_the_interval_of_a_text_covers(rows):
    """Of |normal| residuals the shares inside are known: 2 Phi(h) - 1. Their mean over 2,000 samples has a standard
    error below .001."""
    random = np.random.default_rng(0)
    halves = [half_width(np.abs(random.standard_normal(rows))) for _ in range(2000)]
    assert 0.948 < np.mean(2 * special.ndtr(halves) - 1) < 0.96


def test_scores_stay_unless_a_map_is_better_by_more_than_a_standard_error():
    # The line is better by 1, 1, 1 and -1: mean .5, deviation 1 with three degrees, standard error 1 / sqrt(4) = .5.
    residuals = {
        name: np.array([2.0, 2.0, 2.0, 2.0]) for name in ("identity", "shift", "equipercentile")
    }
    residuals["line"] = np.array([1.0, 1.0, 1.0, 3.0])
    assert best_of(residuals) == "identity"
    # A little more than the standard error.
    assert best_of({**residuals, "line": residuals["line"] - 0.01}) == "line"


def test_the_interval_of_a_map_draws_whole_contexts():
    """A naive loop over the same draws of contexts, which have one to three texts each."""
    random = np.random.default_rng(1)
    units = np.repeat(np.arange(30), [1, 2, 3] * 10)
    units = random.permutation(units)
    first = random.normal(size=len(units))
    second = 3 * first + 2 + random.normal(size=len(units))
    residuals = {name: np.abs(each - second) for name, each in held_out(first, second).items()}
    assert best_of(residuals) == "line"
    used = map_of(residuals, first, second, units, has_interval=True)
    draws = np.random.default_rng(0).integers(0, 30, (400, 30))
    values = []
    for draw in draws:
        rows = [row for unit in draw for row in np.flatnonzero(units == unit)]
        values.append(mapped("line", used.scores, first[rows], second[rows]))
    # Student's t with 29 degrees is 2.0452.
    half = 2.0452 * np.std(values, axis=0, ddof=1) * np.sqrt(30 / 29)
    # Equal ranks are not clearly worse here, so the interval holds their values too.
    ranks = mapped("equipercentile", used.scores, first, second)
    assert used.least == pytest.approx(np.minimum(used.values - half, ranks), rel=1e-4)
    assert used.most == pytest.approx(np.maximum(used.values + half, ranks), rel=1e-4)
