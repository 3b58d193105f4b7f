"""A task prompt with {variables} that are columns of a table, and the prompt of each row."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from refladder.errors import DataError, PromptError, UsageError, option, similar
from refladder.files.jsonl import is_unicode, read_bytes
from refladder.files.tables import read_rows
from refladder.loaders.fields import without_number
from refladder.records import Prompt

if TYPE_CHECKING:
    from collections.abc import Mapping

    from refladder.files.tables import Row

_PIECE = re.compile(r"\{\{|\}\}|\{\s*([^{}\s]+(?: [^{}\s]+)*)\s*\}|[{}]")
# The template of this task and role `pairwise` shows a request and two responses.
TASK = "open"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPrompt:
    """A prompt split at its variables: `literals` has one more entry than `names`."""

    where: str
    literals: tuple[str, ...]
    names: tuple[str, ...]

    def filled(self, values: Mapping[str, str], role: str = "generate") -> Prompt:
        """Fill in the variables."""
        return Prompt(
            task=TASK, role=role, literals=self.literals, names=self.names, slots=dict(values)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """The prompt of one row. `prompt` is None if a column that it needs is empty; `note` names the column."""

    id: str
    where: str
    prompt: Prompt | None
    note: str | None = None


def parse_task_prompt(text: str, where: str) -> TaskPrompt:
    """Split a prompt at its {variables}; {{ and }} are single braces."""
    literals = [""]
    names = []
    start = 0
    for piece in _PIECE.finditer(text):
        literals[-1] += text[start : piece.start()]
        start = piece.end()
        if piece[1] is not None:
            names.append(piece[1])
            literals.append("")
        elif piece[0] in {"{{", "}}"}:
            literals[-1] += piece[0][0]
        else:
            line = text.count("\n", 0, piece.start()) + 1
            raise PromptError(
                f"{where}:{line}: a single {piece[0]!r} is not part of a variable; write a variable as {{column}}, and "
                f"{piece[0] * 2} for {piece[0]}"
            )
    literals[-1] += text[start:]
    if not names:
        raise PromptError(
            f"{where}: no variable, so every row would get the same prompt; add {{column}}"
        )
    return TaskPrompt(where=where, literals=tuple(literals), names=tuple(names))


def open_task_prompt(file: str | Path | None, text: str | None) -> TaskPrompt:
    """Open the task prompt of a file, or one that was given as text."""
    if (file is None) == (text is None):
        raise UsageError(
            f"give the task prompt once: {option('prompt')} FILE or {option('prompt-text')} TEXT"
        )
    if file is None:
        return parse_task_prompt(text or "", option("prompt-text"))
    try:
        text = read_bytes(Path(file)).decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise DataError(f"{file}: not UTF-8; save the prompt as UTF-8") from error
    return parse_task_prompt(text, str(file))


def read_instances(
    source: str, prompt: TaskPrompt, *, id_column: str | None = None, form: str | None = None
) -> list[Instance]:
    """Fill a prompt with every row of a table. The id is in `id_column`, or else in `id`, or else the row's number."""
    instances: list[Instance] = []
    rows_of_ids: dict[str, str] = {}
    for number, row in enumerate(read_rows(source, form), 1):
        if number == 1:
            _check_columns(prompt, row)
            if id_column is None and "id" in row.fields:
                id_column = "id"
        name = str(number) if id_column is None else _id(row, id_column)
        if name in rows_of_ids:
            raise DataError(
                f"{row.where}: id {name!r} appears in {rows_of_ids[name]} already; ids must be unique, so change one"
            )
        rows_of_ids[name] = row.where
        instances.append(_instance(row, name, prompt))
    if not instances:
        raise DataError(f"{source}: no rows; the table needs a row for each instance of the task")
    if all(instance.prompt is None for instance in instances):
        raise DataError(
            f"{source}: no row has all columns of the prompt, the first because {instances[0].note}; correct the table"
        )
    return instances


def _check_columns(prompt: TaskPrompt, row: Row) -> None:
    for name in prompt.names:
        if name not in row.fields:
            near = similar(name, row.fields)
            hint = f"; did you mean {{{near}}}?" if near else "."
            raise PromptError(
                f"{prompt.where}: variable {{{name}}} is not a column of the table{hint} "
                f"Columns: {', '.join(row.fields)}"
            )


def _id(row: Row, column: str) -> str:
    value = row.fields.get(column)
    if value is None or value == "":
        raise DataError(
            f"{row.where}: column {column!r} holds the row's id, and it is empty or absent; fill it in"
        )
    return _text(row, column, without_number(value))


def _instance(row: Row, name: str, prompt: TaskPrompt) -> Instance:
    slots = {}
    for variable in prompt.names:
        value = row.fields.get(variable)
        if value is None or (isinstance(value, str) and not value.strip()):
            note = f"column {variable!r} is empty or absent"
            return Instance(id=name, where=row.where, prompt=None, note=note)
        slots[variable] = _text(row, variable, value)
    return Instance(id=name, where=row.where, prompt=prompt.filled(slots))


def _text(row: Row, column: str, value: object) -> str:
    text = str(value)
    if not is_unicode(text):
        raise DataError(
            f"{row.where}: column {column!r}: half a surrogate pair, which is not valid Unicode; correct the text"
        )
    return text
