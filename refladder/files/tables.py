"""Tables of a user, row by row: JSON lines, CSV, Parquet or a log of another program, including standard input and output.

A table that is read is a file, a folder of files, a glob (`data/*.jsonl`), or one of these at a URL.

Unknown columns are copied unchanged: a JSON line is copied exactly and new fields are appended; CSV cells stay strings;
Parquet columns keep their types.
"""

from __future__ import annotations

import csv
import functools
import glob
import io
import itertools
import json
import logging
import math
import re
import shutil
import sys
import tempfile
from collections.abc import Generator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple, Protocol

from refladder.errors import DataError, UsageError, did_you_mean, either, option, plural
from refladder.files import streams
from refladder.files.folders import open_folder
from refladder.files.inspect_logs import read_samples
from refladder.files.jsonl import Writer, atomic, decoded_lines, is_device, open_bytes
from refladder.files.lm_eval_samples import is_sample, read_sample
from refladder.files.locks import cannot_write, refuse_folder
from refladder.files.outputs import check_options, check_own, write_run
from refladder.files.promptfoo_results import is_results, read_results
from refladder.files.scored_folders import finished_files
from refladder.files.streams import is_url, list_urls, open_url
from refladder.parsing import check_names, parse_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Self

    _Stream = Writer | IO[bytes]
    _Read = Callable[[str, dict[str, Any]], Iterable[dict[str, Any]]]

LOG = logging.getLogger(__name__)
FORMATS = "jsonl", "csv", "parquet"
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode
_encode_all = json.JSONEncoder(ensure_ascii=False, allow_nan=False, default=str).encode
_FORMULA = "=", "+", "-", "@", "\t", "\r"
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_FIELD = re.compile(r'"\s*:')
# A path into the value of a column: `scores.clarity`, `choices[0].message.content`.
_INSIDE = re.compile(r"[.\[]")
_STEP = re.compile(r"\[(?P<place>-?\d{1,9})\]|[^.\[]+|\[[^.]*")
_WITH_UNIT = re.compile(r"[$€]\s*(\d+(?:\.\d+)?)|(\d+(?:\.\d+)?)\s*(?:[a-zA-Z]{3,}|[$€])")
_COMMA = re.compile(r"[+-]?[0-9]+,(?:[0-9]{1,2}|[0-9]{4,})")
# Parquet rows in memory.
_BATCH = 4096
# Samples in a message.
_SHOWN = 3
# Standard input or output.
STANDARD = "-"
# The largest number of a score: sums of squares of such numbers are finite.
MOST = 1e100
_OF_SCORES = ("_score", "_grade")
_SPREADSHEETS = {".xlsx", ".xls", ".xlsm", ".ods", ".numbers"}
_DELIMITERS = ",;\t"
_MARK = "\ufeff"
FORM_OF_EXTENSION = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
    ".eval": "eval",
}


@dataclass(frozen=True, slots=True)
class Row:
    """One row: its position `where` (path:line), its `fields`, and for JSON lines the line itself.

    `number` is its number, from 0, in a table in memory.
    """

    where: str
    fields: dict[str, Any]
    raw: str | None = None
    number: int = 0

    @property
    def signature(self) -> Any:
        """Return the signature of its scores; None if it has none."""
        return self.fields.get("signature") or None


class CsvStyle(NamedTuple):
    """How a CSV file is written: the delimiter, the end of a line, and the byte order mark or nothing."""

    delimiter: str = ","
    end: str = "\n"
    mark: str = ""


class InMemory(str):
    """A table in memory, given instead of a path. As text, it is what the user calls the table."""

    __slots__ = ("form", "mapped", "read", "schema")
    form: str
    read: Callable[[], Rows]
    schema: Callable[[], Any]
    mapped: Mapping[str, str]

    def __new__(
        cls,
        name: str,
        form: str,
        read: Callable[[], Rows],
        schema: Callable[[], Any],
        mapped: Mapping[str, str],
    ) -> Self:
        """Make the place of a table that is like a file of the format `form`.

        `schema` returns its Arrow schema, and `mapped` are the columns of its fields, as far as it says them.
        """
        table = super().__new__(cls, name)
        table.form, table.read, table.schema, table.mapped = form, read, schema, mapped
        return table


