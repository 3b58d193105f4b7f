"""Scores of one judge on the scale of another, from rungs and rows that both have judged.

Model: the log-odds that a row beats rung k are  a_J (theta - b_k) + c_J  under judge J, with the same theta and b for
both judges. The log-odds of one judge are then a line in those of the other. Its slope comes from the rungs: mean-sigma
to start, the criterion of Stocking and Lord (1983) to finish. Its shift comes from the rows. A score is carried over by
true score equating (Kolen and Brennan, Test Equating, Scaling, and Linking, chapter 6).

The model does not fit verdicts without probabilities (hard verdicts). So there are two other maps,
equipercentile equating (chapter 2) and the unchanged scores, and the one with the least error on held-out contexts is
used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, cast

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from refladder.arrays import FloatArray, IntArray

# Log-odds are cut here, at p = .9997.
MOST_ODDS = 8.0
# A characteristic curve is computed at these positions.
THETAS = np.linspace(-14.0, 14.0, 281)
# A line is stored at this number of scores.
KNOTS = 41
# An equipercentile map is stored at this number of scores.
MOST_KNOTS = 400
MapName = Literal["identity", "line", "equipercentile"]
MAPS: tuple[MapName, ...] = ("identity", "line", "equipercentile")
RESAMPLES = 400
FOLDS = 5
_GOLDEN = (5**0.5 - 1) / 2
_TINY = 1e-6
# Characteristic curves of this number of rows are computed together.
_AT_ONCE = 500


class Lines(NamedTuple):
    """Log-odds under the second judge = slope * log-odds under the first + shift; both have shape (lines,)."""

    slopes: FloatArray
    shifts: FloatArray


class LinearScore(NamedTuple):
    """A score that is linear in the verdicts: base + sum over rungs k of weights_k * (p(win | k) - p(loss | k))."""

    weights: FloatArray
    base: float

    @property
    def ends(self) -> tuple[float, float]:
        """Return the least and the greatest score."""
        half = float(np.sum(self.weights))
        return self.base - half, self.base + half


class Common(NamedTuple):
    """Rows that two judges have judged, summed over each context.

    `rows` counts them. `odds` are sums of log-odds, shape (2 judges, contexts, rungs). `curves`, shape (2 judges,
    contexts, len(`THETAS`)), are sums of characteristic curves: the score of a row at each position, if the log-odds
    keep their distances from their mean. `positions` are those at which the criterion of
    Stocking and Lord compares. `scale` is that of the score.
    """

    rows: FloatArray
    odds: FloatArray
    curves: FloatArray
    positions: FloatArray
    scale: LinearScore


class HeldOut(NamedTuple):
    """Absolute errors of each map of `MAPS` on contexts that it was not made from, shape (rows,) each."""

    residuals: Mapping[str, FloatArray]

    def error(self, name: str) -> float:
        """Return the mean absolute error of a map."""
        return float(np.mean(self.residuals[name]))

    @property
    def best(self) -> MapName:
        """Return the map with the least error; of equal ones, the first of `MAPS`."""
        return min(MAPS, key=lambda name: round(self.error(name), 9))


class Map(NamedTuple):
    """Scores under the first judge, rising, and the same under the second with the ends of an interval."""

    scores: FloatArray
    values: FloatArray
    least: FloatArray
    most: FloatArray


def log_odds(probabilities: FloatArray) -> FloatArray:
    """Return log-odds of winning, shape (rows, rungs), from P(win, loss, tie): a tie counts half, cut at +-`MOST_ODDS`."""
    with np.errstate(divide="ignore"):
        logs = np.log(probabilities[..., :2] + probabilities[..., 2:] / 2)
    return cast("FloatArray", np.clip(logs[..., 0] - logs[..., 1], -MOST_ODDS, MOST_ODDS))


def scores_of(odds: FloatArray, scale: LinearScore) -> FloatArray:
    """Return scores, shape (...), from log-odds, shape (..., rungs): p(win) - p(loss) = tanh(log-odds / 2)."""
    return cast("FloatArray", scale.base + np.sum(scale.weights * np.tanh(odds / 2), axis=-1))


def common_rows(
    first: FloatArray, second: FloatArray, contexts: IntArray, scale: LinearScore
) -> Common:
    """Sum what links need over the rows of each context.

    Log-odds of both judges have shape (rows, rungs). `contexts`, shape (rows,), are numbers from 0 without gaps.
    """
    number = int(contexts.max()) + 1
    rows = np.bincount(contexts, minlength=number).astype(np.float64)
    odds = np.zeros((2, number, first.shape[1]))
    curves = np.zeros((2, number, len(THETAS)))
    for judge, read in enumerate((first, second)):
        np.add.at(odds[judge], contexts, read)
        profiles = read - read.mean(axis=1, keepdims=True)
        for part in range(0, len(read), _AT_ONCE):
            of_rows = scores_of(THETAS[:, None] + profiles[part : part + _AT_ONCE, None, :], scale)
            np.add.at(curves[judge], contexts[part : part + _AT_ONCE], of_rows)
    positions = np.quantile(second.mean(axis=1), np.linspace(0.02, 0.98, 25))
    return Common(rows, odds, curves, positions, scale)


def lines_between(common: Common, counts: FloatArray) -> Lines:
    """Fit lines from the log-odds of one judge to another's; counts, shape (lines, contexts), weigh contexts."""
    rows = (counts @ common.rows)[:, None]
    first, second = counts @ common.odds / rows
    centres = first.mean(axis=1), second.mean(axis=1)
    rungs, others = first - centres[0][:, None], second - centres[1][:, None]
    start = np.maximum(np.std(others, axis=1), _TINY) / np.maximum(np.std(rungs, axis=1), _TINY)

    def curves(at: FloatArray) -> FloatArray:
        return scores_of(common.positions[:, None] + at[:, None, :], common.scale)

    wanted = curves(others)

    def loss(powers: FloatArray) -> FloatArray:
        return cast(
            "FloatArray",
            np.sum((wanted - curves((start * np.exp(powers))[:, None] * rungs)) ** 2, axis=1),
        )

    slopes = start * np.exp(_least(loss, np.full_like(start, -1.0), np.full_like(start, 1.0)))
    return Lines(slopes, centres[1] - slopes * centres[0])


