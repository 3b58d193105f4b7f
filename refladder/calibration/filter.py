"""filter: split scored rows by thresholds, by a top fraction or by the best of each group, in order and unchanged."""

from __future__ import annotations

import math
import operator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from refladder.calibration.labelling import filled_cells
from refladder.calibration.promise import check_signature, other_scores
from refladder.calibration.records import Filtering, Threshold
from refladder.calibration.score_sample import ScoreSample
from refladder.errors import DataError, UsageError, meant_share, option, plural
from refladder.files.jsonl import read_record
from refladder.files.tables import (
    Row,
    format_of,
    number_in,
    parse_number,
    read_rows,
    read_twice,
    source_name,
)
from refladder.jobs.input_table import check_free, table_sink
from refladder.loaders.fields import without_number
from refladder.loaders.input_rows import Mapped
from refladder.loaders.linker import open_link
from refladder.loaders.scored_tables import (
    OneScale,
    mapped_columns,
    ranked_by,
    reported,
)
from refladder.signatures import is_revised

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from refladder.events import Events
    from refladder.files.tables import Rows, Write
    from refladder.loaders.linker import Linker
    from refladder.settings import Tables


KEEP, DROP = "keep", "drop"
_OTHER_JUDGE = (
    "the threshold's promise was made for another judge, and does not hold for these rows; label some of them and run "
    "`refladder calibrate`"
)
# A context is known by its id, else by its text.
_CONTEXT = "context_id", "context"
_REVISED = "the {} is of an earlier revision of the ladders; `build --add` changed none of those, so it still holds"


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition(Filtering):
    """Settings that are checked; those of a threshold are its numbers, and `promise` is its record."""

    promise: Threshold | None = None

    def __post_init__(self) -> None:
        low, up, top, best, per, by = map(option, ("min", "max", "top", "best", "per", "by"))
        if (
            not self.min
            and not self.max
            and self.top is None
            and self.best is None
            and self.per is None
            and self.link is None
        ):
            raise UsageError(
                f"nothing to filter by; give {low} COLUMN=VALUE, {up} COLUMN=VALUE, {top}, or {best} and {per}"
            )
        if (self.best is None) != (self.per is None):
            raise UsageError(f"{best} K and {per} COLUMN go together; give both")
        if self.best is not None and self.top is not None:
            raise UsageError(
                f"{top} is a fraction of all rows, and {best} a number in each group; give one of them"
            )
        if self.best is not None and self.best < 1:
            raise UsageError(f"{best} {self.best}: a number of rows must be 1 or more")
        if self.by is not None and self.link is None and self.best is None and self.top is None:
            raise UsageError(f"{by} COLUMN is for {top} FRACTION or {best} K; give one of them")
        if self.top is not None and not 0 < self.top <= 1:
            raise UsageError(
                f"{top} {self.top}: a fraction must be more than 0 and at most 1{meant_share(self.top)}"
            )
        for column, value in [*self.min.items(), *self.max.items()]:
            if not math.isfinite(value):
                raise UsageError(f"threshold {column}={value}: a threshold must be a finite number")

    @property
    def scores(self) -> list[str]:
        """Return the columns whose numbers are compared, each once."""
        columns = dict.fromkeys([*self.min, *self.max])
        if self.by and self.link is None:
            columns[self.by] = None
        return list(columns)

    @property
    def needed(self) -> set[str]:
        """Return every column that `run` reads, once `by` is known: groups and signature too."""
        needed = {*self.scores, "signature"}
        if self.per:
            needed.add(self.per)
        if self.promise is not None:
            needed |= {*_CONTEXT}
        return needed


def read_threshold(threshold: Path | Threshold) -> Threshold:
    """Return a threshold, or that of a file."""
    if isinstance(threshold, Threshold):
        return threshold
    try:
        return read_record(Threshold, threshold)
    except DataError as error:
        if not threshold.is_file():
            raise
        raise DataError(f"{error}; name a file of `refladder calibrate --out`") from error


