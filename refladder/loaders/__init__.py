"""Readers of tables: rows of a user, scored rows, and benchmarks with human ratings.

A benchmark is a module with `load(source, **options) -> Benchmark`.

To add a benchmark, write such a module and add a line to BENCHMARKS, or register a `refladder.benchmark` entry point in
another package.
"""

from __future__ import annotations

import inspect
import math
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast

from refladder.errors import DataError, UnknownNameError, UsageError
from refladder.files.jsonl import read_records
from refladder.files.ladder_sets import find_folder, rated_names
from refladder.loaders.sources import find_beside
from refladder.records import (
    Benchmark,
    Context,
    Dimension,
    Output,
    Rating,
    by_name,
    ids_of,
    names_of,
)
from refladder.registry import Entry, find, names
from refladder.typed import checked
from refladder.version import __version__

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

T = TypeVar("T")

BENCHMARKS = {
    "hanna": Entry(
        "refladder.loaders.hanna:load",
        "stories: 96 prompts, 10 systems and the human story, 6 dimensions, 3 raters; --option human=true adds "
        "the human story as another system",
    ),
    "newsroom": Entry(
        "refladder.loaders.newsroom:load",
        "news summaries: 60 articles, 7 systems, 4 dimensions, 3 raters",
    ),
    "table": Entry(
        "refladder.loaders.user_table:load_user_table",
        "your own table: give its path instead of the name, and --task-file TASK.toml",
    ),
    "podcast": Entry(
        "refladder.loaders.podcast:load",
        "podcast summaries: 179 episodes, 20 systems, overall quality",
    ),
    "summeval": Entry(
        "refladder.loaders.summeval:load",
        "news summaries: 100 articles, 16 systems, 4 dimensions, 3 experts; --option raters=crowd reads the "
        "crowd ratings, raters=all both",
    ),
    "topicalchat": Entry(
        "refladder.loaders.topicalchat:load",
        "dialogue responses (USR): 60 contexts, 6 systems, 6 dimensions, 3 raters",
    ),
    "webnlg": Entry(
        "refladder.loaders.webnlg:load",
        "data to text (2017): 223 triple sets, 9 systems, 3 dimensions; --option systems=NAME,... reads only these",
    ),
}


@checked
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
    if name in rated_names():
        if source is not None or options:
            raise UsageError(
                f"benchmark {name!r} is shipped and takes neither a source nor options; leave them out"
            )
        return read_folder(find_folder(name), name=name, revision=__version__, licence="CC0-1.0")
    known = names("benchmark", BENCHMARKS)
    if name not in known:
        raise UnknownNameError("benchmark", name, [*known, *rated_names()])
    load = find("benchmark", name, BENCHMARKS)
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


def check_integrity(benchmark: Benchmark) -> None:
    """Raise DataError unless ids, references, ratings, scales, descriptions and tasks of a benchmark are consistent."""
    name = benchmark.name
    for what, parts in (("dimension", benchmark.dimensions), ("context", benchmark.contexts)):
        if not parts:
            raise DataError(f"{name}: it has no {what}; a benchmark needs at least one")
    for dimension in benchmark.dimensions:
        if not dimension.description.strip():
            raise DataError(
                f"{name}: dimension {dimension.name!r} has no description; writer and judge need one"
            )
        if not dimension.low < dimension.high:
            raise DataError(
                f"{name}: dimension {dimension.name!r} has the scale {dimension.low:g} to {dimension.high:g}; "
                "low must be below high"
            )
    _refuse_repeated(name, "dimension", names_of(benchmark.dimensions))
    _refuse_repeated(name, "context id", ids_of(benchmark.contexts))
    _refuse_repeated(name, "output id", ids_of(benchmark.outputs))
    systems = ((output.context_id, output.system) for output in benchmark.outputs)
    _refuse_repeated(name, "pair of context and system", systems)
    tasks = sorted({context.task for context in benchmark.contexts})
    if len(tasks) > 1:
        raise DataError(
            f"{name}: contexts of several tasks, {' and '.join(tasks)}; a benchmark has one task"
        )
    for context in benchmark.contexts:
        if not context.text.strip():
            raise DataError(f"{name}: context {context.id!r} has no text")
    _check_references(name, benchmark)


def _check_references(name: str, benchmark: Benchmark) -> None:
    """Check what outputs and ratings refer to, and the ratings."""
    dimensions = by_name(benchmark.dimensions)
    contexts = set(ids_of(benchmark.contexts))
    outputs = set(ids_of(benchmark.outputs))
    for output in benchmark.outputs:
        if output.context_id not in contexts:
            raise DataError(
                f"{name}: output {output.id!r} refers to context {output.context_id!r}, which does not exist"
            )
    for rating in benchmark.ratings:
        if rating.output_id not in outputs:
            raise DataError(
                f"{name}: a rating refers to output {rating.output_id!r}, which does not exist"
            )
        if rating.dimension not in dimensions:
            raise DataError(
                f"{name}: a rating refers to dimension {rating.dimension!r}, which does not exist"
            )
        scale = dimensions[rating.dimension]
        if not (math.isfinite(rating.value) and scale.low <= rating.value <= scale.high):
            raise DataError(
                f"{name}: output {rating.output_id!r} is rated {rating.value:g} on {scale.name}, outside the scale "
                f"{scale.low:g} to {scale.high:g}"
            )
    ratings = ((rating.output_id, rating.dimension, rating.rater) for rating in benchmark.ratings)
    _refuse_repeated(name, "rating", ratings)


def _refuse_repeated(name: str, what: str, keys: Iterable[Hashable]) -> None:
    key, count = next(iter(Counter(keys).most_common(1)), (None, 0))
    if count > 1:
        raise DataError(f"{name}: {what} {key!r} appears {count} times; it must be unique")
