"""A student with its record, its folder, its agreement table and its card.

FOLDER/
  student.json   one Distilled record
  weights.npz    the weights (numpy arrays, no pickle)
  README.md      the card
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from refladder.display.rendering import PlainTable, markdown, number, table_of
from refladder.display.results import ShownRecord
from refladder.errors import DataError, plural
from refladder.files.jsonl import read_record, to_line, write_record
from refladder.files.locks import make_folder
from refladder.records import Distilled, digest_of
from refladder.students.ngrams import NgramStudent
from refladder.version import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence

    from refladder.arrays import FloatArray

RECORD = "student.json"
_HELD_OUT = {
    "context": "Whole contexts",
    "text": "Texts (all rows have one context, or none)",
}
_CARD = Path(__file__).with_name("templates") / "student_card.md"
LEGEND = (
    ("agrees with", "teacher: the scores it learned from; people: the column of labels"),
    ("within", "mean over contexts of the correlation of their rows"),
    ("error", "mean absolute error, in units of the scores"),
    ("surface", "the surface measure that agreed best in the other rows"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Student:
    """A regressor with its record."""

    record: Distilled
    regressor: NgramStudent

    @property
    def fingerprint(self) -> str:
        """Return a digest of the record, which holds a digest of the weights."""
        return f"distilled:ngrams@{digest_of(to_line(self.record).decode(), size=6)}"

    @property
    def signature(self) -> str:
        """Return everything that determines an estimate, in one line; it never equals the signature of a judge."""
        teacher = digest_of(self.record.teacher or "", size=6)
        return f"backend:{self.fingerprint}|learned:{self.record.column}@{teacher}|refladder:{__version__}"

    def estimate(self, texts: Sequence[tuple[str, str]]) -> FloatArray:
        """Return estimates, shape (texts,), between the least and the greatest score that was learned from."""
        if not texts:
            return np.empty(0)
        if not self.record.reads_context:
            texts = [("", output) for _, output in texts]
        return np.clip(self.regressor.estimate(texts), self.record.low, self.record.high)


def save_student(student: Student, folder: Path) -> Student:
    """Write a student's weights and record; return it with the digest of the weights."""
    make_folder(folder)
    saved = replace(student, record=replace(student.record, weights=student.regressor.save(folder)))
    write_record(folder / RECORD, saved.record)
    return saved


def open_student(folder: Path) -> Student:
    """Read a student."""
    if not (folder / RECORD).is_file():
        raise DataError(f"{folder}: no {RECORD}; name a folder that `refladder distil` wrote")
    record = read_record(Distilled, folder / RECORD)
    regressor, weights = NgramStudent.load(folder)
    if weights != record.weights:
        raise DataError(
            f"{folder}: the weights are not those that {RECORD} describes; distil again, or copy all files"
        )
    return Student(record=record, regressor=regressor)


class ShownStudent(ShownRecord, Distilled):
    """The record of a student that is shown as the table of its command."""

    __slots__ = ()

    def lines(self) -> list[str]:
        """Return what was learned, and warnings."""
        return student_lines(self)

    def tables(self) -> list[PlainTable]:
        """Return the table of agreement on held-out rows."""
        return [student_table(self)]


def student_table(record: Distilled) -> PlainTable:
    """Return the table of agreement on held-out rows."""
    rows = [
        {
            "method": row.method,
            "agrees with": row.target,
            "rows": f"{row.rows:,}",
            "contexts": f"{row.contexts:,}",
            "Pearson": number(row.pearson, 3),
            "Spearman": number(row.spearman, 3),
            "within: Pearson": number(row.within_pearson, 3),
            "within: Spearman": number(row.within_spearman, 3),
            "error": number(row.error, 2),
        }
        for row in record.held_out
    ]
    return table_of("", rows, LEGEND)


def student_lines(record: Distilled) -> list[str]:
    """Return what was learned, how far an estimate can be off, and a warning if surface measures are as good."""
    read = "the output and its context" if record.reads_context else "the output only"
    rows = record.held_out[0].rows
    others = "whole contexts" if record.held_out_by == "context" else "texts"
    half = f"{record.half_width:.2f}"
    of = f" of {plural(record.contexts, 'context')}" if record.held_out_by == "context" else ""
    learned = f"{plural(record.rows, 'row')}{of} (hashed n-grams; reads {read})"
    band = f": for a threshold T, let the judge score the rows with an estimate from T - {half} to T + {half}"
    lines = [
        f"learned {record.column} from {learned}; {plural(rows, 'row')} held out ({others})",
        f"90 % of the held-out estimates are within {half} of the score{band if record.teacher else ''}",
    ]
    return lines + [f"Warning: {line}" for line in surface_lines(record)]


def surface_lines(record: Distilled) -> list[str]:
    """Return whom a surface measure agrees with as well as the student does; empty if the student is better."""
    lines = []
    agreements = {}
    for row in record.held_out:
        agreements[row.target, row.method.partition(":")[0]] = row.spearman
    for target in ("teacher", "people"):
        student, surface = (agreements.get((target, name)) for name in ("student", "surface"))
        if student is not None and surface is not None and student <= surface:
            lines.append(f"a surface measure agrees with the {target} as well as the student does.")
    return lines


def student_card(record: Distilled) -> str:
    """Return the card: what the student is, how far it agrees, and how it is used."""
    read = "The output and the text of its context." if record.reads_context else "The output only."
    return _CARD.read_text(encoding="utf-8").format(
        record=record,
        teacher=record.teacher or "none",
        read=read,
        settings=", ".join(f"{name} {value:g}" for name, value in record.settings.items()),
        held_out=_HELD_OUT[record.held_out_by],
        agreement=markdown([student_table(record)]).strip(),
    )