def promised_condition(threshold: Path | Threshold) -> Condition:
    """Return the condition of a threshold or its file, which keeps its promise only by itself."""
    if isinstance(threshold, Path) and parse_number(str(threshold)) is not None:
        raise UsageError(
            f"{option('threshold')} {threshold}: must be a file of `refladder calibrate`; for a number, give "
            f"{option('min')} COLUMN={threshold}"
        )
    promise = read_threshold(threshold)
    if promise.cutoff is None:
        where = "the threshold" if promise is threshold else threshold
        raise DataError(
            f"{where}: no cut-off could be promised from {plural(promise.labels, 'label')}; label more rows and run "
            "`refladder calibrate` again"
        )
    return Condition(min={promise.column: promise.cutoff}, promise=promise)


def condition_of(asked: Filtering) -> Condition:
    """Return the condition of a threshold, or that of the other settings."""
    low, up, top, best, per, mix = map(option, ("min", "max", "top", "best", "per", "mix"))
    columns = Mapped(columns=asked.columns).columns
    selects = asked.top is not None or asked.best is not None
    if asked.threshold is None:
        given = {each.name: getattr(asked, each.name) for each in fields(asked)}
        if asked.per is not None:
            given["per"] = columns.get(asked.per, asked.per)
        condition = Condition(**given)
    elif (
        asked.min
        or asked.max
        or selects
        or (asked.by and asked.link is None)
        or asked.per
        or asked.mix
    ):
        raise UsageError(
            f"{option('threshold')} cannot be combined with other conditions; leave out {low}, {up}, {top}, {best}, "
            f"{per}, {option('by')} and {mix}"
        )
    else:
        kept = ("link", "by", "rejected", "unscored", "across_judges")
        others = {name: getattr(asked, name) for name in kept}
        condition = replace(promised_condition(asked.threshold), **others)
    if asked.link is not None and (asked.mix or selects):
        raise UsageError(
            f"{option('link')} maps scores for {low}, {up} and {option('threshold')}; leave out {mix}, {top} and {best}"
        )
    return condition


@dataclass(slots=True, kw_only=True)
class FilterReport:
    """Counts of rows, the range of each column, and the rows `uncertain` at an end of the link's interval.

    `promise` is that of a threshold, by name; None without one, and where another judge made the threshold.
    `added` are the columns that the link adds to the rows.
    """

    rows: int = 0
    passed: int = 0
    rejected: int = 0
    unscored: int = 0
    unscored_to: str = DROP
    ranges: dict[str, tuple[float, float]] = field(default_factory=dict)
    uncertain: int | None = None
    columns: Sequence[str] = ()
    added: Mapping[str, type] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    has_threshold: bool = False
    promise: dict[str, float | None] | None = None

    def summary(self) -> dict[str, Any]:
        """Return the counts as JSON values."""
        names = ("rows", "passed", "rejected", "unscored", "unscored_to", "ranges")
        counts = {name: getattr(self, name) for name in names}
        if self.has_threshold:
            counts["promise"] = self.promise
        return counts if self.uncertain is None else {**counts, "uncertain": self.uncertain}

    def lines(self) -> list[str]:
        """Return the counts as a sentence, the notes, and why no row passes."""
        unscored_to = {KEEP: "kept", DROP: "dropped"}.get(
            self.unscored_to, f"in {self.unscored_to}"
        )
        share = f" ({self.passed / self.rows:.1%})" if self.rows else ""
        counts = (
            f"{self.passed:,} passed{share}, {self.rejected:,} rejected, {self.unscored:,} unscored"
        )
        lines = [f"{plural(self.rows, 'row')}: {counts} ({unscored_to})", *self.notes]
        if self.uncertain is not None:
            rows = plural(self.uncertain, "row")
            lines.append(f"uncertain: {rows} (another decision at an end of the link's interval)")
        if self.rows and not self.passed:
            lines.append(f"no row passes: {', '.join(map(self._range_of, self.columns))}")
        return lines

    def _range_of(self, column: str) -> str:
        if column not in self.ranges:
            return f"{column} holds no number"
        low, high = self.ranges[column]
        return f"{column} is between {low:g} and {high:g}"


