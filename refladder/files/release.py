"""A ladder set as it is published: Parquet shards by config, and a manifest with the digest of every shard.

FOLDER/
  manifest.json             schema, what the set is, and path, rows, bytes and SHA-256 of every shard
  data/ladders/*.parquet    one ladder a row, with its recipe and what its dimension is
  data/contexts/*.parquet   the contexts; absent where their texts may not be distributed
  data/failures/*.parquet   ladders that failed, if any
  data/judgments, data/scores, data/certificate   if they were published
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_origin, get_type_hints

from refladder.errors import DataError
from refladder.files.jsonl import from_line, from_lines, read_bytes, to_json, writing
from refladder.files.locks import make_folder
from refladder.files.tables import Row, fitting, parquet_library, read_rows
from refladder.parsing import parse_as, parse_json
from refladder.records import (
    SCHEMAS,
    Context,
    Dimension,
    Ladder,
    LadderFailure,
    Recipe,
    Revision,
    Rung,
    Shared,
    names_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from _typeshed import DataclassInstance

T = TypeVar("T")

MANIFEST = "manifest.json"
SCHEMA, _FAMILY = "ladder-release/2", "ladder-release/"
# The name of the row of the whole certificate, beside those of its parts.
WHOLE_CERTIFICATE = "certificate"
# Rows of a row group, which a reader holds in memory.
_ROWS = 2048
# A path of a shard is inside the folder on every system.
_PATH = re.compile(r"\w[\w.-]*(/\w[\w.-]*)*", re.ASCII)
# A shard ends after the row group that reaches this size.
_BYTES = 256 << 20
_SAME_TYPES = "give them the same types"
# Column to field.
_DIMENSION = {"dimension_description": "description", "low": "low", "high": "high"}


@dataclass(frozen=True, slots=True, kw_only=True)
class LadderRow:
    """A row of the config `ladders`: a ladder that is complete in itself."""

    context_id: str
    task: str
    dimension: str
    dimension_description: str
    low: float
    high: float
    rungs: tuple[Rung, ...]
    recipe: Recipe
    context_digest: str | None
    shared: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A row of the config `certificate`: a part of it with a verdict, what the card shows of it, and its JSON."""

    context_id: str
    name: str
    verdict: str
    details: str
    json: str


