"""Methods that compare the outputs of a context with each other and turn the answers into scores."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from refladder.errors import UsageError
from refladder.methods.contract import Comparisons, Method, MethodResult, MethodSettings
from refladder.methods.measures import Measures, Part, add, joined, of_judgments
from refladder.prompts import load_template
from refladder.ranking import bias, estimators
from refladder.ranking.likelihood import likelihood_ranking
from refladder.ranking.selection import all_pairs, select_pairs
from refladder.scoring.asker import Asker, run_of
from refladder.scoring.dry_run import DRY
from refladder.scoring.judgment_file import JudgmentIndex
from refladder.scoring.pairs import first_probabilities, pair_question

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from refladder.arrays import FloatArray, IntArray
    from refladder.methods.contract import Judge
    from refladder.prompts import Template
    from refladder.records import Benchmark, Context, Dimension, Judgment, Output, Progress
    from refladder.scoring.question import Question

    Estimator = Callable[["Comparisons", float], FloatArray]

SHOWN = 5  # reasons, to the user
_MORE = "; read label probabilities instead (--answers 0), or sample more answers"
PRIOR = 0.01  # of a tie, added to every comparison, so that a text that always wins has a finite strength


@dataclass(slots=True)
class Tally:
    """Counts of a method while it runs."""

    judgments: int = 0
    reused: int = 0
    unreadable: int = 0
    characters: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    measures: Measures = field(default_factory=dict)

    def ask(
        self,
        judge: Asker,
        questions: Sequence[Question],
        words: str = "unreadable",
        progress: Progress | None = None,
    ) -> list[Judgment]:
        """The judge's answers, counted, with why some could not be read; in a dry run there is no why."""
        self.judgments += len(questions)
        reused = judge.log.reused
        self.characters += sum(map(judge.characters, questions))
        judgments = judge.ask(questions, progress)
        self.reused += judge.log.reused - reused
        for judgment in judgments:
            if judgment.logprobs is None:
                self.unreadable += 1
                if judgment.note != DRY:
                    self.reasons[f"{words}: {judgment.note}"] += 1
        self.measures = joined([self.measures, of_judgments(judgments)])
        return judgments

    def notes(self) -> tuple[str, ...]:
        """What went wrong, for the user, the most frequent first."""
        shown = [reason if count == 1 else f"{count:,} x {reason}" for reason, count in self.reasons.most_common(SHOWN)]
        left = len(self.reasons) - SHOWN
        return (*shown, f"and {left:,} more like these") if left > 0 else tuple(shown)


def open_pair_judge(benchmark: Benchmark, judge: Judge, settings: MethodSettings, template: Template) -> Asker:
    """The judge of pairs of a run; what it answers is shared by the run's methods and kept in the work folder."""
    if not benchmark.contexts:
        raise UsageError(f"{benchmark.name} has no contexts; there is nothing to compare")
    backend = judge()
    run = run_of(backend, template, answers=settings.answers, sampling=settings.sampling)
    name = f"{run.recipe.digest}-{settings.answers}"
    log = JudgmentIndex(
        None if settings.work is None else settings.work / f"pairwise-{name}.jsonl",
        run,
        restart=settings.restart and name not in settings.kept,
        judgments=settings.kept.setdefault(name, {}),
    )
    return Asker(backend, template, log, settings.least_mass)


def template_of(benchmark: Benchmark, settings: MethodSettings) -> Template:
    """The benchmark's template of role pairwise."""
    task = benchmark.contexts[0].task if benchmark.contexts else ""
    return load_template(task, "pairwise", settings.prompts)


def groups(benchmark: Benchmark) -> list[tuple[Context, tuple[Output, ...]]]:
    """The contexts that have two outputs or more, with these.

    Raises:
        UsageError: there is no such context.
    """
    outputs: dict[str, list[Output]] = {context.id: [] for context in benchmark.contexts}
    for output in benchmark.outputs:
        outputs[output.context_id].append(output)
    found = [(context, tuple(outputs[context.id])) for context in benchmark.contexts if len(outputs[context.id]) > 1]
    if not found:
        raise UsageError(
            f"{benchmark.name} has no context with two outputs, so there is no pair to compare; use a method that "
            "scores outputs one by one, such as ladder"
        )
    return found


