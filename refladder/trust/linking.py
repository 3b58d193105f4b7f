"""Scores of one judge on the scale of another, from rungs and rows that both have judged.

Model: the log-odds that a row beats rung k are  a_J (theta - b_k) + c_J  under judge J, with the same theta and b for
both judges. The log-odds of one judge are then a line in those of the other. Its slope comes from the rungs: mean-sigma
to start, the criterion of Stocking and Lord (1983) to finish. Its shift comes from the rows. A score is carried over by
true score equating (Kolen and Brennan, Test Equating, Scaling, and Linking, chapter 6).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from refladder.arrays import FloatArray, IntArray

MOST_ODDS = 8.0  # log-odds are cut here: p = .9997
THETAS = np.linspace(-14.0, 14.0, 141)  # positions at which a characteristic curve is computed
MOST_PROFILES = 100  # rows that a characteristic curve is the mean of
KNOTS = 41  # scores at which a link is stored
RESAMPLES = 200
FOLDS = 5
_GOLDEN = (5**0.5 - 1) / 2


class Line(NamedTuple):
    """Log-odds under the second judge = slope * log-odds under the first + shift."""

    slope: float
    shift: float


class Scale(NamedTuple):
    """A score that is linear in the verdicts: base + sum over rungs k of weights_k * (p(win | k) - p(loss | k))."""

    weights: FloatArray
    base: float

    @property
    def ends(self) -> tuple[float, float]:
        """The least and the greatest score."""
        half = float(np.sum(self.weights))
        return self.base - half, self.base + half


class HeldOut(NamedTuple):
    """Mean absolute errors on contexts that were not used for the link, and the residuals of the link there."""

    linked: float
    identity: float
    equipercentile: float
    residuals: FloatArray


def log_odds(probabilities: FloatArray) -> FloatArray:
    """Log-odds of winning, a tie counting half to each side, cut at +-`MOST_ODDS`.

    Args:
        probabilities: shape (rows, rungs, 3), last axis win, loss, tie.

    Returns:
        Shape (rows, rungs).
    """
    with np.errstate(divide="ignore"):
        odds = np.log(probabilities[..., 0] + probabilities[..., 2] / 2) - np.log(
            probabilities[..., 1] + probabilities[..., 2] / 2
        )
    return cast("FloatArray", np.clip(odds, -MOST_ODDS, MOST_ODDS))


def scores_of(odds: FloatArray, scale: Scale) -> FloatArray:
    """Scores from log-odds: p(win) - p(loss) = tanh(log-odds / 2).

    Args:
        odds: shape (..., rungs).
        scale: of the score.

    Returns:
        Shape (...).
    """
    return cast("FloatArray", scale.base + np.sum(scale.weights * np.tanh(odds / 2), axis=-1))


def line_between(first: FloatArray, second: FloatArray, scale: Scale) -> Line:
    """The line from the log-odds of one judge to those of another.

    Args:
        first: shape (rows, rungs), from `log_odds`.
        second: those of the other judge for the same rows and rungs.
        scale: of the score that the criterion of Stocking and Lord compares.
    """
    rungs, others = (odds.mean(axis=0) - odds.mean() for odds in (first, second))
    start = max(float(np.std(others)), 1e-6) / max(float(np.std(rungs)), 1e-6)
    thetas = np.quantile(second.mean(axis=1), np.linspace(0.02, 0.98, 25))[:, None]
    wanted = scores_of(thetas + others, scale)

    def loss(power: float) -> float:
        return float(np.sum((wanted - scores_of(thetas + start * np.exp(power) * rungs, scale)) ** 2))

    slope = start * float(np.exp(_least(loss, -1.0, 1.0)))
    return Line(slope, float(second.mean() - slope * first.mean()))


def _least(loss: Callable[[float], float], low: float, high: float) -> float:
    """The argument between two ends at which a function with one valley is least (golden section)."""
    inner = [high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)]
    values = [loss(inner[0]), loss(inner[1])]
    for _ in range(24):
        if values[0] <= values[1]:
            high, inner[1], values[1] = inner[1], inner[0], values[0]
            inner[0] = high - _GOLDEN * (high - low)
            values[0] = loss(inner[0])
        else:
            low, inner[0], values[0] = inner[0], inner[1], values[1]
            inner[1] = low + _GOLDEN * (high - low)
            values[1] = loss(inner[1])
    return (low + high) / 2


def linked(scores: FloatArray, first: FloatArray, second: FloatArray, scale: Scale) -> FloatArray:
    """Scores under one judge as scores under another.

    Args:
        scores: under the first judge.
        first: log-odds of common rows, shape (rows, rungs).
        second: those of the second judge.
        scale: of the score, for both judges.
    """
    line = line_between(first, second, scale)
    thetas = np.interp(scores, _characteristic(first, THETAS, scale), THETAS)
    return _characteristic(second, line.slope * thetas + line.shift, scale)


def _characteristic(odds: FloatArray, thetas: FloatArray, scale: Scale) -> FloatArray:
    """The mean score of rows at a position: the mean over the profiles that rows have around their own position."""
    profiles = odds - odds.mean(axis=1, keepdims=True)
    profiles = profiles[:: max(1, -(-len(profiles) // MOST_PROFILES))]
    return cast("FloatArray", scores_of(thetas[:, None, None] + profiles, scale).mean(axis=1))


def equipercentile(scores: FloatArray, first: FloatArray, second: FloatArray) -> FloatArray:
    """Scores under one judge as the scores of equal rank under another.

    Args:
        scores: under the first judge.
        first: scores of common rows, shape (rows,).
        second: those of the second judge.
    """
    ordered = np.sort(first)
    ranks = (np.searchsorted(ordered, scores, "left") + np.searchsorted(ordered, scores, "right")) / (2 * len(ordered))
    return cast("FloatArray", np.quantile(second, np.clip(ranks, 0.0, 1.0)))


def knots_of(scale: Scale) -> FloatArray:
    """The scores at which a link is stored: equally spaced from the least to the greatest."""
    return np.linspace(*scale.ends, KNOTS)


def bootstrap_curves(
    first: FloatArray, second: FloatArray, contexts: IntArray, scale: Scale, *, seed: int = 0
) -> FloatArray:
    """The link at its knots in resamples of whole contexts.

    Args:
        first: shape (rows, rungs).
        second: likewise.
        contexts: the number of the context of each row, shape (rows,).
        scale: of the score.
        seed: of the resamples.

    Returns:
        Shape (`RESAMPLES`, `KNOTS`).
    """
    random = np.random.default_rng(seed)
    rows_of = [np.flatnonzero(contexts == context) for context in np.unique(contexts)]
    curves = []
    for _ in range(RESAMPLES):
        rows = np.concatenate([rows_of[number] for number in random.integers(0, len(rows_of), size=len(rows_of))])
        curves.append(linked(knots_of(scale), first[rows], second[rows], scale))
    return np.array(curves)


def held_out(first: FloatArray, second: FloatArray, contexts: IntArray, scale: Scale) -> HeldOut:
    """Errors of the link on contexts that it was not made from, in `FOLDS` folds of contexts.

    Args:
        first: shape (rows, rungs).
        second: likewise.
        contexts: the number of the context of each row.
        scale: of the score.
    """
    before, after = scores_of(first, scale), scores_of(second, scale)
    fold = np.unique(contexts, return_inverse=True)[1] % FOLDS
    predicted, by_rank = np.empty_like(before), np.empty_like(before)
    for number in range(FOLDS):
        test, rest = fold == number, fold != number
        predicted[test] = linked(before[test], first[rest], second[rest], scale)
        by_rank[test] = equipercentile(before[test], before[rest], after[rest])
    errors = [float(np.mean(np.abs(guess - after))) for guess in (predicted, before, by_rank)]
    return HeldOut(errors[0], errors[1], errors[2], np.abs(predicted - after))


def half_width(residuals: FloatArray, alpha: float = 0.05) -> float | None:
    """Half of the length of an interval for the score of one text: the ceil((n + 1)(1 - alpha))-th residual.

    Args:
        residuals: absolute, of held-out rows.
        alpha: the share of texts outside.

    Returns:
        None where there are too few residuals.
    """
    rank = int(np.ceil((len(residuals) + 1) * (1 - alpha)))
    return None if rank > len(residuals) else float(np.sort(residuals)[rank - 1])
