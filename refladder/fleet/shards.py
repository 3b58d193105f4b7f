"""A shard is a run of consecutive rows of one input file: how a file is divided, and how a shard's rows are copied."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from refladder.errors import DataError
from refladder.files.jsonl import atomic
from refladder.files.remote import is_url, stamp_of
from refladder.files.streams import damage, lines_of
from refladder.files.table_files import open_table
from refladder.files.tables import cell_of, open_parquet
from refladder.records import digest_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from refladder.jobs.score import Mapped

_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """Consecutive rows of one input file; `first`, `offset` and `size` place them (in rows, and in unpacked bytes).

    `digest` is of the bytes of these rows; for Parquet, of the file's size, time and row numbers, and the bytes are 0.
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


def stamp(path: str) -> str:
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


def divided(path: str, form: str, stem: str, mapped: Mapped, shard_rows: int) -> list[Shard]:
    """The shards of a file, of `shard_rows` rows up to twice as many: rows of one context stay together."""
    columns = []  # that name a row's context, by the first that it has; none where all rows have one context
    if mapped.context is None:
        columns = [mapped.columns.get(what, what) for what in ("context_id", "context")]
    cuts = (_row_cuts if form == "parquet" else _line_cuts)(path, columns, shard_rows)
    return [Shard(name=f"{stem}-{part:05d}.{form}", source=path, **cut) for part, cut in enumerate(cuts)]


def _context_in(fields: Mapping[str, Any], columns: Sequence[str]) -> object:
    return next((value for column in columns if (value := cell_of(fields, column)) is not None), None)


def _line_cuts(path: str, columns: Sequence[str], shard_rows: int) -> Iterator[dict[str, Any]]:
    def context(line: bytes) -> object:
        try:
            return _context_in(json.loads(line), columns)
        except (ValueError, AttributeError, RecursionError):  # reported when the shard is read
            return None

    def cut() -> dict[str, Any]:
        return {"first": first, "rows": rows, "offset": offset, "size": size, "digest": digest.hexdigest()}

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


def _row_cuts(path: str, columns: Sequence[str], shard_rows: int) -> Iterator[dict[str, Any]]:
    stamped = stamp(path)
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
            rows = end - first
            yield {"first": first, "rows": rows, "offset": 0, "size": 0, "digest": _row_digest(stamped, first, rows)}
            first = end


def _row_digest(stamped: str, first: int, rows: int) -> str:
    return digest_of(json.dumps([stamped, first, rows]), size=16)


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


def write_slice(shard: Shard, target: Path) -> None:
    """Copy the rows of a shard to a file; an input that has changed since the plan was made is a DataError."""
    with atomic(target) as stream:
        if (_copy_rows if shard.name.endswith(".parquet") else _copy_lines)(shard, stream) != shard.digest:
            raise DataError(
                f"{shard.source}: the file has changed since the run was planned; run the same command again"
            )


def _copy_lines(shard: Shard, target: Any) -> str:  # noqa: ANN401  a Writer
    """Copy lines; their digest."""
    left, digest = shard.size, hashlib.blake2b(digest_size=16)
    with open_table(shard.source) as stream, damage(shard.source):
        stream.seek(shard.offset)
        while left and (block := stream.read(min(left, _BLOCK))):
            digest.update(block)
            target.write(block)
            left -= len(block)
    return digest.hexdigest()


def _copy_rows(shard: Shard, target: Any) -> str:  # noqa: ANN401  a Writer
    """Copy rows of Parquet, if the file is unchanged; their digest."""
    from pyarrow import parquet  # noqa: PLC0415  optional

    digest = _row_digest(stamp(shard.source), shard.first, shard.rows)
    if digest == shard.digest:
        with open_parquet(shard.source) as file, parquet.ParquetWriter(target, file.schema_arrow) as writer:
            left = shard.rows
            for batch in _batches(file, shard.first):
                writer.write_batch(batch.slice(0, left))
                left -= min(left, len(batch))
                if not left:
                    break
    return digest