# The configs that a ladder set is read from, and their rows.
OF_A_SET = {
    "ladders": LadderRow,
    "contexts": Context,
    "failures": LadderFailure,
    "certificate": Check,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """A file of a release: its path in the folder, its config, and what the manifest promises of it."""

    path: str
    config: str
    rows: int
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What is in a release: counts (`contexts` None if unpublished), the digest of the ladders, and every shard."""

    refladder: str
    name: str
    digest: str
    task: str
    rungs: int
    ladders: int
    contexts: int | None
    failures: int
    dimensions: tuple[Dimension, ...]
    files: tuple[Shard, ...]
    shared: Shared | None = None
    earlier: tuple[Revision, ...] = ()

    def of(self, config: str) -> list[Shard]:
        """Return the shards of a config, in order."""
        return [shard for shard in self.files if shard.config == config]


def manifest_bytes(manifest: Manifest) -> bytes:
    """Return the content of MANIFEST."""
    return to_json({"schema": SCHEMA, **dataclasses.asdict(manifest)}, indent=2) + b"\n"


def read_manifest(path: Path, label: str) -> Manifest:
    """Read a manifest strictly."""
    fields = parse_json(read_bytes(path).decode("utf-8", "replace"), f"{label}: {MANIFEST}")
    schema = fields.pop("schema", None) if isinstance(fields, dict) else None
    if schema != SCHEMA:
        if isinstance(schema, str) and schema.startswith(_FAMILY):
            raise DataError(
                f"{label}: {MANIFEST} has the schema {schema!r} of another version of refladder, and this version "
                f"reads {SCHEMA!r}; publish the set again, or use the other version"
            )
        raise DataError(
            f"{label}: {MANIFEST} has the schema {schema!r}, not {SCHEMA!r}; name a set of `refladder publish`"
        )
    again = "publish the set again"
    manifest = parse_as(Manifest, json.dumps(fields), f"{label}: {MANIFEST}", SCHEMA, again)
    for shard in manifest.files:
        if not _PATH.fullmatch(shard.path):
            raise DataError(
                f"{label}: {MANIFEST} names the file {shard.path!r}, which no set may have; do not use this set"
            )
    return manifest


def verify(folder: Path, shards: Iterable[Shard], label: str) -> None:
    """Compare shards with what the manifest says of them."""
    for shard in shards:
        path = folder / shard.path
        if not path.is_file():
            raise DataError(
                f"{label}: {shard.path} is in {MANIFEST} but not in the set; publish the set again"
            )
        size, digest = path.stat().st_size, digest_of_file(path)
        if (size, digest) != (shard.bytes, shard.sha256):
            raise DataError(
                f"{label}: {shard.path} does not match {MANIFEST} (SHA-256 {digest[:12]}..., {size:,} bytes; expected "
                f"{shard.sha256[:12]}..., {shard.bytes:,} bytes); it was changed or damaged: delete the file "
                f"{path} to download it again, or name another revision"
            )


def digest_of_file(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal digits."""
    with open(path, "rb") as stream:  # noqa: PTH123  hashlib wants a file of its own, not an unpacked one
        return hashlib.file_digest(stream, "sha256").hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The records of a ladder set, read while they are iterated; `ladders` fills `context_digests`."""

    name: str
    dimensions: tuple[Dimension, ...]
    contexts: Iterator[Context]
    ladders: Iterator[Ladder]
    failures: Iterator[LadderFailure]
    context_digests: dict[str, str]
    certificate: str | None = None
    shared: Shared | None = None
    earlier: tuple[Revision, ...] = ()


def read_release(folder: Path, label: str, manifest: Manifest | None = None) -> Parts:
    """Open the records of a release, verified against its manifest; a given manifest was verified before."""
    verified = manifest is not None
    manifest = manifest or read_manifest(folder / MANIFEST, label)
    shards = {config: manifest.of(config) for config in OF_A_SET}
    if not verified:
        verify(folder, list(itertools.chain(*shards.values())), label)
    digests: dict[str, str] = {}
    return Parts(
        name=label,
        dimensions=manifest.dimensions,
        contexts=(record for _, record in records_of(Context, rows_of(folder, shards["contexts"]))),
        ladders=ladders_of_rows(rows_of(folder, shards["ladders"]), {}, digests),
        failures=(record_of(LadderFailure, row) for row in rows_of(folder, shards["failures"])),
        context_digests=digests,
        certificate=_certificate_of(rows_of(folder, shards["certificate"])),
        shared=manifest.shared,
        earlier=manifest.earlier,
    )


def _certificate_of(rows: Iterable[Row]) -> str | None:
    """Return the JSON of the whole certificate, which is one of the rows of its config."""
    for row in rows:
        if row.fields.get("name") == WHOLE_CERTIFICATE:
            return str(row.fields.get("json"))
    return None


def rows_of(folder: Path, shards: Iterable[Shard]) -> Iterator[Row]:
    """Yield the rows of shards, in order, a row group at a time."""
    for shard in shards:
        yield from read_rows(str(folder / shard.path), "parquet")


def ladders_of_rows(
    rows: Iterable[Row],
    dimensions: dict[str, Dimension],
    context_digests: dict[str, str],
    anchors: list[str] | None = None,
) -> Iterator[Ladder]:
    """Yield ladders from rows as `ladder_row` makes them; fill dimensions, context digests and anchors."""
    # One object for all ladders of a recipe.
    recipes: dict[Recipe, Recipe] = {}
    read: dict[tuple[str, ...], Dimension] = {}
    for row, ladder in records_of(Ladder, rows):
        described = {
            "name": ladder.dimension,
            **{field: row.fields.get(name) for name, field in _DIMENSION.items()},
        }
        key = tuple(map(repr, described.values()))
        if key not in read:
            read[key] = record_of(Dimension, Row(row.where, described))
        dimension = read[key]
        if dimensions.setdefault(dimension.name, dimension) != dimension:
            raise DataError(
                f"{row.where}: dimension {dimension.name!r} has another description than in an earlier row; publish "
                "the set again"
            )
        digest = row.fields.get("context_digest")
        if isinstance(digest, str):
            context_digests[ladder.context_id] = digest
        if anchors is not None and row.fields.get("shared"):
            anchors.append(ladder.context_id)
        yield dataclasses.replace(ladder, recipe=recipes.setdefault(ladder.recipe, ladder.recipe))


def record_of(kind: type[T], row: Row) -> T:
    """Return a row as a record, as strictly as a line of a file, without other columns."""
    return from_line(kind, _line(kind, row), row.where)


def records_of(kind: type[T], rows: Iterable[Row]) -> Iterator[tuple[Row, T]]:
    """Yield each row with its record, see `record_of`; this is faster."""
    source = iter(rows)
    while chunk := list(itertools.islice(source, _ROWS)):
        yield from zip(
            chunk, from_lines(kind, [(row.where, _line(kind, row)) for row in chunk]), strict=True
        )


def _line(kind: type, row: Row) -> str:
    names = names_of(dataclasses.fields(kind))
    body = json.dumps({name: row.fields[name] for name in names if name in row.fields}, default=str)
    return f'{{"schema":"{SCHEMAS[kind]}",{body[1:]}'


def write_shards(folder: Path, config: str, rows: Iterable[DataclassInstance]) -> list[Shard]:
    """Write the rows of a config as Parquet, a row group at a time, and return the shards; none without rows."""
    pa, parquet = parquet_library()
    schema = _arrow_fields(pa, OF_A_SET[config])
    shards: list[Shard] = []
    source = map(dataclasses.asdict, rows)
    group = list(itertools.islice(source, _ROWS))
    if not group:
        return shards
    make_folder(folder / "data" / config)
    while group:
        path = folder / "data" / config / f"{len(shards):05d}.parquet"
        count = 0
        with (
            writing(path),
            fitting(config, _SAME_TYPES),
            path.open("wb") as stream,
            parquet.ParquetWriter(stream, schema, compression="zstd") as writer,
        ):
            while group:
                writer.write_table(pa.Table.from_pylist(group, schema=schema))
                count += len(group)
                group = list(itertools.islice(source, _ROWS))
                if stream.tell() >= _BYTES:
                    break
        name = path.relative_to(folder).as_posix()
        shards.append(
            Shard(
                path=name,
                config=config,
                rows=count,
                bytes=path.stat().st_size,
                sha256=digest_of_file(path),
            )
        )
    return shards


def _arrow_fields(pa: Any, kind: Any) -> Any:
    """Return the Arrow schema of a kind of records."""
    return pa.schema([(name, _arrow(pa, field)) for name, field in get_type_hints(kind).items()])


def _arrow(pa: Any, kind: Any) -> Any:
    """Return the Arrow type of a field of a record: a text, a number, a tuple, a record, or one of these or None."""
    plain = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
    if kind in plain:
        return plain[kind]
    if dataclasses.is_dataclass(kind):
        return pa.struct(_arrow_fields(pa, kind))
    inner = _arrow(pa, get_args(kind)[0])
    return pa.list_(inner) if get_origin(kind) is tuple else inner
