"""The place of a rating on a ladder, from a judge's own ratings of the rungs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np

from refladder.records import without_none

if TYPE_CHECKING:
    from collections.abc import Sequence

    from refladder.arrays import FloatArray

# Least rise of the mean rating from the lowest level to the highest.
LEAST_RISE = 0.5
# Digits of the mean ratings: runs that differ by rounding errors have one scale.
_DIGITS = 2


@dataclass(frozen=True, slots=True)
class RungScale:
    """The mean rating of each level of the rungs, from the worst; None for a level without a parsed rating."""

    means: tuple[float | None, ...]

    @property
    def knots(self) -> list[tuple[float, float]]:
        """Return mean ratings and levels, both rising: neighbours out of order are one knot, at their means."""
        pools: list[list[tuple[float, int]]] = []
        for level, rating in enumerate(self.means, start=1):
            if rating is None:
                continue
            pools.append([(rating, level)])
            while len(pools) > 1 and _mean(pools[-2])[0] >= _mean(pools[-1])[0]:
                pools[-2:] = [[*pools[-2], *pools[-1]]]
        return [_mean(pool) for pool in pools]

    @property
    def rise(self) -> float:
        """Return how far the mean rating rises from the lowest level to the highest."""
        known = without_none(self.means)
        return known[-1] - known[0] if known else 0.0

    @property
    def is_usable(self) -> bool:
        """Return whether ratings can be placed between the levels."""
        return self.rise >= LEAST_RISE and len(self.knots) > 1

    @property
    def problem(self) -> str:
        """Say why ratings cannot be placed between the levels."""
        known = without_none(self.means)
        if not known:
            return "the judge's ratings of the rungs are missing or unparsed"
        return (
            f"the judge's mean rating is {known[0]:g} for the lowest level of the rungs and {known[-1]:g} for the "
            f"highest, and a grade needs a rise of {LEAST_RISE:g}"
        )

    def grades(self, ratings: FloatArray, scale: tuple[float, float]) -> FloatArray:
        """Place ratings on the ladder, in units of the human scale; NaN where the scale is not usable.

        A rating equal to the mean of level l of N beats l - 1/2 rungs. Between knots the number is linear; beyond them
        it continues with the slope of the nearest step, to 0 and N.
        """
        low, high = scale
        if not self.is_usable:
            return np.full(len(ratings), np.nan)
        at, levels = np.array(self.knots).T
        slopes = np.diff(levels) / np.diff(at)
        step = np.clip(np.searchsorted(at, ratings) - 1, 0, len(slopes) - 1)
        beaten = levels[step] + (ratings - at[step]) * slopes[step] - 0.5
        beaten = np.clip(beaten, 0.0, len(self.means))
        return cast("FloatArray", low + (high - low) * beaten / len(self.means))


def rung_scale(ratings: Sequence[Sequence[float]]) -> RungScale:
    """Return the scale of the ratings of each level, from the worst."""
    means = [round(sum(each) / len(each), _DIGITS) if each else None for each in ratings]
    return RungScale(tuple(means))


def _mean(pool: Sequence[tuple[float, int]]) -> tuple[float, float]:
    return (
        sum(rating for rating, _ in pool) / len(pool),
        sum(level for _, level in pool) / len(pool),
    )
