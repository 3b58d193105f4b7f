"""Train a student on a column of a scored table, and measure it on held-out contexts."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from refladder.arrays import known
from refladder.calibration.labelling import LabelledTable, read_pool
from refladder.errors import DataError, UsageError, option, plural
from refladder.files.jsonl import atomic
from refladder.files.ladder_sets import as_ladder_set
from refladder.files.locks import locked_folder
from refladder.files.tables import format_of, number_in, read_rows, read_twice
from refladder.loaders.input_rows import Mapped, items
from refladder.methods.surface import MEASURES, measured
from refladder.records import Distilled, HeldOut
from refladder.statistics.correlation import correlate
from refladder.statistics.levels import mean_within
from refladder.students.first_pass import context_text_of
from refladder.students.ngrams import NgramStudent, fit_ngrams
from refladder.students.student import Student, save_student, student_card
from refladder.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from refladder.arrays import BoolArray, FloatArray, IntArray
    from refladder.events import Events
    from refladder.files.ladder_sets import LadderSet
    from refladder.settings import Given

# This share of the contexts is held out.
HELD_OUT = 0.2
LEAST_ROWS = 50
# The half width is this quantile of the absolute errors.
HALF_WIDTH = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Lessons:
    """Rows to learn from: `texts` (context and output), and arrays of shape (rows,); `labels` are NaN where none.

    `groups` are the contexts, or the different texts of a single context; a group is never on both sides of a split.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class DistilSpec:
    """The scored table, whose texts `mapped` finds, or whose contexts are those of `ladders`; and the folder `out`."""

    table: LabelledTable
    mapped: Mapped
    ladders: LadderSet | None
    out: Path


def spec_of(given: Given, table: LabelledTable) -> DistilSpec:
    """Return the settings of a student of the scores in a table."""
    return DistilSpec(
        table=table,
        mapped=Mapped(columns=dict(given["columns"] or {})),
        ladders=as_ladder_set(given["ladders"]),
        out=Path(given["out"]),
    )


def run(spec: DistilSpec, events: Events) -> tuple[Distilled, list[str]]:
    """Train a student on a column of scores, measure it on whole contexts that it has not seen, and write it."""
    table, out = spec.table, spec.out
    if table.labels and table.label is None:
        raise UsageError(
            f"{option('labels')} needs {option('label')} COLUMN, the column of the labels in it"
        )
    if out.exists() and not out.is_dir():
        raise UsageError(f"{out}: a file; {option('out')} names a folder")
    if out.is_dir() and any(path.name != ".lock" for path in out.iterdir()):
        raise UsageError(f"{out}: exists and is not empty; name another folder, or remove it")
    with read_twice(table.source, format_of(table.source, table.given)) as path:
        lessons = read_lessons(replace(table, source=path), spec.mapped, spec.ladders)
    with events.progress("distilling") as progress, locked_folder(out):
        train = np.flatnonzero(~lessons.held_out)
        texts = [lessons.texts[row] for row in train]
        regressor = fit_ngrams(texts, lessons.scores[train], lessons.groups[train], progress)
        student = save_student(measured_student(regressor, table.by, lessons), out)
        with atomic(out / "README.md") as stream:
            stream.write(student_card(student.record).encode())
    return student.record, lessons.notes


def read_lessons(table: LabelledTable, mapped: Mapped, ladders: LadderSet | None = None) -> Lessons:
    """Read scores, texts and labels, and choose what is held out."""
    source, column = table.source, table.by
    pool = read_pool(table)
    if (pool.signature or "").startswith("backend:distilled"):
        raise DataError(
            f"{source}: the numbers in {column!r} are estimates of a student; give the scores of a judge, from which a "
            "student learns"
        )
    used, names, outputs, known = [], [], [], []
    for position, name, output, text in _rows(table, mapped, ladders):
        used.append(position)
        names.append(name)
        outputs.append(output)
        if text is not None:
            known.append(text)
    scores = pool.scores[used]
    if len(scores) < LEAST_ROWS:
        raise DataError(
            f"{source}: {len(scores):,} rows have an output and a number in {column!r}; at least {LEAST_ROWS} are "
            "needed, and thousands to learn anything useful. Score more rows"
        )
    notes = list(pool.notes)
    if pool.unscored:
        notes.append(f"{plural(pool.unscored, 'row')} without {column} not used")
    reads_context = len(known) == len(names) and any(names)
    if reads_context:
        names = _named_by_text(known, names)
    human = np.full(len(pool.scores), np.nan)
    if table.label:
        if not pool.marked:
            raise DataError(
                f"{', '.join(table.labels) or source}: no scored row has a number in {table.label!r}"
            )
        human[pool.labelled] = np.asarray(pool.labels, dtype=np.float64)
    contexts = _numbered(names)
    by_context = bool(contexts.max())
    held_out = _held_out(names if by_context else outputs)
    if np.ptp(scores[~held_out]) == 0:
        which = "all numbers" if np.ptp(scores) == 0 else "all numbers that are not held out"
        raise DataError(
            f"{source}: {which} in {column!r} are {scores[~held_out][0]:g}, so there is nothing to learn"
        )
    notes.extend(_about_contexts(names, len(known), by_context=by_context))
    read = known if reads_context else [""] * len(outputs)
    return Lessons(
        texts=list(zip(read, outputs, strict=True)),
        scores=scores,
        labels=human[used],
        contexts=contexts,
        groups=contexts if by_context else _numbered(outputs),
        held_out=held_out,
        held_out_by="context" if by_context else "text",
        reads_context=reads_context,
        teacher=pool.signature,
        notes=notes,
    )


