"""Typed values of a row; every error has path:line, the column and the value."""

from __future__ import annotations

import math
import numbers
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from refladder.errors import DataError, did_you_mean
from refladder.files.jsonl import is_unicode
from refladder.files.tables import Row, cell_of, parse_number
from refladder.parsing import parse_json

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

_MISSING = object()
# From here on, a float may have lost digits of a whole number.
_LARGEST_EXACT = 2**53
# The column of a log that holds a field.
_OF_LOG = {"system": "model", "context": "input", "output_id": "sample_id"}


def log_columns(columns: Collection[str]) -> dict[str, str]:
    """Return field to column of a log, whose columns the readers of logs name; none for another table."""
    if not {"sample_id", "model", "input"} <= set(columns):
        return {}
    named = {field: column for field, column in _OF_LOG.items() if field not in columns}
    return {field: named[field] for field in named if f"{field}_id" not in columns}


def has_output(row: Row) -> bool:
    """Return whether a row is no sample of a log that failed."""
    return not log_columns(row.fields) or row.fields.get("output") is not None


def missing_column(
    where: str, column: str, columns: Iterable[str], taken: Collection[str] = ()
) -> DataError:
    """Return the error for a missing column, with all columns and a similar one that is not yet taken."""
    names = list(map(str, columns))
    hint = did_you_mean(column, [name for name in names if name not in taken])
    return DataError(f"{where}: no column {column!r}{hint} It has: {', '.join(names)}")


def value_of(row: Row, column: str) -> Any:
    """Return the value of a column; `scores.clarity` is a field of an object, see `cell_of`."""
    value = cell_of(row.fields, column, _MISSING)
    if value is _MISSING:
        raise missing_column(row.where, column, row.fields)
    return value


def text_of(row: Row, column: str) -> str:
    """Return the text in a column; it may be empty."""
    return as_text(row.where, column, value_of(row, column))


def as_text(where: str, column: str, value: object) -> str:
    """Check that a value is text."""
    if not isinstance(value, str):
        raise DataError(f"{where}: column {column!r}: expected text, found {value!r:.80}")
    if not is_unicode(value):
        raise DataError(
            f"{where}: column {column!r}: half a surrogate pair, which is not valid Unicode; correct the text"
        )
    return value


def name_of(row: Row, column: str) -> str:
    """Return the id or name in a column, see `row_id`."""
    value = value_of(row, column)
    name = row_id(row.where, column, value)
    if name is None:
        raise _no_name(row.where, column, value)
    return name


def row_id(where: str, column: str, value: object) -> str | None:
    """Return the id in a cell: text, or the digits of a whole number; None for null, NaN and blank text."""
    value = without_number(value)
    if value is None or value != value or (isinstance(value, str) and not value.strip()):  # noqa: PLR0124  NaN
        return None
    if not isinstance(value, str):
        raise _no_name(where, column, value)
    return as_text(where, column, value)


def without_number(value: object) -> object:
    """Return a cell's value with a whole number as text, so that 3, 3.0 and "3" are one id."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return value
    if isinstance(value, numbers.Integral):
        return str(int(value))
    number = float(value)
    return str(int(number)) if abs(number) < _LARGEST_EXACT and number.is_integer() else value


def _no_name(where: str, column: str, value: object) -> DataError:
    return DataError(
        f"{where}: column {column!r}: expected a name or an integer, found {value!r:.80}"
    )


def number_of(row: Row, column: str) -> float:
    """Return the finite number in a column, written as a number or as text."""
    return as_number(row.where, column, value_of(row, column))


def numbers_of(row: Row, column: str) -> list[float | None]:
    """Return the finite numbers in a column: one, or a list (JSON in a cell of text); None for null or blank."""
    numbers: list[float | None] = []
    for item in _items_of(row, column, cell_of(row.fields, column)):
        blank = item is None or (isinstance(item, str) and not item.strip())
        numbers.append(None if blank else as_number(row.where, column, item))
    return numbers


def texts_of(row: Row, column: str) -> tuple[str, ...]:
    """Return the texts in a column: one, or a list (JSON in a cell of text); none for null or blank."""
    value = value_of(row, column)
    if value is None or (isinstance(value, str) and not value.strip()):
        return ()
    return tuple(as_text(row.where, column, item) for item in _items_of(row, column, value))


def _items_of(row: Row, column: str, value: object) -> list[Any]:
    """Return the items of the list in a cell, or the single value that it holds."""
    parsed = value
    if isinstance(value, str) and value.lstrip().startswith("["):
        # A text may begin with a bracket and be no JSON.
        with suppress(DataError):
            parsed = parse_json(value, f"{row.where}: column {column!r}")
    return parsed if isinstance(parsed, list) else [value]


def as_number(where: str, column: str, value: object) -> float:
    """Check that a value is a finite number, or text with one, and return the number."""
    number = parse_number(value) if isinstance(value, str) else None
    if not isinstance(value, bool) and isinstance(value, numbers.Real):
        # An integer may be beyond the largest float.
        with suppress(OverflowError):
            number = float(value)
    if number is None or not math.isfinite(number):
        raise DataError(
            f"{where}: column {column!r}: expected a finite number, found {value!r:.80}"
        )
    return number


def list_of(row: Row, column: str, length: int | None = None) -> list[Any]:
    """Return the list in a column."""
    value = value_of(row, column)
    if not isinstance(value, list):
        raise DataError(f"{row.where}: column {column!r}: expected a list, found {value!r:.80}")
    if length is not None and len(value) != length:
        raise DataError(
            f"{row.where}: column {column!r}: expected {length} items, found {len(value)}"
        )
    return value


def as_row(where: str, value: object) -> Row:
    """Check that a value is a JSON object and return it as a row."""
    if not isinstance(value, dict):
        raise DataError(f"{where}: expected a JSON object, found {value!r:.80}")
    return Row(where, value)
