"""Surface measures of a text: the honest baselines that stand in every table of agreement.

On HANNA and NewsRoom they alone reach correlations that are reported for large judges; a method that does not beat
them has shown nothing.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from refladder.records import Context

    Measure = Callable[[Context, str], float]

_WORD = re.compile(r"\w+(?:['\u2019]\w+)*")


def words(text: str) -> list[str]:
    """The words of a text, in lower case: runs of letters and digits, inner apostrophes included."""
    return _WORD.findall(text.lower())


def length(_context: Context, text: str) -> float:
    """Number of words."""
    return float(len(words(text)))


def distinct_words(_context: Context, text: str) -> float:
    """Number of different words."""
    return float(len(set(words(text))))


def coverage(context: Context, text: str) -> float:
    """Share of the context's different words that the text has, between 0 and 1; 0 for a context without words."""
    wanted = set(words(context.text))
    return len(wanted & set(words(text))) / len(wanted) if wanted else 0.0


BASELINES: dict[str, Measure] = {"length": length, "distinct words": distinct_words, "coverage": coverage}
