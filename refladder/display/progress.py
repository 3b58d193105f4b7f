"""How far a job is, on standard error: a bar in a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from refladder.display.rendering import printable
from refladder.errors import plural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from refladder.records import Progress

# Without a terminal, the first line comes after these seconds, and the next ones at this distance.
FIRST_LINE = 8.0
LINE_EVERY = 30.0
# The rate of a bar is measured over these seconds, since a batch of a slow model takes minutes.
_PERIOD = 600.0
# Remaining time is given in a unit from this number of units on.
_TWO = 2
# The rate is a whole number from this number per second on.
_FAST = 10


@contextmanager
def progress(
    what: str, watch: Callable[[], tuple[int, int | None]] | None = None
) -> Iterator[Progress]:
    """Show how far a job is, with rate and estimate, on standard error: a bar in a terminal, else a line now and then.

    `watch` returns the prompts that are answered so far, and the tokens that models ran for them.
    """
    what = printable(what)
    watched = watch or _nothing
    started = time.monotonic()
    prompts_before, tokens_before = watched()

    def answered() -> int:
        """Count prompts since the start."""
        return watched()[0] - prompts_before

    def work() -> str:
        """Count prompts and tokens since the start."""
        prompts, tokens = watched()
        parts = []
        if prompts > prompts_before:
            parts.append(plural(prompts - prompts_before, "prompt"))
        # Before the first batch nothing is known of the speed.
        if tokens is not None and tokens > (tokens_before or 0):
            seconds = max(time.monotonic() - started, 1e-9)
            parts.append(f"{(tokens - (tokens_before or 0)) / seconds:,.0f} tokens/s")
        return ", ".join(parts)

    if not sys.stderr.isatty():
        lines = _Lines(what, work, answered, started)
        ended = threading.Event()
        # A batch of a slow model takes minutes, so a thread writes the lines.
        thread = threading.Thread(target=lines.write_until, args=(ended,), daemon=True)
        thread.start()
        try:
            yield lines
        finally:
            ended.set()
            thread.join()
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        Task,
        TextColumn,
    )
    from rich.text import Text

    class Work(ProgressColumn):
        """Drawn anew several times a second, also while a batch is under way."""

        def render(self, task: Task) -> Text:
            speed = left = ""
            if task.speed:
                digits = 0 if task.speed >= _FAST else 1
                speed = f"{task.speed:,.{digits}f}/s"
            if task.time_remaining:
                left = _left(task.time_remaining)
            parts = [speed, work(), left, task.fields["note"]]
            return Text(", ".join(filter(None, parts)))

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), Work())
    with Progress(*columns, console=Console(stderr=True), speed_estimate_period=_PERIOD) as bars:
        bar = bars.add_task(what, total=None, note="")

        def update(done: int, total: int | None, note: str = "", each: int = 0, /) -> None:
            # The bar estimates the rest by itself.
            del each
            bars.update(bar, completed=done, total=total, note=printable(note))

        yield update


def _nothing() -> tuple[int, None]:
    return 0, None


def _left(seconds: float) -> str:
    """Write the remaining time in words."""
    return f"about {duration_words(seconds)} left"


def duration_words(seconds: float) -> str:
    """Return a duration as a whole number of seconds, minutes or hours."""
    for unit, length in (("h", 3600), ("min", 60)):
        if seconds >= _TWO * length:
            return f"{seconds / length:,.0f} {unit}"
    return f"{seconds:,.0f} s"


class _Lines:
    """Progress as plain lines: one after `FIRST_LINE`, and then one in `LINE_EVERY` seconds; a short run has none.

    Within a batch, the prompts that are `answered` say how many units are done.
    """

    def __init__(
        self, what: str, work: Callable[[], str], answered: Callable[[], int], started: float
    ) -> None:
        self._what = what
        self._work = work
        self._answered = answered
        self._state: tuple[int, int | None, str] = (0, None, "")
        self._each = 0
        # These are the units done, the prompts and the time when this total was first reported.
        self._since = (0, 0, started)

    def __call__(self, done: int, total: int | None, note: str = "", each: int = 0, /) -> None:
        if self._state[1] not in {None, total}:
            self._since = (done, self._answered(), time.monotonic())
        self._state = (done, total, note)
        self._each = each or self._each

    def write_until(self, ended: threading.Event) -> None:
        """Write lines on standard error until the job has ended."""
        pause = FIRST_LINE
        while not ended.wait(pause):
            sys.stderr.write(f"{self.line(time.monotonic())}\n")
            sys.stderr.flush()
            pause = LINE_EVERY

    def line(self, now: float) -> str:
        """Report how far the job is at a time, with an estimate of the rest."""
        done, total, note = self._state
        before, prompts, started = self._since
        parts = [self._work()]
        if total is not None and done < total:
            answered = (self._answered() - prompts) / self._each if self._each else 0.0
            finished = min(max(done - before, answered), total - before)
            done = max(done, before + int(finished))
            if finished:
                parts.append(_left((total - before - finished) * (now - started) / finished))
            else:
                parts.append("no estimate before the first answers")
        line = f"{self._what}: {done:,}"
        if total is not None:
            line += f" of {total:,}"
        details = ", ".join(filter(None, [*parts, printable(note)]))
        return f"{line} ({details})" if details else line
