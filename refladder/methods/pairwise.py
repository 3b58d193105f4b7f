"""Methods that compare the outputs of a context with each other and turn the answers into scores."""

from __future__ import annotations

import hashlib
import math
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from refladder.errors import UsageError
from refladder.methods.contract import Comparisons, EvaluationMethod, Method, MethodResult, MethodSettings
from refladder.methods.measures import Measures, Part, add, joined
from refladder.methods.tally import Tally
from refladder.prompts import load_template
from refladder.ranking import bias, estimators
from refladder.ranking.likelihood import likelihood_ranking
from refladder.ranking.selection import all_pairs, select_pairs
from refladder.scoring.asker import Asker, run_of
from refladder.scoring.pairs import first_probabilities, pair_question
from refladder.scoring.recorded import PAIRS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from refladder.arrays import FloatArray, IntArray
    from refladder.methods.contract import Judge
    from refladder.prompts import Template
    from refladder.records import Benchmark, Context, Dimension, Output
    from refladder.scoring.question import Question

    Estimator = Callable[["Comparisons", float], FloatArray]

_MORE = "; read label probabilities instead (--answers 0), or sample more answers"
PRIOR = 0.01  # of a tie, added to every comparison, so that a text that always wins has a finite strength


def open_pair_judge(benchmark: Benchmark, judge: Judge, settings: MethodSettings, template: Template) -> Asker:
    """The judge of pairs of a run; what it answers is shared by the run's methods and kept in the work folder."""
    if not benchmark.contexts:
        raise UsageError(f"{benchmark.name} has no contexts; there is nothing to compare")
    backend = judge()
    run = run_of(backend, template, answers=settings.answers, sampling=settings.sampling)
    name = f"{run.recipe.digest}-{settings.answers}"
    return Asker(backend, template, settings.judgments(f"pairwise-{name}.jsonl", run), settings.least_mass)


def template_of(benchmark: Benchmark, settings: MethodSettings) -> Template:
    """The benchmark's template of role pairwise."""
    task = benchmark.contexts[0].task if benchmark.contexts else ""
    return load_template(task, "pairwise", settings.prompts)


def groups(benchmark: Benchmark) -> list[tuple[Context, tuple[Output, ...]]]:
    """The contexts that have two outputs or more, with these."""
    outputs: dict[str, list[Output]] = {context.id: [] for context in benchmark.contexts}
    for output in benchmark.outputs:
        outputs[output.context_id].append(output)
    compared = [(context, tuple(outputs[context.id])) for context in benchmark.contexts if len(outputs[context.id]) > 1]
    if not compared:
        raise UsageError(
            f"{benchmark.name} has no context with two outputs, so there is no pair to compare; use a method that "
            "scores outputs one by one, such as ladder"
        )
    return compared


