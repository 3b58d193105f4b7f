"""Methods that compare the outputs of a context with each other and turn the answers into scores.

PairS (arXiv 2403.16950) sorts the outputs of a context by comparisons, all contexts side by side: `pairs-greedy` is a
merge sort that believes every answer, `pairs-beam` keeps several paths and prunes those that are uncertain. Its options
are `beam`, the number of paths, and `gap`, how far from 1/2 a probability is still uncertain.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from refladder.errors import UsageError
from refladder.methods.contract import (
    Comparisons,
    EvaluationMethod,
    Method,
    MethodResult,
    MethodSettings,
    by_context,
)
from refladder.methods.measures import Measures, Part, Tally, add
from refladder.prompts import load_template
from refladder.ranking import bias, estimators
from refladder.ranking.likelihood import likelihood_ranking
from refladder.ranking.selection import all_pairs, select_pairs
from refladder.ranking.sorting import beam_sort, comparisons_between, greedy_sort, run_together
from refladder.records import digest_of
from refladder.scoring.asker import Asker, judging_template, run_of
from refladder.scoring.judging import first_probabilities
from refladder.scoring.question import pair_question
from refladder.scoring.recorded import PAIRS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from refladder.arrays import FloatArray, IntArray
    from refladder.methods.contract import Judge
    from refladder.prompts import Template
    from refladder.ranking.sorting import Sort
    from refladder.records import Benchmark, Context, Dimension, Output
    from refladder.scoring.question import Question

    Estimator = Callable[["Comparisons", float], FloatArray]

_MORE = "; read label probabilities instead (--answers 0), or sample more answers"
_BEAM = {"beam": "10", "gap": "0.1"}
PRIOR = 0.01  # of a tie, added to every comparison, so that a text that always wins has a finite strength


def template_of(benchmark: Benchmark, settings: MethodSettings) -> Template:
    """The benchmark's template of role pairwise."""
    if not benchmark.contexts:
        raise UsageError(f"{benchmark.name} has no contexts; there is nothing to compare")
    return load_template(benchmark.contexts[0].task, "pairwise", settings.prompts)


def open_pair_judge(judge: Judge, settings: MethodSettings, template: Template) -> Asker:
    """The judge of pairs of a run; what it answers is shared by the run's methods and kept in the work folder."""
    backend = judge()
    if backend.rewards:
        folder, answers = settings.prompts, settings.answers
        template = judging_template(backend, template.task, template.role, folder, answers=answers)
    run = run_of(backend, template, answers=settings.answers, sampling=settings.sampling)
    name = f"{run.recipe.digest}-{settings.answers}"
    return Asker(
        backend, template, settings.judgments(f"pairwise-{name}.jsonl", run), settings.least_mass
    )


def seed_of(settings: MethodSettings, *names: str) -> int:
    """A seed for one part of a run, the same wherever that part stands."""
    return int(digest_of(str(settings.seed), *names), 16)


class Cell(NamedTuple):
    """The outputs of one context, two or more, that are compared on one dimension."""

    context: Context
    dimension: Dimension
    outputs: tuple[Output, ...]

    def seed(self, settings: MethodSettings) -> int:
        """A seed of its own."""
        return seed_of(settings, self.context.id, self.dimension.name)

    def questions(self, pairs: Iterable[Sequence[int]]) -> list[Question]:
        """A question for each pair of positions of outputs."""
        return [
            pair_question(self.context, self.dimension, self.outputs[first], self.outputs[second])
            for first, second in pairs
        ]


def cells_of(benchmark: Benchmark, dimensions: Sequence[Dimension]) -> list[Cell]:
    """The contexts that have two outputs or more, on each dimension."""
    compared = [
        (context, tuple(outputs)) for context, outputs in by_context(benchmark) if len(outputs) > 1
    ]
    if not compared:
        raise UsageError(
            f"{benchmark.name} has no context with two outputs, so there is no pair to compare; use a method that "
            "scores outputs one by one, such as ladder"
        )
    return [
        Cell(context, dimension, outputs)
        for context, outputs in compared
        for dimension in dimensions
    ]


