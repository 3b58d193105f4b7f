"""The files of a table: a file, the tables in a folder, the matches of a glob, on this machine or at a URL."""

from __future__ import annotations

import glob
from pathlib import Path
from typing import IO, NamedTuple

from refladder.errors import DataError
from refladder.files.folders import open_folder
from refladder.files.jsonl import open_bytes
from refladder.files.remote import is_url, list_urls, open_url
from refladder.files.streams import damage
from refladder.parsing import parse_json

FORM_OF_EXTENSION = {".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl", ".csv": "csv", ".parquet": "parquet"}
RUN_FOLDER = ".refladder"  # in a folder of scored shards: the files of the run
PLAN, MANIFEST = "plan.json", "manifest.json"  # in that folder; the second exists when all shards are scored


class ScoredShard(NamedTuple):
    """A shard in a manifest: its file of scored rows, the digest of that file, and its judgments file, if any."""

    name: str
    digest: str
    judgments: str | None


def form_by_name(path: str) -> str | None:
    """The format of a file by its extension, ignoring a final `.gz`; None if it has none of a table."""
    return FORM_OF_EXTENSION.get(Path(path.removesuffix(".gz")).suffix.lower())


def _is_glob(path: str) -> bool:
    return any(character in path for character in "*?[") and (is_url(path) or not Path(path).exists())


def is_many(path: str) -> bool:
    """Whether a path is a folder or a glob; a URL without an extension of a table is a folder."""
    return _is_glob(path) or (form_by_name(path) is None if is_url(path) else Path(path).is_dir())


def table_files(path: str) -> list[str]:
    """The files of a table, sorted: a file by itself, the tables directly in a folder, or the matches of a glob.

    Hidden files are ignored.

    Raises:
        DataError: there are none, or the folder is of a run of `score` that has not finished, or holds other tables.
    """
    if not is_many(path):
        return [path]
    if is_url(path):
        files = list_urls(path)
    elif _is_glob(path):
        matches = glob.glob(path, recursive=True)  # noqa: PTH207  Path.glob takes no absolute pattern
        files = [file for file in matches if Path(file).is_file()]
    else:
        files = [str(file) for file in Path(path).iterdir() if file.is_file()]
    if not _is_glob(path):
        files = [file for file in files if form_by_name(file)]
        check_finished(path)
        _check_others(path, files)
    files = sorted(file for file in files if not Path(file).name.startswith("."))
    if not files:
        raise DataError(f"{path}: no .jsonl, .csv or .parquet file there; name a file, a folder or a quoted glob")
    return files


def check_finished(folder: str) -> None:
    """Check that a folder is none of scored shards, or that none of them is missing and no other table is there.

    Raises:
        DataError: a part of the rows would look like all of them, or other rows would look like theirs.
    """
    if PLAN not in names_in(f"{folder.rstrip('/')}/{RUN_FOLDER}"):
        return
    if not is_scored(folder):
        raise DataError(
            f"{folder}: a part of its shards is not scored yet; run the same `refladder score` command again, or name "
            "the finished files with a quoted glob"
        )
    existing = names_in(folder)
    for shard in manifest_shards(folder):
        if shard.name not in existing:
            raise DataError(
                f"{folder.rstrip('/')}/{shard.name}: this scored shard has vanished; run the same `refladder score` "
                "command again, which scores it anew"
            )


def _check_others(folder: str, files: list[str]) -> None:
    """Refuse a table beside the shards of a folder, such as an output of `filter`: its rows would count twice.

    Raises:
        DataError: there is one.
    """
    if not is_scored(folder):
        return
    names = {shard.name for shard in manifest_shards(folder)}
    for file in sorted(files):
        name = Path(file).name
        if name not in names and not name.startswith("."):
            raise DataError(
                f"{file}: no scored shard of this folder; move it away, or name the files to read with a quoted glob"
            )


def scored_digests(path: str) -> dict[str, str]:
    """The digests of the scored shards by file, for a folder of them on this machine; else none.

    At a URL the files are not compared with their digests, as each would be read twice over the network.
    """
    if is_url(path) or not is_many(path) or _is_glob(path) or not is_scored(path):
        return {}
    return {str(Path(path) / shard.name): shard.digest for shard in manifest_shards(path)}


def check_unchanged(file: str, digest: str) -> None:
    """Check that a file of scored rows is the one that the run wrote.

    Raises:
        DataError: it has changed, or is cut off.
    """
    if open_folder(str(Path(file).parent)).digest(Path(file).name) != digest:
        raise DataError(
            f"{file}: this scored shard has changed since it was written; run the same `refladder score` command "
            "again, which scores it anew, or name the files to read with a quoted glob"
        )


def is_scored(folder: str) -> bool:
    """Whether a folder is one of scored shards of which none is missing."""
    return MANIFEST in names_in(f"{folder.rstrip('/')}/{RUN_FOLDER}")


def manifest_shards(folder: str) -> list[ScoredShard]:
    """The shards in the manifest of a folder, in order.

    Raises:
        DataError: the manifest does not exist, or is damaged.
    """
    path = f"{folder.rstrip('/')}/{RUN_FOLDER}/{MANIFEST}"
    with open_table(path) as stream, damage(path):
        manifest = parse_json(stream.read().decode("utf-8", "replace"), path)
    try:
        shards = [
            ScoredShard(shard["name"], shard["output_digest"], shard["judgments"]) for shard in manifest["shards"]
        ]
        damaged = not all(isinstance(part, str) for shard in shards for part in (*shard[:2], shard.judgments or ""))
    except (TypeError, KeyError, IndexError):
        damaged = True
    if damaged:
        raise DataError(f"{path}: damaged; delete it and run the same `refladder score` command again")
    return shards


def names_in(folder: str) -> set[str]:
    """The names of the files directly in a folder; none if it does not exist."""
    if is_url(folder):
        return {url.rpartition("/")[2] for url in list_urls(folder)}
    return {file.name for file in Path(folder).iterdir()} if Path(folder).is_dir() else set()


def open_table(path: str) -> IO[bytes]:
    """Open a file or URL for reading; gzip is unpacked.

    Raises:
        DataError, UsageError: it cannot be read.
    """
    return open_url(path) if is_url(path) else open_bytes(Path(path))
