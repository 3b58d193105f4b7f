"""Written answers of a judge: asked for whole groups of questions, and kept if the judge fails."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, TypeVar

from refladder.backends import whole
from refladder.records import Context, Output
from refladder.scoring.question import drawn_ladders
from refladder.scoring.unread import THE_ANSWER
from refladder.thoughts import CUT, LONGEST, without_thoughts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from refladder.backends import Backend
    from refladder.files.ladder_sets import LadderSet
    from refladder.prompts import Template
    from refladder.records import Comparison, Completion, Dimension, Judgment, Prompt, Sampling
    from refladder.scoring.asker import Asker
    from refladder.scoring.modes.mode import Group, Mode

T = TypeVar("T")

# What is asked about first, where the set has no ladder.
_SOME_TEXT = "Thank you for your question. The shop opens at nine."
# Characters of an unparsed answer in a note.
_SHOWN = 120


def try_out(
    judge: Backend,
    mode: Mode,
    template: Template,
    ladders: LadderSet,
    dimensions: Sequence[Dimension],
) -> None:
    """Let a judge that writes find out how it is asked, by the first question of a mode about rungs."""
    if not mode.writes or judge.recorded is not None:
        return
    dimension, groups = dimensions[0], []
    for context, ladder in drawn_ladders(ladders, dimension)[:1]:
        groups = mode.check_questions(ladders, context, dimension, ladder, dimensions)
    if not groups:
        # A set of a benchmark lacks the texts of its contexts, and the question is only for the form of the answer.
        with_ladder = (context_id for context_id, name in ladders.ladders if name == dimension.name)
        context = Context(id=next(with_ladder, ""), task=ladders.task, text="")
        output = Output(id="", context_id="", system="", text=_SOME_TEXT)
        groups = mode.groups(output, context, [dimension], ladders, orders=1)
    judge.try_out(mode.first_prompt(template, groups[0]))


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
    readings: dict[int, tuple[Completion, T]] = {}
    kept: set[tuple[str, Comparison]] = set()

    def read_new() -> None:
        for number in answers.keys() - readings.keys():
            readings[number] = answers[number], read(number, answers[number])

    def new_judgments() -> list[Judgment]:
        read_new()
        every = itertools.chain(*judgments(readings))
        new = [each for each in every if (each.key, each.comparison) not in kept]
        kept.update((each.key, each.comparison) for each in new)
        return new

    with asker.log.keeping(new_judgments) as each_kept:
        answers.update(each_kept(asker.backend.write_each(prompts, sampling)))
    whole(asker.backend, prompts, list(answers.values()))
    read_new()
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
        return f"{found}{THE_ANSWER}{answer.text[:_SHOWN]!r}{place}"
    return found


def long_note(answer: Completion) -> str | None:
    """Return a note where only the beginning of an answer was read."""
    is_long = len(answer.text) > LONGEST and len(without_thoughts(answer.text)) > LONGEST
    return CUT if is_long else None
