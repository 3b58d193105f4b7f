"""Judgments that were recorded elsewhere, in the place of a judge."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from refladder.errors import UsageError, option

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from refladder.files.ladder_sets import LadderSet
    from refladder.scoring.recorded import Recorded

JUDGMENTS_FROM = click.option(
    "--judgments-from",
    metavar="FILE",
    multiple=True,
    help="Table of judgments that another program made, or a judgments file, instead of a judge. No model is asked; "
    "comparisons missing from it are unparsed. Repeatable: several files count as one.",
)
# Parameters that say how a judge is asked, of commands and of calls.
_ASKING = (
    *("judge", "judge_option", "judge_options", "answers", "yes_no", "prompts"),
    *("writer", "settings.prompts"),
)


def asking_options(context: click.Context) -> Iterator[str]:
    """The options of a command that the user gave and that say how a judge is asked."""
    for each in context.command.params:
        name = str(each.name)
        if name in _ASKING and context.get_parameter_source(name) is not ParameterSource.DEFAULT:
            yield each.opts[0]


def asking_arguments(given: Mapping[str, object]) -> Iterator[str]:
    """The arguments of a call that are given and that say how a judge is asked."""
    for name in _ASKING:
        if given.get(name) not in (None, 0, False, "builtin") and given[name] != {}:
            yield name


def open_recorded(
    given: str | Path | Sequence[str | Path] | None,
    asking: Iterable[str],
    tell: Callable[[str], object],
    *,
    source: str | None = None,
    ladders: LadderSet | None = None,
) -> Recorded | None:
    """Read files of judgments, in place of a judge, and say how many they hold; None without a path."""
    from refladder.jobs.recorded_judgments import check_recorded_ladders
    from refladder.scoring.recorded import read_recorded

    paths = [str(path) for path in ([given] if isinstance(given, str | Path) else given or ())]
    if not paths:
        return None
    for name in asking:
        raise UsageError(
            f"{option('judgments-from')} asks no model, and {name} is for asking one; give one of them"
        )
    if source == "-" in paths:
        raise UsageError(
            "SOURCE and --judgments-from are both standard input; give a file for one of them"
        )
    recorded = read_recorded(*dict.fromkeys(paths))
    if ladders is not None:
        check_recorded_ladders(recorded, ladders)
    tell(recorded.notice)
    return recorded
