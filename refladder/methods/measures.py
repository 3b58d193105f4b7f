"""Counts of a method while it asks its judge, and the shares of the report card, by context for their intervals."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from refladder.metaeval.shares import share_intervals
from refladder.ranking.estimators import SAME
from refladder.records import TIE
from refladder.scoring.columns import has_low_mass
from refladder.scoring.judging import inconsistency

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from refladder.records import Judgment, Progress
    from refladder.scoring.asker import Asker
    from refladder.scoring.question import Question

SHOWN = 5  # reasons, to the user


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
    """Shares of judgments by dimension and context: unparsed of all; of low label mass and tied of those parsed."""
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
            second, best = sorted(judgment.logprobs)[-2:]
            # of two answers, log-probabilities that differ by 4 d are probabilities that differ by 2 d where both are
            # near 1/2
            tie = judgment.outcomes[judgment.logprobs.index(best)] == TIE
            counted[4] += tie or best - second <= 4 * SAME
    measures: Measures = {}
    for (dimension, context), (asked, unparsed, low_mass, choices, tied) in counts.items():
        measures[Part("unparsed", dimension, context)] = (unparsed, asked)
        measures[Part("low_mass", dimension, context)] = (low_mass, asked - unparsed)
        if choices:
            measures[Part("tied", dimension, context)] = (tied, choices)
    return measures


def of_orders(judgments: Sequence[Judgment]) -> Measures:
    """`inconsistency` of judgments in the canonical order, the swapped pair behind each: pairs whose orders differ."""
    groups: dict[Part, list[Judgment]] = {}
    for judgment in judgments:
        groups.setdefault(
            Part("inconsistency", judgment.dimension, judgment.context_id), []
        ).append(judgment)
    return {part: inconsistency(both_orders) for part, both_orders in groups.items()}


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
    low, high = (
        None if np.isnan(end) else end for end in share_intervals(by_context, counts).tolist()
    )
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
        """The judge's answers, counted, with why some could not be read."""
        reused = judge.log.reused
        judgments = judge.ask(questions, progress)
        self.reused += judge.log.reused - reused
        self.add(judgments, sum(map(judge.characters, questions)))
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
        for part, (points, count) in (of_judgments(judgments) | (measures or {})).items():
            add(self.measures, part, points, count)

    def counts(self, measures: Measures | None = None) -> dict[str, Any]:
        """The counts of a `MethodResult`, with further shares for the report card."""
        return {
            "judgments": self.judgments,
            "reused": self.reused,
            "unparsed": self.unparsed,
            "characters": self.characters,
            "measures": joined([self.measures, measures or {}]),
        }

    def notes(self) -> tuple[str, ...]:
        """What went wrong, for the user, the most frequent first."""
        shown = [
            reason if count == 1 else f"{count:,} x {reason}"
            for reason, count in self.reasons.most_common(SHOWN)
        ]
        left = len(self.reasons) - SHOWN
        return (*shown, f"and {left:,} more like these") if left > 0 else tuple(shown)


def total(tallies: Sequence[Tally]) -> Tally:
    """The sum of several tallies; the reasons stay with each."""
    return Tally(
        judgments=sum(tally.judgments for tally in tallies),
        reused=sum(tally.reused for tally in tallies),
        unparsed=sum(tally.unparsed for tally in tallies),
        characters=sum(tally.characters for tally in tallies),
        measures=joined(tally.measures for tally in tallies),
    )
