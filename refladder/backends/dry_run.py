"""A dry run: the run takes its usual path without answers, and its cost is estimated from what it asks.

`DryRunBackend` takes the place of a backend. A prompt may hold a text that an earlier prompt of the run is to produce: an
`Unwritten` value, which counts at its length limit. Where answers decide which prompts are asked, `at_most` says how
many there can be, and the most expensive ones are counted. In both cases the numbers are upper bounds; otherwise they
are exact.
"""

from __future__ import annotations

import math
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from operator import add
from typing import TYPE_CHECKING, NamedTuple

from refladder.backends.cache.cached import LABELS, WRITE, label_keys, write_keys
from refladder.backends.protocol import Usage, Wrapper, characters, known_sum
from refladder.records import Completion, NotAsked, Unwritten

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from refladder.backends.prices import Price
    from refladder.backends.protocol import Backend
    from refladder.records import LabelReading, Prompt, Sampling

# Characters per token, for Latin script: 8 % more tokens than with 4 came back from a server.
CHARACTERS = 3.7
# Tokens of a written answer by the role of its prompt, measured on recorded answers: of a rating, for a criterion, and of
# the probabilities for a ladder of five rungs.
ANSWER_TOKENS = {
    "rating-stated": 28,
    "anchored-stated": 28,
    "rating-together": 32,
    "stated": 29,
    "stated-shared": 29,
}
# Where answers get more tokens than this, the model may think before it answers.
_NO_THOUGHT = 1000
NOT_ASKED = NotAsked(reason="not asked in a dry run")


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """The prompts and tokens that a run will ask of one backend."""

    # The fingerprint of the backend.
    backend: str
    # Prompts that need a new answer; an upper bound where the estimate is not `exact`.
    usage: Usage
    # Prompts that will be asked whatever the answers are.
    least: int
    # Answers that are stored, or will be when their prompt comes again.
    free: int
    # Free answers that are not stored yet.
    repeated: int
    # Prompts that do not fit the model and will not be read.
    too_long: int
    # Whether `usage` is exact, up to the length of the answers.
    exact: bool
    # Whether prompts hold texts that are still to be written, each counted at its first attempt.
    unwritten: bool
    # USD at most; None where the price or the number of tokens is unknown.
    cost: float | None
    # USD with answers of the expected length.
    expected: float | None
    # Whether the tokens of `usage` are from its characters.
    is_guess: bool
    # Temperature and top-p of the texts to be written; None where none are.
    drawn: tuple[float, float] | None
    # Whether requests are written for somebody to answer.
    through_files: bool = False
    # Duration at the pace of stored answers; None where none are stored.
    seconds: float | None = None


class _Size(NamedTuple):
    """The length of a prompt; its tokens are None if unknown."""

    tokens: int | None
    characters: int


class _Pool(NamedTuple):
    """Prompts of which at most `most` will be asked, with their sizes by key."""

    most: int
    answer_tokens: int
    sizes: dict[bytes, _Size]


@dataclass(slots=True)
class _Asked:
    """Prompts that one backend is asked so far; `keys` belong to prompts that are certain to be asked."""

    usage: Usage = field(default_factory=Usage)
    free: int = 0
    repeated: int = 0
    too_long: int = 0
    unwritten: bool = False
    keys: set[bytes] = field(default_factory=set)
    pools: list[_Pool] = field(default_factory=list)
    drawn: tuple[float, float] | None = None
    # Prompts by the kind of their answers.
    kinds: Counter[str] = field(default_factory=Counter)

    def with_pools(self) -> Usage:
        """Return the usage with the most expensive prompts of every pool that are not certain to be asked."""
        usage, counted = self.usage, set(self.keys)
        for pool in self.pools:
            left = {key: size for key, size in pool.sizes.items() if key not in counted}
            by_size = sorted(
                left, key=lambda key: left[key].tokens or left[key].characters, reverse=True
            )
            chosen = by_size[: pool.most]
            if not chosen:
                continue
            counted.update(chosen)
            lengths = sorted((size.characters for size in left.values()), reverse=True)
            before = usage.prompt_tokens if usage.prompts else 0
            answers = pool.answer_tokens * len(chosen)
            usage = replace(
                usage,
                expected_tokens=usage.expected_tokens + answers,
                prompts=usage.prompts + len(chosen),
                characters=usage.characters + sum(lengths[: pool.most]),
                prompt_tokens=known_sum([before, *(left[key].tokens for key in chosen)]),
                answer_tokens=usage.answer_tokens + answers,
            )
        return usage


