"""The interface of writers and judges, independent of what runs the model.

A plug-in subclasses `Backend` and implements its three abstract members. Everything else has a default and is
overridden where the backend can do better.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import TYPE_CHECKING, TypeVar

from refladder.errors import BackendError, plural
from refladder.records import Sampling, without_none

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from refladder.backends.prices import Price
    from refladder.records import Comparison, Completion, LabelReading, Prompt

T = TypeVar("T")
Number = TypeVar("Number", int, float)

# Most tokens of an answer that a judge writes: a line for each rung, with room for an explanation.
STATED_TOKENS = 300


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
    # Before a run, those that answers are expected to have.
    expected_tokens: int = 0
    # Time in which the backend answered.
    seconds: float = 0.0

    def plus(
        self,
        prompts: Sequence[Prompt],
        tokens: Sequence[int] | None,
        answer_tokens: int,
        expected: int | None = None,
    ) -> Usage:
        """Add prompts, each with its tokens and answered with at most `answer_tokens`; all with `expected`, if that is known."""
        counted = self.prompt_tokens if self.prompts else 0
        return replace(
            self,
            prompts=self.prompts + len(prompts),
            characters=self.characters + sum(map(characters, prompts)),
            prompt_tokens=known_sum([counted, None if tokens is None else sum(tokens)]),
            answer_tokens=self.answer_tokens + answer_tokens * len(prompts),
            expected_tokens=self.expected_tokens
            + (answer_tokens * len(prompts) if expected is None else expected),
        )

    @property
    def expected(self) -> Usage:
        """Return this usage with answers of the expected length."""
        return replace(self, answer_tokens=self.expected_tokens)

    def cost(self, price: Price | None) -> float | None:
        """Return the cost in USD; None if the price or the number of tokens is unknown."""
        if price is None or (self.prompt_tokens is None and self.prompts):
            return None
        return price.of(self.prompt_tokens or 0, self.answer_tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadMode:
    """How a server's answers are read, why not better, what it refuses, and its answers by the model that they name."""

    mode: str
    prefix: str
    not_better: list[str]
    models: dict[str, int]
    # Fields of requests that the server refuses.
    left_out: list[str] = field(default_factory=list)


