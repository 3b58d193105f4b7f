"""Checks that every benchmark must pass."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

from refladder.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from refladder.records import Benchmark


def check_integrity(benchmark: Benchmark) -> None:
    """Raise DataError unless ids, references, ratings, scales, descriptions and tasks of a benchmark are consistent."""
    name = benchmark.name
    for what, parts in (("dimension", benchmark.dimensions), ("context", benchmark.contexts)):
        if not parts:
            raise DataError(f"{name}: it has no {what}; a benchmark needs at least one")
    for dimension in benchmark.dimensions:
        if not dimension.description.strip():
            raise DataError(f"{name}: dimension {dimension.name!r} has no description; writer and judge need one")
        if not dimension.low < dimension.high:
            raise DataError(
                f"{name}: dimension {dimension.name!r} has the scale {dimension.low:g} to {dimension.high:g}; "
                "low must be below high"
            )
    _refuse_repeated(name, "dimension", (dimension.name for dimension in benchmark.dimensions))
    _refuse_repeated(name, "context id", (context.id for context in benchmark.contexts))
    _refuse_repeated(name, "output id", (output.id for output in benchmark.outputs))
    systems = ((output.context_id, output.system) for output in benchmark.outputs)
    _refuse_repeated(name, "pair of context and system", systems)
    tasks = sorted({context.task for context in benchmark.contexts})
    if len(tasks) > 1:
        raise DataError(f"{name}: contexts of several tasks, {' and '.join(tasks)}; a benchmark has one task")
    for context in benchmark.contexts:
        if not context.text.strip():
            raise DataError(f"{name}: context {context.id!r} has no text")
    _check_references(name, benchmark)


def _check_references(name: str, benchmark: Benchmark) -> None:
    """Check what outputs and ratings refer to, and the ratings."""
    dimensions = {dimension.name: dimension for dimension in benchmark.dimensions}
    contexts = {context.id for context in benchmark.contexts}
    outputs = {output.id for output in benchmark.outputs}
    for output in benchmark.outputs:
        if output.context_id not in contexts:
            raise DataError(
                f"{name}: output {output.id!r} refers to context {output.context_id!r}, which does not exist"
            )
    for rating in benchmark.ratings:
        if rating.output_id not in outputs:
            raise DataError(f"{name}: a rating refers to output {rating.output_id!r}, which does not exist")
        if rating.dimension not in dimensions:
            raise DataError(f"{name}: a rating refers to dimension {rating.dimension!r}, which does not exist")
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
