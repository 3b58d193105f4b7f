"""Records as JSON lines: strict, with a schema number, written atomically.

A line starts with its schema: `{"schema":"ladder/1", ...}`. Another schema, an unknown or missing key, a wrong type,
NaN and infinity are errors with path:line.
"""

from __future__ import annotations

import glob
import io
import json
import logging
import os
from collections import deque
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

from refladder.errors import DataError, UsageError
from refladder.files.locks import cannot_write, has_ended, make_folder, refuse_folder, try_lock
from refladder.files.streams import GZIP, damage, limited, lines_of
from refladder.parsing import adapter, parse_as, parse_json
from refladder.records import OLDER, SCHEMAS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

T = TypeVar("T")
LOG = logging.getLogger("refladder")
# A file in another encoding is most often of Windows.
TO_UTF8 = "save it as UTF-8 (in Excel: CSV UTF-8), or run `iconv -f CP1252 -t UTF-8 FILE > NEW`"
# How a file in UTF-16 begins, such as Excel's "Unicode text".
_UTF16 = b"\xff\xfe", b"\xfe\xff"
# How .xlsx, .ods and .xls begin.
_SPREADSHEETS = b"PK\x03\x04", b"\xd0\xcf\x11\xe0"


def open_bytes(path: Path, *, whole: bool = False) -> IO[bytes]:
    """Open a file for reading; gzip is detected by its first two bytes and unpacked, with the limits of `streams`."""
    with _opening(path):
        stream = path.open("rb")
        # A pipe cannot seek back.
        packed = stream.peek(len(GZIP))[: len(GZIP)] == GZIP
    if packed or (whole and is_device(path)):
        return limited(stream, str(path), packed=packed, whole=whole)
    return stream


