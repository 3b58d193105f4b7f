"""Counts what a backend is asked, for the cost columns of the report card."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from refladder.backends.metered import characters

if TYPE_CHECKING:
    from collections.abc import Sequence

    from refladder.backends import Backend
    from refladder.records import Completion, LabelReading, Prompt, Sampling


class Counted:
    """A backend that counts: `calls` prompts, their `characters`, and the `seconds` in which they were answered.

    Unlike `backends.metered`, it stands outside any store: what a method asked counts, though it was kept from before.
    Whatever else the backend has is reached through this one, uncounted.

    Args:
        backend: what answers; it stands in `backend`.
    """

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.calls = 0
        self.characters = 0
        self.seconds = 0.0

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  whatever the backend has beside the two methods
        return getattr(self.backend, name)

    @property
    def fingerprint(self) -> str:
        """The backend's own: counting changes no answer."""
        return self.backend.fingerprint

    def _count(self, prompts: Sequence[Prompt], seconds: float) -> None:
        """Add prompts that were asked, and the time they took."""
        self.calls += len(prompts)
        self.characters += sum(map(characters, prompts))
        self.seconds += seconds

    def write(self, prompts: Sequence[Prompt], sampling: Sampling) -> list[Completion]:
        """As the backend does."""
        started = time.perf_counter()
        found = self.backend.write(prompts, sampling)
        self._count(prompts, time.perf_counter() - started)
        return found

    def read_labels(self, prompts: Sequence[Prompt], labels: Sequence[str]) -> list[LabelReading]:
        """As the backend does."""
        started = time.perf_counter()
        found = self.backend.read_labels(prompts, labels)
        self._count(prompts, time.perf_counter() - started)
        return found
