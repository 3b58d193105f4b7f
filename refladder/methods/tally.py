"""Counts of a method while it asks its judge."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from refladder.methods.measures import Measures, joined, of_judgments

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
        self.judgments += len(questions)
        reused = judge.log.reused
        self.characters += sum(map(judge.characters, questions))
        judgments = judge.ask(questions, progress)
        self.reused += judge.log.reused - reused
        for judgment in judgments:
            if judgment.logprobs is None:
                self.unreadable += 1
                self.reasons[f"{words}: {judgment.note}"] += 1
        self.measures = joined([self.measures, of_judgments(judgments)])
        return judgments

    def notes(self) -> tuple[str, ...]:
        """What went wrong, for the user, the most frequent first."""
        shown = [reason if count == 1 else f"{count:,} x {reason}" for reason, count in self.reasons.most_common(SHOWN)]
        left = len(self.reasons) - SHOWN
        return (*shown, f"and {left:,} more like these") if left > 0 else tuple(shown)
