"""The plan of a run over many shards: which rows are in which shard, and which shards are scored.

A shard is a run of consecutive rows of one input file. The folder of scored shards has a folder `.refladder` with
`plan.json`, one mark for each scored shard in `marks/`, the judgments in `judgments/`, and, when every shard has its
mark, `manifest.json`. A mark names the digests of the rows that were read and of the file that was written, so a mark
counts only as long as both are unchanged.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from refladder.errors import DataError, RefladderError, UsageError, redacted
from refladder.files.jsonl import atomic, to_json
from refladder.files.remote import is_url, stamp_of
from refladder.files.scored_shards import MANIFEST, PLAN, RUN_FOLDER
from refladder.files.streams import damage, lines_of
from refladder.files.table_files import open_table, table_files
from refladder.files.tables import cell_of, format_of, open_parquet
from refladder.parsing import adapter
from refladder.records import scale_of
from refladder.scoring.columns import ScoreReport  # noqa: TC001  pydantic reads the annotation
from refladder.scoring.judgment_file import JUDGMENTS_FOLDER

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from refladder.files.folders import Folder
    from refladder.jobs.score import Mapped

T = TypeVar("T")

MARKS, SLICES = f"{RUN_FOLDER}/marks", f"{RUN_FOLDER}/slices"
_SCHEMAS = {"Plan": "shard-plan/2", "Mark": "shard-mark/1"}
_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """Consecutive rows of one input file.

    Attributes:
        name: file name of the scored rows.
        source: path or URL of the input file.
        first: rows of the file before this shard.
        rows: number of rows.
        offset: bytes of the (unpacked) file before this shard; 0 for Parquet.
        size: bytes of this shard; 0 for Parquet.
        digest: of the bytes of these rows; for Parquet, of the file's size, time and row numbers.
    """

    name: str
    source: str
    first: int
    rows: int
    offset: int
    size: int
    digest: str

    @property
    def where(self) -> str:
        """Its rows of the input, in words."""
        return f"{self.source}, rows {self.first + 1:,} to {self.first + self.rows:,}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The shards of an input, in order.

    Attributes:
        form: format of the input and of the scored rows, jsonl or parquet.
        settings: what else decides the scored rows; a run with other settings is another run, except for another
            name or option of the judge that does not change its signature.
        stamps: size and time of each input file, by path.
        shards: all shards.
        config: the resolved configuration of the run that made the plan.
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
    """A scored shard: digests of its input and output; rows = scored + unscored.

    Attributes:
        input: `Shard.digest` of the rows that were scored.
        output: BLAKE2b (16 bytes, hexadecimal) of the file of scored rows.
        rows: number of rows.
        scored: rows with every score.
        unscored: rows without some score.
        report: the counts of the run.
    """

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


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardRequest:
    """What a worker is to do.

    Attributes:
        shard: to be scored; None only compares the signature.
        signature: of the shards before; None where there are none.
        usd: what a worker that died had spent; it counts for the budget of the one in its place.
    """

    shard: Shard | None
    signature: str | None
    usd: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardAnswer:
    """What a worker did.

    Attributes:
        mark: of the scored shard.
        notice: of the judge.
        error: why there is no mark: a BackendError, UsageError or DataError.
        stops: whether every other shard would fail too.
        spent: what the judge was asked since the last answer.
    """

    mark: Mark | None = None
    notice: str | None = None
    error: RefladderError | None = None
    stops: bool = False
    spent: dict[str, float] = field(default_factory=dict)


def totals(marks: Iterable[Mark]) -> dict[str, int]:
    """Rows in, scored and unscored, of shards together."""
    marks = list(marks)
    return {name: sum(getattr(mark, name) for mark in marks) for name in ("rows", "scored", "unscored")}


def to_bytes(record: Plan | Mark) -> bytes:
    """Format a record as JSON."""
    return to_json({"schema": _SCHEMAS[type(record).__name__], **asdict(record)}, indent=1) + b"\n"


def from_bytes(kind: type[T], data: bytes, where: str) -> T:
    """Read a record strictly; one that is damaged, or of another version, is a DataError."""
    try:
        fields = json.loads(data)
        schema = fields.pop("schema", None)
        record = adapter(kind).validate_json(json.dumps(fields), strict=True, extra="forbid")
    except (ValueError, AttributeError, TypeError, RecursionError) as error:
        raise DataError(f"{where}: damaged ({type(error).__name__}); start over with --restart") from error
    if schema != (expected := _SCHEMAS[kind.__name__]):
        raise DataError(f"{where}: expected the schema {expected!r}, found {schema!r}; start over with --restart")
    return record


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
    """Divide an input into shards. Rows are counted, not parsed: a wrong row is reported by its shard.

    A shard has `shard_rows` rows, or up to twice as many, so that consecutive rows of one context stay together. Files
    that are unchanged since an `old` plan are not read again. Files in `out`, the folder of the scored rows, are no
    input, also if a glob matches them.
    """
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
    stamps = {file: _stamp(file) for file in files}
    if len(set(map(redacted, files))) < len(files):
        old = None  # files that the written plan does not tell apart
    before: dict[str, list[Shard]] = {}
    for shard in () if old is None else old.shards:
        before.setdefault(shard.source, []).append(shard)
    shards: list[Shard] = []
    for file in files:
        if old is not None and old.stamps.get(redacted(file)) == stamps[file]:
            shards += [replace(shard, source=file) for shard in before.get(redacted(file), [])]
            continue
        cuts = _row_ranges(file, mapped, shard_rows) if form == "parquet" else _line_ranges(file, mapped, shard_rows)
        for part, cut in enumerate(cuts):
            digest = cut.digest or _digest_of([stamps[file], cut.first, cut.rows])
            shards.append(replace(cut, name=f"{stems[file]}-{part:05d}.{form}", digest=digest))
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


def _stamp(path: str) -> str:
    """Size and time of a file; changes when the file changes."""
    if is_url(path):
        return stamp_of(path)
    try:
        status = Path(path).stat()
    except FileNotFoundError as error:
        raise DataError(f"{path}: no such file") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from error
    return f"{status.st_size}-{status.st_mtime_ns}"


def _digest_of(value: object) -> str:
    return hashlib.blake2b(json.dumps(value).encode(), digest_size=16).hexdigest()


def _context_columns(mapped: Mapped) -> list[str]:
    """The columns that name a row's context: the first that it has counts. None if all rows have one context."""
    if mapped.context is not None:
        return []
    return [mapped.columns.get(what, what) for what in ("context_id", "context")]


