"""Grades of single texts: the question, sampled answers, and the numbers that judgments give.

A judgment is about one text: `against` is None and the outcomes are grades, "1" to "5" or "1" to "10". It is made from
the log-probability of every grade as the answer (`read_labels`), or from K sampled answers, whose shares stand for the
probabilities (`draw_grades`); `mass` is then the share of the answers that could be read.

A read grade's probability is that of the label as the beginning of the answer, as in the papers. "1" is the beginning
of "10" too; where a tokenizer splits "10", the part of "1" that goes on to "10" is counted for 10 alone by the hf
backend (p(1) * (1 - p(0 | 1))), and counted for both by a backend that does not look. Where 10 is one token there is no
overlap. Either way "1" may also be the beginning of an answer that is no grade ("1st", "12").
"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from refladder.backends import whole
from refladder.errors import UsageError
from refladder.records import LabelReading
from refladder.scoring.drawing import NEVER
from refladder.scoring.question import question_about

if TYPE_CHECKING:
    from collections.abc import Sequence

    from refladder.backends import Backend
    from refladder.records import Completion, Context, Dimension, Judgment, Output, Prompt, Sampling
    from refladder.scoring.question import Question

ROLES = ("direct-5", "direct-10")
# What may surround a grade in the first line of an answer.
_ANSWER = re.compile(r"\s*([^\s.]+)[ \t]*\.?[ \t]*(\r?\n|\Z)")


def grade_question(output: Output, context: Context, dimension: Dimension) -> Question:
    """The question which grade one output deserves on one dimension."""
    return question_about(context, dimension, subject=output.id, against="", texts={"target": output.text})


def draw_grades(
    backend: Backend, prompts: Sequence[Prompt], labels: Sequence[str], *, answers: int, sampling: Sampling
) -> list[LabelReading]:
    """Sample several answers to every prompt, and take the shares of the grades.

    An answer is a grade when its first line is one of the labels, a full stop allowed, and nothing else; an answer that
    was cut off in that line is none. A grade that no answer gives has the logarithm `NEVER`.

    Args:
        backend: the judge; only `write` is used.
        prompts: of role direct-5 or direct-10.
        labels: the grades.
        answers: samples for each prompt, with seeds `sampling.seed`, + 1, ...
        sampling: how answers are drawn.

    Returns:
        One reading for each prompt; its mass is the share of the answers that are grades. None, with a note, where no
        answer is.

    Raises:
        BackendError: the judge failed as a whole, or broke its contract.
    """
    counts = np.zeros((len(prompts), len(labels)), dtype=np.int64)
    reasons: list[str | None] = [None] * len(prompts)
    for number in range(answers):
        completions = whole(backend, prompts, backend.write(prompts, replace(sampling, seed=sampling.seed + number)))
        for row, completion in enumerate(completions):
            answer = read_answer(completion)
            if answer in labels:
                counts[row, labels.index(answer)] += 1
            elif reasons[row] is None:
                reasons[row] = completion.note or f"the answer {completion.text[:40]!r} is no grade"
    readings = []
    for given, reason in zip(counts.tolist(), reasons, strict=True):
        parsed = sum(given)
        note = None if reason is None else f"{answers - parsed} of {answers} answers unreadable: {reason}"
        logprobs = tuple(math.log(count / parsed) if count else NEVER for count in given) if parsed else None
        readings.append(LabelReading(logprobs=logprobs, mass=parsed / answers if parsed else None, note=note))
    return readings


def read_answer(completion: Completion) -> str | None:
    """The one word in the first line of an answer, or None: a failure, more words, or cut off in that line."""
    line = _ANSWER.match(completion.text)
    if line is None or completion.finish == "error" or (completion.finish == "length" and not line[2]):
        return None
    return line[1]


def _shares(judgment: Judgment) -> dict[float, float]:
    """Probabilities of the grades, summing to 1: a softmax over the labels."""
    if judgment.logprobs is None:
        return {}
    highest = max(judgment.logprobs)
    weights = [math.exp(value - highest) for value in judgment.logprobs]
    total = math.fsum(weights)
    return {float(grade): weight / total for grade, weight in zip(judgment.outcomes, weights, strict=True)}


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
