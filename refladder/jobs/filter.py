"""filter: split scored rows by thresholds or by a top fraction, in order and unchanged."""

from __future__ import annotations

import math
import os
import shutil
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from refladder.errors import DataError, UsageError
from refladder.files.jsonl import cannot_write
from refladder.files.tables import STANDARD, Row, format_of, number_in, open_sink, read_once, read_rows, standard_form

if TYPE_CHECKING:
    from collections.abc import Mapping

    from refladder.files.tables import Write
    from refladder.records import Progress


KEEP, DROP = "keep", "drop"
_OF_SCORES = ("_score", "_grade", "_spread")  # endings of columns that are comparable within one signature only
_PROGRESS_EVERY = 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """The rows that pass: every `least` reached, no `most` exceeded, and in the `top` fraction by column `top_by`."""

    least: Mapping[str, float] = field(default_factory=dict)
    most: Mapping[str, float] = field(default_factory=dict)
    top: float | None = None
    top_by: str | None = None

    def __post_init__(self) -> None:
        if not self.least and not self.most and self.top is None:
            raise UsageError("nothing to filter by; give --min COLUMN=VALUE, --max COLUMN=VALUE, or --top and --by")
        if (self.top is None) != (self.top_by is None):
            raise UsageError("--top FRACTION and --by COLUMN go together; give both")
        if self.top is not None and not 0 < self.top <= 1:
            raise UsageError(f"--top {self.top}: a fraction must be more than 0 and at most 1")
        for column, value in [*self.least.items(), *self.most.items()]:
            if not math.isfinite(value):
                raise UsageError(f"threshold {column}={value}: a threshold must be a finite number")

    @property
    def columns(self) -> list[str]:
        """The columns of the condition, each once."""
        return list(dict.fromkeys([*self.least, *self.most, *([self.top_by] if self.top_by else [])]))


@dataclass(slots=True, kw_only=True)
class FilterReport:
    """Counts of rows: read, passed, rejected, and unscored (a column of the condition holds no number).

    `unscored_to` is where unscored rows went. `ranges` is the least and greatest number of each column of the condition
    that holds one.
    """

    rows: int = 0
    passed: int = 0
    rejected: int = 0
    unscored: int = 0
    unscored_to: str = DROP
    ranges: dict[str, tuple[float, float]] = field(default_factory=dict)


class _Thresholds:
    """Tests rows: True for one that passes, None for one without a score in some column. Records each column's range.

    Unless `mix`, rows with different signatures are refused, because their scores are on different scales.
    """

    def __init__(self, condition: Condition, *, mix: bool) -> None:
        self.ranges: dict[str, tuple[float, float]] = {}
        self._least, self._most = list(condition.least.items()), list(condition.most.items())
        self._columns = condition.columns
        self._compared = next((name for name in self._columns if name.endswith(_OF_SCORES)), None) if not mix else None
        self._first: tuple[object, str] | None = None  # a signature and the row that has it

    def __call__(self, row: Row) -> bool | None:
        numbers: dict[str, float] = {}
        for column in self._columns:
            value = number_in(row, column)
            if value is not None:
                numbers[column] = value
                low, high = self.ranges.get(column, (value, value))
                self.ranges[column] = (min(low, value), max(high, value))
        if len(numbers) < len(self._columns):
            return None
        if self._compared is not None:
            self._check_signature(row, self._compared)
        return all(numbers[column] >= bound for column, bound in self._least) and all(
            numbers[column] <= bound for column, bound in self._most
        )

    def _check_signature(self, row: Row, column: str) -> None:
        signature = row.fields.get("signature") or None
        if self._first is None:
            self._first = signature, row.where
        first, where = self._first
        if signature != first:
            parts, first_parts = _differing(signature, first)
            raise DataError(
                f"{row.where}: the scores in column {column!r} are on different scales: {parts} here, {first_parts} in "
                f"{where}; filter each signature separately, or compare them as they are with --mix"
            )


def _differing(first: object, second: object) -> tuple[str, str]:
    """The parts of two signatures that are not in both."""
    parts = [[] if signature is None else str(signature).split("|") for signature in (first, second)]
    shown = ["|".join(part for part in parts[side] if part not in parts[1 - side]) for side in (0, 1)]
    return shown[0] or "no signature", shown[1] or "no signature"


