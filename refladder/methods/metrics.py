"""Methods without a judge: metrics against references, and trained evaluators whose checkpoints the user names."""

from __future__ import annotations

import functools
import math
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from refladder.backends.hf.opening import CLASSIFIER, MULTIPLE_CHOICE
from refladder.errors import BackendUnavailableError, UsageError
from refladder.methods import mqag as mqag_scoring
from refladder.methods import questeval as questeval_scoring
from refladder.methods import trained
from refladder.methods.bert_score import SUGGESTION, bert_score
from refladder.methods.checkpoints import CUT, NO_NUMBER, Machine, open_reader, open_writer, split_checkpoints
from refladder.methods.contract import Method, MethodResult
from refladder.methods.reference_metrics import ROUGE_TYPES, bleu, chrf, meteor, rouge
from refladder.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from refladder.backends.hf.readers import Reader
    from refladder.methods.checkpoints import Found
    from refladder.methods.contract import Judge, MethodFunction, MethodSettings
    from refladder.methods.reference_metrics import ReferenceMetric
    from refladder.records import Benchmark, Context, Dimension, Output

    Scores = dict[tuple[str, str], float | None]
    Score = Callable[[Context, Sequence[str]], Found]  # of the outputs of one context

WITHOUT = "{:,} contexts have no references; their outputs have no score"
MACHINE = {"dtype": "float32", "device": "auto", "memory": "auto"}  # options of every method with checkpoints
NO_REFERENCES = "{name} has no references to compare with, so this method has nothing to work on; leave it out"


def _by_context(benchmark: Benchmark, settings: MethodSettings) -> Iterator[tuple[Context, list[Output]]]:
    if settings.counting:
        return
    outputs: dict[str, list[Output]] = {}
    for output in benchmark.outputs:
        outputs.setdefault(output.context_id, []).append(output)
    for context in benchmark.contexts:
        if context.id in outputs:
            yield context, outputs[context.id]


def _against_references(
    name: str, metric: ReferenceMetric, benchmark: Benchmark, dimensions: Sequence[Dimension], settings: MethodSettings
) -> MethodResult:
    """One number for each output, the same on every dimension; None in a context without references."""
    scores: Scores = {}
    broken = 0
    with settings.progress(name) as progress:
        for done, (context, outputs) in enumerate(_by_context(benchmark, settings), start=1):
            texts = [output.text for output in outputs]
            found = metric.score(texts, context.references) if context.references else [None] * len(texts)
            for output, number in zip(outputs, found, strict=True):
                value = number if number is None or math.isfinite(number) else None
                broken += value is not number
                scores.update(dict.fromkeys(((output.id, dimension.name) for dimension in dimensions), value))
            if progress is not None:
                progress(done, len(benchmark.contexts))
    without = sum(not context.references for context in benchmark.contexts)
    return MethodResult(
        method=Method(name=name, signature=f"{metric.signature}|refladder:{__version__}", scores=scores),
        notes=(*((metric.note,) if metric.note else ()), *_notes(Counter({WITHOUT: without, NO_NUMBER: broken}))),
    )


def _has_references(benchmark: Benchmark) -> bool:
    return any(context.references for context in benchmark.contexts)


def _reference_method(name: str, open_metric: Callable[[], ReferenceMetric]) -> MethodFunction:
    def method(
        benchmark: Benchmark, dimensions: Sequence[Dimension], _judge: Judge, settings: MethodSettings, /
    ) -> MethodResult:
        """A number for every output against the references of its context, the same on every dimension."""
        settings.own(name, {})
        if not _has_references(benchmark):
            return MethodResult(method=None, skipped=NO_REFERENCES.format(name=benchmark.name))
        try:
            metric = open_metric()
        except UsageError as error:
            return MethodResult(method=None, skipped=str(error))
        return _against_references(name, metric, benchmark, dimensions, settings)

    return method


BLEU = _reference_method("bleu", bleu)
CHRF = _reference_method("chrf", chrf)
ROUGE_1, ROUGE_2, ROUGE_L = (_reference_method(name, functools.partial(rouge, name)) for name in ROUGE_TYPES)
METEOR = _reference_method("meteor", meteor)


def _notes(amiss: Counter[str]) -> tuple[str, ...]:
    return tuple(sentence.format(count) for sentence, count in amiss.items() if count)


def _skipped(reason: str) -> MethodResult:
    return MethodResult(method=None, skipped=reason)


def _machine(options: dict[str, str]) -> Machine:
    return Machine(**{key: options[key] for key in MACHINE})


