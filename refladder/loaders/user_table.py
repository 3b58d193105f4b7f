"""Data of a user: contexts, outputs and optional ratings in one table; task and dimensions in TOML.

The table is JSON lines, a JSON list, CSV, Parquet (the first three plain or gzip), a Hub data set, or rows in memory,
with one output per row. Its columns are the fields of FIELDS and one rating column per dimension, with its name; other
column names are mapped, and `scores.clarity` is the field of an object. The task file is::

    task = "summarization"

    [[dimensions]]
    name = "clarity"
    description = "Whether ... The worst ...; the best ..."
    low = 1
    high = 5
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from refladder.errors import DataError, UnknownNameError, UsageError, column_option, similar
from refladder.files.ladder_sets import choose_dimensions
from refladder.files.tables import (
    STANDARD,
    InMemory,
    Row,
    cell_of,
    column_of,
    read_once,
    read_rows,
    read_twice,
    text_cell,
)
from refladder.loaders.chats import (
    before_output,
    chat_in,
    is_answered,
    messages_in,
    output_in,
    rendered,
)
from refladder.loaders.draft import MEAN, Draft, output_text_id
from refladder.loaders.fields import (
    has_output,
    log_columns,
    missing_column,
    name_of,
    numbers_of,
    text_of,
    texts_of,
    value_of,
)
from refladder.loaders.sources import fetch_table, read_table, table_of
from refladder.loaders.task_files import FIELDS, read_task
from refladder.records import DOCUMENT, Benchmark, Context, Dimension, names_of, text_id

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

CONTEXT_FIELDS = FIELDS[:3]
SEED_FIELDS = "context_id", "output", "subject"
HUB_PREFIX = "hub:"
# Similarity above which an unused column counts as a misspelt field.
NEAR = 0.9


def load_user_table(
    source: Path | str | None,
    *,
    task_file: Path | str,
    columns: Mapping[str, str] | None = None,
    dimensions: Sequence[str] = (),
) -> Benchmark:
    """Read a user's outputs with their contexts and optional ratings as a benchmark.

    `source` is a file, `-` for JSON lines on standard input, or `hub:ORG/NAME[:SPLIT]`; `columns` maps field or
    dimension names to column names; `dimensions` are the names of those to read, empty for all of the task file.
    """
    if source is None:
        raise UsageError("table: no data given; pass source=PATH or source=hub:ORG/NAME")
    task, described = read_task(Path(task_file))
    return read_user_table(source, task, described, columns=columns, dimensions=dimensions)


def read_user_table(
    source: Path | str,
    task: str,
    described: Sequence[Dimension],
    *,
    columns: Mapping[str, str] | None = None,
    dimensions: Sequence[str] = (),
) -> Benchmark:
    """Read a user's outputs, with the task and its dimensions given.

    Without `context_id`, the id of a context is a digest of its text and background. Without `output_id`, that of an
    output is `CONTEXT_ID/SYSTEM`, and without `system` its context's id and a digest of its text, as in `refladder
    score`: ids do not depend on the order of rows. A rating is a number (the rater is `mean`), a list with a number for
    each rater, or, with a column `rater`, one row per rater. Repeated rows of an output whose id is made from its text
    are further ratings.
    """
    chosen = choose_dimensions(described, dimensions)
    names = names_of(chosen)
    ignored = set(names_of(described)).difference(names)
    mapped = {field: column for field, column in (columns or {}).items() if field not in ignored}
    table = table_of(str(source), _read_source(source))
    first = _with_all_columns(table.rows)
    if of_log := log_columns(first.fields):
        mapped = of_log | mapped
        # What failed has no output; the reader of the log counts it.
        table = replace(table, rows=tuple(filter(has_output, table.rows)))
    required = ("output",) if task == DOCUMENT else ("context", "output")
    columns = _find_columns(first, mapped, required=required, fields=(*FIELDS, *names))
    _check_rating_columns(first, names, columns)
    draft = Draft(task, chosen)
    rated: dict[tuple[str, str, str], str] = {}
    for row in table.rows:
        context_id = _add_context(draft, row, columns, alone=task == DOCUMENT)
        output_id = _add_output(draft, row, columns, context_id)
        rated_columns = {name: columns[name] for name in names if name in columns}
        rater = _name_if_any(row, columns, "rater")
        _add_ratings(draft, row, output_id, rated_columns, rater=rater, rated=rated)
    return draft.finish(name="table", revision=table.revision, licence="the user's own data")


def _add_output(draft: Draft, row: Row, columns: Mapping[str, str], context_id: str) -> str:
    text = _output_text(row, columns)
    system = _name_if_any(row, columns, "system") or ""
    output_id = _name_if_any(row, columns, "output_id")
    by_text = output_id is None and not system
    if by_text:
        output_id = output_text_id(context_id, text)
    return draft.add_output(
        row.where,
        context_id,
        system,
        text,
        output_id=output_id,
        repeated=by_text or "rater" in columns,
        advice="keep one of them, or name who rated each in a column 'rater'",
    )


def _output_text(row: Row, columns: Mapping[str, str]) -> str:
    """Return the text of an output, or of the assistant's last message."""
    column = columns["output"]
    value = value_of(row, column)
    if column == columns.get("context"):
        value = chat_in(row.where, column, value)
    if not isinstance(value, list):
        return text_of(row, column)
    text, why = output_in(messages_in(row.where, column, value))
    if text is None:
        raise DataError(f"{row.where}: column {column!r}: {why}; leave the row out")
    return text


def _name_if_any(row: Row, columns: Mapping[str, str], field: str) -> str | None:
    """Return the id or name that a row has in a field; None if no column holds the field."""
    return name_of(row, columns[field]) if field in columns else None


def _add_ratings(
    draft: Draft,
    row: Row,
    output_id: str,
    columns: Mapping[str, str],
    *,
    rater: str | None,
    rated: dict[tuple[str, str, str], str],
) -> None:
    """Add the ratings of a row."""
    cells = {name: numbers_of(row, column) for name, column in columns.items()}
    count = max((len(values) for values in cells.values()), default=0)
    for number in range(count):
        values = {}
        for name, listed in cells.items():
            value = listed[number] if number < len(listed) else None
            if value is not None:
                values[name] = value
        if rater is None:
            label = draft.rater_for(row.where, output_id, MEAN if count == 1 else "")
            draft.add_ratings(row.where, output_id, values, label)
            continue
        if count > 1:
            raise DataError(
                f"{row.where}: {count} ratings in a row of rater {rater!r}; a row has those of one rater"
            )
        for name in values:
            first = rated.setdefault((output_id, name, rater), row.where)
            if first != row.where:
                raise DataError(
                    f"{row.where}: rater {rater!r} rated output {output_id!r} on {name} at {first} already; keep one"
                )
        draft.add_ratings(row.where, output_id, values, rater)


def load_contexts(
    source: Path | str, *, task: str, columns: Mapping[str, str] | None = None
) -> tuple[Context, ...]:
    """Read only contexts, for building ladders; ids are as in `load_user_table`, and in task `document` outputs are seeds."""
    draft = Draft(task, ())
    rows = tuple(_read_source(source))
    if not rows:
        raise DataError(f"{source}: it has no rows")
    first = _with_all_columns(rows)
    required, fields = ("context",), CONTEXT_FIELDS
    if task == DOCUMENT:
        required, fields = ("output",), SEED_FIELDS
    mapped = {}
    for field, name in (columns or {}).items():
        if field in fields or field not in FIELDS:
            mapped[field] = name
    columns = _find_columns(first, mapped, required=required, fields=fields)
    for row in rows:
        if task == DOCUMENT:
            _add_seed(draft, row, columns)
        else:
            _add_context(draft, row, columns)
    return draft.finish(name="table", revision="", licence="").contexts


def _add_seed(draft: Draft, row: Row, columns: Mapping[str, str]) -> None:
    text = text_of(row, columns["output"])
    if not text.strip():
        raise DataError(f"{row.where}: the seed is empty; remove the row")
    seed_id = _name_if_any(row, columns, "context_id") or text_id(text)
    subject = text_of(row, columns["subject"]) if "subject" in columns else ""
    draft.add_context(row.where, seed_id, subject, references=(text,), alone=True)


def _read_source(source: Path | str) -> Iterator[Row]:
    if isinstance(source, InMemory):
        yield from read_rows(source)
        return
    source = str(source)
    if source.startswith(HUB_PREFIX):
        repository, _, split = source.removeprefix(HUB_PREFIX).partition(":")
        yield from fetch_table(repository, split or None, "save it as a file").rows
    elif source.removesuffix(".gz").endswith(".json"):
        # The file holds a JSON list, or lines of JSON.
        yield from read_table(Path(source)).rows
    elif source != STANDARD and read_once(source):
        # A pipe has no extension that says the format.
        with read_twice(source, "table") as path:
            rows = read_table(Path(path)).rows
        yield from (replace(row, where=row.where.replace(path, source)) for row in rows)
    else:
        yield from read_rows(source)


def _with_all_columns(rows: Sequence[Row]) -> Row:
    """Return a row at the position of the first one with the columns of all rows: JSON lines may leave out columns."""
    fields: dict[str, object] = {}
    for row in rows:
        _merge(fields, row.fields)
    return Row(rows[0].where, fields)


def _merge(fields: dict[str, Any], more: Mapping[str, object]) -> None:
    """Add the columns of a row, and the fields of objects in them, with the value None."""
    for column, value in more.items():
        if isinstance(value, dict):
            if not isinstance(fields.get(column), dict):
                fields[column] = {}
            _merge(fields[column], value)
        else:
            fields.setdefault(column, None)


def _find_columns(
    row: Row, columns: dict[str, str], *, required: Sequence[str], fields: Sequence[str]
) -> dict[str, str]:
    """Find the column of every field that the row has."""
    for field in columns:
        if field not in fields:
            raise UnknownNameError("field", field, fields)
    matches: dict[str, str] = {}
    for field in fields:
        column = columns.get(field, field)
        if cell_of(row.fields, column, row) is not row:
            matches[field] = column
        elif field in columns or field in required:
            raise DataError(
                f"{missing_column(row.where, column, row.fields, tuple(matches.values()))}; "
                f"map the field {field!r} to its column with {column_option(field, 'COLUMN')}"
            )
    used = set(matches.values())
    used |= set(map(column_of, used))
    unused = [str(column) for column in row.fields if column not in used]
    for field in fields:
        near = similar(field, unused, NEAR)
        if field not in matches and near is not None:
            raise DataError(
                f"{row.where}: column {near!r} looks like the field {field!r}; map it with {field}={near}, or rename it"
            )
    return matches


def _check_rating_columns(row: Row, names: Sequence[str], columns: Mapping[str, str]) -> None:
    missing = [name for name in names if name not in columns]
    if missing and len(missing) < len(names):
        error = missing_column(row.where, missing[0], row.fields, tuple(columns.values()))
        raise DataError(
            f"{error}; other dimensions have ratings, so map it with {missing[0]}=COLUMN "
            "or remove the dimension from the task file"
        )


def _add_context(draft: Draft, row: Row, columns: Mapping[str, str], *, alone: bool = False) -> str:
    """Add the context of a row; with `alone` it may have none, and then the id is empty."""
    if alone:
        # A field whose cell is empty is treated as absent.
        filled = {}
        for field, name in columns.items():
            if text_cell(row.fields, name) not in (None, ""):
                filled[field] = name
        columns = filled
    text = background = ""
    if "context" in columns or not alone:
        text, background = context_text(row, columns)
    context_id = _name_if_any(row, columns, "context_id") or ""
    if text and not context_id:
        context_id = text_id(text, background)
    references = texts_of(row, columns["references"]) if "references" in columns else ()
    draft.add_context(
        row.where, context_id, text, background=background, references=references, alone=alone
    )
    return context_id


def context_text(row: Row, columns: Mapping[str, str]) -> tuple[str, str]:
    """Return text and background of a row's context; `text_id` makes an id from them if the row has none.

    Of a chat, the context is what is before the output: in its own column, and in that of the output.
    """
    column, output = columns["context"], columns.get("output")
    value = value_of(row, column)
    if column == output:
        value = chat_in(row.where, column, value)
    if isinstance(value, list):
        messages = messages_in(row.where, column, value)
        said = None if output is None or output == column else cell_of(row.fields, output)
        if output == column or (output is None and is_answered(messages)):
            messages = before_output(messages)
        elif isinstance(said, list):
            messages += before_output(messages_in(row.where, output or "", said))
        text = rendered(messages)
    else:
        text = text_of(row, column)
    background = columns.get("background")
    if background is None or text_cell(row.fields, background) is None:
        return text, ""
    return text, text_of(row, background)
