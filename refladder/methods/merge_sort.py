"""PairS (arXiv 2403.16950): the outputs of a context sorted by a judge's comparisons, all contexts side by side.

`pairs-greedy` is a merge sort that believes every answer. `pairs-beam` keeps several paths and prunes those that are
uncertain; its options are `beam`, the number of paths, and `gap`, how far from 1/2 a probability is still uncertain.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from refladder.errors import UsageError
from refladder.methods.contract import Comparisons, EvaluationMethod, Method, MethodResult, MethodSettings
from refladder.methods.measures import Tally
from refladder.methods.pairwise import cells_of, measures_of, no_scores, open_pair_judge, template_of
from refladder.ranking.sorting import beam_sort, comparisons_between, greedy_sort, run_together
from refladder.scoring.judging import first_probabilities
from refladder.scoring.recorded import PAIRS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from refladder.methods.contract import Judge
    from refladder.methods.pairwise import Cell
    from refladder.ranking.sorting import Sort
    from refladder.records import Benchmark, Dimension
    from refladder.scoring.asker import Asker

_BEAM = {"beam": "10", "gap": "0.1"}


class _Sorting(NamedTuple):
    """How a method sorts; `signature` is what its options add to that of the scores."""

    sort: Callable[[Sequence[int]], Sort]
    beam: int = 1
    signature: str = ""


def _greedy(settings: MethodSettings) -> _Sorting:
    settings.own("pairs-greedy", {})
    return _Sorting(greedy_sort)


def _beam(settings: MethodSettings) -> _Sorting:
    options = settings.own("pairs-beam", _BEAM)
    try:
        beam, gap = int(options["beam"]), float(options["gap"])
    except ValueError:
        raise UsageError(
            f"pairs-beam.beam={options['beam']}, pairs-beam.gap={options['gap']}: beam must be a whole number and gap "
            "a number"
        ) from None
    beam_sort([], beam=beam, gap=gap)  # refuses values out of range before anything is asked

    def sort(items: Sequence[int]) -> Sort:
        return beam_sort(items, beam=beam, gap=gap)

    return _Sorting(sort, beam, f"|beam:{beam}|gap:{gap:g}")


def _orders(first: int, second: int, settings: MethodSettings) -> list[tuple[int, int]]:
    return [(first, second), (second, first)][: settings.orders]


def _counted(
    pair_judge: Asker,
    starts: Sequence[tuple[Cell, Sequence[int]]],
    settings: MethodSettings,
    sorting: _Sorting,
) -> MethodResult:
    """Count every sort in a dry run: answers decide which of its comparisons are made.

    A merge shows the item of its left half first, so a sort can only ask the pairs in the order of its start.
    """
    least = most = 0
    for cell, start in starts:
        fewest, limit = comparisons_between(len(cell.outputs), beam=sorting.beam)
        least, most = least + fewest * settings.orders, most + limit * settings.orders
        pairs = [pair for left, right in itertools.combinations(start, 2) for pair in _orders(left, right, settings)]
        pair_judge.count(cell.questions(pairs), settings.orders * limit)
    sentence = f"needs {least:,} to {most:,} comparisons, as its answers make it; counted at most"
    return MethodResult(method=None, notes=(sentence,))


def _method(name: str, sorting_of: Callable[[MethodSettings], _Sorting]) -> EvaluationMethod:
    def run(
        benchmark: Benchmark, dimensions: Sequence[Dimension], judge: Judge, settings: MethodSettings, /
    ) -> MethodResult:
        """Sort every context and dimension; with two orders, a comparison is the mean of both."""
        sorting = sorting_of(settings)
        pair_judge = open_pair_judge(judge, settings, template_of(benchmark, settings))
        starts = [
            (cell, np.random.default_rng(cell.seed(settings)).permutation(len(cell.outputs)).tolist())
            for cell in cells_of(benchmark, dimensions)
        ]
        if settings.dry_run:
            return _counted(pair_judge, starts, settings, sorting)
        tally = Tally()
        answered: list[dict[tuple[int, int], float]] = [{} for _ in starts]

        def ask(asked: list[tuple[int, int, int]]) -> list[float]:
            shown = [(number, pair) for number, *both in asked for pair in _orders(both[0], both[1], settings)]
            questions = [question for number, pair in shown for question in starts[number][0].questions([pair])]
            judgments = tally.ask(pair_judge, questions, "unparsed, so its context cannot be sorted")
            probabilities = first_probabilities(judgments)
            for (number, pair), probability in zip(shown, probabilities.tolist(), strict=True):
                answered[number][pair] = probability
            if settings.orders == 1:
                return [float(value) for value in probabilities]
            return [float((there + 1 - back) / 2) for there, back in probabilities.reshape(-1, 2).tolist()]

        with settings.progress("sorting"):
            orderings, _ = run_together([sorting.sort(start) for _, start in starts], ask)
        scores = no_scores(benchmark, dimensions)
        comparisons = []
        for (cell, _), ordering, asked in zip(starts, orderings, answered, strict=True):
            for output, value in zip(cell.outputs, ordering.scores(len(cell.outputs)), strict=True):
                scores[output.id, cell.dimension.name] = value
            pairs, probabilities = np.array(list(asked), dtype=np.int64), np.array(list(asked.values()))
            comparisons.append(Comparisons(**cell._asdict(), pairs=pairs.reshape(-1, 2), probabilities=probabilities))
        signature = f"{name}|{pair_judge.signature}|orders:{settings.orders}|seed:{settings.seed}{sorting.signature}"
        return MethodResult(
            method=Method(name=name, signature=signature, scores=scores),
            **tally.counts(measures_of(comparisons)),
            comparisons=comparisons,
            notes=tally.notes(),
        )

    return EvaluationMethod(run=run, recorded=PAIRS)


pairs_greedy = _method("pairs-greedy", _greedy)
pairs_beam = _method("pairs-beam", _beam)
