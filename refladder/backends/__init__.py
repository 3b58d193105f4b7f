"""Writers and judges behind one seam, two methods wide.

`connect("builtin")`, `connect("hf:ORG/MODEL")`: a kind and, after a colon, what it is to open.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast, runtime_checkable

from refladder import lookup
from refladder.errors import BackendError, UnknownNameError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from refladder.records import Completion, LabelReading, Prompt, Sampling

T = TypeVar("T")

BACKENDS = {
    "builtin": "refladder.backends.builtin:open_builtin",
    "hf": "refladder.backends.hf:open_hf",
    "openai": "refladder.backends.endpoint:open_endpoint",
    "scripted": "refladder.backends.scripted:open_scripted",
}

CONTEXT_CUT = "the context was cut"  # so begins the note of an answer to a prompt whose context was shortened to fit


@runtime_checkable
class Backend(Protocol):
    """A writer and judge. Batch first and synchronous; any concurrency stays inside.

    Prompts of one context arrive next to each other, so that a backend can share their prefix. The answer to a row
    must not depend on the other rows of its batch. What it may have beside these: `write_each` and `read_labels_each`
    (see `ask_each`), `wants_all` (see `in_batches`), a `notice` for people, and what counts tokens (see `metered`).
    """

    @property
    def fingerprint(self) -> str:
        """All that can change an answer (kind, model, revision, dtype, ...), in one line without `|`."""
        ...

    def write(self, prompts: Sequence[Prompt], sampling: Sampling) -> list[Completion]:
        """One text for each prompt, in order."""
        ...

    def read_labels(self, prompts: Sequence[Prompt], labels: Sequence[str]) -> list[LabelReading]:
        """For each prompt, the natural-log probability of every label as the answer, in the order of `labels`."""
        ...


class Around:
    """A backend that stands around another: the same fingerprint, and whatever else the other has is reached through.

    Args:
        backend: the one within.
    """

    def __init__(self, backend: Backend) -> None:
        self.backend = backend

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  whatever the backend has beside the two methods
        return getattr(self.backend, name)

    @property
    def fingerprint(self) -> str:
        """The backend's own: what stands around it changes no answer."""
        return self.backend.fingerprint


def whole(backend: Backend, prompts: Sequence[Prompt], answers: Sequence[T]) -> Sequence[T]:
    """The answers to a batch, after a look that there is one for each prompt: else they belong to other prompts.

    Raises:
        BackendError: there are more or fewer answers than prompts.
    """
    if len(answers) != len(prompts):
        raise BackendError(f"{backend.fingerprint}: asked {len(prompts)} prompts, answered {len(answers)}")
    return answers


def in_batches(backend: Backend, rows: Sequence[T], most: int) -> Iterator[Sequence[T]]:
    """Rows in batches of `most`, or all at once for a backend that has `wants_all`: each of its calls takes hours."""
    size = max(len(rows), 1) if getattr(backend, "wants_all", False) else most
    for start in range(0, len(rows), size):
        yield rows[start : start + size]


def ask_each(backend: Backend, method: str, prompts: Sequence[Prompt], how: object) -> Iterable[tuple[int, Any]]:
    """The number of a prompt and its answer, as they come where the backend gives them so, else when all are there.

    Args:
        backend: has `write_each(prompts, sampling)` and `read_labels_each(prompts, labels)`, or only the plain two.
        method: `write` or `read_labels`.
        prompts: the batch.
        how: the sampling, or the labels.

    Raises:
        BackendError: the backend failed, or gave more or fewer answers than prompts.
    """
    each = getattr(backend, f"{method}_each", None)
    if each is not None:
        return cast("Iterable[tuple[int, Any]]", each(prompts, how))
    return enumerate(whole(backend, prompts, getattr(backend, method)(prompts, how)))


def connect(name: str, **options: str) -> Backend:
    """Open a backend by name: `builtin`, `hf:ORG/MODEL`, `scripted:PATH`, or one that an installed package registers.

    Args:
        name: a kind and, after a colon, what it is to open.
        options: as text; which there are is told by the keyword-only arguments of the kind's opener.

    Raises:
        UnknownNameError: no such kind of backend, or no such option of it.
        UsageError: an option's value is not what it must be.
        BackendUnavailableError: it exists but cannot be opened.
    """
    kind, _, target = name.partition(":")
    opener = lookup.find("backend", kind, BACKENDS)
    parameters = inspect.signature(opener).parameters.values()
    known = [parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]
    for option in options:
        if option not in known:
            raise UnknownNameError(f"option of backend {kind!r}", option, known)
    return cast("Backend", opener(target, **options))
