"""Writer and judge without a model.

The writer (`drafts`) steers by the judge's own number. That is circular on purpose: such rungs are evenly spread for
this judge, and say nothing new to it.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

from refladder.backends.builtin import drafts as degrade
from refladder.backends.builtin.quality import DISCRIMINATION, grades, quality, verdict
from refladder.backends.protocol import Backend
from refladder.errors import BackendError, BackendUnavailableError, LabelsUnavailableError
from refladder.records import DOCUMENT, LOSS, NO, OUTCOMES, WIN, YES, Completion, LabelReading

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from refladder.records import Prompt, Sampling

NOTICE = "builtin: a baseline that counts words and reads no meaning"


SUBJECT_WORDS = 8
# The roles of a ladder's rungs.
_WRITTEN = "worst", "best", "between"


class Builtin(Backend):
    """Writer and judge without a model; the only state is bounded caches of text features."""

    notice = NOTICE
    is_fixed = True

    @property
    def fingerprint(self) -> str:
        """Return the version of the formula; it changes whenever any answer can."""
        return "builtin/1"

    @property
    def answering(self) -> None:
        """Return None: the backend writes rungs and subjects only."""

    def write(self, prompts: Sequence[Prompt], sampling: Sampling) -> list[Completion]:
        """Make a rung for each prompt of a role of `_WRITTEN` from its context, by `seed` and `max_tokens`."""
        return [Completion(text=self._write(prompt, sampling)) for prompt in prompts]

    def _write(self, prompt: Prompt, sampling: Sampling) -> str:
        if prompt.role == "subject":
            return degrade.shorten(
                " ".join(degrade.content_words(prompt.slots["target"])), SUBJECT_WORDS
            )
        if prompt.role not in _WRITTEN:
            raise BackendError(
                f"the builtin backend writes the rungs of ladders and nothing else, and this prompt is for "
                f"{prompt.role!r}; name a model: scripted:FILE, hf:ORG/MODEL or openai:MODEL"
            )
        slots = prompt.slots
        context, background = slots["context"], slots.get("background", "")
        name, description = slots["dimension"], slots["description"]
        worth = functools.partial(_worth, prompt)
        parts = [prompt.task, prompt.role, context, background, name, description]
        parts += [slots[name] for name in ("lower", "higher") if name in slots]
        random = degrade.seeded(sampling.seed, parts)
        limit = sampling.max_tokens
        if prompt.task == DOCUMENT:
            limit, background = min(limit, degrade.limit_of(background)), ""
        if prompt.role == "best":
            text = degrade.write_best(prompt.task, context, background, random, worth, limit)
        elif prompt.role == "worst":
            text = degrade.write_worst(context, background, random, worth)
        else:
            text = degrade.write_between(slots["lower"], slots["higher"], random, worth)
        return degrade.shorten(text, limit)

    def read_labels(self, prompts: Sequence[Prompt], labels: Sequence[str]) -> list[LabelReading]:
        """Judge by surface features; `mass` is 1 when all the labels of a prompt are asked for."""
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
            return LabelReading(
                logprobs=tuple([logprobs_of[outcome] for outcome in prompt.outcomes]), mass=1.0
            )
        outcomes = dict(zip(prompt.labels, prompt.outcomes, strict=True))
        missing = [label for label in wanted if label not in outcomes]
        if missing:
            raise LabelsUnavailableError(
                f"label {missing[0]!r} is none of the prompt's: {', '.join(map(repr, prompt.labels))}"
            )
        chosen = tuple(logprobs_of[outcomes[label]] for label in wanted)
        return LabelReading(logprobs=chosen, mass=min(1.0, sum(map(math.exp, chosen))))


def _worth(prompt: Prompt, text: str, whose: str = "") -> float:
    """Return the quality of a text for its context, whose slots are named with the prefix `whose`."""
    slots = prompt.slots
    context, background = (slots.get(f"{whose}{name}", "") for name in ("context", "background"))
    return quality(text, context, background, prompt.task, slots["dimension"], slots["description"])


def _difference(prompt: Prompt, first: str, second: str, whose: str = "") -> float:
    return _worth(prompt, prompt.slots[first]) - _worth(prompt, prompt.slots[second], whose)


def _compare(prompt: Prompt) -> dict[str, float]:
    return verdict(_difference(prompt, "target", "reference"))


def _compare_shared(prompt: Prompt) -> dict[str, float]:
    return verdict(_difference(prompt, "target", "reference", "reference_"))


def _compare_yes_or_no(prompt: Prompt) -> dict[str, float]:
    if prompt.claim not in OUTCOMES:
        raise BackendError(
            f"a compare-yesno prompt claims one of {', '.join(OUTCOMES)}, not {prompt.claim!r}"
        )
    logprobs_of = _compare(prompt)
    yes = logprobs_of.pop(prompt.claim)
    return {YES: yes, NO: math.log(sum(map(math.exp, logprobs_of.values())))}


def _pairwise(prompt: Prompt) -> dict[str, float]:
    half = _difference(prompt, "first", "second") * DISCRIMINATION / 2
    whole = abs(half) + math.log1p(math.exp(-2 * abs(half)))
    return {WIN: half - whole, LOSS: -half - whole}


_READERS: dict[str, Callable[[Prompt], dict[str, float]]] = {
    "compare": _compare,
    "compare-shared": _compare_shared,
    "compare-yesno": _compare_yes_or_no,
    "pairwise": _pairwise,
    **dict.fromkeys(
        ("direct-5", "rating", "anchored"),
        lambda prompt: grades(_worth(prompt, prompt.slots["target"]), 5),
    ),
    "direct-10": lambda prompt: grades(_worth(prompt, prompt.slots["target"]), 10),
    "direct-100": lambda prompt: grades(_worth(prompt, prompt.slots["target"]), 100),
    "verifier": lambda prompt: grades(
        _worth(prompt, prompt.slots["first" if prompt.slots["place"] == "1" else "second"]), 20
    ),
}


def open_builtin(target: str) -> Builtin:
    """Open the backend; it has no variants, so `target`, the words after "builtin:", must be empty."""
    if target:
        raise BackendUnavailableError(
            f"the builtin backend has no variants; write 'builtin', not 'builtin:{target}'"
        )
    return Builtin()
