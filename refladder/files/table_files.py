"""The files of a table: a file, the tables in a folder, the matches of a glob, on this machine or at a URL."""

from __future__ import annotations

import glob
from pathlib import Path
from typing import IO

from refladder.errors import DataError
from refladder.files.jsonl import open_bytes
from refladder.files.remote import is_url, list_urls, open_url
from refladder.files.scored_shards import finished_files

FORM_OF_EXTENSION = {".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl", ".csv": "csv", ".parquet": "parquet"}


def form_by_name(path: str) -> str | None:
    """The format of a file by its extension, ignoring a final `.gz`; None if it has none of a table."""
    return FORM_OF_EXTENSION.get(Path(path.removesuffix(".gz")).suffix.lower())


def _is_glob(path: str) -> bool:
    return any(character in path for character in "*?[") and (is_url(path) or not Path(path).exists())


def is_many(path: str) -> bool:
    """Whether a path is a folder or a glob; a URL without an extension of a table is a folder."""
    return _is_glob(path) or (form_by_name(path) is None if is_url(path) else Path(path).is_dir())


def table_files(path: str) -> list[str]:
    """The files of a table, sorted: a file by itself, the tables directly in a folder, or the matches of a glob."""
    return list(digests_by_file(path))


def digests_by_file(path: str) -> dict[str, str | None]:
    """The `table_files` with the digests that they must have, see `finished_files`."""
    if not is_many(path):
        return {path: None}
    if is_url(path):
        files = list_urls(path)
    elif _is_glob(path):
        matches = glob.glob(path, recursive=True)  # noqa: PTH207  Path.glob takes no absolute pattern
        files = [file for file in matches if Path(file).is_file()]
    else:
        files = [str(file) for file in Path(path).iterdir() if file.is_file()]
    files = sorted(file for file in files if not Path(file).name.startswith("."))
    if _is_glob(path):
        digests: dict[str, str | None] = dict.fromkeys(files)
    else:
        digests = finished_files(path, [file for file in files if form_by_name(file)])
    if not digests:
        raise DataError(f"{path}: no .jsonl, .csv or .parquet file there; name a file, a folder or a quoted glob")
    return digests


def open_table(path: str) -> IO[bytes]:
    """Open a file or URL for reading; gzip is unpacked."""
    return open_url(path) if is_url(path) else open_bytes(Path(path))