def bertscore(
    benchmark: Benchmark, dimensions: Sequence[Dimension], _judge: Judge, settings: MethodSettings, /
) -> MethodResult:
    """BERTScore F1 with any encoder: `bertscore:PATH`; option `layer` takes another layer than the usual one."""
    options = settings.own("bertscore", {"checkpoint": "", "layer": "", **MACHINE})
    layer = options["layer"]
    if layer and not layer.isdecimal():
        raise UsageError(f"bertscore.layer={layer}: a whole number, 0 or more, is needed")
    if not options["checkpoint"]:
        return _skipped(f"no checkpoint was named; {SUGGESTION}")
    if not _has_references(benchmark):
        return _skipped(NO_REFERENCES.format(name=benchmark.name))
    try:
        metric, cut = bert_score(options["checkpoint"], int(layer) if layer else None, _machine(options))
    except BackendUnavailableError as error:
        return _skipped(str(error))
    result = _against_references("bertscore", metric, benchmark, dimensions, settings)
    return replace(result, notes=(*result.notes, *_notes(Counter({CUT: cut[0]}))))


def _scored(
    name: str,
    benchmark: Benchmark,
    settings: MethodSettings,
    open_scores: Callable[[], tuple[str, Sequence[tuple[Sequence[str], Score]]]],
) -> MethodResult:
    """Scores of a trained evaluator.

    Args:
        name: of the method.
        benchmark: whose outputs are scored.
        settings: of the run.
        open_scores: opens the checkpoints; gives the signature, and functions with the dimensions whose scores each
            computes.
    """
    scores: Scores = {}
    amiss: Counter[str] = Counter()
    try:
        signature, functions = open_scores()
        with settings.progress(name) as progress:
            for done, (context, outputs) in enumerate(_by_context(benchmark, settings), start=1):
                for dimensions, score in functions:
                    found = score(context, [output.text for output in outputs])
                    amiss += found.amiss
                    for output, value in zip(outputs, found.values, strict=True):
                        scores.update(dict.fromkeys(((output.id, dimension) for dimension in dimensions), value))
                if progress is not None:
                    progress(done, len(benchmark.contexts))
    except BackendUnavailableError as error:
        return _skipped(str(error))
    signature = f"{name}|{signature}|refladder:{__version__}"
    return MethodResult(method=Method(name=name, signature=signature, scores=scores), notes=_notes(amiss))


def unieval(
    benchmark: Benchmark, dimensions: Sequence[Dimension], _judge: Judge, settings: MethodSettings, /
) -> MethodResult:
    """UniEval's boolean questions to a T5: `unieval:PATH`. Dimensions that it has no question for have no score."""
    options = settings.own("unieval", {"checkpoint": "", **MACHINE})
    if not options["checkpoint"]:
        return _skipped(f"no checkpoint was named; {trained.UNIEVAL_SUGGESTION}")
    task = benchmark.contexts[0].task
    asked = {
        dimension.name: trained.UNIEVAL_QUESTIONS[task, dimension.name]
        for dimension in dimensions
        if (task, dimension.name) in trained.UNIEVAL_QUESTIONS
    }
    without = [dimension.name for dimension in dimensions if dimension.name not in asked]
    for dimension, question in asked.copy().items():
        if question.needs_reference and not _has_references(benchmark):
            del asked[dimension]
            without.append(dimension)
    if not asked:
        return _skipped(f"UniEval has no question for {task} on {', '.join(without)} with the data there is")

    def open_scores() -> tuple[str, list[tuple[list[str], Score]]]:
        writer = open_writer(options["checkpoint"], "unieval", trained.UNIEVAL_SUGGESTION, _machine(options))
        functions: list[tuple[list[str], Score]] = [
            ([dimension], functools.partial(trained.unieval, writer, question)) for dimension, question in asked.items()
        ]
        return f"model:{writer.opened.fingerprint}|nrefs:best|sentences:rule", functions

    result = _scored("unieval", benchmark, settings, open_scores)
    notes = (f"UniEval has no question for {', '.join(without)}; no score there",) if without else ()
    return replace(result, notes=(*notes, *result.notes)) if result.method else result