class Collected(str):
    """Rows that a job keeps in memory, given instead of the path of its output."""

    __slots__ = ("form", "rows", "values")
    form: str
    rows: list[Row]
    values: list[dict[str, object]]

    def __new__(cls, form: str) -> Self:
        """Make an empty output; it takes the rows of a table that is like a file of the format `form`."""
        kept = super().__new__(cls, "the result")
        kept.form, kept.rows, kept.values = form, [], []
        return kept

    def write(self, row: Row, values: Mapping[str, object] | None = None, /) -> None:
        """Keep a row and its added columns."""
        self.rows.append(row)
        self.values.append(dict(values or {}))

    def whole_rows(self) -> list[dict[str, object]]:
        """Return the rows with their added columns."""
        return [row.fields | more for row, more in zip(self.rows, self.values, strict=True)]


def form_by_name(path: str) -> str | None:
    """Return the format of a file by its extension, ignoring a final `.gz`; None if it is not a table."""
    return FORM_OF_EXTENSION.get(Path(path.removesuffix(".gz")).suffix.lower())


def is_glob(path: str) -> bool:
    """Return whether a path has wildcards; a path that exists has none."""
    return any(character in path for character in "*?[") and (
        is_url(path) or not Path(path).exists()
    )


def is_many(path: str) -> bool:
    """Return whether a path is a folder or a glob; a URL without an extension of a table is a folder."""
    if is_url(path):
        return is_glob(path) or form_by_name(path) is None
    return is_glob(path) or Path(path).is_dir()


def table_files(path: str) -> list[str]:
    """Return the files of a table: itself, those of a folder (or of its run), or the matches of a glob."""
    if not is_many(path):
        return [path]
    if is_glob(path):
        # Path.glob takes no absolute pattern.
        files = list_urls(path) if is_url(path) else glob.glob(path, recursive=True)  # noqa: PTH207
    elif (scored := finished_files(path)) is not None:
        return [open_folder(path).path_of(file.name) for file in scored]
    else:
        found = list_urls(path) if is_url(path) else map(str, Path(path).iterdir())
        files = list(filter(form_by_name, found))
    if not is_url(path):
        files = [file for file in files if Path(file).is_file()]
    files = sorted(file for file in files if not Path(file).name.startswith("."))
    if not files:
        raise DataError(
            f"{path}: no .jsonl, .csv or .parquet file there; name a file, a folder or a quoted glob"
        )
    return files


def open_table(path: str) -> IO[bytes]:
    """Open a file or URL for reading; gzip is unpacked."""
    return open_url(path) if is_url(path) else open_bytes(Path(path))


def format_of(path: str, given: str | None = None, *, output: bool = False) -> str:
    """Return the format of a file: `given`, or else by its extension, ignoring a final `.gz`; `-` is jsonl."""
    if given is not None:
        return given
    if isinstance(path, InMemory | Collected):
        return path.form
    if path == STANDARD:
        return "jsonl"
    suffix = Path(path.removesuffix(".gz")).suffix.lower()
    if suffix in _SPREADSHEETS:
        advice = "read; save it as CSV UTF-8, and name that file"
        if output:
            advice = "write; name a .csv file"
        raise UsageError(f"{path}: a spreadsheet, which refladder cannot {advice}")
    form = form_by_name(path)
    form = None if output and form == "eval" else form
    if form is None and is_many(path):
        forms = sorted({form_by_name(file) or "unknown" for file in table_files(path)})
        if len(forms) > 1:
            raise UsageError(
                f"{path}: files of several formats ({', '.join(forms)}); name one kind with a quoted glob"
            )
        form = forms[0]
    if form is None or form == "unknown":
        if not (output or is_url(path) or Path(path).suffix or Path(path).exists()):
            raise DataError(f"{path}: no such file or folder")
        # Calls take the format from the file's name.
        more = either(", or give --format", "")
        raise UsageError(f"{path}: unknown file extension; use .jsonl, .csv or .parquet{more}")
    return form


def standard_form(path: str, source_form: str) -> str | None:
    """Return the default format of standard output or a pipe: csv for CSV, else jsonl; None for the extension of a file."""
    if isinstance(path, Collected) or not read_once(path):
        return None
    return "csv" if source_form == "csv" else "jsonl"


def read_once(path: str) -> bool:
    """Return whether a table can be read only once: standard input, or a pipe such as `<(zcat FILE)`."""
    return not isinstance(path, InMemory) and (path == STANDARD or is_device(Path(path)))


