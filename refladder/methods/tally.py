"""Counts of a method while it asks its judge."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from refladder.methods.measures import Measures, add, joined, of_judgments

if TYPE_CHECKING:
    from collections.abc import Sequence

    from refladder.records import Judgment, Progress
    from refladder.scoring.asker import Asker
    from refladder.scoring.question import Question

SHOWN = 5  # reasons, to the user


@dataclass(slots=True)
class Tally:
    """Counts of a method while it runs."""

    judgments: int = 0
    reused: int = 0
    unreadable: int = 0
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
        self.reasons.update(f"{words}: {judgment.note}" for judgment in judgments if judgment.logprobs is None)
        return judgments

    def add(self, judgments: Sequence[Judgment], characters: int, measures: Measures | None = None) -> None:
        """Count judgments that were needed, the characters of their prompts, and further shares of them."""
        self.judgments += len(judgments)
        self.unreadable += sum(judgment.logprobs is None for judgment in judgments)
        self.characters += characters
        for part, (points, count) in (of_judgments(judgments) | (measures or {})).items():
            add(self.measures, part, points, count)

    def counts(self, measures: Measures | None = None) -> dict[str, Any]:
        """The counts of a `MethodResult`, with further shares for the report card."""
        return {
            "judgments": self.judgments,
            "reused": self.reused,
            "unreadable": self.unreadable,
            "characters": self.characters,
            "measures": joined([self.measures, measures or {}]),
        }

    def notes(self) -> tuple[str, ...]:
        """What went wrong, for the user, the most frequent first."""
        shown = [reason if count == 1 else f"{count:,} x {reason}" for reason, count in self.reasons.most_common(SHOWN)]
        left = len(self.reasons) - SHOWN
        return (*shown, f"and {left:,} more like these") if left > 0 else tuple(shown)


def total(tallies: Sequence[Tally]) -> Tally:
    """The sum of several tallies; the reasons stay with each."""
    return Tally(
        judgments=sum(tally.judgments for tally in tallies),
        reused=sum(tally.reused for tally in tallies),
        unreadable=sum(tally.unreadable for tally in tallies),
        characters=sum(tally.characters for tally in tallies),
        measures=joined(tally.measures for tally in tallies),
    )
