"""Shares for the report card: counted by context, so that they have intervals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from refladder.jobs.columns import is_faint
from refladder.metaeval.bootstrap import percentile_interval
from refladder.ranking.estimators import SAME
from refladder.records import TIE
from refladder.scoring.judging import inconsistency

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from refladder.records import Judgment

    FloatArray = NDArray[np.float64]


class Part(NamedTuple):
    """What a share is about: its name, a dimension and the id of a context."""

    name: str
    dimension: str
    context: str


Measures = dict[Part, tuple[float, int]]  # points, of how many


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A share and how sure it is.

    `value` = points / `of`, between 0 and 1. `low` and `high` are the ends of its 95 % bootstrap interval over
    contexts; None where fewer than two contexts have anything to count.
    """

    value: float
    low: float | None
    high: float | None
    of: int


def add(measures: Measures, part: Part, points: float, count: int) -> None:
    """Add points and the number that they are of."""
    before = measures.get(part, (0.0, 0))
    measures[part] = (before[0] + points, before[1] + count)


def joined(parts: Iterable[Mapping[Part, tuple[float, int]]]) -> Measures:
    """The sum of several."""
    found: Measures = {}
    for one in parts:
        for part, (points, count) in one.items():
            add(found, part, points, count)
    return found


def of_judgments(judgments: Iterable[Judgment]) -> Measures:
    """What can be said of any judgments, by dimension and context.

    `unread`: those that gave no number, of all. `faint`: those whose labels together had less than half of the
    probability, of those that were read. `tied`: those that prefer no answer (a tie is the most probable one, or two
    are equally probable), of those that were read and had a choice.
    """
    counts: dict[tuple[str, str], list[int]] = {}
    for judgment in judgments:
        own = counts.setdefault((judgment.dimension, judgment.context_id), [0, 0, 0, 0, 0])
        own[0] += 1
        if judgment.logprobs is None:
            own[1] += 1
            continue
        own[2] += is_faint(judgment)
        if len(judgment.outcomes) > 1:
            own[3] += 1
            own[4] += _undecided(judgment.outcomes, judgment.logprobs)
    found: Measures = {}
    for (dimension, context), (asked, unread, faint, choices, tied) in counts.items():
        found[Part("unread", dimension, context)] = (unread, asked)
        found[Part("faint", dimension, context)] = (faint, asked - unread)
        if choices:
            found[Part("tied", dimension, context)] = (tied, choices)
    return found


def of_orders(judgments: Sequence[Judgment]) -> Measures:
    """`inconsistency` of judgments against rungs, made with both orders: pairs whose two orders choose differently.

    Args:
        judgments: in the canonical order, the swapped pair behind each.
    """
    groups: dict[Part, list[Judgment]] = {}
    for one in judgments:
        groups.setdefault(Part("inconsistency", one.dimension, one.context_id), []).append(one)
    return {part: inconsistency(own) for part, own in groups.items()}


def _undecided(outcomes: tuple[str, ...], logprobs: tuple[float, ...]) -> bool:
    second, best = sorted(logprobs)[-2:]
    # of two answers, log-probabilities that differ by 4 d are probabilities that differ by 2 d where both are near 1/2
    return best - second <= 4 * SAME or outcomes[logprobs.index(best)] == TIE


def share_of(
    parts: Iterable[tuple[str, tuple[float, int]]], places: Mapping[str, int], weights: FloatArray
) -> Share | None:
    """One share with its interval.

    Args:
        parts: (context, (points, of how many)); a context may stand there several times.
        places: context to its column in the weights.
        weights: shape (resamples, contexts), how often a resample holds each context.

    Returns:
        None when there is nothing to count.
    """
    points, counts = np.zeros(len(places)), np.zeros(len(places))
    for context, (got, count) in parts:
        points[places[context]] += got
        counts[places[context]] += count
    of = int(counts.sum())
    if of == 0:
        return None
    low, high = np.nan, np.nan
    if np.count_nonzero(counts) > 1:
        drawn = weights @ counts
        values = np.divide(weights @ points, drawn, out=np.full(len(weights), np.nan), where=drawn > 0)
        low, high = percentile_interval(values)
    known = not np.isnan(low)
    return Share(value=float(points.sum() / of), low=low if known else None, high=high if known else None, of=of)
