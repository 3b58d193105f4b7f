"""Streams of bytes with limits, and files at a URL (`s3://`, `gs://`, `hf://`, ...) through fsspec, an optional package.

A row of .3 GB or a small file that unpacks to terabytes is an error with its place, not the end of the memory.
"""

from __future__ import annotations

import gzip
import io
import re
import sys
import zlib
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib import import_module
from typing import IO, TYPE_CHECKING, Any

from refladder.errors import DataError, RefladderError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

# The first bytes of a gzip stream.
GZIP = b"\x1f\x8b"
# Bytes of a line, and characters of a CSV cell.
LONGEST_LINE = 64 << 20
# Most blank lines in a row; a small gzip file may hold a billion.
BLANK_LINES = 10_000
# Unpacked bytes for each packed one; texts have about 5, a gzip bomb about 1,000.
UNPACKED_RATIO = 200
# Bytes that any file may unpack to.
ALWAYS_UNPACKED = 64 << 20
# Bytes of a gzip file or a device that is read as a whole.
LARGEST = 1 << 30
_BLOCK = 1 << 17
_DAMAGE = EOFError, OSError, zlib.error


def lines_of(stream: IO[bytes], name: str) -> Iterator[bytes]:
    """Yield the lines of an open file, with their ends, and close it."""
    number = blank = 0
    try:
        with stream:
            for number, line in enumerate(
                iter(partial(stream.readline, LONGEST_LINE + 1), b""), start=1
            ):
                check_line(line, name, number)
                blank = blank + 1 if line.isspace() else 0
                if blank > BLANK_LINES:
                    raise DataError(
                        f"{name}:{number}: more than {BLANK_LINES:,} blank lines in a row; remove them"
                    )
                yield line
    except _DAMAGE as error:
        raise _damaged(f"{name}:{number + 1}", error) from error


@contextmanager
def damage(where: str) -> Iterator[None]:
    """Turn the errors of reading a damaged stream into one sentence with its place."""
    try:
        yield
    except _DAMAGE as error:
        raise _damaged(where, error) from error


def _damaged(where: str, error: Exception) -> DataError:
    return DataError(
        f"{where}: the stream is damaged or incomplete ({error}); download or copy it again"
    )


def check_line(line: bytes, name: str, number: int) -> None:
    """Refuse a line that `readline(LONGEST_LINE + 1)` cut off."""
    if len(line) > LONGEST_LINE:
        raise DataError(
            f"{name}:{number}: a line of more than {LONGEST_LINE:,} bytes; write each row as "
            "a line of its own, or shorten its texts"
        )


def limited(stream: IO[bytes], name: str, *, packed: bool, whole: bool = False) -> IO[bytes]:
    """Return a buffered stream that gives no more than its limit; closing it closes the inner stream."""
    return io.BufferedReader(_Limited(stream, name, packed=packed, whole=whole), _BLOCK)


class _Counted:
    """A stream that counts the bytes read from it."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self.count = 0

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(size)
        self.count += len(data)
        return data

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _Limited(io.RawIOBase):
    """A stream that gives no more than its limit, see `limited`."""

    def __init__(self, stream: IO[bytes], name: str, *, packed: bool, whole: bool) -> None:
        self._source: Any = _Counted(stream)
        self._stream: Any = gzip.GzipFile(fileobj=self._source, mode="rb") if packed else stream
        self._name, self._packed, self._whole = name, packed, whole
        self._size = 0

    def readinto(self, buffer: Any, /) -> int:
        data = getattr(self._stream, "read1", self._stream.read)(len(buffer))
        buffer[: len(data)] = data
        self._size += len(data)
        if self._whole and self._size > LARGEST:
            raise DataError(
                f"{self._name}: more than {LARGEST:,} bytes, the most that is read as a whole; name a smaller file"
            )
        if (
            self._packed
            and not self._whole
            and self._size > max(ALWAYS_UNPACKED, UNPACKED_RATIO * self._source.count)
        ):
            raise DataError(
                f"{self._name}: unpacks to more than {UNPACKED_RATIO} times its size; if that is right, unpack it "
                "yourself and name the unpacked file"
            )
        return len(data)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return bool(self._stream.seekable())

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        return int(self._stream.seek(offset, whence))

    def tell(self) -> int:
        return int(self._stream.tell())

    def close(self) -> None:
        super().close()
        self._stream.close()
        # GzipFile leaves the packed file open.
        self._source.close()


def is_url(path: str) -> bool:
    """Return whether a path is a URL, not a path on this machine."""
    return "://" in path


@contextmanager
def quiet(hub: Any) -> Iterator[None]:
    """Hide the progress bars of huggingface_hub if standard error is not a terminal."""
    if sys.stderr.isatty() or hub.utils.are_progress_bars_disabled():
        yield
        return
    hub.utils.disable_progress_bars()
    try:
        yield
    finally:
        hub.utils.enable_progress_bars()


@contextmanager
def reaching(url: str) -> Iterator[None]:
    """Turn the errors of fsspec and of the packages behind it into one sentence with the URL."""
    try:
        with ExitStack() as stack:
            if url.startswith("hf://"):
                stack.enter_context(quiet(import_module("huggingface_hub")))
            yield
    except RefladderError:
        raise
    except ImportError as error:
        raise UsageError(
            f"{url}: needs another package ({error}); pip install fsspec, and s3fs for s3://"
        ) from error
    except FileNotFoundError as error:
        raise DataError(f"{url}: no such file or folder") from error
    except Exception as error:
        # Each package behind fsspec has errors of its own.
        words = " ".join(str(error).split()) or type(error).__name__
        raise DataError(
            f"{url}: cannot be read or written ({words}); check the address and the credentials"
        ) from error


def filesystem(url: str) -> tuple[Any, str]:
    """Return the fsspec file system of a URL and the path in it."""
    # Any part of a chain of URLs may hold one.
    if re.search(r"://[^/?#]*:[^/?#]*@", url):
        raise UsageError(
            f"{url.partition('://')[0]}://: the URL contains a password, and URLs are written to files; set the "
            "credentials in the environment"
        )
    with reaching(url):
        from fsspec.core import url_to_fs

        system, path = url_to_fs(url)
        # A cached listing may be older than the files of another process.
        system.invalidate_cache()
        return system, path


def open_url(url: str) -> IO[bytes]:
    """Open a file at a URL for reading; gzip is detected by its first two bytes and unpacked."""
    system, path = filesystem(url)
    with reaching(url):
        stream = system.open(path, "rb")
        packed = stream.read(len(GZIP)) == GZIP
        stream.seek(0)
    # The stream is buffered, because some packages cannot read a part of a line.
    return limited(stream, url, packed=packed)


def list_urls(url: str) -> list[str]:
    """Return the files directly in a folder (none if it does not exist), or those that match a glob, as URLs."""
    system, path = filesystem(url)
    with reaching(url):
        if any(character in path for character in "*?["):
            paths = system.glob(path)
        else:
            entries = system.ls(path, detail=True) if system.isdir(path) else []
            paths = [entry["name"] for entry in entries if entry["type"] == "file"]
        return [system.unstrip_protocol(name) for name in paths]


def stamp_of(url: str) -> str:
    """Return size and checksum (the server's, or from its time) of a file at a URL; they change with the file."""
    system, path = filesystem(url)
    with reaching(url):
        return f"{system.info(path)['size']}-{system.checksum(path)}"
