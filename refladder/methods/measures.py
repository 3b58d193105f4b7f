"""Shares for the report card, counted by context so that they have intervals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from refladder.metaeval.shares import share_intervals
from refladder.ranking.estimators import SAME
from refladder.records import TIE
from refladder.scoring.columns import has_low_mass
from refladder.scoring.judging import inconsistency

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from refladder.records import Judgment


class Part(NamedTuple):
    """The key of a count: the name of the share, a dimension and the id of a context."""

    name: str
    dimension: str
    context: str


Measures = dict[Part, tuple[float, int]]  # points, of how many


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A share, points / `of`, with its 95 % interval by the spread between contexts; None with fewer than two."""

    value: float
    low: float | None
    high: float | None
    of: int


def add(measures: Measures, part: Part, points: float, count: int) -> None:
    """Add points and the number of cases in which they could be won."""
    before = measures.get(part, (0.0, 0))
    measures[part] = (before[0] + points, before[1] + count)


def joined(parts: Iterable[Mapping[Part, tuple[float, int]]]) -> Measures:
    """The sum of several mappings."""
    measures: Measures = {}
    for added in parts:
        for part, (points, count) in added.items():
            add(measures, part, points, count)
    return measures


def of_judgments(judgments: Iterable[Judgment]) -> Measures:
    """The shares of all judgments, by dimension and context: `unread` of all; `faint` and `tied` of those parsed."""
    counts: dict[tuple[str, str], list[int]] = {}
    for judgment in judgments:
        counted = counts.setdefault((judgment.dimension, judgment.context_id), [0, 0, 0, 0, 0])
        counted[0] += 1
        if judgment.logprobs is None:
            counted[1] += 1
            continue
        counted[2] += has_low_mass(judgment)
        if len(judgment.outcomes) > 1:
            counted[3] += 1
            counted[4] += _undecided(judgment.outcomes, judgment.logprobs)
    measures: Measures = {}
    for (dimension, context), (asked, unread, faint, choices, tied) in counts.items():
        measures[Part("unread", dimension, context)] = (unread, asked)
        measures[Part("faint", dimension, context)] = (faint, asked - unread)
        if choices:
            measures[Part("tied", dimension, context)] = (tied, choices)
    return measures


def of_orders(judgments: Sequence[Judgment]) -> Measures:
    """`inconsistency` of judgments in the canonical order, the swapped pair behind each: pairs whose orders differ."""
    groups: dict[Part, list[Judgment]] = {}
    for judgment in judgments:
        groups.setdefault(Part("inconsistency", judgment.dimension, judgment.context_id), []).append(judgment)
    return {part: inconsistency(both_orders) for part, both_orders in groups.items()}


def _undecided(outcomes: tuple[str, ...], logprobs: tuple[float, ...]) -> bool:
    second, best = sorted(logprobs)[-2:]
    # of two answers, log-probabilities that differ by 4 d are probabilities that differ by 2 d where both are near 1/2
    return best - second <= 4 * SAME or outcomes[logprobs.index(best)] == TIE


def share_of(parts: Iterable[tuple[str, tuple[float, int]]]) -> Share | None:
    """One share with its interval, from (context, (points, of how many)) parts; None when there is nothing to count."""
    sums: dict[str, tuple[float, int]] = {}
    for context, (points, count) in parts:
        before = sums.get(context, (0.0, 0))
        sums[context] = (before[0] + points, before[1] + count)
    by_context, counts = np.array(list(sums.values()), dtype=np.float64).reshape(-1, 2).T
    of = int(counts.sum())
    if of == 0:
        return None
    low, high = (None if np.isnan(end) else end for end in share_intervals(by_context, counts).tolist())
    return Share(value=float(by_context.sum() / of), low=low, high=high, of=of)
