"""Backends of other packages, registered under `refladder.backend`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from refladder.backends.protocol import Backend, Streaming, Wrapper
from refladder.registry import plugged_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from refladder.records import Completion, LabelReading, Prompt, Sampling


class PlugIn(Streaming, Wrapper):
    """A backend of another package, whose name is in every error that it raises."""

    def __init__(self, backend: Backend, kind: str) -> None:
        super().__init__(backend)
        self._kind = kind
        with plugged_in("backend", kind):
            _ = backend.fingerprint

    def load(self) -> None:
        """Load the backend."""
        with plugged_in("backend", self._kind):
            self.backend.load()

    def write_each(
        self, prompts: Sequence[Prompt], sampling: Sampling
    ) -> Iterator[tuple[int, Completion]]:
        """Yield the position of each prompt and its text."""
        with plugged_in("backend", self._kind):
            yield from self.backend.write_each(prompts, sampling)

    def read_labels_each(
        self, prompts: Sequence[Prompt], labels: Sequence[str]
    ) -> Iterator[tuple[int, LabelReading]]:
        """Yield the position of each prompt and its reading."""
        with plugged_in("backend", self._kind):
            yield from self.backend.read_labels_each(prompts, labels)
