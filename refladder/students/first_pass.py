"""Scoring with a student, which asks no judge."""

from __future__ import annotations

import itertools
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from refladder.errors import UsageError, option
from refladder.files.locks import locked
from refladder.files.tables import STANDARD, Collected
from refladder.jobs.input_table import check_input, open_items
from refladder.jobs.score import check_scored, write_settings
from refladder.loaders.input_rows import Mapped
from refladder.scoring.score_report import ScoreReport
from refladder.signatures import is_shared

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from refladder.events import Events
    from refladder.files.ladder_sets import LadderSet
    from refladder.loaders.input_rows import Item
    from refladder.options import NamedOptions
    from refladder.settings import ScoreSpec
    from refladder.students.student import Student

# A student is named with this prefix and its folder.
PREFIX = "distilled:"
# Rows that a student reads at a time: always the same ones, so that a resumed run has the same estimates.
CHUNK = 1024
NO_CONTEXT = "no text of the context, which the student reads; give it in a column 'context', or with --ladders"


def student_folder(name: str) -> Path:
    """Return the folder that `distilled:FOLDER` names."""
    return Path(name.removeprefix(PREFIX)).expanduser()


def student_judge(judge: str, named: NamedOptions) -> Student:
    """Return the student that is the judge of a run; options that do not go with it are refused."""
    for name, each in named:
        if each is None or not each.with_student:
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
    if item.context is not None:
        return item.context.text
    if ladders is None or item.output is None:
        return None
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


def estimate_columns(student: Student) -> dict[str, type]:
    """Return the columns that a student adds, with their types: it knows no grade, spread or label mass."""
    column = student.record.column
    stem, _, kind = column.rpartition("_")
    return {
        column: float,
        f"{stem if kind in {'score', 'grade'} else column}_note": str,
        "signature": str,
    }


def mapped_of(spec: ScoreSpec, student: Student) -> Mapped:
    """Return the columns of a table for a student; rows need no context if its teacher's ladders were shared."""
    alone = is_shared(student.record.teacher)
    return Mapped(columns=spec.columns, context=spec.context_id, alone=alone)


def run(
    spec: ScoreSpec, student: Student, ladders: LadderSet | None, events: Events
) -> ScoreReport:
    """Estimate the score of every row of a table, without a judge; `ladders` may have the texts of contexts."""
    mapped = mapped_of(spec, student)
    added = estimate_columns(student)
    total, copies, _ = check_input(spec.tables, mapped, added, events)
    out = spec.tables.out
    with nullcontext() if out == STANDARD or isinstance(out, Collected) else locked(Path(out)):
        report = ScoreReport(signature=student.signature, copies=copies)
        if not spec.is_part:
            check_scored(replace(spec, judgments=None), student.signature)
        with (
            open_items(spec.tables, mapped, added) as (read, write),
            events.progress("scoring") as progress,
        ):
            while batch := list(itertools.islice(read, CHUNK)):
                estimates = estimates_of(student, batch, ladders)
                for item, estimate in zip(batch, estimates, strict=True):
                    values = _counted(report, added, item, estimate)
                    if write is not None:
                        write(item.row, values)
                if progress is not None:
                    progress(report.rows, total)
        write_settings(spec, report)
    return report


def _counted(
    report: ScoreReport, added: Mapping[str, type], item: Item, estimate: float | None
) -> dict[str, object]:
    """Count a row, and return its added columns; the note says why it has no estimate."""
    column, note, _ = added
    reason = None
    report.rows += 1
    report.copies += item.is_copy
    if estimate is None:
        reason = (item.note or "") if item.output is None else NO_CONTEXT
        report.unscored[column] = report.unscored.get(column, 0) + 1
        report.reasons[reason] = report.reasons.get(reason, 0) + 1
    else:
        report.scored += 1
    return {column: estimate, note: reason, "signature": report.signature}
