"""Stated probabilities: a judge sees the rungs of a ladder in one prompt, and states how probably a text beats each.

The rungs are the references, named by letters. They are shown in one of at most 8 fixed orders, which a digest of text
and ladder chooses, so that a repeated run asks equal questions. Several orders are averaged.
"""

from __future__ import annotations

import functools
import itertools
import math
import string
from collections import Counter, defaultdict
from dataclasses import replace
from operator import itemgetter
from typing import TYPE_CHECKING, cast

import numpy as np

from refladder.arrays import known_numbers
from refladder.backends.dry_run import NOT_ASKED
from refladder.backends.labels import EMPTY, UNPARSED
from refladder.errors import UsageError, option, plural
from refladder.prompts import fill
from refladder.records import (
    IMPOSSIBLE,
    LOSS,
    OUTCOMES,
    TIE,
    WIN,
    LabelReading,
    Prompt,
    Unwritten,
    by_name,
    digest_of,
    log_of,
)
from refladder.scoring.asker import answering_of, judgment_of, run_of
from refladder.scoring.modes.comparisons import Comparisons, preferences
from refladder.scoring.modes.stated_answer import HIGHEST, stated_numbers
from refladder.scoring.modes.written import (
    ask_whole,
    long_note,
    parsed_answer,
    written_judgments,
)
from refladder.scoring.question import anchors_compared, comparison_of, rung_side
from refladder.scoring.rules import LINEAR, bounds_of, rung_steps

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from refladder.arrays import BoolArray, FloatArray
    from refladder.backends import Backend
    from refladder.files.ladder_sets import LadderSet
    from refladder.prompts import Template
    from refladder.records import (
        Completion,
        Context,
        Dimension,
        Judgment,
        Ladder,
        Progress,
        Run,
        Sampling,
    )
    from refladder.scoring.asker import Asker
    from refladder.scoring.modes.mode import Block, Group, Mode
    from refladder.scoring.question import Question
    from refladder.scoring.rules import Rule
    from refladder.scoring.score_report import ScoreReport
    from refladder.settings import Scoring

    # The order in which references were shown, the answer, and the numbers in it, or the reason why there are none.
    _Answered = tuple[tuple[int, ...], Completion, list[float] | str]

# Largest number of orders in which the rungs of a ladder are shown.
ORDERS = 8
# Orders of the rungs from which a score has an interval.
LEAST_FOR_INTERVAL = 5
LETTERS = string.ascii_uppercase
# Different numbers in the answers about a text, below which the interval of its score would cover too rarely.
LEAST_VALUES = 6


@functools.cache
def orders_of(rungs: int) -> tuple[tuple[int, ...], ...]:
    """Return the fixed orders in which references are shown: distinct permutations of their numbers, from 0."""
    orders: dict[tuple[int, ...], None] = {}
    number = 0
    while len(orders) < min(ORDERS, math.factorial(rungs)):
        digests = [digest_of("order", *map(str, (rungs, number, rung))) for rung in range(rungs)]
        orders[tuple(sorted(range(rungs), key=digests.__getitem__))] = None
        number += 1
    return tuple(orders)


def orders_for(ladder: Sequence[Question], number: int) -> list[tuple[int, ...]]:
    """Choose the orders in which a text and a ladder are asked; a digest of both chooses the first."""
    orders = orders_of(len(ladder))
    first = int(digest_of(*(question.key for question in ladder)), 16)
    return [orders[(first + step) % len(orders)] for step in range(min(number, len(orders)))]


def stated_prompt(template: Template, ladder: Sequence[Question], order: Sequence[int]) -> Prompt:
    """Write the prompt about a text and the rungs of a ladder in this order; text and contexts are shown once."""
    listed = []
    for letter, rung in zip(LETTERS, order, strict=False):
        listed.append(f"{letter}:\n{ladder[rung].texts['reference']}")
    slots = {**ladder[0].slots, "references": "\n\n".join(listed)}
    del slots["reference"]
    return fill(template, slots)