@contextmanager
def read_twice(source: str, form: str) -> Iterator[str]:
    """Return the path of a table that can be read twice: standard input and pipes are copied; errors name the source."""
    if not read_once(source):
        yield source
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"stdin.{form}"
        try:
            with (
                path.open("wb") as spool,
                standard_input() if source == STANDARD else Path(source).open("rb") as stream,
            ):
                shutil.copyfileobj(stream, spool)
        except OSError as error:
            raise cannot_write(path, error) from error
        try:
            yield str(path)
        except (DataError, UsageError) as error:
            raise type(error)(str(error).replace(str(path), source_name(source))) from error


def source_name(source: str) -> str:
    """Return a path, or the name of standard input in messages."""
    return "<stdin>" if source == STANDARD else source


def parse_number(text: str) -> float | None:
    """Return a number in ASCII digits such as `-1.5e3`; None for other text such as `1_0` and `nan`."""
    return float(text) if _NUMBER.fullmatch(text.strip(" \t")) else None


def meant_number(text: str) -> str:
    """Return what to give for a number with a comma, a percent sign or a unit, such as `; give 3.5`; else nothing."""
    percent = parse_number(text.removesuffix("%"))
    if percent and text.endswith("%"):
        return f"; give {percent / 100:g} for {percent:g} %"
    if with_unit := _WITH_UNIT.fullmatch(text.strip()):
        return f"; give {with_unit[1] or with_unit[2]}"
    # Three digits after a comma may be thousands.
    return f"; give {text.replace(',', '.')}" if _COMMA.fullmatch(text.strip()) else ""


def cell_of(fields: Mapping[str, object], column: str, default: Any = None) -> Any:
    """Return the value of a column or, for `scores.clarity` and `choices[0].text`, inside of it.

    None for null, `default` where there is nothing of that name or number.
    """
    if column in fields or not _INSIDE.search(column):
        return fields.get(column, default)
    value: Any = fields
    for step in _STEP.finditer(column):
        if value is None:
            return None
        key: Any = step[0] if step["place"] is None else int(step["place"])
        try:
            value = value[key] if isinstance(value, list if step["place"] else dict) else default
        except (KeyError, IndexError):
            return default
        if value is default:
            return default
    return value


def text_cell(fields: Mapping[str, object], column: str, default: Any = None) -> Any:
    """Return what `cell_of` does, and None for NaN, which Python's json writes for a missing text of pandas."""
    value = cell_of(fields, column, default)
    return None if isinstance(value, float) and math.isnan(value) else value


def refuse_judgments(where: str, columns: Sequence[str]) -> None:
    """Refuse a file of judgments in the place of scored rows, by the columns of its first line."""
    if {"schema", "recipe", "ladders"} <= set(columns):
        path = where.removesuffix(":1")
        rows = path.removesuffix(".judgments.jsonl")
        named = f", {rows}" if rows != path else ""
        raise DataError(f"{path}: a file of judgments; name the scored rows{named}")


def column_of(path: str) -> str:
    """Return the column that a path such as `choices[0].text` begins with."""
    return _INSIDE.split(path, maxsplit=1)[0]


def _without_column(row: Row, column: str) -> DataError:
    """Return the error for a row without this column of numbers, with the column that was probably meant."""
    names = list(map(str, row.fields))
    refuse_judgments(row.where, names)
    ends = [name for name in (f"{column}_grade", f"{column}_score") if name in names]
    meant = ends or [name for name in names if name.endswith(f"_{column}")]
    if meant:
        near = f"; did you mean {' or '.join(map(repr, meant))}?"
    elif column.endswith(_OF_SCORES) and not any(name.endswith(_OF_SCORES) for name in names):
        near = ", nor another column of scores; `refladder score` adds them."
    else:
        near = did_you_mean(column, names)
    return DataError(
        f"{row.where}: no column {column!r}{near} Columns: {', '.join(names) or 'none'}"
    )


