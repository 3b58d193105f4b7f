"""Tables in memory: read by the jobs row by row, and returned as the same kind with columns added.

Lists of dicts, pandas and polars data frames, Arrow tables and data sets of the package `datasets`. The user's own
columns are never converted: the score columns are added to the object that was given.
"""

from __future__ import annotations

import json
import math
import numbers
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from refladder.errors import DataError, UsageError
from refladder.files.tables import (
    Collected,
    InMemory,
    Row,
    Rows,
    arrow_schema,
    column_of,
    format_of,
    parse_number,
    read_rows,
)
from refladder.parsing import parse_json

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
KINDS = "a path, a list of dicts, a pandas or polars DataFrame, a pyarrow Table or a Dataset of `datasets`"
# The name of a table without another name.
TABLE = "the table"
# Where a scored table says which of its columns are fields.
_MAPPED = "refladder.columns"
# Number of rows converted at a time.
_BATCH = 4096


class Frame:
    """A table in memory: a list of dicts, a pandas or polars DataFrame, an Arrow table or a Dataset."""

    def __init__(self, table: Any) -> None:
        self._table = table
        self._kind = _kind_of(table)
        if self._kind == "rows":
            for number, row in enumerate(table, start=1):
                if not isinstance(row, dict):
                    raise DataError(
                        f"row {number}: each row must be a dict, such as {{'output': TEXT}}, found {row!r:.60}"
                    )
        else:
            _pyarrow()
            names = self.names
            for name in names:
                if not isinstance(name, str) or names.count(name) > 1:
                    problem = "is not text" if not isinstance(name, str) else "appears twice"
                    raise DataError(
                        f"the table: the name of column {name!r} {problem}; rename the column"
                    )

    @property
    def form(self) -> str:
        """Return the format of a file that is like the table."""
        return "jsonl" if self._kind == "rows" else "parquet"

    @property
    def names(self) -> list[str]:
        """Return the names of the columns; a list has the columns of its first row."""
        if self._kind == "rows":
            return list(self._table[0]) if self._table else []
        if self._kind in ("arrow", "datasets"):
            return list(self._table.column_names)
        return list(self._table.columns)

    def source(
        self, needed: Collection[str] | None = None, name: str = TABLE, *, as_json: bool = True
    ) -> InMemory:
        """Return the table as jobs accept it instead of a path; columns that are not `needed` are null.

        With `as_json`, the values of a list are those that JSON lines would have.
        """
        if needed is not None:
            needed = {*needed, *map(column_of, needed)}

        def read() -> Rows:
            of = "" if name == TABLE else f" of {name}"
            if self._kind == "rows":
                return Rows(self._listed(needed, of, as_json=as_json))
            return Rows(self._arrow_rows(needed, of), self.names)

        return InMemory(
            name, self.form, read, lambda: next(self._arrow(needed)).schema, self.mapped
        )

    def _listed(self, needed: Collection[str] | None, of: str, *, as_json: bool) -> Iterator[Row]:
        for number, fields in enumerate(self._table):
            where = f"row {number + 1}"
            cells = dict.fromkeys(fields)
            for name, value in fields.items():
                if _is_needed(name, needed) and not _is_missing(value):
                    cells[name] = value
            if not as_json:
                yield Row(f"{where}{of}", cells, None, number)
                continue
            line = _json_line(where, cells)
            yield Row(f"{where}{of}", parse_json(line, f"{where}{of}"), line, number)

    @property
    def mapped(self) -> dict[str, str]:
        """Return field to column as `score` used them, where the table says it and still has the columns."""
        said: Any = {}
        if self._kind == "pandas":
            said = self._table.attrs.get(_MAPPED, {})
        elif self._kind == "arrow":
            said = json.loads((self._table.schema.metadata or {}).get(_MAPPED.encode(), "{}"))
        return {field: column for field, column in said.items() if column in self.names}

    def with_columns(
        self,
        values: Sequence[dict[str, Any]],
        types: Mapping[str, type],
        mapped: Mapping[str, str] | None,
    ) -> Any:
        """Return the table with added columns of `types` (float or str) at its end; None is a missing value.

        A pandas or Arrow table also says which columns are `mapped` to fields.
        """
        if self._kind == "rows":
            return [{**row, **more} for row, more in zip(self._table, values, strict=True)]
        pa = _pyarrow()
        arrow_types = {name: _arrow_type(pa, kind) for name, kind in types.items()}
        more = pa.Table.from_pylist(values, schema=pa.schema(arrow_types))
        if self._kind == "arrow":
            table = self._table
            for name in more.column_names:
                table = table.append_column(name, more[name])
            said = {_MAPPED: json.dumps(dict(mapped))} if mapped else {}
            return table.replace_schema_metadata({**(table.schema.metadata or {}), **said})
        if self._kind == "pandas":
            frame = more.to_pandas()
            scored = self._table.assign(**{name: frame[name].array for name in frame.columns})
            if mapped:
                scored.attrs[_MAPPED] = dict(mapped)
            return scored
        if self._kind == "polars":
            import polars as pl

            return self._table.hstack(pl.from_arrow(more))
        import datasets

        return datasets.concatenate_datasets([self._table, datasets.Dataset(more)], axis=1)

    def select(self, numbers: Sequence[int]) -> Any:
        """Return the rows with these numbers, from 0, in this order."""
        if self._kind == "rows":
            return [self._table[number] for number in numbers]
        if self._kind == "pandas":
            return self._table.iloc[list(numbers)]
        if self._kind == "polars":
            import polars as pl

            return self._table[pl.Series(numbers, dtype=pl.UInt64)]
        if self._kind == "arrow":
            return self._table.take(_pyarrow().array(numbers, _pyarrow().int64()))
        return self._table.select(numbers)

    def made(self, out: str, columns: Sequence[str], types: Mapping[str, type]) -> Any:
        """Return what a job wrote or kept as a table of the same kind: `columns`, and added ones with `types`."""
        if isinstance(out, Collected):
            rows = out.whole_rows()
        else:
            cells = added_values(out, types)
            rows = [row.fields | more for row, more in zip(read_rows(out), cells, strict=True)]
        if self._kind == "rows":
            return rows
        pa = _pyarrow()
        added = [(name, _arrow_type(pa, kind)) for name, kind in types.items()]
        schema = pa.schema([*arrow_schema(rows, columns), *added])
        return self._of_arrow(pa.Table.from_pylist(rows, schema=schema))

    def _of_arrow(self, table: Any) -> Any:
        if self._kind == "arrow":
            return table
        if self._kind == "pandas":
            return table.to_pandas()
        if self._kind == "polars":
            import polars as pl

            return pl.from_arrow(table)
        import datasets

        return datasets.Dataset(table)

    def _arrow(self, needed: Collection[str] | None) -> Iterator[Any]:
        """Yield the table as Arrow tables, one after the other."""
        pa = _pyarrow()
        names = self.names
        chosen = [name for name in names if _is_needed(name, needed)] or names[:1]
        try:
            for part in self._parts(chosen):
                columns = []
                for name in names:
                    column = part[name] if name in chosen else pa.nulls(part.num_rows)
                    columns.append(_plain(pa, column))
                yield pa.table(columns, names=names)
        except (pa.ArrowException, OverflowError) as error:
            raise DataError(
                self._mixed(chosen)
                or f"the table: a column does not fit Arrow ({error}); convert it or leave it out"
            ) from error

    def _mixed(self, names: list[str]) -> str:
        """Name the first value of another type in a column of pandas that Arrow refuses; empty if there is none."""
        pa = _pyarrow()
        for name in names if self._kind == "pandas" else ():
            with suppress(pa.ArrowInvalid, pa.ArrowTypeError):
                pa.array(self._table[name], from_pandas=True)
                continue
            first: type | None = None
            for number, value in enumerate(self._table[name], start=1):
                if value is None or (isinstance(value, float) and math.isnan(value)):
                    continue
                first = first or type(value)
                if type(value) is not first:
                    return (
                        f"row {number}: column {name!r} holds {value!r:.60}, of type {type(value).__name__}, and "
                        f"{first.__name__} above it; give the column one type"
                    )
        return ""

    def _parts(self, names: list[str]) -> Iterator[Any]:
        pa = _pyarrow()
        if self._kind == "pandas":
            yield pa.Table.from_pandas(self._table[names], preserve_index=False)
        elif self._kind == "polars":
            yield self._table.select(names).to_arrow()
        elif self._kind == "arrow":
            yield self._table
        elif len(self._table):
            yield from self._table.select_columns(names).with_format("arrow").iter(_BATCH)
        else:
            yield self._table.data.table.slice(0, 0)

    def _arrow_rows(self, needed: Collection[str] | None, of: str) -> Iterator[Row]:
        number = 0
        for part in self._arrow(needed):
            for batch in part.to_batches(max_chunksize=_BATCH):
                for fields in batch.to_pylist():
                    yield Row(f"row {number + 1}{of}", fields, None, number)
                    number += 1


