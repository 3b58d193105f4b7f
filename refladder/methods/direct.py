"""Methods that ask the judge for grades.

`direct` takes the most probable grade (arXiv 2307.07889), `g-eval` the expected one (arXiv 2303.16634; of 1 to 100 the
distribution-sensitive score of arXiv 2509.21117). `verifier` (LLM-as-a-Verifier, arXiv 2607.05391) grades both texts of
a pair on a scale of 20 letters: each pair is shown in both orders, and each of its texts has a question of its own.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from refladder.errors import LabelsUnavailableError
from refladder.methods.contract import Comparisons, EvaluationMethod, Method, MethodResult
from refladder.methods.measures import Tally
from refladder.methods.pairwise import choose_pairs, measures_of, no_scores, signature_of
from refladder.prompts.template import ROLE_GRADES
from refladder.scoring.asker import Asker, judging_template, run_of
from refladder.scoring.grades import expected_grade, grade_question, most_probable_grade, on_scale
from refladder.scoring.question import question_about
from refladder.scoring.scorer import batches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from refladder.arrays import IntArray
    from refladder.methods.contract import Judge, MethodSettings
    from refladder.methods.pairwise import Cell
    from refladder.records import Benchmark, Dimension, Judgment
    from refladder.scoring.question import Question

VERIFIER = "verifier"
LETTERS = ROLE_GRADES[VERIFIER]
ANSWER_TOKENS = 5  # arXiv 2307.07889, section 4.3.2


def open_grader(role: str, benchmark: Benchmark, judge: Judge, settings: MethodSettings) -> Asker:
    """The judge of grades; methods of a run that ask for the same grades share its judgments."""
    answers = settings.answers
    backend = judge()
    template = judging_template(backend, benchmark.contexts[0].task, role, settings.prompts)
    sampling = replace(settings.sampling, max_tokens=ANSWER_TOKENS) if answers else None
    run = run_of(backend, template, answers=answers, sampling=sampling)
    kind = role + (f"-{answers}-answers" if answers else "")
    log = settings.judgments(f"{kind}.judgments.jsonl", run)
    return Asker(backend, template, log, settings.least_mass)


def without_labels(error: LabelsUnavailableError) -> MethodResult:
    """The result where the judge gives no label probabilities."""
    return MethodResult(method=None, skipped=f"{error}; to count drawn answers, pass --answers 20")


def grade_questions(
    benchmark: Benchmark, dimensions: Sequence[Dimension]
) -> list[tuple[Dimension, Question]]:
    """The question about every output on every dimension."""
    contexts = {context.id: context for context in benchmark.contexts}
    return [
        (dimension, grade_question(output, contexts[output.context_id], dimension))
        for output in benchmark.outputs
        for dimension in dimensions
    ]


def _method(
    name: str, grades: int, value_of: Callable[[Judgment], float | None], rule: str
) -> EvaluationMethod:
    def run(
        benchmark: Benchmark,
        dimensions: Sequence[Dimension],
        judge: Judge,
        settings: MethodSettings,
        /,
    ) -> MethodResult:
        """Ask for a grade of every output on every dimension, told on the dimension's own scale."""
        settings.own(name, {})
        asker = open_grader(f"direct-{grades}", benchmark, judge, settings)
        questions = grade_questions(benchmark, dimensions)
        tally = Tally()
        judgments: list[Judgment] = []
        with settings.progress(name) as progress:
            for batch in batches((question for _, question in questions), asker.backend):
                try:
                    judgments += tally.ask(asker, batch)
                except LabelsUnavailableError as error:
                    return without_labels(error)
                if progress is not None:
                    progress(len(judgments), len(questions))
        scores: dict[tuple[str, str], float | None] = {}
        for (dimension, question), judgment in zip(questions, judgments, strict=True):
            value = value_of(judgment)
            scores[question.comparison.subject, dimension.name] = (
                None if value is None else on_scale(value, grades, (dimension.low, dimension.high))
            )
        signature = f"{asker.log.run.recipe.signature}|answers:{settings.answers or 'read'}|grades:{grades}|rule:{rule}"
        return MethodResult(
            method=Method(
                name=name,
                signature=f"{signature}|least-mass:{settings.least_mass:g}",
                scores=scores,
            ),
            **tally.counts(),
        )

    return EvaluationMethod(run=run)


direct_5 = _method("direct-5", 5, most_probable_grade, "most-probable")
direct_10 = _method("direct-10", 10, most_probable_grade, "most-probable")
g_eval_5 = _method("g-eval-5", 5, expected_grade, "expected")
g_eval_10 = _method("g-eval-10", 10, expected_grade, "expected")
g_eval_100 = _method("g-eval-100", 100, expected_grade, "expected")


def _pair_questions(cell: Cell, pairs: IntArray) -> Iterator[Question]:
    """Which grade the first text of each pair deserves, and which the second."""
    for first, second in pairs.tolist():
        both = cell.outputs[first], cell.outputs[second]
        shown = {"first": both[0].text, "second": both[1].text}
        for place, (graded, other) in enumerate((both, both[::-1]), 1):
            texts = shown | {"place": str(place)}
            yield question_about(
                cell.context, cell.dimension, subject=graded.id, against=other.id, texts=texts
            )


def _verify(
    benchmark: Benchmark, dimensions: Sequence[Dimension], judge: Judge, settings: MethodSettings, /
) -> MethodResult:
    """The mean of an output's expected grades in all its pairs, told on the dimension's own scale."""
    settings.own(VERIFIER, {})
    chosen = choose_pairs(benchmark, dimensions, settings)
    asker = open_grader(VERIFIER, benchmark, judge, settings)
    questions = [question for cell, pairs in chosen for question in _pair_questions(cell, pairs)]
    tally = Tally()
    with settings.progress(VERIFIER) as progress:
        try:
            judgments = tally.ask(asker, questions, progress=progress)
        except LabelsUnavailableError as error:
            return without_labels(error)
    if settings.dry_run:
        return MethodResult(method=None)
    grades = np.array(
        [expected_grade(judgment) for judgment in judgments], dtype=np.float64
    ).reshape(-1, 2)
    ends = np.cumsum([len(pairs) for _, pairs in chosen])
    scores = no_scores(benchmark, dimensions)
    comparisons = []
    for (cell, pairs), read in zip(chosen, np.split(grades, ends[:-1]), strict=True):
        scale = cell.dimension.low, cell.dimension.high
        for position, output in enumerate(cell.outputs):
            own = read[pairs == position]
            own = own[~np.isnan(own)]
            if own.size:
                scores[output.id, cell.dimension.name] = on_scale(float(own.mean()), LETTERS, scale)
        first = 1 / (
            1 + np.exp((read[:, 1] - read[:, 0]) / (LETTERS - 1))
        )  # the paper's soft win, of grades from 0 to 1
        comparisons.append(Comparisons(**cell._asdict(), pairs=pairs, probabilities=first))
    return MethodResult(
        method=Method(
            name=VERIFIER, signature=f"{VERIFIER}|{signature_of(asker, settings)}", scores=scores
        ),
        **tally.counts(measures_of(comparisons)),
        comparisons=comparisons,
        notes=tally.notes(),
    )


verifier = EvaluationMethod(run=_verify)