class Stated(Comparisons):
    """A judge that states a probability for every rung, in one prompt for each of `orders` of a ladder's rungs."""

    writes = True
    roles = ("stated", "stated-shared")

    def __init__(self, name: str, orders: int) -> None:
        super().__init__()
        self.name = name
        self.orders = orders
        self.has_intervals = orders >= LEAST_FOR_INTERVAL

    def check_settings(self, asked: Scoring) -> None:
        """Refuse what does not go with stated probabilities."""
        mode = f"{option('answers')} {self.name}"
        self.check_rule(asked.rule)
        if asked.yes_no:
            raise UsageError(f"{mode} asks no yes/no questions; leave out {option('yes-no')}")
        if asked.both_orders:
            raise UsageError(
                f"{mode} shows all rungs in one prompt, so pairs have no orders; leave out {option('both-orders')}, or "
                "use stated:2"
            )

    def check_rule(self, rule: str, where: str = "") -> None:
        """Refuse a rule that is not linear in the probabilities."""
        if rule not in LINEAR:
            raise UsageError(
                f"{where}{option('answers')} {self.name} supports only the rules {', '.join(LINEAR)}, found {rule!r}; "
                f"choose one of them with {option('rule')}"
            )

    def check_rungs(self, rungs: int) -> None:
        """Check that ladders have enough rungs for the orders, and no more rungs than letters."""
        if rungs > len(LETTERS):
            raise UsageError(
                f"{option('answers')} stated names rungs by {len(LETTERS)} letters, and the ladders have {rungs} "
                f"rungs; give {option('answers')} a number"
            )
        if self.orders > (most := min(ORDERS, math.factorial(rungs))):
            raise UsageError(
                f"{option('answers')} stated:{self.orders} asks in {self.orders} different orders, and ladders of "
                f"{plural(rungs, 'rung')} are shown in {most}; use stated:{most}"
            )

    def of_check(self, ladders: LadderSet) -> Mode:
        """Return the mode that asks in one order."""
        del ladders
        return Stated("stated", 1)

    def role(self, ladders: LadderSet, *, yes_no: bool = False) -> str:
        """Return the role of a prompt that shows all rungs."""
        del yes_no
        return "stated-shared" if ladders.anchors else "stated"

    def run(self, judge: Backend, template: Template, sampling: Sampling | None = None) -> Run:
        """Return a run in which the judge writes its most probable answer."""
        del sampling
        run = run_of(judge, template, sampling=answering_of(judge, self.name))
        return replace(run, stated=self.orders)

    def first_prompt(self, template: Template, group: Group) -> Prompt:
        """Return the prompt in the first of the orders."""
        return stated_prompt(template, group, orders_for(group, 1)[0])

    def characters(self, asker: Asker, groups: Sequence[Group]) -> int:
        """Count the characters of the prompts about texts and ladders."""
        characters = 0
        for ladder in groups:
            for order in orders_for(ladder, self.orders):
                characters += len(stated_prompt(asker.template, ladder, order).text)
        return characters

    def prompts(self, template: Template, groups: int, questions: int) -> int:
        """Return a prompt for each ladder and order."""
        del template, questions
        return groups * self.orders

    def ask(
        self, asker: Asker, groups: Sequence[Group], progress: Progress | None = None
    ) -> list[Judgment]:
        """Ask about texts and whole ladders.

        A ladder of which the file of judgments holds a part only is asked about again.
        """
        del progress
        return ask_whole(asker, groups, lambda asked: self._judge(asker, asked))

    def _judge(self, asker: Asker, ladders: Sequence[Group]) -> list[list[Judgment]]:
        """Ask about texts and whole ladders: a judgment for each question. If the judge fails, its answers are kept."""
        sampling = asker.log.run.recipe.sampling
        if sampling is None or not ladders:
            return [[] for _ in ladders]
        asked: list[tuple[int, tuple[int, ...]]] = []
        for number, ladder in enumerate(ladders):
            asked += [(number, order) for order in orders_for(ladder, self.orders)]
        # Prompts that begin alike are next to each other: those of a context, or of an anchor, in one order.
        asked.sort(key=lambda pair: (*_beginning(ladders[pair[0]][0]), pair[1]))
        prompts = [stated_prompt(asker.template, ladders[number], order) for number, order in asked]
        recipe = asker.log.run.recipe.digest

        def read(position: int, answer: Completion) -> list[float] | str:
            return _numbers_of(answer, len(ladders[asked[position][0]]))

        def judgments(
            answers: Mapping[int, tuple[Completion, list[float] | str]],
        ) -> list[list[Judgment]]:
            """Return the judgments of each ladder that was answered in all orders."""
            answered: defaultdict[int, list[_Answered]] = defaultdict(list)
            expected = Counter(number for number, _ in asked)
            for position, (answer, numbers) in answers.items():
                number, order = asked[position]
                answered[number].append((order, answer, numbers))
            judged = []
            for number, ladder in enumerate(ladders):
                in_order = sorted(answered[number], key=itemgetter(0))
                if len(in_order) == expected[number]:
                    judged.append(_judged(recipe, ladder, in_order))
            return judged

        return written_judgments(
            asker,
            prompts,
            sampling,
            read=read,
            judgments=judgments,
            unparsed=lambda numbers: isinstance(numbers, str),
        )

    def intervals(
        self,
        run: Run,
        rule: Rule,
        judgments: Sequence[Judgment],
        blocks: Sequence[Block],
        report: ScoreReport,
    ) -> Mapping[Block, tuple[float, float]]:
        """Return the interval of each score over orders, by row and number of the dimension."""
        if self.orders < 2 or not judgments:
            return {}
        each = run.compared
        anchors = max(len(run.anchors), 1)
        found = {}
        for number, dimension in enumerate(run.dimensions):
            human = dimension.low, dimension.high
            low, high = bounds_of(rule, run.rungs, human)
            steps = np.tile(rung_steps(rule, run.rungs, human), anchors) / anchors
            of_number: list[Block] = []
            of_dimension: list[Judgment] = []
            for place, block in enumerate(blocks):
                if block[1] == number:
                    of_number.append(block)
                    of_dimension += judgments[place * each : (place + 1) * each]
            scores, fine = order_scores(of_dimension, each, self.orders, low, steps)
            several = scores[(~np.isnan(scores)).sum(axis=1) > 1]
            report.count_orders(dimension.name, np.nanvar(several, axis=1, ddof=1))
            bounds = intervals_of(scores, fine, low, high).tolist()
            for block, (least, most) in zip(of_number, bounds, strict=True):
                if not math.isnan(least):
                    found[block] = (least, most)
        return found

    def check_questions(
        self,
        ladders: LadderSet,
        context: Context,
        dimension: Dimension,
        ladder: Ladder,
        dimensions: Sequence[Dimension],
    ) -> list[Group]:
        """Compare the best rung, and then the worst, with all other rungs of its ladder."""
        del dimensions
        shown = context if ladders.anchors else None
        sides = [rung_side(rung, shown) for rung in ladder.rungs]
        groups: list[Group] = []
        for target, others in (sides[-1], sides[:-1]), (sides[0], sides[1:]):
            groups.append([comparison_of(context, dimension, target, other) for other in others])
        return groups

    def check_answers(self, judgments: Sequence[Judgment], rungs: int) -> FloatArray:
        """Return 1 for a ladder whose best rung gets a mean above 50, and the worst one below."""
        preferred = np.min(preferences(judgments, rungs - 1), axis=1, keepdims=True)
        return np.where(np.isnan(preferred), np.nan, (preferred > 0).astype(np.float64))

    def compare_rungs(
        self,
        ladders: LadderSet,
        asker: Asker,
        questions: Sequence[Question],
        progress: Progress | None = None,
    ) -> list[Judgment]:
        """Ask about each rung among the other rungs of its ladder; in a shared set also against the next two ladders."""
        dimensions = by_name(ladders.dimensions)
        sides = {}
        for (context_id, name), ladder in ladders.ladders.items():
            context = ladders.contexts[context_id] if ladders.anchors else None
            sides[context_id, name] = [rung_side(rung, context) for rung in ladder.rungs]
        pairs = anchors_compared(ladders.anchors)
        asked = []
        for (context_id, name), own in sides.items():
            context = ladders.contexts[context_id]
            others = [other for anchor, other in pairs if anchor == context_id]
            for other_id, target in itertools.product((context_id, *others), own):
                group = []
                for other in sides[other_id, name]:
                    if other != target:
                        group.append(comparison_of(context, dimensions[name], target, other))
                asked.append(group)
        judged = self.ask(asker, asked, progress)

        def of(question: Question) -> tuple[str, str, str, str]:
            # In a shared set, the ids of the rungs name their anchors.
            ids = question.comparison
            context_id = "" if ladders.anchors else ids.context_id
            return context_id, ids.dimension, ids.subject, ids.against

        found = dict(zip(map(of, itertools.chain(*asked)), judged, strict=True))
        for (context_id, name, subject, against), judgment in list(found.items()):
            found.setdefault((context_id, name, against, subject), _of_the_other(judgment))
        return [found[of(question)] for question in questions]


