"""The backend that needs no model: it judges by surface features and writes rungs by degrading text.

It is the baseline that every judge has to beat, and it keeps refladder usable on a bare machine. It reads the slots of
a prompt, never its words, so it takes any template. Judging is a fixed formula: one quality number for each text, from
the features of `surface` with weights chosen by the words that name and describe the dimension, and a comparison model
with ties over the difference of two such numbers. The features and round weights were set by hand, the same for every
data set, with the public benchmarks that refladder loads in view; nothing is learnt from a batch.

The writer (`degrade`) steers by the judge's own number. That is circular on purpose: such rungs are evenly spread for
this judge, and say nothing new to it.
"""

from __future__ import annotations

import math
from functools import lru_cache
from operator import mul
from typing import TYPE_CHECKING

from refladder.backends.builtin import drafts as degrade
from refladder.backends.builtin.features import Measures, measure, read_source, split_words
from refladder.backends.protocol import Backend
from refladder.errors import BackendError, BackendUnavailableError, LabelsUnavailableError
from refladder.records import LOSS, OUTCOMES, TIE, WIN, Completion, LabelReading

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from refladder.records import Prompt, Sampling

# Stems of the words that say which facets of a text a dimension is about. All facets weigh in when none is found.
FACETS = {
    "content": "relevan informat coverag complet adequa semantic meaning importan key essential topic salien",
    "support": "consisten fact faith hallucinat accura entail support ground knowledge correct truth attribut",
    "form": "fluen gramma natural readab understandab written spelling languag clear clarity style ungramma format",
    "flow": "coheren structur organi fit flow sens logic continu maintain follow appropriat redundan repetit",
    "richness": "complex elaborat surpris engag interest empath emotion creativ specific divers dull vivid lively",
}
# In these tasks a text may say only what the context says; elsewhere it is to add something.
_WRITTEN = ("worst", "best", "between")  # the roles of a ladder's rungs
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
    "form": _FAULTS | {"copying": 2, "coverage": 1, "ending": 0.5, "echo": -2, "misfit": -2, "imbalance": -2},
    # Sentences that do not say the same again, and enough of them to make a whole.
    "flow": _FAULTS | {"copying": 2, "coverage": 2, "variety": 2, "ending": 0.25, "echo": -3},
    "richness": _FAULTS | {"variety": 4, "coverage": 2, "word_length": 2, "echo": -1},
}
OPEN_WEIGHTS: dict[str, dict[str, float]] = {
    "content": _FAULTS | {"variety": 4, "coverage": 2, "background": 1, "word_length": 2},
    "support": _FAULTS | {"background": 4, "support": 1, "variety": 2},
    # A text that runs long without a loop shows command of the language.
    "form": _FAULTS | {"variety": 5, "word_length": 3, "ending": 0.1, "repetition": -2, "misfit": -2, "noise": -3},
    # Staying with the idea, at length and without a loop.
    "flow": _FAULTS
    | {"variety": 4, "coverage": 0.5, "word_length": 1, "background": 0.5, "repetition": -2, "noise": -3},
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
NAME_SHARE = 3.0  # a facet found in the dimension's name weighs as much as this many found in its description
DISCRIMINATION = 3.0  # log odds of a win over a loss for one unit of quality
TIES = 1.0  # weight of a tie: two equal texts win, lose and tie a third each
GRADE_SPREAD = 0.2  # standard deviation of a direct grade, as a share of the scale
LONG_TEXT = 10_000  # characters; the features of longer texts are not cached, so that memory stays bounded


@lru_cache(maxsize=256)
def facet_shares(name: str, description: str) -> Mapping[str, float]:
    """How much each facet counts for a dimension, by the words of its name and description; the shares sum to 1."""
    shares = dict.fromkeys(FACETS, 0.0)
    for words, amount in ((split_words(name), NAME_SHARE), (split_words(description), 1.0)):
        for facet, stems in FACETS.items():
            shares[facet] += amount * any(word.startswith(stem) for stem in stems.split() for word in words)
    whole = sum(shares.values())
    return {facet: share / whole if whole else 1 / len(shares) for facet, share in shares.items()}


@lru_cache(maxsize=256)
def feature_weights(task: str, name: str, description: str) -> tuple[tuple[float, ...], float]:
    """The weight of every surface feature for a dimension of a task, and what an ordinary text gets with them."""
    table = CLOSED_WEIGHTS if task in CLOSED_TASKS else OPEN_WEIGHTS
    shares = facet_shares(name, description)
    weights = tuple(
        sum(share * table[facet].get(field, 0.0) for facet, share in shares.items()) for field in Measures._fields
    )
    return weights, sum(map(mul, weights, ORDINARY))


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
    """One number for a text on one dimension: weighted surface features, 0 for an ordinary text.

    Args:
        text: what is judged.
        context: what it was written for.
        background: further knowledge, or "".
        task: one of the tasks of `refladder.prompts`.
        name: the dimension's name.
        description: the dimension's description.

    Returns:
        Higher is better; no unit, about -8 to 8. A text without words gets less than any text with words can.
    """
    if len(text) > LONG_TEXT:
        return float(_quality.__wrapped__(text, context, background, task, name, description))
    return _quality(text, context, background, task, name, description)


def verdict(difference: float) -> dict[str, float]:
    """How likely a text wins, loses and ties, by how much better it is than the other.

    With h = `difference` * DISCRIMINATION / 2, the three are as e^h : e^-h : TIES, so that swapping the texts swaps win
    and loss exactly, and a better text has strictly more wins and fewer losses.

    Source: Davidson, "On extending the Bradley-Terry model to accommodate ties in paired comparison experiments",
    JASA 65 (1970).

    Returns:
        Natural logarithms of the probabilities of win, loss and tie.
    """
    half = difference * DISCRIMINATION / 2
    grown = math.exp(abs(half))
    whole = math.log(grown + 1 / grown + TIES)
    return {WIN: half - whole, LOSS: -half - whole, TIE: _LOG_TIES - whole}


def grades(value: float, count: int) -> dict[str, float]:
    """Natural logarithms of the probabilities of the grades 1..`count` for a text of quality `value`.

    A discretised bell around 1 + (count - 1) / (1 + e^-value): the expected grade rises strictly with quality.
    """
    centre = 1 + (count - 1) / (1 + math.exp(-value))
    spread = GRADE_SPREAD * count
    heights = [-(((grade - centre) / spread) ** 2) / 2 for grade in range(1, count + 1)]
    whole = math.log(sum(map(math.exp, heights)))
    return {str(grade): height - whole for grade, height in enumerate(heights, 1)}


NOTICE = (
    "builtin: a baseline without a model; it measures the surface of texts (words, coverage, repetition) and reads no "
    "meaning"
)


class Builtin(Backend):
    """Writer and judge without a model; the only state is bounded caches of text features."""

    @property
    def fingerprint(self) -> str:
        """The version of the formula; it changes whenever any answer can."""
        return "builtin/1"

    @property
    def notice(self) -> str:
        """What it is, and that it is no model."""
        return NOTICE

    def write(self, prompts: Sequence[Prompt], sampling: Sampling) -> list[Completion]:
        """Make a rung for each prompt of role worst, best or between, from the context's own text.

        The same prompt and seed give the same text, another seed another text. Of `sampling`, `seed` and `max_tokens`
        (counted in words) are used.

        Raises:
            BackendError: a prompt has another role.
        """
        return [Completion(text=self._write(prompt, sampling)) for prompt in prompts]

    def _write(self, prompt: Prompt, sampling: Sampling) -> str:
        if prompt.role not in _WRITTEN:
            raise BackendError(
                f"the builtin backend writes the rungs of ladders and nothing else, and this prompt is for "
                f"{prompt.role!r}; name a model: scripted:FILE, hf:ORG/MODEL or openai:MODEL"
            )
        slots = prompt.slots
        context, background = slots["context"], slots.get("background", "")
        name, description = slots["dimension"], slots["description"]

        def worth(text: str) -> float:
            return quality(text, context, background, prompt.task, name, description)

        parts = [prompt.task, prompt.role, context, background, name, description]
        if prompt.role == "between":
            parts += [slots["lower"], slots["higher"]]
        random = degrade.seeded(sampling.seed, parts)
        if prompt.role == "best":
            text = degrade.write_best(prompt.task, context, background, random, worth)
        elif prompt.role == "worst":
            text = degrade.write_worst(context, background, random, worth)
        else:
            text = degrade.write_between(slots["lower"], slots["higher"], random, worth)
        return degrade.shorten(text, sampling.max_tokens)

    def read_labels(self, prompts: Sequence[Prompt], labels: Sequence[str]) -> list[LabelReading]:
        """Judge by surface features; `mass` is 1 when all the labels of a prompt are asked for.

        Raises:
            BackendError: a prompt has a role that is not a judging one.
            LabelsUnavailableError: a label is none of the prompt's.
        """
        wanted = tuple(labels)
        return [self._read(prompt, wanted) for prompt in prompts]

    def _read(self, prompt: Prompt, wanted: tuple[str, ...]) -> LabelReading:
        read = _READERS.get(prompt.role)
        if read is None:
            raise BackendError(
                f"the builtin backend judges the roles {', '.join(_READERS)}, not {prompt.role!r}; "
                "connect a model to judge with this prompt"
            )
        logprobs_of = read(prompt)
        if wanted == prompt.labels:
            return LabelReading(logprobs=tuple([logprobs_of[outcome] for outcome in prompt.outcomes]), mass=1.0)
        outcomes = dict(zip(prompt.labels, prompt.outcomes, strict=True))
        missing = [label for label in wanted if label not in outcomes]
        if missing:
            raise LabelsUnavailableError(
                f"label {missing[0]!r} is none of the prompt's: {', '.join(map(repr, prompt.labels))}"
            )
        chosen = tuple(logprobs_of[outcomes[label]] for label in wanted)
        return LabelReading(logprobs=chosen, mass=min(1.0, sum(map(math.exp, chosen))))


def _worth(prompt: Prompt, slot: str) -> float:
    slots = prompt.slots
    return quality(
        slots[slot],
        slots["context"],
        slots.get("background", ""),
        prompt.task,
        slots["dimension"],
        slots["description"],
    )


def _compare(prompt: Prompt) -> dict[str, float]:
    return verdict(_worth(prompt, "target") - _worth(prompt, "reference"))


def _compare_yes_or_no(prompt: Prompt) -> dict[str, float]:
    if prompt.claim not in OUTCOMES:
        raise BackendError(f"a compare-yesno prompt claims one of {', '.join(OUTCOMES)}, not {prompt.claim!r}")
    logprobs_of = _compare(prompt)
    yes = logprobs_of.pop(prompt.claim)
    return {"yes": yes, "no": math.log(sum(map(math.exp, logprobs_of.values())))}


def _pairwise(prompt: Prompt) -> dict[str, float]:
    half = (_worth(prompt, "first") - _worth(prompt, "second")) * DISCRIMINATION / 2
    whole = abs(half) + math.log1p(math.exp(-2 * abs(half)))
    return {WIN: half - whole, LOSS: -half - whole}


_LOG_TIES = math.log(TIES)
_READERS: dict[str, Callable[[Prompt], dict[str, float]]] = {
    "compare": _compare,
    "compare-yesno": _compare_yes_or_no,
    "pairwise": _pairwise,
    "direct-5": lambda prompt: grades(_worth(prompt, "target"), 5),
    "direct-10": lambda prompt: grades(_worth(prompt, "target"), 10),
}


def open_builtin(target: str) -> Builtin:
    """Open the backend; it has no variants, so `target`, the words after "builtin:", must be empty.

    Raises:
        BackendUnavailableError: `target` is not empty.
    """
    if target:
        raise BackendUnavailableError(f"the builtin backend has no variants; write 'builtin', not 'builtin:{target}'")
    return Builtin()
