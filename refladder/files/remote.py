"""Files at a URL (`s3://`, `gs://`, `hf://`, ...) through fsspec, an optional package."""

from __future__ import annotations

import re
import sys
from contextlib import contextmanager, nullcontext
from importlib import import_module
from typing import IO, TYPE_CHECKING, Any

from refladder.errors import DataError, RefladderError, UsageError
from refladder.files.streams import GZIP, limited

if TYPE_CHECKING:
    from collections.abc import Iterator


def is_url(path: str) -> bool:
    """Return whether a path is a URL, not a path on this machine."""
    return "://" in path


@contextmanager
def quiet(hub: Any) -> Iterator[None]:
    """Hide the progress bars of huggingface_hub if standard error is no terminal."""
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
        with quiet(import_module("huggingface_hub")) if url.startswith("hf://") else nullcontext():
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
        # A listing may be of before another process wrote.
        system.invalidate_cache()
        return system, path


def open_url(url: str) -> IO[bytes]:
    """Open a file at a URL for reading; gzip is detected by its first two bytes and unpacked."""
    system, path = filesystem(url)
    with reaching(url):
        stream = system.open(path, "rb")
        packed = stream.read(len(GZIP)) == GZIP
        stream.seek(0)
    # Buffered, as some packages read no part of a line.
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
