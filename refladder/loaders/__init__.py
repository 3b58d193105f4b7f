"""Benchmarks with human ratings; each has a module with `load(source, **options) -> Benchmark`.

To add a benchmark, write such a module and add a line to BENCHMARKS, or register a `refladder.benchmark` entry point in
another package.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import TypeVar, cast

from refladder import registry
from refladder.errors import DataError, UnknownNameError, UsageError
from refladder.files.jsonl import read_records
from refladder.files.ladder_sets import find_folder, published_names
from refladder.loaders.integrity import check_integrity
from refladder.loaders.sources import find_beside
from refladder.records import Benchmark, Context, Dimension, Output, Rating
from refladder.registry import Entry
from refladder.version import __version__

T = TypeVar("T")

BENCHMARKS = {
    "hanna": Entry(
        "refladder.loaders.hanna:load",
        "stories: 96 prompts, 10 systems and the human story, 6 dimensions, 3 raters; --option human=true adds "
        "the human story as another system",
    ),
    "newsroom": Entry(
        "refladder.loaders.newsroom:load", "news summaries: 60 articles, 7 systems, 4 dimensions, 3 raters"
    ),
    "own": Entry(
        "refladder.loaders.own:load_own", "your own table: give its path instead of the name, and --task-file TASK.toml"
    ),
    "podcast": Entry("refladder.loaders.podcast:load", "podcast summaries: 179 episodes, 20 systems, overall quality"),
    "summeval": Entry(
        "refladder.loaders.summeval:load",
        "news summaries: 100 articles, 16 systems, 4 dimensions, 3 experts; --option raters=crowd reads the "
        "crowd ratings, raters=all both",
    ),
    "topicalchat": Entry(
        "refladder.loaders.topicalchat:load", "dialogue responses (USR): 60 contexts, 6 systems, 6 dimensions, 3 raters"
    ),
    "webnlg": Entry(
        "refladder.loaders.webnlg:load",
        "data to text (2017): 223 triple sets, 9 systems, 3 dimensions; --option systems=NAME,... reads only these",
    ),
}


def load_benchmark(name: str, source: str | Path | None = None, **options: object) -> Benchmark:
    """Read a benchmark: contexts, outputs of systems, and human ratings of the outputs.

    Args:
        name: a name of BENCHMARKS, a name registered by an installed package, or a set shipped with outputs and ratings
            (`demo/story`).
        source: a file or a folder (plain or gzip); None downloads the data, if the Hub has it, into the Hub cache.
        options: the options of `load` of the benchmark: `raters` (summeval), `human` (hanna), `systems` (webnlg).

    Raises:
        UnknownNameError: no such benchmark, or the benchmark has no such option.
        UsageError: a source or options for a shipped set.
        DataError: the source does not exist, cannot be downloaded, or does not follow its schema; the text has
            path:line.
    """
    if name in published_names():
        if source is not None or options:
            raise UsageError(f"benchmark {name!r} is shipped and takes neither a source nor options; leave them out")
        return read_folder(find_folder(name), name=name, revision=__version__, licence="CC0-1.0")
    names = registry.names("benchmark", BENCHMARKS)
    if name not in names:
        raise UnknownNameError("benchmark", name, [*names, *published_names()])
    load = registry.find("benchmark", name, BENCHMARKS)
    available = [option for option in inspect.signature(load).parameters if option != "source"]
    for option in options:
        if option not in available:
            raise UnknownNameError(f"option of benchmark {name!r}", option, available)
    return cast("Benchmark", load(None if source is None else Path(source), **options))


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
