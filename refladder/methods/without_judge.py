"""What methods without a judge share: they open references or checkpoints, and score the outputs of each context."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from refladder.errors import BackendUnavailableError, UsageError
from refladder.methods.checkpoints import NO_NUMBER, Found
from refladder.methods.contract import EvaluationMethod, Method, MethodResult, by_context
from refladder.scoring.recorded import ANY
from refladder.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from refladder.methods.contract import Judge, MethodSettings
    from refladder.records import Benchmark, Context, Dimension

    Score = Callable[[Context, Sequence[str]], Found]  # of the outputs of one context
    # Opens what the method needs, or gives the reason why it has nothing to work on.
    Open = Callable[[Benchmark, Sequence[Dimension], dict[str, str], MethodSettings], "str | Evaluator"]

WITHOUT = "contexts without references, whose outputs have no score: {:,}"
NO_REFERENCES = "{name} has no references to compare with, so this method has nothing to work on; leave it out"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluator:
    """A method that is open: each of `functions` scores some dimensions. `amiss` counts what went amiss."""

    signature: str
    functions: Sequence[tuple[Sequence[Dimension], Score]]
    notes: tuple[str, ...] = ()
    baseline: bool = False
    amiss: Counter[str] = field(default_factory=Counter)

    def result(self, name: str, benchmark: Benchmark, settings: MethodSettings) -> MethodResult:
        """Scores of every output, and what the user should know of them."""
        scores: dict[tuple[str, str], float | None] = {}
        amiss: Counter[str] = Counter()
        with settings.progress(name) as progress:
            for done, (context, outputs) in enumerate(by_context(benchmark), start=1):
                for dimensions, score in self.functions:
                    found = score(context, [output.text for output in outputs])
                    amiss += found.amiss
                    for output, value in zip(outputs, found.values, strict=True):
                        scores.update(dict.fromkeys(((output.id, dimension.name) for dimension in dimensions), value))
                if progress is not None:
                    progress(done, len(benchmark.contexts))
        counts = [*amiss.items(), *self.amiss.items()]
        signature = f"{self.signature}|refladder:{__version__}"
        return MethodResult(
            method=Method(name=name, signature=signature, scores=scores, baseline=self.baseline),
            notes=(*self.notes, *(sentence.format(count) for sentence, count in counts if count)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceMetric:
    """An open metric: `score(texts, references)` of one context's texts; `note` tells what this machine lacks."""

    signature: str
    score: Callable[[Sequence[str], Sequence[str]], list[float]]
    note: str | None = None


def method_without_judge(name: str, defaults: Mapping[str, str], opened: Open) -> EvaluationMethod:
    """A method that asks no judge; a dry run only opens it."""

    def run(
        benchmark: Benchmark, dimensions: Sequence[Dimension], _judge: Judge, settings: MethodSettings, /
    ) -> MethodResult:
        try:
            evaluator = opened(benchmark, dimensions, settings.own(name, defaults), settings)
            if isinstance(evaluator, str):
                return MethodResult(method=None, skipped=evaluator)
            return MethodResult(method=None) if settings.dry_run else evaluator.result(name, benchmark, settings)
        except BackendUnavailableError as error:
            return MethodResult(method=None, skipped=str(error))

    return EvaluationMethod(run=run, recorded=ANY)


def reference_method(name: str, open_metric: Callable[[], ReferenceMetric]) -> EvaluationMethod:
    """A metric that compares outputs with the references of their context: one number for all dimensions."""

    def opened(
        benchmark: Benchmark, dimensions: Sequence[Dimension], _options: dict[str, str], _settings: MethodSettings
    ) -> str | Evaluator:
        if not has_references(benchmark):
            return NO_REFERENCES.format(name=benchmark.name)
        try:
            return against_references(open_metric(), benchmark, dimensions)
        except UsageError as error:
            return str(error)

    return method_without_judge(name, {}, opened)


def has_references(benchmark: Benchmark) -> bool:
    """Whether any context has a reference."""
    return any(context.references for context in benchmark.contexts)


def against_references(
    metric: ReferenceMetric, benchmark: Benchmark, dimensions: Sequence[Dimension], amiss: Counter[str] | None = None
) -> Evaluator:
    """One number for each output, the same on every dimension; None in a context without references."""

    def score(context: Context, texts: Sequence[str]) -> Found:
        if not context.references:
            return Found([None] * len(texts), Counter())
        numbers = metric.score(texts, context.references)
        values = [number if math.isfinite(number) else None for number in numbers]
        return Found(values, Counter({NO_NUMBER: values.count(None)}))

    without = sum(not context.references for context in benchmark.contexts)
    notes = (metric.note, WITHOUT.format(without) if without else None)
    return Evaluator(
        signature=metric.signature,
        functions=[(dimensions, score)],
        notes=tuple(filter(None, notes)),
        amiss=Counter() if amiss is None else amiss,
    )
