"""Rows of a user's table as outputs to be judged: columns mapped, every fault named by path and line."""

from __future__ import annotations

import difflib
import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from refladder.errors import DataError, UnknownNameError
from refladder.records import Output
from refladder.rows import STANDARD, Row, read_rows
from refladder.scoring.judging import RUNG

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

FIELDS = ("context_id", "output", "output_id")  # what a row may tell, by its default column names


@dataclass(frozen=True, slots=True)
class Item:
    """A row and what can be asked about it: its output, or why there is none."""

    row: Row
    output: Output | None
    note: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Mapped:
    """Which columns hold what. `context` stands for every row when the rows have no context column."""

    columns: Mapping[str, str]
    context: str | None = None

    def __post_init__(self) -> None:
        for name in self.columns:
            if name not in FIELDS:
                raise UnknownNameError("column", name, FIELDS)

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

    A row without an id gets one from its context and text, so equal texts of one context share an id and a score.

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
        context_id = mapped.context if mapped.context is not None else mapped.cell(row, "context_id")
        for what, value in (("output", text), ("context_id", context_id)):
            if value is not None and not isinstance(value, str):
                column = mapped.columns.get(what, what)
                raise DataError(f"{row.where}: column {column!r} must be a string, found {value!r:.60}")
        given = mapped.cell(row, "output_id", needed=False)
        if text is None or context_id is None:
            yield Item(row, None, f"the {'output' if text is None else 'context id'} is null")
            continue
        if given is None:
            name = f"{context_id}/{_digest(text, 6).hex()}"
        else:
            name = given if isinstance(given, str) else json.dumps(given)
            if check_ids:
                number = row.where.rpartition(":")[2]
                if (other := seen.setdefault(_digest(name, 8), number)) != number:
                    raise DataError(f"{row.where}: output id {name!r} stands in row {other} also; ids must differ")
        if name.startswith(RUNG):
            raise DataError(f"{row.where}: output id {name!r} starts with {RUNG!r}, which means a rung; rename it")
        yield Item(row, Output(id=name, context_id=context_id, system="", text=text), None)


def _digest(text: str, size: int) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=size).digest()


def check_input(path: str, given: str | None, mapped: Mapped) -> int | None:
    """Read a whole input before any model is called; returns its number of rows, None for standard input.

    Raises:
        DataError: the first fault, with path:line.
    """
    if path == STANDARD:
        return None
    return sum(1 for _ in items(read_rows(path, given), mapped, check_ids=True))
