"""The seam: what a writer or judge is, whatever runs it.

A plug-in subclasses `Backend` and implements its three abstract members. Everything else has a default and is
overridden where the backend can do better.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, TypeVar

from refladder.errors import BackendError, plural
from refladder.records import Sampling

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from refladder.backends.prices import Price
    from refladder.backends.usage import Usage
    from refladder.records import Comparison, Completion, LabelReading, Prompt

T = TypeVar("T")

# Most tokens of an answer that a judge writes: a line for each rung, with room for an explanation.
STATED_TOKENS = 300


class Backend(ABC):
    """A writer and judge. Batch first and synchronous; concurrency stays inside.

    Prompts of one context arrive next to each other, so that a backend can share their prefix. The answer to a prompt
    must not depend on the other prompts of its batch. `refladder.testing.check_backend` tests a subclass.
    """

    # What a backend must have.

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """All that can change an answer (kind, model, revision, dtype, template, ...), in one line without `|`."""

    @abstractmethod
    def write(self, prompts: Sequence[Prompt], sampling: Sampling) -> list[Completion]:
        """One text for each prompt, in order."""

    @abstractmethod
    def read_labels(self, prompts: Sequence[Prompt], labels: Sequence[str]) -> list[LabelReading]:
        """For each prompt, the natural-log probability of every label as the answer, in the order of `labels`."""

    # Answers as they come.

    def write_each(
        self, prompts: Sequence[Prompt], sampling: Sampling
    ) -> Iterator[tuple[int, Completion]]:
        """The position of each prompt and its text, in any order, so that a caller can store answers at once.

        Raises:
            BackendError: the backend failed; the answers yielded before stay valid.
        """
        return enumerate(whole(self, prompts, self.write(prompts, sampling)))

    def read_labels_each(
        self, prompts: Sequence[Prompt], labels: Sequence[str]
    ) -> Iterator[tuple[int, LabelReading]]:
        """The position of each prompt and its reading; see `write_each`."""
        return enumerate(whole(self, prompts, self.read_labels(prompts, labels)))

    # Before a run.

    def load(self) -> None:  # noqa: B027  optional: most backends have nothing to load
        """Load weights or connect now. Called before any file is begun, so that a broken model fails early.

        Raises:
            BackendUnavailableError: the backend cannot be used.
        """

    @property
    def notice(self) -> str | None:
        """One line for the user, printed once when the backend is opened."""
        return None

    @property
    def wants_all(self) -> bool:
        """Whether all prompts of a run should arrive in one call, because each call takes hours (a batch API)."""
        return False

    @property
    def shares_contexts(self) -> bool:
        """Whether prompts of one context are cheaper in one call, because the backend reads their prefix once."""
        return False

    @property
    def texts_at_once(self) -> int | None:
        """The most texts that one `write` should ask for; None if the caller may choose."""
        return None

    @property
    def default_sampling(self) -> tuple[float, float]:
        """Temperature and top-p of texts where a `Sampling` names none; `write` is called with numbers."""
        return 1.0, 1.0

    @property
    def answering(self) -> Sampling | None:
        """How one answer of a judge is written: the most probable text. None for a judge that writes no answers."""
        return Sampling(max_tokens=STATED_TOKENS, temperature=0.0)

    @property
    def rewards(self) -> bool:
        """Whether it is a reward model: it reads prompts of role reward, one for each text, and compares no texts."""
        return False

    # Tokens.

    def count_tokens(self, prompts: Sequence[Prompt]) -> list[int] | None:
        """Tokens of each prompt by the model's own tokenizer, before anything is sent; None if they are unknown.

        A prompt that is too long for the model counts 0: it would not be read.
        """
        del prompts
        return None

    def count_distinct_tokens(self, prompts: Sequence[Prompt], labels: Sequence[str]) -> int | None:
        """Tokens that the model would read, shared beginnings once; None if the backend cannot say.

        Args:
            prompts: the prompts.
            labels: the labels to be read after each; empty if texts are to be written.
        """
        del prompts, labels
        return None

    def count_label_tokens(self, prompt: Prompt, labels: Sequence[str]) -> list[int] | None:
        """Tokens of each label as the answer to a prompt; None if whole texts cannot be read as labels."""
        del prompt, labels
        return None

    @property
    def label_tokens(self) -> int:
        """The most tokens that the backend writes to answer one judging prompt."""
        return 1

    @property
    def usage(self) -> Usage | None:
        """What the backend itself (or its server) has counted so far; None if it counts nothing."""
        return None

    @property
    def price(self) -> Price | None:
        """What its tokens cost; None if unknown. Only a metered backend knows."""
        return None

    # Answers of earlier runs.

    @property
    def stores_answers(self) -> bool:
        """Whether answers are stored, so that a prompt that comes again is not asked again."""
        return False

    def stored_texts(
        self, prompts: Sequence[Prompt], sampling: Sampling
    ) -> list[Completion | None]:
        """The text that a response store holds for each prompt; None where it must be asked."""
        del sampling
        return [None] * len(prompts)

    def stored_readings(
        self, prompts: Sequence[Prompt], labels: Sequence[str]
    ) -> list[LabelReading | None]:
        """The reading that a response store holds for each prompt; None where it must be asked."""
        del labels
        return [None] * len(prompts)

    @property
    def recorded(self) -> Mapping[Comparison, LabelReading] | None:
        """Recorded judgments that answer comparisons by their ids, instead of prompts; None for a model.

        A reading holds the log-probabilities of win, loss and, for a comparison with a rung, tie.
        """
        return None


class Wrapper(Backend):
    """A backend around another one: it answers as the inner backend does unless a subclass changes that."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend

    @property
    def fingerprint(self) -> str:
        """The inner backend's: a wrapper changes no answer."""
        return self.backend.fingerprint

    def write(self, prompts: Sequence[Prompt], sampling: Sampling) -> list[Completion]:
        """One text for each prompt, in order."""
        return self.backend.write(prompts, sampling)

    def read_labels(self, prompts: Sequence[Prompt], labels: Sequence[str]) -> list[LabelReading]:
        """For each prompt, the log-probabilities of the labels."""
        return self.backend.read_labels(prompts, labels)

    def load(self) -> None:
        """Load the inner backend."""
        self.backend.load()

    @property
    def notice(self) -> str | None:
        """The inner backend's notice."""
        return self.backend.notice

    @property
    def wants_all(self) -> bool:
        """As the inner backend."""
        return self.backend.wants_all

    @property
    def shares_contexts(self) -> bool:
        """As the inner backend."""
        return self.backend.shares_contexts

    @property
    def rewards(self) -> bool:
        """As the inner backend."""
        return self.backend.rewards

    @property
    def answering(self) -> Sampling | None:
        """As the inner backend."""
        return self.backend.answering

    @property
    def default_sampling(self) -> tuple[float, float]:
        """As the inner backend."""
        return self.backend.default_sampling

    @property
    def texts_at_once(self) -> int | None:
        """As the inner backend."""
        return self.backend.texts_at_once

    def count_tokens(self, prompts: Sequence[Prompt]) -> list[int] | None:
        """By the inner backend's tokenizer."""
        return self.backend.count_tokens(prompts)

    def count_distinct_tokens(self, prompts: Sequence[Prompt], labels: Sequence[str]) -> int | None:
        """As the inner backend."""
        return self.backend.count_distinct_tokens(prompts, labels)

    def count_label_tokens(self, prompt: Prompt, labels: Sequence[str]) -> list[int] | None:
        """As the inner backend."""
        return self.backend.count_label_tokens(prompt, labels)

    @property
    def label_tokens(self) -> int:
        """As the inner backend."""
        return self.backend.label_tokens

    @property
    def usage(self) -> Usage | None:
        """As the inner backend."""
        return self.backend.usage

    @property
    def price(self) -> Price | None:
        """As the inner backend."""
        return self.backend.price

    @property
    def stores_answers(self) -> bool:
        """As the inner backend."""
        return self.backend.stores_answers

    def stored_texts(
        self, prompts: Sequence[Prompt], sampling: Sampling
    ) -> list[Completion | None]:
        """As the inner backend."""
        return self.backend.stored_texts(prompts, sampling)

    def stored_readings(
        self, prompts: Sequence[Prompt], labels: Sequence[str]
    ) -> list[LabelReading | None]:
        """As the inner backend."""
        return self.backend.stored_readings(prompts, labels)

    @property
    def recorded(self) -> Mapping[Comparison, LabelReading] | None:
        """As the inner backend."""
        return self.backend.recorded

    @property
    def sent(self) -> int | None:
        """How many prompts a response store inside had to ask of its backend; None without a store."""
        return self.backend.sent if isinstance(self.backend, Wrapper) else None


def whole(backend: Backend, prompts: Sequence[Prompt], answers: Sequence[T]) -> Sequence[T]:
    """The answers to a batch, once it is certain that there is one for each prompt; else BackendError."""
    if len(answers) != len(prompts):
        raise BackendError(
            f"{backend.fingerprint} gave {plural(len(answers), 'answer')} for {plural(len(prompts), 'prompt')}; test "
            "it with refladder.testing.check_backend"
        )
    return answers


def in_order(numbered: Iterable[tuple[int, T]]) -> list[T]:
    """Answers by the position of their prompts."""
    return [answer for _, answer in sorted(numbered, key=lambda pair: pair[0])]


def in_batches(backend: Backend, rows: Sequence[T], most: int) -> Iterator[Sequence[T]]:
    """Rows in batches of `most`, or all at once for a backend that wants all of them in one call."""
    size = max(len(rows), 1) if backend.wants_all else most
    for start in range(0, len(rows), size):
        yield rows[start : start + size]