class _Thresholds:
    """Tests rows: True for one that passes, None for one without a score. Records the range of each column.

    `revised` says whether a row has a later revision of the threshold's ladders, and `uncertain` is the number of rows
    whose decision is another at an end of the interval of the link.
    """

    def __init__(
        self, condition: Condition, linker: Linker | None = None, contexts: Sequence[str] = ()
    ) -> None:
        self.ranges: dict[str, tuple[float, float]] = {}
        self._tests = [
            *((column, operator.ge, bound) for column, bound in condition.min.items()),
            *((column, operator.le, bound) for column, bound in condition.max.items()),
        ]
        self._columns = condition.scores
        self._across = condition.across_judges
        self._check_scale = OneScale(self._columns, mix=condition.mix, across_judges=self._across)
        self._promise = condition.promise
        self.other_judge = False
        self._linker = linker
        self._contexts = contexts
        self._one_each = ScoreSample()
        self.revised = False
        self.uncertain = 0

    def __call__(self, row: Row) -> bool | None:
        known = self._known(row)
        if len(known) < len(self._columns):
            return None
        if self._linker is not None:
            known = self._linked(row, known, self._linker)
        elif self._promise is not None:
            self._check_promise(self._promise, row.signature, row.where)
        else:
            self._check_scale(row)
        if self._promise is not None and self._promise.scores is not None:
            # A promise is about one column.
            (score,) = known.values()
            self._one_each.add(filled_cells(row, *self._contexts), score)
        return all(holds(known[column], bound) for column, holds, bound in self._tests)

    def describe(self, report: FilterReport) -> None:
        """Add the ranges, the uncertain rows and notes on the promise and the link to a report."""
        report.ranges = self.ranges
        report.notes += self._check_scale.notes
        report.has_threshold = self._promise is not None
        if self.other_judge:
            report.notes.append(_OTHER_JUDGE)
        elif self._promise is not None:
            names = ("precision", "recall", "sure")
            report.promise = {name: getattr(self._promise, name) for name in names}
        if self.revised:
            report.notes.append(_REVISED.format("threshold"))
        if self._promise is not None:
            differ = other_scores(self._one_each.scores, self._promise.scores)
            report.notes += [differ] if differ else []
        if self._linker is not None and self._linker.revised:
            report.notes.append(_REVISED.format("link"))
        if self._linker is not None and self._linker.has_intervals:
            report.uncertain = self.uncertain
        elif self._linker is not None:
            report.notes.append(
                "the link was made from too few texts for an interval of its map, so no row counts as uncertain"
            )

    def _check_promise(self, promise: Threshold, signature: object, where: str) -> None:
        """Check a row, or what a link maps to, against a threshold."""
        self.other_judge |= check_signature(signature, promise, where, across_judges=self._across)
        self.revised |= is_revised(signature, promise.signature)

    def _known(self, row: Row) -> dict[str, float]:
        """Return the columns of a row that have a number, and widen their ranges."""
        known: dict[str, float] = {}
        for column in self._columns:
            value = number_in(row, column)
            if value is not None:
                known[column] = value
                low, high = self.ranges.get(column, (value, value))
                self.ranges[column] = min(low, value), max(high, value)
        return known

    def _linked(self, row: Row, known: dict[str, float], linker: Linker) -> dict[str, float]:
        """Return the numbers of a row on the scale of the link."""
        if self._promise is not None:
            self._check_promise(self._promise, linker.target_signature, "the link")
        if not linker.maps(row.signature, row.where):
            return known
        uncertain = False
        mapped = {}
        for column, score in known.items():
            value, *ends = linker.value(column, score, row.where)
            mapped[column] = value
            for name, holds, bound in self._tests:
                if name == column:
                    uncertain |= any(holds(end, bound) != holds(value, bound) for end in ends)
        self.uncertain += uncertain
        return mapped


def _best_rows(source: str, form: str, condition: Condition) -> set[int]:
    """Return the numbers of the best rows; round a top fraction up, and take the earlier of rows with equal values."""
    passes = _Thresholds(condition)
    numbers: list[int] = []
    values: list[float] = []
    groups: list[int] = []
    group_of: dict[str, int] = {}
    column = condition.by or ""
    for number, row in enumerate(read_rows(source, form)):
        if passes(row):
            numbers.append(number)
            values.append(number_in(row, column) or 0.0)
            if condition.per is not None:
                groups.append(group_of.setdefault(_group(row, condition.per), len(group_of)))
    if condition.best is not None:
        # The sort is stable, so rows of equal values keep their order.
        order = np.lexsort((-np.asarray(values), np.asarray(groups)))
        grouped = np.asarray(groups, dtype=np.int64)[order]
        rank = np.arange(len(order)) - np.searchsorted(grouped, grouped)
        return {numbers[index] for index in order[rank < condition.best].tolist()}
    # The fraction is the decimal that was given, because 0.1 * 30 as floats is a little over 3.
    wanted = math.ceil(Fraction(str(condition.top)) * len(values))
    best = np.argsort(-np.asarray(values), kind="stable")[:wanted]
    return {numbers[index] for index in best.tolist()}


