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
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from refladder.backends import whole
from refladder.backends.dry_run import NOT_ASKED
from refladder.errors import BackendError, UsageError, option, plural
from refladder.prompts import fill
from refladder.records import IMPOSSIBLE, OUTCOMES, LabelReading, Prompt, Unwritten, digest_of
from refladder.scoring.asker import judgment_of
from refladder.scoring.columns import LEAST_FOR_INTERVAL
from refladder.scoring.stated_answer import HIGHEST, stated_numbers

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from refladder.arrays import BoolArray, FloatArray
    from refladder.prompts import Template
    from refladder.records import Completion, Judgment
    from refladder.scoring.asker import Asker
    from refladder.scoring.question import Question

# Largest number of orders in which the rungs of a ladder are shown.
ORDERS = 8
LETTERS = string.ascii_uppercase
# Different numbers in the answers about a text, below which the interval of its score would cover too rarely.
LEAST_VALUES = 6
# Characters of an unparsed answer in a note.
_SHOWN = 60


def check_orders(asked: int, rungs: int) -> None:
    """Check that ladders have enough rungs for `asked` orders, and no more rungs than letters."""
    if rungs > len(LETTERS):
        raise UsageError(
            f"{option('answers')} stated names rungs by {len(LETTERS)} letters, and the ladders have {rungs} rungs; "
            f"give {option('answers')} a number"
        )
    if asked > (most := min(ORDERS, math.factorial(rungs))):
        raise UsageError(
            f"{option('answers')} stated:{asked} asks in {asked} different orders, and ladders of "
            f"{plural(rungs, 'rung')} are shown in {most}; use stated:{most}"
        )


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
    listed = [
        f"{letter}:\n{ladder[rung].texts['reference']}"
        for letter, rung in zip(LETTERS, order, strict=False)
    ]
    slots = {**ladder[0].slots, "references": "\n\n".join(listed)}
    del slots["reference"]
    return fill(template, slots)


class Stated(NamedTuple):
    """A judge that states probabilities: the asker's template and run are of this mode."""

    asker: Asker

    @property
    def orders(self) -> int:
        """Return the number of orders in which each ladder is shown."""
        return self.asker.log.run.stated

    def characters(self, ladders: Iterable[Sequence[Question]]) -> int:
        """Count the characters of the prompts about texts and ladders."""
        return sum(
            len(stated_prompt(self.asker.template, ladder, order).text)
            for ladder in ladders
            for order in orders_for(ladder, self.orders)
        )

    def ask(self, ladders: Sequence[Sequence[Question]]) -> list[Judgment]:
        """Return a judgment for every question about texts and whole ladders, in order. Stored ones are reused.

        A ladder of which the file of judgments holds a part only is asked about again.
        """
        log = self.asker.log
        questions = [question for ladder in ladders for question in ladder]
        new = log.unanswered(questions)
        missing = {id(question) for question in new}
        asked = [ladder for ladder in ladders if not missing.isdisjoint(map(id, ladder))]
        judged = {
            id(question): judgment
            for ladder, of_ladder in zip(asked, self._judge(asked), strict=True)
            for question, judgment in zip(ladder, of_ladder, strict=True)
        }
        log.append([judged[id(question)] for question in new])
        return log.answers(questions)

    def _judge(self, ladders: Sequence[Sequence[Question]]) -> list[list[Judgment]]:
        """Ask about texts and whole ladders: a judgment for each question. If the judge fails, its answers are kept."""
        sampling = self.asker.log.run.recipe.sampling
        if sampling is None or not ladders:
            return [[] for _ in ladders]
        asked = [
            (number, order)
            for number, ladder in enumerate(ladders)
            for order in orders_for(ladder, self.orders)
        ]
        # Prompts that begin alike are next to each other: those of a context, or of an anchor, in one order.
        asked.sort(key=lambda pair: (*_beginning(ladders[pair[0]][0]), pair[1]))
        template = self.asker.template
        prompts = [stated_prompt(template, ladders[number], order) for number, order in asked]
        answers: dict[int, Completion] = {}

        def judgments() -> list[list[Judgment]]:
            """Return the judgments of each ladder that was answered in all orders."""
            answered: defaultdict[int, list[tuple[tuple[int, ...], Completion]]] = defaultdict(list)
            expected = Counter(number for number, _ in asked)
            for position, answer in answers.items():
                number, order = asked[position]
                answered[number].append((order, answer))
            return [
                self._judged(ladder, sorted(answered[number], key=lambda given: given[0]))
                for number, ladder in enumerate(ladders)
                if len(answered[number]) == expected[number]
            ]

        try:
            answers.update(self.asker.backend.write_each(prompts, sampling))
        except (BackendError, KeyboardInterrupt):
            self.asker.log.keep(list(itertools.chain(*judgments())))
            raise
        whole(self.asker.backend, prompts, list(answers.values()))
        return judgments()

    def _judged(
        self, ladder: Sequence[Question], answers: Sequence[tuple[tuple[int, ...], Completion]]
    ) -> list[Judgment]:
        recipe = self.asker.log.run.recipe.digest
        if any(isinstance(answer.text, Unwritten) for _, answer in answers):
            return [judgment_of(question, recipe, OUTCOMES, NOT_ASKED) for question in ladder]
        stated = np.full((len(ladder), len(answers)), np.nan)
        problems = []
        for column, (order, answer) in enumerate(answers):
            numbers = _numbers_of(answer, len(ladder))
            if isinstance(numbers, str):
                problems.append(numbers)
            else:
                stated[list(order), column] = numbers
        note = None
        if problems:
            note = f"{len(problems)} of {plural(len(answers), 'answer')} unparsed: {problems[0]}"
        cut = any(answer.cut for _, answer in answers)
        judgments = []
        for question, of_rung in zip(ladder, stated, strict=True):
            parsed = of_rung[~np.isnan(of_rung)]
            reading = LabelReading(reason=note, cut=cut)
            values: tuple[float | None, ...] = ()
            if len(parsed):
                win = float(parsed.mean()) / HIGHEST
                logprobs = (_log(win), _log(1 - win), IMPOSSIBLE)
                reading = LabelReading(
                    logprobs=logprobs, mass=None, cut=cut, exactness="sampled", note=note
                )
                values = tuple(None if math.isnan(value) else value for value in of_rung.tolist())
            judgments.append(judgment_of(question, recipe, OUTCOMES, reading, values))
        return judgments


def _beginning(question: Question) -> tuple[str, str]:
    return question.texts.get("reference_context", ""), question.context.id


def _log(probability: float) -> float:
    return math.log(probability) if probability > 0 else IMPOSSIBLE


def _numbers_of(answer: Completion, rungs: int) -> list[float] | str:
    if answer.finish == "error":
        return answer.note or "no answer"
    numbers = stated_numbers(answer.text, LETTERS[:rungs], ended=answer.finish != "length")
    if isinstance(numbers, str):
        return f"{numbers}; the answer is {answer.text[:_SHOWN]!r}"
    return numbers


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
