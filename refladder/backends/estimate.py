"""What a run will cost, counted before it: a plan of the prompts that it asks, and an estimate from the plan.

The code that asks a backend has a counterpart that adds the same prompts to a `Plan`. A prompt may hold a text that an
earlier prompt of the run is to produce: an `Unwritten` value, which counts at its length limit. Prompts of which
answers decide how many are asked form a pool, and the plan counts the most expensive ones. In both cases the numbers
are upper bounds; otherwise they are exact.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple, Self

from refladder.backends.cache.cached import label_keys, write_keys
from refladder.backends.usage import Usage, characters
from refladder.records import Completion

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from refladder.backends.prices import Price
    from refladder.backends.protocol import Backend
    from refladder.records import LabelReading, Prompt, Sampling


class Unwritten(str):
    """A text that a run is still to write.

    It can be a slot of a prompt like any other text. Its content only distinguishes it from other texts.

    Attributes:
        tokens: the most tokens that the text can have.
    """

    __slots__ = ("tokens",)
    tokens: int

    def __new__(cls, identity: str, tokens: int) -> Self:
        """Make a text that differs from that of every other identity."""
        text = super().__new__(cls, f"(not written yet: {identity})")
        text.tokens = tokens
        return text


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What a run will ask one backend.

    Attributes:
        backend: its fingerprint.
        usage: prompts that need a new answer; an upper bound where the estimate is not `exact`.
        least: prompts that will be asked whatever the answers are.
        free: answers that are stored, or will be when their prompt comes again.
        too_long: prompts that do not fit the model and will not be read.
        exact: whether `usage` is exact, up to the length of the answers.
        unwritten: whether prompts hold texts that are still to be written, each counted at its first attempt.
        cost: USD; None where the price or the number of tokens is unknown.
    """

    backend: str
    usage: Usage
    least: int
    free: int
    too_long: int
    exact: bool
    unwritten: bool
    cost: float | None


class _Pool(NamedTuple):
    """Prompts of which at most `most` will be asked, with their tokens (None if unknown) and characters."""

    most: int
    answer_tokens: int
    sizes: dict[bytes, tuple[int | None, int]]


@dataclass(slots=True)
class _Asked:
    """What one backend is asked. `keys` are those of the prompts that are certain to be asked."""

    backend: Backend
    usage: Usage = field(default_factory=Usage)
    free: int = 0
    too_long: int = 0
    unwritten: bool = False
    least: int = 0  # prompts of the pools that are certain to be asked
    keys: set[bytes] = field(default_factory=set)
    pools: list[_Pool] = field(default_factory=list)

    def add(
        self,
        keys: Sequence[bytes],
        prompts: Sequence[Prompt],
        stored: Sequence[object | None],
        answer_tokens: int,
        labels: Sequence[str],
    ) -> None:
        """Count the prompts that have no stored answer; where answers are stored, each different prompt once."""
        fresh = []
        for key, prompt, answer in zip(keys, prompts, stored, strict=True):
            if answer is None and not (self.backend.stores_answers and key in self.keys):
                fresh.append(prompt)
                self.keys.add(key)
        self.free += len(keys) - len(fresh)
        self.count(fresh, answer_tokens, labels)

    def count(self, prompts: Sequence[Prompt], answer_tokens: int, labels: Sequence[str]) -> None:
        """Count prompts, each of which is asked."""
        bare = [_without_unwritten(prompt) for prompt in prompts]
        written = [prompt for prompt, _ in bare]
        unwritten = sum(tokens for _, tokens in bare)
        self.unwritten = self.unwritten or unwritten > 0
        tokens = self.backend.count_tokens(written)
        if tokens is not None:
            self.too_long += tokens.count(0)
            tokens = [count + more for count, (_, more) in zip(tokens, bare, strict=True)]
        distinct = self.backend.count_distinct_tokens(written, labels)
        if tokens is not None and distinct is not None:  # a model on this machine
            self.usage = replace(self.usage, run_tokens=(self.usage.run_tokens or 0) + distinct + unwritten)
        self.usage = self.usage.plus(written, tokens, answer_tokens)

    def add_pool(
        self,
        keys: Sequence[bytes],
        prompts: Sequence[Prompt],
        stored: Sequence[object | None],
        answer_tokens: int,
        *,
        most: int,
        least: int,
    ) -> None:
        """Remember prompts of which at most `most`, and at least `least`, will be answered."""
        fresh = {
            key: _without_unwritten(prompt)
            for key, prompt, answer in zip(keys, prompts, stored, strict=True)
            if answer is None
        }
        tokens = self.backend.count_tokens([prompt for prompt, _ in fresh.values()])
        sizes: dict[bytes, tuple[int | None, int]] = {}
        for position, (key, (prompt, unwritten)) in enumerate(fresh.items()):
            sizes[key] = (None if tokens is None else tokens[position] + unwritten, characters(prompt))
        self.least += max(0, least - (len(keys) - len(fresh)))
        self.pools.append(_Pool(most=most, answer_tokens=answer_tokens, sizes=sizes))

    def with_pools(self) -> Usage:
        """The usage, with the most expensive prompts of every pool that are not certain to be asked anyway."""
        usage, counted = self.usage, set(self.keys)
        for pool in self.pools:
            left = [(size, key) for key, size in pool.sizes.items() if key not in counted]
            chosen = sorted(left, key=lambda entry: entry[0][0] or entry[0][1], reverse=True)[: pool.most]
            if not chosen:
                continue
            counted.update(key for _, key in chosen)
            tokens = [size[0] for size, _ in chosen]
            before = usage.prompt_tokens if usage.prompts else 0
            usage = replace(
                usage,
                prompts=usage.prompts + len(chosen),
                characters=usage.characters + sum(sorted((size[1] for size, _ in left), reverse=True)[: pool.most]),
                prompt_tokens=None if before is None or None in tokens else before + sum(filter(None, tokens)),
                answer_tokens=usage.answer_tokens + pool.answer_tokens * len(chosen),
            )
        return usage


