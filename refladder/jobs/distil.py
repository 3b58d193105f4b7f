"""distil: a table of scored rows -> a student that has learned one column, measured on contexts held out."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from refladder.errors import DataError, UsageError
from refladder.files.jsonl import atomic
from refladder.files.locks import locked_folder
from refladder.files.tables import format_of, number_in, read_rows
from refladder.jobs.first_pass import context_text_of
from refladder.jobs.labelling import Asked, read_pool
from refladder.jobs.score import items
from refladder.jobs.scored_tables import read_twice
from refladder.metaeval.by_context import mean_within
from refladder.metaeval.correlation import correlate
from refladder.methods.surface import MEASURES
from refladder.methods.surface_scores import measured
from refladder.records import Distilled, HeldOut
from refladder.report.student_table import student_card
from refladder.students import Student, save_student
from refladder.students.encoder import fit_encoder, settings_of
from refladder.students.ngrams import fit_ngrams
from refladder.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from refladder.arrays import BoolArray, FloatArray, IntArray
    from refladder.files.ladder_sets import LadderSet
    from refladder.jobs.score import Mapped
    from refladder.records import Progress
    from refladder.students import Regressor

HELD_OUT = 0.2  # of the contexts
LEAST_ROWS = 50
HALF_WIDTH = 0.9  # quantile of the absolute errors
_KINDS = ("hf",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lessons:
    """Rows to learn from: `texts` (context and output), and arrays of shape (rows,).

    `labels` are of people, NaN where a row has none. `groups` are the contexts, or the different texts of a single
    context; rows of one group are never on both sides of a split.
    """

    texts: list[tuple[str, str]]
    scores: FloatArray
    labels: FloatArray
    contexts: IntArray
    groups: IntArray
    held_out: BoolArray
    held_out_by: Literal["context", "text"]
    reads_context: bool
    teacher: str | None
    notes: list[str]


def distil(
    source: str,
    column: str,
    out: Path,
    *,
    mapped: Mapped,
    given: str | None = None,
    ladders: LadderSet | None = None,
    labels: Sequence[str] = (),
    label: str | None = None,
    model: str | None = None,
    options: Mapping[str, str] | None = None,
    progress: Progress | None = None,
) -> tuple[Distilled, list[str]]:
    """Train a student on a column of scores, measure it on whole contexts that it has not seen, and write it.

    The record, and notes for people.
    """
    if labels and label is None:
        raise UsageError("--labels needs --label COLUMN, the column of the labels in it")
    settings = settings_of(options or {})
    target = _encoder_of(model)
    if options and target is None:
        raise UsageError("--model-option is for an encoder; name it with --model hf:ENCODER")
    if out.exists() and not out.is_dir():
        raise UsageError(f"{out}: a file; --out names a folder")
    if out.is_dir() and any(path.name != ".lock" for path in out.iterdir()):
        raise UsageError(f"{out}: exists and is not empty; name another folder, or remove it")
    with read_twice(source, format_of(source, given)) as table:
        asked = Asked(by=(column,), label=() if label is None else (label,), labels=tuple(labels))
        lessons = read_lessons(table, asked, mapped, given, ladders)
    with locked_folder(out):
        train = np.flatnonzero(~lessons.held_out)
        texts = [lessons.texts[row] for row in train]
        regressor: Regressor
        if target is None:
            regressor = fit_ngrams(texts, lessons.scores[train], lessons.groups[train], progress)
        else:
            regressor = fit_encoder(target, texts, lessons.scores[train], settings, progress)
        student = measured_student(regressor, column, lessons)
        student = save_student(student, out)
        with atomic(out / "README.md") as stream:
            stream.write(student_card(student.record).encode())
    return student.record, lessons.notes


def _encoder_of(model: str | None) -> str | None:
    if model is None:
        return None
    kind, _, target = model.partition(":")
    if kind not in _KINDS or not target:
        raise UsageError(f"--model {model!r}: must be hf:ORG/MODEL or hf:FOLDER, an encoder of transformers")
    return target


def read_lessons(
    source: str, asked: Asked, mapped: Mapped, given: str | None = None, ladders: LadderSet | None = None
) -> Lessons:
    """Read scores, texts and labels, and choose what is held out."""
    column = asked.by[0]
    pool = read_pool(source, asked, given)
    if (pool.signature or "").startswith("backend:distilled"):
        raise DataError(
            f"{source}: the numbers in {column!r} are estimates of a student; give the scores of a judge, from which a "
            "student learns"
        )
    used, texts, names, with_text = _texts(source, column, mapped, given, ladders)
    scores = pool.scores[used, 0]
    if len(scores) < LEAST_ROWS:
        raise DataError(
            f"{source}: {len(scores):,} rows have an output and a number in {column!r}; at least {LEAST_ROWS} are "
            "needed, and thousands to learn anything useful. Score more rows"
        )
    notes = list(pool.notes)
    if pool.unscored:
        notes.append(f"{pool.unscored:,} rows have no {column} and are not used")
    reads_context = with_text == len(texts)
    if not reads_context:
        many = f"not every row ({with_text:,} of {len(texts):,})" if with_text else "no row"
        notes.append(
            f"{many} has the text of its context, so the student reads outputs only; give a column 'context', or the "
            "ladder set with --ladders"
        )
        texts = [("", output) for _, output in texts]
    else:  # contexts that share their text are one, so that a text that is held out is not learned from
        least: dict[str, str] = {}
        for (context, _), name in zip(texts, names, strict=True):
            least[context] = min(name, least.get(context, name))
        names = [least[context] for context, _ in texts]
    human = np.full(len(pool.scores), np.nan)
    if asked.label:
        if not pool.marked:
            raise DataError(f"{', '.join(asked.labels) or source}: no scored row has a number in {asked.label[0]!r}")
        human[pool.labelled] = np.asarray(pool.labels[0], dtype=np.float64)
    contexts = _numbered(names)
    by_context = bool(contexts.max())
    held_out = _held_out(names if by_context else [output for _, output in texts])
    if np.ptp(scores[~held_out]) == 0:
        which = "all numbers" if np.ptp(scores) == 0 else "all numbers that are not held out"
        raise DataError(f"{source}: {which} in {column!r} are {scores[~held_out][0]:g}, so there is nothing to learn")
    groups = contexts if by_context else _numbered([output for _, output in texts])
    if not by_context:
        notes.append("all rows have one context, so texts are held out; the figures say nothing about other contexts")
    return Lessons(
        texts=texts,
        scores=scores,
        labels=human[used],
        contexts=contexts,
        groups=groups,
        held_out=held_out,
        held_out_by="context" if by_context else "text",
        reads_context=reads_context,
        teacher=pool.signature,
        notes=notes,
    )


def _texts(
    source: str, column: str, mapped: Mapped, given: str | None, ladders: LadderSet | None
) -> tuple[list[int], list[tuple[str, str]], list[str], int]:
    """Of each row with a score and an output: its number among the rows with a score, texts, and context.

    And the number of rows with a text of their context.
    """
    position = with_text = 0
    used: list[int] = []
    texts: list[tuple[str, str]] = []
    names: list[str] = []
    same: dict[str, str] = {}  # one copy of each context's text
    for item in items(read_rows(source, given), mapped, check_ids=False):
        if number_in(item.row, column) is None:
            continue
        if item.output is not None:
            text = context_text_of(item, ladders)
            with_text += text is not None
            used.append(position)
            texts.append((same.setdefault(text or "", text or ""), item.output.text))
            names.append(item.output.context_id)
        position += 1
    return used, texts, names, with_text


def _numbered(names: Sequence[str]) -> IntArray:
    codes: dict[str, int] = {}
    return np.array([codes.setdefault(name, len(codes)) for name in names], dtype=np.int64)


def _held_out(names: Sequence[str]) -> BoolArray:
    """Which rows are held out: those of the fifth of the names whose digests are the least, so that order is no matter.

    At least one name is held out, and at least one is not.
    """
    ordered = sorted(set(names), key=lambda name: hashlib.blake2b(name.encode("utf-8", "replace")).digest())
    chosen = set(ordered[: max(1, round(HELD_OUT * len(ordered)))])
    if len(chosen) == len(ordered):
        raise DataError("all rows have the same text, so nothing can be held out; score other texts")
    return np.array([name in chosen for name in names], dtype=np.bool_)


def measured_student(regressor: Regressor, column: str, lessons: Lessons) -> Student:
    """The student with its record: agreement on the held-out rows with its teacher, and with people."""
    train, test = ~lessons.held_out, lessons.held_out
    low, high = float(lessons.scores[train].min()), float(lessons.scores[train].max())
    held_out = [text for text, out in zip(lessons.texts, test.tolist(), strict=True) if out]
    estimates = np.clip(regressor.estimate(held_out), low, high)
    if not np.isfinite(estimates).all():
        raise DataError(
            "the training has diverged: the student's estimates are not finite; give a smaller rate with "
            "--model-option learning_rate=NUMBER"
        )
    record = Distilled(
        kind=regressor.kind,
        model=regressor.model,
        column=column,
        teacher=lessons.teacher,
        reads_context=lessons.reads_context,
        rows=int(train.sum()),
        contexts=len(np.unique(lessons.contexts[train])),
        low=low,
        high=high,
        settings=dict(regressor.settings),
        weights="",
        held_out_by=lessons.held_out_by,
        held_out=tuple(agreement(estimates, lessons)),
        half_width=float(np.quantile(np.abs(estimates - lessons.scores[test]), HALF_WIDTH)),
        version=__version__,
    )
    return Student(record=record, regressor=regressor)


def agreement(estimates: FloatArray, lessons: Lessons) -> list[HeldOut]:
    """Agreement on the held-out rows: of student and surface with the teacher, and of all three with people.

    The surface measure is the one with the greatest Spearman correlation with the target in the other rows, and its
    error that of a line through them.
    """
    train, test = ~lessons.held_out, lessons.held_out
    surface = measured(lessons.texts)
    contexts = lessons.contexts[test]
    name, baseline = _best_measure(surface, lessons.scores, train, test)
    teacher = lessons.scores[test]
    rows = [
        _compared("student", "teacher", estimates, teacher, contexts, same_unit=True),
        _compared(f"surface: {name}", "teacher", baseline, teacher, contexts, same_unit=True),
    ]
    labels = lessons.labels[test]
    if np.isfinite(labels).any():
        name, baseline = _best_measure(surface, lessons.labels, train, test)
        rows += [
            _compared("student", "people", estimates, labels, contexts),
            _compared("teacher", "people", teacher, labels, contexts),
            _compared(f"surface: {name}", "people", baseline, labels, contexts),
        ]
    return rows


def _best_measure(surface: FloatArray, target: FloatArray, train: BoolArray, test: BoolArray) -> tuple[str, FloatArray]:
    """The measure that agrees best with the target in training rows, and its line for the held-out rows."""
    known = train & np.isfinite(target)
    agreements = [correlate(measure[known], target[known]) for measure in surface.T]
    best = int(np.argmax(np.nan_to_num(agreements, nan=-2.0)))
    chosen = surface[:, best]
    if known.sum() < 2 or np.ptp(chosen[known]) == 0:  # noqa: PLR2004  no line
        return list(MEASURES)[best], chosen[test]
    slope, shift = np.polyfit(chosen[known], target[known], 1)
    return list(MEASURES)[best], np.asarray(slope * chosen[test] + shift)


def _compared(
    method: str,
    target: str,
    predicted: FloatArray,
    wanted: FloatArray,
    contexts: IntArray,
    *,
    same_unit: bool = False,
) -> HeldOut:
    known = np.isfinite(wanted)
    predicted, wanted, contexts = predicted[known], wanted[known], contexts[known]
    return HeldOut(
        method=method,
        target=target,
        rows=len(wanted),
        contexts=len(np.unique(contexts)),
        pearson=_number(correlate(predicted, wanted, "pearson")),
        spearman=_number(correlate(predicted, wanted)),
        within_pearson=_number(mean_within(predicted, wanted, contexts, "pearson")),
        within_spearman=_number(mean_within(predicted, wanted, contexts)),
        error=float(np.mean(np.abs(predicted - wanted))) if same_unit else None,
    )


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value
