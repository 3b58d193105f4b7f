"""The rows of a user's table: the columns of its fields, its texts with their contexts, and what is wrong with it."""

from __future__ import annotations

import hashlib
import itertools
from collections import Counter
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from refladder.errors import (
    DataError,
    UnknownNameError,
    UsageError,
    column_option,
    option,
    plural,
    similar,
)
from refladder.files.tables import (
    Row,
    cell_of,
    format_of,
    open_sink,
    read_once,
    read_rows,
    source_name,
    standard_form,
)
from refladder.loaders.draft import output_text_id
from refladder.loaders.fields import row_id
from refladder.loaders.user_table import context_text
from refladder.records import DOCUMENT, Context, Output, is_shared, text_id
from refladder.scoring.question import RUNG
from refladder.scoring.scorer import Item
from refladder.synth.checks import letters_of, letters_of_language

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping
    from contextlib import AbstractContextManager

    from refladder.events import Events
    from refladder.files.ladder_sets import LadderSet
    from refladder.files.tables import Rows, Write
    from refladder.scoring.recorded import Recorded
    from refladder.settings import Tables

EMPTY = "the output is empty"
# Fields of a row; by default, their columns have these names.
FIELDS = "context_id", "context", "background", "output", "output_id"
# A field that changes no score, for `compare` and `review`.
SYSTEM = "system"
# Context ids in a message.
_SHOWN = 3
# Characters of a text whose letters are counted.
_START = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Mapped:
    """The columns of a table, by field; `context` is the context id of every row of a table without such a column.

    With `alone`, a row needs no context, and the id of none is empty; so does a row whose signature is of a shared set.
    """

    columns: Mapping[str, str]
    context: str | None = None
    alone: bool = False

    def __post_init__(self) -> None:
        for name in self.columns:
            if name not in {*FIELDS, SYSTEM}:
                fields = [*FIELDS, SYSTEM]
                column = self.columns[name]
                turned = column_option(column, name) if column in fields else None
                if name == "id":
                    turned = column_option("output_id", column)
                raise UnknownNameError("field", name, fields, turned)
        if self.context is not None and "context_id" in self.columns:
            both = f"{option('context-id')} and {column_option('context_id', '...')}"
            raise UsageError(f"{both} both say the context; give one of them")

    def context_of(self, row: Row) -> tuple[str | None, str | None, str]:
        """Return id, text and background of a row's context; None and "" for what the row has not.

        The id is that given for all rows, else that in the row's cell, else made from the text.
        """
        alone = self.alone or is_shared(row.fields.get("signature"))
        identified = "context_id" in self.columns or "context_id" in row.fields
        text, background = self._context_text(
            row, identified=identified or self.context is not None, alone=alone
        )
        context_id = self.context
        if context_id is None:
            if identified:
                context_id = self.id_in(row, "context_id")
            elif text is not None:
                context_id = text_id(text, background)
            if context_id is None and alone:
                context_id = ""
        elif "context_id" in row.fields:
            raise DataError(
                f"{row.where}: the row has a column 'context_id', and {option('context-id')} says the context too; "
                f"leave out {option('context-id')}, or rename the column"
            )
        return context_id, text, background

    def _context_text(self, row: Row, *, identified: bool, alone: bool) -> tuple[str | None, str]:
        """Return text and background of a row's context; None and "" where the row has no text of it."""
        column = self.columns.get("context", "context")
        if not identified and column not in row.fields and "context" not in self.columns:
            if alone:
                return None, ""
            raise DataError(
                f"{row.where}: no column 'context_id', nor 'context', whose text gives the id; Columns there: "
                f"{', '.join(map(str, row.fields)) or 'none'}. Map one with "
                f"{column_option('context_id', 'NAME')} or {column_option('context', 'NAME')}"
            )
        value = self.cell(row, "context", needed=False)
        if value is None or (identified and not isinstance(value, str)):
            return None, ""
        # CSV does not distinguish an empty text from none.
        if alone and not str(value).strip():
            return None, ""
        background = self.columns.get("background", "background")
        return context_text(row, {"context": column, "background": background})

    def output_text(self, row: Row) -> str | None:
        """Return the text to score; None where there is none."""
        text = self.cell(row, "output")
        if text is not None and not isinstance(text, str):
            column = self.columns.get("output", "output")
            raise DataError(f"{row.where}: column {column!r} must be a string, found {text!r:.60}")
        if SYSTEM in self.columns:
            self.cell(row, SYSTEM)
        return text

    def id_in(self, row: Row, what: str, *, needed: bool = True) -> str | None:
        """Return the id in the cell of a field, see `row_id`; None where it has none."""
        return row_id(row.where, self.columns.get(what, what), self.cell(row, what, needed=needed))

    def cell(self, row: Row, what: str, *, needed: bool = True) -> Any:
        """Return the cell of the field `what`; a missing column is a DataError if it is needed or was named by the user."""
        column = self.columns.get(what, what)
        value = cell_of(row.fields, column, row)
        if value is not row:
            return value
        if not needed and what not in self.columns:
            return None
        free = [name for name in row.fields if name not in {*FIELDS, *self.columns.values()}]
        near = similar(column, free)
        hint = f"did you mean {column_option(what, near)}? " if near else ""
        raise DataError(
            f"{row.where}: no column {column!r} for the {what.replace('_', ' ')}; {hint}"
            f"Columns there: {', '.join(map(str, row.fields)) or 'none'}. Map one with "
            f"{column_option(what, 'NAME')}"
        )


