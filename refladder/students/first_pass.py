"""Scoring with a student: alone, or before a judge that gets only the rows that the student does not decide."""

from __future__ import annotations

import hashlib
import itertools
import math
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any

from refladder.errors import UsageError, either, option
from refladder.jobs.score import AllRows, RowScorer
from refladder.jobs.scored_tables import cascade_column, differing_parts
from refladder.records import is_shared, scale_of
from refladder.scoring.columns import FirstPass, ScoreReport, column_names, overall_column

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from refladder.files.ladder_sets import LadderSet
    from refladder.jobs.score import Item
    from refladder.scoring.judgment_file import JudgmentLog
    from refladder.scoring.scorer import LadderScorer
    from refladder.students.student import Student

PREFIX = "distilled:"  # of the name of a student, before its folder
CHUNK = 1024  # rows that a student reads at a time: always the same ones, so that a resumed run has the same estimates
NO_CONTEXT = "no text of the context, which the student reads; give it in a column 'context', or with --ladders"
DECIDED = "decided by the student, not judged"
CHECKED = "decided by the student, judged as a check"


def student_folder(name: str) -> Path:
    """The folder that `distilled:FOLDER` names."""
    return Path(name.removeprefix(PREFIX)).expanduser()


def student_judge(judge: str, asking: Iterable[str]) -> Student:
    """The student that is the judge of a run."""
    for name in asking:
        raise UsageError(f"{judge} asks no model, and {name} is for asking one; leave it out")
    return _named_student(judge, option("judge"))


def student_before_judge(
    cascade: str | None, between: Sequence[float] | None, check: float, *, refused: Iterable[str]
) -> Student | None:
    """The student of `--cascade`; None without it. All that needs no judge is checked here, before one is opened."""
    if cascade is None:
        if between is not None:
            of = f"{option('cascade')} {PREFIX}FOLDER"
            raise UsageError(f"{option('between')} is the undecided band of {of}; give both")
        return None
    if between is None:
        raise UsageError(f"{option('cascade')} needs {_band('LOW', 'HIGH')}, the estimates that the judge gets")
    for name in refused:
        raise UsageError(f"{option('cascade')} cannot be combined with {name}; leave one of them out")
    _check_band(between, check)
    return _named_student(str(cascade), option("cascade"))  # a Path gets the message too


def _named_student(name: str, given_as: str) -> Student:
    from refladder.students.student import open_student  # noqa: PLC0415  scipy: 0.2 s

    if not name.startswith(PREFIX) or name == PREFIX:
        raise UsageError(f"{given_as} {name!r}: must be {PREFIX}FOLDER, with a folder of `refladder distil`")
    return open_student(student_folder(name))


def _band(low: str, high: str) -> str:
    return either(f"--between {low} {high}", f"between=({low}, {high})")


def _check_band(between: Sequence[float], check: float) -> tuple[float, float]:
    """The ends of the band of a first pass."""
    try:
        low, high = map(float, between)
    except (TypeError, ValueError):
        raise UsageError(f"{option('between')} {between!r}: must be two finite numbers, the lower one first") from None
    if not (math.isfinite(low) and math.isfinite(high) and low <= high):
        raise UsageError(f"{_band(f'{low:g}', f'{high:g}')}: must be two finite numbers, the lower one first")
    if not 0 <= check <= 1:
        raise UsageError(f"{option('check-share')} {check:g}: must be between 0 and 1")
    return low, high


def context_text_of(item: Item, ladders: LadderSet | None) -> str | None:
    """The text of a row's context: its own, or that in a ladder set; None where neither has one."""
    if item.output is not None and not item.output.context_id:
        return ""  # it needs none, as its ladders are shared
    if item.text is not None or ladders is None or item.output is None:
        return item.text
    context = ladders.contexts.get(item.output.context_id)
    return None if context is None else context.text


def estimates_of(student: Student, batch: Sequence[Item], ladders: LadderSet | None) -> list[float | None]:
    """The student's estimate for each row; None where it has no output, or no context that the student reads."""
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
    """The columns that a student alone adds, with their types: it knows no grade, spread and label mass."""
    column = student.record.column
    stem, _, kind = column.rpartition("_")
    return {column: float, f"{stem if kind in {'score', 'grade'} else column}_note": str, "signature": str}


class StudentAlone(RowScorer):
    """Estimates the score of every row, and asks no judge; `ladders` may have the texts of contexts."""

    def __init__(self, student: Student, ladders: LadderSet | None) -> None:
        added = estimate_columns(student)
        self._column, self._note, _ = added
        super().__init__(ScoreReport(signature=student.signature), added, [self._column])
        self._student, self._texts = student, ladders
        self.alone = is_shared(student.record.teacher)

    def batches(self, rows: Iterable[Item]) -> Iterator[list[Item]]:
        """The rows that the student reads at a time."""
        return _chunks(rows)

    def values(self, batch: Sequence[Item], _log: JudgmentLog | None) -> list[dict[str, Any]]:
        """The estimate of each row; the note says why there is none."""
        values = []
        for item, estimate in zip(batch, estimates_of(self._student, batch, self._texts), strict=True):
            reason = None
            if estimate is None:
                reason = item.note if item.output is None else NO_CONTEXT
                self.report.unscored[self._column] = self.report.unscored.get(self._column, 0) + 1
                self.report.reasons[reason or ""] = self.report.reasons.get(reason or "", 0) + 1
            values.append({self._column: estimate, self._note: reason, "signature": self.report.signature})
        self.report.rows += len(batch)
        return values