def _group(row: Row, column: str) -> str:
    if column not in row.fields:
        columns = ", ".join(map(str, row.fields)) or "none"
        raise DataError(f"{row.where}: no column {column!r} to group by. Columns: {columns}")
    return repr(without_number(row.fields[column]))


def run(asked: Filtering, tables: Tables, events: Events) -> FilterReport:
    """Split a table: rows that pass go to its output, the others to `rejected` if given.

    A top fraction and the best of each group need two passes over the rows, with about 150 bytes of memory a row.
    """
    condition = condition_of(asked)
    linker = open_link(asked.link)
    if linker is not None:
        condition = _of_link(condition, linker)
    source, form = tables.source, format_of(tables.source, tables.given)
    selects = condition.top is not None or condition.best is not None
    named = source_name(source)
    with ExitStack() as stack:
        if selects:
            source = stack.enter_context(read_twice(source, form))
        if selects and condition.by is None:
            with closing(read_rows(source, form)) as scored:
                condition = replace(condition, by=ranked_by([(named, scored)]))
        rows = read_rows(source, form)
        stack.callback(rows.close)
        columns, mapped = rows.columns() or (), mapped_columns(named)
        if condition.per in mapped and condition.per not in columns:
            condition = replace(condition, per=mapped[condition.per])
        best = _best_rows(source, form, condition) if selects else None
        _check_first(rows, named, _Thresholds(condition, linker))

        renamed = [f"{field}={name}" for field, name in mapped.items()]
        record = {"command": "filter", "options": {"column": renamed}}

        added = {} if linker is None else linker.added(columns)
        check_free(named, rows, added)

        def sink(path: str) -> Write:
            like = replace(tables, source=source, given=form, out=path)
            return stack.enter_context(table_sink(like, added, rows, record))

        passed = sink(tables.out)
        failed = sink(asked.rejected) if asked.rejected is not None else _drop
        without = {KEEP: passed, DROP: _drop}.get(asked.unscored) or sink(asked.unscored)
        report = FilterReport(unscored_to=asked.unscored, columns=condition.scores, added=added)
        fields = {**mapped, **asked.columns}
        contexts = [fields.get(name, name) for name in _CONTEXT]
        passes = _Thresholds(condition, linker, contexts)
        progress = stack.enter_context(events.progress("filtering"))
        for number, row in reported(rows, progress):
            verdict = passes(row)
            values = None if linker is None else linker.values(row, added)
            if verdict is None:
                report.unscored += 1
                without(row, values)
            elif verdict and (best is None or number in best):
                report.passed += 1
                passed(row, values)
            else:
                report.rejected += 1
                failed(row, values)
    passes.describe(report)
    report.rows = report.passed + report.rejected + report.unscored
    return report


def _check_first(rows: Rows, named: str, passes: _Thresholds) -> None:
    """Test the first row, or the header of a table without rows, so that what is wrong is an error before any output."""
    first, columns = rows.first(), rows.columns()
    if first is None and columns:
        first = Row(f"{named}:1", dict.fromkeys(columns))
    if first is not None:
        passes(first)


def _of_link(condition: Condition, linker: Linker) -> Condition:
    """Return the condition on the columns that a link maps; conditions may also name its targets."""
    names = {linked.to_column: linked.column for linked in linker.columns.values()}
    if condition.by is not None:
        names |= dict.fromkeys([*names, *names.values()], condition.by)
        linker.rename(condition.by)

    def renamed(bounds: Mapping[str, float]) -> dict[str, float]:
        return {names.get(name, name): bound for name, bound in bounds.items()}

    return replace(condition, min=renamed(condition.min), max=renamed(condition.max))


def _drop(_row: Row, _values: Mapping[str, object] | None = None, /) -> None:
    """Drop a row."""
