"""PairS (arXiv 2403.16950): the outputs of a context sorted by a judge's comparisons, all contexts side by side.

`pairs-greedy` is a merge sort that believes every answer. `pairs-beam` keeps several paths and prunes those that are
uncertain; its options are `beam`, the number of paths, and `gap`, how far from 1/2 a probability is still uncertain.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from refladder.backends.estimate import Unanswered
from refladder.errors import UsageError
from refladder.methods.contract import Comparisons, EvaluationMethod, Method, MethodResult, MethodSettings
from refladder.methods.measures import joined
from refladder.methods.pairwise import groups, measures_of, open_pair_judge, seed_of, template_of
from refladder.methods.tally import Tally
from refladder.ranking.sorting import beam_sort, comparisons_between, greedy_sort, run_together
from refladder.scoring.pairs import first_probabilities, pair_question
from refladder.scoring.recorded import PAIRS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from refladder.methods.contract import Judge
    from refladder.ranking.sorting import Sort
    from refladder.records import Benchmark, Context, Dimension, Output
    from refladder.scoring.asker import Asker
    from refladder.scoring.question import Question

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


class _Cell(NamedTuple):
    """The outputs of one context to sort on one dimension, and the random order in which the sort begins."""

    context: Context
    dimension: Dimension
    outputs: tuple[Output, ...]
    start: list[int]

    def question(self, first: int, second: int) -> Question:
        return pair_question(self.context, self.dimension, self.outputs[first], self.outputs[second])


def _cells(benchmark: Benchmark, dimensions: Sequence[Dimension], settings: MethodSettings) -> list[_Cell]:
    cells = []
    for context, outputs in groups(benchmark):
        for dimension in dimensions:
            random = np.random.default_rng(seed_of(settings, context.id, dimension.name))
            cells.append(_Cell(context, dimension, outputs, random.permutation(len(outputs)).tolist()))
    return cells


def _orders(first: int, second: int, settings: MethodSettings) -> list[tuple[int, int]]:
    return [(first, second), (second, first)][: settings.orders]


def _counted(
    pair_judge: Asker, backend: Unanswered, cells: Sequence[_Cell], settings: MethodSettings, sorting: _Sorting
) -> MethodResult:
    """Count every sort in a dry run: answers decide which of its comparisons are made.

    A merge shows the item of its left half first, so a sort can only ask the pairs in the order of its start.
    """
    least = most = 0
    for cell in cells:
        fewest, limit = comparisons_between(len(cell.outputs), beam=sorting.beam)
        least, most = least + fewest, most + limit
        questions = [
            cell.question(*pair)
            for left, right in itertools.combinations(cell.start, 2)
            for pair in _orders(left, right, settings)
        ]
        with backend.at_most(settings.orders * limit):
            pair_judge.judge(pair_judge.log.unanswered(questions))
    least, most = least * settings.orders, most * settings.orders
    sentence = f"needs {least:,} to {most:,} comparisons, as its answers make it; counted at most"
    return MethodResult(method=None, notes=(sentence,))


def _method(name: str, sorting_of: Callable[[MethodSettings], _Sorting]) -> EvaluationMethod:
    def run(
        benchmark: Benchmark, dimensions: Sequence[Dimension], judge: Judge, settings: MethodSettings, /
    ) -> MethodResult:
        """Sort every context and dimension; with two orders, a comparison is the mean of both."""
        sorting = sorting_of(settings)
        pair_judge = open_pair_judge(benchmark, judge, settings, template_of(benchmark, settings))
        cells = _cells(benchmark, dimensions, settings)
        if isinstance(pair_judge.backend, Unanswered):
            return _counted(pair_judge, pair_judge.backend, cells, settings, sorting)
        tally = Tally()
        answered: list[dict[tuple[int, int], float]] = [{} for _ in cells]

        def ask(asked: list[tuple[int, int, int]]) -> list[float]:
            shown = [(number, *pair) for number, first, second in asked for pair in _orders(first, second, settings)]
            questions = [cells[number].question(first, second) for number, first, second in shown]
            judgments = tally.ask(pair_judge, questions, "unparsed, so its context cannot be sorted")
            probabilities = first_probabilities(judgments)
            for (number, first, second), probability in zip(shown, probabilities.tolist(), strict=True):
                answered[number][first, second] = probability
            if settings.orders == 1:
                return [float(value) for value in probabilities]
            return [float((there + 1 - back) / 2) for there, back in probabilities.reshape(-1, 2).tolist()]

        with settings.progress("sorting"):
            orderings, _ = run_together([sorting.sort(cell.start) for cell in cells], ask)
        scores: dict[tuple[str, str], float | None] = {
            (output.id, dimension.name): None for output in benchmark.outputs for dimension in dimensions
        }
        comparisons = []
        for cell, ordering, asked in zip(cells, orderings, answered, strict=True):
            for output, value in zip(cell.outputs, ordering.scores(len(cell.outputs)), strict=True):
                scores[output.id, cell.dimension.name] = value
            comparisons.append(
                Comparisons(
                    context=cell.context,
                    dimension=cell.dimension,
                    outputs=cell.outputs,
                    pairs=np.array(list(asked), dtype=np.int64).reshape(-1, 2),
                    probabilities=np.array(list(asked.values()), dtype=np.float64),
                )
            )
        return MethodResult(
            method=Method(
                name=name,
                signature=f"{name}|{pair_judge.signature}|orders:{settings.orders}|seed:{settings.seed}{sorting.signature}",
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

    return EvaluationMethod(run=run, recorded=PAIRS)


pairs_greedy = _method("pairs-greedy", _greedy)
pairs_beam = _method("pairs-beam", _beam)