def number_in(row: Row, column: str) -> float | None:
    """Return the number in a column of a row; None for null or an empty CSV cell."""
    if column not in row.fields:
        raise _without_column(row, column)
    value = number = row.fields[column]
    if type(value) is float and -MOST <= value <= MOST:
        return value
    if value is None or value == "":
        return None
    # A cell of CSV is text.
    if type(value) is str:
        number = parse_number(value)
    # NaN, infinity and numbers beyond the range of floats are refused.
    if type(number) not in (float, int) or not abs(number) <= sys.float_info.max:
        meant = meant_number(value) if type(value) is str else ""
        raise DataError(
            f"{row.where}: column {column!r} must be a finite number or empty, found {value!r:.60}{meant}"
        )
    if abs(number) > MOST:
        raise DataError(
            f"{row.where}: column {column!r} holds {value!r:.60}, and numbers beyond {MOST:g} have no squares to compute "
            "with; divide the column by a power of ten"
        )
    return float(number)


class Rows:
    """The rows of a table, in order; its columns are available before the first row.

    `style` is that of a CSV file, which an output of the same rows keeps.
    """

    def __init__(
        self,
        rows: Iterator[Row],
        header: Sequence[str] | None = None,
        style: CsvStyle = CsvStyle(),  # noqa: B008
    ) -> None:
        self._rows = self._source = rows
        self._header = header
        self.style = style

    def __iter__(self) -> Iterator[Row]:
        return self._rows

    def close(self) -> None:
        """Close the file, where not all rows were read."""
        if isinstance(self._source, Generator):
            self._source.close()

    def first(self) -> Row | None:
        """Return the first row, without consuming it; None if the table is empty."""
        row = next(self._rows, None)
        if row is not None:
            self._rows = itertools.chain([row], self._rows)
        return row

    def columns(self) -> list[str] | None:
        """Return the columns, from the header or the first row; None for JSON lines without a row."""
        if self._header is not None:
            return list(self._header)
        row = self.first()
        return None if row is None else list(row.fields)


def read_rows(path: str, given: str | None = None) -> Rows:
    """Read the rows of a table in order, a few thousand in memory; only the end may have blank lines."""
    if isinstance(path, InMemory):
        return path.read()
    form = format_of(path, given)
    first, *others = table_files(path)
    rows = _read_file(first, form)
    if others:
        rows = Rows(_chained(rows, others, form), rows.columns(), rows.style)
    return rows


def _read_file(path: str, form: str) -> Rows:
    if form == "parquet":
        return _read_parquet(path)
    if form == "eval":
        samples = read_samples(path)
        log = _samples(path, [Row(path, {})], lambda *_: samples)
        return Rows(log, list(samples[0]) if samples else [])
    name = source_name(path)
    opened = standard_input() if path == STANDARD else open_table(path)
    if form == "csv":
        return _read_csv(name, decoded_lines(opened, name))
    return Rows(_read_jsonl(name, decoded_lines(opened, name, "utf-8-sig")))


def _chained(rows: Rows, others: Sequence[str], form: str) -> Iterator[Row]:
    with closing(rows):
        yield from rows
    for path in others:
        with closing(_read_file(path, form)) as more:
            yield from more


def standard_input() -> IO[bytes]:
    """Return standard input, unpacked if it is a gzip stream."""
    if sys.stdin is None:
        raise UsageError("standard input is closed; name a file")
    given: Any = sys.stdin.buffer
    stream = given if isinstance(given, io.BufferedReader) else io.BufferedReader(given)
    if stream.peek(len(streams.GZIP))[: len(streams.GZIP)] == streams.GZIP:
        return streams.limited(stream, source_name(STANDARD), packed=True)
    return stream


def _samples(name: str, rows: Iterable[Row], read: _Read) -> Iterator[Row]:
    """Yield the samples of a log; after the last one, name those without an output, once in a process."""
    count, failed = 0, []
    for row in rows:
        for fields in read(row.where, row.fields):
            count += 1
            if fields["output"] is None:
                error = fields.get("error")
                reason = "" if error is None else f" ({' '.join(str(error).split()):.80})"
                failed.append(f"{name}:{count}{reason}")
            yield Row(f"{name}:{count}", fields)
    if failed:
        shown = ", ".join(failed[:_SHOWN]) + (", ..." if len(failed) > _SHOWN else "")
        _warn_once(
            f"{name}: {len(failed):,} of {plural(count, 'sample')} without an output: {shown}"
        )


@functools.cache
def _warn_once(text: str) -> None:
    LOG.warning("%s", text)