def _judged(
    recipe: str,
    ladder: Group,
    answers: Sequence[_Answered],
) -> list[Judgment]:
    """Return the judgment of each question from the answers in all orders; `recipe` is the digest of the run's."""
    if any(isinstance(answer.text, Unwritten) for _, answer, _ in answers):
        return [judgment_of(question, recipe, OUTCOMES, NOT_ASKED) for question in ladder]
    stated = np.full((len(ladder), len(answers)), np.nan)
    problems = []
    for column, (order, _, numbers) in enumerate(answers):
        if isinstance(numbers, str):
            problems.append(numbers)
        else:
            stated[list(order), column] = numbers
    note = next(filter(None, (long_note(answer) for _, answer, _ in answers)), None)
    if problems:
        errors = [answer for _, answer, _ in answers if answer.finish == "error"]
        only_missing = len(errors) == len(problems) and EMPTY not in {each.note for each in errors}
        word = "missing" if only_missing else UNPARSED
        problem = f"{len(problems)} of {plural(len(answers), 'answer')} {word}: {problems[0]}"
        note = "; ".join(filter(None, (problem, note)))
    cut = any(answer.cut for _, answer, _ in answers)
    judgments = []
    for question, of_rung in zip(ladder, stated, strict=True):
        parsed = of_rung[~np.isnan(of_rung)]
        reading = LabelReading(reason=note, cut=cut)
        values: tuple[float | None, ...] = ()
        if len(parsed):
            win = float(parsed.mean()) / HIGHEST
            logprobs = (log_of(win), log_of(1 - win), IMPOSSIBLE)
            reading = LabelReading(
                logprobs=logprobs, mass=None, cut=cut, exactness="sampled", note=note
            )
            values = tuple(known_numbers(of_rung))
        judgment = judgment_of(question, recipe, OUTCOMES, reading)
        judgments.append(replace(judgment, stated=values))
    return judgments


