"""What backends are asked: prompts, characters, tokens, seconds and money, and the end of a budget."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from refladder.backends.protocol import ReadMode, Streaming, Usage, Wrapper, known_sum
from refladder.errors import BackendError, UsageError, plural
from refladder.files.jsonl import read_bytes
from refladder.parsing import parse_as

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from refladder.backends.prices import Budget, Price
    from refladder.backends.protocol import Backend
    from refladder.records import Completion, LabelReading, Prompt, Sampling

T = TypeVar("T")
SPENT = (
    *("calls", "requests", "characters", "prompt_tokens", "run_tokens", "answer_tokens"),
    *("seconds", "from_store", "usd"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """The calls of a backend, as JSON output has them; None for an unknown number."""

    backend: str
    calls: int
    requests: int | None
    characters: int
    prompt_tokens: int | None
    run_tokens: int | None
    answer_tokens: int | None

    @classmethod
    def of(cls, backend: str, usage: Usage) -> Costs:
        """Return the counts of a backend; the length of answers is unknown if tokens are not counted."""
        return Costs(
            backend=backend,
            calls=usage.prompts,
            requests=usage.requests,
            characters=usage.characters,
            prompt_tokens=usage.prompt_tokens,
            run_tokens=usage.run_tokens,
            answer_tokens=None if usage.prompt_tokens is None else usage.answer_tokens,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCosts(Costs):
    """What a run would ask of a backend; an upper bound where it is not `exact`, see `Estimate`."""

    least_calls: int
    free: int
    too_long: int
    exact: bool
    tokens_from_characters: bool
    usd: float | None
    expected_answer_tokens: int
    expected_usd: float | None
    seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a dry run found: what each backend would be asked, and how many judgments are reused."""

    dry_run: bool = True
    kept_judgments: int
    backends: list[PlannedCosts]


@dataclass(frozen=True, slots=True, kw_only=True)
class SpentCosts(Costs):
    """What a backend was asked, and how its answers are read, where there is a choice."""

    seconds: float
    from_store: int | None
    usd: float | None
    read_mode: ReadMode | None = None


class Metered(Streaming, Wrapper):
    """A backend that counts its prompts in `usage` and sends none that its budget does not cover.

    One meter is inside the response store, with price and budget: it counts what is sent. Another is around the store
    while a method runs: its `usage` counts answers from the store too, and its `spent` what was sent for that method. A
    budget needs a price, and a backend that counts its tokens or whose server reports them (then the first answer over
    it ends it).
    """

    # The price of a token: the given one, else that of the inner backend.
    price: Price | None = None

    def __init__(
        self, backend: Backend, price: Price | None = None, budget: Budget | None = None
    ) -> None:
        super().__init__(backend)
        self.price = backend.price if price is None else price
        self.budget = budget
        self._is_priced = price is not None
        self._usage = Usage()
        self._seconds = 0.0
        # Number of prompts answered.
        self.answered = 0
        # USD that this backend has taken from the budget.
        self._charged = 0.0
        self._before = backend.usage
        self._sent_before = self.sent or 0
        if budget is not None and price is None:
            raise UsageError("a budget needs the model's price; give the table with --prices FILE")
        if budget is not None and backend.count_tokens([]) is None and backend.usage is None:
            raise UsageError(
                f"{backend.fingerprint}: cannot count its tokens, and a budget needs their number; name its tokenizer "
                "with --judge-option tokenizer=PATH (--writer-option for a writer)"
            )

    @property
    def usage(self) -> Usage:
        """Return the usage so far. For prompt tokens, the larger of the server's count and ours."""
        counted = replace(self._usage, seconds=self._seconds)
        reported = self.backend.usage
        if reported is None:
            return counted
        if not reported.prompt_tokens:
            return replace(counted, run_tokens=reported.run_tokens)
        return replace(
            counted,
            requests=reported.requests,
            prompt_tokens=max(reported.prompt_tokens, counted.prompt_tokens or 0),
            run_tokens=reported.run_tokens,
            answer_tokens=reported.answer_tokens,
        )

    @property
    def calls(self) -> int:
        """Return the number of prompts sent to the model since this meter was made; a store's answers do not count."""
        return self.answered if self.sent is None else self.sent - self._sent_before

    @property
    def spent(self) -> Spent:
        """Return tokens and money since this meter was made; answers from a store inside it cost nothing."""
        if not self.answered:
            return Spent(0, 0, None)
        now = self.usage if self.backend.usage is None else self.backend.usage
        return _spent(now, self.price).since(_spent(self._before, self.price))

    def write_each(
        self, prompts: Sequence[Prompt], sampling: Sampling
    ) -> Iterator[tuple[int, Completion]]:
        """Yield the position of each prompt and its text, as they come."""
        drawn = sampling.filled(self.default_sampling)
        return self._ask(
            lambda chosen: self.backend.write_each(chosen, drawn), prompts, sampling.max_tokens
        )

    def read_labels_each(
        self, prompts: Sequence[Prompt], labels: Sequence[str]
    ) -> Iterator[tuple[int, LabelReading]]:
        """Yield the position of each prompt and its reading, as they come."""
        return self._ask(
            lambda chosen: self.backend.read_labels_each(chosen, labels), prompts, self.label_tokens
        )

    def _ask(
        self,
        ask: Callable[[Sequence[Prompt]], Iterator[tuple[int, T]]],
        prompts: Sequence[Prompt],
        answer_tokens: int,
    ) -> Iterator[tuple[int, T]]:
        # Counting may itself cost a request; without a price, the numbers that the backend reports later are enough.
        counting = self._is_priced or self.backend.usage is None
        tokens = self.backend.count_tokens(prompts) if counting else None
        covered = len(prompts)
        if self.budget is not None:
            covered = self._covered(self.budget, len(prompts), tokens, answer_tokens)
        answered = 0
        if covered:
            chosen = prompts[:covered]
            self._usage = self._usage.plus(
                chosen, None if tokens is None else tokens[:covered], answer_tokens
            )
            started = time.perf_counter()
            for numbered in ask(chosen):
                self._seconds += time.perf_counter() - started
                self.answered += 1
                yield numbered
                answered += 1
                if self.budget is not None and self._overspent(self.budget):
                    break
                started = time.perf_counter()
        if (
            answered < len(prompts)
            and self.budget is not None
            and (covered < len(prompts) or self._overspent(self.budget))
        ):
            raise BackendError(
                f"the budget of {self.budget.limit:.2f} USD does not cover the next prompt ({self.budget.spent:.4f} "
                f"USD spent by this run, {plural(len(prompts) - answered, 'prompt')} of this batch not answered); "
                "answers are kept: run the same command again with a new --budget"
            )

    def _covered(
        self, budget: Budget, count: int, tokens: Sequence[int] | None, answer_tokens: int
    ) -> int:
        """Return how many of the first prompts the budget covers."""
        self._charge(budget)
        if tokens is None or self.price is None:
            return count if budget.spent < budget.limit else 0
        cost = 0.0
        for covered, number in enumerate(tokens):
            cost += self.price.of(number, answer_tokens)
            if budget.spent + cost > budget.limit:
                return covered
        return count

    def _overspent(self, budget: Budget) -> bool:
        self._charge(budget)
        # A sum of prices in another order may end a last digit above the limit.
        return budget.spent > budget.limit * (1 + 1e-9)

    def _charge(self, budget: Budget) -> None:
        """Take from the budget what was spent since the last time."""
        cost = self.usage.cost(self.price)
        if cost is not None:
            budget.spent += cost - self._charged
            self._charged = cost


