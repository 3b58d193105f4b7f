"""How far a job is, on standard error: a bar in a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from refladder.errors import plural
from refladder.report.plain_text import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from refladder.records import Progress

LINE_EVERY = (
    30.0  # seconds between two lines that tell how far a run is, where there is no terminal
)
_PERIOD = 600.0  # seconds over which the bar's rate is taken: a batch of a slow model takes minutes
_TWO = 2  # of a unit, from which on the remaining time is told in it
_FAST = 10  # a second, from which on the rate is told as a whole number


@contextmanager
def progress(
    what: str, watch: Callable[[], tuple[int, int | None]] | None = None
) -> Iterator[Progress]:
    """How far a job is, with rate and estimate, on standard error: a bar in a terminal, else a line now and then."""
    what = printable(what)
    started, before = time.monotonic(), watch() if watch is not None else (0, None)

    def work() -> str:
        """Prompts and tokens since the start."""
        prompts, tokens = watch() if watch is not None else (0, None)
        parts = [plural(prompts - before[0], "prompt")] if prompts > before[0] else []
        if tokens is not None:
            parts.append(
                f"{(tokens - (before[1] or 0)) / max(time.monotonic() - started, 1e-9):,.0f} tokens/s"
            )
        return ", ".join(parts)

    if not sys.stderr.isatty():
        yield _lines(what, work, started)
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
            parts = [f"{task.speed:,.{0 if task.speed >= _FAST else 1}f}/s"] if task.speed else []
            left = [_left(task.time_remaining)] if task.time_remaining else []
            return Text(", ".join([*parts, *filter(None, [work()]), *left]))

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), Work())
    with Progress(*columns, console=Console(stderr=True), speed_estimate_period=_PERIOD) as bars:
        bar = bars.add_task(what, total=None)

        def update(done: int, total: int | None) -> None:
            bars.update(bar, completed=done, total=total)

        yield update


def _left(seconds: float) -> str:
    """The remaining time in words."""
    for unit, length in (("h", 3600), ("min", 60)):
        if seconds >= _TWO * length:
            return f"about {seconds / length:,.0f} {unit} left"
    return f"about {seconds:,.0f} s left"


def _lines(what: str, work: Callable[[], str], started: float) -> Progress:
    """Progress as plain lines, at most one in `LINE_EVERY` seconds: a short run has none."""
    last = started

    def update(done: int, total: int | None) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last < LINE_EVERY:
            return
        last = now
        parts = [work()]
        if total is not None and 0 < done < total:
            parts.append(_left((total - done) * (now - started) / done))
        details = ", ".join(filter(None, parts))
        count = f"{done:,}{'' if total is None else f' of {total:,}'}"
        sys.stderr.write(f"{what}: {count}{f' ({details})' if details else ''}\n")
        sys.stderr.flush()

    return update
