"""Sources of benchmark rows: a file, a folder with known file names, or the Hub."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from refladder.errors import DataError, UsageError, option
from refladder.files.jsonl import not_utf8, read_bytes
from refladder.files.tables import Row, read_rows
from refladder.loaders.fields import as_row
from refladder.parsing import parse_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """All rows of a source, and a `revision` (name@digest) that changes with their content."""

    rows: tuple[Row, ...]
    revision: str


def find_beside(folder: Path, name: str) -> Path | None:
    """Return the file of that name in a folder, with or without `.gz`; None if there is none."""
    return next(filter(Path.is_file, (folder / name, folder / f"{name}.gz")), None)


def find_file(source: Path, names: Sequence[str]) -> Path:
    """Find the file of a source: itself, or the first of `names` (with or without .gz) in a folder."""
    if not source.exists():
        raise DataError(f"{source}: no such file or folder")
    if not source.is_dir():
        return source
    for name in names:
        path = find_beside(source, name)
        if path is not None:
            return path
    raise DataError(
        f"{source}: this folder has none of {', '.join(names)} (with or without .gz); give the file's path"
    )


def find_copy(source: Path | None, names: Sequence[str], benchmark: str, copy: str) -> Path:
    """Find the file of a benchmark that the Hub does not have; without a source, say where its `copy` is."""
    if source is None:
        raise DataError(
            f"{benchmark}: there is no copy on the Hub to fetch; download {copy} and name it with "
            f"{option('source')} PATH"
        )
    return find_file(source, names)


def read_table(path: Path) -> Table:
    """Read a JSON list of objects, JSON lines, Parquet or CSV; the format is detected from the content."""
    data = read_bytes(path)
    head = data[:64].removeprefix(BYTE_ORDER_MARK).lstrip()
    if head.startswith(b"["):
        rows: Iterable[Row] = _numbered(str(path), read_json(path, data))
    else:
        forms = {b"PAR1": "parquet", b"{": "jsonl"}
        form = next((form for start, form in forms.items() if head.startswith(start)), "csv")
        rows = read_rows(str(path), form)
    digest = hashlib.blake2b(data, digest_size=8)
    return _table(str(path), rows, f"{path.name.removesuffix('.gz')}@{digest.hexdigest()}")


def _table(name: str, rows: Iterable[Row], revision: str = "") -> Table:
    table = Table(rows=tuple(rows), revision=revision)
    if not table.rows:
        raise DataError(f"{name}: it has no rows")
    return table


def decode(path: Path, data: bytes) -> str:
    """Decode the text of a whole file."""
    try:
        return data.removeprefix(BYTE_ORDER_MARK).decode("utf-8")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise not_utf8(f"{path}:{line}", error) from error


def read_json(path: Path, data: bytes) -> Any:
    """Parse a whole JSON file."""
    return parse_json(decode(path, data), str(path), whole_file=True)


def table_of(name: str, rows: Iterable[Row]) -> Table:
    """Make a table of rows without a file of their own; its revision is a digest of the rows."""
    table = _table(name, rows)
    digest = hashlib.blake2b(digest_size=8)
    for row in table.rows:
        digest.update(json.dumps(row.fields, sort_keys=True, default=str).encode() + b"\n")
    return replace(table, revision=f"{name}@{digest.hexdigest()}")


def _numbered(name: str, items: Iterable[Any]) -> Iterable[Row]:
    for number, fields in enumerate(items, start=1):
        yield as_row(f"{name}: item {number}", fields)


def fetch_table(repository: str, split: str | None, advice: str) -> Table:
    """Read a split of a Hub data set, through the usual Hub cache; `advice` says how to get the file without it."""
    advice = f"{advice} and name it with {option('source')} PATH"
    try:
        from datasets import load_dataset
        from datasets.exceptions import DatasetsError
    except ImportError as error:
        raise DataError(
            f"{repository}: downloading from the Hub needs the package datasets; pip install datasets huggingface-hub, "
            f"or {advice}"
        ) from error
    try:
        splits = load_dataset(repository)
    except (OSError, DatasetsError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise DataError(
            f"{repository}: cannot be downloaded from the Hub ({reason}); {advice}"
        ) from error
    if split is None and len(splits) == 1:
        split = next(iter(splits))
    if split not in splits:
        reason = "it has several splits" if split is None else f"it has no split {split!r}"
        raise UsageError(
            f"hub:{repository}: {reason}; use hub:{repository}:SPLIT with one of {', '.join(splits)}"
        )
    name = f"hub:{repository}:{split}"
    return table_of(name, _numbered(name, splits[split]))