def added_values(out: str, types: Mapping[str, type]) -> list[dict[str, Any]]:
    """Return the added columns (name to float or str) of the rows that a job wrote or kept."""
    if isinstance(out, Collected):
        return out.values
    as_text = format_of(out) == "csv"
    values = []
    for row in read_rows(out):
        cells = {}
        for name, kind in types.items():
            cell = row.fields.get(name)
            if as_text and kind is float:
                cell = parse_number(cell or "")
            elif as_text:
                cell = cell or None
            cells[name] = cell
        values.append(cells)
    return values


def _kind_of(table: object) -> str:
    package = type(table).__module__.partition(".")[0]
    name = type(table).__name__
    if isinstance(table, list):
        return "rows"
    if package in ("pandas", "polars") and name == "DataFrame":
        return package
    if package == "pyarrow" and name == "Table":
        return "arrow"
    if package == "datasets" and name == "Dataset":
        return package
    if type(table) is dict:
        raise UsageError(
            f"a table must be {KINDS}, found a dict; give a list of rows, such as [row]"
        )
    hints = {
        "Series": "; give a frame, such as SERIES.to_frame('output')",
        "LazyFrame": "; call .collect() first",
        "DatasetDict": "; take one split, such as table['train']",
        "IterableDataset": "; save it to a file, or load it without streaming",
    }
    raise UsageError(f"a table must be {KINDS}, found {package}.{name}{hints.get(name, '')}")


