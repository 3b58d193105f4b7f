"""Which of two outputs of one context is better: the question, and the probability that the first one is.

The answer is a Judgment with the outcomes win and loss, about the output that was shown first (`subject`) against the
second. The swapped pair is another question.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from refladder.records import LOSS, WIN
from refladder.scoring.question import question_about

if TYPE_CHECKING:
    from collections.abc import Sequence

    from refladder.arrays import FloatArray
    from refladder.records import Context, Dimension, Judgment, Output
    from refladder.scoring.question import Question

ROLE = "pairwise"


def pair_question(context: Context, dimension: Dimension, first: Output, second: Output) -> Question:
    """The question which of two outputs is better."""
    texts = {"first": first.text, "second": second.text}
    return question_about(context, dimension, subject=first.id, against=second.id, texts=texts)


def first_probabilities(judgments: Sequence[Judgment]) -> FloatArray:
    """P(first) / (P(first) + P(second)), shape (judgments,); NaN if unparsed. Source: arXiv 2307.07889, equation 3."""
    probabilities = np.full(len(judgments), np.nan)
    for position, judgment in enumerate(judgments):
        if (logprobs := judgment.logprobs_of((WIN, LOSS))) is not None:
            win, loss = logprobs
            gap = loss - win
            probabilities[position] = 1 / (1 + math.exp(gap)) if gap < 0 else math.exp(-gap) / (1 + math.exp(-gap))
    return probabilities
