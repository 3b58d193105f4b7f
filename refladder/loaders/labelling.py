"""Scored rows and the labels that people gave to some of them, read in one pass for the jobs of `calibrate`."""

from __future__ import annotations

import hashlib
import heapq
import itertools
import math
import operator
import re
from array import array
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

import numpy as np

from refladder.errors import DataError, UsageError, column_option, either, option, plural
from refladder.files.tables import Row, Rows, meant_number, number_in, parse_number, read_rows
from refladder.loaders.draft import output_text_id
from refladder.loaders.fields import numbers_of, without_number
from refladder.loaders.input_rows import Mapped
from refladder.loaders.scored_tables import mapped_columns, reported
from refladder.records import digest_of, same_scale

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from refladder.arrays import BoolArray, FloatArray, IntArray
    from refladder.events import Events
    from refladder.records import Progress, Threshold

# Texts that are measured for the surface baseline, besides those with labels.
SAMPLED = 2000
# Most different numbers among the labels that a note lists.
MOST_LISTED = 10
# Prefix of digests of a text.
TEXT = "text:"
_NAMES = ("output_id", "id")
_ONE = ("output_id",)
_IDS = (("output_id",), ("id",), ("context_id", "context", "system", "output"))
_CONDITION = re.compile(r"\s*(>=|<=|==|!=|>|<|=)\s*(.*\S)\s*")
_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    ">=": operator.ge, ">": operator.gt, "<=": operator.le, "<": operator.lt,
    "!=": operator.ne, "=": operator.eq, "==": operator.eq,
}  # fmt: skip


class Good:
    """A condition on a label, such as `>=4` or `=yes`."""

    def __init__(self, text: str) -> None:
        match = _CONDITION.fullmatch(text)
        number = parse_number(match[2]) if match else None
        # The typing errors => and =<.
        turned = match is not None and match[1] == "=" and match[2][0] in "<>"
        if match is None or turned or (number is None and match[1] not in {"=", "==", "!="}):
            name = option("good")
            meant = meant_number(match[2]) if match else ""
            raise UsageError(
                f"{name} {text!r}: must be a comparison with a number, such as '>=4', or '=WORD'{meant}"
            )
        self.text, self.number = text, number
        self._word, self._holds = match[2], _COMPARISONS[match[1]]

    def read(self, row: Row, column: str) -> float | str | None:
        """Return the label of a row as a number, or as a word for a condition with a word; None if it is empty."""
        if self.number is not None or column not in row.fields:
            return rating_in(row, column)
        value = row.fields[column]
        # NaN does not equal itself.
        if value is None or value == "" or value != value:  # noqa: PLR0124
            return None
        return str(value).lower() if type(value) is bool else str(value)

    def notes(self, labels: Sequence[float | str]) -> list[str]:
        """Return which labels there are, how many rows have each, and which are probably slips of one word."""
        counts = sorted(
            Counter(labels).items(), key=lambda each: (isinstance(each[0], str), each[0])
        )
        values = [value for value, _ in counts]
        shown = repr if self.number is None else "{:g}".format
        seen = [
            f"{shown(value)} ({plural(count, 'row')}{', good' if good else ''})"
            for (value, count), good in zip(counts, self.meets(values), strict=True)
        ]
        few = self.number is None or len(seen) <= MOST_LISTED
        notes = [f"labels: {', '.join(seen)}"] if seen and few else []
        alike: dict[str, list[str]] = {}
        for word in map(str, values if self.number is None else ()):
            alike.setdefault(word.strip().casefold(), []).append(word)
        notes += [
            f"{' and '.join(map(repr, each))} differ in case or spaces only, and count as different labels; write them "
            "alike if this is a slip"
            for each in alike.values()
            if len(each) > 1
        ]
        return notes

    def meets(self, labels: Sequence[float | str]) -> BoolArray:
        """Return which labels meet the condition."""
        if self.number is None:
            return np.array([self._holds(label, self._word) for label in labels], dtype=np.bool_)
        values = np.asarray(labels, dtype=np.float64)
        # Means of a few ratings are not exact: 4 may be 3.9999999999999996.
        values = np.where(np.isclose(values, self.number, rtol=0, atol=1e-9), self.number, values)
        return cast("BoolArray", self._holds(values, self.number))


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledTable:
    """A table of scores and the labels of some rows: where they are, and what their columns are.

    `source` is the scored table, of the format `given`. Without a table in `labels`, the label column is there too.
    `good` is the condition of a good label, None where labels are ratings. `unit` is what was drawn at random to be
    labelled; None is `context` where rows have one. `columns` maps fields to columns.
    """

    source: str
    given: str | None = None
    by: str
    label: str | None = None
    good: Good | None = None
    labels: tuple[str, ...] = ()
    unit: Literal["row", "context"] | None = None
    columns: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.by:
            raise UsageError(f"give the column of the scores: {option('by')} COLUMN")
        if self.unit not in {None, "row", "context"}:
            raise UsageError(f"{option('unit')} {self.unit!r}: must be row or context")

    @property
    def needed(self) -> set[str]:
        """Return every column of the tables that `read_pool` reads."""
        ids = {name for names in _IDS for name in names}
        labels = [] if self.label is None else [self.label]
        return {
            self.by,
            sampled_above(self.by),
            *labels,
            *ids,
            "context",
            "signature",
            *self.columns.values(),
        }


