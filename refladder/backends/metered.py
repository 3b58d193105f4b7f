"""A backend whose use is counted, in prompts, tokens, seconds and money, and that stops when a budget is spent.

Tokens are counted by the backend's own tokenizer, where it has a method `count_tokens(prompts) -> list[int]`; where it
has none they are not known, and nothing here guesses them. A judging prompt is answered with one token.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar, cast

from refladder.errors import BackendError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from refladder.backends import Backend
    from refladder.records import Completion, LabelReading, Prompt, Sampling

T = TypeVar("T")

MILLION = 1_000_000
LABEL_TOKENS = 1  # a judge answers with one token, whose probabilities are read


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What a model costs, in USD for a million tokens of prompts (`input`) and of answers (`output`)."""

    model: str
    input: float
    output: float

    def of(self, prompt_tokens: int, answer_tokens: int) -> float:
        """USD for so many tokens."""
        return (prompt_tokens * self.input + answer_tokens * self.output) / MILLION


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What a backend was asked, or is to be asked.

    `characters` and `prompt_tokens` are those of the prompts. `answer_tokens` is one for each judging prompt, and the
    length limit for each text to be written, so the most it can be. Tokens are None where the backend cannot count.
    `seconds` is the time in which it answered.
    """

    prompts: int = 0
    characters: int = 0
    prompt_tokens: int | None = None
    answer_tokens: int = 0
    seconds: float = 0.0

    def plus(self, prompts: Sequence[Prompt], tokens: Sequence[int] | None, answer_tokens: int) -> Usage:
        """This and some prompts more, each with its tokens and answered with at most `answer_tokens`."""
        counted = self.prompt_tokens if self.prompts else 0
        return replace(
            self,
            prompts=self.prompts + len(prompts),
            characters=self.characters + sum(map(characters, prompts)),
            prompt_tokens=None if tokens is None or counted is None else counted + sum(tokens),
            answer_tokens=self.answer_tokens + answer_tokens * len(prompts),
        )

    def cost(self, price: Price | None) -> float | None:
        """USD; None where the price or the number of tokens is not known."""
        if price is None or (self.prompt_tokens is None and self.prompts):
            return None
        return price.of(self.prompt_tokens or 0, self.answer_tokens)


def characters(prompt: Prompt) -> int:
    """The length of a prompt's text, without putting it together."""
    return sum(map(len, prompt.literals)) + sum(len(prompt.slots[name]) for name in prompt.names)


def count_tokens(backend: Backend, prompts: Sequence[Prompt]) -> list[int] | None:
    """The tokens of each prompt by the backend's own tokenizer; None where it cannot count."""
    count = getattr(backend, "count_tokens", None)
    return None if count is None else cast("list[int] | None", count(prompts))


def whole(backend: Backend, prompts: Sequence[Prompt], answers: Sequence[T]) -> Sequence[T]:
    """The answers to a batch, after a look that there is one for each prompt: else they belong to other prompts.

    Raises:
        BackendError: there are more or fewer answers than prompts.
    """
    if len(answers) != len(prompts):
        raise BackendError(f"{backend.fingerprint}: asked {len(prompts)} prompts, answered {len(answers)}")
    return answers


class Budget:
    """Money that the backends of one run may spend together.

    Args:
        limit: USD.

    Raises:
        UsageError: it is not a number above 0.
    """

    def __init__(self, limit: float) -> None:
        if not 0 < limit < float("inf"):
            raise UsageError(f"a budget is a number of USD above 0, found {limit}")
        self.limit = limit
        self.spent = 0.0


