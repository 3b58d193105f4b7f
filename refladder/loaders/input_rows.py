"""The rows of a user's table: the columns of its fields, and its texts with their contexts."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from refladder.errors import DataError, UnknownNameError, UsageError, column_option, option, similar
from refladder.files.tables import Row, refuse_judgments, text_cell
from refladder.loaders.chats import chat_in, is_chat, messages_in, output_in
from refladder.loaders.draft import output_text_id
from refladder.loaders.fields import row_id
from refladder.loaders.user_table import context_text
from refladder.records import RUNG, Context, Output, text_id
from refladder.signatures import is_shared
from refladder.thoughts import ANSWER, after_thoughts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

EMPTY = "the output is empty"
NO_ANSWER = "the output is a thought without an answer"
# Fields of a row; by default, their columns have these names.
FIELDS = "context_id", "context", "background", "output", "output_id"
# A field that changes no score, for `compare` and `review`.
SYSTEM = "system"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mapped:
    """The columns of a table, by field; `context` is the context id of every row of a table without such a column.

    With `alone`, a row needs no context, and the id of none is empty; so does a row whose signature is of a shared set.
    `text_of` says what of an output is judged: its `answer`, which is what follows marked thoughts, or the `whole`.
    """

    columns: Mapping[str, str]
    context: str | None = None
    alone: bool = False
    text_of: str = ANSWER

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
                f"{row.where}: no column 'context_id', nor 'context', whose text gives the id. Columns there: "
                f"{', '.join(map(str, row.fields)) or 'none'}. Map one with "
                f"{column_option('context_id', 'NAME')} or {column_option('context', 'NAME')}"
            )
        value = self.cell(row, "context", needed=False)
        # Beside an id, another list is one that need not be known.
        known = str | list if "context" in self.columns else str
        if value is None or (identified and not isinstance(value, known)):
            return None, ""
        # CSV does not distinguish an empty text from none.
        if alone and not str(value).strip():
            return None, ""
        background = self.columns.get("background", "background")
        output = self.columns.get("output", "output")
        return context_text(row, {"context": column, "background": background, "output": output})

    def output_of(self, row: Row) -> tuple[str | None, str | None]:
        """Return the text of a row's output, or None and the reason why it has none."""
        value = self.cell(row, "output")
        if SYSTEM in self.columns:
            self.cell(row, SYSTEM)
        if value is None:
            return None, "the output is null"
        column = self.columns.get("output", "output")
        if column == self.columns.get("context"):
            value = chat_in(row.where, column, value)
        if isinstance(value, str):
            return value, None
        if not isinstance(value, list):
            raise DataError(f"{row.where}: column {column!r} must be a string, found {value!r:.60}")
        return output_in(messages_in(row.where, column, value))

    def id_in(self, row: Row, what: str, *, needed: bool = True) -> str | None:
        """Return the id in the cell of a field, see `row_id`; None where it has none."""
        return row_id(row.where, self.columns.get(what, what), self.cell(row, what, needed=needed))

    def cell(self, row: Row, what: str, *, needed: bool = True) -> Any:
        """Return the cell of the field `what`; a missing column is a DataError if it is needed or was named by the user."""
        column = self.columns.get(what, what)
        value = text_cell(row.fields, column, row)
        if value is not row:
            return value
        if not needed and what not in self.columns:
            return None
        refuse_judgments(row.where, list(row.fields))
        free = [name for name in row.fields if name not in {*FIELDS, *self.columns.values()}]
        near = similar(column, free)
        hint = f"; did you mean {column_option(what, near)}?" if near else "."
        chat = next((name for name, cell in row.fields.items() if is_chat(cell)), None)
        if chat is not None and not near:
            both = f"{column_option('context', chat)} {column_option('output', chat)}"
            hint = f"; {chat!r} holds a chat: {both} reads it."
        raise DataError(
            f"{row.where}: no column {column!r} for the {what.replace('_', ' ')}{hint} "
            f"Columns there: {', '.join(map(str, row.fields)) or 'none'}. Map one with "
            f"{column_option(what, 'NAME')}"
        )


@dataclass(frozen=True, slots=True)
class Item:
    """A row to score: its output, or None and the reason in `note`; `context` is the row's, if it has the text.

    `is_copy` says whether an earlier row has this text and context, where ids are checked.
    The id of the output is made from the whole text, and its text is what is judged.
    """

    row: Row
    output: Output | None
    note: str | None = None
    context: Context | None = None
    is_copy: bool = False
    # Whether thoughts were in front of the text that is judged.
    thought: bool = False

    @property
    def context_text(self) -> str | None:
        """Return the text of the context, if the row has it."""
        return None if self.context is None else self.context.text


def text_columns(columns: Mapping[str, str] | None) -> set[str]:
    """Return the columns of the fields that are scored."""
    return {(columns or {}).get(name, name) for name in FIELDS}


def items(rows: Iterable[Row], mapped: Mapped, *, check_ids: bool) -> Iterator[Item]:
    """Yield each row with its output, in order; `check_ids` takes about 170 bytes a row.

    A row without an id gets one from its context and text, so equal texts of one context share an id and a score.
    """
    seen: dict[bytes, str] = {}
    for row in rows:
        text, why = mapped.output_of(row)
        context_id, context, background = mapped.context_of(row)
        given = mapped.id_in(row, "output_id", needed=False)
        if text is None or context_id is None:
            absent = "context id" if "context_id" in row.fields else "context"
            yield Item(row, None, why if text is None else f"the {absent} is null")
            continue
        # CSV does not distinguish an empty text from none.
        if not text.strip():
            yield Item(row, None, EMPTY)
            continue
        if context is not None and not context.strip():
            yield Item(row, None, "the context is empty")
            continue
        name = output_text_id(context_id, text) if given is None else given
        is_copy = check_ids and _appeared(row, name, seen)
        if is_copy and given is not None:
            other = seen[_short_digest(name)]
            raise DataError(
                f"{row.where}: output id {name!r} appears in row {other} also; ids must be unique"
            )
        if name.startswith(RUNG):
            raise DataError(
                f"{row.where}: output id {name!r} starts with {RUNG!r}, which means a rung; rename it"
            )
        said = after_thoughts(text) if mapped.text_of == ANSWER else text
        output = Output(id=name, context_id=context_id, system="", text=said)
        about = None
        if context is not None:
            about = Context(id=context_id, task="", text=context, background=background)
        if said.strip():
            yield Item(row, output, None, about, is_copy, said is not text)
        else:
            yield Item(row, None, NO_ANSWER, thought=True)


def _appeared(row: Row, name: str, seen: dict[bytes, str]) -> bool:
    """Return whether an earlier row has this id, and keep the number of the first row that has it."""
    number = row.where.rpartition(":")[2]
    return seen.setdefault(_short_digest(name), number) != number


def _short_digest(name: str) -> bytes:
    return hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest()