def _named_by_text(texts: Sequence[str], names: Sequence[str]) -> list[str]:
    """Give contexts with the same text one name, so that no text that is held out is learned from."""
    least: dict[str, str] = {}
    for text, name in zip(texts, names, strict=True):
        least[text] = min(name, least.get(text, name))
    return [least[text] for text in texts]


def _about_contexts(names: Sequence[str], known: int, *, by_context: bool) -> Iterator[str]:
    """Yield what a student lacks without some contexts or their texts; `known` counts the rows with a text."""
    if not any(names):
        yield "no row has a context, so texts are held out"
        return
    if known < len(names):
        many = f"not every row ({known:,} of {len(names):,})" if known else "no row"
        yield (
            f"{many} has the text of its context, so the student reads outputs only; give a column 'context', or the "
            f"ladder set with {option('ladders')}"
        )
    if not by_context:
        yield "all rows have one context, so texts are held out; the figures say nothing about other contexts"


def _rows(
    table: LabelledTable, mapped: Mapped, ladders: LadderSet | None
) -> Iterator[tuple[int, str, str, str | None]]:
    """Yield number, context id, output and context of each row with a score and an output; rows with a score are numbered."""
    rows = items(read_rows(table.source, table.given), mapped, check_ids=False)
    # One copy of the text of each context is kept.
    same: dict[str | None, str | None] = {}
    position = -1
    for item in rows:
        if number_in(item.row, table.by) is None:
            continue
        position += 1
        if item.output is not None:
            text = context_text_of(item, ladders)
            yield position, item.output.context_id, item.output.text, same.setdefault(text, text)


def _numbered(names: Sequence[str]) -> IntArray:
    codes = {name: code for code, name in enumerate(dict.fromkeys(names))}
    return np.array(list(map(codes.__getitem__, names)), dtype=np.int64)


def _held_out(names: Sequence[str]) -> BoolArray:
    """Return which rows are held out: those of the fifth of the names with the least digests, in any row order."""
    ordered = sorted(
        set(names), key=lambda name: hashlib.blake2b(name.encode("utf-8", "replace")).digest()
    )
    chosen = set(ordered[: max(1, round(HELD_OUT * len(ordered)))])
    if len(chosen) == len(ordered):
        raise DataError(
            "all rows have the same text, so nothing can be held out; score other texts"
        )
    return np.array([name in chosen for name in names], dtype=np.bool_)


def measured_student(regressor: NgramStudent, column: str, lessons: Lessons) -> Student:
    """Return the student with its record: agreement on the held-out rows with its teacher, and with people."""
    train, test = ~lessons.held_out, lessons.held_out
    low, high = float(lessons.scores[train].min()), float(lessons.scores[train].max())
    estimates = np.clip(
        regressor.estimate([lessons.texts[row] for row in np.flatnonzero(test)]), low, high
    )
    record = Distilled(
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
    """Compare student and surface with the teacher on the held-out rows, and all three with people.

    The surface measure is the one with the greatest Spearman correlation with the target in the other rows, and its
    error that of a line through them.
    """
    test = lessons.held_out
    surface = measured(lessons.texts)
    teacher, labels, contexts = lessons.scores[test], lessons.labels[test], lessons.contexts[test]
    name, baseline = _best_measure(surface, lessons.scores, test)
    rows = [
        _compared("student", "teacher", estimates, teacher, contexts, same_unit=True),
        _compared(f"surface: {name}", "teacher", baseline, teacher, contexts, same_unit=True),
    ]
    if np.isfinite(labels).any():
        name, baseline = _best_measure(surface, lessons.labels, test)
        rows += [
            _compared("student", "people", estimates, labels, contexts),
            _compared("teacher", "people", teacher, labels, contexts),
            _compared(f"surface: {name}", "people", baseline, labels, contexts),
        ]
    return rows


def _best_measure(
    surface: FloatArray, target: FloatArray, test: BoolArray
) -> tuple[str, FloatArray]:
    """Return the measure that agrees best with the target in the other rows, and its line for the held-out rows."""
    known = ~test & np.isfinite(target)
    agreements = [correlate(measure[known], target[known]) for measure in surface.T]
    best = int(np.argmax(np.nan_to_num(agreements, nan=-2.0)))
    chosen = surface[:, best]
    if known.sum() < 2 or np.ptp(chosen[known]) == 0:
        return MEASURES[best], chosen[test]
    slope, shift = np.polyfit(chosen[known], target[known], 1)
    return MEASURES[best], np.asarray(slope * chosen[test] + shift)


def _compared(
    method: str,
    target: str,
    predicted: FloatArray,
    wanted: FloatArray,
    contexts: IntArray,
    *,
    same_unit: bool = False,
) -> HeldOut:
    rated = np.isfinite(wanted)
    predicted, wanted, contexts = predicted[rated], wanted[rated], contexts[rated]
    return HeldOut(
        method=method,
        target=target,
        rows=len(wanted),
        contexts=len(np.unique(contexts)),
        pearson=known(correlate(predicted, wanted, "pearson")),
        spearman=known(correlate(predicted, wanted)),
        within_pearson=known(mean_within(predicted, wanted, contexts, "pearson")),
        within_spearman=known(mean_within(predicted, wanted, contexts)),
        error=float(np.mean(np.abs(predicted - wanted))) if same_unit else None,
    )
