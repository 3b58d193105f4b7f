"""Records as JSON lines: strict, with a schema number, unknown keys refused, written atomically.

A line starts with its schema: `{"schema":"ladder/1", ...}`. Reading refuses another schema, an unknown or missing key,
a wrong type, NaN and infinity, and says path:line.
"""

from __future__ import annotations

import gzip
import json
import os
import zlib
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any, TypeVar, cast

from refladder.errors import DataError
from refladder.records import (
    Context,
    Dimension,
    Generated,
    Judgment,
    Ladder,
    LadderFailure,
    Output,
    Rating,
    Recipe,
    Run,
    Score,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from pydantic import TypeAdapter

T = TypeVar("T")

SCHEMAS: dict[type, str] = {
    Context: "context/1",
    Dimension: "dimension/1",
    Generated: "generated/1",
    Judgment: "judgment/1",
    Ladder: "ladder/1",
    LadderFailure: "ladder-failure/1",
    Output: "output/1",
    Rating: "rating/1",
    Recipe: "recipe/1",
    Run: "run/1",
    Score: "score/1",
}


_ADAPTERS: dict[type, TypeAdapter[Any]] = {}


def _adapter(kind: type) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter  # noqa: PLC0415  50 ms that `import refladder` does not need

    if kind not in _ADAPTERS:
        _ADAPTERS[kind] = TypeAdapter(kind)
    return _ADAPTERS[kind]


def open_bytes(path: Path) -> IO[bytes]:
    """Open a file for reading, unpacking gzip when its first two bytes say so, whatever its name is.

    Raises:
        DataError: the file is missing, is a folder, or may not be read.
    """
    try:
        stream = path.open("rb")
        packed = stream.read(2) == b"\x1f\x8b"
        stream.seek(0)
    except FileNotFoundError as error:
        raise DataError(f"{path}: no such file") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from error
    if not packed:
        return stream
    stream.close()  # closing a gzip stream leaves a stream it was given open
    return gzip.open(path)  # type: ignore[return-value]


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Lines of a text file (plain or gzip) with their numbers from 1, without their line ends.

    Raises:
        DataError: the file cannot be read, is a truncated gzip, or is not UTF-8; the text says at which line.
    """
    number = 0
    with open_bytes(path) as stream:
        try:
            for number, line in enumerate(stream, start=1):
                yield number, line.decode("utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise DataError(
                f"{path}:{number}: not UTF-8 (byte {error.object[error.start]:#04x} at position {error.start}); "
                "convert the file to UTF-8"
            ) from error
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise DataError(
                f"{path}:{number + 1}: the gzip stream is damaged or cut off; fetch the file again"
            ) from error


def read_bytes(path: Path) -> bytes:
    """A whole file, unpacked if it is gzip.

    Raises:
        DataError: the file cannot be read or is a damaged gzip.
    """
    with open_bytes(path) as stream:
        try:
            return stream.read()
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise DataError(f"{path}: the gzip stream is damaged or cut off; fetch the file again") from error


def to_line(record: object) -> bytes:
    """One record as a JSON line with its schema, ending in a newline."""
    kind = type(record)
    body = _adapter(kind).dump_json(record)
    return b'{"schema":"%s",%s\n' % (SCHEMAS[kind].encode(), body[1:])


def from_line(kind: type[T], line: str, where: str) -> T:
    """Read one record strictly.

    Args:
        kind: the record type.
        line: one JSON line.
        where: path:line, for the error.

    Raises:
        DataError: not JSON, another schema, or a field that is missing, unknown or of the wrong type.
    """
    from pydantic import ValidationError  # noqa: PLC0415  as above

    schema = SCHEMAS[kind]
    head = f'{{"schema":"{schema}",'
    if line.startswith(head):
        body = "{" + line[len(head) :]
    else:  # another spelling of the same JSON, or another kind of file
        try:
            fields = json.loads(line)
        except ValueError as error:
            raise DataError(f"{where}: not JSON ({error})") from error
        found = fields.pop("schema", None) if isinstance(fields, dict) else None
        if found != schema:
            raise DataError(f'{where}: expected a line with "schema": "{schema}", found {found!r}')
        body = json.dumps(fields)
    try:
        return cast("T", _adapter(kind).validate_json(body, strict=True, extra="forbid"))
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        found = "" if first["type"] in {"missing", "unexpected_keyword_argument"} else f", found {first['input']!r:.80}"
        raise DataError(f"{where}: {schema} field {place!r}: {first['msg']}{found}") from error


def read_records(kind: type[T], path: Path) -> Iterator[T]:
    """Every record of a JSON lines file (plain or gzip), in order; blank lines are refused.

    Raises:
        DataError: with path:line.
    """
    for number, line in read_lines(path):
        yield from_line(kind, line, f"{path}:{number}")


@contextmanager
def atomic(path: Path) -> Iterator[IO[bytes]]:
    """Write a file so that it appears whole or not at all: a hidden sibling, flushed to disk, then renamed.

    Raises:
        DataError: the folder cannot be written, or the disk is full; nothing is left behind.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        partial.replace(path)
    except OSError as error:
        raise cannot_write(path, error) from error
    finally:
        partial.unlink(missing_ok=True)


def cannot_write(path: Path, error: OSError) -> DataError:
    """The error to raise when a write failed; says which file and why."""
    return DataError(f"{path}: cannot be written ({error.strerror or error}); free space or choose another place")


def write_records(path: Path, records: Iterable[object]) -> int:
    """Write records as JSON lines, atomically; returns how many.

    Raises:
        DataError: the folder cannot be written, or the disk is full.
    """
    count = 0
    with atomic(path) as stream:
        for record in records:
            stream.write(to_line(record))
            count += 1
    return count


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Write one JSON object, indented, atomically."""
    with atomic(path) as stream:
        stream.write(json.dumps(value, indent=2, ensure_ascii=False).encode() + b"\n")
