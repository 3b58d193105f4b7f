"""The table of a run that scores: checked before a judge is opened, then opened with what writes its rows."""

from __future__ import annotations

import itertools
from collections import Counter
from contextlib import closing, contextmanager
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from refladder.errors import DataError, UsageError, column_option, option, plural
from refladder.files.tables import (
    format_of,
    open_sink,
    read_once,
    read_rows,
    source_name,
    standard_form,
)
from refladder.loaders.input_rows import items
from refladder.loaders.letters import letters_of, letters_of_language
from refladder.records import DOCUMENT

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping
    from contextlib import AbstractContextManager

    from refladder.events import Events
    from refladder.files.ladder_sets import LadderSet
    from refladder.files.tables import Rows, Write
    from refladder.loaders.input_rows import Item, Mapped
    from refladder.records import Context
    from refladder.scoring.recorded import Recorded
    from refladder.settings import Tables

# Context ids in a message.
_SHOWN = 3
# Characters of a text whose letters are counted.
_START = 200


class Checked(NamedTuple):
    """A table that was read before it is scored.

    `rows` is the number of its rows, None if it can be read only once, and `copies` of those that repeat an earlier one.
    `contexts` are those of the ladder set whose texts are in the rows only.
    """

    rows: int | None = None
    copies: int = 0
    contexts: Mapping[str, Context] = MappingProxyType({})


def check_input(
    tables: Tables,
    mapped: Mapped,
    added: Collection[str],
    events: Events,
    *,
    ladders: LadderSet | None = None,
    recorded: Recorded | None = None,
    needs_ladders: bool = True,
) -> Checked:
    """Validate a table that gets the columns `added`, before any model is opened."""
    source = tables.source
    if read_once(source):
        return Checked()
    known = _with_ladder(ladders) if needs_ladders else ()
    count = judged = alone = copies = 0
    contexts: dict[str, Context] = {}
    without = Counter[str]()
    with closing(read_rows(source, tables.given)) as rows:
        check_free(source, rows, added)
        read = _with_background(items(rows, mapped, check_ids=True), mapped)
        if recorded is not None:
            read = with_every_judged(recorded, source, read, mapped)
        if ladders is not None:
            read = _with_texts(_noticed(read, ladders, events), ladders, contexts)
        for item in read:
            count += 1
            copies += item.is_copy
            if item.output is not None:
                judged += 1
                alone += not item.output.context_id
                if known and item.output.context_id not in known:
                    without[item.output.context_id] += 1
    if ladders is not None and without:
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
    return Checked(count, copies, contexts)


def _with_texts(
    rows: Iterable[Item], ladders: LadderSet, contexts: dict[str, Context]
) -> Iterator[Item]:
    """Yield rows; `contexts` gets those of which the set has the digest and not the text."""
    for item in rows:
        if (given := item.context) is not None and given.id not in contexts:
            digest = None if given.id in ladders.contexts else ladders.digests.get(given.id)
            if digest == given.digest:
                contexts[given.id] = replace(given, task=ladders.task)
        yield item


def _with_ladder(ladders: LadderSet | None) -> Collection[str]:
    """Return the contexts with ladders, one of which each row needs; none where any context will do."""
    if ladders is None or ladders.serves_any_context:
        return ()
    return ladders.context_ids


def check_free(source: str, rows: Rows, added: Collection[str]) -> None:
    """Check that the columns that are added do not exist."""
    if clash := sorted({*added}.intersection(rows.columns() or ())):
        raise UsageError(f"{source}: column {clash[0]!r} exists already; rename or drop it first")


def _with_background(rows: Iterable[Item], mapped: Mapped) -> Iterator[Item]:
    """Yield rows; after the last one, refuse a column of backgrounds that was named and that no row has."""
    column = mapped.columns.get("background")
    first, found = None, column is None
    for item in rows:
        first = first or item.row
        found = found or column in item.row.fields
        yield item
    if first is not None and not found:
        mapped.cell(first, "background")


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
    known = ladders.context_ids
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
        check_free(source, rows, added)
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