def choose_pairs(
    benchmark: Benchmark, dimensions: Sequence[Dimension], settings: MethodSettings
) -> list[tuple[Cell, IntArray]]:
    """The pairs of every context and dimension, shape (R, 2): all of them, or as many as the budget allows."""
    chosen = []
    for cell in cells_of(benchmark, dimensions):
        items = len(cell.outputs)
        try:
            pairs = (
                all_pairs(items)
                if settings.budget is None
                else select_pairs(items, settings.budget, settings.selection, cell.seed(settings))
            )
        except UsageError as error:
            raise UsageError(f"context {cell.context.id!r}: {error}") from error
        chosen.append((cell, pairs))
    return chosen


def compare_all(
    benchmark: Benchmark, dimensions: Sequence[Dimension], judge: Asker, settings: MethodSettings
) -> tuple[Sequence[Comparisons], Tally]:
    """Ask about the pairs of `choose_pairs`; methods of a run that compare the same pairs share the comparisons."""
    made = settings.shared.comparisons
    key = (
        id(benchmark),
        tuple(dimensions),
        signature_of(judge, settings),
        settings.work,
        settings.seed,
    )
    if key in made:
        _, comparisons, tally = made[key]
        return comparisons, replace(tally, reused=tally.judgments, reasons=tally.reasons.copy())
    chosen = choose_pairs(benchmark, dimensions, settings)
    questions = [question for cell, pairs in chosen for question in cell.questions(pairs.tolist())]
    tally = Tally()
    with settings.progress("comparing") as progress:
        judgments = tally.ask(judge, questions, progress=progress)
    ends = np.cumsum([len(pairs) for _, pairs in chosen])
    probabilities = np.split(first_probabilities(judgments), ends[:-1])
    comparisons = [
        Comparisons(**cell._asdict(), pairs=pairs, probabilities=read)
        for (cell, pairs), read in zip(chosen, probabilities, strict=True)
    ]
    made[key] = benchmark, comparisons, replace(tally, reasons=tally.reasons.copy())
    return comparisons, tally


def signature_of(judge: Asker, settings: MethodSettings) -> str:
    """What determines the answers about all pairs, or those that the budget allows."""
    chosen = (
        "all"
        if settings.budget is None
        else f"{settings.selection},{settings.budget},seed{settings.seed}"
    )
    return f"{judge.signature}|pairs:{chosen}"


def measures_of(comparisons: Sequence[Comparisons]) -> Measures:
    """The shares of the report card that comparisons give beside those of their judgments."""
    measures: Measures = {}
    for compared in comparisons:
        cell = compared.dimension.name, compared.context.id
        hard = estimators.decisions(compared.probabilities)
        read = hard[~np.isnan(hard)]
        add(measures, Part("first", *cell), float(read.sum()), read.size)
        add(measures, Part("inconsistency", *cell), *bias.inconsistency(*compared.arrays))
        add(measures, Part("intransitive", *cell), *bias.intransitive_triples(*compared.arrays))
    return measures


def no_scores(
    benchmark: Benchmark, dimensions: Sequence[Dimension]
) -> dict[tuple[str, str], float | None]:
    """None for every output on every dimension."""
    return {
        (output.id, dimension.name): None
        for output in benchmark.outputs
        for dimension in dimensions
    }


def scores_of(
    benchmark: Benchmark,
    dimensions: Sequence[Dimension],
    comparisons: Sequence[Comparisons],
    estimator: Estimator,
    tally: Tally,
) -> dict[tuple[str, str], float | None]:
    """The score of every output, by an estimator given the comparisons of a context and the mean of its dimension."""
    means = {
        name: _mean(probabilities) for name, probabilities in _by_dimension(comparisons).items()
    }
    scores = no_scores(benchmark, dimensions)
    for compared in comparisons:
        dimension = compared.dimension.name
        try:
            values = estimator(compared, means[dimension]).tolist()
        except UsageError as error:
            tally.reasons[f"context {compared.context.id!r}, {dimension}: {error}"] += 1
            continue
        for output, value in zip(compared.outputs, values, strict=True):
            scores[output.id, dimension] = None if math.isnan(value) else value
    return scores


