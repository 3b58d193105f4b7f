"""Maps of one column of scores to the scale of another, from texts that have both.

Four maps, from the simplest: the scores as they are, a shift of the mean, a line that gives equal means and standard
deviations (linear equating), and scores of equal rank (equipercentile equating; Kolen and Brennan, Test Equating, Scaling,
and Linking, chapter 2). The one with the least error on texts that were held out is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from refladder.statistics.linking import KNOTS, MOST_KNOTS, RESAMPLES, Map, equipercentile

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from refladder.arrays import BoolArray, FloatArray, IntArray

MapName = Literal["identity", "shift", "line", "equipercentile"]
MAPS: tuple[MapName, ...] = ("identity", "shift", "line", "equipercentile")
# Texts are left out one at a time up to this number, and in this many parts above it.
_ONE_BY_ONE, _PARTS = 1000, 200
# A line continues beyond the scores for this many times their range.
_BEYOND = 10.0
# A map is clearly worse if its error is larger by this number of standard errors.
_CLEARLY = 2.0


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
    """Return the map with the least mean error; of equal ones, the simplest."""
    return min(MAPS, key=lambda name: round(float(np.mean(residuals[name])), 9))


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
    members = np.split(np.argsort(units, kind="stable"), np.cumsum(np.bincount(units))[:-1])
    draws = np.random.default_rng(0).integers(0, count, (RESAMPLES, count))
    resampled = np.empty((RESAMPLES, len(knots)))
    for row, draw in enumerate(draws):
        drawn = np.concatenate([members[unit] for unit in draw])
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


def best_cutoff(scores: FloatArray, wanted: BoolArray) -> float:
    """Return the cut-off with the fewest decisions that differ; of several, the one in the middle."""
    order = np.argsort(scores, kind="stable")
    ordered, passes = scores[order], wanted[order]
    # These are the wrong decisions if the first k texts fail and the others pass, for k from 0.
    wrong = np.concatenate(([0], np.cumsum(np.where(passes, 1, -1)))) + np.count_nonzero(~passes)
    cuts = np.concatenate(([-np.inf], (ordered[1:] + ordered[:-1]) / 2, [np.inf]))
    between = np.concatenate(([True], ordered[1:] > ordered[:-1], [True]))
    wrong, cuts = wrong[between], cuts[between]
    least = np.flatnonzero(wrong == wrong.min())
    return float(cuts[least[len(least) // 2]])


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
