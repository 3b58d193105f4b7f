"""The files of a table: a file, the tables in a folder, the matches of a glob, on this machine or at a URL."""

from __future__ import annotations

import glob
from pathlib import Path
from typing import IO

from refladder.errors import DataError
from refladder.files.folders import open_folder
from refladder.files.jsonl import open_bytes
from refladder.files.remote import is_url, list_urls, open_url
from refladder.files.scored_folders import finished_files

FORM_OF_EXTENSION = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".csv": "csv",
    ".parquet": "parquet",
}


def form_by_name(path: str) -> str | None:
    """Return the format of a file by its extension, ignoring a final `.gz`; None if it is no table."""
    return FORM_OF_EXTENSION.get(Path(path.removesuffix(".gz")).suffix.lower())


def is_glob(path: str) -> bool:
    """Return whether a path has wildcards; a path that exists has none."""
    return any(character in path for character in "*?[") and (
        is_url(path) or not Path(path).exists()
    )


def is_many(path: str) -> bool:
    """Return whether a path is a folder or a glob; a URL without an extension of a table is a folder."""
    return is_glob(path) or (form_by_name(path) is None if is_url(path) else Path(path).is_dir())


def table_files(path: str) -> list[str]:
    """Return the files of a table: itself, those of a folder (or of its run), or the matches of a glob."""
    if not is_many(path):
        return [path]
    if is_glob(path):
        # Path.glob takes no absolute pattern.
        matches = list_urls(path) if is_url(path) else glob.glob(path, recursive=True)  # noqa: PTH207
        files = [file for file in matches if is_url(path) or Path(file).is_file()]
    elif (scored := finished_files(path)) is not None:
        return [open_folder(path).path_of(file.name) for file in scored]
    else:
        found = (
            list_urls(path)
            if is_url(path)
            else [str(file) for file in Path(path).iterdir() if file.is_file()]
        )
        files = list(filter(form_by_name, found))
    files = sorted(file for file in files if not Path(file).name.startswith("."))
    if not files:
        raise DataError(
            f"{path}: no .jsonl, .csv or .parquet file there; name a file, a folder or a quoted glob"
        )
    return files


def open_table(path: str) -> IO[bytes]:
    """Open a file or URL for reading; gzip is unpacked."""
    return open_url(path) if is_url(path) else open_bytes(Path(path))
