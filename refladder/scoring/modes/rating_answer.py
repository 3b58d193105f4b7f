"""Read the answer of a judge that gives each rating from 1 to 5 a percentage: `1: 5`, one line a rating.

Only the answer is read, never the prompt. An answer without one complete block of five lines is unparsed, and the
reader gives the reason.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from refladder.backends.attempts import MARKUP, Attempt, Form, attempts, numbers_in
from refladder.records import RATINGS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# The percentages of a judge that rounds them add to nearly 100.
_LEAST_SUM, _GREATEST_SUM = 90.0, 110.0
# Digits of the sum: decimals such as 29.9 have no exact binary form.
_DIGITS = 6
_FORM = Form(
    keys=RATINGS,
    key=r"\d+",
    named=r"(?:rating[ \t]+)?",
    stranger="a line for {}, and ratings are 1 to 5",
    highest=math.inf,
    apart=True,
    weight=1,
)
# The number or the mark of a list before the name of a criterion, and what may follow the name.
_BEFORE_NAME = re.compile(r"^(?:\d+[.)]\s+|[\s#>•+,;|-]+)*")
_AFTER_NAME = ":|- \t"
# Words of a heading that may name a criterion which was not asked.
_MOST_WORDS = 4


def stated_ratings(answer: str, *, ended: bool = True) -> list[float] | str:
    """Return the probability of each rating, or the reason why they cannot be read.

    Args:
        answer: the whole answer.
        ended: whether the answer ended by itself. Else its last line may be incomplete, and is not read.
    """
    return _ratings_in(attempts(answer, _FORM, ended=ended), ended=ended)


def stated_ratings_of(
    answer: str, names: Sequence[str], *, ended: bool = True
) -> Mapping[str, list[float] | str]:
    """Return what `stated_ratings` finds below the name of each criterion; other criteria in the answer are ignored.

    The description of a criterion may follow its name, as in the prompt.
    """
    folded = {name: _folded(name) for name in names}
    below: dict[str, list[Attempt]] = {name: [] for name in names}
    current: list[str] = []
    given = attempts(answer, _FORM, ended=ended)
    # Where criteria share a line with numbers, nothing says whose numbers follow.
    remarks = {_folded(line.remark) for attempt in given for line in attempt.lines if line.is_loose}
    if any(_names(remark, key) for remark in remarks for key in folded.values()):
        return dict.fromkeys(
            names, "the name of a criterion behind a number, and not on a line of its own"
        )
    for attempt in given:
        heading = _folded(attempt.heading)
        named = [name for name, key in folded.items() if heading == key]
        counts = attempt.announced or bool(attempt.lines) or (bool(named) and not ended)
        if not counts:
            current = named or current
            continue
        read = replace(attempt, announced=True)
        named = named or [name for name, key in folded.items() if heading.startswith(f"{key}: ")]
        if not named:
            # A change of mind, or lines below no name, are about the criteria that they name, or about all.
            named = [name for name, key in folded.items() if _names(heading, key)]
            if not named and attempt.announced and heading:
                named = list(names)
            elif not named and not _is_other_criterion(attempt, ended=ended):
                named = current
            read = replace(read, lines=[])
        for name in named:
            below[name].append(read)
        current = named or current
    found: dict[str, list[float] | str] = {}
    for name in names:
        found[name] = f"no line with the name {name!r} above five lines of percentages"
        if below[name]:
            found[name] = _ratings_in(below[name], ended=ended)
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


def _is_other_criterion(attempt: Attempt, *, ended: bool) -> bool:
    """Return whether complete lines are below a short name, which was not asked."""
    heading = attempt.heading.strip()
    is_name = 0 < len(heading.split()) <= _MOST_WORDS and not heading.endswith((":", "."))
    return is_name and not isinstance(_ratings_in([attempt], ended=ended), str)


def _names(heading: str, key: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(key)}(?!\w)", heading) is not None


def _ratings_in(found: Sequence[Attempt], *, ended: bool) -> list[float] | str:
    numbers = numbers_in(found, ended=ended)
    if not isinstance(numbers, str):
        missing = [rating for rating in RATINGS if rating not in numbers]
        if not missing:
            percent = [numbers[rating] for rating in RATINGS]
            shares = shares_of(percent)
            return shares or f"percentages that add to {sum(percent):g}, not to 100"
        numbers = f"no line for {', '.join(missing)}"
        if len(missing) == len(RATINGS):
            numbers = "no lines with a percentage for each rating from 1 to 5"
    return numbers if ended else f"{numbers} (the answer was cut at the limit)"
