"""A student with its record, and its folder.

FOLDER/
  student.json   one Distilled record
  weights.npz    the weights of a student of n-grams (numpy arrays, no pickle), or
  encoder/       a model of transformers and its tokenizer (safetensors)
  README.md      the card
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from refladder.errors import DataError
from refladder.files.jsonl import read_record, to_line, write_record
from refladder.records import Distilled, digest_of
from refladder.students.encoder import EncoderStudent
from refladder.students.ngrams import NgramStudent
from refladder.version import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from refladder.arrays import FloatArray

RECORD = "student.json"
Regressor = NgramStudent | EncoderStudent


@dataclass(frozen=True, slots=True, kw_only=True)
class Student:
    """A regressor with its record."""

    record: Distilled
    regressor: Regressor

    @property
    def fingerprint(self) -> str:
        """A digest of the record, which holds a digest of the weights."""
        return f"distilled:{self.record.kind}@{digest_of(to_line(self.record).decode(), size=6)}"

    @property
    def signature(self) -> str:
        """Everything that determines an estimate, in one line; never that of the scores it learned from."""
        teacher = digest_of(self.record.teacher or "", size=6)
        return f"backend:{self.fingerprint}|learned:{self.record.column}@{teacher}|refladder:{__version__}"

    def estimate(self, texts: Sequence[tuple[str, str]]) -> FloatArray:
        """Estimates, shape (texts,), between the least and the greatest score that was learned from."""
        if not texts:
            return np.empty(0)
        if not self.record.reads_context:
            texts = [("", output) for _, output in texts]
        return np.clip(self.regressor.estimate(texts), self.record.low, self.record.high)


def save_student(student: Student, folder: Path) -> Student:
    """Write a student's weights and record; returns it with the digest of the weights."""
    folder.mkdir(parents=True, exist_ok=True)
    saved = replace(student, record=replace(student.record, weights=student.regressor.save(folder)))
    write_record(folder / RECORD, saved.record)
    return saved


def open_student(folder: Path) -> Student:
    """Read a student."""
    if not (folder / RECORD).is_file():
        raise DataError(f"{folder}: no {RECORD}; name a folder that `refladder distil` wrote")
    record = read_record(Distilled, folder / RECORD)
    regressor: Regressor
    if record.kind == "ngrams":
        regressor, weights = NgramStudent.load(folder)
    else:
        regressor, weights = EncoderStudent.load(folder, record.model, record.settings)
    if weights != record.weights:
        raise DataError(f"{folder}: the weights are not those that {RECORD} describes; distil again, or copy all files")
    return Student(record=record, regressor=regressor)
