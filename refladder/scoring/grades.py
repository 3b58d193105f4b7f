"""Asks a judge for a grade of one text: direct scoring, prompt scoring, G-Eval.

A judgment is about one text: `against` is None and the outcomes are grades, "1" to "5", "10" or "100". A backend gives
the log-probability of every grade as the answer; with `backends.sampled.Sampled` it is the share of sampled answers.

The probability of a grade is that of the label as the beginning of the answer, as in the papers. "1" is the beginning
of "10" too. If a tokenizer splits "10", the hf backend counts the part of "1" that continues to "10" for 10 alone
(p(1) * (1 - p(0 | 1))), and other backends count it for both. If 10 is one token, nothing overlaps. In any case, "1"
may be the beginning of an answer that is not a grade ("1st", "12").
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from refladder.errors import UsageError
from refladder.scoring.question import question_about

if TYPE_CHECKING:
    from refladder.records import Context, Dimension, Judgment, Output
    from refladder.scoring.question import Question


def grade_question(output: Output, context: Context, dimension: Dimension) -> Question:
    """Ask which grade one output deserves on one dimension."""
    return question_about(
        context, dimension, subject=output.id, against="", texts={"target": output.text}
    )


def _shares(judgment: Judgment) -> dict[float, float]:
    """Return the probabilities of the grades, summing to 1: a softmax over the labels."""
    if judgment.logprobs is None:
        return {}
    highest = max(judgment.logprobs)
    weights = [math.exp(value - highest) for value in judgment.logprobs]
    total = math.fsum(weights)
    grades = map(float, judgment.outcomes)
    return {grade: weight / total for grade, weight in zip(grades, weights, strict=True)}


def most_probable_grade(judgment: Judgment) -> float | None:
    """Return the most probable grade, the mean of equally probable ones; None if unparsed.

    Source: arXiv 2307.07889, section 4.3.2; arXiv 2509.05440, section 3.
    """
    shares = _shares(judgment)
    if not shares:
        return None
    highest = max(shares.values())
    chosen = [grade for grade, share in shares.items() if share == highest]
    return math.fsum(chosen) / len(chosen)


def expected_grade(judgment: Judgment) -> float | None:
    """Average the grades by their probabilities (G-Eval): sum over k of k * p(k); None if unparsed.

    Source: arXiv 2303.16634, equation 1.
    """
    shares = _shares(judgment)
    if not shares:
        return None
    return math.fsum(grade * share for grade, share in shares.items())


def on_scale(grade: float, grades: int, scale: tuple[float, float]) -> float:
    """Put a grade from 1..`grades` on a dimension's human scale: 1 is its low end, `grades` its high end."""
    if grades < 2:
        raise UsageError(f"a scale has at least 2 grades, found {grades}")
    low, high = scale
    return low + (high - low) * (grade - 1) / (grades - 1)
