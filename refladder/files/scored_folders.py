"""A folder of scored files, as `score` writes it: run.json lists the input files, and at the end their counts."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from refladder.errors import DataError
from refladder.files.folders import open_folder
from refladder.files.outputs import RunConfig  # noqa: TC001  as below
from refladder.files.streams import is_url, stamp_of
from refladder.parsing import adapter
from refladder.records import JudgeCheck, Judgment, RungRating, names_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from refladder.files.folders import Folder

RUN, JUDGMENTS, COUNTS = "run.json", "judgments", "counts"
SCHEMA = "scored-folder/1"
TABLES = ".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet", ".gz"
_OF_COUNTS = tuple(f"{ending}.json" for ending in TABLES)
_AGAIN = "run the same `refladder score` command again"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredFile:
    """An input file with its stamp (size and time), and its output `name`, relative to the folder.

    `rows` = `scored` + `unscored`, and `bytes` and `digest` are of the output; None until all files of the run are scored.
    Earlier versions wrote no digest.
    """

    source: str
    stamp: str
    name: str
    rows: int | None = None
    scored: int | None = None
    unscored: int | None = None
    bytes: int | None = None
    digest: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderJudge:
    """The judge of a folder and its options, without keys."""

    judge: str
    judge_options: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderRun:
    """The content of run.json: `settings` determine the scores, apart from the `judge`, whose `signature` counts.

    `scales` are the least and the greatest value of each column of scores and grades, once all files are scored.
    The paths of input files are relative to `directory`. `rung_judgments` are the judge's ratings of the rungs, which all
    files share; `rung_ratings` and `grade_error` are those of `ScoreReport`, once all files are scored.
    """

    schema: str = SCHEMA
    signature: str | None = None
    settings: dict[str, Any]
    judge: FolderJudge
    directory: str = "."
    files: list[ScoredFile]
    scales: dict[str, tuple[float, float]] = field(default_factory=dict)
    judge_check: list[JudgeCheck] | None = None
    config: RunConfig | None = None
    rung_judgments: list[Judgment] = field(default_factory=list)
    rung_ratings: list[RungRating] = field(default_factory=list)
    grade_error: dict[str, float] = field(default_factory=dict)


def stamp(path: str) -> str:
    """Return size and time of a file, which change when the file changes."""
    if is_url(path):
        return stamp_of(path)
    try:
        status = Path(path).stat()
    except FileNotFoundError as error:
        raise DataError(f"{path}: no such file") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from error
    return f"{status.st_size}-{status.st_mtime_ns}"


def judgments_name(name: str) -> str:
    """Return the judgments file of an output file, relative to the folder."""
    return f"{JUDGMENTS}/{name if name.endswith('.jsonl') else f'{name}.jsonl'}"


def counts_name(name: str) -> str:
    """Return the file with the counts of an output file, relative to the folder."""
    return f"{COUNTS}/{name}.json"


def read_run(folder: Folder) -> FolderRun | None:
    """Read run.json; None if the folder has none of a scored folder, DataError if it is damaged."""
    data, path = folder.read(RUN), folder.path_of(RUN)
    damaged = (
        f"{path}: missing or damaged; delete it, {COUNTS}/ and the scored files beside it, and {_AGAIN}, which "
        f"reuses {JUDGMENTS}/"
    )
    if data is None or b'"scored-folder/' not in data:
        # A folder of another kind may have a subfolder of this name.
        if any(name.endswith(_OF_COUNTS) for name in folder.sizes(COUNTS)):
            raise DataError(damaged)
        return None
    if f'"{SCHEMA}"'.encode() not in data:
        raise DataError(f"{path}: expected the schema {SCHEMA!r}; choose another folder")
    try:
        run: FolderRun = adapter(FolderRun).validate_json(data, strict=True, extra="forbid")
    except ValueError as error:
        raise DataError(damaged) from error
    for file in run.files:
        if file.name.startswith("/") or ".." in file.name.split("/"):
            raise DataError(
                f"{path}: names the file {file.name!r:.80}, which is outside the folder; do not use it"
            )
    return run


def is_scored(path: str) -> bool:
    """Return whether a folder holds scored files."""
    return read_run(open_folder(path)) is not None


def finished_files(path: str) -> list[ScoredFile] | None:
    """Return the files of a scored folder, in order; None for any other folder.

    Raises:
        DataError: a file is missing, has another size than its run wrote, or is of no run; or its input has changed.
    """
    folder = open_folder(path)
    run = read_run(folder)
    if run is None:
        return None
    sizes = folder.sizes()
    if any(file.bytes is None for file in run.files):
        raise DataError(
            f"{path}: not all of its files are scored yet; {_AGAIN}, or name the finished files with a quoted glob"
        )
    for file in run.files:
        where = folder.path_of(file.name)
        if file.name not in sizes:
            raise DataError(
                f"{where}: this file of scored rows is missing; {_AGAIN}, which scores it again"
            )
        if sizes[file.name] != file.bytes:
            raise DataError(
                f"{where}: {sizes[file.name]:,} bytes, and its run wrote {file.bytes:,}; {_AGAIN}, which scores it "
                "again, or name the files to read with a quoted glob"
            )
        if not is_as_written(folder, file):
            raise DataError(
                f"{where}: has the size that its run wrote and other content; {_AGAIN}, which scores it again, or name "
                "the files to read with a quoted glob"
            )
        source = Path(run.directory, file.source)
        if not is_url(file.source) and source.exists() and stamp(str(source)) != file.stamp:
            raise DataError(
                f"{source}: has changed since it was scored into {where}; {_AGAIN}, or name the files to read with a "
                "quoted glob"
            )
    check_strangers(folder, run, sizes)
    return run.files


def is_as_written(folder: Folder, file: ScoredFile) -> bool:
    """Return whether an output has the digest that its run wrote, if it wrote one and the folder is on this machine."""
    return file.digest is None or folder.digest(file.name) in {None, file.digest}


def check_strangers(folder: Folder, run: FolderRun, sizes: Mapping[str, int]) -> None:
    """Check that each table in the folder is of its run, because its rows would count like the others."""
    names = set(names_of(run.files))
    for name in sizes:
        ours = name in names or name == RUN or name.startswith((f"{JUDGMENTS}/", f"{COUNTS}/"))
        if not ours and name.endswith(TABLES):
            raise DataError(
                f"{folder.path_of(name)}: no scored file of this run (of another input, or of one that is gone); move "
                "it away, or name the files to read with a quoted glob"
            )
