"""Read the answer of a judge that states a probability for each letter: `A: 85`, one line a letter.

Only the answer is read, never the prompt. An uncertain number is no number: the reader gives the reason.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, NamedTuple

from refladder.backends.labels import without_thoughts

if TYPE_CHECKING:
    from collections.abc import Sequence

HIGHEST = 100.0
MARKUP = re.compile(r"[*_`\"'“”\[\]]")
SEPARATOR = r"(?:[ \t]*(?:->|=>|→|[:=)|])|[ \t]+[-–—](?=[ \t]))+"  # noqa: RUF001
# Ends of lines, braces of JSON, and the comma or semicolon between entries that share a line.
_LINES = re.compile(rf"\r?\n|[{{}}]|[,;][ \t]*(?=\(?[A-Z]{SEPARATOR})", re.IGNORECASE)
_ENTRY = re.compile(
    r"[\s>#•+(|-]*(?:\d+[.)][ \t]+)?(?:(?:the[ \t]+)?reference[ \t]+(?:[a-z]+[ \t]+)?)?"
    rf"(?P<letter>[A-Z])(?P<separator>{SEPARATOR})(?P<rest>.*\d.*)",
    re.IGNORECASE,
)
# A number, perhaps with its unit; what follows it holds no other digit.
_NUMBER = re.compile(
    r"\s*(?P<number>[-−–+]?\d+(?:\.\d+)?)(?P<unit>\s*(?:%|percent\b|per cent\b|/\s*100\b|out of 100\b))?(?!\w|\.\d)\D*",  # noqa: RUF001
    re.IGNORECASE,
)
# Characters of an unparsed line in a reason.
_SHOWN = 30


class _Entry(NamedTuple):
    """A line about a letter. `value` is None if it holds no single number from 0 to 100, and `fault` has the reason.

    `is_share`: the number is at most 1 and has a decimal point and no percent sign.
    """

    letter: str
    value: float | None
    fault: str = ""
    is_share: bool = False


def stated_numbers(answer: str, letters: Sequence[str], *, ended: bool = True) -> list[float] | str:
    """Return the number of each letter, from 0 to 100, or the reason why they cannot be read.

    Thoughts, markup, percent signs and other text around the lines are skipped; an object of JSON is read like lines.
    If the last lines name each letter once and in order, and are apart from earlier lines, only they count.

    Args:
        answer: the whole answer.
        letters: capital letters, in the order in which the references were shown.
        ended: whether the answer ended by itself. Else its last line may be incomplete, and is not read.
    """
    text = without_thoughts(answer if ended else answer[: answer.rfind("\n") + 1])
    entries = []
    for number, line in enumerate(_LINES.split(MARKUP.sub("", text))):
        entry = _entry_of(line, letters)
        if entry is not None:
            entries.append((number, entry))
    numbers = _numbers(_last_block(entries, letters), letters)
    if isinstance(numbers, str) and not ended:
        return f"{numbers} (the answer was cut at the limit)"
    return numbers


def _last_block(entries: Sequence[tuple[int, _Entry]], letters: Sequence[str]) -> list[_Entry]:
    """Return the last entries, one for each letter in order, if a wider gap or a block precedes them; otherwise all."""
    before = entries[: -len(letters)]
    last = entries[-len(letters) :]
    is_block = [entry.letter for _, entry in last] == list(letters)
    if is_block and before:
        lines = [number for number, _ in entries[-len(letters) - 1 :]]
        gap, *within = [after - line for line, after in itertools.pairwise(lines)]
        is_block = gap > max(within, default=1) or before[-1][1].letter == letters[-1]
    chosen = last if is_block else entries
    return [entry for _, entry in chosen]


def _numbers(entries: Sequence[_Entry], letters: Sequence[str]) -> list[float] | str:
    numbers: dict[str, float] = {}
    for letter, value, fault, _ in entries:
        if value is None:
            return fault
        if numbers.setdefault(letter, value) != value:
            return f"{letter} has two numbers, {numbers[letter]:g} and {value:g}"
    missing = [letter for letter in letters if letter not in numbers]
    if missing:
        return f"no number for {', '.join(missing)}"
    if max(numbers.values()) <= 1 and any(entry.is_share for entry in entries):
        return "shares of 1 and no numbers from 0 to 100"
    return [numbers[letter] for letter in letters]


def _entry_of(line: str, letters: Sequence[str]) -> _Entry | None:
    parts = _ENTRY.fullmatch(line.strip())
    if parts is None:
        return None
    letter = parts["letter"].upper()
    if letter not in letters:
        return _Entry(letter, None, f"{letter} names no reference")
    shown = repr(line.strip()[:_SHOWN])
    number = _NUMBER.fullmatch(parts["rest"])
    if number is None:
        return _Entry(letter, None, f"no single number in {shown}")
    value = float(number["number"].replace("−", "-").replace("–", "-"))  # noqa: RUF001
    if value < 0:
        return _Entry(letter, None, f"below 0 in {shown}")
    if value > HIGHEST:
        return _Entry(letter, None, f"above 100 in {shown}")
    is_share = value <= 1 and "." in number["number"] and not number["unit"]
    return _Entry(letter, value, is_share=is_share)