def win_ratios(comparisons: Comparisons, _mean_of_dimension: float) -> FloatArray:
    """Win ratio as an estimator of this module."""
    return estimators.win_ratio(*comparisons.arrays)


def _by_dimension(comparisons: Sequence[Comparisons]) -> dict[str, FloatArray]:
    """The probabilities of each dimension, over all contexts."""
    answers: dict[str, list[FloatArray]] = {}
    for context in comparisons:
        answers.setdefault(context.dimension.name, []).append(context.probabilities)
    return {name: np.concatenate(parts) for name, parts in answers.items()}


def _mean(probabilities: FloatArray) -> float:
    """The mean of those that were read; NaN when none was."""
    read = probabilities[~np.isnan(probabilities)]
    return float(read.mean()) if read.size else math.nan


def _thresholds(
    comparisons: Sequence[Comparisons], *, sampled: bool
) -> tuple[dict[str, float], list[str]]:
    """The threshold of each dimension at which P(first) is nearest to 1/2, and a note for each where it is not near."""
    thresholds, notes = {}, []
    for name, probabilities in _by_dimension(comparisons).items():
        threshold = bias.fit_threshold(probabilities)
        first = bias.share_of_first(probabilities, threshold)
        changed = not math.isnan(threshold) and threshold != 0.5
        if changed:
            thresholds[name] = threshold
        if abs(first - 0.5) > bias.NEAR:
            outcome = (
                f"the best threshold, {threshold:.3f}, leaves P(first) at {first:.3f}"
                if changed
                else f"no threshold that leaves ties alone brings P(first) near 1/2 (it stays at {first:.3f}), so p is "
                "used as it is"
            )
            notes.append(f"{name}: {outcome}{_MORE if sampled else ''}")
    return thresholds, notes


def _mean_probabilities(comparisons: Comparisons, _mean_of_dimension: float) -> FloatArray:
    return estimators.mean_probability(*comparisons.arrays)


def _method(name: str, estimator: Estimator, *, debiased: bool = False) -> EvaluationMethod:
    """The method that asks about all pairs, or those that the budget allows, and applies an estimator.

    With `debiased`, the position bias is taken out by a threshold for each dimension, fitted over all contexts; the
    comparisons of the result stay as the judge gave them.
    """

    def run(
        benchmark: Benchmark,
        dimensions: Sequence[Dimension],
        judge: Judge,
        settings: MethodSettings,
        /,
    ) -> MethodResult:
        settings.own(name, {})
        pair_judge = open_pair_judge(judge, settings, template_of(benchmark, settings))
        comparisons, tally = compare_all(benchmark, dimensions, pair_judge, settings)
        if settings.dry_run:
            return MethodResult(method=None)
        thresholds, notes = (
            _thresholds(comparisons, sampled=settings.answers > 0) if debiased else ({}, [])
        )
        used = [context.debiased(thresholds) for context in comparisons]
        scores = scores_of(benchmark, dimensions, used, estimator, tally)
        signature = f"{name}|{signature_of(pair_judge, settings)}"
        return MethodResult(
            method=Method(name=name, signature=signature, scores=scores),
            **tally.counts(measures_of(used)),
            comparisons=comparisons,
            thresholds=thresholds,
            notes=(*notes, *tally.notes()),
        )

    return EvaluationMethod(run=run, recorded=PAIRS)