def table_of(given: Mapping[str, Any], threshold: Threshold | None = None) -> LabelledTable:
    """Return the labelled table of a command or a call; scores and unit are those of a threshold, if there is one."""
    good = given.get("good")
    return LabelledTable(
        source=str(given.get("table") or ""),
        given=given.get("given"),
        by=(given["by"] or "") if threshold is None else threshold.column,
        label=given.get("label"),
        good=None if good is None else Good(good),
        labels=given.get("labels") or (),
        unit=given.get("unit") or (threshold.unit if threshold else None),
        columns=given.get("columns") or {},
    )


class Texts(NamedTuple):
    """The text of a row beside that of its context, which is empty where the row has none; and the row's number."""

    position: int
    context: str
    output: str


class Labelled(NamedTuple):
    """A labelled row: its position among the rows with scores, its label, its digests (see `_digests`), its texts."""

    position: int
    label: float | str
    digests: tuple[str, ...]
    texts: Texts | None


@dataclass(slots=True, kw_only=True)
class Pool:
    """Rows with a score, and labels of some of them; one row of `scores`, `row_numbers` and `units` each.

    `marked` holds the labelled rows, `contexts` a number for the context of each, and `sample` the texts of a random
    sample of all rows. `lowest` is the least score of the rows from which labels were drawn, None for all rows.
    """

    scores: FloatArray
    unit: Literal["row", "context"]
    units: IntArray
    marked: list[Labelled]
    contexts: IntArray
    row_numbers: IntArray
    signature: str | None
    lowest: float | None
    unscored: int
    sample: list[Texts]
    notes: list[str]

    @property
    def labelled(self) -> IntArray:
        """Return the positions of the labelled rows."""
        return np.array([row.position for row in self.marked], dtype=np.int64)

    @property
    def labels(self) -> list[float | str]:
        """Return the label of each labelled row."""
        return [row.label for row in self.marked]

    @property
    def texts(self) -> list[Texts]:
        """Return the texts of the labelled rows; nothing if one has none."""
        texts = [row.texts for row in self.marked if row.texts is not None]
        return texts if len(texts) == len(self.marked) else []

    @property
    def used(self) -> tuple[str, ...]:
        """Return the digests of all labelled rows."""
        return tuple(
            dict.fromkeys(itertools.chain.from_iterable(row.digests for row in self.marked))
        )

    def good(self, condition: Good | None) -> BoolArray:
        """Return which labelled rows meet the condition."""
        return (
            np.ones(len(self.marked), np.bool_)
            if condition is None
            else condition.meets(self.labels)
        )


def rating_in(row: Row, column: str) -> float | None:
    """Return the rating in a column, or the mean of a list of several people's; None if none is given."""
    cell = row.fields.get(column)
    if not isinstance(cell, list) and not str(cell).lstrip().startswith("["):
        return number_in(row, column)
    given = [number for number in numbers_of(row, column) if number is not None]
    return math.fsum(given) / len(given) if given else None


def id_columns(columns: Sequence[str]) -> tuple[str, ...]:
    """Return the columns that identify a row: output_id, id, or those of context_id, system and output that exist."""
    present = (tuple(column for column in ids if column in columns) for ids in _IDS)
    return next(filter(None, present), ())


def sampled_above(column: str) -> str:
    """Name the column of a `calibrate --plan` file with the least score of the rows that it was drawn from."""
    return f"{column}_sampled_above"


