"""Maps of one column of scores to the scale of another, from texts that have both.

Four maps, from the simplest: the scores as they are, a shift of the mean, a line that gives equal means and standard
deviations (linear equating), and scores of equal rank (equipercentile equating; Kolen and Brennan, Test Equating, Scaling,
and Linking, chapter 2). The one with the least error on texts that were held out is used; the scores as they are, unless
it is better by more than the standard error of the difference.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from refladder.comparison.decisions import best_cutoff

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from refladder.arrays import BoolArray, FloatArray, IntArray

MapName = Literal["identity", "shift", "line", "equipercentile"]
MAPS: tuple[MapName, ...] = ("identity", "shift", "line", "equipercentile")
# A line is stored at this number of scores, and a map of equal ranks at this number at most.
KNOTS, MOST_KNOTS = 41, 400
RESAMPLES = 400
# Texts are left out one at a time up to this number, and in this many parts above it.
_ONE_BY_ONE, _PARTS = 1000, 20
# A line continues beyond the scores for this many times their range.
_BEYOND = 10.0
# A map is clearly worse if its error is larger by this number of standard errors.
_CLEARLY = 2.0


class Map(NamedTuple):
    """Scores in the first column, rising, and the same on the scale of the second with the ends of an interval."""

    scores: FloatArray
    values: FloatArray
    least: FloatArray
    most: FloatArray


class Changes(NamedTuple):
    """How many texts are decided otherwise than by the second column: by the first, its map, and its best cut-off."""

    unlinked: int
    linked: int
    best: int


def mapped(name: str, scores: FloatArray, first: FloatArray, second: FloatArray) -> FloatArray:
    """Map scores, shape (scores,), by common texts: their scores in both columns, shape (texts,) each."""
    if name == "identity":
        return scores
    if name == "equipercentile":
        knots = _seen(first)
        values = equipercentile(knots, np.round(first, 9), second)
        return np.asarray(np.interp(scores, knots, values), dtype=np.float64)
    spread = float(first.std())
    slope = float(second.std()) / spread if name == "line" and spread > 0 else 1.0
    return float(second.mean()) + slope * (scores - float(first.mean()))


def equipercentile(scores: FloatArray, first: FloatArray, second: FloatArray) -> FloatArray:
    """Convert scores to those of equal rank in another column, by the scores of common texts, shape (texts,) each."""
    ordered = np.sort(first)
    ranks = (
        np.searchsorted(ordered, scores, "left") + np.searchsorted(ordered, scores, "right")
    ) / (2 * len(ordered))
    return np.asarray(np.quantile(second, np.clip(ranks, 0.0, 1.0)), dtype=np.float64)


def line_of(first: FloatArray, second: FloatArray) -> tuple[float, float]:
    """Return slope and shift of the line."""
    low, high = mapped("line", np.array([0.0, 1.0]), first, second)
    return float(high - low), float(low)


def held_out(first: FloatArray, second: FloatArray) -> dict[MapName, FloatArray]:
    """Return the mapped score of each text by maps that are made without it."""
    values = {name: np.empty_like(first) for name in MAPS}
    for test in _folds(len(first)):
        for name in MAPS:
            values[name][test] = mapped(name, first[test], first[~test], second[~test])
    return values


def best_of(residuals: Mapping[MapName, FloatArray]) -> MapName:
    """Return the map with the least mean error; of equal ones, the simplest.

    The scores stay as they are unless it is better by more than the standard error of the difference, shape (texts,).
    """
    best = min(MAPS, key=lambda name: round(float(np.mean(residuals[name])), 9))
    better = residuals["identity"] - residuals[best]
    error = float(better.std(ddof=1)) / len(better) ** 0.5
    return best if float(better.mean()) > error else "identity"


def half_width(residuals: FloatArray) -> float | None:
    """Return half of an interval's length for the score of one text: the .95 (n + 1)-th residual of n.

    A rank between two whole numbers gives a residual between their two: rounded up, 97 % and more of the texts would be
    inside for n from 33 to 38. Where the density of residuals falls, at least 95 % are inside on average.

    Args:
        residuals: absolute, of held-out texts.

    Returns:
        None where there are too few residuals.
    """
    if (len(residuals) + 1) * 0.95 > len(residuals) + 1e-9:
        return None
    return float(np.quantile(residuals, 0.95, method="weibull"))


def map_of(
    residuals: Mapping[MapName, FloatArray],
    first: FloatArray,
    second: FloatArray,
    units: IntArray,
    *,
    has_interval: bool,
) -> Map:
    """Return the map with the least error at its knots, with its 95 % interval; without one, its ends are empty.

    The interval is middle +- t * s * sqrt(c / (c - 1)) with the standard deviation s of resamples of the c units. That of
    `equipercentile` also holds their quantiles .025 and .975. That of `identity`, which estimates nothing, is the line's.
    Chance may have chosen the map: so the interval holds the values of each map that is not clearly worse.

    Args:
        residuals: absolute errors of each map on texts that were held out, shape (texts,) each.
        first: scores of the texts in the first column, shape (texts,).
        second: in the second column.
        units: the number of the unit (text or context) of each text, from 0 without gaps.
        has_interval: whether there are enough texts for one.
    """
    name = best_of(residuals)
    low, high = float(first.min()), float(first.max())
    far = _BEYOND * max(high - low, abs(high), 1.0)
    knots = np.unique([low - far, *np.linspace(low, high, KNOTS), high + far])
    if name == "equipercentile":
        knots = _seen(first)
    values = mapped(name, knots, first, second)
    if not has_interval:
        return Map(knots, values, np.empty(0), np.empty(0))
    least, most = _ends("line" if name == "identity" else name, knots, first, second, units)
    for other in MAPS:
        worse = residuals[other] - residuals[name]
        if float(worse.mean()) <= _CLEARLY * float(worse.std(ddof=1)) / len(worse) ** 0.5:
            others = mapped(other, knots, first, second)
            least, most = np.minimum(least, others), np.maximum(most, others)
    return Map(knots, values, least, most)


def _ends(
    name: str, knots: FloatArray, first: FloatArray, second: FloatArray, units: IntArray
) -> tuple[FloatArray, FloatArray]:
    from scipy.special import stdtrit

    count = int(units.max()) + 1
    by_unit, sizes = np.argsort(units, kind="stable"), np.bincount(units)
    starts = np.cumsum(sizes) - sizes
    random = np.random.default_rng(0)
    resampled = np.empty((RESAMPLES, len(knots)))
    for row in range(RESAMPLES):
        draw = random.integers(0, count, count)
        # The texts of a unit are neighbours: its start, and the number of each text in it.
        ends = np.cumsum(sizes[draw])
        within = np.arange(ends[-1]) - np.repeat(ends - sizes[draw], sizes[draw])
        drawn = by_unit[np.repeat(starts[draw], sizes[draw]) + within]
        resampled[row] = mapped(name, knots, first[drawn], second[drawn])
    spread = resampled.std(axis=0, ddof=1) * np.sqrt(count / (count - 1))
    half = stdtrit(count - 1, 0.975) * spread
    middle = mapped(name, knots, first, second)
    if name != "equipercentile":
        return middle - half, middle + half
    low, high = np.quantile(resampled, [0.025, 0.975], axis=0)
    return np.minimum(middle - half, low), np.maximum(middle + half, high)


def changes_at(at: float, first: FloatArray, second: FloatArray, linked: FloatArray) -> Changes:
    """Count the texts whose decision is another than `second >= at`.

    The decisions are `first >= at`, `linked >= at` (`linked` was held out), and `first` at the cut-off that decides most
    of the other texts as the second column does: what is left is the order of the texts, and the chance in few of them.
    """
    wanted = second >= at
    best = np.empty_like(wanted)
    for test in _folds(len(first)):
        best[test] = first[test] >= best_cutoff(first[~test], wanted[~test])
    decisions = (first >= at, linked >= at, best)
    return Changes(*(int(np.count_nonzero(each != wanted)) for each in decisions))


def _folds(texts: int) -> Iterator[BoolArray]:
    """Yield which texts are held out together."""
    parts = texts if texts <= _ONE_BY_ONE else _PARTS
    for part in range(parts):
        yield np.arange(texts) % parts == part


def _seen(scores: FloatArray) -> FloatArray:
    """Return different scores, rising: at most `MOST_KNOTS`."""
    seen = np.unique(np.round(scores, 9))
    if len(seen) > MOST_KNOTS:
        seen = seen[np.linspace(0, len(seen) - 1, MOST_KNOTS).round().astype(int)]
    return seen
