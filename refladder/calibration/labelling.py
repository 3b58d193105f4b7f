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

from refladder.calibration.score_sample import ScoreSample
from refladder.errors import DataError, UsageError, column_option, either, option, plural, similar
from refladder.files.tables import Row, Rows, meant_number, number_in, parse_number, read_rows
from refladder.loaders.draft import output_text_id
from refladder.loaders.fields import log_columns, numbers_of, without_number
from refladder.loaders.input_rows import Mapped
from refladder.loaders.scored_tables import OneScale, mapped_columns, reported
from refladder.records import digest_of, without_none
from refladder.signatures import same_scale

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from refladder.arrays import BoolArray, FloatArray, IntArray
    from refladder.calibration.records import Threshold
    from refladder.cli.calling import Call
    from refladder.events import Events
    from refladder.records import Progress
    from refladder.settings import Given

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
        sign, word = match.groups() if match else ("", "")
        number = parse_number(word)
        # The signs => and =< are typing errors, and no word begins with < or >.
        turned = sign == "=" and word.startswith(("<", ">"))
        if turned or (number is None and sign not in {"=", "==", "!="}):
            meant = meant_number(word)
            if match is None and parse_number(text) is None:
                meant = f"; did you mean {'=' + text.strip()!r}?"
            raise UsageError(
                f"{option('good')} {text!r}: must be a comparison with a number, such as '>=4', or '=WORD'{meant}"
            )
        self.text, self.number = text, number
        self._sign, self._word, self._holds = sign, word, _COMPARISONS[sign]

    def read(self, row: Row, column: str) -> float | str | None:
        """Return the label of a row as a number, or as a word for a condition with a word; None if it is empty."""
        if self.number is not None or column not in row.fields:
            try:
                return rating_in(row, column)
            except DataError as error:
                word = _as_word(row.fields.get(column))
                # A list, 4,5 or NaN is no word.
                if not word.replace(" ", "").isalpha() or parse_number(word) is not None:
                    raise
                meant = f"for words, give {option('good')} {'=' + word!r:.60}"
                raise DataError(f"{error}; {meant}") from error
        value = row.fields[column]
        # NaN does not equal itself.
        if value is None or value == "" or value != value:  # noqa: PLR0124
            return None
        return _as_word(value)

    def notes(self, labels: Sequence[float | str]) -> list[str]:
        """Return which labels there are, how many rows have each, and which are probably slips of one word."""
        counts = Counter(labels)
        values = sorted(counts, key=lambda label: (isinstance(label, str), label))
        notes = []
        if values and (self.number is None or len(values) <= MOST_LISTED):
            shown = repr if self.number is None else "{:g}".format
            seen = []
            for value, good in zip(values, self.meets(values), strict=True):
                good_or_not = ", good" if good else ""
                seen.append(f"{shown(value)} ({plural(counts[value], 'row')}{good_or_not})")
            notes.append(f"labels: {', '.join(seen)}")
        if self.number is None:
            notes += _slips(map(str, values))
        return notes

    def check_word(self, labels: Sequence[float | str]) -> None:
        """Refuse a word that no label is, which is a typing error; `!=WORD` only if a label differs by case or spaces.

        Where all labels are one other word, they may all be bad.
        """
        counts = Counter(map(str, labels))
        if self.number is not None or not counts or self._word in counts:
            return
        words = sorted(counts)
        near = next((word for word in words if _folded(word) == _folded(self._word)), None)
        if near is None and self._sign == "!=":
            return
        near = near or similar(self._word, words)
        if near is None and len(words) == 1:
            return
        step = f"give one of them: {option('good')} '=WORD'"
        if near is not None:
            step = f"did you mean {self._sign + near!r}?"
        seen = ", ".join(f"{word!r} ({plural(counts[word], 'row')})" for word in words)
        raise UsageError(f"no label is {self._word!r}; labels: {seen}; {step}")

    def meets(self, labels: Sequence[float | str]) -> BoolArray:
        """Return which labels meet the condition."""
        if self.number is None:
            return np.array([self._holds(label, self._word) for label in labels], dtype=np.bool_)
        values = np.asarray(labels, dtype=np.float64)
        # Means of a few ratings are not exact: 4 may be 3.9999999999999996.
        values = np.where(np.isclose(values, self.number, rtol=0, atol=1e-9), self.number, values)
        return cast("BoolArray", self._holds(values, self.number))