def _reader_of(fields: dict[str, Any]) -> _Read | None:
    """Return what reads the samples of a log, which its fields show; None for another table."""
    if is_sample(fields):
        return read_sample
    return read_results if is_results(fields) else None


def _whole_log(name: str, line: str, lines: Iterator[str], error: DataError) -> Row | None:
    """Return the log in a JSON file of many lines; for another file, None or an error that its first line explains."""
    where, start = f"{name}:1", line.strip()
    if any(mark in start for mark in _DELIMITERS) and start[0] not in "[{":
        raise _looks_like(where, "CSV", "csv") from error
    cut = getattr(error.__cause__, "pos", -1) >= len(start)
    if not (cut and start[0] in "[{" and (second := next(lines, None))):
        # To raise the error here would form a cycle with this frame.
        return None
    text, size = [line, second], 0
    for more in lines:
        text.append(more)
        size += len(more)
        if size > streams.LARGEST:
            break
    else:
        if start[0] == "{" and any('"results"' in each for each in text):
            expected = "each line must be one JSON object, or the file a log of promptfoo"
            fields = parse_json("".join(text), name, expected, whole_file=True)
            if is_results(fields):
                return Row(name, fields)
    raise DataError(
        f"{where}: a JSON value over several lines; {_one_object(name, start)}"
    ) from error


def _read_jsonl(name: str, lines: Iterator[str], start: int = 1) -> Iterator[Row]:
    blank = 0
    for number, line in enumerate(lines, start):
        where = f"{name}:{number}"
        try:
            fields = parse_json(line, where, "each line must be one JSON object")
        except DataError as error:
            if not line.strip():
                blank = blank or number
                continue
            log = _whole_log(name, line, lines, error) if number == 1 else None
            if log is None:
                raise
            yield from _samples(name, [log], read_results)
            return
        if type(fields) is not dict:
            kind = type(fields).__name__
            raise DataError(f"{where}: a JSON {kind}; {_one_object(name, line.strip())}")
        if blank:
            raise DataError(
                f"{name}:{blank}: a blank line between rows; each line must be one JSON object"
            )
        # Names of inner objects are counted too, and a text may have more.
        if len(_FIELD.findall(line)) > len(fields):
            check_names(line, where)
        row = Row(where, fields, line)
        if number == 1 and (read := _reader_of(fields)) is not None:
            others = _read_jsonl(name, lines, 2)
            yield from _samples(name, itertools.chain([row], others), read)
            return
        yield row


def _one_object(name: str, text: str) -> str:
    """Say what a line must be, and how to write a list or an object, of which `text` is the beginning, so."""
    advice = "each line must be one JSON object"
    if text.startswith(("[", "{")):
        items = "'.[]'" if text[0] == "[" else "."
        advice += f", as `jq -c {items} {name}` writes"
    return advice


def _looks_like(where: str, words: str, form: str) -> DataError:
    # Calls take the format from the file's name.
    more = either(f", or give --format {form}", "")
    return DataError(f"{where}: looks like {words}; name it .{form}{more}")


def _not_csv(name: str, start: int, reader: Any, error: csv.Error) -> DataError:
    """Return the error for CSV that cannot be read, in a row that begins in the line `start`."""
    if "unexpected end" in str(error):
        return DataError(
            f'{name}:{start}: a quotation mark opens in this row and is never closed; close it, or write "" for " in a cell'
        )
    return DataError(f"{name}:{reader.line_num}: not CSV ({error})")


def _read_csv(name: str, lines: Iterator[str]) -> Rows:
    # The default limit of 128 KiB per cell is too small for long articles.
    csv.field_size_limit(streams.LONGEST_LINE)
    start = next(lines, "")
    first = start.removeprefix(_MARK)
    style = CsvStyle(
        _delimiter_of(first),
        "\r\n" if first.endswith("\r\n") else "\n",
        start[: len(start) - len(first)],
    )
    reader = csv.reader(
        itertools.chain([first] if first else [], lines), delimiter=style.delimiter, strict=True
    )
    if re.match(r'\{\s*"[^"]*"\s*:', first):
        raise _looks_like(f"{name}:1", "JSON lines", "jsonl")
    try:
        header = next(reader, None)
    except csv.Error as error:
        raise _not_csv(name, 1, reader, error) from error
    if not header:
        problem = "an empty file" if header is None else "a blank line"
        raise DataError(f"{name}:1: {problem}; the first line of a CSV file names its columns")
    if len(header) == 1 and "|" in _bare(first):
        raise DataError(
            f"{name}:1: columns are separated by commas, semicolons or tabs; this header has '|'"
        )
    _check_names(f"{name}:1", header)
    return Rows(_csv_rows(name, reader, header), header, style)


