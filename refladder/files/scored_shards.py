"""A folder of scored shards, as its readers see it: the manifest names each shard and the digest of its rows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from refladder.errors import DataError
from refladder.files.folders import Folder, open_folder
from refladder.files.remote import is_url
from refladder.parsing import adapter, parse_json

RUN_FOLDER = ".refladder"  # in a folder of scored shards: the files of the run
PLAN, MANIFEST = f"{RUN_FOLDER}/plan.json", f"{RUN_FOLDER}/manifest.json"  # the second when all shards are scored


@dataclass(frozen=True, slots=True)
class ScoredShard:
    """A shard in a manifest: its file of scored rows, the digest of that file, and its judgments file, if any."""

    name: str
    output_digest: str
    judgments: str | None


@dataclass(frozen=True, slots=True)
class _Manifest:
    shards: list[ScoredShard]


def is_scored(folder: str) -> bool:
    """Whether a folder is one of scored shards of which none is missing."""
    return Path(MANIFEST).name in open_folder(folder).names(RUN_FOLDER)


def finished_shards(path: str) -> list[ScoredShard] | None:
    """The shards of a folder, in order; None for a folder of other files, DataError where one is missing."""
    folder = open_folder(path)
    records = folder.names(RUN_FOLDER)
    if Path(MANIFEST).name not in records:
        if Path(PLAN).name not in records:
            return None
        raise DataError(
            f"{path}: a part of its shards is not scored yet; run the same `refladder score` command again, or name "
            "the finished files with a quoted glob"
        )
    shards, existing = _manifest_shards(folder), set(folder.names())
    for shard in shards:
        if shard.name not in existing:
            raise DataError(
                f"{folder.path_of(shard.name)}: this scored shard has vanished; run the same `refladder score` "
                "command again, which scores it again"
            )
    return shards


def _manifest_shards(folder: Folder) -> list[ScoredShard]:
    path = folder.path_of(MANIFEST)
    manifest = parse_json((folder.read(MANIFEST) or b"").decode("utf-8", "replace"), path)
    try:
        return adapter(_Manifest).validate_python(manifest).shards
    except ValueError as error:
        raise DataError(f"{path}: damaged; delete it and run the same `refladder score` command again") from error


def finished_files(path: str, files: list[str]) -> dict[str, str | None]:
    """The tables of a folder with the digests that its run gave them, compared on a disk; None without a run."""
    shards = finished_shards(path)
    if shards is None:
        return dict.fromkeys(files)
    digests = {shard.name: shard.output_digest for shard in shards}
    for file in files:  # such as an output of `filter`: its rows would count twice
        if Path(file).name not in digests:
            raise DataError(
                f"{file}: no scored shard of this folder; move it away, or name the files to read with a quoted glob"
            )
    return {file: None if is_url(path) else digests[Path(file).name] for file in files}


def check_unchanged(file: str, digest: str) -> None:
    """Refuse a file of scored rows that is not the one that the run wrote, but changed or cut off."""
    if open_folder(str(Path(file).parent)).digest(Path(file).name) != digest:
        raise DataError(
            f"{file}: this scored shard has changed since it was written; run the same `refladder score` command "
            "again, which scores it again, or name the files to read with a quoted glob"
        )
