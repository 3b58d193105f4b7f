"""Written answers of a judge: asked for whole groups of questions, and kept if the judge fails."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, TypeVar

from refladder.backends import whole
from refladder.errors import BackendError
from refladder.thoughts import CUT, LONGEST, without_thoughts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from refladder.records import Completion, Judgment, Prompt, Sampling
    from refladder.scoring.asker import Asker
    from refladder.scoring.modes.mode import Group

T = TypeVar("T")

# Characters of an unparsed answer in a note.
_SHOWN = 60


def ask_whole(
    asker: Asker, groups: Sequence[Group], judge: Callable[[list[Group]], list[list[Judgment]]]
) -> list[Judgment]:
    """Return a judgment for every question, in order; a group of which the log holds only a part is judged again."""
    questions = list(itertools.chain(*groups))
    log = asker.log
    new = asker.unanswered(questions)
    missing = {id(question) for question in new}
    asked = [group for group in groups if not missing.isdisjoint(map(id, group))]
    judged = {}
    for group, of_group in zip(asked, judge(asked), strict=True):
        for question, judgment in zip(group, of_group, strict=True):
            judged[id(question)] = judgment
    log.append([judged[id(question)] for question in new])
    return log.answers(questions)


def written_judgments(
    asker: Asker,
    prompts: Sequence[Prompt],
    sampling: Sampling,
    *,
    read: Callable[[int, Completion], T],
    judgments: Callable[[Mapping[int, tuple[Completion, T]]], list[list[Judgment]]],
    unparsed: Callable[[T], bool],
) -> list[list[Judgment]]:
    """Let the judge write, and return the judgments of its answers; if it fails, the log keeps those so far.

    `read` reads the answer to the prompt at a position, once. `judgments` takes answers, and what was read in them, by
    position, and returns those of each group with all its answers. `unparsed` says whether an answer cannot be read; the
    response store forgets such answers, so that the next run asks again.
    """
    answers: dict[int, Completion] = {}

    def found() -> dict[int, tuple[Completion, T]]:
        return {number: (answer, read(number, answer)) for number, answer in answers.items()}

    try:
        answers.update(asker.backend.write_each(prompts, sampling))
    except (BackendError, KeyboardInterrupt):
        asker.log.keep(list(itertools.chain(*judgments(found()))))
        raise
    whole(asker.backend, prompts, list(answers.values()))
    readings = found()
    again = [prompts[number] for number, (_, reading) in readings.items() if unparsed(reading)]
    asker.backend.forget(again, sampling)
    return judgments(readings)


def parsed_answer(answer: Completion, read: Callable[[str, bool], T | str]) -> T | str:
    """Return what `read` finds in an answer, or the reason why it is unparsed; it gets whether the answer ended by itself."""
    place = f" ({answer.place})" if answer.place else ""
    if answer.finish == "error":
        return (answer.note or "no answer") + place
    said = without_thoughts(answer.text)
    is_long = len(said) > LONGEST
    found = read(said[:LONGEST], answer.finish != "length" and not is_long)
    if isinstance(found, str):
        return f"{found}; the answer is {answer.text[:_SHOWN]!r}{place}"
    return found


def long_note(answer: Completion) -> str | None:
    """Return a note where only the beginning of an answer was read."""
    is_long = len(answer.text) > LONGEST and len(without_thoughts(answer.text)) > LONGEST
    return CUT if is_long else None