def nli(
    benchmark: Benchmark, dimensions: Sequence[Dimension], _judge: Judge, settings: MethodSettings, /
) -> MethodResult:
    """Entailment both ways between data and text: `nli:PATH`; the same number on every dimension."""
    options = settings.own("nli", {"checkpoint": "", **MACHINE})
    task = benchmark.contexts[0].task
    if task != "data-to-text":
        return _skipped(f"it reads triples of data, and the task of {benchmark.name} is {task}")
    return _classified(
        "nli",
        trained.NLI_SUGGESTION,
        trained.data_entailment,
        options,
        benchmark=benchmark,
        dimensions=dimensions,
        settings=settings,
    )


def regressor(
    benchmark: Benchmark, dimensions: Sequence[Dimension], _judge: Judge, settings: MethodSettings, /
) -> MethodResult:
    """The output of a trained sequence classifier: `regressor:PATH`; the same number on every dimension."""
    options = settings.own("regressor", {"checkpoint": "", **MACHINE})
    return _classified(
        "regressor",
        trained.REGRESSOR_SUGGESTION,
        trained.regression,
        options,
        benchmark=benchmark,
        dimensions=dimensions,
        settings=settings,
    )


def _classified(
    name: str,
    suggestion: str,
    score: Callable[[Reader, Context, Sequence[str]], Found],
    options: dict[str, str],
    *,
    benchmark: Benchmark,
    dimensions: Sequence[Dimension],
    settings: MethodSettings,
) -> MethodResult:
    if not options["checkpoint"]:
        return _skipped(f"no checkpoint was named; {suggestion}")

    def open_scores() -> tuple[str, list[tuple[list[str], Score]]]:
        reader = open_reader(options["checkpoint"], CLASSIFIER, name, suggestion, _machine(options))
        every = [dimension.name for dimension in dimensions]
        return f"model:{reader.opened.fingerprint}", [(every, functools.partial(score, reader))]

    return _scored(name, benchmark, settings, open_scores)


def questeval(
    benchmark: Benchmark, dimensions: Sequence[Dimension], _judge: Judge, settings: MethodSettings, /
) -> MethodResult:
    """Questions written and answered both ways: `questeval:GENERATOR+READER`; the same number on every dimension."""
    options = settings.own("questeval", {"checkpoint": "", **MACHINE})
    suggestion = questeval_scoring.SUGGESTION
    if not options["checkpoint"]:
        return _skipped(f"no checkpoint was named; {suggestion}")
    names = split_checkpoints(options["checkpoint"], questeval_scoring.ROLES, "questeval", suggestion)

    def open_scores() -> tuple[str, list[tuple[list[str], Score]]]:
        generator, reader = (open_writer(name, "questeval", suggestion, _machine(options)) for name in names)
        every = [dimension.name for dimension in dimensions]
        signature = f"models:{generator.opened.fingerprint}+{reader.opened.fingerprint}|spans:rule|weights:uniform"
        return signature, [(every, functools.partial(questeval_scoring.questeval, generator, reader))]

    return _scored("questeval", benchmark, settings, open_scores)


def mqag(
    benchmark: Benchmark, dimensions: Sequence[Dimension], _judge: Judge, settings: MethodSettings, /
) -> MethodResult:
    """Multiple-choice questions about the output: `mqag:GENERATOR+DISTRACTORS+READER`; the same on every dimension.

    Option `questions` is how many are drawn for each output.
    """
    options = settings.own("mqag", {"checkpoint": "", "questions": str(mqag_scoring.QUESTIONS), **MACHINE})
    suggestion = mqag_scoring.SUGGESTION
    if not options["questions"].isdecimal() or int(options["questions"]) < 1:
        raise UsageError(f"mqag.questions={options['questions']}: a whole number, 1 or more, is needed")
    if not options["checkpoint"]:
        return _skipped(f"no checkpoint was named; {suggestion}")
    names = split_checkpoints(options["checkpoint"], mqag_scoring.ROLES, "mqag", suggestion)

    def open_scores() -> tuple[str, list[tuple[list[str], Score]]]:
        machine = _machine(options)
        generator, distractors = (open_writer(name, "mqag", suggestion, machine) for name in names[:2])
        reader = open_reader(names[2], MULTIPLE_CHOICE, "mqag", suggestion, machine)
        score = functools.partial(
            mqag_scoring.mqag,
            generator,
            distractors,
            reader,
            questions=int(options["questions"]),
            seed=settings.seed,
        )
        models = "+".join(one.opened.fingerprint for one in (generator, distractors, reader))
        signature = f"models:{models}|questions:{options['questions']}|seed:{settings.seed}|distance:total-variation"
        return signature, [([dimension.name for dimension in dimensions], score)]

    return _scored("mqag", benchmark, settings, open_scores)
