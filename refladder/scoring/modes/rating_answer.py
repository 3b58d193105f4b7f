"""Read the answer of a judge that gives each rating from 1 to 5 a percentage: `1: 5`, one line a rating.

Only the answer is read, never the prompt. An answer without one complete block of five lines is unparsed, and the
reader gives the reason.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from refladder.backends.labels import without_thoughts
from refladder.records import RATINGS
from refladder.scoring.modes.stated_answer import MARKUP, SEPARATOR

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# The percentages of a judge that rounds them add to nearly 100.
_LEAST_SUM, _GREATEST_SUM = 90.0, 110.0
# Digits of the sum: decimals such as 29.9 have no exact binary form.
_DIGITS = 6
# Ends of lines, braces of JSON, and the comma or semicolon between entries that share a line.
_LINES = re.compile(rf"\r?\n|[{{}}]|[,;][ \t]*(?=\d+{SEPARATOR})")
# The number of a list, `1. 20%` or `1) 20%`, is no rating.
_ENTRY = re.compile(
    rf"[\s>#•+(|-]*(?:rating[ \t]+)?(?P<key>\d+)(?!\)\s*\d){SEPARATOR}\s*(?P<number>\d+(?:\.\d+)?|\.\d+)"
    r"\s*(?:%|percent|per cent)?[\s,;.|)]*",
    re.IGNORECASE,
)
# A line of a table that separates its head, or holds nothing.
_EMPTY = re.compile(r"[\s|:,;-]*")
# The number or the mark of a list before the name of a criterion, and what may follow the name.
_BEFORE_NAME = re.compile(r"^(?:\d+[.)]\s+|[\s#>•+,;-]+)*")
_AFTER_NAME = ":- \t"


@dataclass(slots=True)
class _Block:
    """Consecutive lines of ratings; `heading` is the line of text above them."""

    heading: str = ""
    entries: list[tuple[str, float]] = field(default_factory=list)

    @property
    def keys(self) -> list[str]:
        return [key for key, _ in self.entries]

    @property
    def is_complete(self) -> bool:
        return sorted(self.keys) == list(RATINGS)


def stated_ratings(answer: str, *, ended: bool = True) -> list[float] | str:
    """Return the probability of each rating, or the reason why they cannot be read.

    Args:
        answer: the whole answer.
        ended: whether the answer ended by itself. Else its last line may be incomplete, and is not read.
    """
    return _ratings_in(_blocks(answer, ended=ended), ended=ended)


def stated_ratings_of(
    answer: str, names: Sequence[str], *, ended: bool = True
) -> Mapping[str, list[float] | str]:
    """Return what `stated_ratings` finds below the name of each criterion; other criteria in the answer are ignored.

    The description of a criterion may follow its name, as in the prompt.
    """
    blocks = _blocks(answer, ended=ended)
    folded = {name: _folded(name) for name in names}
    found: dict[str, list[float] | str] = {}
    for name, key in folded.items():
        below = []
        for block in blocks:
            heading = block.heading
            described = heading.startswith(f"{key}: ") and heading not in folded.values()
            if heading == key or described:
                below.append(block)
        found[name] = f"no line with the name {name!r} above five lines of percentages"
        if below:
            found[name] = _ratings_in(below, ended=ended)
    return found


def shares_of(percent: Sequence[float]) -> list[float] | None:
    """Return percentages as shares that add to 1; None if their sum is not nearly 100."""
    total = sum(percent)
    if not _LEAST_SUM <= round(total, _DIGITS) <= _GREATEST_SUM:
        return None
    return [number / total for number in percent]


def _folded(name: str) -> str:
    """Return the name of a criterion as names are compared: without markup, list number and case."""
    plain = _BEFORE_NAME.sub("", MARKUP.sub("", name)).strip().strip(_AFTER_NAME)
    return " ".join(plain.split()).casefold()


def _blocks(answer: str, *, ended: bool) -> list[_Block]:
    text = without_thoughts(answer if ended else answer[: answer.rfind("\n") + 1])
    blocks = [_Block()]
    for line in _LINES.split(MARKUP.sub("", text)):
        entry = _ENTRY.fullmatch(line)
        if entry is not None:
            # A key that repeats begins another block.
            if entry["key"] in blocks[-1].keys:
                blocks.append(_Block())
            blocks[-1].entries.append((entry["key"], float(entry["number"])))
        elif not _EMPTY.fullmatch(line):
            blocks.append(_Block(heading=_folded(line)))
    return [block for block in blocks if block.entries]


def _ratings_in(blocks: Sequence[_Block], *, ended: bool) -> list[float] | str:
    complete = [block for block in blocks if block.is_complete]
    if not complete:
        reason = _why_incomplete(blocks)
        return reason if ended else f"{reason} (the answer was cut at the limit)"
    percent = [value for _, value in sorted(complete[-1].entries)]
    shares = shares_of(percent)
    if shares is None:
        return f"percentages that add to {sum(percent):g}, not to 100"
    return shares


def _why_incomplete(blocks: Sequence[_Block]) -> str:
    if not blocks:
        return "no lines with a percentage for each rating from 1 to 5"
    keys = blocks[-1].keys
    further = [key for key in keys if key not in RATINGS]
    missing = [rating for rating in RATINGS if rating not in keys]
    if further:
        return f"a line for {further[0]}, and ratings are 1 to 5"
    return f"no line for {', '.join(missing)}"
