"""What a job reports while it runs: how far it is, what the check of a judge shows, and notices.

Jobs get an `Events` and print nothing themselves. `Silent` reports nothing. That of commands is `console.Console`, and
that of calls `report.log.Log`.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from refladder.records import JudgeCheck, Progress

    # Returns the prompts that are answered so far, and the tokens that models ran for them.
    Watch = Callable[[], tuple[int, int | None]]


class Events(Protocol):
    """Receives what a job reports."""

    def progress(
        self, what: str, watch: Watch | None = None
    ) -> AbstractContextManager[Progress | None]:
        """Return a context manager for one step of the job; it gives a function to call with what is done and the total."""

    def checked(self, checks: Sequence[JudgeCheck]) -> None:
        """Report the check of a judge."""

    def notice(self, text: str, *, warns: bool = False, once: bool = False) -> None:
        """Report a line; one that `warns` is not left out by --quiet, and `once` reports it once in a process."""


class Silent:
    """Reports nothing: a dry run, a worker, or a caller who does not ask."""

    def progress(
        self, what: str, watch: Watch | None = None
    ) -> AbstractContextManager[Progress | None]:
        """Show no progress."""
        return nullcontext()

    def checked(self, checks: Sequence[JudgeCheck]) -> None:
        """Leave the check out."""

    def notice(self, text: str, *, warns: bool = False, once: bool = False) -> None:
        """Leave the notice out."""