def _check_names(where: str, names: Sequence[str]) -> None:
    """Check that columns have different names, since a row would keep only the last of two."""
    if len(set(names)) < len(names):
        repeated = next(name for name in names if names.count(name) > 1)
        raise DataError(f"{where}: column {repeated!r} appears twice; rename one")


def _delimiter_of(header: str) -> str:
    """Return the delimiter that occurs most often in a header, outside of quotes; a comma where there is none."""
    return max(_DELIMITERS, key=_bare(header).count)


def _bare(header: str) -> str:
    """Return a header without what is in quotes."""
    return re.sub(r'"[^"]*"', "", header)


def _csv_rows(name: str, reader: Any, header: list[str]) -> Iterator[Row]:
    start, blank = reader.line_num + 1, 0
    try:
        for cells in reader:
            # Only a blank line gives no cells.
            if not cells:
                blank = blank or start
            elif blank:
                raise DataError(f"{name}:{blank}: a blank line between rows; remove it")
            elif len(cells) != len(header):
                cause = "; a cell with a separator in it needs quotation marks"
                if any(cell.startswith(' "') for cell in cells):
                    cause = (
                        "; a quotation mark after a space begins no quoted cell; remove the space"
                    )
                raise DataError(
                    f"{name}:{start}: {plural(len(cells), 'cell')}, but the header names "
                    f"{plural(len(header), 'column')}{cause if len(cells) > len(header) else ''}"
                )
            else:
                yield Row(f"{name}:{start}", dict(zip(header, cells, strict=True)))
            start = reader.line_num + 1
    except csv.Error as error:
        raise _not_csv(name, start, reader, error) from error


def parquet_library() -> tuple[Any, Any]:
    """Return the modules pyarrow and pyarrow.parquet, which are an extra."""
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError as error:
        raise UsageError("Parquet needs pyarrow; pip install pyarrow") from error
    return pa, parquet


def _damaged(pa: Any) -> tuple[type[Exception], ...]:
    """Return the errors of pyarrow for an invalid file: text that is not UTF-8, times that Python cannot hold, ..."""
    return (pa.ArrowException, OSError, ValueError, OverflowError, RecursionError, MemoryError)


def _read_parquet(path: str) -> Rows:
    pa, _ = parquet_library()
    if path == STANDARD:
        raise UsageError("Parquet cannot be read from standard input; give the file's path")
    file = open_parquet(path)
    names = file.schema_arrow.names
    _check_names(path, names)
    return Rows(_parquet_rows(path, file, pa), names)


def open_parquet(path: str) -> Any:
    """Open a Parquet file or URL with pyarrow."""
    pa, parquet = parquet_library()
    try:
        file = parquet.ParquetFile(open_url(path) if is_url(path) else path)
        # Names are decoded here, so that bytes that are not text fail at the start.
        _ = file.schema_arrow.names
        groups = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
    except FileNotFoundError as error:
        raise DataError(f"{path}: no such file") from error
    except _damaged(pa) as error:
        raise DataError(f"{path}: not a Parquet file ({error})") from error
    limit = streams.LONGEST_LINE
    if any(group.total_byte_size > limit * max(1, group.num_rows) for group in groups):
        raise DataError(f"{path}: rows of more than {limit:,} bytes; shorten their texts")
    return file


def _parquet_rows(path: str, file: Any, pa: Any) -> Iterator[Row]:
    number = 0
    try:
        with file:
            for batch in file.iter_batches(batch_size=_BATCH):
                for fields in batch.to_pylist():
                    number += 1
                    yield Row(f"{path}:{number}", fields)
    except _damaged(pa) as error:
        raise DataError(
            f"{path}:{number + 1}: this Parquet file is damaged ({error}); download or copy it again"
        ) from error


class Write(Protocol):
    """A function that appends a row, with values for the added columns, to a sink."""

    def __call__(self, row: Row, values: Mapping[str, object] | None = None, /) -> None:
        """Append the row."""