def items(rows: Iterable[Row], mapped: Mapped, *, check_ids: bool) -> Iterator[Item]:
    """Yield each row with its output, in order; `check_ids` takes about 170 bytes a row.

    A row without an id gets one from its context and text, so equal texts of one context share an id and a score.
    """
    seen: dict[bytes, str] = {}
    for row in rows:
        text = mapped.output_text(row)
        context_id, context, background = mapped.context_of(row)
        given = mapped.id_in(row, "output_id", needed=False)
        if text is None or context_id is None:
            absent = "context id" if "context_id" in row.fields else "context"
            yield Item(row, None, f"the {'output' if text is None else absent} is null")
            continue
        # CSV does not distinguish an empty text from none.
        if not text.strip():
            yield Item(row, None, EMPTY)
            continue
        if context is not None and not context.strip():
            yield Item(row, None, "the context is empty")
            continue
        if given is None:
            name = output_text_id(context_id, text)
        else:
            name = given
            if check_ids:
                number = row.where.rpartition(":")[2]
                digest = hashlib.blake2b(
                    name.encode("utf-8", "surrogatepass"), digest_size=8
                ).digest()
                if (other := seen.setdefault(digest, number)) != number:
                    raise DataError(
                        f"{row.where}: output id {name!r} appears in row {other} also; ids must be unique"
                    )
        if name.startswith(RUNG):
            raise DataError(
                f"{row.where}: output id {name!r} starts with {RUNG!r}, which means a rung; rename it"
            )
        output = Output(id=name, context_id=context_id, system="", text=text)
        about = None
        if context is not None:
            about = Context(id=context_id, task="", text=context, background=background)
        yield Item(row, output, None, about)


def check_input(
    tables: Tables,
    mapped: Mapped,
    ladders: LadderSet | None,
    recorded: Recorded | None,
    events: Events,
    *,
    needs_ladders: bool = True,
) -> int | None:
    """Validate a table before any model is called; its number of rows, None if it can be read only once."""
    source = tables.source
    if read_once(source):
        return None
    known = (
        None
        if ladders is None or ladders.serves_any_context or not needs_ladders
        else {context_id for context_id, _ in ladders.ladders}
    )
    count = judged = alone = 0
    without = Counter[str]()
    with closing(read_rows(source, tables.given)) as rows:
        read = items(rows, mapped, check_ids=True)
        if recorded is not None:
            read = with_every_judged(recorded, source, read, mapped)
        if ladders is not None:
            read = _noticed(read, ladders, events)
        for item in read:
            count += 1
            if item.output is not None:
                judged += 1
                alone += not item.output.context_id
                if known is not None and item.output.context_id not in known:
                    without[item.output.context_id] += 1
    if ladders is not None and known and without:
        none = _no_ladder(without, ladders, known)
        if without.total() == judged:
            raise UsageError(
                f"{source}: no row has a ladder; {none}; name the right {option('ladders')}"
            )
        events.notice(
            f"no ladder for {without.total():,} of {plural(count, 'row')}: {none}", warns=True
        )
    # Documents have no contexts; elsewhere, the user may have forgotten their column.
    if alone and (alone < judged or (ladders is not None and ladders.task != DOCUMENT)):
        named = column_option("context", "NAME")
        events.notice(
            f"no context in {alone:,} of {plural(count, 'row')}: these are judged by their text alone; {named} names the "
            "column of the contexts",
            warns=True,
        )
    return count


