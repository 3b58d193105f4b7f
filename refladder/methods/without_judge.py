"""What methods without a judge share: references or checkpoints, outputs by context, and sentences for the user."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from refladder.errors import BackendUnavailableError, UsageError
from refladder.methods.checkpoints import NO_NUMBER
from refladder.methods.contract import EvaluationMethod, Method, MethodResult
from refladder.scoring.recorded import ANY
from refladder.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from refladder.methods.checkpoints import Found
    from refladder.methods.contract import Judge, MethodSettings
    from refladder.records import Benchmark, Context, Dimension, Output

    Scores = dict[tuple[str, str], float | None]
    Score = Callable[[Context, Sequence[str]], Found]  # of the outputs of one context
    Opener = Callable[[], Callable[[], MethodResult]]  # opens what the method needs, then computes its scores
    # Gives an opener, or the reason why the method has nothing to work on.
    Prepare = Callable[[Benchmark, Sequence[Dimension], dict[str, str], MethodSettings], str | Opener]

WITHOUT = "{:,} contexts have no references; their outputs have no score"
NO_REFERENCES = "{name} has no references to compare with, so this method has nothing to work on; leave it out"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceMetric:
    """An open metric.

    `signature` has the settings and the version of the package. `score(texts, references)` gives one number for each
    text of one context, higher is better. `note` tells the user what this machine lacks for the full metric.
    """

    signature: str
    score: Callable[[Sequence[str], Sequence[str]], list[float]]
    note: str | None = None


def method_without_judge(name: str, defaults: Mapping[str, str], prepare: Prepare) -> EvaluationMethod:
    """A method that asks no judge."""

    def run(
        benchmark: Benchmark, dimensions: Sequence[Dimension], _judge: Judge, settings: MethodSettings, /
    ) -> MethodResult:
        opener = prepare(benchmark, dimensions, settings.own(name, defaults), settings)
        if isinstance(opener, str):
            return MethodResult(method=None, skipped=opener)
        try:
            compute = opener()
            return MethodResult(method=None) if settings.dry_run else compute()
        except BackendUnavailableError as error:
            return MethodResult(method=None, skipped=str(error))

    return EvaluationMethod(run=run, recorded=ANY)


def reference_method(name: str, open_metric: Callable[[], ReferenceMetric]) -> EvaluationMethod:
    """A metric that compares outputs with the references of their context: one number for all dimensions."""

    def prepare(
        benchmark: Benchmark, dimensions: Sequence[Dimension], _options: dict[str, str], settings: MethodSettings
    ) -> str | Opener:
        if not has_references(benchmark):
            return NO_REFERENCES.format(name=benchmark.name)
        try:
            metric = open_metric()
        except UsageError as error:
            return str(error)
        return lambda: lambda: against_references(name, metric, benchmark, dimensions, settings)

    return method_without_judge(name, {}, prepare)


def has_references(benchmark: Benchmark) -> bool:
    """Whether any context has a reference."""
    return any(context.references for context in benchmark.contexts)


def notes_of(amiss: Counter[str]) -> tuple[str, ...]:
    """Sentences for the user, from templates and their counts."""
    return tuple(sentence.format(count) for sentence, count in amiss.items() if count)


def by_context(benchmark: Benchmark) -> Iterator[tuple[Context, list[Output]]]:
    """The contexts that have outputs, with these."""
    outputs: dict[str, list[Output]] = {}
    for output in benchmark.outputs:
        outputs.setdefault(output.context_id, []).append(output)
    for context in benchmark.contexts:
        if context.id in outputs:
            yield context, outputs[context.id]


def against_references(
    name: str, metric: ReferenceMetric, benchmark: Benchmark, dimensions: Sequence[Dimension], settings: MethodSettings
) -> MethodResult:
    """One number for each output, the same on every dimension; None in a context without references."""
    scores: Scores = {}
    broken = 0
    with settings.progress(name) as progress:
        for done, (context, outputs) in enumerate(by_context(benchmark), start=1):
            texts = [output.text for output in outputs]
            numbers = metric.score(texts, context.references) if context.references else [None] * len(texts)
            for output, number in zip(outputs, numbers, strict=True):
                value = number if number is None or math.isfinite(number) else None
                broken += value is not number
                scores.update(dict.fromkeys(((output.id, dimension.name) for dimension in dimensions), value))
            if progress is not None:
                progress(done, len(benchmark.contexts))
    without = sum(not context.references for context in benchmark.contexts)
    return MethodResult(
        method=Method(name=name, signature=f"{metric.signature}|refladder:{__version__}", scores=scores),
        notes=(*((metric.note,) if metric.note else ()), *notes_of(Counter({WITHOUT: without, NO_NUMBER: broken}))),
    )


def trained_scores(
    name: str,
    benchmark: Benchmark,
    settings: MethodSettings,
    signature: str,
    functions: Sequence[tuple[Sequence[str], Score]],
) -> MethodResult:
    """Scores of a trained evaluator."""
    scores: Scores = {}
    amiss: Counter[str] = Counter()
    with settings.progress(name) as progress:
        for done, (context, outputs) in enumerate(by_context(benchmark), start=1):
            for dimensions, score in functions:
                numbers = score(context, [output.text for output in outputs])
                amiss += numbers.amiss
                for output, value in zip(outputs, numbers.values, strict=True):
                    scores.update(dict.fromkeys(((output.id, dimension) for dimension in dimensions), value))
            if progress is not None:
                progress(done, len(benchmark.contexts))
    signature = f"{name}|{signature}|refladder:{__version__}"
    return MethodResult(method=Method(name=name, signature=signature, scores=scores), notes=notes_of(amiss))
