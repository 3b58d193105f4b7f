"""What commands print: progress, tables, and the summary of a scoring run."""

from __future__ import annotations

import codecs
import functools
import json
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from refladder.backends.metered import spent_json
from refladder.cli.options import FOR_BACKENDS, QUIET
from refladder.display import progress as reporting
from refladder.display.rendering import printable, printable_json
from refladder.errors import ExitCode, redacted
from refladder.files.outputs import RunConfig
from refladder.scoring.summary import (
    essential_lines,
    spent_lines,
    summary,
    summary_lines,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from rich.console import Console as RichConsole
    from rich.console import ConsoleOptions, RenderableType

    from refladder.backends.metered import SpentCosts
    from refladder.display.rendering import PlainTable
    from refladder.events import Watch
    from refladder.records import JudgeCheck, Progress
    from refladder.scoring.score_report import ScoreReport

# Width of tables when standard output is not a terminal.
_WIDTH = 100


def silent() -> bool:
    """Return whether this command prints no notices and no progress."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(QUIET))


def progress(what: str, watch: Watch | None = None) -> AbstractContextManager[Progress | None]:
    """Show the progress of a job on standard error; give None with --quiet."""
    return nullcontext() if silent() else reporting.progress(what, watch)


def resolved(**changed: Any) -> RunConfig:
    """Return the configuration of this run, as it is stored with its output: every option with its value."""
    context = click.get_current_context()
    values = {**context.params, **changed}
    for name, value in values.items():
        if isinstance(value, Path):
            values[name] = str(value)
    for chosen in context.meta.get(FOR_BACKENDS, {}).values():
        values.update(chosen)
    return RunConfig(command=context.info_name, options=redacted(values))


def console(*, hide: bool = True) -> RichConsole:
    """Return standard output for tables, 100 columns wide if it is not a terminal; their text is made `printable`."""
    from rich.console import Console as RichConsole
    from rich.segment import Segment

    class Printable(RichConsole):
        def render(
            self, renderable: RenderableType, options: ConsoleOptions | None = None
        ) -> Iterator[Segment]:
            for segment in super().render(renderable, options):
                safe = Segment(printable(segment.text, hide=hide), segment.style)
                yield segment if segment.control else safe

    if sys.stdout.isatty():
        return Printable(highlight=False)
    return Printable(highlight=False, width=_WIDTH)


def tell(
    report: ScoreReport,
    *,
    as_json: bool,
    to_stderr: bool,
    spent: Sequence[SpentCosts] = (),
    checks: Sequence[JudgeCheck] | None = None,
) -> ExitCode:
    """Print the summary of a scoring run, and what its backends were asked; returns the exit code."""
    if as_json:
        from refladder.scoring.judge_check import checks_json

        seen = {} if checks is None else checks_json(checks)
        say_json({**summary(report), **seen, "spent": spent_json(spent)}, err=to_stderr)
    else:
        say_summary(report)
        if not report.rows:
            say("The table has no rows, so nothing was scored", err=True)
        tell_spent(spent)
    return ExitCode.of(complete=report.complete and report.rows)


def say_summary(report: ScoreReport) -> None:
    """Print the counts of a scoring run on standard error; with --quiet only if they change what its scores mean."""
    say_lines(essential_lines(report) if silent() else summary_lines(report))


def say_checks(checks: Sequence[JudgeCheck]) -> None:
    """Print the check of a judge on standard error; with --quiet its warnings only."""
    from refladder.scoring.judge_check import check_lines

    shown, warnings = check_lines(checks)
    for line in shown:
        notify(line)
    say_lines(warnings)


def tell_spent(spent: Sequence[SpentCosts]) -> None:
    """Print on standard error what backends were asked, where more is known than the number of judgments."""
    for line in spent_lines(spent):
        notify(line)


def say_lines(lines: Iterable[str]) -> None:
    """Print lines on standard error that may hold text from data."""
    for line in lines:
        say(line, err=True)


def say(text: str, *, err: bool = False, nl: bool = True, hide: bool = True) -> None:
    """Print text that may hold text from data; everything that commands print goes through here or `console`."""
    click.echo(printable(text, hide=hide), err=err, nl=nl)


def notify(text: str, *, warns: bool = False, once: bool = False) -> None:
    """Print a notice on standard error, with --quiet only one that warns; `once` prints it the first time only."""
    if once:
        say_once(text, warns=warns)
    elif warns or not silent():
        say(text, err=True)


say_once = functools.cache(notify)


def say_tables(tables: Iterable[PlainTable], *, hide: bool = True) -> None:
    """Print tables in the width of the terminal."""
    from refladder.display.terminal import terminal_tables

    out = console(hide=hide)
    for part in terminal_tables(tables, out.width):
        out.print(part)


def say_json(value: object, *, err: bool = False) -> None:
    """Print a value as a line of JSON; with escapes if the stream is not in UTF-8."""
    encoding = (sys.stderr if err else sys.stdout).encoding
    escaped = codecs.lookup(encoding or "utf-8").name != "utf-8"
    click.echo(printable_json(json.dumps(value, ensure_ascii=escaped)), err=err)


class Console:
    """Events of a command, on standard error. With JSON output, `checks` keeps the check of a judge for it."""

    progress = staticmethod(progress)
    notice = staticmethod(notify)

    def __init__(self, *, as_json: bool = False) -> None:
        self.as_json = as_json
        self.checks: list[JudgeCheck] = []

    def checked(self, checks: Sequence[JudgeCheck]) -> None:
        """Print the check of a judge."""
        self.checks = list(checks)
        if not self.as_json:
            say_checks(checks)
