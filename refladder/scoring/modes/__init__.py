"""Modes: the ways to ask a judge that `--answers` names. Each is one object, see `mode`."""

from __future__ import annotations

import re

from refladder.errors import UsageError, option
from refladder.scoring.modes.comparisons import Comparisons
from refladder.scoring.modes.mode import Mode
from refladder.scoring.modes.ratings import (
    Anchored,
    Rating,
    StatedAnchored,
    StatedRating,
    Together,
)
from refladder.scoring.modes.stated import Stated

__all__ = ["Mode", "mode_of"]

_RATINGS: dict[str, type[Rating]] = {
    "rating": Rating,
    "rating:stated": StatedRating,
    "rating:together": Together,
    "anchored": Anchored,
    "anchored:stated": StatedAnchored,
}
_STATED = re.compile(r"stated(?::([1-9]\d{0,2}))?", re.ASCII)
_NUMBER = re.compile(r"\d{1,9}", re.ASCII)


def mode_of(answers: int | str) -> Mode:
    """Return the mode of a value of `--answers`, or of `Run.mode`; raise UsageError if there is none."""
    if isinstance(answers, str) and _NUMBER.fullmatch(answers):
        answers = int(answers)
    if isinstance(answers, int):
        if answers < 0:
            raise UsageError(f"{option('answers')}={answers}: must be 0 or more")
        return Comparisons(answers)
    if stated := _STATED.fullmatch(answers):
        return Stated(answers, int(stated[1] or 1))
    if answers in _RATINGS:
        return _RATINGS[answers](answers)
    raise UsageError(
        f"{option('answers')} {answers!r}: use a number of 0 or more, stated, stated:K, {', '.join(_RATINGS)}"
    )
