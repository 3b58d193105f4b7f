"""Counts of a method while it asks its judge, and the shares of the report card, by context for their intervals."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from refladder.arrays import known_numbers
from refladder.records import TIE
from refladder.scoring.columns import has_low_mass
from refladder.scoring.verdicts import inconsistency
from refladder.statistics.estimators import SAME
from refladder.statistics.shares import share_intervals

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from refladder.records import Judgment, Progress
    from refladder.scoring.asker import Asker
    from refladder.scoring.question import Question

# The user sees at most this number of reasons.
SHOWN = 5

K = TypeVar("K")


class Part(NamedTuple):
    """The key of a count: the name of the share, a dimension and the id of a context."""

    name: str
    dimension: str
    context: str


# A measure has points, and the number of cases in which they could be won.
Measures = dict[Part, tuple[float, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A share, points / `of`, with its 95 % interval by the spread between contexts; None with fewer than two."""

    value: float
    low: float | None
    high: float | None
    of: int


def add(sums: dict[K, tuple[float, int]], parts: Iterable[tuple[K, tuple[float, int]]]) -> None:
    """Add points, and the number of cases in which they could be won, to those of each key."""
    for key, (points, count) in parts:
        before = sums.get(key, (0.0, 0))
        sums[key] = (before[0] + points, before[1] + count)


def of_judgments(judgments: Iterable[Judgment]) -> Measures:
    """Count judgments by dimension and context: unparsed of all; of low label mass and tied of those parsed."""
    counts: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for judgment in judgments:
        counted = counts[judgment.dimension, judgment.context_id]
        counted["asked"] += 1
        if judgment.logprobs is None:
            counted["unparsed"] += 1
            continue
        counted["low_mass"] += has_low_mass(judgment)
        if len(judgment.outcomes) > 1:
            counted["choices"] += 1
            second, best = sorted(judgment.logprobs)[-2:]
            # If both answers are near 1/2, log-probabilities that differ by 4 d are probabilities that differ by 2 d.
            tie = judgment.outcomes[judgment.logprobs.index(best)] == TIE
            counted["tied"] += tie or best - second <= 4 * SAME
    measures: Measures = {}
    for cell, counted in counts.items():
        unparsed, parsed = counted["unparsed"], counted["asked"] - counted["unparsed"]
        measures[Part("unparsed", *cell)] = unparsed, counted["asked"]
        measures[Part("low_mass", *cell)] = counted["low_mass"], parsed
        if counted["choices"]:
            measures[Part("tied", *cell)] = counted["tied"], counted["choices"]
    return measures


def of_orders(judgments: Sequence[Judgment]) -> Measures:
    """Count pairs whose two orders differ (`inconsistency`); each judgment is followed by that of the swapped pair."""
    groups: defaultdict[Part, list[Judgment]] = defaultdict(list)
    for judgment in judgments:
        groups[Part("inconsistency", judgment.dimension, judgment.context_id)].append(judgment)
    return {part: inconsistency(both_orders) for part, both_orders in groups.items()}


def share_of(parts: Iterable[tuple[str, tuple[float, int]]]) -> Share | None:
    """Compute one share with its interval from (context, (points, of how many)) parts. None if nothing is counted."""
    sums: dict[str, tuple[float, int]] = {}
    add(sums, parts)
    by_context, counts = np.array(list(sums.values()), dtype=np.float64).reshape(-1, 2).T
    of = int(counts.sum())
    if of == 0:
        return None
    low, high = known_numbers(share_intervals(by_context, counts))
    return Share(value=float(by_context.sum() / of), low=low, high=high, of=of)


@dataclass(slots=True)
class Tally:
    """Counts of a method while it runs."""

    judgments: int = 0
    reused: int = 0
    unparsed: int = 0
    characters: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    measures: Measures = field(default_factory=dict)

    def ask(
        self,
        judge: Asker,
        questions: Sequence[Question],
        words: str = "unparsed",
        progress: Progress | None = None,
    ) -> list[Judgment]:
        """Ask the judge, count its answers and note why some could not be parsed."""
        reused = judge.log.reused
        judgments = judge.ask(questions, progress)
        self.reused += judge.log.reused - reused
        self.add(judgments, judge.characters([questions]))
        self.reasons.update(
            f"{words}: {judgment.note}" for judgment in judgments if judgment.logprobs is None
        )
        return judgments

    def add(
        self, judgments: Sequence[Judgment], characters: int, measures: Measures | None = None
    ) -> None:
        """Count judgments that were needed, the characters of their prompts, and further shares of them."""
        self.judgments += len(judgments)
        self.unparsed += sum(judgment.logprobs is None for judgment in judgments)
        self.characters += characters
        add(self.measures, (of_judgments(judgments) | (measures or {})).items())

    def notes(self) -> tuple[str, ...]:
        """List what went wrong, for the user, the most frequent first."""
        shown = []
        for reason, count in self.reasons.most_common(SHOWN):
            shown.append(reason if count == 1 else f"{count:,} x {reason}")
        left = len(self.reasons) - SHOWN
        if left > 0:
            shown.append(f"and {left:,} more like these")
        return tuple(shown)


def total(tallies: Sequence[Tally]) -> Tally:
    """Add up several tallies; the reasons stay with each."""
    whole = Tally()
    for tally in tallies:
        whole.judgments += tally.judgments
        whole.reused += tally.reused
        whole.unparsed += tally.unparsed
        whole.characters += tally.characters
        add(whole.measures, tally.measures.items())
    return whole
