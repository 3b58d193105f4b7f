"""Asks a judge for a grade of one text: direct scoring, prompt scoring, G-Eval.

A judgment is about one text: `against` is None and the outcomes are grades, "1" to "5" or "1" to "10". A backend gives
the log-probability of every grade as the answer; with `backends.sampled.Sampled` it is the share of sampled answers.

A read grade's probability is that of the label as the beginning of the answer, as in the papers. "1" is the beginning
of "10" too; where a tokenizer splits "10", the part of "1" that goes on to "10" is counted for 10 alone by the hf
backend (p(1) * (1 - p(0 | 1))), and counted for both by a backend that does not look. Where 10 is one token there is no
overlap. Either way "1" may also be the beginning of an answer that is no grade ("1st", "12").
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from refladder.backends import whole
from refladder.errors import UsageError
from refladder.prompts import criterion, fill
from refladder.records import Comparison
from refladder.scoring.judging import Question, digest_of, judgment_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from refladder.backends import Backend
    from refladder.prompts import Template
    from refladder.records import Context, Dimension, Judgment, Output, Prompt

ROLES = ("direct-5", "direct-10")


def grade_question(output: Output, context: Context, dimension: Dimension) -> Question:
    """The question about one output on one dimension, with the digest of the texts that are shown."""
    state = digest_of(context.text, context.background, dimension.name, dimension.description, output.text)
    return Question(
        comparison=Comparison(context_id=context.id, dimension=dimension.name, subject=output.id, against=""),
        key=state.hexdigest(),
        context=context,
        dimension=dimension,
        target=output.text,
        reference="",
    )


def grade_prompt(template: Template, question: Question) -> Prompt:
    """The prompt that asks a question."""
    return fill(template, {**criterion(question.context, question.dimension), "target": question.target})


def read_grades(backend: Backend, template: Template, recipe: str, asked: Sequence[Question]) -> list[Judgment]:
    """Read the probability of every grade.

    Args:
        backend: the judge.
        template: of role direct-5 or direct-10.
        recipe: Recipe.digest of backend and template.
        asked: the questions, those of one context next to each other.

    Returns:
        One judgment a question, in order; `logprobs` is None, with a note, where the judge could not be read.

    Raises:
        LabelsUnavailableError: the judge gives no label probabilities; sample answers instead.
        BackendError: the judge failed as a whole, or broke its contract.
    """
    if not asked:
        return []
    prompts = [grade_prompt(template, question) for question in asked]
    readings = whole(backend, prompts, backend.read_labels(prompts, list(template.labels.values())))
    outcomes = tuple(template.labels)
    return [
        judgment_of(
            question.comparison,
            question.key,
            recipe,
            outcomes=outcomes,
            logprobs=reading.logprobs,
            mass=reading.mass,
            note=reading.reason or reading.note,
            cut=reading.cut,
        )
        for question, reading in zip(asked, readings, strict=True)
    ]


def _shares(judgment: Judgment) -> dict[float, float]:
    """Probabilities of the grades, summing to 1: a softmax over the labels."""
    if judgment.logprobs is None:
        return {}
    highest = max(judgment.logprobs)
    weights = [math.exp(value - highest) for value in judgment.logprobs]
    whole = math.fsum(weights)
    return {float(grade): weight / whole for grade, weight in zip(judgment.outcomes, weights, strict=True)}


def most_probable_grade(judgment: Judgment) -> float | None:
    """The grade that a judge would give: direct scoring and prompt scoring.

    Grades that are exactly as probable as each other count their mean, so that neither end of the scale is favoured.

    Source: arXiv 2307.07889, section 4.3.2; arXiv 2509.05440, section 3.

    Returns:
        Between the least and the greatest grade; None where the judge could not be read.
    """
    shares = _shares(judgment)
    if not shares:
        return None
    highest = max(shares.values())
    chosen = [grade for grade, share in shares.items() if share == highest]
    return math.fsum(chosen) / len(chosen)


def expected_grade(judgment: Judgment) -> float | None:
    """The mean of the grades, weighed by their probabilities: G-Eval.

    grade = sum over k of  k * p(k),  p = softmax over the log-probabilities of the labels 1..K.

    Source: arXiv 2303.16634, equation 1.

    Returns:
        Between the least and the greatest grade; None where the judge could not be read.
    """
    shares = _shares(judgment)
    return math.fsum(grade * share for grade, share in shares.items()) if shares else None


def on_scale(grade: float, grades: int, scale: tuple[float, float]) -> float:
    """A grade from 1..`grades` on a dimension's human scale: 1 is its low end, `grades` its high end.

    Raises:
        UsageError: a scale of fewer than two grades.
    """
    if grades < 2:  # noqa: PLR2004
        raise UsageError(f"a scale has at least 2 grades, found {grades}")
    low, high = scale
    return low + (high - low) * (grade - 1) / (grades - 1)
