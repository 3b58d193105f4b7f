"""Methods that compare the outputs of a context with each other and turn the answers into scores.

PairS (arXiv 2403.16950) sorts the outputs of a context by comparisons, all contexts side by side. `pairs-greedy` is a
merge sort that follows every answer. `pairs-beam` keeps several paths and branches at uncertain answers. Its options
are `beam`, the number of paths, and `gap`, the distance from 1/2 up to which a probability is uncertain.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from refladder.arrays import known_mean, known_numbers
from refladder.errors import UsageError
from refladder.methods.contract import (
    Comparisons,
    EvaluationMethod,
    Method,
    MethodResult,
    MethodSettings,
    by_context,
)
from refladder.methods.measures import Measures, Part, Tally
from refladder.prompts import load_template
from refladder.records import digest_of, ids_of, names_of
from refladder.scoring.asker import Asker, judging_template, run_of
from refladder.scoring.question import pair_question
from refladder.scoring.recorded import PAIRS
from refladder.scoring.verdicts import first_probabilities
from refladder.statistics import bias, estimators
from refladder.statistics.likelihood import likelihood_ranking
from refladder.statistics.selection import all_pairs, select_pairs
from refladder.statistics.sorting import beam_sort, comparisons_between, run_together

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from refladder.arrays import FloatArray, IntArray
    from refladder.methods.contract import Judge
    from refladder.prompts import Template
    from refladder.records import Benchmark, Context, Dimension, Output
    from refladder.scoring.question import Question

    Estimator = Callable[["Comparisons", float], FloatArray]

_MORE = "; read label probabilities instead (--answers 0), or sample more answers"
# Share of a tie added to every comparison, so that a text that always wins has a finite strength.
PRIOR = 0.01


def template_of(benchmark: Benchmark, settings: MethodSettings) -> Template:
    """Load the template of role `pairwise` for the benchmark's task."""
    if not benchmark.contexts:
        raise UsageError(f"{benchmark.name} has no contexts; there is nothing to compare")
    return load_template(benchmark.contexts[0].task, "pairwise", settings.prompts)


def open_pair_judge(judge: Judge, settings: MethodSettings, template: Template) -> Asker:
    """Open the judge of pairs of a run. Methods of the run share its answers; the work folder keeps them."""
    backend = judge()
    if backend.rewards:
        template = judging_template(
            backend, template.task, template.role, settings.prompts, answers=settings.sampled
        )
    sampling = settings.sampling if settings.sampled else None
    run = run_of(backend, template, answers=settings.sampled, sampling=sampling)
    log = settings.judgments(f"pairwise-{run.recipe.digest}-{settings.sampled}.jsonl", run)
    return Asker(backend, template, log, settings.least_mass)


def seed_of(settings: MethodSettings, *names: str) -> int:
    """Derive a seed for one part of a run from the names of that part, wherever it comes in the run."""
    return int(digest_of(str(settings.seed), *names), 16)


class Cell(NamedTuple):
    """The outputs of one context, two or more, that are compared on one dimension."""

    context: Context
    dimension: Dimension
    outputs: tuple[Output, ...]

    def seed(self, settings: MethodSettings) -> int:
        """Return a seed of its own."""
        return seed_of(settings, self.context.id, self.dimension.name)

    def questions(self, pairs: Iterable[Sequence[int]]) -> list[Question]:
        """Write a question for each pair of positions of outputs."""
        return [self.question(first, second) for first, second in pairs]

    def question(self, first: int, second: int) -> Question:
        """Write the question about two positions of outputs."""
        return pair_question(
            self.context, self.dimension, self.outputs[first], self.outputs[second]
        )

    def compared(self, pairs: IntArray, probabilities: FloatArray) -> Comparisons:
        """Return these pairs with the probabilities that the first is better."""
        return Comparisons(**self._asdict(), pairs=pairs, probabilities=probabilities)


def cells_of(benchmark: Benchmark, dimensions: Sequence[Dimension]) -> list[Cell]:
    """List the contexts with at least two outputs, on each dimension."""
    cells = []
    for context, outputs in by_context(benchmark):
        if len(outputs) > 1:
            cells += [Cell(context, dimension, tuple(outputs)) for dimension in dimensions]
    if not cells:
        raise UsageError(
            f"{benchmark.name} has no context with two outputs, so there is no pair to compare; use a method that "
            "scores outputs one by one, such as ladder"
        )
    return cells


