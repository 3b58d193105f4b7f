"""A user's table, row by row: JSON lines, CSV or Parquet in and out, standard input and output included.

Columns that refladder does not know travel through untouched: a JSON line is copied letter for letter and new fields
are put at its end; CSV cells stay the strings they were; Parquet columns keep their types.
"""

from __future__ import annotations

import csv
import io
import itertools
import json
import sys
import zlib
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Protocol

from refladder.artifacts import atomic, open_bytes
from refladder.errors import DataError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

FORMATS = ("jsonl", "csv", "parquet")
_ENDINGS = {".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl", ".csv": "csv", ".parquet": "parquet"}
_LINE_ENDS = ("\n", "\r\n", "")
_decode = json.JSONDecoder().raw_decode
_encode = json.JSONEncoder(ensure_ascii=False).encode
_BATCH = 4096  # Parquet rows held at a time
STANDARD = "-"  # the name of standard input and output


@dataclass(frozen=True, slots=True)
class Row:
    """One row: `where` it stands (path:line), its `fields`, and for JSON lines the line itself."""

    where: str
    fields: dict[str, Any]
    raw: str | None = None


def format_of(path: str, given: str | None = None) -> str:
    """The format of a file: the one given, else by the file's ending (a last `.gz` is passed over); `-` is jsonl.

    Raises:
        UsageError: the ending is not one of .jsonl, .ndjson, .json, .csv, .parquet.
    """
    if given is not None:
        return given
    if path == STANDARD:
        return "jsonl"
    ending = Path(path.removesuffix(".gz")).suffix.lower()
    if ending not in _ENDINGS:
        raise UsageError(f"{path}: cannot tell its format from its ending; say --format jsonl, csv or parquet")
    return _ENDINGS[ending]


def standard_form(path: str, source_form: str) -> str | None:
    """The format to write to `path` if nothing is said: on standard output a CSV stays a CSV; a file's ending tells."""
    return "csv" if path == STANDARD and source_form == "csv" else None


def read_rows(path: str, given: str | None = None) -> Iterator[Row]:
    """Rows of a table, in order, holding no more than a few thousand in memory.

    Args:
        path: a file (JSON lines and CSV may be gzip), or `-` for standard input.
        given: the format where the file's ending does not say it.

    Raises:
        DataError: with path:line: not JSON, not an object, a CSV row with too many or too few cells, not UTF-8, ...
        UsageError: the format is unknown.
    """
    form = format_of(path, given)
    if form == "parquet":
        return _read_parquet(path)
    name = "<stdin>" if path == STANDARD else path
    stream = sys.stdin.buffer if path == STANDARD else open_bytes(Path(path))
    return _read_jsonl(name, stream) if form == "jsonl" else _read_csv(name, stream)


