"""A folder of scored shards, as its runs write it: the plan, a mark for each scored shard, and the manifest.

The folder has a folder `.refladder` with `plan.json`, one mark for each scored shard in `marks/`, the judgments in
`judgments/`, and, when every shard has its mark, `manifest.json`. A mark names the digests of the rows that were read
and of the file that was written, so a mark counts only as long as both are unchanged.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from refladder.errors import DataError, UsageError, redacted
from refladder.files.jsonl import to_json
from refladder.files.remote import is_url
from refladder.files.scored_shards import MANIFEST, PLAN, RUN_FOLDER
from refladder.files.table_files import table_files
from refladder.files.tables import format_of
from refladder.fleet.shards import Shard, divided, stamp
from refladder.parsing import adapter
from refladder.records import scale_of
from refladder.scoring.columns import ScoreReport  # noqa: TC001  pydantic reads the annotation
from refladder.scoring.judgment_file import JUDGMENTS_FOLDER

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from refladder.files.folders import Folder
    from refladder.jobs.score import Mapped

T = TypeVar("T")

MARKS, SLICES = f"{RUN_FOLDER}/marks", f"{RUN_FOLDER}/slices"
_SCHEMAS = {"Plan": "shard-plan/2", "Mark": "shard-mark/1"}
_TABLES = (".jsonl", ".ndjson", ".json", ".csv", ".parquet", ".gz")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The shards of an input, in order, and what else decides the scored rows.

    `stamps` are size and time of each input file by path. A run with other settings is another run, except for another
    name or option of the judge that does not change its signature.
    """

    form: str
    settings: dict[str, Any]
    stamps: dict[str, str]
    shards: list[Shard]
    config: dict[str, Any] = field(default_factory=dict)

    @property
    def kept(self) -> Plan:
        """The plan as it is written: without the secrets of URLs and options."""
        others = redacted({"settings": self.settings, "stamps": self.stamps, "config": self.config})
        shards = [replace(shard, source=redacted(shard.source)) for shard in self.shards]
        return Plan(form=self.form, shards=shards, **others)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A scored shard: digests of its input and output, its counts; rows = scored + unscored."""

    name: str
    input: str
    output: str
    rows: int
    scored: int
    unscored: int
    report: ScoreReport

    @property
    def signature(self) -> str:
        """The signature of its scores."""
        return self.report.signature


def totals(marks: Iterable[Mark]) -> dict[str, int]:
    """Rows in, scored and unscored, of shards together."""
    marks = list(marks)
    return {name: sum(getattr(mark, name) for mark in marks) for name in ("rows", "scored", "unscored")}


def judgments_name(shard: Shard) -> str:
    """The judgments file of a shard; of another digest, its rows have other judgments."""
    return f"{JUDGMENTS_FOLDER}/{shard.name.rpartition('.')[0]}-{shard.digest[:8]}.jsonl"


def mark_name(shard: str) -> str:
    """The file of a shard's mark."""
    return f"{MARKS}/{shard}.json"


def write(folder: Folder, name: str, record: Plan | Mark) -> None:
    """Store a record as JSON."""
    folder.write(name, to_json({"schema": _SCHEMAS[type(record).__name__], **asdict(record)}, indent=1) + b"\n")


def read(folder: Folder, name: str, kind: type[T]) -> T | None:
    """A record, read strictly; None where there is none. One that is damaged, or of another version, is a DataError."""
    data, where = folder.read(name), folder.path_of(name)
    if data is None:
        return None
    try:
        fields = json.loads(data)
        schema = fields.pop("schema", None)
        record = adapter(kind).validate_json(json.dumps(fields), strict=True, extra="forbid")
    except (ValueError, AttributeError, TypeError, RecursionError) as error:
        raise DataError(f"{where}: damaged ({type(error).__name__}); start over with --restart") from error
    if schema != (expected := _SCHEMAS[kind.__name__]):
        raise DataError(f"{where}: expected the schema {expected!r}, found {schema!r}; start over with --restart")
    return record


def read_marks(folder: Folder, shards: Iterable[Shard]) -> dict[str, Mark]:
    """The marks of shards whose rows are unchanged, by name; the scored files are not looked at."""
    names = set(folder.names(MARKS))
    marks = {}
    for shard in shards:
        mark = read(folder, mark_name(shard.name), Mark) if f"{shard.name}.json" in names else None
        if mark is not None and mark.input == shard.digest:
            marks[shard.name] = mark
    return marks