def choose_pairs(
    benchmark: Benchmark, dimensions: Sequence[Dimension], settings: MethodSettings
) -> list[tuple[Cell, IntArray]]:
    """Choose the pairs of every context and dimension, shape (R, 2): all, or as many as the budget allows."""
    chosen = []
    for cell in cells_of(benchmark, dimensions):
        items = len(cell.outputs)
        if settings.budget is None:
            chosen.append((cell, all_pairs(items)))
            continue
        seed = cell.seed(settings)
        try:
            pairs = select_pairs(items, settings.budget, settings.selection, seed)
        except UsageError as error:
            raise UsageError(f"context {cell.context.id!r}: {error}") from error
        chosen.append((cell, pairs))
    return chosen


def questions_of(chosen: Iterable[tuple[Cell, IntArray]]) -> list[Question]:
    """Write the questions about chosen pairs, cell by cell."""
    questions: list[Question] = []
    for cell, pairs in chosen:
        questions += cell.questions(pairs.tolist())
    return questions


def split_by_cell(
    chosen: Sequence[tuple[Cell, IntArray]], values: FloatArray
) -> list[tuple[Cell, IntArray, FloatArray]]:
    """Split values, one for each pair, into those of each context and dimension."""
    ends = np.cumsum([len(pairs) for _, pairs in chosen])
    parts = np.split(values, ends[:-1])
    return [(*pairs_of_cell, part) for pairs_of_cell, part in zip(chosen, parts, strict=True)]


def compare_all(
    benchmark: Benchmark, dimensions: Sequence[Dimension], judge: Asker, settings: MethodSettings
) -> tuple[Sequence[Comparisons], Tally]:
    """Ask about the pairs of `choose_pairs`; methods of a run that compare the same pairs share the comparisons."""
    shared = settings.shared.comparisons
    key = (
        id(benchmark),
        tuple(dimensions),
        signature_of(judge, settings),
        settings.work,
        settings.seed,
    )
    if key in shared:
        _, comparisons, tally = shared[key]
        return comparisons, replace(tally, reused=tally.judgments, reasons=tally.reasons.copy())
    chosen = choose_pairs(benchmark, dimensions, settings)
    questions = questions_of(chosen)
    tally = Tally()
    with settings.progress("comparing") as progress:
        judgments = tally.ask(judge, questions, progress=progress)
    answered = split_by_cell(chosen, first_probabilities(judgments))
    comparisons = [cell.compared(pairs, answers) for cell, pairs, answers in answered]
    shared[key] = benchmark, comparisons, replace(tally, reasons=tally.reasons.copy())
    return comparisons, tally


def signature_of(judge: Asker, settings: MethodSettings) -> str:
    """Describe what determines the answers about all pairs, or those that the budget allows."""
    chosen = "all"
    if settings.budget is not None:
        chosen = f"{settings.selection},{settings.budget},seed{settings.seed}"
    return f"{judge.signature}|pairs:{chosen}"


def measures_of(comparisons: Sequence[Comparisons]) -> Measures:
    """Count the shares of the report card that comparisons give beside those of their judgments."""
    measures: Measures = {}
    for compared in comparisons:
        cell = compared.dimension.name, compared.context.id
        hard = estimators.decisions(compared.probabilities)
        parsed = hard[~np.isnan(hard)]
        measures[Part("first", *cell)] = float(parsed.sum()), parsed.size
        measures[Part("inconsistency", *cell)] = bias.inconsistency(*compared.arrays)
        measures[Part("intransitive", *cell)] = bias.intransitive_triples(*compared.arrays)
    return measures


def no_scores(
    benchmark: Benchmark, dimensions: Sequence[Dimension]
) -> dict[tuple[str, str], float | None]:
    """Return None for every output on every dimension."""
    names = names_of(dimensions)
    output_ids = ids_of(benchmark.outputs)
    return dict.fromkeys(itertools.product(output_ids, names))


