"""What of a benchmark a ladder set and recorded judgments are about: the rest is left out, and said, before a run."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from refladder.errors import UsageError, option, plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from refladder.files.ladder_sets import LadderSet
    from refladder.records import Benchmark, Dimension
    from refladder.scoring.recorded import Recorded


def covered(
    benchmark: Benchmark,
    dimensions: Sequence[Dimension],
    ladders: LadderSet | None,
    recorded: Recorded | None = None,
    *,
    named: bool = False,
) -> tuple[Benchmark, Sequence[Dimension], tuple[str, ...]]:
    """Return the part of a benchmark with ladders and recorded judgments, its dimensions, and what is left out.

    Left out are the dimensions without ladders or recorded judgments (unless the user `named` them), the contexts
    without a ladder, and the outputs without a recorded judgment. A ladder that could not be written is no reason.
    """
    notes: list[str] = []
    if not named:
        dimensions = _dimensions(benchmark, dimensions, ladders, recorded, notes)
    names = {dimension.name for dimension in dimensions}
    outputs = list(benchmark.outputs)
    if ladders is not None and not ladders.anchors:
        ids = {
            context_id
            for context_id, name in (*ladders.ladders, *ladders.failures)
            if name in names
        }
        count = sum(context.id in ids for context in benchmark.contexts)
        if not count:
            raise UsageError(
                f"{ladders.name} has no ladder for any context of {benchmark.name}; the ladders were written for other "
                f"data: name others with {option('ladders')}"
            )
        if count < len(benchmark.contexts):
            outputs = [output for output in outputs if output.context_id in ids]
            notes.append(
                f"{benchmark.name}: {count:,} of {plural(len(benchmark.contexts), 'context')} "
                f"{'has a ladder' if count == 1 else 'have ladders'} in {ladders.name}; the others, and their "
                f"{plural(len(benchmark.outputs) - len(outputs), 'output')}, are left out"
            )
    if recorded is not None:
        judged = recorded.on(names).outputs()
        among = len(outputs)
        outputs = [output for output in outputs if (output.context_id, output.id) in judged]
        if len(outputs) < among:
            notes.append(
                f"{benchmark.name}: {len(outputs):,} of {plural(among, 'output')} "
                f"{'has' if len(outputs) == 1 else 'have'} recorded judgments; the others are left out"
            )
    if len(outputs) == len(benchmark.outputs):
        return benchmark, dimensions, tuple(notes)
    left, contexts = {output.id for output in outputs}, {output.context_id for output in outputs}
    part = replace(
        benchmark,
        contexts=tuple(context for context in benchmark.contexts if context.id in contexts),
        outputs=tuple(outputs),
        ratings=tuple(rating for rating in benchmark.ratings if rating.output_id in left),
    )
    return part, dimensions, tuple(notes)


def _dimensions(
    benchmark: Benchmark,
    dimensions: Sequence[Dimension],
    ladders: LadderSet | None,
    recorded: Recorded | None,
    notes: list[str],
) -> Sequence[Dimension]:
    needed: dict[str, set[str]] = {}
    if ladders is not None:
        needed[f"ladders in {ladders.name}"] = {dimension.name for dimension in ladders.dimensions}
    if recorded is not None:
        needed["recorded judgments"] = recorded.dimensions()
    for which, names in needed.items():
        kept = [dimension for dimension in dimensions if dimension.name in names]
        without = ", ".join(
            dimension.name for dimension in dimensions if dimension.name not in names
        )
        if not kept:
            raise UsageError(
                f"{benchmark.name}: no {which} on {without}, but on {', '.join(sorted(names))}; name others"
            )
        if without:
            notes.append(f"{benchmark.name}: no {which} on {without}; left out")
        dimensions = kept
    return dimensions