def make_plan(
    source: str,
    given: str | None,
    mapped: Mapped,
    *,
    shard_rows: int,
    settings: Mapping[str, Any],
    config: Mapping[str, Any],
    old: Plan | None = None,
    out: str | None = None,
) -> Plan:
    """Divide an input into shards, see `divided`; files in `out` are no input, unchanged ones are not read again."""
    form = format_of(source, given)
    if form == "csv":
        raise UsageError(
            f"{source}: shards are made of JSON lines and Parquet, not CSV; convert it, or score it whole, into a file "
            "such as --out scored.csv"
        )
    files = [file for file in table_files(source) if out is None or not _is_inside(file, out)]
    if not files:
        raise UsageError(f"{source}: its files are in {out}, the folder of the scored rows; name another --out")
    stems = _stems(files)
    stamps = {file: stamp(file) for file in files}
    if len(set(map(redacted, files))) < len(files):
        old = None  # files that the written plan does not tell apart
    before: dict[str, list[Shard]] = {}
    for shard in () if old is None else old.shards:
        before.setdefault(shard.source, []).append(shard)
    shards: list[Shard] = []
    for file in files:
        if old is not None and old.stamps.get(redacted(file)) == stamps[file]:
            shards += [replace(shard, source=file) for shard in before.get(redacted(file), [])]
        else:
            shards += divided(file, form, stems[file], mapped, shard_rows)
    if not shards:
        raise DataError(f"{source}: no rows to score")
    return Plan(form=form, settings=dict(settings), stamps=stamps, shards=shards, config=dict(config))


def _is_inside(file: str, folder: str) -> bool:
    if is_url(folder) or is_url(file):
        return file.startswith(f"{folder.rstrip('/')}/")
    return Path(folder).resolve() in Path(file).resolve().parents


def _stems(files: Sequence[str]) -> dict[str, str]:
    """For each file a stem of shard names: its path below the common folder, without extension."""
    parents = [file.replace("\\", "/").split("/")[:-1] for file in files]
    shared = 0
    while all(len(parent) > shared and parent[shared] == parents[0][shared] for parent in parents):
        shared += 1
    file_of: dict[str, str] = {}
    for file, parent in zip(files, parents, strict=True):
        name = Path(file.removesuffix(".gz")).name
        stem = "-".join([*parent[shared:], name.rpartition(".")[0] or name]).lstrip(".")
        if (other := file_of.setdefault(stem, file)) != file:
            raise UsageError(f"{file}: the shards of this file and of {other} would have one name; rename one")
    return {file: stem for stem, file in file_of.items()}


def check_strangers(folder: Folder, plan: Plan) -> None:
    """Refuse tables in the folder that are no shards of this input, because a reader would take them for rows."""
    names = {shard.name for shard in plan.shards}
    for name in folder.names():
        if name.endswith(_TABLES) and name not in names:
            raise DataError(
                f"{folder.path_of(name)}: no shard of this input (of another input, or of one that has changed); "
                "move it away, or start in an empty folder"
            )


def write_manifest(
    folder: Folder, plan: Plan, marks: Mapping[str, Mark], checks: Sequence[Mapping[str, Any]] = ()
) -> None:
    """Store what the finished folder holds: every shard with its input, digests and counts, and how its judge did.

    Marks and judgments of rows that the input no longer has are removed. Rows in that are not all out, or shards with
    different signatures, are a DataError.
    """
    plan = plan.kept
    signature = marks[plan.shards[0].name].signature
    existing = {f"{inside}/{name}" for inside in (JUDGMENTS_FOLDER, MARKS) for name in folder.names(inside)}
    used: set[str] = set()
    entries = []
    for shard in plan.shards:
        mark = marks[shard.name]
        if not shard.rows == mark.rows == mark.scored + mark.unscored:
            raise DataError(
                f"{folder.path_of(shard.name)}: {shard.rows:,} rows in, {mark.scored:,} scored and {mark.unscored:,} "
                "unscored; delete this file and run the same command again"
            )
        if scale_of(mark.signature) != scale_of(signature):
            raise DataError(
                f"{folder.path_of(shard.name)}: its scores are on another scale ({mark.signature}) than those of "
                f"{plan.shards[0].name} ({signature}); delete the files of one and run the same command again"
            )
        entry = {**asdict(shard), "input_digest": mark.input, "output_digest": mark.output}
        del entry["digest"]
        judgments = judgments_name(shard)
        used |= {judgments, mark_name(shard.name)}
        name = judgments.rpartition("/")[2] if judgments in existing else None
        entries.append({**entry, "scored": mark.scored, "unscored": mark.unscored, "judgments": name})
    manifest = {
        "schema": "shard-manifest/1",
        "signature": signature,
        "settings": plan.settings,
        "config": plan.config,
        "judge_check": list(checks) or json.loads(folder.read(MANIFEST) or b"{}").get("judge_check"),
        "inputs": plan.stamps,
        **totals(marks.values()),
        "shards": entries,
    }
    folder.write(MANIFEST, to_json(manifest, indent=1) + b"\n")
    for name in existing - used:
        folder.remove(name)


def discard(folder: Folder) -> None:
    """Remove what an earlier run left; a damaged plan is no reason to stop."""
    folder.remove(MANIFEST)
    with suppress(DataError):
        plan = read(folder, PLAN, Plan)
        for shard in [] if plan is None else plan.shards:
            for name in (shard.name, mark_name(shard.name), judgments_name(shard)):
                folder.remove(name)
    folder.remove(PLAN)