def scores_of(
    benchmark: Benchmark,
    dimensions: Sequence[Dimension],
    comparisons: Sequence[Comparisons],
    estimator: Estimator,
    tally: Tally,
) -> dict[tuple[str, str], float | None]:
    """Score every output by an estimator of the comparisons of a context and the mean of its dimension."""
    means = {}
    for name, probabilities in _by_dimension(comparisons).items():
        mean = known_mean(probabilities)
        means[name] = math.nan if mean is None else mean
    scores = no_scores(benchmark, dimensions)
    for compared in comparisons:
        dimension = compared.dimension.name
        try:
            values = estimator(compared, means[dimension])
        except UsageError as error:
            tally.reasons[f"context {compared.context.id!r}, {dimension}: {error}"] += 1
            continue
        for output, value in zip(compared.outputs, known_numbers(values), strict=True):
            scores[output.id, dimension] = value
    return scores


def win_ratios(comparisons: Comparisons, _mean_of_dimension: float) -> FloatArray:
    """Return the win ratio as an estimator of this module."""
    return estimators.win_ratio(*comparisons.arrays)


def _by_dimension(comparisons: Sequence[Comparisons]) -> dict[str, FloatArray]:
    """Collect the probabilities of each dimension over all contexts."""
    answers: defaultdict[str, list[FloatArray]] = defaultdict(list)
    for compared in comparisons:
        answers[compared.dimension.name].append(compared.probabilities)
    return {name: np.concatenate(parts) for name, parts in answers.items()}


def _thresholds(
    comparisons: Sequence[Comparisons], *, sampled: bool
) -> tuple[dict[str, float], list[str]]:
    """Find the threshold of each dimension that brings P(first) nearest to 1/2. Note dimensions where it is not near."""
    thresholds = {}
    notes = []
    for name, probabilities in _by_dimension(comparisons).items():
        threshold = bias.fit_threshold(probabilities)
        first = bias.share_of_first(probabilities, threshold)
        changed = not math.isnan(threshold) and threshold != 0.5
        if changed:
            thresholds[name] = threshold
        if abs(first - 0.5) > bias.NEAR:
            if changed:
                outcome = f"the best threshold, {threshold:.3f}, leaves P(first) at {first:.3f}"
            else:
                outcome = (
                    f"no threshold that leaves ties alone brings P(first) near 1/2 (it stays at {first:.3f}), so p is "
                    "used as it is"
                )
            notes.append(f"{name}: {outcome}{_MORE if sampled else ''}")
    return thresholds, notes


def _mean_probabilities(comparisons: Comparisons, _mean_of_dimension: float) -> FloatArray:
    return estimators.mean_probability(*comparisons.arrays)


