"""What methods without a judge share: they open references or checkpoints, and score the outputs of each context.

A checkpoint is a folder or `ORG/MODEL` on the Hub, with `@REVISION` after it where one is wanted.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from refladder.backends.hf import TransformersBackend
from refladder.backends.hf.loading import TEXT_TO_TEXT, open_model, parse_memory, split_revision
from refladder.backends.hf.readers import Reader
from refladder.engine.memory import usable_memory
from refladder.errors import BackendUnavailableError, UsageError
from refladder.methods.contract import (
    CHECKPOINT,
    EvaluationMethod,
    Method,
    MethodResult,
    by_context,
)
from refladder.records import without_none
from refladder.scoring.recorded import ANY
from refladder.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from refladder.backends.hf.loading import Opened
    from refladder.backends.hf.readers import Encoded
    from refladder.backends.hf.tokens import Tokens
    from refladder.methods.contract import Judge, MethodSettings
    from refladder.records import Benchmark, Context, Dimension

    # A function that scores the outputs of one context.
    Score = Callable[[Context, Sequence[str]], "TextScores"]
    # A function that opens what the method needs, or returns why it has nothing to work on.
    Open = Callable[
        [Benchmark, Sequence[Dimension], dict[str, str], MethodSettings], "str | Evaluator"
    ]

NO_CHECKPOINT = "no checkpoint was named; "
# These sentences say what went wrong, with a count.
CUT = "inputs truncated to the length that the model accepts: {:,}"
EMPTY = "empty outputs, without a score: {:,}"
TOO_LONG = "outputs that leave no room for their context, without a score: {:,}; use a model with a longer context"
NO_NUMBER = (
    "outputs for which the model gave no finite number, without a score: {:,}; try dtype=float32"
)
WITHOUT = "contexts without references, whose outputs have no score: {:,}"
NO_REFERENCES = (
    "{name} has no references to compare with, so this method has nothing to work on; leave it out"
)


class TextScores(NamedTuple):
    """A number for each text or None, and what went wrong: how often, by the sentence that says it."""

    values: list[float | None]
    problems: Counter[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluator:
    """A method that is open: each of `functions` scores some dimensions. `problems` counts what went wrong."""

    signature: str
    functions: Sequence[tuple[Sequence[Dimension], Score]]
    notes: tuple[str, ...] = ()
    baseline: bool = False
    problems: Counter[str] = field(default_factory=Counter)

    def result(self, name: str, benchmark: Benchmark, settings: MethodSettings) -> MethodResult:
        """Score every output, with notes for the user."""
        scores: dict[tuple[str, str], float | None] = {}
        problems: Counter[str] = Counter()
        with settings.progress(name) as progress:
            for done, (context, outputs) in enumerate(by_context(benchmark), start=1):
                for dimensions, score in self.functions:
                    scored = score(context, [output.text for output in outputs])
                    problems += scored.problems
                    for output, value in zip(outputs, scored.values, strict=True):
                        for dimension in dimensions:
                            scores[output.id, dimension.name] = value
                if progress is not None:
                    progress(done, len(benchmark.contexts))
        counts = [*problems.items(), *self.problems.items()]
        signature = f"{self.signature}|refladder:{__version__}"
        return MethodResult(
            method=Method(name=name, signature=signature, scores=scores, baseline=self.baseline),
            notes=(*self.notes, *(sentence.format(count) for sentence, count in counts if count)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceMetric:
    """An open metric: `score(texts, references)` of one context's texts; `note` names what this machine lacks."""

    signature: str
    score: Callable[[Sequence[str], Sequence[str]], list[float]]
    note: str | None = None


def method_without_judge(name: str, defaults: Mapping[str, str], opened: Open) -> EvaluationMethod:
    """Make a method that asks no judge; a dry run only opens it."""

    def run(
        benchmark: Benchmark,
        dimensions: Sequence[Dimension],
        _judge: Judge,
        settings: MethodSettings,
        /,
    ) -> MethodResult:
        try:
            evaluator = opened(benchmark, dimensions, settings.own(name, defaults), settings)
            if isinstance(evaluator, str):
                return MethodResult(method=None, skipped=evaluator)
            if settings.dry_run:
                return MethodResult(method=None)
            return evaluator.result(name, benchmark, settings)
        except BackendUnavailableError as error:
            return MethodResult(method=None, skipped=str(error))

    return EvaluationMethod(run=run, recorded=ANY)


def checkpoint_method(
    name: str, suggestion: str, opened: Open, task: str | None = None, **defaults: str
) -> EvaluationMethod:
    """Make the method `NAME:CHECKPOINT`, of benchmarks of one task if it is named."""

    def open_named(
        benchmark: Benchmark,
        dimensions: Sequence[Dimension],
        options: dict[str, str],
        settings: MethodSettings,
    ) -> str | Evaluator:
        if task is not None and benchmark.contexts[0].task != task:
            return f"it reads triples of data, and the task of {benchmark.name} is {benchmark.contexts[0].task}"
        if not options[CHECKPOINT]:
            return NO_CHECKPOINT + suggestion
        return opened(benchmark, dimensions, options, settings)

    return method_without_judge(name, {CHECKPOINT: "", **MACHINE, **defaults}, open_named)


