"""Written answers of a judge: asked for whole groups of questions, and kept if the judge fails."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from refladder.backends import whole
from refladder.backends.dry_run import NOT_ASKED
from refladder.backends.labels import EMPTY, UNPARSED
from refladder.backends.protocol import STATED_TOKENS
from refladder.errors import UsageError, plural
from refladder.records import Context, LabelReading, Output, Unwritten, log_of, without_none
from refladder.scoring.modes.mode import Scope
from refladder.scoring.question import drawn_ladders
from refladder.scoring.unread import THE_ANSWER
from refladder.scoring.verdicts import judgment_of
from refladder.thoughts import CUT, LONGEST, without_thoughts

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from refladder.backends import Backend
    from refladder.files.ladder_sets import LadderSet
    from refladder.prompts import Template
    from refladder.records import Comparison, Completion, Dimension, Judgment, Progress
    from refladder.scoring.asker import Asker
    from refladder.scoring.modes import Mode
    from refladder.scoring.modes.mode import Group

    # An answer, and what it says about each question of its group.
    _Read = tuple[Completion, list[Any]]

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
        groups = mode.check_groups(Scope(ladders, dimensions), context, dimension, ladder)
    if not groups:
        # A set of a benchmark lacks the texts of its contexts, and the question is only for the form of the answer.
        with_ladder = (context_id for context_id, name in ladders.ladders if name == dimension.name)
        context = Context(id=next(with_ladder, ""), task=ladders.task, text="")
        output = Output(id="", context_id="", system="", text=_SOME_TEXT)
        groups = mode.groups(output, context, Scope(ladders, [dimension]))
    judge.try_out(mode.prompt(template, groups[0], mode.orders_of(groups[0])[0]))


def ask_groups(
    asker: Asker, groups: Sequence[Group], progress: Progress | None = None
) -> list[Judgment]:
    """Ask as the mode of the run does: return a judgment for every question of every group, in order.

    A written answer is about a whole group, so a group of which the log holds only a part is asked about again.
    """
    questions = list(itertools.chain(*groups))
    if asker.backend.recorded is not None or not asker.log.mode.writes:
        return asker.ask(questions, progress)
    log = asker.log
    new = asker.unanswered(questions)
    missing = {id(question) for question in new}
    asked = [group for group in groups if not missing.isdisjoint(map(id, group))]
    judged = {}
    for group, of_group in zip(asked, _written(asker, asked), strict=True):
        for question, judgment in zip(group, of_group, strict=True):
            judged[id(question)] = judgment
    log.append([judged[id(question)] for question in new])
    return log.answers(questions)


def _written(asker: Asker, groups: Sequence[Group]) -> list[list[Judgment]]:
    """Return the judgments of each group; if the judge fails, the log keeps those of groups with all their answers.

    The response store forgets answers that cannot be read, so that the next run asks again.
    """
    mode, sampling = asker.log.mode, asker.log.run.recipe.sampling
    if sampling is None or not groups:
        return [[] for _ in groups]
    asked = [(group, order) for group in groups for order in mode.orders_of(group)]
    # Prompts that begin alike are next to each other.
    asked.sort(key=lambda each: (*mode.beginning(each[0]), each[1]))
    prompts = [
        asker.marked(mode.prompt(asker.template, group, order), group[0]) for group, order in asked
    ]
    # A number of tokens that the user gave is kept.
    if sampling.max_tokens == STATED_TOKENS:
        sampling = replace(sampling, max_tokens=max(map(mode.answer_tokens, groups)))
    expected = Counter(id(group) for group, _ in asked)
    answers: dict[int, Completion] = {}
    found: dict[int, list[Any]] = {}
    kept: set[tuple[str, Comparison]] = set()

    def judgments() -> list[list[Judgment]]:
        """Return the judgments of each group with all its answers; each answer is read once."""
        read: defaultdict[int, list[_Read]] = defaultdict(list)
        for position in sorted(answers):
            group, order = asked[position]
            if position not in found:
                found[position] = _said(mode, group, order, answers[position])
            read[id(group)].append((answers[position], found[position]))
        whole_ones = [group for group in groups if len(read[id(group)]) == expected[id(group)]]
        return [_judged(asker, group, read[id(group)]) for group in whole_ones]

    def new_judgments() -> list[Judgment]:
        every = itertools.chain(*judgments())
        new = [each for each in every if (each.key, each.comparison) not in kept]
        kept.update((each.key, each.comparison) for each in new)
        return new

    with asker.log.keeping(new_judgments) as each_kept:
        answers.update(each_kept(asker.backend.write_each(prompts, sampling)))
    whole(asker.backend, prompts, list(answers.values()))
    judged = judgments()
    unread = [
        position for position, said in found.items() if any(isinstance(each, str) for each in said)
    ]
    asker.backend.forget([prompts[position] for position in unread], sampling)
    return judged


def _said(mode: Mode, group: Group, order: tuple[int, ...], answer: Completion) -> list[Any]:
    """Return what an answer says about each question, or the reason why it is unparsed."""
    place = f" ({answer.place})" if answer.place else ""
    if answer.finish == "error":
        return [(answer.note or "no answer") + place] * len(group)
    said = without_thoughts(answer.text)
    ended = answer.finish != "length" and len(said) <= LONGEST
    read = mode.read(group, order, said[:LONGEST], ended=ended)
    if isinstance(read, str):
        return [f"{read}{THE_ANSWER}{answer.text[:_SHOWN]!r}{place}"] * len(group)
    if len(read) != len(group):
        raise UsageError(
            f"mode {mode.name!r}: read gave {plural(len(read), 'answer')} for {plural(len(group), 'question')}; give one "
            "for each, or a reason"
        )
    return list(read)


def _judged(asker: Asker, group: Group, answers: Sequence[_Read]) -> list[Judgment]:
    """Return the judgment of each question from the answers in all orders."""
    mode, recipe = asker.log.mode, asker.log.run.recipe.digest
    if any(isinstance(answer.text, Unwritten) for answer, _ in answers):
        return [judgment_of(question, recipe, mode.outcomes, NOT_ASKED) for question in group]
    note = next(filter(None, (_long_note(answer) for answer, _ in answers)), None)
    cut = any(answer.cut for answer, _ in answers)
    judgments = []
    for place, question in enumerate(group):
        said = [found[place] for _, found in answers]
        problems = [each for each in said if isinstance(each, str)]
        values = [None if isinstance(each, str) else each for each in said]
        problem = problems[0] if problems else None
        if problem and mode.orders:
            problem = _counted(problem, len(problems), [answer for answer, _ in answers])
        why = "; ".join(filter(None, (problem, note))) or None
        reading = LabelReading(reason=why, cut=cut)
        if parsed := without_none(values):
            logprobs = tuple(map(log_of, mode.shares(parsed)))
            reading = LabelReading(logprobs=logprobs, cut=cut, exactness="sampled", note=why)
        judgment = judgment_of(question, recipe, mode.outcomes, reading)
        if parsed and mode.orders:
            judgment = replace(judgment, stated=tuple(values))
        judgments.append(judgment)
    return judgments


def _counted(problem: str, unread: int, answers: Sequence[Completion]) -> str:
    """Say how many of the answers in all orders cannot be read, and why the first cannot."""
    errors = [answer.note for answer in answers if answer.finish == "error"]
    word = "missing" if len(errors) == unread and EMPTY not in errors else UNPARSED
    return f"{unread} of {plural(len(answers), 'answer')} {word}: {problem}"


def _long_note(answer: Completion) -> str | None:
    """Return a note where only the beginning of an answer was read."""
    is_long = len(answer.text) > LONGEST and len(without_thoughts(answer.text)) > LONGEST
    return CUT if is_long else None
