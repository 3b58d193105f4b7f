"""Tables in memory: read by the jobs through a temporary file, and returned as the same kind with columns added.

Lists of dicts, pandas and polars data frames, Arrow tables and data sets of the package `datasets`. The user's own
columns are never converted: the score columns are added to the object that was given.
"""

from __future__ import annotations

import json
import numbers
from typing import TYPE_CHECKING, Any

from refladder.errors import DataError, UsageError
from refladder.files.tables import Row, Rows, format_of, parse_number, read_rows

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from pathlib import Path

KINDS = "a path, a list of dicts, a pandas or polars DataFrame, a pyarrow Table or a Dataset of `datasets`"
NUMBER = "number of the row"  # a column of temporary tables, which no message names
_BATCH = 4096  # rows converted at a time


class Frame:
    """A table in memory: a list of dicts, a pandas or polars DataFrame, an Arrow table or a Dataset."""

    def __init__(self, table: Any) -> None:
        self._table = table
        self._kind = _kind_of(table)
        if self._kind == "rows":
            for number, row in enumerate(table, start=1):
                if not isinstance(row, dict):
                    raise DataError(f"row {number}: each row must be a dict, found {row!r:.60}")
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
        """The format of the temporary file."""
        return "jsonl" if self._kind == "rows" else "parquet"

    @property
    def names(self) -> list[str]:
        """The names of the columns; those of the first row in a list."""
        if self._kind == "rows":
            return list(self._table[0]) if self._table else []
        return list(
            self._table.column_names if self._kind in ("arrow", "datasets") else self._table.columns
        )

    def rows(self) -> Rows:
        """All rows, with every column."""
        if self._kind == "rows":
            return Rows(
                Row(f"row {number}", fields) for number, fields in enumerate(self._table, start=1)
            )
        return Rows(self._arrow_rows())

    def write(
        self, path: Path, needed: Collection[str] | None = None, *, number: str | None = None
    ) -> None:
        """Write a file of the format `form`; columns not `needed` are null, and the column `number` counts rows."""
        if needed is not None:
            needed = {*needed, *(name.partition(".")[0] for name in needed)}
        if self._kind == "rows":
            with path.open("wb") as stream:
                for count, fields in enumerate(self._table):
                    cells = {
                        name: value if _is_needed(name, needed) else None
                        for name, value in fields.items()
                    }
                    stream.write(
                        _json_line(count + 1, cells | ({} if number is None else {number: count}))
                    )
            return
        from pyarrow import parquet

        pa, written, writer = _pyarrow(), 0, None
        try:
            for batch in self._arrow(needed):
                if number is not None:
                    batch = batch.append_column(  # noqa: PLW2901
                        number, pa.array(range(written, written + batch.num_rows))
                    )
                writer = writer or parquet.ParquetWriter(path, batch.schema)
                writer.write_table(batch)
                written += batch.num_rows
        except (pa.ArrowException, OverflowError) as error:
            raise DataError(
                f"the table: a column does not fit Arrow ({error}); convert it or leave it out"
            ) from error
        finally:
            if writer is not None:
                writer.close()

    def with_columns(self, columns: Mapping[str, Sequence[Any]], types: Mapping[str, type]) -> Any:
        """The table with columns of `types` (float or str) added at its end; None is a missing value."""
        if self._kind == "rows":
            added = [
                dict(zip(columns, values, strict=True))
                for values in zip(*columns.values(), strict=True)
            ]
            return [{**row, **more} for row, more in zip(self._table, added, strict=True)]
        pa = _pyarrow()
        arrow_types = {float: pa.float64(), str: pa.string()}
        more = pa.table(
            {name: pa.array(values, arrow_types[types[name]]) for name, values in columns.items()}
        )
        if self._kind == "arrow":
            table = self._table
            for name in more.column_names:
                table = table.append_column(name, more[name])
            return table
        if self._kind == "pandas":
            frame = more.to_pandas()
            return self._table.assign(**{name: frame[name].array for name in frame.columns})
        if self._kind == "polars":
            import polars as pl

            return self._table.hstack(pl.from_arrow(more))
        import datasets

        return datasets.concatenate_datasets([self._table, datasets.Dataset(more)], axis=1)

    def select(self, numbers: Sequence[int]) -> Any:
        """The rows with these numbers, from 0, in this order."""
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

    def opened(self, path: Path) -> Any:
        """A file of the format `form` as a table of the same kind."""
        if self._kind == "rows":
            return [row.fields for row in read_rows(str(path))]
        from pyarrow import parquet

        table = parquet.read_table(path)
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
        """The table as Arrow tables, one after the other."""
        pa = _pyarrow()
        names = self.names
        chosen = [name for name in names if _is_needed(name, needed)] or names[:1]
        for part in self._parts(chosen):
            columns = [part[name] if name in chosen else pa.nulls(part.num_rows) for name in names]
            yield pa.table([_plain(pa, column) for column in columns], names=names)

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

    def _arrow_rows(self) -> Iterator[Row]:
        number = 0
        for part in self._arrow(None):
            for batch in part.to_batches(max_chunksize=_BATCH):
                for fields in batch.to_pylist():
                    number += 1
                    yield Row(f"row {number}", fields)


def read_columns(
    path: Path, types: Mapping[str, type], given: str | None = None
) -> dict[str, list[Any]]:
    """Some columns (name to float or str) of a table that a job wrote; None where a value is missing."""
    columns: dict[str, list[Any]] = {name: [] for name in types}
    as_text = format_of(str(path), given) == "csv"
    for row in read_rows(str(path), given):
        for name, kind in types.items():
            value = row.fields.get(name)
            if as_text:
                value = parse_number(value or "") if kind is float else value or None
            columns[name].append(value)
    return columns


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
    hints = {
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


def _plain(pa: Any, column: Any) -> Any:
    """A column without a dictionary (categories), which a file's reader would have to build again."""
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def _is_needed(name: object, needed: Collection[str] | None) -> bool:
    return needed is None or name in needed


def _json_line(number: int, fields: Mapping[str, Any]) -> bytes:
    def refuse(value: object) -> object:
        if isinstance(value, numbers.Real) and hasattr(value, "item"):  # a number of numpy
            return value.item()
        raise DataError(
            f"row {number}: a value of type {type(value).__name__} has no equivalent in JSON, found {value!r:.60}; "
            "convert it to text or a number"
        )

    for name in fields:
        if not isinstance(name, str):
            raise DataError(
                f"row {number}: the name of column {name!r} is not text; rename the column"
            )
    text = json.dumps(fields, default=refuse, ensure_ascii=False)
    return (
        text.encode("utf-8", "backslashreplace") + b"\n"
    )  # half a surrogate pair stays a JSON escape