@contextmanager
def open_sink(
    path: str,
    given: str | None,
    added: Mapping[str, type],
    columns: Sequence[str] | None = None,
    source: str | None = None,
    *,
    style: CsvStyle = CsvStyle(),  # noqa: B008
    escape_formulas: bool = False,
    record: Mapping[str, Any] | None = None,
) -> Iterator[Write]:
    """Open a file or standard output and give a function `write(row, values)` that appends a row.

    A file appears complete if the block ends without an error, otherwise not at all. `added` are the types of columns
    after the row's; `columns` make a header even without rows; `source` is the Parquet file whose column types are
    kept, and `style` that of the CSV file that is read; .tsv has tabs. A `record` of the run goes to `FILE.run.json`, and
    a file that another command wrote is then refused.
    """
    if isinstance(path, Collected):
        yield path.write
        return
    if is_url(path):
        raise UsageError(
            f"{path}: a file is written on this machine only; name a file here, and copy it to the URL"
        )
    refuse_folder(Path(path))
    form = format_of(path, given, output=True)
    if escape_formulas and form != "csv":
        raise UsageError(
            f"{path}: --escape-formulas works only with CSV, not {form}; remove it or write .csv"
        )
    if path == STANDARD and form == "parquet":
        raise UsageError(
            f"Parquet cannot be written to standard output; give {option('out')} FILE.parquet"
        )
    check_own(path, (record or {}).get("command"))
    check_options((record or {}).get("options"))
    with nullcontext(sys.stdout.buffer) if path == STANDARD else atomic(Path(path)) as stream:
        if form == "parquet":
            with _parquet_sink(path, stream, added, columns, source) as write:
                yield write
        elif form == "csv":
            if Path(path.removesuffix(".gz")).suffix.lower() == ".tsv":
                style = style._replace(delimiter="\t")
            yield _csv_writer(stream, added, columns, style, escaped if escape_formulas else _cell)
        else:
            # Parquet has dates and bytes, which become text in JSON.
            infinite: list[str] = []
            yield _json_writer(stream, added, _encode if source is None else _encode_all, infinite)
            if infinite:
                LOG.warning(
                    "%s: NaN and Infinity are written as null, as JSON has neither: %s, the first at %s",
                    path,
                    plural(len(infinite), "value"),
                    infinite[0],
                )
        if path == STANDARD:
            stream.flush()
        else:
            # The record is written before the file gets its name, so that a run that is killed here can be repeated.
            write_run(path, record)


def _check_added(row: Row, added: Mapping[str, type]) -> None:
    """Refuse a row that has one of the added columns already."""
    if not added.keys().isdisjoint(row.fields):
        column = min(row.fields.keys() & added.keys())
        raise UsageError(
            f"{row.where}: column {column!r} already exists; rename or remove it first"
        )


def _json_writer(
    stream: _Stream, added: Mapping[str, type], encode: Callable[[object], str], infinite: list[str]
) -> Write:
    """Write rows as JSON lines; `infinite` gets the place of each number that is written as null."""

    def write(row: Row, values: Mapping[str, object] | None = None, /) -> None:
        _check_added(row, added)
        if row.raw is not None and not ("NaN" in row.raw or "Infinity" in row.raw):
            if not values:
                stream.write((row.raw.removesuffix("\n") + "\n").encode())
                return
            head = row.raw.rstrip()[:-1].rstrip()
            comma = "," if row.fields else ""
            stream.write(
                f"{head}{comma}{_encode(values)[1:]}\n".encode("utf-8", "backslashreplace")
            )
            return
        fields = {**row.fields, **(values or {})}
        try:
            line = encode(fields)
        except ValueError:
            # JSON has neither NaN nor Infinity.
            for name, value in fields.items():
                fields[name] = _finite(value, f"{row.where}, column {name!r}", infinite)
            line = encode(fields)
        # Half a surrogate pair stays a JSON escape.
        stream.write(line.encode("utf-8", "backslashreplace") + b"\n")

    return write


def _finite(value: object, where: str, infinite: list[str]) -> object:
    """Return the value with None for each NaN and Infinity in it, whose place is added to `infinite`."""
    if isinstance(value, float) and not math.isfinite(value):
        infinite.append(where)
        return None
    if isinstance(value, dict):
        return {key: _finite(each, where, infinite) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each, where, infinite) for each in value]
    return value


