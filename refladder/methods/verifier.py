"""LLM-as-a-Verifier (arXiv 2607.05391): both texts of a pair are graded on a scale of 20 letters.

Each pair of outputs is shown in both orders, and each of the two texts has a question of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from refladder.errors import LabelsUnavailableError
from refladder.methods.contract import Comparisons, EvaluationMethod, Method, MethodResult
from refladder.methods.direct import open_grader, without_labels
from refladder.methods.measures import Tally
from refladder.methods.pairwise import choose_pairs, measures_of, no_scores, signature_of
from refladder.prompts.template import ROLE_GRADES
from refladder.scoring.grades import expected_grade, on_scale
from refladder.scoring.question import question_about

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from refladder.arrays import IntArray
    from refladder.methods.contract import Judge, MethodSettings
    from refladder.methods.pairwise import Cell
    from refladder.records import Benchmark, Dimension
    from refladder.scoring.question import Question

NAME = "verifier"
GRADES = ROLE_GRADES[NAME]


def _questions(cell: Cell, pairs: IntArray) -> Iterator[Question]:
    """Which grade the first text of each pair deserves, and which the second."""
    for first, second in pairs.tolist():
        both = cell.outputs[first], cell.outputs[second]
        shown = {"first": both[0].text, "second": both[1].text}
        for place, (graded, other) in enumerate((both, both[::-1]), 1):
            texts = shown | {"place": str(place)}
            yield question_about(cell.context, cell.dimension, subject=graded.id, against=other.id, texts=texts)


def _run(
    benchmark: Benchmark, dimensions: Sequence[Dimension], judge: Judge, settings: MethodSettings, /
) -> MethodResult:
    """The mean of an output's expected grades in all its pairs, told on the dimension's own scale."""
    settings.own(NAME, {})
    chosen = choose_pairs(benchmark, dimensions, settings)
    asker = open_grader(NAME, benchmark, judge, settings)
    questions = [question for cell, pairs in chosen for question in _questions(cell, pairs)]
    tally = Tally()
    with settings.progress(NAME) as progress:
        try:
            judgments = tally.ask(asker, questions, progress=progress)
        except LabelsUnavailableError as error:
            return without_labels(error)
    if settings.dry_run:
        return MethodResult(method=None)
    grades = np.array([expected_grade(judgment) for judgment in judgments], dtype=np.float64).reshape(-1, 2)
    ends = np.cumsum([len(pairs) for _, pairs in chosen])
    scores = no_scores(benchmark, dimensions)
    comparisons = []
    for (cell, pairs), read in zip(chosen, np.split(grades, ends[:-1]), strict=True):
        scale = cell.dimension.low, cell.dimension.high
        for position, output in enumerate(cell.outputs):
            own = read[pairs == position]
            own = own[~np.isnan(own)]
            if own.size:
                scores[output.id, cell.dimension.name] = on_scale(float(own.mean()), GRADES, scale)
        first = 1 / (
            1 + np.exp((read[:, 1] - read[:, 0]) / (GRADES - 1))
        )  # the paper's soft win, of grades from 0 to 1
        comparisons.append(Comparisons(**cell._asdict(), pairs=pairs, probabilities=first))
    return MethodResult(
        method=Method(name=NAME, signature=f"{NAME}|{signature_of(asker, settings)}", scores=scores),
        **tally.counts(measures_of(comparisons)),
        comparisons=comparisons,
        notes=tally.notes(),
    )


verifier = EvaluationMethod(run=_run)