def _as_word(value: object) -> str:
    return str(value).lower() if type(value) is bool else str(value)


def _folded(word: str) -> str:
    return word.strip().casefold()


def _slips(words: Iterable[str]) -> Iterator[str]:
    """Yield a note on each group of words that differ in case or spaces only."""
    groups: dict[str, list[str]] = {}
    for word in words:
        groups.setdefault(_folded(word), []).append(word)
    for group in groups.values():
        if len(group) > 1:
            yield (
                f"{' and '.join(map(repr, group))} differ in case or spaces only, and count as different labels; write "
                "them alike if this is a slip"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledTable:
    """A table of scores and the labels of some rows: where they are, and what their columns are.

    `source` is the scored table, of the format `given`. Without a table in `labels`, the label column is there too.
    `good` is the condition of a good label, None where labels are ratings. `unit` is what was drawn at random to be
    labelled; None is `context` where rows have one. `columns` maps fields to columns. `across_judges` is that of
    `Filtering`; labels are of one judge's rows.
    """

    source: str
    given: str | None = None
    by: str
    label: str | None = None
    good: Good | None = None
    labels: tuple[str, ...] = ()
    unit: Literal["row", "context"] | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    across_judges: bool = False

    def __post_init__(self) -> None:
        if not self.by:
            raise UsageError(f"give the column of the scores: {option('by')} COLUMN")
        if self.unit not in {None, "row", "context"}:
            raise UsageError(f"{option('unit')} {self.unit!r}: must be row or context")

    @property
    def needed(self) -> set[str]:
        """Return every column of the tables that `read_pool` reads."""
        needed = {self.by, sampled_above(self.by), "context", "signature"}
        if self.label is not None:
            needed.add(self.label)
        return needed.union(self.columns.values(), *_IDS)


def table_of(given: Given, threshold: Threshold | None = None) -> LabelledTable:
    """Return the labelled table of a command or a call; scores and unit are those of a threshold, if there is one."""
    by, unit, good = given.get("by") or "", given.get("unit"), None
    if threshold is not None:
        by, unit = threshold.column, unit or threshold.unit
    if given.get("good") is not None:
        good = Good(given["good"])
    return LabelledTable(
        source=str(given.get("table") or ""),
        given=given.get("given"),
        by=by,
        label=given.get("label"),
        good=good,
        labels=given.get("labels") or (),
        unit=unit,
        columns=given.get("columns") or {},
        across_judges=bool(given.get("across_judges")),
    )


def table_of_call(
    call: Call, given: Given, threshold: Threshold | None = None, others: Collection[str] = ()
) -> LabelledTable:
    """Return the labelled table of a call; `others` are columns that are needed beside its own."""
    table = table_of({**given, "labels": None}, threshold)
    labels = call.labels(call.given["labels"], table.needed)
    return replace(table, source=call.source({*table.needed, *others}), labels=labels)


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
    """Rows with a score, and labels of some of them; one row of `scores`, `row_numbers`, `units` and `firsts` each.

    `firsts` are the positions of the first rows with the same text: copies of it, which one label serves. `marked` holds
    the labelled rows, `contexts` a number for the context of each, and `sample` the texts of a random sample of all rows.
    `one_each` has one score of each context. `lowest` is the least score of the rows from which labels were drawn,
    None for all rows.
    """

    scores: FloatArray
    unit: Literal["row", "context"]
    units: IntArray
    firsts: IntArray
    marked: list[Labelled]
    contexts: IntArray
    row_numbers: IntArray
    signature: str | None
    lowest: float | None
    unscored: int
    one_each: ScoreSample
    sample: list[Texts]
    notes: list[str]

    @property
    def labelled(self) -> IntArray:
        """Return the positions of the labelled rows."""
        return np.array([row.position for row in self.marked], dtype=np.int64)

    @property
    def unlabelled(self) -> BoolArray:
        """Return which rows may be labelled next: one of each text that has no label."""
        left: BoolArray = self.firsts == np.arange(len(self.firsts))
        left[self.firsts[self.labelled]] = False
        return left

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
        digests = itertools.chain.from_iterable(row.digests for row in self.marked)
        return tuple(dict.fromkeys(digests))

    def good(self, condition: Good | None) -> BoolArray:
        """Return which labelled rows meet the condition."""
        if condition is None:
            return np.ones(len(self.marked), np.bool_)
        return condition.meets(self.labels)


def rating_in(row: Row, column: str) -> float | None:
    """Return the rating in a column, or the mean of a list of several people's; None if none is given."""
    cell = row.fields.get(column)
    if not isinstance(cell, list) and not str(cell).lstrip().startswith("["):
        return number_in(row, column)
    given = without_none(numbers_of(row, column))
    return math.fsum(given) / len(given) if given else None


def id_columns(columns: Sequence[str]) -> tuple[str, ...]:
    """Return the columns that identify a row: output_id, id, or those of context_id, system and output that exist."""
    for ids in _IDS:
        present = tuple(column for column in ids if column in columns)
        if present:
            return present
    return ()


def sampled_above(column: str) -> str:
    """Name the column of a `calibrate --plan` file with the least score of the rows that it was drawn from."""
    return f"{column}_sampled_above"


def named(rows: Rows, columns: Mapping[str, str], *, all_of_them: bool = True) -> Rows:
    """Add to rows the names of their fields, as `LabelledTable.columns` maps them.

    Without `all_of_them`, columns that the table lacks are left out, and a field that it has keeps its column.
    """
    header = rows.columns() or []
    used = log_columns(header)
    for name, column in columns.items():
        if all_of_them and header and column not in header:
            where = getattr(rows.first(), "where", "the table")
            raise DataError(f"{where}: no column {column!r}. Columns: {', '.join(header)}")
        if all_of_them or (column in header and name not in header):
            used[name] = column
    if not used:
        return rows

    def both() -> Iterator[Row]:
        for row in rows:
            cells = {name: row.fields.get(column) for name, column in used.items()}
            yield replace(row, fields=row.fields | cells)

    return Rows(both(), list(dict.fromkeys([*header, *used])), rows.style)


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
        pool = read_pool(table, progress)
    if table.good is not None:
        table.good.check_word(pool.labels)
    return table, pool


def read_pool(asked: LabelledTable, progress: Progress | None = None) -> Pool:
    """Read scores and labels in one pass; several labels of one row count as one, their mean."""
    return _Reader(asked).read(progress)


class _Reader:
    """The columns of a pool, which grow with each row, and what is known of its labels.

    `context_of` holds hashes, because the names of a million contexts would take more memory. `marked` are the labelled
    rows by id; `_labelled` are the signature and the place of the first of them. `firsts` are as in `Pool`, and `first_of`
    by the hash of a text; `key_of` is the id in `marked` by such a position, `given` are the labels by it, and `joined`
    counts the copies that joined one, by their own ids. `sample` is a
    heap of the rows with the greatest places, and so a random sample. `first` is the path and line of the first row with a
    score. `ids` are the columns that identify a row; `_ONE` means an id of any name, and `wanted` are its names in the
    tables of labels. `labels` are those of these tables by id, None if the labels are in the scored table. `lowest` is the
    least score of the rows that labels were drawn from, None for all rows.
    """

    def __init__(self, table: LabelledTable) -> None:
        self.table = table
        self.scores = array("d")
        self.row_numbers = array("q")
        self.context_of = array("q")
        self.with_context = False
        self.marked: dict[tuple[str, ...], Labelled] = {}
        self.firsts = array("q")
        self.first_of: dict[int, int] = {}
        self.key_of: dict[int, tuple[str, ...]] = {}
        self.given: dict[tuple[str, ...], list[float | str]] = {}
        self.joined: Counter[tuple[str, ...]] = Counter()
        self.sample: list[tuple[str, Texts]] = []
        self.one_each = ScoreSample()
        self.copies: Counter[str] = Counter()
        self.signature: str | None = None
        self.first: str | None = None
        self.unscored = 0
        self.notes: list[str] = []
        self.ids: tuple[str, ...] = ()
        self.wanted: tuple[str, ...] = ()
        self.labels: dict[tuple[str, ...], float | str] | None = None
        self.lowest: float | None = None
        self._check_scale = OneScale(
            [table.by],
            across_judges=table.across_judges,
            otherwise="use each signature separately",
        )
        self._labelled: tuple[object, str] | None = None

    def read(self, progress: Progress | None) -> Pool:
        asked = self.table
        rows = named(read_rows(asked.source, asked.given), asked.columns)
        columns = rows.columns() or []
        if asked.labels and asked.label:
            self._read_labels(columns)
        else:
            self.ids = id_columns(columns)
        for number, row in reported(rows, progress):
            if self._add(row, number):
                position = len(self.row_numbers) - 1
                self._mark(row, position, self._texts(row, position))
        if self.labels is not None:
            self._check_used(self.labels)
        return self._pool()

    def _mark(self, row: Row, position: int, texts: Texts | None) -> None:
        """Keep the label of a row if it has one; copies of a text count once."""
        key, label = self._label_of(row)
        if label is None:
            return
        if self._labelled is None:
            self._labelled, self.signature = (row.signature, row.where), row.signature
        elif not same_scale(row.signature, self._labelled[0], self.table.by):
            raise DataError(
                f"{row.where}: the label is of a grade by another judge than in {self._labelled[1]}; a promise is for one "
                "judge, so label rows of one judge only"
            )
        first = self.firsts[position]
        of_text = self.key_of.setdefault(first, key)
        known = self.marked.get(of_text)
        self.given.setdefault(of_text, []).append(label)
        if known is None:
            self.marked[key] = Labelled(position, label, _digests(row, key), texts)
        elif self.firsts[known.position] == first:
            self.joined[key] += 1
            labels = self.given[of_text]
            label = _mean(labels, row.where) if len(set(labels)) > 1 else label
            digests = tuple(sorted({*known.digests, *_digests(row, key)}))
            self.marked[of_text] = known._replace(label=label, digests=digests)
        # Rows with the same text for the same context have one id and one label.
        elif self.ids != _ONE or not _is_made(row):
            raise DataError(
                f"{row.where}: {_named(self.ids, key)} appears twice; labels need unique ids"
            )

    def _label_of(self, row: Row) -> tuple[tuple[str, ...], float | str | None]:
        """Return what identifies a row, and its label."""
        if self.labels is None:
            key = _key(row, self.ids)
            # Beside the scores of JSON lines, a label column may be absent: then there is no label.
            if self.table.label not in row.fields:
                return key, None
            return key, self._label_in(row)
        keys = self._keys_of(row)
        for key in keys:
            if key in self.labels:
                return key, self.labels[key]
        return keys[0], None

    def _check_used(self, labels: Collection[tuple[str, ...]]) -> None:
        """Note labels of rows that have no score; refuse a table if all its labels are of such rows."""
        missing = [key for key in labels if key not in self.marked and key not in self.joined]
        if not missing:
            return
        text = (
            f"{len(missing):,} of {plural(len(labels), 'label')} not used: {self.table.source} does not score their "
            f"rows, such as {_named(self.ids, missing[0])}"
        )
        if len(missing) == len(labels):
            raise DataError(
                f"{self.table.labels[0]}: {text}; check that both tables have the same ids"
            )
        self.notes.append(text)

    def _add(self, row: Row, number: int) -> bool:
        """Keep the score of a row if it has one."""
        score = number_in(row, self.table.by)
        if score is None:
            self.unscored += 1
            return False
        if self.first is None:
            self.first, self.signature = row.where, row.signature
        self._check_scale(row)
        # A context is known by its id, else by its text.
        contexts = filled_cells(row, "context_id", "context")
        if contexts:
            self.with_context = True
            self.context_of.append(hash(contexts[0]))
        else:
            self.context_of.append(hash((len(self.row_numbers),)))
        position = first = len(self.scores)
        text = row.fields.get("output")
        # Ids of their own say that two rows are two.
        if type(text) is str and not filled_cells(row, *_NAMES):
            first = self.first_of.setdefault(hash((*contexts[:1], text)), position)
        self.firsts.append(first)
        self.one_each.add(contexts, score)
        self.scores.append(score)
        self.row_numbers.append(number)
        return True

    def _read_labels(self, columns: Sequence[str]) -> None:
        """Read the tables of labels, for scored rows with these columns."""
        asked = self.table
        tables = [named(read_rows(path), asked.columns, all_of_them=False) for path in asked.labels]
        self.ids = self._shared_ids(columns, tables)
        read: dict[tuple[str, ...], list[float | str]] = {}
        wheres: dict[tuple[str, ...], str] = {}
        bounds: list[float | None] = []
        above = sampled_above(asked.by)
        for row in itertools.chain.from_iterable(tables):
            label = self._label_in(row)
            if label is None:
                continue
            ids = _id_name(row.fields) if self.ids == _ONE else self.ids
            key = _key(row, ids)
            read.setdefault(key, []).append(label)
            wheres[key] = row.where
            if above in row.fields:
                bounds.append(number_in(row, above))
        repeated = sum(len(given) > 1 for given in read.values())
        if repeated:
            self.notes.append(
                f"{plural(repeated, 'row')} with several labels, which count as one: their mean"
            )
        self.labels = {key: _mean(given, wheres[key]) for key, given in read.items()}
        self.lowest = max(without_none(bounds), default=None)

    def _shared_ids(self, columns: Sequence[str], tables: Sequence[Rows]) -> tuple[str, ...]:
        """Return the columns that identify a row here and in the tables of labels; `_ONE` for an id of any name."""
        source = self.table.source
        names = [_id_name(table.columns() or ()) for table in tables]
        self.wanted = tuple(dict.fromkeys(itertools.chain(*names)))
        if all(names) and (_id_name(columns) or {"output", "context"} <= {*columns}):
            return _ONE
        shared = list(columns)
        for path, table in zip(self.table.labels, tables, strict=True):
            have = table.columns() or []
            shared = [column for column in shared if column in have]
            there = ", ".join(have) or "none"
            if not id_columns(have):
                raise DataError(
                    f"{path}: the labels have no id: add the column output_id (or id, or context_id and system) of "
                    f"{source}. Columns there: {there}"
                )
            if not id_columns(shared):
                raise DataError(
                    f"{path}: no id column that {source} also has; both need output_id, id, or context_id and system. "
                    f"Columns there: {there}; in {source}: {', '.join(columns) or 'none'}"
                )
        return id_columns(shared)

    def _keys_of(self, row: Row) -> list[tuple[str, ...]]:
        """Return what may identify a scored row in tables of labels: `output_id` and `id` are one thing.

        A row without an output_id has the id that `score` and the review page make of its texts.
        """
        if self.ids != _ONE:
            return [_key(row, self.ids)]
        present = [name for name in _NAMES if name in row.fields]
        names = [name for name in self.wanted if name in present] or present
        keys = [_key(row, [name]) for name in names]
        if _is_made(row):
            context_id, _, _ = Mapped(columns={}).context_of(row)
            if context_id:
                keys.append((output_text_id(context_id, row.fields["output"]),))
        return keys or [(row.where,)]

    def _label_in(self, row: Row) -> float | str | None:
        """Return the label in a row; None if it is empty."""
        column = self.table.label or ""
        if self.table.good is None:
            return rating_in(row, column)
        return self.table.good.read(row, column)

    def _texts(self, row: Row, position: int) -> Texts | None:
        """Return the texts of a row, if it has any; they may enter the random sample of all rows."""
        text = row.fields.get("output")
        if type(text) is not str:
            return None
        context = row.fields.get("context")
        if type(context) is not str:
            context = ""
        texts = Texts(position, context, text)
        heapq.heappush(self.sample, (self._place(row), texts))
        if len(self.sample) > SAMPLED:
            heapq.heappop(self.sample)
        return texts

    def _place(self, row: Row) -> str:
        """Return a random text for a row, the same for any order of the rows."""
        cells = row.fields
        names = (*_NAMES, *_IDS[-1], self.table.by)
        place = digest_of(*[str(cells.get(name)) for name in names])
        if not cells.get("output_id") and not cells.get("id"):
            # Copies of a row have places of their own, or a sample would hold all of them or none.
            self.copies[place] += 1
            place = digest_of(place, str(self.copies[place]))
        return place

    def _pool(self) -> Pool:
        unit, lacks_context = self.table.unit, self.first is not None and not self.with_context
        if unit == "context" and lacks_context:
            raise DataError(
                f"{self.first}: no row has a context_id or a context; leave out {option('unit')} context"
            )
        if unit is None and lacks_context:
            self.notes.append(
                "no column context_id or context, so each row counts as a unit; if several rows answer one prompt, "
                f"name its column with {column_option('context', 'NAME')}"
            )
        if unit is None:
            unit = "context" if self.with_context else "row"
        if self.joined:
            copies = plural(self.joined.total(), "labelled row")
            self.notes.append(
                f"{copies} with the text and context of another: each text counts once"
            )
        contexts = _numbered(np.array(self.context_of, dtype=np.int64))
        # The order is that of the ids, so numbers of contexts and folds are the same for any order of the rows.
        marked = [self.marked[key] for key in sorted(self.marked)]
        return Pool(
            scores=np.array(self.scores),
            unit=unit,
            units=contexts if unit == "context" else np.arange(len(contexts)),
            firsts=np.array(self.firsts, dtype=np.int64),
            marked=marked,
            contexts=_numbered(contexts[[row.position for row in marked]]),
            row_numbers=np.array(self.row_numbers, dtype=np.int64),
            signature=self.signature,
            lowest=self.lowest,
            unscored=self.unscored,
            one_each=self.one_each,
            sample=[texts for _, texts in self.sample],
            notes=[*self.notes, *self._check_scale.notes],
        )


def _numbered(values: IntArray) -> IntArray:
    """Replace values by numbers, in the order in which each value is first seen."""
    _, first, inverse = np.unique(values, return_index=True, return_inverse=True)
    numbers: IntArray = np.argsort(np.argsort(first))[inverse]
    return numbers


def _id_name(columns: Collection[str]) -> tuple[str, ...]:
    """Return `output_id` or `id`, the first of them that is a column; nothing if neither is."""
    return tuple([name for name in _NAMES if name in columns][:1])


def _is_made(row: Row) -> bool:
    """Return whether a row has the id that `score` and the review page make of its texts."""
    cells = row.fields
    if type(cells.get("output")) is not str or "output_id" in cells:
        return False
    return "context_id" in cells or "context" in cells


def _key(row: Row, ids: Sequence[str]) -> tuple[str, ...]:
    """Return what identifies a row; its position if it has no ids. A number and its text are the same id."""
    if len(ids) == 1 and not filled_cells(row, ids[0]):
        return (row.where,)
    return tuple([str(without_number(row.fields.get(name))) for name in ids]) or (row.where,)


def filled_cells(row: Row, *names: str) -> list[str]:
    """Return the cells of a row in these columns as text, without empty ones."""
    cells = [row.fields.get(name) for name in names]
    return [str(cell) for cell in cells if cell is not None and cell != ""]


def _digests(row: Row, key: tuple[str, ...]) -> tuple[str, ...]:
    """Return digests by which a labelled row is recognised: of its key and ids, and of its text with its context."""
    digests = [_digest(key)]
    digests += [_digest((name,)) for name in filled_cells(row, *_NAMES)]
    text = row.fields.get("output")
    if type(text) is str and text:
        contexts = filled_cells(row, "context", "context_id") or [""]
        digests += [TEXT + _digest((context, text)) for context in contexts]
    return tuple(dict.fromkeys(digests))


def _digest(parts: tuple[str, ...]) -> str:
    return hashlib.blake2b(repr(parts).encode("utf-8", "replace"), digest_size=6).hexdigest()


def _named(ids: Sequence[str], key: Sequence[str]) -> str:
    if not ids:
        return key[0]
    return ", ".join(f"{name} {value[:40]!r}" for name, value in zip(ids, key, strict=True))


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
