"""A user's own data: contexts, outputs and, if there are any, ratings in one table; task and dimensions in TOML.

The table is JSON lines, CSV, Parquet or a Hub data set, one output a row. Its columns are the canonical fields of
FIELDS, and one rating column for each dimension, named like it; other names are mapped. The task file is::

    task = "summarization"

    [[dimensions]]
    name = "clarity"
    description = "Whether ... The worst ...; the best ..."
    low = 1
    high = 5
"""

from __future__ import annotations

import difflib
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from refladder.errors import DataError, UnknownNameError, UsageError
from refladder.files.jsonl import read_bytes
from refladder.files.ladder_sets import choose_dimensions
from refladder.files.tables import Row, read_rows
from refladder.loaders.draft import MEAN, Draft
from refladder.loaders.fields import missing_column, name_of, optional_number_of, text_of
from refladder.loaders.flat import text_id
from refladder.loaders.sources import decode, fetch_table, read_table, table_of
from refladder.parsing import parse_toml
from refladder.records import Benchmark, Context, Dimension

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

FIELDS = ("context_id", "context", "background", "system", "output", "output_id")
CONTEXT_FIELDS = FIELDS[:3]
HUB_PREFIX = "hub:"
NEAR = 0.85  # likeness above which a column that nobody asked for is taken for a misspelt one


def load_own(
    source: Path | str | None,
    *,
    task_file: Path | str,
    columns: Mapping[str, str] | None = None,
    dimensions: Sequence[str] = (),
) -> Benchmark:
    """Read a user's outputs with their contexts and optional ratings as a benchmark.

    Where there is no `context_id`, a context's id is a digest of its text and background, so it comes from the data
    and not from the order of rows; where there is no `output_id`, an output's id is `CONTEXT_ID/SYSTEM`. Ratings are
    those of one rater, `mean`. Either every dimension has a rating column or none has; a rating that is absent, null or
    blank in a row is missing.

    Args:
        source: a file (.jsonl, .json, .csv, .parquet), `-` for JSON lines on standard input, or
            `hub:ORG/NAME[:SPLIT]`.
        task_file: the TOML file of `read_task`.
        columns: from a canonical field or a dimension's name to the column that holds it.
        dimensions: names of those to read; none for all of the task file. Columns of the others are not looked at.

    Raises:
        UsageError: there is no source, its format is unknown, `columns` maps an unknown field, or there is no such
            dimension.
        DataError: the source or the task file is not what it must be; the text has path:line.
    """
    if source is None:
        raise UsageError("own: say which data; pass source=PATH or source=hub:ORG/NAME")
    task, described = read_task(Path(task_file))
    chosen = choose_dimensions(described, dimensions)
    names = [dimension.name for dimension in chosen]
    passed_over = {dimension.name for dimension in described}.difference(names)
    mapped = {field: column for field, column in (columns or {}).items() if field not in passed_over}
    table = table_of(str(source), _read_source(str(source)))
    first = _with_all_columns(table.rows)
    found = _find_columns(first, mapped, required=("context", "output"), known=(*FIELDS, *names))
    if not {"system", "output_id"} & set(found):
        raise DataError(
            f"{missing_column(first.where, 'system', first.fields, tuple(found.values()))}; "
            "an output needs system or output_id, map one with system=COLUMN"
        )
    _check_rating_columns(first, names, found)
    draft = Draft(task, chosen)
    for row in table.rows:
        context_id = _add_context(draft, row, found)
        output_id = draft.add_output(
            row.where,
            context_id,
            name_of(row, found["system"]) if "system" in found else "",
            text_of(row, found["output"]),
            output_id=name_of(row, found["output_id"]) if "output_id" in found else None,
        )
        ratings = {name: optional_number_of(row, found[name]) for name in names if name in found}
        given = {name: value for name, value in ratings.items() if value is not None}
        draft.add_ratings(row.where, output_id, given, MEAN)
    return draft.finish(name="own", revision=table.revision, licence="the user's own data")


def load_contexts(source: Path | str, *, task: str, columns: Mapping[str, str] | None = None) -> tuple[Context, ...]:
    """Read contexts alone, for building ladders; a context may stand in several rows, other columns are passed over.

    Ids are made as in `load_own`, so ladders fit the outputs of a file that has the same contexts.

    Args:
        source: as for `load_own`.
        task: the task of all contexts.
        columns: from `context_id`, `context` or `background` to the column that holds it.

    Raises:
        UsageError: the format is unknown, or `columns` maps an unknown field.
        DataError: the source is not what it must be; the text has path:line.
    """
    draft = Draft(task, ())
    rows = tuple(_read_source(str(source)))
    if not rows:
        raise DataError(f"{source}: it has no rows")
    first = _with_all_columns(rows)
    found = _find_columns(first, dict(columns or {}), required=("context",), known=CONTEXT_FIELDS)
    for row in rows:
        _add_context(draft, row, found)
    return draft.finish(name="own", revision="", licence="").contexts


