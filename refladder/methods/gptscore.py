"""GPTScore (arXiv 2302.04166): how likely a model finds a text after an instruction to write a good one.

The instruction is the task's writing prompt of role `best`: it shows the context and the dimension and asks for the
best possible text. The judge must read the log-probability of texts of any length and count their tokens: a backend that
overrides `Backend.count_label_tokens`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from refladder.backends.protocol import characters
from refladder.errors import BackendError, LabelsUnavailableError, option
from refladder.methods.contract import EvaluationMethod, Method, MethodResult, by_context
from refladder.methods.measures import Tally
from refladder.prompts import criterion, fill, load_template
from refladder.records import TEXT, LabelReading
from refladder.scoring.asker import run_of
from refladder.scoring.grades import grade_question
from refladder.scoring.verdicts import judgment_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from refladder.backends import Backend
    from refladder.methods.contract import Judge, MethodSettings
    from refladder.prompts import Template
    from refladder.records import Benchmark, Dimension, Judgment, Prompt
    from refladder.scoring.question import Question

NAME = "gptscore"
ROLE = "best"
NO_ANSWERS = "--answers is not used: gptscore reads the log-probability of whole texts, which are not answers"


def check_reads_texts(backend: Backend, prompt: Prompt) -> None:
    """Check that a backend can be asked for the likelihood of whole texts."""
    if backend.count_label_tokens(prompt, ["text"]) is None:
        raise LabelsUnavailableError(
            f"judge {backend.fingerprint!r} cannot read the log-probability of a whole text and count its tokens; "
            f"use a model on this machine ({option('judge')} hf:PATH)"
        )


def _prompt(template: Template, question: Question) -> Prompt:
    return fill(template, criterion(question.context, question.dimension))


def _groups(questions: Sequence[Question]) -> list[list[str]]:
    """Group the texts of questions so that a backend can read them as labels: no text is the beginning of another."""
    texts = dict.fromkeys(question.texts["target"] for question in questions)
    texts.pop("", None)
    others = []
    groups = []
    for text in texts:
        if any(other != text and other.startswith(text) for other in texts):
            groups.append([text])
        else:
            others.append(text)
    return [others, *groups] if others else []


def read_texts(
    backend: Backend, template: Template, recipe: str, questions: Sequence[Question]
) -> list[Judgment]:
    """Read the texts of one context on one dimension: a judgment with one outcome for each question."""
    logprobs: dict[str, float] = {}
    note: str | None = None
    cut = False
    for group in _groups(questions):
        readings = backend.read_labels([_prompt(template, questions[0])], group)
        if len(readings) != 1 or len(readings[0].logprobs or group) != len(group):
            raise BackendError(
                f"{backend.fingerprint}: asked for {len(group)} texts after 1 prompt, answered otherwise"
            )
        reading = readings[0]
        note = reading.reason or reading.note or note
        cut = cut or reading.cut
        logprobs.update(zip(group, reading.logprobs or (), strict=False))
    judgments = []
    for question in questions:
        text = question.texts["target"]
        read = LabelReading(logprobs=None, reason=note if text else "the text is empty", cut=cut)
        if text in logprobs:
            read = LabelReading(logprobs=(logprobs[text],), cut=cut)
        judgments.append(judgment_of(question, recipe, (TEXT,), read))
    return judgments


def mean_logprobs(
    judge: Backend, template: Template, questions: Sequence[Question], judgments: Sequence[Judgment]
) -> list[float | None]:
    """Return the natural log-probability per token of each text, at most 0; None if the judge gave none.

    Source: arXiv 2302.04166, section 3 (weights 1/m for each of m tokens); arXiv 2307.07889, section 4.3.2.
    """
    logprobs: dict[str, float] = {}
    for question, judgment in zip(questions, judgments, strict=True):
        if judgment.logprobs is not None:
            logprobs[question.texts["target"]] = judgment.logprobs[0]
    texts = list(logprobs)
    counts = judge.count_label_tokens(_prompt(template, questions[0]), texts) if texts else []
    for text, count in zip(texts, counts or [], strict=True):
        if count < 1:
            raise BackendError(
                f"the judge read the text {text[:40]!r} and counts {count} tokens in it"
            )
        logprobs[text] /= count
    return [logprobs.get(question.texts["target"]) for question in questions]


def _run(
    benchmark: Benchmark, dimensions: Sequence[Dimension], judge: Judge, settings: MethodSettings, /
) -> MethodResult:
    """Score every output by the mean log-probability of its tokens after the instruction to write the best text."""
    settings.own(NAME, {})
    try:
        backend = judge()
        template = load_template(benchmark.contexts[0].task, ROLE, settings.prompts)
        check_reads_texts(backend, fill(template, criterion(benchmark.contexts[0], dimensions[0])))
    except LabelsUnavailableError as error:
        return MethodResult(method=None, skipped=str(error))
    log = settings.judgments(f"{NAME}.judgments.jsonl", run_of(backend, template))
    recipe = log.run.recipe
    reused = log.reused
    scores: dict[tuple[str, str], float | None] = {}
    tally = Tally()

    with settings.progress(NAME) as progress:
        for number, (context, outputs) in enumerate(by_context(benchmark), start=1):
            for dimension in dimensions:
                questions = [grade_question(output, context, dimension) for output in outputs]
                new = log.unanswered(questions)
                log.append(read_texts(backend, template, recipe.digest, new))
                judgments = log.answers(questions)
                tally.add(
                    judgments, characters(_prompt(template, questions[0])) * len(_groups(questions))
                )
                values = mean_logprobs(backend, template, questions, judgments)
                for output, value in zip(outputs, values, strict=True):
                    scores[output.id, dimension.name] = value
            if progress is not None:
                progress(number, len(benchmark.contexts))
    tally.reused = log.reused - reused
    signature = f"{recipe.signature}|rule:mean-logprob-per-token"
    method = Method(name=NAME, signature=signature, scores=scores)
    notes = (NO_ANSWERS,) if settings.sampled else ()
    return MethodResult(method=method, notes=notes).counted(tally)


gptscore = EvaluationMethod(run=_run)
