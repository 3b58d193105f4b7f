"""Counts of prompts, characters and tokens that backends are asked."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from refladder.backends.prices import Price
    from refladder.records import Prompt

Number = TypeVar("Number", int, float)


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Prompts that a backend was asked, or will be asked."""

    prompts: int = 0
    # HTTP requests; None for a backend that is not a server.
    requests: int | None = None
    # Total length of the prompts.
    characters: int = 0
    # Prompt tokens as sent, each prompt whole; None if the backend cannot count.
    prompt_tokens: int | None = None
    # Tokens that the model read: a beginning that prompts share counts once; None if unknown.
    run_tokens: int | None = None
    # Before a run, the most that answers can have (a text counts at its limit).
    answer_tokens: int = 0
    # Time in which the backend answered.
    seconds: float = 0.0

    def plus(
        self, prompts: Sequence[Prompt], tokens: Sequence[int] | None, answer_tokens: int
    ) -> Usage:
        """Add prompts, each with its tokens and answered with at most `answer_tokens`."""
        counted = self.prompt_tokens if self.prompts else 0
        return replace(
            self,
            prompts=self.prompts + len(prompts),
            characters=self.characters + sum(map(characters, prompts)),
            prompt_tokens=known_sum([counted, None if tokens is None else sum(tokens)]),
            answer_tokens=self.answer_tokens + answer_tokens * len(prompts),
        )

    @property
    def counts(self) -> dict[str, int | None]:
        """Return JSON values, without seconds; the length of answers is unknown if tokens are not counted."""
        return {
            "calls": self.prompts,
            "requests": self.requests,
            "characters": self.characters,
            "prompt_tokens": self.prompt_tokens,
            "run_tokens": self.run_tokens,
            "answer_tokens": self.answer_tokens if self.prompt_tokens is not None else None,
        }

    def cost(self, price: Price | None) -> float | None:
        """Return the cost in USD; None if the price or the number of tokens is unknown."""
        if price is None or (self.prompt_tokens is None and self.prompts):
            return None
        return price.of(self.prompt_tokens or 0, self.answer_tokens)


def known_sum(numbers: Sequence[Number | None]) -> Number | None:
    """Return the sum of numbers; None if one of them is unknown."""
    known = [number for number in numbers if number is not None]
    return sum(known) if len(known) == len(numbers) else None


def characters(prompt: Prompt) -> int:
    """Return the length of a prompt's text without building it."""
    return sum(map(len, prompt.literals)) + sum(len(prompt.slots[name]) for name in prompt.names)
