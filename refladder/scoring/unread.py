"""The end of a run whose answers cannot be read, before the rest of the table is paid for."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from refladder.errors import JudgeRefusedError, option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from refladder.records import Judgment

# Rows without one readable answer after which a run ends.
MOST_ROWS = 16
# Begins an answer in a note.
THE_ANSWER = "; the answer is "
# Answers that are shown.
_SHOWN = 2
# What notes have in common, the likely cause, and what to do; the first that fits the first note.
_CAUSES = (
    (
        "thinking|after a thought",
        "a thought takes the place of the answer: switch thinking off with {extra}, or raise {tokens}",
    ),
    (
        r"content filter|\brefusal",
        "a filter or the model refuses the questions: ask another model",
    ),
    (r"\bcut\b", "the answers end at the limit of tokens: raise {tokens}"),
    (
        "empty answer|no choices|ended its answer at once",
        "the model says nothing: use an instruct model with its chat template, or read the server's log",
    ),
    (
        "request failed|the server answered|log-probabilit",
        "the server does not take such requests: read its log, or use {answers} rating:stated",
    ),
)
_OTHER = (
    "the answers have another form than the question asks for: use an instruct model with its chat template, or another "
    "mode with {answers}"
)


def unread_error(judge: str, asked: str, unread: Sequence[Judgment]) -> JudgeRefusedError:
    """Return the error that ends a run: `asked` says what was, and `unread` are judgments without a reading."""
    notes = list(dict.fromkeys(judgment.note or "unparsed" for judgment in unread))
    words = {
        "extra": f"{option('judge-option')} extra=JSON",
        "tokens": f"{option('judge-option')} answer-tokens=N",
        "answers": option("answers"),
    }
    cause = next((text for form, text in _CAUSES if re.search(form, notes[0])), _OTHER)
    if "custom_id" in notes[0]:
        cause += "; or correct the lines of the file"
    shown = "; ".join(notes[:_SHOWN])
    again = "the same command asks these questions again"
    if any("label mass" in note for note in notes):
        again = "delete them to ask again"
    return JudgeRefusedError(
        f"{judge}: no answer of {asked} could be read, so nothing more is asked. {shown}. The likely cause: "
        f"{cause.format(**words)}. Judgments so far are kept; {again}"
    )
