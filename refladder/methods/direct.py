"""Methods that ask the judge for grades.

`direct` takes the most probable grade (arXiv 2307.07889), `g-eval` the expected one (arXiv 2303.16634; of 1 to 100 the
distribution-sensitive score of arXiv 2509.21117). `verifier` (LLM-as-a-Verifier, arXiv 2607.05391) grades both texts of
a pair on a scale of 20 letters: each pair is shown in both orders, and each of its texts has a question of its own.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from refladder.arrays import known_mean
from refladder.errors import LabelsUnavailableError
from refladder.methods.contract import EvaluationMethod, Method, MethodResult
from refladder.methods.measures import Tally
from refladder.methods.pairwise import (
    choose_pairs,
    measures_of,
    no_scores,
    signature_of,
    split_by_cell,
)
from refladder.prompts.template import ROLE_GRADES
from refladder.records import by_id
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
# An answer has at most this number of tokens (arXiv 2307.07889, section 4.3.2).
ANSWER_TOKENS = 5


def open_grader(role: str, benchmark: Benchmark, judge: Judge, settings: MethodSettings) -> Asker:
    """Open the judge of grades; methods of a run that ask for equal grades share its judgments."""
    answers = settings.sampled
    backend = judge()
    template = judging_template(backend, benchmark.contexts[0].task, role, settings.prompts)
    sampling = replace(settings.sampling, max_tokens=ANSWER_TOKENS) if answers else None
    run = run_of(backend, template, answers=answers, sampling=sampling)
    kind = role + (f"-{answers}-answers" if answers else "")
    log = settings.judgments(f"{kind}.judgments.jsonl", run)
    return Asker(backend, template, log, settings.least_mass)


def without_labels(error: LabelsUnavailableError) -> MethodResult:
    """Return the result of a judge that gives no label probabilities."""
    return MethodResult(method=None, skipped=f"{error}; to count drawn answers, pass --answers 20")


def grade_questions(
    benchmark: Benchmark, dimensions: Sequence[Dimension]
) -> list[tuple[Dimension, Question]]:
    """Write the question about every output on every dimension."""
    contexts = by_id(benchmark.contexts)
    questions = []
    for output in benchmark.outputs:
        context = contexts[output.context_id]
        questions += [(each, grade_question(output, context, each)) for each in dimensions]
    return questions


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
        """Ask for a grade of every output on every dimension, and put it on the dimension's own scale."""
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
            if value is not None:
                value = on_scale(value, grades, (dimension.low, dimension.high))
            scores[question.comparison.subject, dimension.name] = value
        signature = (
            f"{asker.log.run.recipe.signature}|answers:{settings.sampled or 'read'}|grades:{grades}|rule:{rule}"
            f"|least-mass:{settings.least_mass:g}"
        )
        method = Method(name=name, signature=signature, scores=scores)
        return MethodResult(method=method).counted(tally)

    return EvaluationMethod(run=run)


direct_5 = _method("direct-5", 5, most_probable_grade, "most-probable")
direct_10 = _method("direct-10", 10, most_probable_grade, "most-probable")
g_eval_5 = _method("g-eval-5", 5, expected_grade, "expected")
g_eval_10 = _method("g-eval-10", 10, expected_grade, "expected")
g_eval_100 = _method("g-eval-100", 100, expected_grade, "expected")


def _pair_questions(cell: Cell, pairs: IntArray) -> Iterator[Question]:
    """Ask which grade the first text of each pair deserves, and which the second."""
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
    """Average the expected grades of an output over all its pairs, on the dimension's own scale."""
    settings.own(VERIFIER, {})
    chosen = choose_pairs(benchmark, dimensions, settings)
    asker = open_grader(VERIFIER, benchmark, judge, settings)
    questions: list[Question] = []
    for cell, pairs in chosen:
        questions += _pair_questions(cell, pairs)
    tally = Tally()
    with settings.progress(VERIFIER) as progress:
        try:
            judgments = tally.ask(asker, questions, progress=progress)
        except LabelsUnavailableError as error:
            return without_labels(error)
    if settings.dry_run:
        return MethodResult(method=None)
    grades = np.array(list(map(expected_grade, judgments)), dtype=np.float64).reshape(-1, 2)
    scores = no_scores(benchmark, dimensions)
    comparisons = []
    for cell, pairs, grades_of_cell in split_by_cell(chosen, grades):
        scale = cell.dimension.low, cell.dimension.high
        for position, output in enumerate(cell.outputs):
            mean = known_mean(grades_of_cell[pairs == position])
            if mean is not None:
                scores[output.id, cell.dimension.name] = on_scale(mean, LETTERS, scale)
        # This is the paper's soft win, of grades from 0 to 1.
        difference = (grades_of_cell[:, 1] - grades_of_cell[:, 0]) / (LETTERS - 1)
        comparisons.append(cell.compared(pairs, 1 / (1 + np.exp(difference))))
    signature = f"{VERIFIER}|{signature_of(asker, settings)}"
    method = Method(name=VERIFIER, signature=signature, scores=scores)
    result = MethodResult(method=method, comparisons=comparisons, notes=tally.notes())
    return result.counted(tally, measures_of(comparisons))


verifier = EvaluationMethod(run=_verify)