def _top_rows(source: str, form: str, condition: Condition, *, mix: bool) -> set[int]:
    """Numbers of the rows in the top fraction of those that have every score and reach every threshold.

    The number of rows is rounded up. Of rows with equal values, the earlier ones are taken.
    """
    passes = _Thresholds(condition, mix=mix)
    numbers: list[int] = []
    values: list[float] = []
    column = condition.top_by or ""
    for number, row in enumerate(read_rows(source, form)):
        if passes(row):
            numbers.append(number)
            values.append(number_in(row, column) or 0.0)
    wanted = math.ceil((condition.top or 0.0) * len(values) - 1e-9)  # 0.1 * 30 is a little over 3
    best = np.argsort(-np.asarray(values), kind="stable")[:wanted]
    return {numbers[index] for index in best.tolist()}


def filter_rows(
    condition: Condition,
    source: str,
    out: str,
    *,
    given: str | None = None,
    out_given: str | None = None,
    escape_formulas: bool = False,
    rejected: str | None = None,
    unscored: str = DROP,
    mix: bool = False,
    progress: Progress | None = None,
) -> FilterReport:
    """Split a table: rows that pass go to `out`, the others to `rejected` if given.

    A top fraction needs two passes over the rows; standard input is first copied to a temporary file.

    Args:
        condition: the rows that pass.
        source: file or `-`.
        out: file or `-`.
        given: format of the source; None to take it from the file's ending.
        out_given: format of the outputs, likewise.
        escape_formulas: put `'` before text in CSV that a spreadsheet would run as a formula.
        rejected: file for rows that do not pass.
        unscored: `keep` (rows without a score go to `out`), `drop`, or a file for them.
        mix: compare scores of different signatures.
        progress: called with rows done and None.

    Returns:
        The counts.

    Raises:
        DataError: with path:line, a column is missing or holds something other than a number, or the signature differs
            from that of earlier rows.
        UsageError: two outputs name the same file, or a format is unknown.
    """
    outputs = [out, *([rejected] if rejected else []), *([unscored] if unscored not in (KEEP, DROP) else [])]
    paths = [output if output == STANDARD else os.path.realpath(output) for output in outputs]
    if len(set(paths)) != len(paths) or (source != STANDARD and os.path.realpath(source) in paths):
        raise UsageError(f"the input and the outputs must be different files, found {[source, *outputs]}")
    form = format_of(source, given)
    with ExitStack() as stack:
        named = source
        if condition.top is not None and read_once(source):
            source = _spooled(stack, source, form)
        parquet = source if form == "parquet" else None
        try:
            top = _top_rows(source, form, condition, mix=mix) if condition.top is not None else None
            rows = read_rows(source, form)
            stack.callback(rows.close)
            columns = rows.columns()

            def sink(path: str) -> Write:
                form_out = out_given or standard_form(path, form)
                return stack.enter_context(
                    open_sink(path, form_out, {}, columns, parquet, escape_formulas=escape_formulas)
                )

            passed = sink(out)
            failed = sink(rejected) if rejected is not None else _drop
            without = {KEEP: passed, DROP: _drop}.get(unscored) or sink(unscored)
            report = FilterReport(unscored_to=unscored)
            passes = _Thresholds(condition, mix=mix)
            for number, row in enumerate(rows):
                verdict = passes(row)
                if verdict is None:
                    report.unscored += 1
                    without(row)
                elif verdict and (top is None or number in top):
                    report.passed += 1
                    passed(row)
                else:
                    report.rejected += 1
                    failed(row)
                if progress is not None and number % _PROGRESS_EVERY == 0:
                    progress(number, None)
        except DataError as error:
            if source != named:  # the message names the user's file, not the temporary one
                raise DataError(str(error).replace(source, "<stdin>" if named == STANDARD else named)) from error
            raise
    report.ranges = passes.ranges
    report.rows = report.passed + report.rejected + report.unscored
    return report


def _drop(_row: Row, _values: Mapping[str, object] | None = None, /) -> None:
    """The sink of dropped rows."""


def _spooled(stack: ExitStack, source: str, form: str) -> str:
    path = Path(stack.enter_context(tempfile.TemporaryDirectory())) / f"stdin.{form}"
    try:
        with path.open("wb") as spool, sys.stdin.buffer if source == STANDARD else Path(source).open("rb") as stream:
            shutil.copyfileobj(stream, spool)
    except OSError as error:
        raise cannot_write(path, error) from error
    return str(path)
