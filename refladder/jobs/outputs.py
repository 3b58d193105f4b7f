"""Rows of a user's table as outputs to be judged: columns mapped, every fault named by path and line."""

from __future__ import annotations

import difflib
import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from refladder.errors import DataError, UnknownNameError, UsageError
from refladder.files.jsonl import is_unicode
from refladder.files.tables import Row, read_once, read_rows
from refladder.loaders.flat import text_id
from refladder.loaders.own import context_text
from refladder.records import Output
from refladder.scoring.question import RUNG

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

EMPTY = "the output is empty"
FIELDS = (
    "context_id",
    "context",
    "background",
    "output",
    "output_id",
)  # what a row may tell, by its default column names


@dataclass(frozen=True, slots=True)
class Item:
    """A row and what can be asked about it: its output, or why there is none.

    `text` and `background` are those of the context, as far as the row has them.
    """

    row: Row
    output: Output | None
    note: str | None
    text: str | None = None
    background: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mapped:
    """Which columns hold what. `context` stands for every row when the rows have no context column."""

    columns: Mapping[str, str]
    context: str | None = None

    def __post_init__(self) -> None:
        for name in self.columns:
            if name not in FIELDS:
                raise UnknownNameError("column", name, FIELDS)
        if self.context is not None and "context_id" in self.columns:
            raise UsageError("--context-id and --column context_id=... both say the context; give one of them")

    def context_of(self, row: Row, text: str | None, background: str) -> Any:  # noqa: ANN401  as below
        """The context id of a row: the one given for all rows, or its cell, or else made from the context's text.

        Raises:
            DataError: the rows have no such column, or they have one though the context was given for all.
        """
        if self.context is None:
            if self._is_identified(row):
                return self.cell(row, "context_id")
            return text if text is None else text_id(text, background)
        if "context_id" in row.fields:
            raise DataError(
                f"{row.where}: the row has a column 'context_id', and --context-id says the context too; "
                "leave out --context-id, or rename the column"
            )
        return self.context

    def context_text(self, row: Row) -> tuple[str | None, str]:
        """Text and background of a row's context; None and "" where the row has no text of it.

        Raises:
            DataError: the row has neither an id nor a text of its context, or an unidentified one is no text.
        """
        identified = self._is_identified(row)
        column = self.columns.get("context", "context")
        if not identified and column not in row.fields and "context" not in self.columns:
            raise DataError(
                f"{row.where}: no column 'context_id', nor 'context', whose text gives the id; Columns there: "
                f"{', '.join(map(str, row.fields)) or 'none'}. Map one with --column context_id=NAME or "
                "--column context=NAME"
            )
        value = self.cell(row, "context", needed=False)
        if value is None or (identified and not isinstance(value, str)):
            return None, ""
        background = self.columns.get("background", "background")
        return context_text(row, {"context": column, "background": background})

    def _is_identified(self, row: Row) -> bool:
        return self.context is not None or "context_id" in self.columns or "context_id" in row.fields

    def cell(self, row: Row, what: str, *, needed: bool = True) -> Any:  # noqa: ANN401  a cell may hold anything
        """The cell of a row that tells `what`.

        Raises:
            DataError: the row has no such column, though it is needed or was named by the user.
        """
        column = self.columns.get(what, what)
        if column in row.fields:
            return row.fields[column]
        if not needed and what not in self.columns:
            return None
        near = difflib.get_close_matches(column, [str(name) for name in row.fields], n=1, cutoff=0.6)
        hint = f"did you mean --column {what}={near[0]}? " if near else ""
        raise DataError(
            f"{row.where}: no column {column!r} for the {what.replace('_', ' ')}; {hint}"
            f"Columns there: {', '.join(map(str, row.fields)) or 'none'}. Map one with --column {what}=NAME"
        )


def items(rows: Iterable[Row], mapped: Mapped, *, check_ids: bool) -> Iterator[Item]:
    """Each row with its output, in order.

    A row without an id gets one from its context and text, so equal texts of one context share an id and a score. A
    context without an id gets the one that `refladder build own` makes from its text.

    Args:
        rows: the table.
        mapped: which columns hold what.
        check_ids: refuse an id that stands twice; costs about 170 bytes a row.

    Raises:
        DataError: with path:line, a column is missing or a cell of the wrong type, or an id stands twice.
    """
    seen: dict[bytes, str] = {}
    for row in rows:
        text = mapped.cell(row, "output")
        context, background = mapped.context_text(row)
        context_id = mapped.context_of(row, context, background)
        for what, value in (("output", text), ("context_id", context_id)):
            if value is not None and not isinstance(value, str):
                column = mapped.columns.get(what, what)
                raise DataError(f"{row.where}: column {column!r} must be a string, found {value!r:.60}")
        given = mapped.cell(row, "output_id", needed=False)
        if text is None or context_id is None:
            what = "output" if text is None else "context id" if "context_id" in row.fields else "context"
            yield Item(row, None, f"the {what} is null")
            continue
        if not text.strip():  # CSV cannot tell an empty text from none
            yield Item(row, None, EMPTY)
            continue
        if context is not None and not context.strip():
            yield Item(row, None, "the context is empty")
            continue
        if given is None:
            name = f"{context_id}/{_digest(text, 6).hex()}"
        else:
            name = _id_text(row, mapped, given)
            if check_ids:
                number = row.where.rpartition(":")[2]
                if (other := seen.setdefault(_digest(name, 8), number)) != number:
                    raise DataError(f"{row.where}: output id {name!r} stands in row {other} also; ids must differ")
        _check_id(row, name, "output")
        _check_id(row, context_id, "context")
        output = Output(id=name, context_id=context_id, system="", text=text)
        yield Item(row, output, None, context, background)


def _id_text(row: Row, mapped: Mapped, given: object) -> str:
    if isinstance(given, str):
        return given
    if type(given) is not int:
        column = mapped.columns.get("output_id", "output_id")
        raise DataError(f"{row.where}: column {column!r} must be a string or a whole number, found {given!r:.60}")
    return json.dumps(given)


def _check_id(row: Row, name: str, kind: str) -> None:
    if kind == "output" and name.startswith(RUNG):
        raise DataError(f"{row.where}: output id {name!r} starts with {RUNG!r}, which means a rung; rename it")
    if not is_unicode(name):
        raise DataError(f"{row.where}: {kind} id {name!r} holds half a surrogate pair; rename it")


def _digest(text: str, size: int) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=size).digest()


def check_input(path: str, given: str | None, mapped: Mapped) -> int | None:
    """Read a whole input before any model is called; returns its number of rows, None for what can be read only once.

    Raises:
        DataError: the first fault, with path:line.
    """
    if read_once(path):
        return None
    return sum(1 for _ in items(read_rows(path, given), mapped, check_ids=True))