class Backend(ABC):
    """A writer and judge: synchronous calls with batches of prompts; a backend hides its concurrency.

    Prompts of one context arrive next to each other, so that a backend can share their prefix. The answer to a prompt
    must not depend on the other prompts of its batch. `refladder.testing.check_backend` tests a subclass.
    """

    # What a backend is.

    # Whether all prompts of a run should come in one call, because each call takes hours (a batch API).
    wants_all: bool = False
    # Whether prompts of one context are cheaper in one call, because the backend reads their prefix once.
    shares_contexts: bool = False
    # Whether this is a reward model: it reads prompts of role reward, one for each text, and compares none.
    rewards: bool = False
    # Whether the model cannot change behind its name: its weights are on this machine.
    is_fixed: bool = False
    # Whether answers are stored, so that a repeated prompt is not asked again.
    stores_answers: bool = False
    # Price of its tokens; None if unknown. Only a metered backend has one.
    price: Price | None = None
    # Recorded judgments that answer comparisons by their ids, instead of prompts; None for a model. A reading holds the
    # log-probabilities of win, loss and, for a comparison with a rung, tie.
    recorded: Mapping[Comparison, LabelReading] | None = None

    @property
    def stored_as(self) -> str:
        """Return the key under which answers of this backend are stored: the fingerprint, perhaps with an address."""
        return self.fingerprint

    # What a backend must have.

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """Return all that can change an answer (kind, model, revision, dtype, template, ...) in one line without `|`."""

    @abstractmethod
    def write(self, prompts: Sequence[Prompt], sampling: Sampling) -> list[Completion]:
        """Return a text for each prompt, in order."""

    @abstractmethod
    def read_labels(self, prompts: Sequence[Prompt], labels: Sequence[str]) -> list[LabelReading]:
        """Return for each prompt the natural-log probability of every label as the answer, in the order of `labels`."""

    # Answers as they come.

    def write_each(
        self, prompts: Sequence[Prompt], sampling: Sampling
    ) -> Iterator[tuple[int, Completion]]:
        """Yield the position of each prompt and its text, in any order, so that a caller can store answers at once.

        Raises:
            BackendError: the backend failed; the answers yielded before stay valid.
        """
        return enumerate(whole(self, prompts, self.write(prompts, sampling)))

    def forget(self, prompts: Sequence[Prompt], sampling: Sampling) -> None:
        """Delete the texts of these prompts from a response store inside, because they could not be read."""

    def read_labels_each(
        self, prompts: Sequence[Prompt], labels: Sequence[str]
    ) -> Iterator[tuple[int, LabelReading]]:
        """Yield the position of each prompt and its reading; see `write_each`."""
        return enumerate(whole(self, prompts, self.read_labels(prompts, labels)))

    # Before a run.

    def for_writing(self) -> Backend:
        """Return the backend for a run that only lets it write, so that how labels are read need not be found out."""
        return self

    def try_out(self, prompt: Prompt) -> None:
        """Find out how this is asked by the first question of a run that lets it write; its answer may be kept."""

    def load(self) -> None:
        """Load weights or connect now. Called before any file is begun, so that a broken model fails early.

        Raises:
            BackendUnavailableError: the backend cannot be used.
        """

    def prepare_dry_run(self) -> str | None:
        """Prepare for a dry run, which gets no answers; return what is unknown in it, in one line for people."""
        return None

    @property
    def notice(self) -> str | None:
        """Return one line for the user, which is printed once when the backend is opened."""
        return None

    @property
    def read_mode(self) -> ReadMode | None:
        """Return how answers are read and why not better; None where there is no choice."""
        return None

    @property
    def texts_at_once(self) -> int | None:
        """Return the most texts that one `write` should ask for; None if the caller may choose."""
        return None

    @property
    def default_sampling(self) -> tuple[float, float]:
        """Return temperature and top-p where a `Sampling` names none; `write` is called with numbers."""
        return 1.0, 1.0

    @property
    def answering(self) -> Sampling | None:
        """Return the sampling of a judge's answer: the most probable text. None for a judge that writes no answers."""
        return Sampling(max_tokens=STATED_TOKENS, temperature=0.0)

    @property
    def reads_probabilities(self) -> bool:
        """Return whether label probabilities are read, and not the shares of sampled answers."""
        return True

    # Tokens.

    def count_tokens(self, prompts: Sequence[Prompt]) -> list[int] | None:
        """Return the tokens of each prompt by the model's tokenizer, before anything is sent; None if unknown.

        A prompt that is too long for the model counts 0: it would not be read.
        """
        return None

    def count_distinct_tokens(self, prompts: Sequence[Prompt], labels: Sequence[str]) -> int | None:
        """Return the number of tokens that the model would read, shared beginnings once; None if unknown.

        Args:
            prompts: the prompts.
            labels: the labels to be read after each; empty if texts are to be written.
        """
        return None

    def count_label_tokens(self, prompt: Prompt, labels: Sequence[str]) -> list[int] | None:
        """Return the tokens of each label as the answer to a prompt; None if whole texts cannot be read as labels."""
        return None

    def count_requests(self, texts: int, readings: int) -> int | None:
        """Return the HTTP requests of a run with these prompts, and of what comes before them; None if unknown.

        Args:
            texts: the number of texts to write.
            readings: the number of prompts after which labels are read.
        """
        return None

    @property
    def label_tokens(self) -> int:
        """Return the most tokens that the backend writes to answer a judging prompt."""
        return 1

    @property
    def usage(self) -> Usage | None:
        """Return what the backend (or its server) has counted so far; None if it counts nothing."""
        return None

    # Answers of earlier runs.

    def stored_texts(
        self, prompts: Sequence[Prompt], sampling: Sampling
    ) -> list[Completion | None]:
        """Return the stored text of each prompt; None if it must be asked."""
        return [None] * len(prompts)

    def stored_readings(
        self, prompts: Sequence[Prompt], labels: Sequence[str]
    ) -> list[LabelReading | None]:
        """Return the stored reading of each prompt; None if it must be asked."""
        return [None] * len(prompts)

    def answer_seconds(self, kind: str) -> float | None:
        """Return the seconds that an answer of a kind (`write` or `labels`) took in earlier runs; None if unknown."""
        return None