class Cascade(AllRows):
    """A first pass: rows whose estimate lies in a band, ends included, go to the judge; the student decides others.

    A row has the judge's columns, empty where the student decided; the student's estimate; and a column for `filter`,
    which is the judge's score where there is one, else the estimate. All rows have one signature, which
    is not the judge's. `check` is the share of decided rows, by a digest of their ids, that the judge gets too.
    """

    def __init__(self, student: Student, scorer: LadderScorer, between: Sequence[float], check: float) -> None:
        low, high = _check_band(between, check)
        column = student.record.column
        single = column_names(scorer.dimensions[0].name)[:2]
        possible = single if len(scorer.dimensions) == 1 else (overall_column(scorer.dimensions),)
        if column not in possible:
            of_column = {name: dim.name for dim in scorer.dimensions for name in column_names(dim.name)[:2]}
            advice = f"only {of_column[column]}" if column in of_column else "others"
            raise UsageError(
                f"the student learned {column}, and this run gives {' and '.join(possible)}; choose {advice} with "
                f"{option('dimension')}, or distil another student"
            )
        learned = student.record.teacher
        if scale_of(learned) != scale_of(scorer.report.signature):
            here, there = differing_parts(scorer.report.signature, learned)
            raise UsageError(
                f"the student learned from scores with another signature: {here} here, {there} in the student; distil "
                "one from scores of this judge"
            )
        self.counts = scorer.report.first_pass = FirstPass(low=low, high=high, threshold=(low + high) / 2)
        shown = f"first-pass:{student.fingerprint}|between:{low!r},{high!r}|check:{check:g}"
        scorer.report.signature = f"{scorer.report.signature}|{shown}"
        super().__init__(scorer)
        self.student_column, self.cascade_column = cascade_column(column, "student"), cascade_column(column)
        self._of_judge = column
        self.added = {**dict.fromkeys([self.student_column, self.cascade_column], float), **self.added}
        self.complete = [self.cascade_column]
        self._empty = dict.fromkeys(self.added)
        self._notes = [column_names(dimension.name)[-1] for dimension in scorer.dimensions]
        self._student = student
        self._low, self._high, self._check = low, high, check
        self._estimates: deque[float | None] = deque()

    def rows(self, rows: Iterable[Item]) -> Iterator[Item]:
        """The same rows, with their estimates made for `values`."""
        for chunk in _chunks(super().rows(rows)):
            self._estimates += estimates_of(self._student, chunk, self.scorer.ladders)
            yield from chunk

    def values(self, batch: Sequence[Item], log: JudgmentLog | None) -> list[dict[str, Any]]:
        """The added columns of rows, in order; each row must have come from `rows`."""
        estimates = [self._estimates.popleft() for _ in batch]
        # 1 above the band, -1 below, 0 in it or without an estimate
        sides = [0 if each is None else (each > self._high) - (each < self._low) for each in estimates]
        checked = [side != 0 and self._is_checked(item) for item, side in zip(batch, sides, strict=True)]
        judged = [row for row, side in enumerate(sides) if side == 0 or checked[row]]
        by_row = dict(zip(judged, super().values([batch[row] for row in judged], log), strict=True))
        report = self.scorer.report
        report.rows += len(batch) - len(judged)
        values = []
        for row, (item, estimate, side) in enumerate(zip(batch, estimates, sides, strict=True)):
            columns = {**self._empty, "signature": report.signature, **by_row.get(row, {})}
            columns[self.student_column] = estimate
            score = columns[self._of_judge]
            columns[self.cascade_column] = estimate if side != 0 and score is None else score
            if checked[row]:
                self._count_check(item, side, score)
                for note in self._notes:
                    columns[note] = "; ".join(filter(None, [CHECKED, columns[note]]))
            elif side != 0 and item.output is not None:
                self.counts.decided += 1
                questions, calls = self.scorer.questions_about(item.output)
                self.counts.saved_judgments += questions
                self.counts.saved_calls += calls
                columns.update(dict.fromkeys(self._notes, DECIDED))
            elif item.output is not None:
                self.counts.in_band += 1
            values.append(columns)
        return values

    def _is_checked(self, item: Item) -> bool:
        if item.output is None:
            return False
        name = f"{item.output.context_id}\0{item.output.id}".encode("utf-8", "replace")
        drawn = int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), "big") / 2**64
        return drawn < self._check

    def _count_check(self, item: Item, side: int, score: float | None) -> None:
        """Compare a decision with the judge's, at the threshold and at all in the band."""
        self.counts.decided += 1
        if score is None or item.output is None:
            self.counts.unchecked += 1
            return
        unit = item.output.context_id or item.output.id  # a text without a context is a unit of its own
        self.counts.count_check(unit, changed=(score >= self.counts.threshold) != (side > 0))
        self.counts.changed_somewhere += score < self._high if side > 0 else score >= self._low