def _csv_writer(
    stream: _Stream,
    added: Mapping[str, type],
    columns: Sequence[str] | None,
    style: CsvStyle,
    cell: Callable[[object], object],
) -> Write:
    text = io.StringIO(newline="")
    # With this line end, csv quotes a cell that holds either of its two characters.
    writer = csv.writer(text, delimiter=style.delimiter, lineterminator="\r\n")
    header = list(columns or ())
    text.write(style.mark)

    def put(where: str, cells: list[object]) -> None:
        writer.writerow(map(cell, cells))
        try:
            stream.write((text.getvalue()[:-2] + style.end).encode())
        except UnicodeEncodeError as error:
            raise DataError(
                f"{where}: half a surrogate pair, which is not valid in CSV; write .jsonl"
            ) from error
        text.seek(0)
        text.truncate()

    def write(row: Row, values: Mapping[str, object] | None = None, /) -> None:
        if not header:
            _check_added(row, added)
            header.extend(row.fields)
            put(row.where, [*header, *added])
        _same_columns(row, header)
        whole = {**row.fields, **dict.fromkeys(added), **(values or {})}
        put(row.where, [whole[name] for name in (*header, *added)])

    if columns is not None and (header or added):
        _check_added(Row("the header", dict.fromkeys(header)), added)
        put("the header", [*header, *added])
    return write


def _same_columns(row: Row, columns: list[str]) -> None:
    if list(row.fields) != columns and row.fields.keys() != set(columns):
        different = min(row.fields.keys() ^ set(columns))
        raise DataError(
            f"{row.where}: its columns differ from the first row's ({different}); write .jsonl, which allows that"
        )


def _cell(value: object) -> object:
    if value is None or isinstance(value, str | int | float):
        return value
    return json.dumps(value, ensure_ascii=False, default=str)


def escaped(value: object) -> object:
    """Return a CSV cell that no spreadsheet reads as a formula: `'` before = + - @, tab and return (OWASP)."""
    cell = _cell(value)
    if isinstance(cell, str) and cell.startswith(_FORMULA) and parse_number(cell) is None:
        return f"'{cell}"
    return cell


@contextmanager
def _parquet_sink(
    path: str,
    stream: _Stream,
    added: Mapping[str, type],
    columns: Sequence[str] | None,
    source: str | None,
) -> Iterator[Write]:
    pa, parquet = parquet_library()
    types = {float: pa.float64(), str: pa.string()}
    buffer: list[dict[str, object]] = []
    header = list(columns or ())
    writer: Any = None

    def flush() -> None:
        nonlocal writer
        with fitting(path, "write .jsonl"):
            if writer is None:
                if isinstance(source, InMemory):
                    fields = source.schema()
                elif source:
                    with open_parquet(table_files(source)[0]) as file:
                        fields = file.schema_arrow
                else:
                    rows = [{name: row[name] for name in header} for row in buffer]
                    fields = arrow_schema(rows, header)
                new = [pa.field(name, types[kind]) for name, kind in added.items()]
                writer = parquet.ParquetWriter(stream, pa.schema([*fields, *new]))
            writer.write_table(pa.Table.from_pylist(buffer, schema=writer.schema))
        buffer.clear()

    def write(row: Row, values: Mapping[str, object] | None = None, /) -> None:
        if not header:
            header.extend(row.fields)
        _check_added(row, added)
        _same_columns(row, header)
        buffer.append({**row.fields, **(values or {})})
        if len(buffer) >= _BATCH:
            flush()

    yield write
    flush()
    writer.close()


def arrow_schema(rows: Sequence[Mapping[str, object]], columns: Iterable[str]) -> Any:
    """Return the Arrow schema of columns with the types of the rows; text for columns without a value."""
    pa, _ = parquet_library()
    schema = pa.Table.from_pylist(rows).schema
    found = {field.name: field.type for field in schema if not pa.types.is_null(field.type)}
    return pa.schema([(name, found.get(name, "string")) for name in columns])


@contextmanager
def fitting(where: str, advice: str) -> Iterator[None]:
    """Turn the errors of Arrow about rows that do not fit one table into one sentence."""
    pa, _ = parquet_library()
    try:
        yield
    except (pa.ArrowException, OverflowError, UnicodeEncodeError) as error:
        raise DataError(
            f"{where}: the rows do not fit one Parquet table ({error}); {advice}"
        ) from error