def seed_of(settings: MethodSettings, *names: str) -> int:
    """A seed for one part of a run, the same wherever that part stands."""
    words = "\0".join([str(settings.seed), *names])
    return int.from_bytes(hashlib.blake2b(words.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")


class Choice(NamedTuple):
    """The pairs to compare in one context on one dimension: `pairs` has shape (R, 2), positions of the outputs."""

    context: Context
    dimension: Dimension
    outputs: tuple[Output, ...]
    pairs: IntArray

    @property
    def questions(self) -> list[Question]:
        """A question for each pair."""
        return [
            pair_question(self.context, self.dimension, self.outputs[first], self.outputs[second])
            for first, second in self.pairs.tolist()
        ]


def choose_pairs(benchmark: Benchmark, dimensions: Sequence[Dimension], settings: MethodSettings) -> list[Choice]:
    """The pairs of every context and dimension: all of them, or as many as the budget allows."""
    chosen = []
    for context, outputs in groups(benchmark):
        for dimension in dimensions:
            if settings.budget is None:
                pairs = all_pairs(len(outputs))
            else:
                seed = seed_of(settings, context.id, dimension.name)
                try:
                    pairs = select_pairs(len(outputs), settings.budget, settings.selection, seed)
                except UsageError as error:
                    raise UsageError(f"context {context.id!r}: {error}") from error
            chosen.append(Choice(context, dimension, outputs, pairs))
    return chosen


def compare_all(
    benchmark: Benchmark, dimensions: Sequence[Dimension], judge: Asker, settings: MethodSettings
) -> tuple[Sequence[Comparisons], Tally]:
    """Ask about the pairs of `choose_pairs`; methods of a run that compare the same pairs share the comparisons."""
    made = settings.shared.comparisons
    pairs = (settings.budget, settings.selection, settings.seed)
    key = (id(benchmark), tuple(dimensions), judge.signature, settings.work, *pairs)
    if key in made:
        _, comparisons, tally = made[key]
        return comparisons, replace(tally, reused=tally.judgments, reasons=tally.reasons.copy())
    chosen = choose_pairs(benchmark, dimensions, settings)
    questions = [question for choice in chosen for question in choice.questions]
    tally = Tally()
    with settings.progress("comparing") as progress:
        judgments = tally.ask(judge, questions, progress=progress)
    probabilities = first_probabilities(judgments)
    comparisons, start = [], 0
    for choice in chosen:
        count = len(choice.pairs)
        comparisons.append(Comparisons(**choice._asdict(), probabilities=probabilities[start : start + count]))
        start += count
    made[key] = benchmark, comparisons, replace(tally, reasons=tally.reasons.copy())
    return comparisons, tally


def measures_of(comparisons: Sequence[Comparisons]) -> Measures:
    """The shares of the report card that comparisons give beside those of their judgments."""
    measures: Measures = {}
    for compared in comparisons:
        items, cell = len(compared.outputs), (compared.dimension.name, compared.context.id)
        hard = estimators.decisions(compared.probabilities)
        read = hard[~np.isnan(hard)]
        add(measures, Part("first", *cell), float(read.sum()), read.size)
        add(measures, Part("inconsistency", *cell), *bias.inconsistency(items, compared.pairs, compared.probabilities))
        add(
            measures,
            Part("intransitive", *cell),
            *bias.intransitive_triples(items, compared.pairs, compared.probabilities),
        )
    return measures


def result_of(
    benchmark: Benchmark,
    dimensions: Sequence[Dimension],
    judge: Asker,
    settings: MethodSettings,
    *,
    name: str,
    estimator: Estimator,
    debiased: bool = False,
) -> MethodResult:
    """Compare, and score every output; a context whose answers give no scores is told, and its outputs have None.

    The estimator is given the comparisons of a context, and the mean probability of its dimension over all contexts.
    With `debiased`, the estimator and the measures of the report card get probabilities from which the position bias
    was taken out, by a threshold for each dimension that was fitted over all contexts. The comparisons of the result
    stay as the judge gave them.
    """
    comparisons, tally = compare_all(benchmark, dimensions, judge, settings)
    if settings.dry_run:
        return MethodResult(method=None)
    scores: dict[tuple[str, str], float | None] = {
        (output.id, dimension.name): None for output in benchmark.outputs for dimension in dimensions
    }
    thresholds, notes = _thresholds(comparisons, sampled=settings.answers > 0) if debiased else ({}, [])
    used = [context.debiased(thresholds) for context in comparisons]
    means = {name: _mean(probabilities) for name, probabilities in _by_dimension(used).items()}
    for compared in used:
        try:
            values = estimator(compared, means[compared.dimension.name])
        except UsageError as error:
            tally.reasons[f"context {compared.context.id!r}, {compared.dimension.name}: {error}"] += 1
            continue
        for output, value in zip(compared.outputs, values.tolist(), strict=True):
            scores[output.id, compared.dimension.name] = None if math.isnan(value) else value
    pairs = "all" if settings.budget is None else f"{settings.selection},{settings.budget},seed{settings.seed}"
    return MethodResult(
        method=Method(name=name, signature=f"{name}|{judge.signature}|pairs:{pairs}", scores=scores),
        judgments=tally.judgments,
        reused=tally.reused,
        unreadable=tally.unreadable,
        characters=tally.characters,
        measures=joined([tally.measures, measures_of(used)]),
        comparisons=comparisons,
        thresholds=thresholds,
        notes=(*notes, *tally.notes()),
    )


def plain_mean_probability(comparisons: Comparisons, _mean_of_dimension: float) -> FloatArray:
    """Mean probability as an estimator of this module."""
    return estimators.mean_probability(len(comparisons.outputs), comparisons.pairs, comparisons.probabilities)


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


def _thresholds(comparisons: Sequence[Comparisons], *, sampled: bool) -> tuple[dict[str, float], list[str]]:
    """The threshold of each dimension at which P(first) is nearest to 1/2, and a note for each where it is not near.

    A dimension without a threshold is left as it is: nothing could be read, or the threshold is 1/2.
    """
    thresholds, notes = {}, []
    for name, probabilities in _by_dimension(comparisons).items():
        threshold = bias.fit_threshold(probabilities)
        first = bias.share_of_first(probabilities, threshold)
        changed = not math.isnan(threshold) and threshold != 0.5  # noqa: PLR2004  the judge's own choice
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


def plain_win_ratio(comparisons: Comparisons, _mean_of_dimension: float) -> FloatArray:
    """Win ratio as an estimator of this module."""
    return estimators.win_ratio(len(comparisons.outputs), comparisons.pairs, comparisons.probabilities)


def _strengths(comparisons: Comparisons, _mean_of_dimension: float) -> FloatArray:
    items, names = len(comparisons.outputs), comparisons.names
    return estimators.bradley_terry(items, comparisons.pairs, comparisons.probabilities, prior=PRIOR, names=names)


def _expert_scores(comparisons: Comparisons, mean_of_dimension: float) -> FloatArray:
    return estimators.product_of_experts(
        len(comparisons.outputs),
        comparisons.pairs,
        comparisons.probabilities,
        position_bias=mean_of_dimension,
        names=comparisons.names,
    )


def _ranks(comparisons: Comparisons, _mean_of_dimension: float) -> FloatArray:
    items, names = len(comparisons.outputs), comparisons.names
    return likelihood_ranking(items, comparisons.pairs, comparisons.probabilities, names=names)


def _method(name: str, estimator: Estimator, *, debiased: bool = False) -> EvaluationMethod:
    """The method that asks about all pairs, or those that the budget allows, and applies an estimator."""

    def run(
        benchmark: Benchmark, dimensions: Sequence[Dimension], judge: Judge, settings: MethodSettings, /
    ) -> MethodResult:
        settings.own(name, {})
        pair_judge = open_pair_judge(benchmark, judge, settings, template_of(benchmark, settings))
        return result_of(benchmark, dimensions, pair_judge, settings, name=name, estimator=estimator, debiased=debiased)

    return EvaluationMethod(run=run, recorded=PAIRS)


# arXiv 2307.07889: equation 6 (win ratio), 9 and 10 (debiasing a probability and a win), appendix B (likelihood).
win_ratio = _method("win-ratio", plain_win_ratio)
win_ratio_debiased = _method("win-ratio-debiased", plain_win_ratio, debiased=True)
mean_probability = _method("mean-probability", plain_mean_probability)
mean_probability_debiased = _method("mean-probability-debiased", plain_mean_probability, debiased=True)
bradley_terry = _method("bradley-terry", _strengths)
product_of_experts = _method("poe", _expert_scores)  # arXiv 2405.05894, with one position bias for each dimension
likelihood = _method("likelihood", _ranks)
