"""Surface of ladders: how well length or counts of signs predict the level of a rung."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections import Counter

    from refladder.arrays import FloatArray

# The linear rule weighs its squared coefficients with this.
RIDGE = 5.0
_HEDGES = re.compile(
    r"\b(?:may|might|perhaps|maybe|possibly|probably|could|seems?|i think)\b", re.IGNORECASE
)
_WORD = re.compile(r"\w[\w'’-]*")  # noqa: RUF001
_SENTENCE_END = re.compile(r"[.!?]+(?=\s|$)")
_QUOTES = '"“”„‘'  # noqa: RUF001


def surface_counts(text: str) -> list[float]:
    """Count twelve signs of a text.

    They are words, question marks, exclamation marks, digits, quotation marks, commas, sentences, letters a word,
    distinct words per word, colons and semicolons, hedges such as "may" or "perhaps", and words a sentence.
    """
    words = _WORD.findall(text)
    number = max(len(words), 1)
    sentences = max(len(_SENTENCE_END.findall(text)), 1)
    return [
        len(words),
        text.count("?"),
        text.count("!"),
        sum(map(str.isdigit, text)),
        sum(text.count(quote) for quote in _QUOTES),
        text.count(","),
        sentences,
        sum(map(len, words)) / number,
        len(set(map(str.casefold, words))) / number,
        text.count(":") + text.count(";"),
        len(_HEDGES.findall(text)),
        number / sentences,
    ]


def surface_accuracy(counts: FloatArray) -> float:
    """Return the share of neighbouring rungs that a linear rule of their counts orders as their levels do.

    The rule is trained on the differences of neighbours on all other ladders: ridge regression of 1 without an
    intercept, on counts standardised over all rungs. A difference of 0 is no order.

    Args:
        counts: shape (ladders, rungs, counts), from `surface_counts`; rung 1 is the worst. At least 2 ladders.

    Returns:
        Between 0 and 1; 1/2 is chance.
    """
    spread = counts.std(axis=(0, 1))
    steps = np.diff(counts, axis=1) / np.where(spread > 0, spread, 1.0)
    signs = steps.shape[2]
    right = 0
    for place in range(len(steps)):
        others = np.delete(steps, place, axis=0).reshape(-1, signs)
        rule = np.linalg.solve(others.T @ others + RIDGE * np.eye(signs), others.sum(axis=0))
        right += int((steps[place] @ rule > 0).sum())
    return float(right / (steps.shape[0] * steps.shape[1]))


def length_rise(worst: str, best: str) -> int:
    """Return 1 where the best rung of a ladder has more characters than the worst, -1 where it has fewer, else 0."""
    return (len(best) > len(worst)) - (len(best) < len(worst))


def right_by_length(rises: Counter[int]) -> int:
    """Count the ladders in which a rule of length alone finds the best rung, from each `length_rise`.

    The rule prefers the longer text, or the shorter one, whichever is right more often.
    """
    return max(rises[1], rises[-1])


def length_deviation(lengths: FloatArray) -> float:
    """Return how far the mean length of a level is from that of all levels at most, as a share of the latter.

    Args:
        lengths: shape (ladders, rungs), in words.
    """
    of_levels = lengths.mean(axis=0)
    return float(np.abs(of_levels / of_levels.mean() - 1).max())
