"""Tables that score the same texts: how a row of one is found in another, by id or by context and text."""

from __future__ import annotations

import math
from array import array
from typing import TYPE_CHECKING

import numpy as np

from refladder.errors import UsageError, column_option, plural
from refladder.files.tables import read_rows
from refladder.loaders.draft import output_text_id
from refladder.loaders.fields import without_number
from refladder.loaders.scored_tables import mapped_columns

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from refladder.arrays import FloatArray
    from refladder.files.tables import Row
    from refladder.loaders.input_rows import Mapped


class TextNumbers:
    """Numbers of the texts of a table in some of its columns; `texts` has the row of each text in `numbers`."""

    def __init__(self, columns: int) -> None:
        self.texts: dict[tuple[str, str], int] = {}
        self._wheres: list[str] = []
        self._columns = [array("d") for _ in range(columns)]
        # A hash of what each text says, 0 where it is not known.
        self.said = array("q")

    def add(
        self, text: tuple[str, str], numbers: Sequence[float | None], where: str, said: object
    ) -> tuple[str, bool] | None:
        """Add a text; return the place of one that was added before, and whether its numbers are the same."""
        place = self.texts.setdefault(text, len(self.texts))
        known = [math.nan if number is None else number for number in numbers]
        if place < len(self._wheres):
            before = [column[place] for column in self._columns]
            return self._wheres[place], np.array_equal(before, known, equal_nan=True)
        self._wheres.append(where)
        # Spreadsheets change line ends.
        self.said.append(hash(" ".join(said.split())) if isinstance(said, str) else 0)
        for column, number in zip(self._columns, known, strict=True):
            column.append(number)
        return None

    @property
    def numbers(self) -> FloatArray:
        """Return the numbers, shape (texts, columns), NaN for none."""
        columns = np.array(self._columns, dtype=np.float64)
        return columns.T.reshape(len(self.texts), len(self._columns))


def matching(tables: Sequence[TextNumbers], id_field: str) -> tuple[bool, str]:
    """Return whether texts are matched by their contexts too, and by what in words.

    An id that is in several contexts is that of several texts.
    """
    if not id_field:
        return True, "context and text"
    recurs = any(len({name for _, name in each.texts}) < len(each.texts) for each in tables)
    return recurs, f"{id_field} and context" if recurs else id_field


def other_texts(names: str, count: int, id_field: str) -> str:
    """Say that texts of one id are different ones."""
    return (
        f"{names}: {plural(count, 'text')} with one {id_field} and other words in two of the tables, matched by it all the "
        "same; if they are of two runs of a system, score the texts of one run with each judge"
    )


def said_in(row: Row, mapped: Mapped) -> object:
    """Return what the output of a row says, if a column has it."""
    return row.fields.get(mapped.columns.get("output", "output"))


def columns_of(table: str) -> list[str]:
    """Return the columns of a table."""
    rows = read_rows(table)
    columns = rows.columns() or []
    rows.close()
    return columns


def fields_of(
    tables: Sequence[str], heads: Sequence[Collection[str]], given: Mapping[str, str]
) -> list[dict[str, str]]:
    """Return field to column of each table: its own, and those given that it has."""
    for field, name in given.items():
        if not any(name in head for head in heads):
            raise UsageError(
                f"{column_option(field, name)}: neither {' nor '.join(tables)} has this column"
            )
    own = [{field: name for field, name in given.items() if name in head} for head in heads]
    return [mapped_columns(table, more) for table, more in zip(tables, own, strict=True)]


def shared_id(heads: Sequence[Collection[str]], fields: Sequence[Mapping[str, str]]) -> str:
    """Return the field of the ids that all tables have; empty for none, so that texts are compared."""
    has = [{*head, *of} for head, of in zip(heads, fields, strict=True)]
    return next((name for name in ("output_id", "id") if all(name in each for each in has)), "")


def text_key(row: Row, mapped: Mapped, id_column: str) -> tuple[str, str] | None:
    """Return the context of a row (empty if unknown) and its id, else a digest of context and text; None for neither."""
    # Most contexts are texts, and a table may have a million.
    context = row.fields.get(mapped.columns.get("context_id", "context_id"))
    if type(context) is not str or not context.strip():
        context = mapped.context_of(row)[0] or ""
    if id_column:
        cell = without_number(row.fields.get(mapped.columns.get(id_column, id_column)))
        return None if cell is None or cell == "" else (context, str(cell))
    text, _ = mapped.output_of(row)
    return None if text is None else (context, output_text_id(context, text))
