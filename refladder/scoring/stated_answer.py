"""Read the answer of a judge that states a probability for each letter: `A: 85`, one line a letter.

Only the answer is read, never the prompt. What is not certain is no number: the reader says why.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from refladder.backends.labels import without_thoughts

if TYPE_CHECKING:
    from collections.abc import Sequence

HIGHEST = 100.0
_MARKUP = re.compile(r"[*_`\"'“”\[\]]")
_SEPARATOR = r"(?:[ \t]*(?:->|=>|→|[:=)|])|[ \t]+[-–—](?=[ \t]))+"  # noqa: RUF001
# Ends of lines, braces of JSON, and the comma or semicolon between entries that share a line.
_LINES = re.compile(rf"\r?\n|[{{}}]|[,;][ \t]*(?=\(?[A-Z]{_SEPARATOR})", re.IGNORECASE)
_ENTRY = re.compile(
    r"[\s>#•+(|-]*(?:\d+[.)][ \t]+)?(?:(?:the[ \t]+)?reference[ \t]+(?:[a-z]+[ \t]+)?)?"
    rf"(?P<letter>[A-Z])(?P<separator>{_SEPARATOR})(?P<rest>.*\d.*)",
    re.IGNORECASE,
)
# A number, perhaps with its unit; what follows it holds no other digit.
_NUMBER = re.compile(
    r"\s*(?P<number>[-−–+]?\d+(?:\.\d+)?)(?P<unit>\s*(?:%|percent\b|per cent\b|/\s*100\b|out of 100\b))?(?!\w|\.\d)\D*",  # noqa: RUF001
    re.IGNORECASE,
)
_SHOWN = 30  # characters of an unparsed line in a reason


class _Entry(NamedTuple):
    """A line about a letter. `value` is None where it holds no single number from 0 to 100, and `fault` says why."""

    letter: str
    value: float | None
    fault: str = ""
    is_share: bool = False  # written with a decimal point, without a percent sign, and at most 1


def stated_numbers(answer: str, letters: Sequence[str], *, ended: bool = True) -> list[float] | str:
    """Return the number of each letter, from 0 to 100, or the reason why they cannot be read.

    Thoughts, markup, percent signs and other text around the lines are skipped; an object of JSON is read like lines.
    If the last lines name each letter once and in order, and stand apart from earlier lines, those do not count.

    Args:
        answer: the whole answer.
        letters: capital letters, in the order in which the references were shown.
        ended: whether the answer ended by itself. Else its last line may be incomplete, and is not read.
    """
    text = without_thoughts(answer if ended else answer[: answer.rfind("\n") + 1])
    lines = enumerate(_LINES.split(_MARKUP.sub("", text)))
    entries = [(place, entry) for place, line in lines if (entry := _entry_of(line, letters))]
    numbers = _numbers(_last_block(entries, letters), letters)
    return (
        f"{numbers} (the answer was cut at the limit)"
        if isinstance(numbers, str) and not ended
        else numbers
    )


def _last_block(entries: Sequence[tuple[int, _Entry]], letters: Sequence[str]) -> list[_Entry]:
    """The last entries, one for each letter in order, if another line or a whole block is before them; else all."""
    before, last = entries[: -len(letters)], entries[-len(letters) :]
    is_block = [entry.letter for _, entry in last] == list(letters)
    if is_block and before:
        is_block = last[0][0] > before[-1][0] + 1 or before[-1][1].letter == letters[-1]
    return [entry for _, entry in (last if is_block else entries)]


def _numbers(entries: Sequence[_Entry], letters: Sequence[str]) -> list[float] | str:
    found: dict[str, float] = {}
    for letter, value, fault, _ in entries:
        if value is None:
            return fault
        if found.setdefault(letter, value) != value:
            return f"{letter} has two numbers, {found[letter]:g} and {value:g}"
    missing = [letter for letter in letters if letter not in found]
    if missing:
        return f"no number for {', '.join(missing)}"
    if all(value <= 1 for value in found.values()) and any(entry.is_share for entry in entries):
        return "shares of 1 and no numbers from 0 to 100"
    return [found[letter] for letter in letters]


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
    if not 0 <= value <= HIGHEST:
        return _Entry(letter, None, f"{'above 100' if value > 0 else 'below 0'} in {shown}")
    return _Entry(
        letter, value, is_share=value <= 1 and "." in number["number"] and not number["unit"]
    )