@contextmanager
def _opening(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise DataError(f"{path}: no such file") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from error
    except ValueError as error:
        # The path holds a NUL character, which is invalid.
        raise DataError(f"{str(path)!r}: cannot be read ({error}); name another file") from error


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a text file (plain or gzip), numbered from 1, without line ends."""
    return numbered_lines(open_bytes(path), str(path))


def numbered_lines(opened: IO[bytes], path: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of an open text file, as `read_lines` does, and close it."""
    for number, line in enumerate(decoded_lines(opened, path), start=1):
        yield number, line.rstrip("\r\n")


def decoded_lines(opened: IO[bytes], path: str, encoding: str = "utf-8") -> Iterator[str]:
    """Yield the lines of an open text file with their ends, and close it; `encoding` is that of the first line."""
    for number, line in enumerate(lines_of(opened, path), start=1):
        try:
            yield line.decode(encoding if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise not_utf8(f"{path}:{number}", error) from error


def not_utf8(where: str, error: UnicodeDecodeError, advice: str = TO_UTF8) -> DataError:
    """Return the error for a line that is not UTF-8."""
    byte = error.object[error.start]
    if error.object.startswith(_SPREADSHEETS):
        advice = "it holds a spreadsheet; save it as CSV"
    elif error.object.startswith(_UTF16):
        advice = f"it is in UTF-16; {TO_UTF8.replace('CP1252', 'UTF-16')}"
    return DataError(f"{where}: not UTF-8 (byte {byte:#04x} at position {error.start}); {advice}")


def read_bytes(path: Path) -> bytes:
    """Read a whole file, unpacked if it is gzip."""
    with open_bytes(path, whole=True) as stream, damage(str(path)):
        return stream.read()


def to_line(record: object) -> bytes:
    """Format a record as a JSON line with its schema and a newline."""
    kind = type(record)
    body = adapter(kind).dump_json(record)
    return b'{"schema":"%s",%s\n' % (SCHEMAS[kind].encode(), body[1:])


def from_line(kind: type[T], line: str, where: str) -> T:
    """Read one record strictly."""
    schema = SCHEMAS[kind]
    head = f'{{"schema":"{schema}",'
    if line.startswith(head):
        body = "{" + line[len(head) :]
    else:
        # This is JSON with other spaces or key order, or another kind of file.
        fields = parse_json(line, where)
        other = fields.pop("schema", None) if isinstance(fields, dict) else None
        if isinstance(other, str) and (renew := OLDER[kind].get(other)):
            fields, other = renew(fields), schema
        if (
            isinstance(other, str)
            and other != schema
            and other.split("/")[0] == schema.split("/")[0]
        ):
            raise DataError(
                f"{where}: {other}, of another version of refladder; this one reads {schema}, so make the file again"
            )
        if other != schema:
            raise DataError(f'{where}: expected a line with "schema": "{schema}", found {other!r}')
        body = json.dumps(fields)
    return parse_as(kind, body, where, schema)


def from_lines(kind: type[T], lines: Sequence[tuple[str, str]]) -> list[T]:
    """Read many records strictly: same result as `from_line` for each, in about half the time."""
    head = f'{{"schema":"{SCHEMAS[kind]}",'
    if all(line.startswith(head) for _, line in lines):
        # A line that is not exactly one object makes the array invalid or changes its length.
        body = "[" + ",".join(["{" + line[len(head) :] for _, line in lines]) + "]"
        with suppress(ValueError):
            records: list[T] = adapter(list[kind]).validate_json(body, strict=True, extra="forbid")  # type: ignore[valid-type]
            if len(records) == len(lines):
                return records
    return [from_line(kind, line, where) for where, line in lines]


def read_records(kind: type[T], path: Path) -> Iterator[T]:
    """Yield all records of a JSON lines file (plain or gzip), in order; blank lines are errors."""
    for number, line in read_lines(path):
        yield from_line(kind, line, f"{path}:{number}")


def is_device(path: Path) -> bool:
    """Return whether a path exists and is neither a file nor a folder: a pipe, `/dev/null`."""
    return path.exists() and not path.is_file() and not path.is_dir()


def refuse_pipe(path: Path) -> None:
    """Check that a file to read and then append to is not a pipe: opening a pipe waits for another process."""
    if is_device(path) and not path.is_char_device():
        raise UsageError(
            f"{path}: a pipe; name a regular file, because it is read again and extended"
        )


class Writer:
    """A binary stream whose write errors name the file and the reason."""

    # pyarrow reads this attribute.
    closed = False

    def __init__(self, stream: IO[bytes], name: str | Path) -> None:
        self._stream = stream
        self._name = name

    def write(self, data: bytes, /) -> int:
        """Write bytes."""
        try:
            return self._stream.write(data)
        except OSError as error:
            raise cannot_write(self._name, error) from error

    def flush(self) -> None:
        """Write buffered bytes; raises as `write` does."""
        with writing(self._name):
            self._stream.flush()


@contextmanager
def atomic(path: Path, *, private: bool = False) -> Iterator[Writer]:
    """Write a file that appears complete or not at all: a hidden sibling, flushed, then renamed; devices directly.

    A `private` file can be read by its owner only.
    """
    refuse_folder(path)
    # Renaming a file over a device would destroy the device.
    direct = is_device(path)
    # A link to a pipe leads to no path.
    if path.is_symlink() and not direct:
        path = Path(os.path.realpath(path))
    partial = path
    if not direct:
        partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
        _remove_leftovers(path)
    mode = 0o600 if private else 0o666
    with writing(path):
        make_folder(path.parent)
        raw = io.FileIO(partial, "w", opener=lambda name, flags: os.open(name, flags, mode))
    try:
        if not direct:
            # The lock shows other machines that this file is being written.
            try_lock(raw.fileno())
        stream = io.BufferedWriter(raw)
        yield Writer(stream, path)
        with writing(path):
            stream.flush()
            if not direct:
                os.fsync(raw.fileno())
                raw.close()
                partial.replace(path)
    finally:
        # The file is closed before its buffer, which would be written again.
        raw.close()
        if not direct:
            with suppress(OSError):
                partial.unlink(missing_ok=True)


def _remove_leftovers(path: Path) -> None:
    """Remove partial files of a path whose processes ended without cleaning up, for example after `kill -9`."""
    begins, ends = f".{path.name}.", ".partial"
    for partial in path.parent.glob(f"{glob.escape(begins)}*{ends}"):
        process = partial.name[len(begins) : -len(ends)]
        if not (process.isascii() and process.isdecimal() and has_ended(int(process))):
            continue
        # The file may have been removed, or belong to another user.
        with suppress(OSError), partial.open("rb") as leftover:
            # A locked file belongs to a process on another machine.
            if try_lock(leftover.fileno()) is not False:
                partial.unlink()


@contextmanager
def writing(path: str | Path) -> Iterator[None]:
    """Turn the errors of the system about a file that is written into one sentence with its name."""
    try:
        yield
    except OSError as error:
        raise cannot_write(path, error) from error


def throw_away(path: Path) -> None:
    """Remove a file if it exists."""
    # Creating the folder reports the error.
    with writing(path), suppress(NotADirectoryError):
        path.unlink(missing_ok=True)


def write_records(path: Path, records: Iterable[object]) -> int:
    """Write records as JSON lines, atomically, and return their number."""
    count = 0
    with atomic(path) as stream:
        for record in records:
            stream.write(to_line(record))
            count += 1
    return count


def append_records(path: Path, records: Iterable[object]) -> None:
    """Put records as JSON lines at the end of a file, which is made if needed; see `append_lines`."""
    append_lines(path, map(to_line, records))


def append_lines(path: Path, lines: Iterable[bytes]) -> None:
    """Put lines, each with its newline, at the end of a file, made if needed; on the disk when this returns."""
    with writing(path):
        make_folder(path.parent)
        with path.open("ab") as stream:
            mend_end(path, stream)
            stream.write(b"".join(lines))
            stream.flush()
            # /dev/null has no disk.
            if not is_device(path):
                os.fsync(stream.fileno())


def is_torn(line: bytes) -> bool:
    """Return whether an interrupted write left a last line without a newline; complete JSON is not torn."""
    try:
        return not line.endswith(b"\n") and parse_json(line, "") is None
    except DataError:
        return True


def mend_end(path: Path, stream: IO[bytes]) -> None:
    """Prepare a file for appending: remove a torn last line, or end a line without a newline."""
    # A pipe and an empty file have no last line.
    if not (stream.seekable() and stream.tell()):
        return
    with path.open("rb") as reader:
        reader.seek(-1, os.SEEK_END)
        if reader.read() == b"\n":
            return
        reader.seek(0)
        last = deque(reader, maxlen=1)[0]
    if is_torn(last):
        os.truncate(stream.fileno(), stream.tell() - len(last))
    else:
        stream.write(b"\n")


def read_appended(path: Path) -> list[tuple[str, str]]:
    """Return the lines of `append_lines`, each with its path:line; an incomplete last one is skipped with a warning."""
    if not within(path).exists():
        return []
    refuse_pipe(path)
    with _opening(path), path.open("rb") as stream:
        lines = list(stream)
    places = [(f"{path}:{number}", line) for number, line in enumerate(lines, start=1)]
    if lines and is_torn(lines[-1]):
        LOG.warning(
            "%s: an incomplete line, which an interrupted write left, is skipped; the next write removes it",
            places.pop()[0],
        )
    return [(where, appended_text(line, where).rstrip("\n")) for where, line in places]


def within(path: Path) -> Path:
    """Return a path in a folder, unless it is a link that leads out of the folder: others may have made the folder."""
    real, folder = os.path.realpath(path), os.path.realpath(path.parent)
    if path.is_symlink() and not Path(real).is_relative_to(folder):
        raise DataError(
            f"{path}: a link to {real}, which is not in {path.parent}; copy the file there"
        )
    return path


def appended_text(line: bytes, where: str) -> str:
    """Return the text of a line that `append_lines` or a judgments file wrote."""
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise not_utf8(where, error, "correct the line, or delete the file") from error


def is_unicode(text: str) -> bool:
    """Return whether a text has no half surrogate pairs, which JSON escapes can hold and UTF-8 cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_name(name: str, holders: str) -> None:
    """Check that a name that records hold is Unicode; names of files and folders may be any bytes."""
    if not is_unicode(name):
        raise UsageError(
            f"{name}: the name is not UTF-8, and {holders} hold it; rename the file or folder"
        )


def to_json(value: object, indent: int | None = None) -> bytes:
    """Format a value as JSON in UTF-8; half a surrogate pair, which is not valid UTF-8, stays a JSON escape."""
    return json.dumps(value, indent=indent, ensure_ascii=False).encode("utf-8", "backslashreplace")


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Write one JSON object, indented, atomically."""
    with atomic(path) as stream:
        stream.write(to_json(value, indent=2) + b"\n")


def write_record(path: Path, record: object) -> None:
    """Write a file that holds one record, atomically."""
    write_records(path, [record])


def read_record(kind: type[T], path: Path) -> T:
    """Read a file that holds one record, strictly."""
    try:
        text = read_bytes(path).decode("utf-8-sig").strip()
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8; name a file that refladder wrote") from error
    if not text or "\n{" in text:
        found = "several lines" if text else "empty"
        raise DataError(f'{path}: {found}; expected one record with "schema": "{SCHEMAS[kind]}"')
    return from_line(kind, text, str(path))