def read_task(path: Path) -> tuple[str, tuple[Dimension, ...]]:
    """Read a task file: `task`, and for each of `[[dimensions]]` a name, a description, low and high.

    Raises:
        DataError: not TOML, an unknown or missing key, a value of the wrong type, a dimension twice, or low not below
            high; the text starts with the path.
    """
    head = parse_toml(decode(path, read_bytes(path)), str(path))
    _check_keys(f"{path}", head, ("task", "dimensions"))
    task = head["task"]
    if not isinstance(task, str) or not task.strip():
        raise DataError(f"{path}: task must be a name such as 'summarization', found {task!r}")
    tables = head["dimensions"]
    if not isinstance(tables, list) or not tables:
        raise DataError(f"{path}: dimensions must be one table [[dimensions]] or more, found {tables!r:.80}")
    dimensions = tuple(_read_dimension(f"{path}: dimension {k}", table) for k, table in enumerate(tables, start=1))
    names = [dimension.name for dimension in dimensions]
    for name in names:
        if names.count(name) > 1 or name in FIELDS:
            reason = "stands there twice" if names.count(name) > 1 else "is the name of another field"
            raise DataError(f"{path}: dimension {name!r} {reason}; choose another name")
    return task, dimensions


def _read_dimension(where: str, table: object) -> Dimension:
    if not isinstance(table, dict):
        raise DataError(f"{where}: expected a table [[dimensions]], found {table!r:.80}")
    _check_keys(where, table, ("name", "description", "low", "high"))
    for key in ("name", "description"):
        if not isinstance(table[key], str) or not table[key].strip():
            raise DataError(f"{where}: {key} must be text, found {table[key]!r}")
    for key in ("low", "high"):
        value = table[key]
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            raise DataError(f"{where}: {key} must be a finite number, found {value!r}")
    if not table["low"] < table["high"]:
        raise DataError(f"{where}: low must be below high, found {table['low']} and {table['high']}")
    return Dimension(
        name=table["name"], description=table["description"], low=float(table["low"]), high=float(table["high"])
    )


def _check_keys(where: str, table: Mapping[str, Any], keys: Sequence[str]) -> None:
    for key in table:
        if key not in keys:
            near = difflib.get_close_matches(key, keys, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ";"
            raise DataError(f"{where}: unknown key {key!r}{hint} Known: {', '.join(keys)}")
    for key in keys:
        if key not in table:
            raise DataError(f"{where}: no key {key!r}; it needs {', '.join(keys)}")


def _read_source(source: str) -> Iterator[Row]:
    if source.startswith(HUB_PREFIX):
        repository, _, split = source.removeprefix(HUB_PREFIX).partition(":")
        yield from fetch_table(repository, split or None, "save it as a file and name it with --source PATH").rows
    elif source.removesuffix(".gz").endswith(".json"):  # a JSON list, or lines of JSON
        yield from read_table(Path(source)).rows
    else:
        yield from read_rows(source)


def _with_all_columns(rows: Sequence[Row]) -> Row:
    """A row that stands where the first stands and has every column of all: JSON lines may leave one out of any row."""
    return Row(rows[0].where, {column: None for row in rows for column in row.fields})


def _find_columns(
    row: Row, columns: dict[str, str], *, required: Sequence[str], known: Sequence[str]
) -> dict[str, str]:
    """The column of every known field that the row has.

    Raises:
        UnknownNameError: `columns` maps a field that is not known.
        DataError: a required or mapped column is not there, or a column looks like a misspelt field.
    """
    for field in columns:
        if field not in known:
            raise UnknownNameError("field", field, known)
    found = {}
    for field in known:
        column = columns.get(field, field)
        if column in row.fields:
            found[field] = column
        elif field in columns or field in required:
            raise DataError(
                f"{missing_column(row.where, column, row.fields, tuple(found.values()))}; "
                f"map the field {field!r} to its column with {field}=COLUMN"
            )
    spare = [str(column) for column in row.fields if column not in found.values()]
    for field in known:
        near = [] if field in found else difflib.get_close_matches(field, spare, n=1, cutoff=NEAR)
        if near:
            raise DataError(
                f"{row.where}: column {near[0]!r} looks like the field {field!r}; map it with {field}={near[0]}, "
                "or rename it"
            )
    return found


def _check_rating_columns(row: Row, names: Sequence[str], found: Mapping[str, str]) -> None:
    missing = [name for name in names if name not in found]
    if missing and len(missing) < len(names):
        error = missing_column(row.where, missing[0], row.fields, tuple(found.values()))
        raise DataError(
            f"{error}; other dimensions have ratings here, so map it with {missing[0]}=COLUMN "
            "or take the dimension out of the task file"
        )


def _add_context(draft: Draft, row: Row, found: Mapping[str, str]) -> str:
    text, background = context_text(row, found)
    context_id = name_of(row, found["context_id"]) if "context_id" in found else text_id(text, background)
    draft.add_context(row.where, context_id, text, background=background)
    return context_id


def context_text(row: Row, columns: Mapping[str, str]) -> tuple[str, str]:
    """Text and background of a row's context, from which `text_id` makes the id where the row has none.

    Args:
        row: the row.
        columns: the column of `context` and, if there is one, of `background`, which may be null: "".

    Raises:
        DataError: a column holds something else than text.
    """
    text = text_of(row, columns["context"])
    background = columns.get("background")
    return text, "" if background is None or row.fields.get(background) is None else text_of(row, background)
