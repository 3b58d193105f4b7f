"""Modes: the ways to ask a judge that `--answers` names. Each is one object, see `mode`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast

from refladder.errors import UsageError, option
from refladder.registry import Entry, find, names, plugged_in
from refladder.scoring.modes.comparisons import Comparisons
from refladder.scoring.modes.mode import Mode
from refladder.scoring.modes.stated import Stated

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["MODES", "Mode", "mode_of"]

_COMPARISONS = "refladder.scoring.modes.comparisons:Comparisons"
_STATED = "refladder.scoring.modes.stated:Stated"
_RATINGS = "refladder.scoring.modes.ratings"
# A line of this table, and an entry point of the group `refladder.mode`, is a class that is called without arguments.
MODES = {
    "0": Entry(_COMPARISONS, "better or worse than each rung, by the probabilities of the labels"),
    "N": Entry(_COMPARISONS, "the same, by N sampled answers"),
    "stated": Entry(_STATED, "in percent how probably the text beats each rung, all in one prompt"),
    "stated:K": Entry(_STATED, "the same, with the rungs in K orders"),
    "rating": Entry(f"{_RATINGS}:Rating", "1 to 5 for the text alone, by label probabilities"),
    "rating:stated": Entry(f"{_RATINGS}:StatedRating", "a percentage for each of 1 to 5"),
    "rating:together": Entry(f"{_RATINGS}:Together", "the same, all criteria in one answer"),
    "anchored": Entry(f"{_RATINGS}:Anchored", "1 to 5 after the rungs as graded examples"),
    "anchored:stated": Entry(f"{_RATINGS}:StatedAnchored", "the same, as percentages"),
}
_NUMBER = re.compile(r"\d{1,9}", re.ASCII)
_ORDERS = re.compile(r"stated(?::([1-9]\d{0,2}))?", re.ASCII)


def mode_of(answers: int | str) -> Mode:
    """Return the mode of a value of `--answers`, or of `Run.answers`; raise UsageError if there is none."""
    name = str(answers)
    if isinstance(answers, int) and answers < 0:
        raise UsageError(f"{option('answers')}={answers}: must be 0 or more")
    if _NUMBER.fullmatch(name):
        return Comparisons(int(name))
    if orders := _ORDERS.fullmatch(name):
        return Stated(int(orders[1] or 1))
    known = list(dict.fromkeys([*MODES, *names("mode", MODES)]))[2:]
    if name not in known or name == "stated:K":
        raise UsageError(
            f"{option('answers')} {answers!r}: use a number of 0 or more, {', '.join(known)}"
        )
    made = find("mode", name, MODES)
    return made() if name in MODES else _plugged_in(name, made)


def _plugged_in(name: str, made: Callable[[], Any]) -> Mode:
    """Return a mode of another package, whose name is in every error that it raises."""
    with plugged_in("mode", name):
        mode = made()
    is_mode = isinstance(mode, Mode)
    if not is_mode or mode.name != name:
        made_it = f"a mode called {mode.name!r}" if is_mode else "no mode"
        raise UsageError(
            f"mode {name!r}: its entry point makes {made_it}; register a subclass of refladder.scoring.modes.Mode whose "
            f"name is {name!r}"
        )
    return cast("Mode", _PlugIn(mode))


class _PlugIn:
    def __init__(self, mode: Mode) -> None:
        self._mode = mode

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._mode, name)
        if not callable(member):
            return member

        def call(*values: Any, **named: Any) -> Any:
            with plugged_in("mode", self._mode.name):
                return member(*values, **named)

        return call
