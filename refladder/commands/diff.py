"""refladder diff: the command and the call."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from refladder.commands import console
from refladder.commands.options import Command, options
from refladder.files.ladder_sets import LadderSet
from refladder.jobs.diff import Changes, Difference, compare_sets

if TYPE_CHECKING:
    from pathlib import Path


CHANGED = 3  # exit code
_SHOWN = 20  # most changes of one kind that are printed


@click.command(cls=Command, short_help="Compare two ladder sets, or two revisions of one.")
@options("first_set", "second_set", "as_json")
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
        _print(difference)
    return 0 if difference.same else CHANGED


def _print(difference: Difference) -> None:
    for sign, name, digest in zip("-+", difference.names, difference.digests, strict=True):
        console.say(f"{sign} {name} (digest {digest})")
    for kind in ("ladders", "recipes", "contexts", "dimensions"):
        if kind == "contexts" and difference.uncompared:
            console.say(
                f"contexts: {difference.uncompared:,} not compared, as one set has neither texts nor digests"
            )
        else:
            _print_kind(kind, getattr(difference, kind))
    if difference.reordered:
        console.say(
            "The ladders are the same in another order: scores are comparable, but signatures differ."
        )
    elif difference.same:
        console.say("The sets are the same scale.")
    else:
        console.say("The sets are different scales: do not compare their scores.")


def _print_kind(kind: str, changes: Changes) -> None:
    counts = {
        "changed": len(changes.changed),
        "removed": len(changes.removed),
        "added": len(changes.added),
    }
    parts = [
        f"{changes.same:,} the same",
        *(f"{count:,} {word}" for word, count in counts.items() if count),
    ]
    console.say(f"{kind}: {', '.join(parts)}")
    lines = [
        *(f"~ {name}: {', '.join(parts)}" for name, parts in changes.changed.items()),
        *(f"- {name}" for name in changes.removed),
        *(f"+ {name}" for name in changes.added),
    ]
    for line in lines[:_SHOWN]:
        console.say(f"  {line}")
    if len(lines) > _SHOWN:
        console.say(f"  and {len(lines) - _SHOWN:,} more; --json lists all")


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
