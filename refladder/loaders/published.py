"""A benchmark in refladder's format: contexts, dimensions, outputs and ratings as JSON lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from refladder.errors import DataError
from refladder.files.jsonl import read_records
from refladder.loaders.integrity import check_integrity
from refladder.loaders.sources import find_beside
from refladder.records import Benchmark, Context, Dimension, Output, Rating

if TYPE_CHECKING:
    from pathlib import Path
    from typing import TypeVar

    T = TypeVar("T")


def read_folder(folder: Path, *, name: str, revision: str, licence: str) -> Benchmark:
    """Read contexts.jsonl, dimensions.jsonl, outputs.jsonl and ratings.jsonl (each plain or .gz) of a folder."""
    benchmark = Benchmark(
        name=name,
        revision=revision,
        licence=licence,
        dimensions=_read(folder, "dimensions.jsonl", Dimension),
        contexts=_read(folder, "contexts.jsonl", Context),
        outputs=_read(folder, "outputs.jsonl", Output),
        ratings=_read(folder, "ratings.jsonl", Rating),
    )
    try:
        check_integrity(benchmark)
    except DataError as error:
        raise DataError(f"{folder}: {error}") from error
    return benchmark


def _read(folder: Path, name: str, kind: type[T]) -> tuple[T, ...]:
    path = find_beside(folder, name)
    if path is None:
        raise DataError(f"{folder}: no {name} (or {name}.gz) in this folder")
    return tuple(read_records(kind, path))
