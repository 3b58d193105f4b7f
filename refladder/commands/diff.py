"""refladder diff: the command and the call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from refladder.commands import console
from refladder.commands.options import subcommand
from refladder.files.ladder_sets import LadderSet
from refladder.jobs.diff import Difference, compare_sets

if TYPE_CHECKING:
    from pathlib import Path


# Exit code: the sets differ.
CHANGED = 3


@subcommand(
    "Compare two ladder sets, or two revisions of one.", "first_set", "second_set", "as_json"
)
def command(*, first: str, second: str, as_json: bool) -> int:
    """Print which ladders, recipes, contexts and dimensions differ between two ladder sets.

    A set is a shipped name, a folder, or `hub:ORG/NAME@REVISION`. Scores are comparable only if nothing changed.

    Exit code 3: the sets differ.

    Examples:
        refladder diff before after
        refladder diff my-ladders hub:ORG/NAME@v1
    """
    difference = compare_sets(first, second)
    if as_json:
        console.say_json(difference.to_json())
    else:
        for line in difference.lines():
            console.say(line)
    return 0 if difference.same else CHANGED


@command.call
def diff(first: str | Path | LadderSet, second: str | Path | LadderSet) -> Difference:
    """Compare two ladder sets, or two revisions of one, as `refladder diff`.

    Args:
        first: a shipped name, a folder, `hub:ORG/NAME@REVISION`, or a set from `load_ladders`.
        second: likewise.

    Returns:
        What changed. Scores on the two sets are comparable only where its `same` is True.

    Raises:
        UnknownNameError, UsageError, DataError: a set cannot be opened, see `load_ladders`.
    """
    before, after = (each if isinstance(each, LadderSet) else str(each) for each in (first, second))
    return compare_sets(before, after)