@dataclass(frozen=True, slots=True, kw_only=True)
class _Earlier:
    """What is read of the record of a run."""

    spent: list[SpentCosts] = field(default_factory=list)


def spent_before(path: Path) -> list[SpentCosts]:
    """Read what the record of a run says that backends were asked; nothing if there is none."""
    if not path.is_file():
        return []
    what, step = "not the record of a run", "delete it, and run the command again"
    return parse_as(_Earlier, read_bytes(path), str(path), what, step, extra="ignore").spent


def all_spent(earlier: Sequence[SpentCosts], spent: Sequence[SpentCosts]) -> list[SpentCosts]:
    """Return what backends were asked by earlier runs and this one."""
    total = {costs.backend: costs for costs in earlier}
    for costs in spent:
        sums: dict[str, Any] = {}
        if before := total.get(costs.backend):
            sums = {
                name: known_sum([getattr(before, name), getattr(costs, name)]) for name in SPENT
            }
        total[costs.backend] = replace(costs, **sums)
    return list(total.values())


def spent_json(spent: Iterable[SpentCosts]) -> list[dict[str, object]]:
    """Return JSON values; a backend whose answers are read in one way only has no `read_mode`."""
    rows = list(map(asdict, spent))
    for row in rows:
        if row["read_mode"] is None:
            del row["read_mode"]
    return rows


class Spent(NamedTuple):
    """Prompt tokens as sent, tokens that the model had to read, and USD; None if unknown."""

    sent: int | None
    distinct: int | None
    usd: float | None

    def since(self, before: Spent) -> Spent:
        """Return what was spent since an earlier moment."""
        return Spent(
            None if self.sent is None else self.sent - (before.sent or 0),
            None if self.distinct is None else self.distinct - (before.distinct or 0),
            None if self.usd is None else self.usd - (before.usd or 0.0),
        )


def total(parts: Sequence[Spent]) -> Spent:
    """Return the sum over the backends of a method.

    Tokens are None if one backend does not count them; the cost is that of the backends with a price.
    """
    sent = [part.sent for part in parts]
    distinct = [part.distinct for part in parts]
    usd = [part.usd for part in parts if part.usd is not None]
    return Spent(known_sum(sent), known_sum(distinct), sum(usd) if usd else None)


def _spent(usage: Usage | None, price: Price | None) -> Spent:
    if usage is None:
        return Spent(None, None, None)
    sent = usage.prompt_tokens
    if sent is None and not usage.prompts:
        sent = 0
    return Spent(sent, usage.run_tokens, usage.cost(price))
