"""The option for judgments that were recorded elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from refladder.cli import console
from refladder.errors import UsageError

if TYPE_CHECKING:
    from refladder.files.ladder_sets import LadderSet
    from refladder.scoring.recorded import Recorded

JUDGMENTS_FROM = click.option(
    "--judgments-from",
    metavar="FILE",
    help="Table of judgments that another program made, instead of a judge. No model is asked; a comparison that is "
    "not in the file is unparsed.",
)
# Options that say how a judge is asked.
_ASKING = ("judge", "judge_option", "answers", "yes_no", "prompts", "writer", "writer_option")


def open_recorded(
    context: click.Context, path: str | None, *, source: str | None, ladders: LadderSet | None = None
) -> Recorded | None:
    """Read the file of `--judgments-from` and report how many judgments it holds; None without the option.

    Args:
        context: of the command.
        path: the option's value.
        source: the table or data of the command, which cannot be standard input too.
        ladders: the ladder set that the judgments must be about, if they must.

    Raises:
        UsageError: an option for asking a judge is given, or both files are standard input.
        DataError: the file is wrong.
    """
    from refladder.jobs.recorded_judgments import check_recorded_ladders  # noqa: PLC0415  --help stays quick
    from refladder.scoring.recorded import read_recorded  # noqa: PLC0415

    if path is None:
        return None
    for option in context.command.params:
        name = str(option.name)
        if name in _ASKING and context.get_parameter_source(name) is not ParameterSource.DEFAULT:
            raise UsageError(
                f"--judgments-from asks no model, and {option.opts[0]} is for asking one; give one of them"
            )
    if path == source == "-":
        raise UsageError("SOURCE and --judgments-from are both standard input; give a file for one of them")
    recorded = read_recorded(path)
    if ladders is not None:
        check_recorded_ladders(recorded, ladders)
    console.say(recorded.notice, err=True)
    return recorded
