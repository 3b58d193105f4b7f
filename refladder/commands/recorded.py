"""Judgments that were recorded elsewhere, in the place of a judge."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from refladder.errors import UsageError, option

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from refladder.files.ladder_sets import LadderSet
    from refladder.scoring.recorded import Recorded

JUDGMENTS_FROM = click.option(
    "--judgments-from",
    metavar="FILE",
    help="Table of judgments that another program made, instead of a judge. No model is asked; comparisons missing "
    "from the file are unparsed.",
)
# Parameters that say how a judge is asked, of commands and of calls.
_ASKING = (
    *("judge", "judge_option", "judge_options", "answers", "yes_no", "prompts"),
    *("writer", "writer_option", "writer_options", "settings.prompts"),
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
    path: object,
    asking: Iterable[str],
    tell: Callable[[str], object],
    *,
    source: str | None = None,
    ladders: LadderSet | None = None,
) -> Recorded | None:
    """Read a file of judgments, in place of a judge, and say how many it holds; None without a path."""
    from refladder.jobs.recorded_judgments import check_recorded_ladders
    from refladder.scoring.recorded import read_recorded

    if path is None:
        return None
    for name in asking:
        raise UsageError(f"{option('judgments-from')} asks no model, and {name} is for asking one; give one of them")
    if path == source == "-":
        raise UsageError("SOURCE and --judgments-from are both standard input; give a file for one of them")
    recorded = read_recorded(str(path))
    if ladders is not None:
        check_recorded_ladders(recorded, ladders)
    tell(recorded.notice)
    return recorded