def named(rows: Rows, columns: Mapping[str, str], *, all_of_them: bool = True) -> Rows:
    """Add to rows the names of their fields, as `LabelledTable.columns` maps them.

    Without `all_of_them`, columns that the table lacks are left out, and a field that it has keeps its column.
    """
    header = rows.columns() or []
    if not all_of_them:
        columns = {
            field: name for field, name in columns.items() if name in header and field not in header
        }
    for column in columns.values() if header else ():
        if column not in header:
            where = getattr(rows.first(), "where", "the table")
            raise DataError(f"{where}: no column {column!r}. Columns: {', '.join(header)}")
    if not columns:
        return rows
    both = (
        replace(
            row,
            fields=row.fields | {name: row.fields.get(column) for name, column in columns.items()},
        )
        for row in rows
    )
    return Rows(both, [*header, *(name for name in columns if name not in header)], rows.style)


def open_pool(table: LabelledTable, events: Events) -> tuple[LabelledTable, Pool]:
    """Read scores and labels for a job of `calibrate`; return the table with the columns that `score` used, too."""
    if bool(table.label) != (table.good is not None):
        raise UsageError(
            "give the column of the labels and which are good: "
            + either("--label COLUMN --good '>=4'", "label=COLUMN, good='>=4'")
        )
    mapped = Mapped(columns=mapped_columns(table.source, table.columns))
    table = replace(table, columns=mapped.columns)
    with events.progress("reading") as progress:
        return table, read_pool(table, progress)


def read_pool(asked: LabelledTable, progress: Progress | None = None) -> Pool:
    """Read scores and labels in one pass; several labels of one row count as one, their mean."""
    return _Reader(asked).read(asked.source, asked.given, progress)