def _context_in(fields: Mapping[str, Any], columns: Sequence[str]) -> object:
    return next((value for column in columns if (value := cell_of(fields, column)) is not None), None)


def _line_ranges(path: str, mapped: Mapped, shard_rows: int) -> Iterator[Shard]:
    """The shards of a file, without names."""
    columns = _context_columns(mapped)

    def context(line: bytes) -> object:
        try:
            return _context_in(json.loads(line), columns)
        except (ValueError, AttributeError, RecursionError):  # reported when the shard is read
            return None

    def cut() -> Shard:
        key = digest.hexdigest()
        return Shard(name="", source=path, first=first, rows=rows, offset=offset, size=size, digest=key)

    first = rows = offset = size = 0
    digest = hashlib.blake2b(digest_size=16)
    before = b""
    for line in lines_of(open_table(path), path):
        if rows >= shard_rows:
            known = context(line)
            if rows >= 2 * shard_rows or known is None or known != context(before):
                yield cut()
                first, rows, offset, size = first + rows, 0, offset + size, 0
                digest = hashlib.blake2b(digest_size=16)
        digest.update(line)
        size += len(line)
        rows += bool(line.strip())
        before = line
    if rows:
        yield cut()


def _row_ranges(path: str, mapped: Mapped, shard_rows: int) -> Iterator[Shard]:
    """The shards of a Parquet file, without names."""
    columns = _context_columns(mapped)
    with open_parquet(path) as file:
        total, first = file.metadata.num_rows, 0
        present = [column for column in columns if column.partition(".")[0] in file.schema_arrow.names]
        while first < total:
            end = min(first + shard_rows, total)
            if present and end < total:
                batches = _batches(file, end - 1, batch_size=1024, columns=present[:1])
                contexts = (_context_in(row, present) for batch in batches for row in batch.to_pylist())
                same = next(contexts)
                while end < min(first + 2 * shard_rows, total) and same is not None and next(contexts) == same:
                    end += 1
            yield Shard(name="", source=path, first=first, rows=end - first, offset=0, size=0, digest="")
            first = end


def _batches(file: Any, first: int, **options: Any) -> Iterator[Any]:  # noqa: ANN401  pyarrow has no types
    """The rows of a Parquet file from a row on, in batches; row groups before it are not read."""
    group = before = 0
    while before + (rows := file.metadata.row_group(group).num_rows) <= first:
        before, group = before + rows, group + 1
    skip = first - before
    for batch in file.iter_batches(row_groups=range(group, file.metadata.num_row_groups), **options):
        if skip < len(batch):
            yield batch.slice(skip)
        skip = max(0, skip - len(batch))


def write_slice(shard: Shard, form: str, target: Path) -> None:
    """Copy the rows of a shard to a file; an input that has changed since the plan was made is a DataError."""
    with atomic(target) as stream:
        if form == "parquet":
            _copy_rows(shard, stream)
        else:
            _copy_lines(shard, stream)


def _changed(shard: Shard) -> DataError:
    return DataError(f"{shard.source}: the file has changed since the run was planned; run the same command again")