class DryRunBackend(Wrapper):
    """A backend in a dry run: it counts prompts and returns stored answers, or none."""

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self.asked = _Asked()
        # Most prompts of each call that will be asked; None if all are.
        self._most: int | None = None

    def load(self) -> None:
        """Load nothing."""

    def write(self, prompts: Sequence[Prompt], sampling: Sampling) -> list[Completion]:
        """Return the stored text of each prompt, or one that is `Unwritten`."""
        keys = write_keys(self.backend, prompts, sampling)
        stored = self.backend.stored_texts(prompts, sampling)
        self.asked.drawn = sampling.drawn(self.default_sampling)
        self._add(keys, prompts, stored, sampling.max_tokens, ())
        completions = []
        for key, completion in zip(keys, stored, strict=True):
            unwritten = Completion(text=Unwritten(key.hex(), sampling.max_tokens))
            completions.append(completion or unwritten)
        return completions

    def forget(self, prompts: Sequence[Prompt], sampling: Sampling) -> None:
        """Delete nothing."""

    def read_labels(self, prompts: Sequence[Prompt], labels: Sequence[str]) -> list[LabelReading]:
        """Return the stored reading of each prompt, or `NotAsked`."""
        stored = self.backend.stored_readings(prompts, labels)
        keys = label_keys(self.backend, prompts, labels)
        self._add(keys, prompts, stored, self.backend.label_tokens, labels)
        return [NOT_ASKED if reading is None else reading for reading in stored]

    @contextmanager
    def at_most(self, most: int) -> Iterator[None]:
        """Count at most `most` prompts of each call in the `with` block, because answers decide which are asked."""
        self._most = most
        try:
            yield
        finally:
            self._most = None

    def estimate(self, price: Price | None = None) -> Estimate:
        """Return what the run will ask, counted by the backend's own tokenizer."""
        asked = self.asked
        texts, readings = asked.kinds[WRITE], asked.kinds[LABELS]
        usage = asked.with_pools()
        usage = replace(usage, requests=self.count_requests(texts, readings))
        guess = None if price is None else self._guess(usage)
        usage = guess or usage
        return Estimate(
            backend=self.fingerprint,
            usage=usage,
            least=asked.usage.prompts,
            free=asked.free,
            repeated=asked.repeated,
            too_long=asked.too_long,
            exact=not asked.unwritten and usage.prompts == asked.usage.prompts,
            unwritten=asked.unwritten,
            cost=usage.cost(price),
            expected=usage.expected.cost(price),
            is_guess=guess is not None,
            drawn=asked.drawn,
            through_files=self.wants_all,
            seconds=self._seconds(),
        )

    def _guess(self, usage: Usage) -> Usage | None:
        """Return the usage with tokens from its characters; None where they are counted."""
        if usage.prompt_tokens is not None or not usage.prompts:
            return None
        sent, none = usage.prompts, self.count_requests(0, 0)
        # A prompt is sent once for each answer where no request returns several.
        if usage.requests is not None and none is not None:
            sent = usage.requests - none
        characters = usage.characters * sent / usage.prompts
        return replace(usage, prompt_tokens=math.ceil(characters / CHARACTERS))

    def _seconds(self) -> float | None:
        """Return how long the prompts would take at the pace of stored answers; None where that is not known."""
        kinds = +self.asked.kinds
        if self.wants_all or not kinds:
            return None
        seconds = 0.0
        for kind, count in kinds.items():
            pace = self.answer_seconds(kind)
            if pace is None:
                return None
            seconds += pace * count
        return seconds

    def _add(
        self,
        keys: Sequence[bytes],
        prompts: Sequence[Prompt],
        stored: Sequence[object | None],
        answer_tokens: int,
        labels: Sequence[str],
    ) -> None:
        """Count the prompts that have no stored answer; where answers are stored, each different prompt once."""
        asked = self.asked
        seen = asked.keys if self._most is None else set()
        once = self._most is not None or self.stores_answers
        # The key of each row that needs a new answer.
        fresh: dict[int, bytes] = {}
        for row, (key, answer) in enumerate(zip(keys, stored, strict=True)):
            if answer is None and not (once and key in seen):
                fresh[row] = key
                seen.add(key)
        written, limits = [], []
        for row in fresh:
            prompt, limit = _without_unwritten(prompts[row])
            written.append(prompt)
            limits.append(limit)
        counts = self.count_tokens(written)
        tokens = None if counts is None else list(map(add, counts, limits))
        kind = LABELS if labels else WRITE
        if self._most is not None:
            asked.kinds[kind] += min(self._most, len(fresh))
            sizes = map(_Size, tokens or [None] * len(fresh), map(characters, written))
            pool = _Pool(self._most, answer_tokens, dict(zip(fresh.values(), sizes, strict=True)))
            asked.pools.append(pool)
            return
        asked.kinds[kind] += len(fresh)
        unwritten = sum(limits)
        asked.free += len(keys) - len(fresh)
        asked.repeated += stored.count(None) - len(fresh)
        asked.too_long += (counts or []).count(0)
        asked.unwritten = asked.unwritten or unwritten > 0
        distinct = self.count_distinct_tokens(written, labels)
        # A model on this machine.
        if tokens is not None and distinct is not None:
            asked.usage = replace(
                asked.usage, run_tokens=(asked.usage.run_tokens or 0) + distinct + unwritten
            )
        expected = sum(expected_tokens(prompt, answer_tokens) for prompt in written)
        asked.usage = asked.usage.plus(written, tokens, answer_tokens, expected)


def expected_tokens(prompt: Prompt, most: int) -> int:
    """Return the tokens of the answer to a prompt, of at most `most`."""
    each = ANSWER_TOKENS.get(prompt.role)
    if each is None or most > _NO_THOUGHT:
        return most
    criteria = 1 + prompt.slots.get("criteria", "").count("\n")
    return min(each * criteria, most)


def _without_unwritten(prompt: Prompt) -> tuple[Prompt, int]:
    """Return a prompt without its unwritten texts, and the most tokens that they can have."""
    unwritten = {}
    for name, text in prompt.slots.items():
        if isinstance(text, Unwritten):
            unwritten[name] = text.tokens
    tokens = sum(unwritten.get(name, 0) for name in prompt.names)
    if not tokens:
        return prompt, 0
    return replace(prompt, slots={**prompt.slots, **dict.fromkeys(unwritten, "")}), tokens
