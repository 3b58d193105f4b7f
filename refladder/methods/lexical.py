"""Surface measures of a text: the honest baselines that stand in every table of agreement.

On HANNA and NewsRoom they alone reach correlations that are reported for large judges; a method that does not beat
them has shown nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from refladder.records import Context

    Measure = Callable[[Sequence[str], "ContextWords"], float]

_WORD = re.compile(r"\w+(?:['\u2019]\w+)*")
_LONGEST = 3  # words of an n-gram


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextWords:
    """What measures need of a context: its different words, and its different n-grams of 1, 2 and 3 words."""

    words: frozenset[str]
    grams: tuple[frozenset[tuple[str, ...]], ...]


def words(text: str) -> list[str]:
    """The words of a text, in lower case: runs of letters and digits, inner apostrophes included."""
    return _WORD.findall(text.lower())


def surface_measures(context: Context, texts: Iterable[str]) -> NDArray[np.float64]:
    """Measure texts beside their context.

    Args:
        context: what the texts are about; its background is not read.
        texts: any number of them.

    Returns:
        Shape (texts, measures), in the order of `MEASURES`.
    """
    told = words(context.text)
    source = ContextWords(
        words=frozenset(told), grams=tuple(frozenset(_grams(told, size)) for size in range(1, _LONGEST + 1))
    )
    rows = [[measure(tokens, source) for measure in MEASURES.values()] for tokens in map(words, texts)]
    return np.array(rows, dtype=np.float64).reshape(-1, len(MEASURES))


def _grams(tokens: Sequence[str], size: int) -> list[tuple[str, ...]]:
    return list(zip(*(tokens[start:] for start in range(size)), strict=False))


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def length(tokens: Sequence[str], _source: ContextWords) -> float:
    """Number of words."""
    return float(len(tokens))


def negative_length(tokens: Sequence[str], _source: ContextWords) -> float:
    """Number of words, shorter texts higher."""
    return -float(len(tokens))


def distinct_words(tokens: Sequence[str], _source: ContextWords) -> float:
    """Number of different words."""
    return float(len(set(tokens)))


def type_token_ratio(tokens: Sequence[str], _source: ContextWords) -> float:
    """Different words by words, between 0 and 1; 0 for a text without words."""
    return _share(len(set(tokens)), len(tokens))


def coverage(tokens: Sequence[str], source: ContextWords) -> float:
    """Share of the context's different words that the text has, between 0 and 1; 0 for a context without words."""
    return _share(len(source.words & set(tokens)), len(source.words))


def word_overlap(tokens: Sequence[str], source: ContextWords) -> float:
    """Different words that both have by those that either has (Jaccard index), between 0 and 1; 0 without words."""
    return _share(len(source.words & set(tokens)), len(source.words | set(tokens)))


def _grams_in_context(size: int) -> Measure:
    """Share of a text's n-grams that the context has, between 0 and 1; 0 for a text without any."""

    def measure(tokens: Sequence[str], source: ContextWords) -> float:
        grams = _grams(tokens, size)
        return _share(sum(gram in source.grams[size - 1] for gram in grams), len(grams))

    return measure


MEASURES: dict[str, Measure] = {
    "length": length,
    "distinct words": distinct_words,
    "coverage": coverage,
    **{f"{size}-grams in context": _grams_in_context(size) for size in range(1, _LONGEST + 1)},
    "word overlap": word_overlap,
    "type/token ratio": type_token_ratio,
    "negative length": negative_length,
}