class _Reader:
    def __init__(self, table: LabelledTable) -> None:
        self.table = table
        self.scores = array("d")
        self.row_numbers = array("q")
        # A hash: names of a million contexts would be kept otherwise.
        self.context_of = array("q")
        self.with_context = False
        # By their key.
        self.marked: dict[tuple[str, ...], Labelled] = {}
        # A heap of the rows with the greatest places: a random sample.
        self.sample: list[tuple[str, Texts]] = []
        self.copies: Counter[str] = Counter()
        self.signature: str | None = None
        # The first row with scores.
        self.first: str | None = None
        self.unscored = 0
        self.notes: list[str] = []
        # Id columns of the tables of labels.
        self.wanted: tuple[str, ...] = ()

    def read(self, source: str, given: str | None, progress: Progress | None) -> Pool:
        rows = named(read_rows(source, given), self.table.columns)
        ids, labels, lowest = self._labels(rows.columns() or [], source)
        for number, row in reported(rows, progress):
            if not self._add(row, number):
                continue
            position = len(self.row_numbers) - 1
            texts = self._texts(row, position)
            if labels is None:
                key = _key(row, ids)
                # Beside the scores of JSON lines, a label column may be absent: then there is no label.
                label = self._label_in(row) if self.table.label in row.fields else None
            else:
                keys = self._ids_in(row) if ids == _ONE else [_key(row, ids)]
                key = next((each for each in keys if each in labels), keys[0])
                label = labels.get(key)
            if label is not None:
                if key in self.marked and ids == _ONE and self._is_made(row):
                    # The same text for the same context: one label, one id.
                    continue
                if key in self.marked:
                    raise DataError(
                        f"{row.where}: {_named(ids, key)} appears twice; labels need unique ids"
                    )
                self.marked[key] = Labelled(position, label, _digests(row, key), texts)
        missing = [key for key in labels or () if key not in self.marked]
        if missing and labels is not None:
            text = f"{len(missing):,} of {plural(len(labels), 'label')} not used: {source} does not score their rows, "
            text += f"such as {_named(ids, missing[0])}"
            if len(missing) == len(labels):
                raise DataError(
                    f"{self.table.labels[0]}: {text}; check that both tables have the same ids"
                )
            self.notes.append(text)
        return self._pool(lowest)

    def _add(self, row: Row, number: int) -> bool:
        """Keep the score of a row if it has one."""
        score = number_in(row, self.table.by)
        if score is None:
            self.unscored += 1
            return False
        signature = row.fields.get("signature") or None
        if self.first is None:
            self.first, self.signature = row.where, signature
        elif not same_scale(signature, self.signature):
            raise DataError(
                f"{row.where}: the scores have another signature here than in {self.first}; calibrate each signature "
                f"separately: {signature} and {self.signature}"
            )
        # Use its id, else its text.
        cells = (row.fields.get(name) for name in ("context_id", "context"))
        context = next((str(cell) for cell in cells if cell is not None and cell != ""), None)
        self.with_context = self.with_context or context is not None
        self.context_of.append(hash((len(self.row_numbers),) if context is None else context))
        self.scores.append(score)
        self.row_numbers.append(number)
        return True

    def _labels(
        self, columns: Sequence[str], source: str
    ) -> tuple[tuple[str, ...], dict[tuple[str, ...], float | str] | None, float | None]:
        """Return id columns, labels by id (None where the scored rows have them), and the lowest sampled score."""
        asked = self.table
        if not asked.labels or not asked.label:
            return id_columns(columns), None, None
        tables = [named(read_rows(path), asked.columns, all_of_them=False) for path in asked.labels]
        ids = self._shared_ids(columns, source, tables)
        read: dict[tuple[str, ...], list[float | str]] = {}
        wheres: dict[tuple[str, ...], str] = {}
        bounds: list[float] = []
        above = sampled_above(asked.by)
        for row in itertools.chain.from_iterable(tables):
            label = self._label_in(row)
            if label is None:
                continue
            its_ids = ids
            if ids == _ONE:
                its_ids = tuple(name for name in _NAMES if name in row.fields)[:1]
            key = _key(row, its_ids)
            read.setdefault(key, []).append(label)
            wheres[key] = row.where
            bound = number_in(row, above) if above in row.fields else None
            if bound is not None:
                bounds.append(bound)
        repeated = sum(len(given) > 1 for given in read.values())
        if repeated:
            self.notes.append(
                f"{plural(repeated, 'row')} with several labels, which count as one: their mean"
            )
        labels = {key: _mean(given, wheres[key]) for key, given in read.items()}
        return ids, labels, max(bounds, default=None)

    def _shared_ids(
        self, columns: Sequence[str], source: str, tables: Sequence[Rows]
    ) -> tuple[str, ...]:
        """Return the columns that identify a row here and in the tables of labels; `_ONE` for an id of any name."""
        names = [
            next((name for name in _NAMES if name in (table.columns() or ())), None)
            for table in tables
        ]
        self.wanted = tuple(dict.fromkeys(name for name in names if name is not None))
        has_id = any(name in columns for name in _NAMES) or {"output", "context"} <= {*columns}
        if has_id and None not in names:
            return _ONE
        shared = list(columns)
        for path, table in zip(self.table.labels, tables, strict=True):
            have = table.columns() or []
            shared = [column for column in shared if column in have]
            if not id_columns(have):
                raise DataError(
                    f"{path}: the labels have no id: add the column output_id (or id, or context_id and system) of "
                    f"{source}. Columns there: {', '.join(have) or 'none'}"
                )
            if not id_columns(shared):
                raise DataError(
                    f"{path}: no id column that {source} also has; both need output_id, id, or context_id and system. "
                    f"Columns there: {', '.join(have) or 'none'}; in {source}: {', '.join(columns) or 'none'}"
                )
        return id_columns(shared)

    def _ids_in(self, row: Row) -> list[tuple[str, ...]]:
        """Return what may identify a scored row in tables of labels: `output_id` and `id` are one thing.

        A row without an output_id has the id that `score` and the review page make of its texts.
        """
        names = [name for name in self.wanted if name in row.fields] or [
            name for name in _NAMES if name in row.fields
        ]
        keys = [_key(row, [name]) for name in names]
        if self._is_made(row):
            context_id, _, _ = Mapped(columns={}).context_of(row)
            keys += [(output_text_id(context_id, row.fields["output"]),)] if context_id else []
        return keys or [(row.where,)]

    def _is_made(self, row: Row) -> bool:
        cells = row.fields
        with_text = type(cells.get("output")) is str
        return (
            with_text
            and "output_id" not in cells
            and not {"context_id", "context"}.isdisjoint(cells)
        )

    def _label_in(self, row: Row) -> float | str | None:
        """Return the label in a row; None if it is empty."""
        column = self.table.label or ""
        return (
            rating_in(row, column) if self.table.good is None else self.table.good.read(row, column)
        )

    def _texts(self, row: Row, position: int) -> Texts | None:
        """Return the texts of a row, if it has any; they may enter the random sample of all rows."""
        text = row.fields.get("output")
        if type(text) is not str:
            return None
        context = row.fields.get("context")
        texts = Texts(position, context if type(context) is str else "", text)
        heapq.heappush(self.sample, (self._place(row), texts))
        if len(self.sample) > SAMPLED:
            heapq.heappop(self.sample)
        return texts

    def _place(self, row: Row) -> str:
        """Return a random text for a row, the same for any order of the rows."""
        cells = row.fields
        place = digest_of(*(str(cells.get(name)) for name in (*_NAMES, *_IDS[-1], self.table.by)))
        if not any(cells.get(name) for name in _NAMES):
            # Copies of a row have places of their own, or a sample would hold all of them or none.
            self.copies[place] += 1
            place = digest_of(place, str(self.copies[place]))
        return place

    def _pool(self, lowest: float | None) -> Pool:
        if self.table.unit == "context" and not self.with_context and len(self.row_numbers):
            raise DataError(
                f"{self.first}: no row has a context_id or a context; leave out {option('unit')} context"
            )
        unit: Literal["row", "context"] = self.table.unit or (
            "context" if self.with_context else "row"
        )
        if self.table.unit is None and not self.with_context and len(self.row_numbers):
            self.notes.append(
                "no column context_id or context, so each row counts as a unit; if several rows answer one prompt, "
                f"name its column with {column_option('context', 'NAME')}"
            )
        contexts = _numbered(np.array(self.context_of, dtype=np.int64))
        # By their ids, so that numbers of contexts, and with them folds, are the same for any order of the rows.
        marked = [self.marked[key] for key in sorted(self.marked)]
        return Pool(
            scores=np.array(self.scores),
            unit=unit,
            units=contexts if unit == "context" else np.arange(len(contexts)),
            marked=marked,
            contexts=_numbered(contexts[[row.position for row in marked]]),
            row_numbers=np.array(self.row_numbers, dtype=np.int64),
            signature=self.signature,
            lowest=lowest,
            unscored=self.unscored,
            sample=[texts for _, texts in self.sample],
            notes=self.notes,
        )


