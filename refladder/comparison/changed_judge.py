"""What readings of the same anchors by a judge say: whether its scale has moved, or its order.

A rung is treated as a text: its place is the share that it beats of the rungs of the other anchors in the same reading.
A scale that moved leaves places alone, and an order that moved does not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import stdtrit

from refladder.arrays import known
from refladder.comparison.decisions import deciding_cutoffs
from refladder.scoring.modes.ratings import ENDS
from refladder.scoring.rung_scale import rungs_beaten

if TYPE_CHECKING:
    from collections.abc import Sequence

    from refladder.arrays import FloatArray, IntArray

SAME, SCALE, ORDER, UNKNOWN = "same", "scale", "order", "unknown"
# The fewest anchors, or contexts of texts, whose differences have a bound.
LEAST = 6
# The excess of decisions that is allowed by default, and shifts in rating points: beyond the first one the scale has moved,
# and within the second one it has not.
AT_MOST, MOVED, STILL = 0.03, 0.1, 0.3
_DIGITS = 9


class Reading(NamedTuple):
    """Ratings of rungs, shape (anchors, levels), and of frozen texts, shape (texts,); NaN where one was not read."""

    rungs: FloatArray
    texts: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """Shares of decisions that change: since the baseline, between its two readings, and their difference.

    `least` is the lower end of the one-sided 95 % interval of the excess; None without enough anchors or contexts.
    """

    changed: float | None
    noise: float | None
    excess: float | None
    least: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What is found on a dimension; `unparsed` counts rungs and texts of the new reading without a rating.

    `shift` is the mean difference of the ratings of rungs, with the ends of its 95 % interval over anchors. The shares are by
    `rating` and by `place`, and those of frozen texts `text_rating` and `text_place`, None without any. Of `pairs` of rungs
    of one ladder, `wrong_before` and `wrong_now` are in the wrong order.
    """

    dimension: str
    verdict: str
    anchors: int
    unparsed: int
    shift: float | None
    shift_low: float | None
    shift_high: float | None
    rating: Changed
    place: Changed
    text_rating: Changed | None
    text_place: Changed | None
    pairs: int
    wrong_before: int
    wrong_now: int


def change_of(
    dimension: str,
    before: Reading,
    again: Reading,
    now: Reading,
    contexts: Sequence[str] = (),
    *,
    at_most: float = AT_MOST,
) -> Change:
    """Compare a reading with the two of the baseline; `contexts` are those of the frozen texts."""
    anchors, levels = before.rungs.shape
    readings = before, again, now
    unparsed = int(np.isnan(now.rungs).sum() + np.isnan(now.texts).sum())
    rungs = np.arange(anchors)
    of_texts: list[Changed | None] = [None, None]
    if unparsed:
        shift, low, high = math.nan, math.nan, math.nan
        rating = place = _UNKNOWN
    else:
        shift, low, high = _interval((now.rungs - before.rungs).mean(axis=1))
        rating = _changed([each.rungs for each in readings], rungs)
        # With one anchor, a rung has no others.
        place = (
            _changed([_places(each.rungs) for each in readings], rungs) if anchors > 1 else _UNKNOWN
        )
        if len(now.texts):
            units = np.unique(contexts, return_inverse=True)[1].astype(np.int64)
            of_texts = [
                _changed([each.texts for each in readings], units),
                _changed([_placed(each.texts, each.rungs) for each in readings], units),
            ]
    verdict = _verdict(
        [place, *filter(None, of_texts[1:])],
        [rating, *filter(None, of_texts[:1])],
        (low, high),
        at_most,
    )
    return Change(
        dimension=dimension,
        verdict=UNKNOWN if anchors < LEAST else verdict,
        anchors=anchors,
        unparsed=unparsed,
        shift=known(shift),
        shift_low=known(low),
        shift_high=known(high),
        rating=rating,
        place=place,
        text_rating=of_texts[0],
        text_place=of_texts[1],
        pairs=anchors * levels * (levels - 1) // 2,
        wrong_before=_wrong(before.rungs),
        wrong_now=_wrong(now.rungs),
    )


_UNKNOWN = Changed(changed=None, noise=None, excess=None, least=None)


def _verdict(
    places: Sequence[Changed],
    ratings: Sequence[Changed],
    shift: tuple[float, float],
    at_most: float,
) -> str:
    """Return the first verdict that fits."""
    if any(each.least is None for each in (*places, *ratings)):
        return UNKNOWN
    if any(each.least is not None and each.least > at_most for each in places):
        return ORDER
    low, high = shift
    moved = low > MOVED or high < -MOVED
    if moved or any(each.least is not None and each.least > at_most for each in ratings):
        return SCALE
    return SAME if low >= -STILL and high <= STILL else UNKNOWN


def _places(rungs: FloatArray) -> FloatArray:
    """Return the place of each rung among those of the other anchors, shape (anchors, levels)."""
    places = [_placed(its, np.delete(rungs, anchor, axis=0)) for anchor, its in enumerate(rungs)]
    return np.array(places)


def _placed(ratings: FloatArray, rungs: FloatArray) -> FloatArray:
    levels = np.tile(np.arange(rungs.shape[1]), len(rungs)).tolist()
    # Equal places are equal numbers.
    return np.round(rungs_beaten(ratings, rungs.ravel(), levels, ENDS), _DIGITS)


def _changed(scores: Sequence[FloatArray], units: IntArray) -> Changed:
    """Return the shares at the cut-offs of the first scores, over `units`: the anchor or context of each row of scores."""
    before, again, now = scores
    cuts = deciding_cutoffs(before.ravel())
    if not len(cuts):
        return _UNKNOWN
    passes = [each[..., np.newaxis] >= cuts for each in (before, again, now)]
    counts = np.bincount(units)
    of_units = []
    for other in passes[1:]:
        differs = (other != passes[0]).reshape(len(units), -1).mean(axis=1)
        of_units.append(np.bincount(units, differs) / counts)
    noise, changed = of_units
    excess = changed - noise
    least = None
    if len(excess) >= LEAST:
        distance = float(stdtrit(len(excess) - 1, 0.95)) * _standard_error(excess)
        least = float(excess.mean()) - distance
    return Changed(
        changed=float(changed.mean()),
        noise=float(noise.mean()),
        excess=float(excess.mean()),
        least=least,
    )


def _interval(differences: FloatArray) -> tuple[float, float, float]:
    """Return the mean over anchors and its 95 % interval by Student's t."""
    mean = float(differences.mean())
    if len(differences) < 2:
        return mean, math.nan, math.nan
    distance = float(stdtrit(len(differences) - 1, 0.975)) * _standard_error(differences)
    return mean, mean - distance, mean + distance


def _standard_error(values: FloatArray) -> float:
    return float(values.std(ddof=1)) / math.sqrt(len(values))


def _wrong(rungs: FloatArray) -> int:
    """Count the pairs of rungs of one ladder of which the lower one is rated higher."""
    rated = np.round(rungs, _DIGITS)
    low, high = np.triu_indices(rungs.shape[1], 1)
    return int((rated[:, low] > rated[:, high]).sum())
