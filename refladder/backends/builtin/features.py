"""Surface features of a text and its context: what can be counted without a model.

Every feature lies between 0 and 1 and depends on nothing but the text, its context and the task, so that a text
measures the same whatever it is measured with. Cost is linear in the length of text and context.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise, product
from operator import eq
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

# Runs of letters and digits: "team's" and "team 's" give the same words, so tokenised and plain text can be compared.
_WORD = re.compile(r"[^\W_]+")
# Data is written in names such as birthPlace and Ayam_penyet.
CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
# Signs that do not occur in prose (markup, placeholders such as <unk>, stray brackets) and heaped-up punctuation.
_NOISE = re.compile(r"[^\w\s.,!?'\"“”’‘;:()$£€%&/–—-]|[.,!?:;-]\s*(?=[.,!?:;-])")  # noqa: RUF001  real signs
_CLOSERS = "\"'”’»)]*` \t\r\n"  # noqa: RUF001  closing quotation marks
_ENDS = frozenset(".!?…。！？")  # noqa: RUF001  full-width ends of Chinese and Japanese sentences

_DETERMINERS = "a an the every my your its our their"
_SUBJECTS = "i he she it we they who"
_AUXILIARIES = "is are was were be been am has have had do does did will would can could should may might must shall"
_PREPOSITIONS = (
    "of from into at with for by to in on under over about between through during against among"
)
_CONJUNCTIONS = "and or but nor because although if that than as while when where so then which"
FUNCTION_WORDS = frozenset(
    (
        f"{_DETERMINERS} {_SUBJECTS} {_AUXILIARIES} {_PREPOSITIONS} {_CONJUNCTIONS} "
        "me him her us them you his hers this these those there here what whom whose why how not no only own same too "
        "very just being having doing out up down off again once also all any both each few more most other some such "
        "s t d ll re ve m n don didn doesn isn wasn"
    ).split()
)
# Words that no sentence ends with.
_HANGING = frozenset(
    "the a an of and or but every my your our their into from because although".split()  # noqa: SIM905
)
# Neighbours that English grammar hardly allows: an article before a verb, a wrong agreement, ...
_MISFITS = (
    (
        _DETERMINERS,
        f"{_DETERMINERS} {_SUBJECTS} is are was were be been has have had do does did of from into at and or",
    ),
    (
        "of from into at with for by",
        "is are was were has have had and or but of from into he she they we i",
    ),
    ("he she it", "are were have do am"),
    ("they we you", "is was has does am"),
    ("i", "is are has does"),
    ("is are was were am has had", "is are was were am have"),
    ("and or but nor", "of and or but nor"),
    ("can could will would should must may might", "is are was were has had does did a an of"),
)
_MISFIT_PAIRS: set[tuple[str, str]] = set()
for _lefts, _rights in _MISFITS:
    _MISFIT_PAIRS.update(product(_lefts.split(), _rights.split()))


class Measures(NamedTuple):
    """The features of a text with its source, each between 0 and 1."""

    # Different content words, on a log scale: the best single sign of substance.
    variety: float
    # Weight of the context's words that the text uses (square root).
    coverage: float
    # Share of the text's content words that context or background has.
    support: float
    # Share of the text's word pairs that context or background has.
    copying: float
    # Words taken from the background alone, on a log scale.
    background: float
    # Share of word pairs that occurred before in the text.
    repetition: float
    # Share of content words that occurred before in the text.
    echo: float
    # Doubled words and neighbours that grammar does not allow.
    misfit: float
    # Signs that do not occur in prose.
    noise: float
    # 1 if the last sentence is complete.
    ending: float
    # Telegraphic (hardly any function words) or thin (hardly anything else).
    imbalance: float
    # Mean length of the content words: specific words are long.
    word_length: float
    # 1 if the text asks a question.
    question: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The source that a text is compared with: content words, their weights (sum 1), and all words and pairs."""

    weights: Mapping[str, float]
    words: frozenset[str]
    pairs: frozenset[tuple[str, str]]
    background: frozenset[str]


def split_words(text: str) -> list[str]:
    """Return the words of a text in order, lower case, without punctuation."""
    return _WORD.findall(text.lower())


@lru_cache(maxsize=512)
def read_source(context: str, background: str, task: str) -> Source:
    """Count the words of a context once for all texts that are compared with it."""
    words = split_words(CAMEL.sub(" ", context) if task == "data-to-text" else context)
    extra = split_words(background)
    counts = Counter(words)
    weights: dict[str, float] = {}
    for position, word in enumerate(words):
        if word in FUNCTION_WORDS:
            continue
        if task == "dialogue":
            weights[word] = 1 / (6 - 5 * position / len(words))
        elif task == "data-to-text":
            weights[word] = 1.0
        elif word not in weights:
            weights[word] = counts[word]
            if task == "summarization":
                weights[word] /= 1 + 5 * position / len(words)
    whole = sum(weights.values())
    return Source(
        weights={word: weight / whole for word, weight in weights.items()},
        words=frozenset(words).union(extra),
        pairs=frozenset(pairwise(words)).union(pairwise(extra)),
        background=frozenset(extra) - FUNCTION_WORDS - frozenset(words),
    )


def measure(text: str, source: Source) -> Measures | None:
    """Return the features of a text, or None if it has no words."""
    words = split_words(text)
    total = len(words)
    if not total:
        return None
    content = set(words) - FUNCTION_WORDS
    different = len(content)
    function = sum(map(FUNCTION_WORDS.__contains__, words))
    pairs = set(pairwise(words))
    joins = max(1, total - 1)
    weights = source.weights
    misfits = len(pairs & _MISFIT_PAIRS) + sum(map(eq, words, words[1:])) + (words[-1] in _HANGING)
    return Measures(
        variety=min(1.0, math.log1p(different) / 7),
        coverage=math.sqrt(
            min(1.0, math.fsum([weights[word] for word in content if word in weights]))
        ),
        support=len(content & source.words) / max(1, different),
        copying=len(pairs & source.pairs) / max(1, len(pairs)),
        background=min(1.0, math.log1p(len(content & source.background)) / 3),
        repetition=1 - len(pairs) / joins if pairs else 0.0,
        echo=1 - different / max(1, total - function) if different else 0.0,
        misfit=min(1.0, 6 * misfits / (6 + total)),
        noise=min(1.0, 3 * len(_NOISE.findall(text)) / (5 + total)),
        ending=float(text.rstrip(_CLOSERS)[-1:] in _ENDS),
        imbalance=abs(function / total - 0.42),
        word_length=min(1.0, sum(map(len, content)) / (12 * max(1, different))),
        question=float("?" in text),
    )
