"""The quality of a text on a dimension, by a fixed formula over surface features, and the verdicts that follow.

The weights are chosen by the words that name and describe the dimension; verdicts come from a comparison model with
ties over the difference of two such numbers. The features and round weights were set by hand, the same for every data
set, with the public benchmarks that refladder loads in view; nothing is learnt from a batch.
"""

from __future__ import annotations

import math
from functools import lru_cache
from operator import mul
from typing import TYPE_CHECKING

from refladder.backends.builtin.features import Measures, measure, read_source, split_words
from refladder.records import DOCUMENT, LOSS, TIE, WIN

if TYPE_CHECKING:
    from collections.abc import Mapping

# Stems of the words that say which facets of a text a dimension is about. All facets weigh in when none is found.
FACETS = {
    "content": "relevan informat coverag complet adequa semantic meaning importan key essential topic salien",
    "support": "consisten fact faith hallucinat accura entail support ground knowledge correct truth attribut",
    "form": "fluen gramma natural readab understandab written spelling languag clear clarity style ungramma format",
    "flow": "coheren structur organi fit flow sens logic continu maintain follow appropriat redundan repetit",
    "richness": "complex elaborat surpris engag interest empath emotion creativ specific divers dull vivid lively",
}
# In these tasks a text may say only what the context says; elsewhere it is to add something.
CLOSED_TASKS = frozenset({"summarization", "data-to-text"})
# Loops, broken grammar, noise and a telegraphic or thin manner count against a text on every dimension.
_FAULTS = {"repetition": -1.0, "misfit": -1.0, "noise": -2.0, "imbalance": -1.0}
# What else each facet counts. Round numbers: they state which way and roughly how much, no more.
CLOSED_WEIGHTS: dict[str, dict[str, float]] = {
    # Using the context's weighty words, and no word twice.
    "content": _FAULTS | {"coverage": 4, "copying": 1, "echo": -1},
    # What the context does not say in these words may not be so.
    "support": _FAULTS | {"support": 2, "copying": 2, "coverage": 1},
    # Joins copied from the context are sound; finished sentences.
    "form": _FAULTS
    | {"copying": 2, "coverage": 1, "ending": 0.5, "echo": -2, "misfit": -2, "imbalance": -2},
    # Sentences that do not say the same again, and enough of them to make a whole.
    "flow": _FAULTS | {"copying": 2, "coverage": 2, "variety": 2, "ending": 0.25, "echo": -3},
    "richness": _FAULTS | {"variety": 4, "coverage": 2, "word_length": 2, "echo": -1},
}
OPEN_WEIGHTS: dict[str, dict[str, float]] = {
    "content": _FAULTS | {"variety": 4, "coverage": 2, "background": 1, "word_length": 2},
    "support": _FAULTS | {"background": 4, "support": 1, "variety": 2},
    # A text that runs long without a loop shows command of the language.
    "form": _FAULTS
    | {"variety": 5, "word_length": 3, "ending": 0.1, "repetition": -2, "misfit": -2, "noise": -3},
    # Staying with the idea, at length and without a loop.
    "flow": _FAULTS
    | {
        "variety": 4,
        "coverage": 0.5,
        "word_length": 1,
        "background": 0.5,
        "repetition": -2,
        "noise": -3,
    },
    # Many different and specific words, something learnt, something asked.
    "richness": _FAULTS | {"variety": 6, "word_length": 4, "background": 1, "question": 0.1},
}
# An ordinary text, where quality is 0. A fixed point, so that a text's quality never depends on other texts.
ORDINARY = Measures(
    variety=0.45,
    coverage=0.5,
    support=0.5,
    copying=0.4,
    background=0.0,
    repetition=0.05,
    echo=0.1,
    misfit=0.0,
    noise=0.0,
    ending=1.0,
    imbalance=0.1,
    word_length=0.45,
    question=0.0,
)
# A facet found in the dimension's name weighs as much as this many found in its description.
NAME_SHARE = 3.0
# Log odds of a win over a loss for one unit of quality.
DISCRIMINATION = 3.0
# Weight of a tie: two equal texts win, lose and tie a third each.
TIES = 1.0
# Standard deviation of a direct grade, as a share of the scale.
GRADE_SPREAD = 0.2
# Characters; the features of longer texts are not cached, so that memory stays bounded.
LONG_TEXT = 10_000


@lru_cache(maxsize=256)
def facet_shares(name: str, description: str) -> Mapping[str, float]:
    """Return the weight of each facet for a dimension, by the words of its name and description; they sum to 1."""
    shares = dict.fromkeys(FACETS, 0.0)
    for words, amount in ((split_words(name), NAME_SHARE), (split_words(description), 1.0)):
        for facet, stems in FACETS.items():
            beginnings = tuple(stems.split())
            if any(word.startswith(beginnings) for word in words):
                shares[facet] += amount
    whole = sum(shares.values())
    if not whole:
        return dict.fromkeys(shares, 1 / len(shares))
    return {facet: share / whole for facet, share in shares.items()}


@lru_cache(maxsize=256)
def feature_weights(task: str, name: str, description: str) -> tuple[tuple[float, ...], float]:
    """Return the weight of every feature for a dimension of a task, and the quality of an ordinary text with them."""
    table = CLOSED_WEIGHTS if task in CLOSED_TASKS else OPEN_WEIGHTS
    shares = facet_shares(name, description)
    weights = []
    for field in Measures._fields:
        parts = [share * table[facet].get(field, 0.0) for facet, share in shares.items()]
        weights.append(sum(parts))
    return tuple(weights), sum(map(mul, weights, ORDINARY))


@lru_cache(maxsize=8192)
def _quality(  # noqa: PLR0917  the key of a cache
    text: str, context: str, background: str, task: str, name: str, description: str
) -> float:
    weights, ordinary = feature_weights(task, name, description)
    measures = measure(text, read_source(context, background, task))
    if measures is None:
        return sum(min(weight, 0.0) for weight in weights) - 0.5 - ordinary
    return float(sum(map(mul, weights, measures)) - ordinary)


def quality(  # noqa: PLR0917  as above
    text: str, context: str, background: str, task: str, name: str, description: str
) -> float:
    """Return the quality of a text on a dimension: higher is better, 0 for an ordinary text, no unit, about -8 to 8."""
    # A document is judged without its subject.
    if task == DOCUMENT:
        context = background = ""
    if len(text) > LONG_TEXT:
        return float(_quality.__wrapped__(text, context, background, task, name, description))
    return _quality(text, context, background, task, name, description)


def verdict(difference: float) -> dict[str, float]:
    """Return log-probabilities of win, loss and tie: e^h : e^-h : TIES with h = `difference` * DISCRIMINATION / 2.

    Source: Davidson, JASA 65 (1970), on ties in paired comparisons.
    """
    half = difference * DISCRIMINATION / 2
    grown = math.exp(abs(half))
    whole = math.log(grown + 1 / grown + TIES)
    return {WIN: half - whole, LOSS: -half - whole, TIE: math.log(TIES) - whole}


def grades(value: float, count: int) -> dict[str, float]:
    """Return log-probabilities of the grades 1..`count`: a discretised bell around 1 + (count - 1) / (1 + e^-value)."""
    centre = 1 + (count - 1) / (1 + math.exp(-value))
    spread = GRADE_SPREAD * count
    heights = [-(((grade - centre) / spread) ** 2) / 2 for grade in range(1, count + 1)]
    whole = math.log(sum(map(math.exp, heights)))
    return {str(grade): height - whole for grade, height in enumerate(heights, 1)}
