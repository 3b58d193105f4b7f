"""Read the answer of a judge that states a probability for each letter: `A: 85`, one line a letter.

Only the answer is read, never the prompt. An uncertain number is no number: the reader gives the reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from refladder.backends.attempts import Form, attempts, numbers_in

if TYPE_CHECKING:
    from collections.abc import Sequence

HIGHEST = 100.0


def stated_numbers(answer: str, letters: Sequence[str], *, ended: bool = True) -> list[float] | str:
    """Return the number of each letter, from 0 to 100, or the reason why they cannot be read.

    Thoughts, markup, percent signs and other text around the lines are skipped; an object of JSON is read like lines.
    The last attempt counts, or nothing does.

    Args:
        answer: the whole answer.
        letters: capital letters, in the order in which the references were shown.
        ended: whether the answer ended by itself. Else its last line may be incomplete, and is not read.
    """
    form = Form(
        keys=letters,
        key="[A-Z]",
        named=r"(?:(?:the[ \t]+)?reference[ \t]+(?:[a-z]+[ \t]+)?)?",
        stranger="{} names no reference",
        highest=HIGHEST,
        apart=False,
        weight=2,
    )
    numbers = numbers_in(attempts(answer, form, ended=ended), ended=ended)
    if not isinstance(numbers, str):
        missing = [letter for letter in letters if letter not in numbers]
        if not missing:
            return [numbers[letter] for letter in letters]
        numbers = f"no number for {', '.join(missing)}"
    return numbers if ended else f"{numbers} (the answer was cut at the limit)"