def _least(
    loss: Callable[[FloatArray], FloatArray], low: FloatArray, high: FloatArray
) -> FloatArray:
    """Return the arguments between two ends where functions with one valley are least (golden section)."""
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = loss(left), loss(right)
    for _ in range(24):
        lower = at_left <= at_right
        low, high = np.where(lower, low, left), np.where(lower, right, high)
        new = np.where(lower, high - _GOLDEN * (high - low), low + _GOLDEN * (high - low))
        value = loss(new)
        left, right = np.where(lower, new, right), np.where(lower, left, new)
        at_left, at_right = np.where(lower, value, at_right), np.where(lower, at_left, value)
    return (low + high) / 2


def linked(scores: FloatArray, common: Common, counts: FloatArray | None = None) -> FloatArray:
    """Convert scores, shape (scores,), to another judge: shape (links, scores), a link for a row of counts."""
    if counts is None:
        counts = np.ones((1, len(common.rows)))
    lines = lines_between(common, counts)
    rows = (counts @ common.rows)[:, None]
    first, second = counts @ common.curves / rows
    mapped = np.empty((len(counts), len(scores)))
    for number, (slope, shift) in enumerate(zip(*lines, strict=True)):
        positions = slope * np.interp(scores, first[number], THETAS) + shift
        mapped[number] = np.interp(positions, THETAS, second[number])
    return mapped


def equipercentile(scores: FloatArray, first: FloatArray, second: FloatArray) -> FloatArray:
    """Convert scores to those of equal rank under another judge, by common rows, shape (rows,)."""
    ordered = np.sort(first)
    ranks = (
        np.searchsorted(ordered, scores, "left") + np.searchsorted(ordered, scores, "right")
    ) / (2 * len(ordered))
    return cast("FloatArray", np.quantile(second, np.clip(ranks, 0.0, 1.0)))


def by_rank(
    first: FloatArray, second: FloatArray, scale: LinearScore
) -> tuple[FloatArray, FloatArray]:
    """Return the equipercentile map of common rows: knots and their values.

    The knots are the scores of the first judge, so that hard verdicts, which give few different scores, are mapped
    exactly; at most `MOST_KNOTS` of them, and the ends of the scale.
    """
    seen = np.unique(np.round(first, 9))
    if len(seen) > MOST_KNOTS:
        seen = seen[np.linspace(0, len(seen) - 1, MOST_KNOTS).round().astype(int)]
    knots = np.union1d(seen, scale.ends)
    return knots, equipercentile(knots, np.round(first, 9), second)


