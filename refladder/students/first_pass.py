"""Scoring with a student, which asks no judge."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Any

from refladder.errors import UsageError, option
from refladder.jobs.score import RowScorer
from refladder.records import is_shared
from refladder.scoring.columns import ScoreReport

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from refladder.files.ladder_sets import LadderSet
    from refladder.jobs.score import Item
    from refladder.scoring.judgment_file import JudgmentLog
    from refladder.students.student import Student

# A student is named with this prefix and its folder.
PREFIX = "distilled:"
# Rows that a student reads at a time: always the same ones, so that a resumed run has the same estimates.
CHUNK = 1024
NO_CONTEXT = "no text of the context, which the student reads; give it in a column 'context', or with --ladders"


def student_folder(name: str) -> Path:
    """Return the folder that `distilled:FOLDER` names."""
    return Path(name.removeprefix(PREFIX)).expanduser()


def student_judge(judge: str, asking: Iterable[str]) -> Student:
    """Return the student that is the judge of a run."""
    for name in asking:
        raise UsageError(f"{judge} asks no model, and {name} is for asking one; leave it out")
    from refladder.students.student import open_student

    if judge == PREFIX:
        raise UsageError(
            f"{option('judge')} {judge!r}: must be {PREFIX}FOLDER, with a folder of `refladder distil`"
        )
    return open_student(student_folder(judge))


def context_text_of(item: Item, ladders: LadderSet | None) -> str | None:
    """Return the text of a row's context: its own, or that of a ladder set; None if neither has one."""
    if item.output is not None and not item.output.context_id:
        # Shared ladders need no context.
        return ""
    if item.text is not None or ladders is None or item.output is None:
        return item.text
    context = ladders.contexts.get(item.output.context_id)
    return None if context is None else context.text


def estimates_of(
    student: Student, batch: Sequence[Item], ladders: LadderSet | None
) -> list[float | None]:
    """Return the student's estimate for each row; None without an output, or without a context that the student reads."""
    texts: dict[int, tuple[str, str]] = {}
    for row, item in enumerate(batch):
        context = context_text_of(item, ladders) if student.record.reads_context else ""
        if item.output is not None and context is not None:
            texts[row] = context, item.output.text
    estimates = dict(zip(texts, student.estimate(list(texts.values())).tolist(), strict=True))
    return [estimates.get(row) for row in range(len(batch))]


def _chunks(rows: Iterable[Item]) -> Iterator[list[Item]]:
    rows = iter(rows)
    while chunk := list(itertools.islice(rows, CHUNK)):
        yield chunk


def estimate_columns(student: Student) -> dict[str, type]:
    """Return the columns that a student adds, with their types: it knows no grade, spread or label mass."""
    column = student.record.column
    stem, _, kind = column.rpartition("_")
    return {
        column: float,
        f"{stem if kind in {'score', 'grade'} else column}_note": str,
        "signature": str,
    }


class StudentAlone(RowScorer):
    """Estimates the score of every row, and asks no judge; `ladders` may have the texts of contexts."""

    def __init__(self, student: Student, ladders: LadderSet | None) -> None:
        added = estimate_columns(student)
        self._column, self._note, _ = added
        super().__init__(ScoreReport(signature=student.signature), added, [self._column])
        self._student, self._texts = student, ladders
        self.alone = is_shared(student.record.teacher)

    def batches(self, rows: Iterable[Item]) -> Iterator[list[Item]]:
        """Yield the rows that the student reads at a time."""
        return _chunks(rows)

    def values(self, batch: Sequence[Item], _log: JudgmentLog | None) -> list[dict[str, Any]]:
        """Return the estimate of each row; the note says why there is none."""
        values = []
        for item, estimate in zip(
            batch, estimates_of(self._student, batch, self._texts), strict=True
        ):
            reason = None
            if estimate is None:
                reason = item.note if item.output is None else NO_CONTEXT
                self.report.unscored[self._column] = self.report.unscored.get(self._column, 0) + 1
                self.report.reasons[reason or ""] = self.report.reasons.get(reason or "", 0) + 1
            values.append(
                {self._column: estimate, self._note: reason, "signature": self.report.signature}
            )
        self.report.rows += len(batch)
        return values
