"""A task prompt with {variables} from the columns of a table, and the rows it is filled with."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from refladder.errors import DataError, PromptError
from refladder.files.jsonl import is_unicode
from refladder.files.tables import read_rows
from refladder.records import Prompt

if TYPE_CHECKING:
    from refladder.files.tables import Row

_PIECE = re.compile(r"\{\{|\}\}|\{\s*([^{}\s]+(?: [^{}\s]+)*)\s*\}|[{}]")
TASK = "open"  # the task whose template of role pairwise shows a request and two responses


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPrompt:
    """A prompt cut at its variables: `literals` has one more entry than `names`."""

    where: str
    literals: tuple[str, ...]
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """The prompt of one row; `prompt` None when a column that it needs is empty, and then `note` says which."""

    id: str
    where: str
    prompt: Prompt | None
    note: str | None = None


def parse_task_prompt(text: str, where: str) -> TaskPrompt:
    """Cut a prompt at its {variables}; {{ and }} stand for single braces.

    Args:
        text: the prompt.
        where: its file, or how it was given, for messages.

    Raises:
        PromptError: no variable, or a brace that opens or closes none.
    """
    literals, names, start = [""], [], 0
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
                f"{where}:{line}: a single {piece[0]!r} belongs to no variable; a variable is written {{column}}, and "
                f"{piece[0] * 2} stands for {piece[0]}"
            )
    literals[-1] += text[start:]
    if not names:
        raise PromptError(f"{where}: names no variable, so every row would get the same prompt; write {{column}} in it")
    return TaskPrompt(where=where, literals=tuple(literals), names=tuple(names))


def read_instances(
    source: str, prompt: TaskPrompt, *, id_column: str | None = None, form: str | None = None
) -> list[Instance]:
    """Fill a prompt with every row of a table.

    Args:
        source: the table.
        prompt: with variables that are columns of it.
        id_column: the column that names a row; None takes the column `id`, or the row's number where there is none.
        form: the table's format, where its ending does not say it.

    Returns:
        One instance a row, in order. A row with an empty column is there, without a prompt.

    Raises:
        PromptError: a variable is no column of the first row.
        DataError: no rows, no such id column, an id twice, a row without the column, a column that is empty in every
            row, or half a surrogate pair.
    """
    instances: list[Instance] = []
    seen: dict[str, str] = {}
    for number, row in enumerate(read_rows(source, form), 1):
        if number == 1:
            _check_columns(prompt, row)
            if id_column is None and "id" in row.fields:
                id_column = "id"
        name = str(number) if id_column is None else _id(row, id_column)
        if name in seen:
            raise DataError(f"{row.where}: id {name!r} stands in {seen[name]} already; ids name rows, so mend one")
        seen[name] = row.where
        instances.append(_instance(row, name, prompt))
    if not instances:
        raise DataError(f"{source}: no rows; a row for each instance of the task is needed")
    if all(instance.prompt is None for instance in instances):
        raise DataError(f"{source}: every row is unusable, the first because {instances[0].note}; mend the table")
    return instances


def _check_columns(prompt: TaskPrompt, row: Row) -> None:
    for name in prompt.names:
        if name not in row.fields:
            near = difflib.get_close_matches(name, row.fields, n=1, cutoff=0.5)
            hint = f"; did you mean {{{near[0]}}}?" if near else ";"
            raise PromptError(
                f"{prompt.where}: variable {{{name}}} is no column of the table{hint} Columns: {', '.join(row.fields)}"
            )


def _id(row: Row, column: str) -> str:
    value = row.fields.get(column)
    if value is None or value == "":
        raise DataError(f"{row.where}: column {column!r} names the row, and it is empty or absent; fill it")
    return _text(row, column, value)


def _instance(row: Row, name: str, prompt: TaskPrompt) -> Instance:
    slots = {}
    for variable in prompt.names:
        value = row.fields.get(variable)
        if value is None or (isinstance(value, str) and not value.strip()):
            note = f"column {variable!r} is empty or absent"
            return Instance(id=name, where=row.where, prompt=None, note=note)
        slots[variable] = _text(row, variable, value)
    filled = Prompt(task=TASK, role="generate", literals=prompt.literals, names=prompt.names, slots=slots)
    return Instance(id=name, where=row.where, prompt=filled)


def _text(row: Row, column: str, value: object) -> str:
    text = str(value)
    if not is_unicode(text):
        raise DataError(f"{row.where}: column {column!r}: half a surrogate pair, which no file can hold; mend the text")
    return text