class Streaming(Backend):
    """A backend that yields its answers as they come: it implements the two `_each` members."""

    @abstractmethod
    def write_each(
        self, prompts: Sequence[Prompt], sampling: Sampling
    ) -> Iterator[tuple[int, Completion]]:
        """Yield the position of each prompt and its text, in any order."""

    @abstractmethod
    def read_labels_each(
        self, prompts: Sequence[Prompt], labels: Sequence[str]
    ) -> Iterator[tuple[int, LabelReading]]:
        """Yield the position of each prompt and its reading, in any order."""

    def write(self, prompts: Sequence[Prompt], sampling: Sampling) -> list[Completion]:
        """Return a text for each prompt, in order."""
        return in_order(self.write_each(prompts, sampling))

    def read_labels(self, prompts: Sequence[Prompt], labels: Sequence[str]) -> list[LabelReading]:
        """Return a reading for each prompt, in order."""
        return in_order(self.read_labels_each(prompts, labels))


class Wrapper(Backend):
    """A backend around another one, whose members it has unless a subclass overrides them.

    The two `_each` members are an exception: they call `write` and `read_labels` of the wrapper itself.
    """

    def __init__(self, backend: Backend) -> None:
        self.backend = backend

    @property
    def fingerprint(self) -> str:
        """Return the fingerprint of the inner backend: a wrapper changes no answer."""
        return self.backend.fingerprint

    def write(self, prompts: Sequence[Prompt], sampling: Sampling) -> list[Completion]:
        """Return the texts of the inner backend."""
        return self.backend.write(prompts, sampling)

    def read_labels(self, prompts: Sequence[Prompt], labels: Sequence[str]) -> list[LabelReading]:
        """Return the readings of the inner backend."""
        return self.backend.read_labels(prompts, labels)

    def for_writing(self) -> Backend:
        """Return this wrapper."""
        return self

    @property
    def sent(self) -> int | None:
        """Return how many prompts a response store inside sent to its backend; None without a store."""
        return self.backend.sent if isinstance(self.backend, Wrapper) else None


# The types of these members are those that `Backend` declares.
for _name in vars(Backend):
    if not (_name.startswith("_") or _name.endswith("_each") or _name in vars(Wrapper)):
        setattr(Wrapper, _name, property(attrgetter(f"backend.{_name}")))


def known_sum(numbers: Sequence[Number | None]) -> Number | None:
    """Return the sum of numbers; None if one of them is unknown."""
    known = without_none(numbers)
    return sum(known) if len(known) == len(numbers) else None


def characters(prompt: Prompt) -> int:
    """Return the length of a prompt's text without building it."""
    return sum(map(len, prompt.literals)) + sum(len(prompt.slots[name]) for name in prompt.names)


def whole(backend: Backend, prompts: Sequence[Prompt], answers: Sequence[T]) -> Sequence[T]:
    """Return the answers to a batch; raise BackendError unless there is one for each prompt."""
    if len(answers) != len(prompts):
        raise BackendError(
            f"{backend.fingerprint} gave {plural(len(answers), 'answer')} for {plural(len(prompts), 'prompt')}; test "
            "it with refladder.testing.check_backend"
        )
    return answers


def in_order(numbered: Iterable[tuple[int, T]]) -> list[T]:
    """Return answers in the order of their prompts."""
    return [answer for _, answer in sorted(numbered, key=lambda pair: pair[0])]


def in_batches(backend: Backend, rows: Sequence[T], most: int) -> Iterator[Sequence[T]]:
    """Yield rows in batches of `most`, or all at once for a backend that wants them in one call."""
    size = max(len(rows), 1) if backend.wants_all else most
    for start in range(0, len(rows), size):
        yield rows[start : start + size]