def _method(name: str, estimator: Estimator, *, debiased: bool = False) -> EvaluationMethod:
    """Make a method that asks about all pairs, or those that the budget allows, and applies an estimator.

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
        thresholds: dict[str, float] = {}
        notes: list[str] = []
        if debiased:
            thresholds, notes = _thresholds(comparisons, sampled=settings.sampled > 0)
        used = [context.debiased(thresholds) for context in comparisons]
        scores = scores_of(benchmark, dimensions, used, estimator, tally)
        signature = f"{name}|{signature_of(pair_judge, settings)}"
        result = MethodResult(
            method=Method(name=name, signature=signature, scores=scores),
            comparisons=comparisons,
            thresholds=thresholds,
            notes=(*notes, *tally.notes()),
        )
        return result.counted(tally, measures_of(used))

    return EvaluationMethod(run=run, recorded=PAIRS)


# arXiv 2307.07889: equation 6 (win ratio), 9 and 10 (debiasing a probability and a win), appendix B (likelihood).
win_ratio = _method("win-ratio", win_ratios)
win_ratio_debiased = _method("win-ratio-debiased", win_ratios, debiased=True)
mean_probability = _method("mean-probability", _mean_probabilities)
mean_probability_debiased = _method("mean-probability-debiased", _mean_probabilities, debiased=True)
bradley_terry = _method(
    "bradley-terry",
    lambda compared, _: estimators.bradley_terry(
        *compared.arrays, prior=PRIOR, names=compared.names
    ),
)
# arXiv 2405.05894, with one position bias for each dimension.
product_of_experts = _method(
    "poe",
    lambda compared, mean: estimators.product_of_experts(
        *compared.arrays, position_bias=mean, names=compared.names
    ),
)
likelihood = _method(
    "likelihood", lambda compared, _: likelihood_ranking(*compared.arrays, names=compared.names)
)


def _beam_and_gap(options: Mapping[str, str]) -> tuple[int, float]:
    """Return the number of paths and the gap that the options ask for, checked; a greedy sort has no options."""
    if not options:
        return 1, 0.0
    try:
        beam, gap = int(options["beam"]), float(options["gap"])
    except ValueError:
        raise UsageError(
            f"pairs-beam.beam={options['beam']}, pairs-beam.gap={options['gap']}: beam must be a whole number and gap "
            "a number"
        ) from None
    # This refuses values out of range before anything is asked.
    beam_sort([], beam=beam, gap=gap)
    return beam, gap


def _counted(
    pair_judge: Asker,
    starts: Sequence[tuple[Cell, Sequence[int]]],
    orders: int,
    beam: int,
) -> MethodResult:
    """Count every sort in a dry run: answers decide which of its comparisons are made.

    A merge shows the item of its left half first, so a sort can only ask the pairs in the order of its start.
    """
    least = most = 0
    for cell, start in starts:
        fewest, limit = comparisons_between(len(cell.outputs), beam=beam)
        least += fewest * orders
        most += limit * orders
        pairs: list[tuple[int, int]] = []
        for left, right in itertools.combinations(start, 2):
            pairs += [(left, right), (right, left)][:orders]
        pair_judge.count(cell.questions(pairs), limit * orders)
    sentence = f"needs {least:,} to {most:,} comparisons, as its answers make it; counted at most"
    return MethodResult(method=None, notes=(sentence,))


def _random_orders(
    cells: Iterable[Cell], settings: MethodSettings
) -> Iterator[tuple[Cell, list[int]]]:
    for cell in cells:
        random = np.random.default_rng(cell.seed(settings))
        yield cell, random.permutation(len(cell.outputs)).tolist()


def _sort_method(name: str, defaults: Mapping[str, str]) -> EvaluationMethod:
    def run(
        benchmark: Benchmark,
        dimensions: Sequence[Dimension],
        judge: Judge,
        settings: MethodSettings,
        /,
    ) -> MethodResult:
        """Sort every context and dimension; with two orders, a comparison is the mean of both."""
        beam, gap = _beam_and_gap(settings.own(name, defaults))
        orders = settings.orders
        pair_judge = open_pair_judge(judge, settings, template_of(benchmark, settings))
        starts = list(_random_orders(cells_of(benchmark, dimensions), settings))
        if settings.dry_run:
            return _counted(pair_judge, starts, orders, beam)
        tally = Tally()
        answered: list[dict[tuple[int, int], float]] = [{} for _ in starts]

        def ask(asked: list[tuple[int, int, int]]) -> FloatArray:
            shown: list[tuple[int, int, int]] = []
            for number, first, second in asked:
                shown += [(number, first, second), (number, second, first)][:orders]
            questions = [starts[number][0].question(*pair) for number, *pair in shown]
            judgments = tally.ask(
                pair_judge, questions, "unparsed, so its context cannot be sorted"
            )
            probabilities = first_probabilities(judgments)
            for (number, *pair), answer in zip(shown, probabilities.tolist(), strict=True):
                answered[number][pair[0], pair[1]] = answer
            if orders == 2:
                there, back = probabilities.reshape(-1, 2).T
                probabilities = (there + 1 - back) / 2
            return probabilities

        with settings.progress("sorting"):
            sorts = [beam_sort(start, beam=beam, gap=gap) for _, start in starts]
            orderings = run_together(sorts, ask)
        scores = no_scores(benchmark, dimensions)
        comparisons = []
        for (cell, _), ordering, asked in zip(starts, orderings, answered, strict=True):
            for output, value in zip(cell.outputs, ordering.scores(len(cell.outputs)), strict=True):
                scores[output.id, cell.dimension.name] = value
            pairs = np.array(list(asked), dtype=np.int64).reshape(-1, 2)
            comparisons.append(cell.compared(pairs, np.array(list(asked.values()))))
        signature = f"{name}|{pair_judge.signature}|orders:{orders}|seed:{settings.seed}"
        if defaults:
            signature += f"|beam:{beam}|gap:{gap:g}"
        method = Method(name=name, signature=signature, scores=scores)
        result = MethodResult(method=method, comparisons=comparisons, notes=tally.notes())
        return result.counted(tally, measures_of(comparisons))

    return EvaluationMethod(run=run, recorded=PAIRS)


pairs_greedy = _sort_method("pairs-greedy", {})
pairs_beam = _sort_method("pairs-beam", {"beam": "10", "gap": "0.1"})