def _of_the_other(judgment: Judgment) -> Judgment:
    """Return the judgment as it is about the other of its two texts."""
    return replace(
        judgment,
        subject=judgment.against or "",
        against=judgment.subject,
        logprobs=judgment.logprobs_of((LOSS, WIN, TIE)),
    )


def _beginning(question: Question) -> tuple[str, str]:
    return question.texts.get("reference_context", ""), question.context.id


def _numbers_of(answer: Completion, rungs: int) -> list[float] | str:
    return parsed_answer(
        answer, lambda text, ended: stated_numbers(text, LETTERS[:rungs], ended=ended)
    )


def order_scores(
    judgments: Sequence[Judgment], compared: int, orders: int, low: float, steps: FloatArray
) -> tuple[FloatArray, BoolArray]:
    """Score each order in which a text was asked about, shape (texts, orders); NaN where one is unparsed.

    Also return whether the answers about a text use `LEAST_VALUES` different numbers, shape (texts,).

    Args:
        judgments: judgments of whole texts, `compared` for each: the rungs of one anchor after another.
        compared: the number of rungs that each text is compared with.
        orders: the number of orders in which each ladder was shown.
        low: the score of a text that loses to every rung.
        steps: what beating each rung adds, shape (compared,).
    """
    none = (None,) * orders
    stated = np.array([judgment.stated or none for judgment in judgments], dtype=np.float64)
    stated = stated.reshape(-1, compared, orders)
    fine = [len(np.unique(each[~np.isnan(each)])) >= LEAST_VALUES for each in stated]
    scores = low + (stated / HIGHEST * steps[:, None]).sum(axis=1)
    return cast("FloatArray", scores), np.array(fine, np.bool_)


def intervals_of(scores: FloatArray, fine: BoolArray, low: float, high: float) -> FloatArray:
    """Compute 95 % intervals of the mean score over all orders, shape (texts, 2), from `order_scores`.

    They are Student's t of the parsed scores. NaN for fewer than `LEAST_FOR_INTERVAL` of them, and where numbers are not
    `fine`; the ends are within `low` and `high`.
    """
    from scipy.special import stdtrit

    number = (~np.isnan(scores)).sum(axis=1)
    enough = fine & (number >= LEAST_FOR_INTERVAL)
    ends = np.full((len(scores), 2), np.nan)
    if enough.any():
        parsed = scores[enough]
        count = number[enough]
        half = stdtrit(count - 1, 0.975) * np.nanstd(parsed, axis=1, ddof=1) / np.sqrt(count)
        mean = np.nanmean(parsed, axis=1)
        ends[enough] = np.clip(np.stack([mean - half, mean + half], axis=1), low, high)
    return ends
