"""Links find the line between two judges, and carry scores over better than leaving them as they are."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize, special

from refladder.statistics.linking import (
    KNOTS,
    MAPS,
    LinearScore,
    by_rank,
    common_rows,
    equipercentile,
    half_width,
    held_out,
    intervals_of,
    lines_between,
    linked,
    log_odds,
    map_of,
    scores_of,
)

SCORE = LinearScore(np.arange(1.0, 6.0), 0.0)


def judges(slope, shift, noise=0.2, contexts=60, seed=0):
    random = np.random.default_rng(seed)
    rungs = np.arange(5) - 2 + random.normal(0, 0.4, (contexts, 1, 5))
    gaps = random.normal(0, 1.5, (contexts, 6, 1)) - rungs
    first, second = (
        a * gaps + c + noise * random.normal(size=gaps.shape)
        for a, c in ((1.0, 0.0), (slope, shift))
    )
    return first.reshape(-1, 5), second.reshape(-1, 5), np.repeat(np.arange(contexts), 6)


def test_log_odds_and_scores_by_hand():
    read = np.array([[[0.5, 0.25, 0.25], [1.0, 0.0, 0.0], [0.2, 0.2, 0.6]]])
    # (.5 + .125) / (.25 + .125) = 5/3; a sure win is cut at 8; equal shares give 0
    assert log_odds(read)[0] == pytest.approx([np.log(5 / 3), 8.0, 0.0])
    # tanh(x/2) of log-odds log(5/3) is (5/3 - 1)/(5/3 + 1) = 1/4 = p(win) - p(loss): 2 * .25 + 10 = 10.5
    assert scores_of(
        np.array([np.log(5 / 3)]), LinearScore(np.array([2.0]), 10.0)
    ) == pytest.approx(10.5)


@pytest.mark.parametrize(("slope", "shift"), [(1.0, 0.0), (0.5, 0.0), (2.0, 0.7), (0.6, -1.0)])
def test_the_line_is_recovered(slope, shift):
    common = common_rows(*judges(slope, shift, noise=0.05, contexts=300), SCORE)
    lines = lines_between(common, np.ones((1, 300)))
    assert lines.slopes == pytest.approx(slope, rel=0.03)
    assert lines.shifts == pytest.approx(shift, abs=0.05)


def test_the_slope_is_the_minimum_of_the_criterion():
    """scipy finds the same slope for the criterion of Stocking and Lord, written out with its own functions."""
    first, second, contexts = judges(0.7, 0.3, noise=1.0)
    rungs, others = (odds.mean(axis=0) - odds.mean() for odds in (first, second))
    thetas = np.quantile(second.mean(axis=1), np.linspace(0.02, 0.98, 25))

    def curve(theta, at):
        return sum(level * (2 * special.expit(theta + gap) - 1) for level, gap in enumerate(at, 1))

    best = optimize.minimize_scalar(
        lambda slope: sum((curve(theta, others) - curve(theta, slope * rungs)) ** 2 for theta in thetas),
        bounds=(0.1, 3.0), method="bounded", options={"xatol": 1e-9},
    )  # fmt: skip
    lines = lines_between(common_rows(first, second, contexts, SCORE), np.ones((2, 60)))
    assert lines.slopes == pytest.approx([best.x, best.x], rel=1e-4)


def test_a_link_is_true_score_equating():
    """scipy inverts the mean curve of all rows under the first judge; its line leads to the curve of the second."""
    first, second, contexts = judges(0.6, -1.0, noise=1.0)
    common = common_rows(first, second, contexts, SCORE)
    slope, shift = (float(part[0]) for part in lines_between(common, np.ones((1, 60))))

    def curve(odds, position):
        profiles = odds - odds.mean(axis=1, keepdims=True)
        return np.mean((2 * special.expit(position + profiles) - 1) @ np.arange(1.0, 6.0))

    scores = np.array([-9.0, 0.0, 6.5])
    for score, value in zip(scores.tolist(), linked(scores, common)[0], strict=True):
        position = optimize.brentq(lambda at, score=score: curve(first, at) - score, -14, 14)
        assert value == pytest.approx(curve(second, slope * position + shift), abs=0.01)


def test_contexts_that_count_twice_are_rows_that_are_there_twice():
    first, second, contexts = judges(0.6, -1.0, noise=1.0, contexts=4)
    rows = np.concatenate([np.flatnonzero(contexts == context) for context in (0, 2, 2, 3)])
    common = common_rows(first, second, contexts, SCORE)
    whole = common_rows(first[rows], second[rows], np.repeat(np.arange(4), 6), SCORE)._replace(
        positions=common.positions
    )
    scores = np.linspace(-14, 14, 15)
    twice = linked(scores, common, np.array([[1.0, 0.0, 2.0, 1.0]]))[0]
    assert twice == pytest.approx(linked(scores, whole)[0])


def test_the_map_rises_between_the_ends():
    common = common_rows(*judges(0.4, 1.0, noise=1.0), SCORE)
    values = linked(np.linspace(*SCORE.ends, KNOTS), common)[0]
    assert np.all(np.diff(values) >= 0)
    assert np.all(np.abs(values) <= 15)
    low, high = intervals_of(np.linspace(*SCORE.ends, KNOTS), common)
    assert np.all((low >= -15) & (low <= values) & (values <= high) & (high <= 15))


def test_the_interval_of_the_map_covers():
    """40 links from 12 contexts each, against the map that 1,000 contexts give; a knot shares its contexts with others.

    Intervals that miss 5 % miss 5 or more of 40 with a probability of .05 (binomial), so a share of .88 is expected."""
    knots = np.array([-8.0, 0.0, 8.0])
    made = {"slope": 0.6, "shift": -1.0, "noise": 1.0}
    (truth,) = linked(knots, common_rows(*judges(**made, contexts=1000, seed=1), SCORE))
    covered = []
    for seed in range(40):
        common = common_rows(*judges(**made, contexts=12, seed=seed + 2), SCORE)
        low, high = intervals_of(knots, common)
        covered.append((low <= truth) & (truth <= high))
    assert 0.88 <= np.mean(covered) < 1.0


def test_held_out_errors():
    held = held_out(*judges(0.5, -1.0), SCORE)
    assert held.error("line") < 0.3 * held.error("identity")
    assert held.best == "line"
    assert held.residuals["line"].shape == (360,)
    same = held_out(*judges(1.0, 0.0), SCORE)
    assert same.error("line") == pytest.approx(same.error("identity"), rel=0.1)
    first, _, contexts = judges(1.0, 0.0)
    assert held_out(first, first, contexts, SCORE).best == "identity"  # no error at all


def test_hard_verdicts_are_mapped_by_rank():
    """A judge that gives 1 or 0 has no log-odds that a line could map; other contexts measure the three maps."""
    first, second, contexts = judges(0.6, -1.0, contexts=100)
    first = np.where(first > 0, 8.0, -8.0)
    made, others = contexts < 60, contexts >= 60
    held = held_out(first[made], second[made], contexts[made], SCORE)
    assert held.best == "equipercentile"
    before, after = (scores_of(odds, SCORE) for odds in (first, second))
    common = common_rows(first[made], second[made], contexts[made], SCORE)
    errors = {}
    for name in MAPS:
        used = map_of(name, common, (before[made], after[made]), contexts[made])
        mapped = np.interp(before[others], used.scores, used.values)
        errors[name] = np.mean(np.abs(mapped - after[others]))
        assert np.all(np.diff(used.scores) > 0)
        assert (used.scores[0], used.scores[-1]) == (-15, 15)
        assert np.all((used.least <= used.values) & (used.values <= used.most))
        assert held.error(name) == pytest.approx(errors[name], rel=0.15)
    assert errors["equipercentile"] < 0.8 * min(errors["line"], errors["identity"])


def test_the_interval_of_equal_ranks_covers():
    """As for the line: 40 maps from 12 contexts each, against the map that 1,000 contexts give."""
    first, second, contexts = judges(0.6, -1.0, noise=1.0, contexts=1000, seed=1)
    hard = scores_of(np.where(first > 0, 8.0, -8.0), SCORE)
    truth = by_rank(hard, scores_of(second, SCORE), SCORE)
    knots, covered = np.array([-5.0, 1.0, 5.0]), []
    for seed in range(40):
        first, second, contexts = judges(0.6, -1.0, noise=1.0, contexts=12, seed=seed + 2)
        first = np.where(first > 0, 8.0, -8.0)
        scores = scores_of(first, SCORE), scores_of(second, SCORE)
        common = common_rows(first, second, contexts, SCORE)
        used = map_of("equipercentile", common, scores, contexts)
        at = np.interp(knots, *truth)
        low, high = (np.interp(knots, used.scores, line) for line in (used.least, used.most))
        covered.append((low <= at) & (at <= high))
    assert 0.88 <= np.mean(covered) <= 1.0


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