def _pyarrow() -> Any:
    try:
        import pyarrow as pa
    except ImportError as error:
        raise UsageError("data frames need pyarrow; pip install pyarrow") from error
    return pa


def _arrow_type(pa: Any, kind: type) -> Any:
    return pa.float64() if kind is float else pa.string()


def _plain(pa: Any, column: Any) -> Any:
    """Return a column without a dictionary (categories), which the reader of a file would build again."""
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def _is_needed(name: object, needed: Collection[str] | None) -> bool:
    return needed is None or name in needed


def _is_missing(value: object) -> bool:
    """Return whether a value is one that pandas has for none: NaN, NA or NaT; a frame has null for it."""
    if isinstance(value, numbers.Real):
        return value != value  # noqa: PLR0124  NaN
    return type(value).__name__ in {"NAType", "NaTType"}


def _json_line(where: str, fields: Mapping[str, Any]) -> str:
    def refuse(value: Any) -> object:
        # Numbers, truth values and arrays of numpy have `tolist`.
        plain = value.tolist() if hasattr(value, "tolist") else value
        if type(plain) is not type(value):
            return plain
        raise DataError(
            f"{where}: a value of type {type(value).__name__} has no equivalent in JSON, found {value!r:.60}; "
            "convert it to text or a number"
        )

    for name in fields:
        if not isinstance(name, str):
            raise DataError(f"{where}: the name of column {name!r} is not text; rename the column")
    text = json.dumps(fields, default=refuse, ensure_ascii=False)
    # Half a surrogate pair stays a JSON escape.
    return text.encode("utf-8", "backslashreplace").decode()
