"""PairS: the outputs of a context sorted by a judge's comparisons, all contexts side by side."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from refladder.errors import UsageError
from refladder.methods.contract import Comparisons, Method, MethodResult, MethodSettings
from refladder.methods.measures import joined
from refladder.methods.pairwise import Tally, groups, measures_of, open_pair_judge, seed_of, template_of
from refladder.ranking.sorting import beam_sort, comparisons_between, greedy_sort, run_together
from refladder.scoring.pairs import first_probabilities, pair_question

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from refladder.methods.contract import Judge
    from refladder.ranking.sorting import Sort
    from refladder.records import Benchmark, Context, Dimension, Output
    from refladder.scoring.asker import Asker

_BEAM = {"beam": "10", "gap": "0.1"}


def pairs_greedy(
    benchmark: Benchmark, dimensions: Sequence[Dimension], judge: Judge, settings: MethodSettings, /
) -> MethodResult:
    """PairS-greedy: merge sort that believes every answer (arXiv 2403.16950)."""
    settings.own("pairs-greedy", {})
    return _sorted(benchmark, dimensions, judge, settings, name="pairs-greedy", sort=greedy_sort)


def pairs_beam(
    benchmark: Benchmark, dimensions: Sequence[Dimension], judge: Judge, settings: MethodSettings, /
) -> MethodResult:
    """PairS-beam: merge sort with a beam and uncertainty pruning (arXiv 2403.16950).

    Options: `beam`, paths kept; `gap`, how far from 1/2 a probability is still uncertain.
    """
    own = settings.own("pairs-beam", _BEAM)
    try:
        beam, gap = int(own["beam"]), float(own["gap"])
    except ValueError:
        raise UsageError(
            f"pairs-beam.beam={own['beam']}, pairs-beam.gap={own['gap']}: beam must be a whole number and gap a number"
        ) from None
    beam_sort([], beam=beam, gap=gap)  # refuses what is out of range before anything is asked

    def sort(items: Sequence[int]) -> Sort:
        return beam_sort(items, beam=beam, gap=gap)

    return _sorted(
        benchmark,
        dimensions,
        judge,
        settings,
        name="pairs-beam",
        sort=sort,
        beam=beam,
        signature=f"|beam:{beam}|gap:{gap:g}",
    )


def _sorted(
    benchmark: Benchmark,
    dimensions: Sequence[Dimension],
    judge: Judge,
    settings: MethodSettings,
    *,
    name: str,
    sort: Callable[[Sequence[int]], Sort],
    beam: int = 1,
    signature: str = "",
) -> MethodResult:
    """Sort every context and dimension; with two orders, a comparison is the mean of both."""
    pair_judge = open_pair_judge(benchmark, judge, settings, template_of(benchmark, settings))
    cells = [(context, dimension, own) for context, own in groups(benchmark) for dimension in dimensions]
    tally = Tally()
    answered: list[dict[tuple[int, int], float]] = [{} for _ in cells]

    def ask(asked: list[tuple[int, int, int]]) -> list[float]:
        shown = [
            (number, *pair)
            for number, first, second in asked
            for pair in ((first, second), (second, first))[: settings.orders]
        ]
        questions = [
            pair_question(cells[number][0], cells[number][1], cells[number][2][first], cells[number][2][second])
            for number, first, second in shown
        ]
        judgments = tally.ask(pair_judge, questions, "unreadable, so that its context cannot be sorted")
        found = first_probabilities(judgments)
        for (number, first, second), probability in zip(shown, found.tolist(), strict=True):
            answered[number][first, second] = probability
        if settings.orders == 1:
            return [float(value) for value in found]
        return [float((there + 1 - back) / 2) for there, back in found.reshape(-1, 2).tolist()]

    starts = []
    for context, dimension, outputs in cells:
        random = np.random.default_rng(seed_of(settings, context.id, dimension.name))
        starts.append(random.permutation(len(outputs)).tolist())
    if pair_judge.backend.only_counts:
        return _counted(name, pair_judge, cells, starts, orders=settings.orders, beam=beam)
    with settings.progress("sorting"):
        found, _ = run_together([sort(start) for start in starts], ask)
    scores: dict[tuple[str, str], float | None] = {
        (output.id, dimension.name): None for output in benchmark.outputs for dimension in dimensions
    }
    comparisons = []
    for (context, dimension, outputs), one, asked in zip(cells, found, answered, strict=True):
        for output, value in zip(outputs, one.scores(len(outputs)), strict=True):
            scores[output.id, dimension.name] = value
        comparisons.append(
            Comparisons(
                context=context,
                dimension=dimension,
                outputs=outputs,
                pairs=np.array(list(asked), dtype=np.int64).reshape(-1, 2),
                probabilities=np.array(list(asked.values()), dtype=np.float64),
            )
        )
    return MethodResult(
        method=Method(
            name=name,
            signature=f"{name}|{pair_judge.signature}|orders:{settings.orders}|seed:{settings.seed}{signature}",
            scores=scores,
        ),
        judgments=tally.judgments,
        reused=tally.reused,
        unreadable=tally.unreadable,
        characters=tally.characters,
        measures=joined([tally.measures, measures_of(comparisons)]),
        comparisons=comparisons,
        notes=tally.notes(),
    )


def _counted(
    name: str,
    judge: Asker,
    cells: Sequence[tuple[Context, Dimension, tuple[Output, ...]]],
    starts: Sequence[Sequence[int]],
    *,
    orders: int,
    beam: int,
) -> MethodResult:
    """Let a backend that only counts know what the sorts may ask: which comparisons, their answers will tell.

    A merge shows the item of its left half first, so a sort can only ask the pairs in the order of its start.
    """
    least = most = 0
    for (context, dimension, outputs), start in zip(cells, starts, strict=True):
        fewest, limit = comparisons_between(len(outputs), beam=beam)
        least, most = least + fewest, most + limit
        questions = [
            pair_question(context, dimension, outputs[first], outputs[second])
            for one, other in itertools.combinations(start, 2)
            for first, second in ((one, other), (other, one))[:orders]
        ]
        judge.ask_at_most(questions, orders * limit)
    scores = {(output.id, dimension.name): None for _, dimension, outputs in cells for output in outputs}
    return MethodResult(
        method=Method(name=name, signature=name, scores=scores),
        notes=(f"needs {least * orders:,} to {most * orders:,} comparisons, as its answers make it; counted at most",),
    )