def map_of(
    name: str,
    common: Common,
    scores: tuple[FloatArray, FloatArray],
    contexts: IntArray,
) -> Map:
    """Return a map of `MAPS` from common rows, with its 95 % interval.

    The interval of `equipercentile`, whose errors are not symmetric, also holds the quantiles .025 and .975 of its
    resamples. That of `identity`, which estimates nothing, is the line's, widened to hold the scores themselves.

    Args:
        name: of the map.
        common: rows that both judges have judged; two contexts or more.
        scores: of these rows under the first and the second judge.
        contexts: the number of the context of each row, from 0 without gaps.
    """
    if name == "equipercentile":
        first, second = scores
        knots, values = by_rank(first, second, common.scale)
        order = np.argsort(contexts, kind="stable")
        ends = np.cumsum(common.rows).astype(int)
        rows = np.split(order, ends[:-1])
        resampled = np.empty((RESAMPLES, len(knots)))
        for number, draw in enumerate(_draws(len(rows))):
            drawn = np.concatenate([rows[context] for context in draw])
            resampled[number] = equipercentile(knots, np.round(first[drawn], 9), second[drawn])
        low, high = np.quantile(resampled, [0.025, 0.975], axis=0)
        least, most = _ends(values, resampled, common)
        return Map(knots, values, np.minimum(least, low), np.maximum(most, high))
    knots = np.linspace(*common.scale.ends, KNOTS)
    least, most = intervals_of(knots, common)
    if name == "line":
        return Map(knots, linked(knots, common)[0], least, most)
    values = np.clip(knots, *common.scale.ends)
    return Map(knots, values, np.minimum(least, values), np.maximum(most, values))


def _draws(contexts: int) -> IntArray:
    """Draw contexts with replacement, shape (`RESAMPLES`, contexts)."""
    return np.random.default_rng(0).integers(0, contexts, (RESAMPLES, contexts))


def intervals_of(scores: FloatArray, common: Common) -> tuple[FloatArray, FloatArray]:
    """Return the ends of 95 % intervals of scores that the line links, from resamples of whole contexts.

    linked +- t * s * sqrt(c / (c - 1)), with the standard deviation s of the resamples and the quantile t of Student's
    distribution with c - 1 degrees of freedom for c contexts (the bootstrap variance is that of a mean, which is too
    small by (c - 1) / c); cut at the ends of the scale.

    Args:
        scores: under the first judge.
        common: rows that both judges have judged; two contexts or more.
    """
    contexts = len(common.rows)
    counts = np.array(
        [np.bincount(draw, minlength=contexts) for draw in _draws(contexts)], dtype=np.float64
    )
    return _ends(linked(scores, common)[0], linked(scores, common, counts), common)


def _ends(
    middle: FloatArray, resampled: FloatArray, common: Common
) -> tuple[FloatArray, FloatArray]:
    from scipy.special import stdtrit

    contexts = len(common.rows)
    spread = np.std(resampled, axis=0, ddof=1) * np.sqrt(contexts / (contexts - 1))
    half = stdtrit(contexts - 1, 0.975) * spread
    low, high = common.scale.ends
    return np.maximum(middle - half, low), np.minimum(middle + half, high)


def held_out(
    first: FloatArray,
    second: FloatArray,
    contexts: IntArray,
    scale: LinearScore,
    scores: tuple[FloatArray, FloatArray] | None = None,
) -> HeldOut:
    """Return errors of the maps on contexts that they were not made from, in `FOLDS` folds of contexts.

    Args:
        first: log-odds under the first judge, shape (rows, rungs).
        second: log-odds under the second judge, same shape.
        contexts: the number of the context of each row, from 0 without gaps.
        scale: of the score.
        scores: of the rows under both judges; None for those of the log-odds, which are cut at +-`MOST_ODDS`.
    """
    before, after = scores or (scores_of(first, scale), scores_of(second, scale))
    common = common_rows(first, second, contexts, scale)
    rest = np.arange(len(common.rows)) % FOLDS != np.arange(FOLDS)[:, None]
    line, ranks = np.empty_like(before), np.empty_like(before)
    for counts in rest:
        test = ~counts[contexts]
        line[test] = linked(before[test], common, counts[None].astype(np.float64))[0]
        ranks[test] = np.interp(before[test], *by_rank(before[~test], after[~test], scale))
    residuals = np.abs(np.array([before, line, ranks]) - after)
    return HeldOut(dict(zip(MAPS, residuals, strict=True)))


def half_width(residuals: FloatArray) -> float | None:
    """Return half of an interval's length for the score of one text: the .95 (n + 1)-th residual of n.

    A rank between two whole numbers gives a residual between their two: rounded up, 97 % and more of the texts would be
    inside for n from 33 to 38. Where the density of residuals falls, at least 95 % are inside on average.

    Args:
        residuals: absolute, of held-out rows.

    Returns:
        None where there are too few residuals.
    """
    if (len(residuals) + 1) * 0.95 > len(residuals) + 1e-9:
        return None
    return float(np.quantile(residuals, 0.95, method="weibull"))