class Plan:
    """What a run will ask its backends.

    A method of this class stands for each way to ask a backend, and asks nothing. Answers that a response store holds
    are returned, because later prompts may depend on them.
    """

    def __init__(self) -> None:
        self._asked: dict[int, _Asked] = {}
        self._questions: set[tuple[str, str]] = set()

    def write(
        self,
        backend: Backend,
        prompts: Sequence[Prompt],
        sampling: Sampling,
        *,
        most: int | None = None,
        least: int = 0,
    ) -> list[Completion]:
        """Add prompts that are to be answered with a text.

        Args:
            backend: what will be asked.
            prompts: the prompts.
            sampling: how texts will be sampled.
            most: how many of the prompts will be asked at most, where answers decide which; None if all will.
            least: how many of them need an answer at least, with `most`.

        Returns:
            For each prompt its stored completion, or one whose text is `Unwritten`.
        """
        keys = write_keys(backend, prompts, sampling)
        stored = backend.stored_texts(prompts, sampling)
        if most is None:
            self._of(backend).add(keys, prompts, stored, sampling.max_tokens, ())
        else:
            self._of(backend).add_pool(keys, prompts, stored, sampling.max_tokens, most=most, least=least)
        return [
            Completion(text=Unwritten(key.hex(), sampling.max_tokens)) if completion is None else completion
            for key, completion in zip(keys, stored, strict=True)
        ]

    def read_labels(
        self,
        backend: Backend,
        prompts: Sequence[Prompt],
        labels: Sequence[str],
        *,
        most: int | None = None,
        least: int = 0,
    ) -> list[LabelReading | None]:
        """Add prompts whose label probabilities are to be read.

        Args:
            backend: what will be asked.
            prompts: the prompts.
            labels: the labels.
            most: see `write`.
            least: see `write`.

        Returns:
            For each prompt its stored reading, or None.
        """
        keys = label_keys(backend, prompts, labels)
        stored = backend.stored_readings(prompts, labels)
        if most is None:
            self._of(backend).add(keys, prompts, stored, backend.label_tokens, labels)
        else:
            self._of(backend).add_pool(keys, prompts, stored, backend.label_tokens, most=most, least=least)
        return stored

    def judge(
        self,
        backend: Backend,
        prompts: Sequence[Prompt],
        labels: Sequence[str],
        *,
        answers: int = 0,
        sampling: Sampling | None = None,
        most: int | None = None,
        least: int = 0,
    ) -> list[LabelReading | None]:
        """Add prompts whose labels are read, or sampled in `answers` texts with one seed each.

        Returns:
            For each prompt its stored reading, or None; None for sampled answers.
        """
        if not answers or sampling is None:
            return self.read_labels(backend, prompts, labels, most=most, least=least)
        for number in range(answers):
            self.write(backend, prompts, replace(sampling, seed=sampling.seed + number), most=most, least=least)
        return [None] * len(prompts)

    def judge_again(
        self,
        backend: Backend,
        prompts: Sequence[Prompt],
        labels: Sequence[str],
        *,
        answers: int = 0,
        sampling: Sampling | None = None,
    ) -> None:
        """As `judge`, for prompts that are asked whatever is stored and however often they were asked before."""
        for _ in range(max(answers, 1)):
            if answers and sampling is not None:
                self._of(backend).count(prompts, sampling.max_tokens, ())
            else:
                self._of(backend).count(prompts, backend.label_tokens, labels)

    def new_questions(self, judge: str, keys: Iterable[str]) -> list[str]:
        """Those of the questions to a judge that no part of the run has asked before; they count as asked from now on.

        Args:
            judge: the name under which parts of a run share their answers.
            keys: of the questions.
        """
        new = [key for key in keys if (judge, key) not in self._questions]
        self._questions.update((judge, key) for key in new)
        return new

    def estimate(self, backend: Backend, price: Price | None = None) -> Estimate:
        """What the plan asks of one backend, by the backend's own tokenizer."""
        asked = self._of(backend)
        usage = asked.with_pools()
        return Estimate(
            backend=backend.fingerprint,
            usage=usage,
            least=asked.usage.prompts + asked.least,
            free=asked.free,
            too_long=asked.too_long,
            exact=not asked.unwritten and usage.prompts == asked.usage.prompts,
            unwritten=asked.unwritten,
            cost=usage.cost(price),
        )

    def _of(self, backend: Backend) -> _Asked:
        return self._asked.setdefault(id(backend), _Asked(backend))


def _without_unwritten(prompt: Prompt) -> tuple[Prompt, int]:
    """A prompt with its unwritten texts left out, and the most tokens that they can have."""
    unwritten = {name: text.tokens for name, text in prompt.slots.items() if isinstance(text, Unwritten)}
    tokens = sum(unwritten.get(name, 0) for name in prompt.names)
    if not tokens:
        return prompt, 0
    return replace(prompt, slots={**prompt.slots, **dict.fromkeys(unwritten, "")}), tokens