def _decoded(name: str, stream: IO[bytes]) -> Iterator[str]:
    """Lines with their line ends, decoded; every way a byte stream can be damaged becomes a DataError."""
    number = 0
    try:
        with stream:
            for number, line in enumerate(stream, start=1):
                yield line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{name}:{number}: not UTF-8 (byte {error.object[error.start]:#04x} at position {error.start}); "
            "convert the file to UTF-8"
        ) from error
    except (EOFError, OSError, zlib.error) as error:
        raise DataError(f"{name}:{number + 1}: the stream is damaged or cut off ({error}); fetch it again") from error


def _parsed(line: str) -> Any:  # noqa: ANN401  JSON may be anything
    try:
        value, end = _decode(line)  # what json.loads does for an ordinary line, in less time
    except ValueError:
        return json.loads(line)
    return value if line[end:] in _LINE_ENDS else json.loads(line)


def _read_jsonl(name: str, stream: IO[bytes]) -> Iterator[Row]:
    for number, line in enumerate(_decoded(name, stream), start=1):
        try:
            fields = _parsed(line)
        except ValueError as error:
            raise DataError(f"{name}:{number}: not JSON ({error}); each line must be one JSON object") from error
        if type(fields) is not dict:
            raise DataError(f"{name}:{number}: a JSON {type(fields).__name__}; each line must be one JSON object")
        yield Row(f"{name}:{number}", fields, line)


def _read_csv(name: str, stream: IO[bytes]) -> Iterator[Row]:
    csv.field_size_limit(sys.maxsize)  # the module's own limit, 128 KiB a cell, is less than a long article
    reader = csv.reader(_decoded(name, stream), strict=True)
    try:
        header = next(reader, None)
        if not header:
            raise DataError(f"{name}:1: an empty file; the first line of a CSV file names its columns")
        if len(set(header)) != len(header):
            twice = next(column for column in header if header.count(column) > 1)
            raise DataError(f"{name}:1: column {twice!r} stands there twice; rename one")
        start = reader.line_num + 1
        for cells in reader:
            if len(cells) != len(header):
                raise DataError(f"{name}:{start}: {len(cells)} cells, but the header names {len(header)} columns")
            yield Row(f"{name}:{start}", dict(zip(header, cells, strict=True)))
            start = reader.line_num + 1
    except csv.Error as error:
        raise DataError(f"{name}:{reader.line_num}: not CSV ({error})") from error


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow as pa  # noqa: PLC0415  an extra: 120 MB
        from pyarrow import parquet  # noqa: PLC0415
    except ImportError as error:
        raise UsageError("Parquet needs pyarrow; pip install 'refladder[parquet]'") from error
    return pa, parquet


def _read_parquet(path: str) -> Iterator[Row]:
    pa, parquet = _pyarrow()
    if path == STANDARD:
        raise UsageError("Parquet cannot be read from standard input; give the file's path")
    try:
        file = parquet.ParquetFile(path)
        number = 0
        for batch in file.iter_batches(batch_size=_BATCH):
            for fields in batch.to_pylist():
                number += 1
                yield Row(f"{path}:{number}", fields)
    except FileNotFoundError as error:
        raise DataError(f"{path}: no such file") from error
    except pa.ArrowInvalid as error:
        raise DataError(f"{path}: not a Parquet file ({error})") from error


class Write(Protocol):
    """Puts one row, with values for the added columns, at the end of a sink."""

    def __call__(self, row: Row, values: Mapping[str, Any] | None = None, /) -> None:
        """Write it."""
        ...


@contextmanager
def open_sink(path: str, given: str | None, added: Mapping[str, type], source: str | None = None) -> Iterator[Write]:
    """A function `write(row, values)` that puts rows, with values for the added columns, in a file or on stdout.

    A file appears whole, when the block ends well, or not at all.

    Args:
        path: a file, or `-` for standard output.
        given: the format where the file's ending does not say it.
        added: columns that are put after the row's own, with their type (float or str).
        source: the Parquet file the rows come from, if it is one: its column types are kept.

    Raises:
        DataError: the file cannot be written; a row has other columns than the first (CSV and Parquet).
        UsageError: the format is unknown, or the rows already have a column that is to be added.
    """
    form = format_of(path, given)
    if path == STANDARD:
        if form == "parquet":
            raise UsageError("Parquet cannot be written to standard output; give --out FILE.parquet")
        stream = sys.stdout.buffer
        yield _sink(form, stream, added, source)
        stream.flush()
        return
    with atomic(Path(path)) as file:
        if form == "parquet":
            with _parquet_sink(file, added, source) as write:
                yield write
        else:
            yield _sink(form, file, added, source)


def _refuse_clash(row: Row, added: Mapping[str, type]) -> None:
    clash = sorted(set(row.fields) & set(added))
    if clash:
        raise UsageError(f"{row.where}: column {clash[0]!r} is there already; rename or drop it first")


def _sink(form: str, stream: IO[bytes], added: Mapping[str, type], source: str | None) -> Write:
    if form == "csv":
        return _csv_writer(stream, added)
    # Parquet holds dates and bytes, which JSON spells as text.
    encode = _encode if source is None else json.JSONEncoder(ensure_ascii=False, default=str).encode

    def write(row: Row, values: Mapping[str, Any] | None = None, /) -> None:
        if added:
            _refuse_clash(row, added)
        if row.raw is not None:
            if not values:
                stream.write((row.raw if row.raw.endswith("\n") else row.raw + "\n").encode())
                return
            head = row.raw.rstrip()[:-1].rstrip()
            comma = "," if row.fields else ""
            stream.write(f"{head}{comma}{_encode(values)[1:]}\n".encode())
            return
        fields = {**row.fields, **(values or {})}
        stream.write(encode(fields).encode() + b"\n")

    return write


def _csv_writer(stream: IO[bytes], added: Mapping[str, type]) -> Write:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    columns: list[str] = []

    def write(row: Row, values: Mapping[str, Any] | None = None, /) -> None:
        if not columns:
            _refuse_clash(row, added)
            columns.extend(row.fields)
            writer.writerow([*columns, *added])
        _same_columns(row, columns)
        given = values or {}
        writer.writerow([*(_cell(value) for value in row.fields.values()), *(_cell(given.get(name)) for name in added)])
        stream.write(text.getvalue().encode())
        text.seek(0)
        text.truncate()

    return write


def _same_columns(row: Row, columns: list[str]) -> None:
    if list(row.fields) != columns:
        different = sorted(set(row.fields) ^ set(columns)) or ["their order"]
        raise DataError(
            f"{row.where}: its columns differ from the first row's ({different[0]}); write .jsonl, which allows that"
        )


def _cell(value: object) -> object:
    if value is None or isinstance(value, str | int | float):
        return value
    return json.dumps(value, ensure_ascii=False, default=str)


@contextmanager
def _parquet_sink(stream: IO[bytes], added: Mapping[str, type], source: str | None) -> Iterator[Write]:
    pa, parquet = _pyarrow()
    types = {float: pa.float64(), str: pa.string()}
    held: list[dict[str, Any]] = []
    columns: list[str] = []
    writer: Any = None

    def flush() -> None:
        nonlocal writer
        if writer is None:
            own = parquet.read_schema(source) if source else _infer(pa, held, columns)
            schema = pa.schema([*own, *(pa.field(name, types[kind]) for name, kind in added.items())])
            writer = parquet.ParquetWriter(stream, schema)
        writer.write_table(pa.Table.from_pylist(held, schema=writer.schema))
        held.clear()

    def write(row: Row, values: Mapping[str, Any] | None = None, /) -> None:
        if not columns:
            _refuse_clash(row, added)
            columns.extend(row.fields)
        _same_columns(row, columns)
        held.append({**row.fields, **(values or {})})
        if len(held) >= _BATCH:
            flush()

    yield write
    flush()
    writer.close()


def _infer(pa: Any, held: list[dict[str, Any]], columns: list[str]) -> Any:  # noqa: ANN401
    return pa.Table.from_pylist([{name: fields[name] for name in columns} for fields in held]).schema


def first_row(rows: Iterator[Row]) -> tuple[Row | None, Iterator[Row]]:
    """Look at the first row without losing it; None when there is none."""
    first = next(rows, None)
    return first, rows if first is None else itertools.chain([first], rows)