def _copy_lines(shard: Shard, target: Any) -> None:  # noqa: ANN401  a Writer
    left, digest = shard.size, hashlib.blake2b(digest_size=16)
    with open_table(shard.source) as stream, damage(shard.source):
        stream.seek(shard.offset)
        while left and (block := stream.read(min(left, _BLOCK))):
            digest.update(block)
            target.write(block)
            left -= len(block)
    if digest.hexdigest() != shard.digest:
        raise _changed(shard)


def _copy_rows(shard: Shard, target: Any) -> None:  # noqa: ANN401  a Writer
    from pyarrow import parquet  # noqa: PLC0415  optional

    if _digest_of([_stamp(shard.source), shard.first, shard.rows]) != shard.digest:
        raise _changed(shard)
    with open_parquet(shard.source) as file, parquet.ParquetWriter(target, file.schema_arrow) as writer:
        left = shard.rows
        for batch in _batches(file, shard.first):
            writer.write_batch(batch.slice(0, left))
            left -= min(left, len(batch))
            if not left:
                break


def read_plan(folder: Folder) -> Plan | None:
    """The plan in a folder; None if it has none."""
    data = folder.read(PLAN)
    return None if data is None else from_bytes(Plan, data, folder.path_of(PLAN))


def write_plan(folder: Folder, plan: Plan) -> None:
    """Store a plan."""
    folder.write(PLAN, to_bytes(plan.kept))


def _mark_name(shard: str) -> str:
    return f"{MARKS}/{shard}.json"


def read_marks(folder: Folder, shards: Sequence[Shard]) -> dict[str, Mark]:
    """The marks of shards whose rows are unchanged, by name; the scored files are not looked at."""
    names = set(folder.names(MARKS))
    marks = {}
    for shard in shards:
        name = _mark_name(shard.name)
        if f"{shard.name}.json" in names and (data := folder.read(name)) is not None:
            mark = from_bytes(Mark, data, folder.path_of(name))
            if mark.input == shard.digest:
                marks[shard.name] = mark
    return marks


def write_mark(folder: Folder, mark: Mark) -> None:
    """Store the mark of a shard, after its scored rows."""
    folder.write(_mark_name(mark.name), to_bytes(mark))


def unmark(folder: Folder, mark: Mark) -> None:
    """Remove the mark of a shard, so that it is scored again."""
    folder.remove(_mark_name(mark.name))


def verified(folder: Folder, marks: Mapping[str, Mark]) -> dict[str, Mark]:
    """The marks whose file of scored rows exists with the digest of the mark."""
    return {name: mark for name, mark in marks.items() if folder.digest(name) == mark.output}


def check_strangers(folder: Folder, plan: Plan) -> None:
    """Refuse tables in the folder that are no shards of this input, because a reader would take them for rows."""
    names = {shard.name for shard in plan.shards}
    for name in folder.names():
        if name.endswith((".jsonl", ".ndjson", ".json", ".csv", ".parquet", ".gz")) and name not in names:
            raise DataError(
                f"{folder.path_of(name)}: no shard of this input (of another input, or of one that has changed); "
                "move it away, or start in an empty folder"
            )


def write_manifest(folder: Folder, plan: Plan, marks: Mapping[str, Mark]) -> None:
    """Store what the finished folder holds: every shard with its input, digests and counts.

    Marks and judgments of rows that the input no longer has are removed. Rows in that are not all out, or shards with
    different signatures, are a DataError.
    """
    plan = plan.kept
    signature = marks[plan.shards[0].name].signature
    judgments = set(folder.names(JUDGMENTS_FOLDER))
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
        name = judgments_name(shard).rpartition("/")[2]
        entry |= {"scored": mark.scored, "unscored": mark.unscored, "judgments": name if name in judgments else None}
        entries.append(entry)
    manifest = {
        "schema": "shard-manifest/1",
        "signature": signature,
        "settings": plan.settings,
        "config": plan.config,
        "inputs": plan.stamps,
        **totals(marks.values()),
        "shards": entries,
    }
    folder.write(MANIFEST, to_json(manifest, indent=1) + b"\n")
    for name in judgments - {entry["judgments"] for entry in entries}:
        folder.remove(f"{JUDGMENTS_FOLDER}/{name}")
    for name in set(folder.names(MARKS)) - {f"{shard.name}.json" for shard in plan.shards}:
        folder.remove(f"{MARKS}/{name}")


def discard(folder: Folder) -> None:
    """Remove what an earlier run left; a damaged plan is no reason to stop."""
    folder.remove(MANIFEST)
    with suppress(DataError):
        plan = read_plan(folder)
        for shard in [] if plan is None else plan.shards:
            for name in (shard.name, _mark_name(shard.name), judgments_name(shard)):
                folder.remove(name)
    folder.remove(PLAN)


def judgments_name(shard: Shard) -> str:
    """The judgments file of a shard; of another digest, its rows have other judgments."""
    return f"{JUDGMENTS_FOLDER}/{shard.name.rpartition('.')[0]}-{shard.digest[:8]}.jsonl"
