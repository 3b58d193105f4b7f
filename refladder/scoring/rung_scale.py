"""The place of a rating on a ladder: the share of the rungs that a judge rates lower."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from refladder.errors import plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from refladder.arrays import FloatArray
    from refladder.records import RungRating

# Ratings are compared at these digits: a place jumps at ties, and rounding errors must not move it.
_DIGITS = 9
# The fewest anchors whose choice gives a standard error.
LEAST_ANCHORS = 3


def rungs_beaten(
    ratings: FloatArray, rungs: FloatArray, levels: Sequence[int], ends: tuple[float, float]
) -> FloatArray:
    """Return the share of rungs that each rating beats, between 0 and 1; NaN where nothing is known.

    At the rating of a rung, it is the share of a level's rungs that are rated lower, and half of those that are rated
    equally, as a mean over the levels. Between two such ratings it is linear. It is 0 at the low end of the rating
    scale and 1 at the high end, unless rungs are rated there.

    Source: King and Wand 2007 (nonparametric anchoring vignettes), with a mean over levels.

    Args:
        ratings: those to place.
        rungs: the ratings of the rungs; NaN is left out.
        levels: the level of each rung.
        ends: of the rating scale.
    """
    at = np.round(rungs, _DIGITS)
    known = ~np.isnan(at)
    if not known.any():
        return np.full(np.shape(ratings), np.nan)
    _, level, sizes = np.unique(np.asarray(levels)[known], return_inverse=True, return_counts=True)
    knots, knot = np.unique(at[known], return_inverse=True)
    steps = np.bincount(knot, 1 / (sizes[level] * len(sizes)))
    shares = np.cumsum(steps) - steps / 2
    low, high = ends
    if knots[0] > low:
        knots, shares = np.append(low, knots), np.append(0.0, shares)
    if knots[-1] < high:
        knots, shares = np.append(knots, high), np.append(shares, 1.0)
    return cast("FloatArray", np.interp(np.round(ratings, _DIGITS), knots, shares))


class RungScale:
    """A judge's ratings of rungs on one dimension, which place its ratings of texts."""

    def __init__(self, readings: Sequence[RungRating], ends: tuple[float, float]) -> None:
        self._ends = ends
        self._levels = np.array([reading.level for reading in readings], np.int64)
        self._anchors = np.array([reading.anchor for reading in readings], np.str_)
        self._rungs = np.array([reading.rating for reading in readings], np.float64)
        self.problem = self._problem()

    def _problem(self) -> str:
        """Say why ratings have no place; empty if they have one."""
        read = ~np.isnan(self._rungs)
        if not read.any():
            return "the judge's ratings of the rungs are missing or unparsed"
        for level in np.unique(self._levels).tolist():
            of_level = read[self._levels == level]
            if 2 * of_level.sum() < len(of_level):
                return (
                    f"{of_level.sum()} of {plural(len(of_level), 'rung')} of level {level} have a rating, and a grade "
                    "needs half of them"
                )
        known = np.round(self._rungs[read], _DIGITS)
        if known.min() == known.max():
            return f"the judge rates all rungs {known[0]:g}"
        return ""

    def grades(self, ratings: FloatArray, human: tuple[float, float]) -> FloatArray:
        """Place ratings on the ladder, in units of the human scale; NaN where there is a problem."""
        if self.problem:
            return np.full(np.shape(ratings), np.nan)
        low, high = human
        beaten = rungs_beaten(ratings, self._rungs, self._levels.tolist(), self._ends)
        return low + (high - low) * beaten

    def errors(self, ratings: FloatArray, human: tuple[float, float]) -> FloatArray:
        """Return the standard error of each grade through the choice of anchors, by the jackknife; NaN without one.

        Each anchor is left out once, and all ratings are placed again. Source: Efron and Stein 1981.
        """
        anchors = np.unique(self._anchors)
        if self.problem or len(anchors) < LEAST_ANCHORS:
            return np.full(np.shape(ratings), np.nan)
        low, high = human
        places = []
        for anchor in anchors:
            kept = self._anchors != anchor
            levels = self._levels[kept].tolist()
            places.append(rungs_beaten(ratings, self._rungs[kept], levels, self._ends))
        found = np.std(places, axis=0) * np.sqrt(len(anchors) - 1)
        return cast("FloatArray", (high - low) * found)