# arXiv 2307.07889: equation 6 (win ratio), 9 and 10 (debiasing a probability and a win), appendix B (likelihood).
win_ratio = _method("win-ratio", win_ratios)
win_ratio_debiased = _method("win-ratio-debiased", win_ratios, debiased=True)
mean_probability = _method("mean-probability", _mean_probabilities)
mean_probability_debiased = _method("mean-probability-debiased", _mean_probabilities, debiased=True)
bradley_terry = _method(
    "bradley-terry",
    lambda each, _: estimators.bradley_terry(*each.arrays, prior=PRIOR, names=each.names),
)
product_of_experts = _method(  # arXiv 2405.05894, with one position bias for each dimension
    "poe",
    lambda each, mean: estimators.product_of_experts(
        *each.arrays, position_bias=mean, names=each.names
    ),
)
likelihood = _method(
    "likelihood", lambda each, _: likelihood_ranking(*each.arrays, names=each.names)
)


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
        pairs = [
            pair
            for left, right in itertools.combinations(start, 2)
            for pair in _orders(left, right, settings)
        ]
        pair_judge.count(cell.questions(pairs), settings.orders * limit)
    sentence = f"needs {least:,} to {most:,} comparisons, as its answers make it; counted at most"
    return MethodResult(method=None, notes=(sentence,))


def _sort_method(name: str, sorting_of: Callable[[MethodSettings], _Sorting]) -> EvaluationMethod:
    def run(
        benchmark: Benchmark,
        dimensions: Sequence[Dimension],
        judge: Judge,
        settings: MethodSettings,
        /,
    ) -> MethodResult:
        """Sort every context and dimension; with two orders, a comparison is the mean of both."""
        sorting = sorting_of(settings)
        pair_judge = open_pair_judge(judge, settings, template_of(benchmark, settings))
        starts = [
            (
                cell,
                np.random.default_rng(cell.seed(settings)).permutation(len(cell.outputs)).tolist(),
            )
            for cell in cells_of(benchmark, dimensions)
        ]
        if settings.dry_run:
            return _counted(pair_judge, starts, settings, sorting)
        tally = Tally()
        answered: list[dict[tuple[int, int], float]] = [{} for _ in starts]

        def ask(asked: list[tuple[int, int, int]]) -> list[float]:
            shown = [
                (number, pair)
                for number, *both in asked
                for pair in _orders(both[0], both[1], settings)
            ]
            questions = [
                question
                for number, pair in shown
                for question in starts[number][0].questions([pair])
            ]
            judgments = tally.ask(
                pair_judge, questions, "unparsed, so its context cannot be sorted"
            )
            probabilities = first_probabilities(judgments)
            for (number, pair), probability in zip(shown, probabilities.tolist(), strict=True):
                answered[number][pair] = probability
            if settings.orders == 1:
                return [float(value) for value in probabilities]
            return [
                float((there + 1 - back) / 2)
                for there, back in probabilities.reshape(-1, 2).tolist()
            ]

        with settings.progress("sorting"):
            orderings, _ = run_together([sorting.sort(start) for _, start in starts], ask)
        scores = no_scores(benchmark, dimensions)
        comparisons = []
        for (cell, _), ordering, asked in zip(starts, orderings, answered, strict=True):
            for output, value in zip(cell.outputs, ordering.scores(len(cell.outputs)), strict=True):
                scores[output.id, cell.dimension.name] = value
            pairs, probabilities = (
                np.array(list(asked), dtype=np.int64),
                np.array(list(asked.values())),
            )
            comparisons.append(
                Comparisons(
                    **cell._asdict(), pairs=pairs.reshape(-1, 2), probabilities=probabilities
                )
            )
        signature = f"{name}|{pair_judge.signature}|orders:{settings.orders}|seed:{settings.seed}{sorting.signature}"
        return MethodResult(
            method=Method(name=name, signature=signature, scores=scores),
            **tally.counts(measures_of(comparisons)),
            comparisons=comparisons,
            notes=tally.notes(),
        )

    return EvaluationMethod(run=run, recorded=PAIRS)


pairs_greedy = _sort_method("pairs-greedy", _greedy)
pairs_beam = _sort_method("pairs-beam", _beam)
