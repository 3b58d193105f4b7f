"""calibrate and human_scale as calls on any table; the same jobs, defaults and results as `refladder calibrate`."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from refladder.api.frames import in_words_of_python, output_path, written
from refladder.errors import UsageError
from refladder.files.jsonl import write_record
from refladder.files.tables import refuse_same_files
from refladder.jobs import calibrate as calibrating
from refladder.jobs.human_ratings import human_scale as fitted_scale
from refladder.jobs.labelling import Asked, Good, read_pool
from refladder.report.progress import progress

if TYPE_CHECKING:
    from refladder.jobs.labelling import Pool
    from refladder.records import HumanScale

_LOG = logging.getLogger("refladder")


def calibrate(
    table: Any,  # noqa: ANN401  a table of any package
    *,
    label: str | Sequence[str],
    good: str | Sequence[str],
    by: str | Sequence[str],
    labels: Any = None,  # noqa: ANN401  as above
    per: str | None = None,
    unit: Literal["row", "context"] | None = None,
    precision: float | None = None,
    recall: float | None = None,
    sure: float = 0.9,
    on_average: bool = False,
    out: str | Path | None = None,
) -> calibrating.Calibration:
    """Choose a cut-off that keeps a promise, from labels of some rows, as `refladder calibrate`.

    People label a random sample of the rows. The cut-off keeps as many rows as can be promised.

    Args:
        table: scored rows, as for `refladder.score`.
        label: column of the labels; several, one for each `by`, where all must hold.
        good: which labels are good, such as `">=4"` or `"=yes"`; one for all columns, or one for each.
        by: column of the scores; several, where all must reach a cut-off.
        labels: table of labels with the ids of rows (output_id, id, or context_id and system), as `table`; or a list of
            paths of such tables. None: the labels are in `table`.
        per: keep only the best row of each value of this column, such as `context_id`.
        unit: what was drawn at random to be labelled: `"row"`, or `"context"` with some or all of its rows. None:
            contexts, where rows have one.
        precision: promised share of good rows among those kept, between 0 and 1.
        recall: promised share of the good rows that are kept, instead of `precision`.
        sure: probability of the promise, between 0 and 1.
        on_average: promise the precision on average over runs; `sure` is not used.
        out: file for the cut-off, for `refladder filter --threshold`. It counts the looks: a run with other labels or
            another promise has less of 1 - `sure` than the first.

    Returns:
        The result. Its `threshold` is what `refladder.filter` and `refladder.score` take; its `refused` says that no
        cut-off can be promised, and `labels_needed` how many more labels would do.

    Raises:
        UsageError: an argument is wrong.
        DataError: a column is missing, a score or a label is no number, labels are of other rows, or signatures differ;
            with path:line or the number of the row.
    """
    given = {name: value for name, value in locals().items() if name != "table"}
    with ExitStack() as stack:
        stack.enter_context(in_words_of_python(given))
        promise = calibrating.Promise(precision=precision, recall=recall, sure=None if on_average else sure)
        conditions = tuple(map(Good, _names(good)))
        pool, asked = _pool(
            stack, table, labels, by=_names(by), label=_names(label), good=conditions, per=per, unit=unit, out=out
        )
        earlier = None if out is None else calibrating.earlier_threshold(output_path(out))
        result = calibrating.calibrate(pool, asked, promise, earlier)
        if out is not None:
            write_record(output_path(out), result.threshold)
        if result.refused:
            _LOG.warning(
                "no cut-off can be promised; %d more labels could change this if they are all good",
                result.labels_needed,
            )
        for note in result.notes:
            _LOG.warning("%s", note)
        return result


def human_scale(
    table: Any,  # noqa: ANN401  a table of any package
    *,
    label: str,
    by: str,
    labels: Any = None,  # noqa: ANN401  as above
    per: str | None = None,
    out: str | Path | None = None,
) -> HumanScale:
    """Map a score to the expected human rating, from ratings of some rows, as `refladder calibrate --human-scale`.

    Args:
        table: scored rows, as for `refladder.score`.
        label: column of the ratings.
        by: column of the scores.
        labels: as for `calibrate`.
        per: as for `calibrate`.
        out: file for the scale, for `refladder score --calibration`.

    Returns:
        The scale, which `refladder.score` takes as `calibration`.

    Raises:
        UsageError: an argument is wrong, the ratings are of one context, or scores or ratings are constant.
        DataError: see `calibrate`.
    """
    with ExitStack() as stack:
        stack.enter_context(in_words_of_python(("label", "by", "labels", "per", "out")))
        pool, asked = _pool(stack, table, labels, by=(by,), label=(label,), good=(), per=per, unit=None, out=out)
        scale = fitted_scale(pool, asked)
        if out is not None:
            write_record(output_path(out), scale)
        for note in pool.notes:
            _LOG.warning("%s", note)
        return scale


def _names(value: str | Sequence[str]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def _pool(
    stack: ExitStack,
    table: Any,  # noqa: ANN401
    labels: Any,  # noqa: ANN401
    *,
    by: tuple[str, ...],
    label: tuple[str, ...],
    good: tuple[Good, ...],
    per: str | None,
    unit: Literal["row", "context"] | None,
    out: str | Path | None,
) -> tuple[Pool, Asked]:
    """Scores and labels of the tables, and what the columns are."""
    if not label:
        raise UsageError("give the column of the labels: label=COLUMN")
    asked = Asked(by=by, label=label, good=good, per=per, unit=unit)
    asked = replace(asked, labels=label_tables(stack, labels, asked))
    in_memory = not isinstance(table, str | Path)
    source = written(stack, table, asked.needed, "the table") if in_memory else str(table)
    read = {"the table": source, **{f"labels {path}": path for path in asked.labels}}
    refuse_same_files(read if out is None else {**read, "out": str(out)})
    with progress("reading") as update:
        pool = read_pool(source, asked, progress=update)
    if in_memory:
        pool.notes = [note.replace(source, "the table") for note in pool.notes]
    return pool, asked


def label_tables(stack: ExitStack, labels: Any, asked: Asked) -> tuple[str, ...]:  # noqa: ANN401
    """The paths of tables of labels: those that are given, or that of a temporary file; none for None."""
    if isinstance(labels, str | Path):
        return (str(labels),)
    if isinstance(labels, Sequence) and labels and all(isinstance(path, str | Path) for path in labels):
        return tuple(map(str, labels))
    return () if labels is None else (written(stack, labels, asked.needed, "labels"),)