class Metered:
    """A backend that counts what it is asked in `usage`, and asks nothing that its budget does not cover.

    Whatever else the backend has is reached through this one, uncounted.

    Args:
        backend: what answers.
        price: what its tokens cost, or None when that is not known.
        budget: what may be spent; it may be shared with other backends. Needs a price and a backend that counts
            tokens. Texts are charged at their length limit.

    Raises:
        UsageError: a budget without a price, or for a backend that cannot count its tokens.
    """

    def __init__(self, backend: Backend, price: Price | None = None, budget: Budget | None = None) -> None:
        self.backend = backend
        self.price = price
        self.budget = budget
        self.usage = Usage()
        if budget is not None and price is None:
            raise UsageError("a budget needs the model's price; give the table with --prices FILE")
        if budget is not None and count_tokens(backend, []) is None:
            raise UsageError(
                f"{backend.fingerprint}: cannot count its tokens, and a budget needs their number; name its tokenizer "
                "with --judge-option tokenizer=PATH (--writer-option for a writer)"
            )

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  whatever the backend has beside the two methods
        return getattr(self.backend, name)

    @property
    def fingerprint(self) -> str:
        """The backend's own: counting changes no answer."""
        return self.backend.fingerprint

    def write(self, prompts: Sequence[Prompt], sampling: Sampling) -> list[Completion]:
        """One text for each prompt, in order.

        Raises:
            BackendError: the budget does not cover them all; `write_each` gives those that it covers.
        """
        return _in_order(self.write_each(prompts, sampling))

    def read_labels(self, prompts: Sequence[Prompt], labels: Sequence[str]) -> list[LabelReading]:
        """For each prompt, the log-probabilities of the labels.

        Raises:
            BackendError: the budget does not cover them all; `read_labels_each` gives those that it covers.
        """
        return _in_order(self.read_labels_each(prompts, labels))

    def write_each(self, prompts: Sequence[Prompt], sampling: Sampling) -> Iterator[tuple[int, Completion]]:
        """The number of a prompt and its text, as they come.

        Raises:
            BackendError: at the end, when the budget does not cover all prompts.
        """
        each = getattr(self.backend, "write_each", None)

        def ask(chosen: Sequence[Prompt]) -> Iterable[tuple[int, Completion]]:
            if each is not None:
                return cast("Iterable[tuple[int, Completion]]", each(chosen, sampling))
            return enumerate(whole(self.backend, chosen, self.backend.write(chosen, sampling)))

        return self._ask(prompts, sampling.max_tokens, ask)

    def read_labels_each(self, prompts: Sequence[Prompt], labels: Sequence[str]) -> Iterator[tuple[int, LabelReading]]:
        """The number of a prompt and its reading, as they come.

        Raises:
            BackendError: at the end, when the budget does not cover all prompts.
        """
        each = getattr(self.backend, "read_labels_each", None)

        def ask(chosen: Sequence[Prompt]) -> Iterable[tuple[int, LabelReading]]:
            if each is not None:
                return cast("Iterable[tuple[int, LabelReading]]", each(chosen, labels))
            return enumerate(whole(self.backend, chosen, self.backend.read_labels(chosen, labels)))

        return self._ask(prompts, LABEL_TOKENS, ask)

    def _ask(
        self, prompts: Sequence[Prompt], answer_tokens: int, ask: Callable[[Sequence[Prompt]], Iterable[tuple[int, T]]]
    ) -> Iterator[tuple[int, T]]:
        tokens = count_tokens(self.backend, prompts)
        covered = self._covered(tokens or [], answer_tokens) if self.budget is not None else len(prompts)
        if covered:
            chosen = prompts[:covered]
            self.usage = self.usage.plus(chosen, None if tokens is None else tokens[:covered], answer_tokens)
            started = time.perf_counter()
            for numbered in ask(chosen):
                self.usage = replace(self.usage, seconds=self.usage.seconds + time.perf_counter() - started)
                yield numbered
                started = time.perf_counter()
        if covered < len(prompts) and self.budget is not None:
            raise BackendError(
                f"the budget of {self.budget.limit:.2f} USD does not cover the next prompt ({self.budget.spent:.4f} "
                f"USD spent by this run, {len(prompts) - covered:,} prompts of this batch not asked); what was "
                "answered is kept: run the same command again with a new --budget"
            )

    def _covered(self, tokens: Sequence[int], answer_tokens: int) -> int:
        """How many of the first prompts the budget covers; their price is taken from it."""
        for covered, count in enumerate(tokens):
            if self.price is not None and self.budget is not None:
                after = self.budget.spent + self.price.of(count, answer_tokens)
                if after > self.budget.limit:
                    return covered
                self.budget.spent = after
        return len(tokens)


def _in_order(numbered: Iterable[tuple[int, T]]) -> list[T]:
    return [answer for _, answer in sorted(numbered, key=lambda pair: pair[0])]