def _numbered(values: IntArray) -> IntArray:
    """Replace values by numbers, in the order in which each value is first seen."""
    _, first, inverse = np.unique(values, return_index=True, return_inverse=True)
    numbers: IntArray = np.argsort(np.argsort(first))[inverse]
    return numbers


def _key(row: Row, ids: Sequence[str]) -> tuple[str, ...]:
    """Return what identifies a row; its position if it has no ids. A number and its text are the same id."""
    if len(ids) == 1:
        name = row.fields.get(ids[0])
        return (row.where if name is None or name == "" else str(without_number(name)),)
    return tuple([str(without_number(row.fields.get(name))) for name in ids]) or (row.where,)


def _digests(row: Row, key: tuple[str, ...]) -> tuple[str, ...]:
    """Return digests by which a labelled row is recognised: of its key and ids, and of its text with its context."""
    cells = {name: cell for name, cell in row.fields.items() if cell is not None and cell != ""}
    names = [key, *((str(cells[name]),) for name in ("output_id", "id") if name in cells)]
    known = [_digest(name) for name in names]
    if type(text := cells.get("output")) is str:
        contexts = [str(cells[name]) for name in ("context", "context_id") if name in cells]
        known += [TEXT + _digest((context, text)) for context in contexts or [""]]
    return tuple(dict.fromkeys(known))


def _digest(parts: tuple[str, ...]) -> str:
    return hashlib.blake2b(repr(parts).encode("utf-8", "replace"), digest_size=6).hexdigest()


def _named(ids: Sequence[str], key: Sequence[str]) -> str:
    return (
        ", ".join(f"{name} {value[:40]!r}" for name, value in zip(ids, key, strict=False)) or key[0]
    )


def _mean(labels: Sequence[float | str], where: str) -> float | str:
    """Combine several labels of one row: the mean of numbers; words must be equal."""
    numbers = [label for label in labels if not isinstance(label, str)]
    if len(numbers) == len(labels):
        return math.fsum(numbers) / len(numbers)
    if len(set(labels)) > 1:
        raise DataError(
            f"{where}: a row has different labels, {sorted(set(map(str, labels)))}; keep one of them"
        )
    return labels[0]