def reference_method(name: str, open_metric: Callable[[], ReferenceMetric]) -> EvaluationMethod:
    """Make a method that compares outputs with the references of their context: one number for all dimensions."""

    def opened(
        benchmark: Benchmark,
        dimensions: Sequence[Dimension],
        _options: dict[str, str],
        _settings: MethodSettings,
    ) -> str | Evaluator:
        if not has_references(benchmark):
            return NO_REFERENCES.format(name=benchmark.name)
        try:
            return against_references(open_metric(), benchmark, dimensions)
        except UsageError as error:
            return str(error)

    return method_without_judge(name, {}, opened)


def has_references(benchmark: Benchmark) -> bool:
    """Return whether any context has a reference."""
    return any(context.references for context in benchmark.contexts)


def against_references(
    metric: ReferenceMetric,
    benchmark: Benchmark,
    dimensions: Sequence[Dimension],
    problems: Counter[str] | None = None,
) -> Evaluator:
    """Compute one number for each output, used on every dimension; None in a context without references."""

    def score(context: Context, texts: Sequence[str]) -> TextScores:
        if not context.references:
            return TextScores([None] * len(texts), Counter())
        numbers = metric.score(texts, context.references)
        values = [number if math.isfinite(number) else None for number in numbers]
        return TextScores(values, Counter({NO_NUMBER: values.count(None)}))

    without = sum(not context.references for context in benchmark.contexts)
    notes = (metric.note, WITHOUT.format(without) if without else None)
    return Evaluator(
        signature=metric.signature,
        functions=[(dimensions, score)],
        notes=tuple(filter(None, notes)),
        problems=Counter() if problems is None else problems,
    )


# Every method with checkpoints has these options; `refladder.backends.hf.open_hf` explains the values.
MACHINE = {"dtype": "float32", "device": "auto", "memory": "auto"}
# The published question generators were trained on this number of tokens.
LENGTH = 512


def split_checkpoints(asked: str, roles: Sequence[str], method: str, suggestion: str) -> list[str]:
    """Split the names of several checkpoints, which follow a method with `+` between them."""
    names = asked.split("+")
    if len(names) != len(roles) or not all(names):
        raise UsageError(
            f"{method} takes {len(roles)} checkpoints with + between them ({', '.join(roles)}), found {asked!r}; "
            f"{suggestion}"
        )
    return names


def open_writer(
    name: str, method: str, suggestion: str, options: Mapping[str, str]
) -> TransformersBackend:
    """Open an encoder-decoder such as T5; `options` has those of MACHINE."""
    opened, memory = _opened(name, TEXT_TO_TEXT, method, suggestion, options)
    return TransformersBackend(opened, memory=memory, truncate_context=False)


def open_reader(
    name: str, kind: str, method: str, suggestion: str, options: Mapping[str, str]
) -> Reader:
    """Open an encoder, a classifier or a multiple-choice reader: `kind` is a constant of `backends.hf.loading`."""
    return Reader(*_opened(name, kind, method, suggestion, options))


def _opened(
    name: str, kind: str, method: str, suggestion: str, options: Mapping[str, str]
) -> tuple[Opened, int]:
    requested = parse_memory(options["memory"])
    target, revision = split_revision(name)
    try:
        opened = open_model(
            target,
            dtype=options["dtype"],
            device=options["device"],
            revision=revision,
            kind=kind,
            prefix=f"{method}:",
        )
        # The weights are read here.
        device = opened.model.device
        return opened, usable_memory(device) if requested is None else requested
    except BackendUnavailableError as error:
        raise BackendUnavailableError(f"{error}; {suggestion}") from error


def joined(
    tokens: Tokens, parts: Sequence[str], separator: int, longest: int
) -> tuple[list[int], bool]:
    """Join texts to one input with a token between them that no text contains.

    Return it and whether its end was cut.
    """
    ids = tokens.plain(parts[0])
    for part in parts[1:]:
        ids += [separator, *tokens.plain(part)]
    return tokens.framed(ids, longest)


def joined_inputs(
    writer: TransformersBackend,
    texts: Iterable[Sequence[str]],
    separator: int,
    problems: Counter[str],
) -> list[list[int]]:
    """Join the parts of each input; count those that were cut."""
    inputs = [joined(writer.tokens, parts, separator, LENGTH) for parts in texts]
    problems[CUT] += sum(cut for _, cut in inputs)
    return [ids for ids, _ in inputs]


def with_empty(texts: Sequence[str], values: Iterable[float | None]) -> list[float | None]:
    """Return a value for every text, from those of the texts that are not empty; None for an empty one."""
    given = iter(values)
    return [next(given) if text.strip() else None for text in texts]


def all_fitting(rows: Sequence[Encoded | None]) -> list[Encoded]:
    """Return the inputs of a text, or none of them if one does not fit."""
    fitting = without_none(rows)
    return fitting if len(fitting) == len(rows) else []


def token_id(opened: Opened, name: str, suggestion: str) -> int:
    """Return a token that an input needs, such as `eos_token_id`."""
    token = getattr(opened.tokenizer, name)
    if token is None:
        raise BackendUnavailableError(
            f"the tokenizer of {opened.name} has no {name.removesuffix('_id')}, which its inputs need; {suggestion}"
        )
    return int(token)
