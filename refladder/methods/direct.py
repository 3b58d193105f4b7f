"""Methods that ask the judge about one text at a time: direct-5, direct-10, g-eval-5, g-eval-10, gptscore."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from refladder.errors import LabelsUnavailableError
from refladder.methods import gptscore as likelihood
from refladder.methods.contract import Method, MethodResult
from refladder.methods.measures import Measures, joined, of_judgments
from refladder.prompts import criterion, fill, load_template
from refladder.scoring.asker import Asker, run_of
from refladder.scoring.grades import expected_grade, grade_question, most_probable_grade, on_scale
from refladder.scoring.judgment_file import JudgmentIndex
from refladder.scoring.scorer import batches

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from refladder.methods.contract import Judge, MethodFunction, MethodSettings
    from refladder.records import Benchmark, Dimension, Judgment
    from refladder.scoring.question import Question

ANSWER_TOKENS = 5  # arXiv 2307.07889, section 4.3.2
GPTSCORE = "gptscore"
NO_ANSWERS = "--answers is not used: gptscore reads the log-probability of whole texts, which are not answers"


def _graded(name: str, grades: int, value_of: Callable[[Judgment], float | None], rule: str) -> MethodFunction:
    def graded(
        benchmark: Benchmark, dimensions: Sequence[Dimension], judge: Judge, settings: MethodSettings, /
    ) -> MethodResult:
        """Ask for a grade of every output on every dimension, told on the dimension's own scale."""
        settings.own(name, {})
        answers = settings.answers
        backend = judge()
        template = load_template(benchmark.contexts[0].task, f"direct-{grades}", settings.prompts)
        sampling = None if not answers else replace(settings.sampling, max_tokens=ANSWER_TOKENS, seed=settings.seed)
        run = run_of(backend, template, answers=answers, sampling=sampling)
        signature = f"{run.recipe.signature}|answers:{answers or 'read'}|grades:{grades}|rule:{rule}"
        signature += f"|least-mass:{settings.least_mass:g}"
        contexts = {context.id: context for context in benchmark.contexts}
        questions = [
            (dimension, grade_question(output, contexts[output.context_id], dimension))
            for output in benchmark.outputs
            for dimension in dimensions
        ]
        kind = f"direct-{grades}" + (f"-{answers}-answers" if answers else "")
        asked_before = f"{kind}-{run.recipe.digest}"
        log = JudgmentIndex(
            _path(settings, kind),
            run,
            restart=settings.restart and asked_before not in settings.kept,
            judgments=settings.kept.setdefault(asked_before, {}),
        )
        asker = Asker(backend, template, log, settings.least_mass)
        judgments: list[Judgment] = []
        with settings.progress(name) as progress:
            for batch in batches((question for _, question in questions), backend):
                try:
                    judgments += asker.ask(batch)
                except LabelsUnavailableError as error:
                    return MethodResult(method=None, skipped=f"{error}; to count drawn answers, pass --answers 20")
                if progress is not None:
                    progress(len(judgments), len(questions))
        scores: dict[tuple[str, str], float | None] = {}
        for (dimension, question), judgment in zip(questions, judgments, strict=True):
            value = value_of(judgment)
            scores[question.comparison.subject, dimension.name] = (
                None if value is None else on_scale(value, grades, (dimension.low, dimension.high))
            )
        return MethodResult(
            method=Method(name=name, signature=signature, scores=scores),
            judgments=len(questions),
            reused=log.reused,
            unreadable=sum(judgment.logprobs is None for judgment in judgments),
            characters=sum(asker.characters(question) for _, question in questions),
            measures=of_judgments(judgments),
        )

    return graded


direct_5 = _graded("direct-5", 5, most_probable_grade, "most-probable")
direct_10 = _graded("direct-10", 10, most_probable_grade, "most-probable")
g_eval_5 = _graded("g-eval-5", 5, expected_grade, "expected")
g_eval_10 = _graded("g-eval-10", 10, expected_grade, "expected")


def gptscore(
    benchmark: Benchmark, dimensions: Sequence[Dimension], judge: Judge, settings: MethodSettings, /
) -> MethodResult:
    """Mean log-probability of the tokens of every output, after the instruction to write the best text.

    Source: arXiv 2302.04166.
    """
    settings.own(GPTSCORE, {})
    backend = judge()
    template = load_template(benchmark.contexts[0].task, likelihood.ROLE, settings.prompts)
    try:
        likelihood.check_reads_texts(backend, fill(template, criterion(benchmark.contexts[0], dimensions[0])))
    except LabelsUnavailableError as error:
        return MethodResult(method=None, skipped=str(error))
    run = run_of(backend, template)
    log = JudgmentIndex(_path(settings, GPTSCORE), run, restart=settings.restart)
    outputs: dict[str, list[int]] = {}
    for place, output in enumerate(benchmark.outputs):
        outputs.setdefault(output.context_id, []).append(place)
    scores: dict[tuple[str, str], float | None] = {}
    asked_in_all = unreadable = 0
    measures: list[Measures] = []
    digest = run.recipe.digest

    def read(questions: Sequence[Question]) -> list[list[Judgment]]:
        return [likelihood.read_texts(backend, template, digest, questions)]

    with settings.progress(GPTSCORE) as progress:
        for number, context in enumerate(benchmark.contexts, start=1):
            for dimension in dimensions:
                asked = [
                    grade_question(benchmark.outputs[place], context, dimension)
                    for place in outputs.get(context.id, ())
                ]
                if not asked:
                    continue
                judgments = log.complete(asked, read)
                values = likelihood.mean_logprobs(backend, template, asked, judgments)
                for question, value in zip(asked, values, strict=True):
                    scores[question.comparison.subject, dimension.name] = value
                asked_in_all += len(asked)
                unreadable += values.count(None)
                measures.append(of_judgments(judgments))
            if progress is not None:
                progress(number, len(benchmark.contexts))
    return MethodResult(
        method=Method(name=GPTSCORE, signature=f"{run.recipe.signature}|rule:mean-logprob-per-token", scores=scores),
        judgments=asked_in_all,
        reused=log.reused,
        unreadable=unreadable,
        measures=joined(measures),
        notes=(NO_ANSWERS,) if settings.answers else (),
    )


def _path(settings: MethodSettings, kind: str) -> Path | None:
    return None if settings.work is None else settings.work / f"{kind}.judgments.jsonl"
