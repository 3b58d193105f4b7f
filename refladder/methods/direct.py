"""Methods that ask the judge for a grade of one text at a time: direct-5, direct-10, g-eval-5, g-eval-10.

`direct` takes the most probable grade (arXiv 2307.07889), `g-eval` the expected one (arXiv 2303.16634).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from refladder.backends.usage import characters
from refladder.errors import LabelsUnavailableError
from refladder.methods.contract import EvaluationMethod, Method, MethodResult
from refladder.methods.measures import of_judgments
from refladder.prompts import load_template
from refladder.records import Recipe, Run
from refladder.scoring.dry_run import kept_judgments
from refladder.scoring.grades import (
    draw_grades,
    expected_grade,
    grade_prompt,
    grade_question,
    most_probable_grade,
    on_scale,
    read_grades,
)
from refladder.scoring.judging import trusted
from refladder.scoring.judgment_file import JudgmentLog
from refladder.scoring.scorer import batches
from refladder.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from refladder.backends import Backend
    from refladder.backends.estimate import Plan
    from refladder.methods.contract import Judge, MethodSettings
    from refladder.prompts import Template
    from refladder.records import Benchmark, Dimension, Judgment, Sampling
    from refladder.scoring.judging import Question

ANSWER_TOKENS = 5  # arXiv 2307.07889, section 4.3.2


@dataclass(frozen=True, slots=True, kw_only=True)
class _Grading:
    """The questions of one method, and how they are asked; methods with the same `shared_name` share answers."""

    backend: Backend
    template: Template
    questions: list[tuple[Dimension, Question]]
    run: Run
    sampling: Sampling | None
    answers: int
    shared_name: str
    judgments: Path | None

    @property
    def asked(self) -> list[Question]:
        return [question for _, question in self.questions]

    def ask(self, questions: Sequence[Question]) -> list[Judgment]:
        recipe = self.run.recipe.digest
        if self.sampling is None:
            return read_grades(self.backend, self.template, recipe, questions)
        return draw_grades(self.backend, self.template, recipe, questions, answers=self.answers, sampling=self.sampling)


def _grading(
    grades: int,
    benchmark: Benchmark,
    dimensions: Sequence[Dimension],
    judge: Judge,
    settings: MethodSettings,
) -> _Grading:
    answers = settings.answers
    backend = judge()
    template = load_template(benchmark.contexts[0].task, f"direct-{grades}", settings.prompts)
    sampling = None if not answers else replace(settings.sampling, max_tokens=ANSWER_TOKENS, seed=settings.seed)
    recipe = Recipe(backend=backend.fingerprint, prompts=(template.signature,), sampling=sampling, version=__version__)
    contexts = {context.id: context for context in benchmark.contexts}
    kind = f"direct-{grades}" + (f"-{answers}-answers" if answers else "")
    return _Grading(
        backend=backend,
        template=template,
        questions=[
            (dimension, grade_question(output, contexts[output.context_id], dimension))
            for output in benchmark.outputs
            for dimension in dimensions
        ],
        run=Run(recipe=recipe, ladders="none", dimensions=tuple(dimensions), rungs=0, orders=1),
        sampling=sampling,
        answers=answers,
        shared_name=f"{kind}-{recipe.digest}",
        judgments=None if settings.work is None else settings.work / f"{kind}.judgments.jsonl",
    )


def _method(name: str, grades: int, value_of: Callable[[Judgment], float | None], rule: str) -> EvaluationMethod:
    def run(
        benchmark: Benchmark, dimensions: Sequence[Dimension], judge: Judge, settings: MethodSettings, /
    ) -> MethodResult:
        settings.own(name, {})
        grading = _grading(grades, benchmark, dimensions, judge, settings)
        restart = settings.restart and grading.shared_name not in settings.kept
        kept = settings.kept.setdefault(grading.shared_name, {})
        reused = 0
        with (
            JudgmentLog(grading.judgments, grading.run, restart=restart) as log,
            settings.progress(name) as progress,
        ):
            done = 0
            for batch in batches(grading.asked, grading.backend):
                stored = log.stored(batch)
                new = [question for question in batch[len(stored) :] if _key(question) not in kept]
                try:
                    fresh = grading.ask(new)
                except LabelsUnavailableError as error:
                    return MethodResult(method=None, skipped=f"{error}; to count drawn answers, pass --answers 20")
                log.append(fresh)
                reused += len(batch) - len(fresh)
                kept.update(zip(map(_key, batch), stored, strict=False))
                kept.update(zip(map(_key, new), fresh, strict=True))
                done += len(batch)
                if progress is not None:
                    progress(done, len(grading.questions))
            log.finish()
        judgments = trusted([kept[_key(question)] for question in grading.asked], settings.least_mass)
        scores: dict[tuple[str, str], float | None] = {}
        for (dimension, question), judgment in zip(grading.questions, judgments, strict=True):
            value = value_of(judgment)
            scores[question.comparison.subject, dimension.name] = (
                None if value is None else on_scale(value, grades, (dimension.low, dimension.high))
            )
        signature = f"{grading.run.recipe.signature}|answers:{settings.answers or 'read'}|grades:{grades}|rule:{rule}"
        length = sum(characters(grade_prompt(grading.template, question)) for question in grading.asked)
        return MethodResult(
            method=Method(name=name, signature=f"{signature}|least-mass:{settings.least_mass:g}", scores=scores),
            judgments=len(grading.questions),
            reused=reused,
            unreadable=sum(judgment.logprobs is None for judgment in judgments),
            characters=length * max(settings.answers, 1),
            measures=of_judgments(judgments),
        )

    def plan(
        costs: Plan, benchmark: Benchmark, dimensions: Sequence[Dimension], judge: Judge, settings: MethodSettings, /
    ) -> tuple[str, ...]:
        settings.own(name, {})
        grading = _grading(grades, benchmark, dimensions, judge, settings)
        labels = list(grading.template.labels.values())
        with kept_judgments(grading.judgments, grading.run) as log:
            for batch in batches(grading.asked, grading.backend):
                missing = {_key(question): question for question in batch[len(log.stored(batch)) :]}
                prompts = [
                    grade_prompt(grading.template, missing[key])
                    for key in costs.new_questions(grading.shared_name, missing)
                ]
                costs.judge(grading.backend, prompts, labels, answers=grading.answers, sampling=grading.sampling)
            log.finish()
        return ()

    return EvaluationMethod(run=run, plan=plan)


direct_5 = _method("direct-5", 5, most_probable_grade, "most-probable")
direct_10 = _method("direct-10", 10, most_probable_grade, "most-probable")
g_eval_5 = _method("g-eval-5", 5, expected_grade, "expected")
g_eval_10 = _method("g-eval-10", 10, expected_grade, "expected")


def _key(question: Question) -> str:
    """What identifies a judgment of this run: the output, and the texts that are shown."""
    return f"{question.comparison.subject}\n{question.key}"