def seed_of(settings: MethodSettings, *names: str) -> int:
    """A seed for one part of a run, the same wherever that part stands."""
    words = "\0".join([str(settings.seed), *names])
    return int.from_bytes(hashlib.blake2b(words.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")


def compare_all(
    benchmark: Benchmark,
    dimensions: Sequence[Dimension],
    judge: Asker,
    settings: MethodSettings,
    *,
    known: bool = True,
) -> tuple[list[Comparisons], Tally]:
    """Ask the pairs of every context and dimension: all of them, or as many as the budget allows.

    Args:
        benchmark: whose outputs.
        dimensions: on which.
        judge: asks with the template that is used; where this is not `known` yet, it only counts, and these are bounds.
        settings: budget, selection and seed.
        known: see above.

    Raises:
        UsageError: no context has two outputs, or one has fewer pairs than the budget; it is named.
    """
    chosen: list[tuple[Context, Dimension, tuple[Output, ...], IntArray]] = []
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
            chosen.append((context, dimension, outputs, pairs))
    questions = [
        pair_question(context, dimension, outputs[first], outputs[second])
        for context, dimension, outputs, pairs in chosen
        for first, second in pairs.tolist()
    ]
    tally = Tally()
    if not known:
        judge.ask_at_most(questions, len(questions))
        return [], tally
    with settings.progress("comparing") as progress:
        judgments = tally.ask(judge, questions, progress=progress)
    probabilities = first_probabilities(judgments)
    found, start = [], 0
    for context, dimension, outputs, pairs in chosen:
        found.append(
            Comparisons(
                context=context,
                dimension=dimension,
                outputs=outputs,
                pairs=pairs,
                probabilities=probabilities[start : start + len(pairs)],
            )
        )
        start += len(pairs)
    return found, tally


def measures_of(comparisons: Sequence[Comparisons]) -> Measures:
    """The shares of the report card that comparisons give beside those of their judgments."""
    found: Measures = {}
    for one in comparisons:
        items, place = len(one.outputs), (one.dimension.name, one.context.id)
        hard = estimators.decisions(one.probabilities)
        read = hard[~np.isnan(hard)]
        add(found, Part("first", *place), float(read.sum()), read.size)
        add(found, Part("inconsistency", *place), *bias.inconsistency(items, one.pairs, one.probabilities))
        add(found, Part("intransitive", *place), *bias.intransitive_triples(items, one.pairs, one.probabilities))
    return found


def _run(
    benchmark: Benchmark,
    dimensions: Sequence[Dimension],
    judge: Judge,
    settings: MethodSettings,
    *,
    name: str,
    estimator: Estimator,
    debiased: bool = False,
) -> MethodResult:
    settings.own(name, {})
    pair_judge = open_pair_judge(benchmark, judge, settings, template_of(benchmark, settings))
    comparisons, tally = compare_all(benchmark, dimensions, pair_judge, settings)
    return result_of(
        benchmark,
        dimensions,
        pair_judge,
        settings,
        name=name,
        estimator=estimator,
        comparisons=comparisons,
        tally=tally,
        debiased=debiased,
    )


def result_of(
    benchmark: Benchmark,
    dimensions: Sequence[Dimension],
    judge: Asker,
    settings: MethodSettings,
    *,
    name: str,
    estimator: Estimator,
    comparisons: Sequence[Comparisons],
    tally: Tally,
    debiased: bool = False,
) -> MethodResult:
    """Scores of every output from comparisons; a context whose answers give none is told, and its outputs have None.

    The estimator is given the comparisons of a context, and the mean probability of its dimension over all contexts.
    With `debiased`, the estimator and the measures of the report card get probabilities from which the position bias
    was taken out, by a threshold for each dimension that was fitted over all contexts. The comparisons of the result
    stay as the judge gave them.
    """
    scores: dict[tuple[str, str], float | None] = {
        (output.id, dimension.name): None for output in benchmark.outputs for dimension in dimensions
    }
    thresholds, notes = _thresholds(comparisons, sampled=settings.answers > 0) if debiased else ({}, [])
    used = [context.debiased(thresholds) for context in comparisons]
    means = {name: _mean(probabilities) for name, probabilities in _by_dimension(used).items()}
    for one in used:
        try:
            values = estimator(one, means[one.dimension.name])
        except UsageError as error:
            tally.reasons[f"context {one.context.id!r}, {one.dimension.name}: {error}"] += 1
            continue
        for output, value in zip(one.outputs, values.tolist(), strict=True):
            scores[output.id, one.dimension.name] = None if math.isnan(value) else value
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


def plain_mean_probability(one: Comparisons, _mean_of_dimension: float) -> FloatArray:
    """Mean probability as an estimator of this module."""
    return estimators.mean_probability(len(one.outputs), one.pairs, one.probabilities)


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
                else f"no threshold brings P(first) near 1/2 (it stays at {first:.3f}), so p is used as it is"
            )
            notes.append(f"{name}: {outcome}{_MORE if sampled else ''}")
    return thresholds, notes


def win_ratio(
    benchmark: Benchmark, dimensions: Sequence[Dimension], judge: Judge, settings: MethodSettings, /
) -> MethodResult:
    """Comparative assessment: the share of its comparisons that an output wins (arXiv 2307.07889, equation 6)."""
    return _run(benchmark, dimensions, judge, settings, name="win-ratio", estimator=plain_win_ratio)


def plain_win_ratio(one: Comparisons, _mean_of_dimension: float) -> FloatArray:
    """Win ratio as an estimator of this module."""
    return estimators.win_ratio(len(one.outputs), one.pairs, one.probabilities)


def win_ratio_debiased(
    benchmark: Benchmark, dimensions: Sequence[Dimension], judge: Judge, settings: MethodSettings, /
) -> MethodResult:
    """Win ratio with the threshold at which the first is chosen half of the time (arXiv 2307.07889, equation 10)."""
    return _run(
        benchmark, dimensions, judge, settings, name="win-ratio-debiased", estimator=plain_win_ratio, debiased=True
    )


def mean_probability(
    benchmark: Benchmark, dimensions: Sequence[Dimension], judge: Judge, settings: MethodSettings, /
) -> MethodResult:
    """The mean probability with which an output wins its comparisons."""
    return _run(benchmark, dimensions, judge, settings, name="mean-probability", estimator=plain_mean_probability)


def mean_probability_debiased(
    benchmark: Benchmark, dimensions: Sequence[Dimension], judge: Judge, settings: MethodSettings, /
) -> MethodResult:
    """Mean probability, after a weight took the preference for one place out (arXiv 2307.07889, equation 9)."""
    return _run(
        benchmark,
        dimensions,
        judge,
        settings,
        name="mean-probability-debiased",
        estimator=plain_mean_probability,
        debiased=True,
    )


def bradley_terry(
    benchmark: Benchmark, dimensions: Sequence[Dimension], judge: Judge, settings: MethodSettings, /
) -> MethodResult:
    """Bradley-Terry strengths with soft wins and a prior of a hundredth of a tie."""

    def strengths(one: Comparisons, _mean_of_dimension: float) -> FloatArray:
        return estimators.bradley_terry(len(one.outputs), one.pairs, one.probabilities, prior=PRIOR, names=one.names)

    return _run(benchmark, dimensions, judge, settings, name="bradley-terry", estimator=strengths)


def product_of_experts(
    benchmark: Benchmark, dimensions: Sequence[Dimension], judge: Judge, settings: MethodSettings, /
) -> MethodResult:
    """Scores from a product of Gaussian experts (arXiv 2405.05894), with one position bias for each dimension."""

    def scores(one: Comparisons, mean_of_dimension: float) -> FloatArray:
        return estimators.product_of_experts(
            len(one.outputs), one.pairs, one.probabilities, position_bias=mean_of_dimension, names=one.names
        )

    return _run(benchmark, dimensions, judge, settings, name="poe", estimator=scores)


def likelihood(
    benchmark: Benchmark, dimensions: Sequence[Dimension], judge: Judge, settings: MethodSettings, /
) -> MethodResult:
    """The ranking that makes the comparisons most likely (arXiv 2307.07889, appendix B)."""

    def places(one: Comparisons, _mean_of_dimension: float) -> FloatArray:
        return likelihood_ranking(len(one.outputs), one.pairs, one.probabilities, names=one.names)

    return _run(benchmark, dimensions, judge, settings, name="likelihood", estimator=places)