def _noticed(rows: Iterable[Item], ladders: LadderSet, events: Events) -> Iterator[Item]:
    """Yield rows; after the last one, report those that lack what the anchors have: a background, or their letters."""
    count = judged = bare = 0
    letters: Counter[str | None] = Counter()
    of_set = letters_of_language(ladders.language or "")
    for item in rows:
        count += 1
        if item.output is not None:
            judged += 1
            given = item.context is not None and item.context.background
            bare += not given and item.output.context_id not in ladders.contexts
            if of_set:
                letters[letters_of(item.output.text[:_START])] += 1
        yield item
    of_anchors = [ladders.contexts[anchor].background for anchor in ladders.anchors]
    # The background of a document's anchor is a number of words.
    if bare and of_anchors and all(of_anchors) and ladders.task != DOCUMENT:
        events.notice(
            f"no background in {bare:,} of {plural(count, 'row')}, and every context of {ladders.name} has one, such as "
            f"the passages of an answer; {column_option('background', 'NAME')} names the column",
            warns=True,
        )
    other = Counter({kind: n for kind, n in letters.items() if kind and kind not in of_set})
    if 2 * other.total() > judged:
        events.notice(
            f"{other.total():,} of {plural(count, 'row')} are in {other.most_common(1)[0][0]} letters, and "
            f"{ladders.name} is in {' or '.join(sorted(of_set))} letters (language: {ladders.language}), so comparisons "
            "with its texts may mean little; build a set with contexts in the language of the rows: `refladder build "
            "TABLE --task-file TASK.toml --shared 12`",
            warns=True,
        )


def check_ladders(
    source: str, files: Iterable[str], given: str | None, mapped: Mapped, ladders: LadderSet
) -> None:
    """Check that a row of some file has a ladder; the rows are read up to the first one that has."""
    known = {context_id for context_id, _ in ladders.ladders}
    without: dict[str, None] = {}
    for file in files:
        with closing(read_rows(file, given)) as rows:
            for item in items(rows, mapped, check_ids=False):
                if item.output is not None:
                    if item.output.context_id in known:
                        return
                    if len(without) <= _SHOWN:
                        without[item.output.context_id] = None
    if without:
        none = _no_ladder(without, ladders, known)
        raise UsageError(
            f"{source}: no row has a ladder; {none}; name the right {option('ladders')}"
        )


def _no_ladder(without: Collection[str], ladders: LadderSet, known: Collection[str]) -> str:
    there = f"{ladders.name}, which has {_first(sorted(known))}"
    return f"there is none for context {_first(without)} in {there}"


def _first(names: Collection[str]) -> str:
    shown = ", ".join(f"{name!r:.60}" for name in itertools.islice(names, _SHOWN))
    return f"{shown}, ..." if len(names) > _SHOWN else shown


def table_sink(
    tables: Tables,
    added: Mapping[str, type],
    rows: Rows,
    record: Mapping[str, Any] | None = None,
) -> AbstractContextManager[Write]:
    """Open the output of a job whose `rows` are those of its table, with columns added; `record` as in `open_sink`."""
    form = format_of(tables.source, tables.given)
    like = tables.source if form == "parquet" else None
    form_out = tables.out_format or standard_form(tables.out, form)
    return open_sink(
        tables.out,
        form_out,
        added,
        rows.columns() or [],
        like,
        style=rows.style,
        escape_formulas=tables.escape_formulas,
        record=record,
    )


@contextmanager
def open_items(
    tables: Tables,
    mapped: Mapped,
    added: Mapping[str, type],
    *,
    recorded: Recorded | None = None,
    dry_run: bool = False,
) -> Iterator[tuple[Iterator[Item], Write | None]]:
    """Open a table that `check_input` has validated: its items, and what writes a row with the columns `added`."""
    source = tables.source
    with closing(read_rows(source, tables.given)) as rows:
        columns = rows.columns() or []
        if clash := sorted(set(columns) & set(added)):
            raise UsageError(
                f"{source}: column {clash[0]!r} exists already; rename or drop it first"
            )
        read = items(rows, mapped, check_ids=read_once(source))
        if recorded is not None and read_once(source):
            read = with_every_judged(recorded, source_name(source), read, mapped)
        if dry_run:
            yield read, None
            return
        with table_sink(tables, added, rows) as write:
            yield read, write


def with_every_judged(
    recorded: Recorded, source: str, rows: Iterable[Item], mapped: Mapped
) -> Iterator[Item]:
    """Yield the rows of a table; after the last one, check that each judged output was among them."""
    missing = recorded.outputs()
    empty: set[str | None] = set()
    for item in rows:
        if item.output is not None:
            missing.pop((item.output.context_id, item.output.id), None)
        else:
            # A row without a text has an id too.
            empty.add(mapped.id_in(item.row, "output_id", needed=False))
        yield item
    for (context_id, name), where in missing.items():
        if name not in empty:
            what = f"output of context {context_id!r} with the id"
            raise DataError(
                f"{where}: {source} has no {what} {name!r}; ids are in its column output_id"
            )
