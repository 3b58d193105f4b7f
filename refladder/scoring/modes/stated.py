"""Stated probabilities: a judge sees the rungs of a ladder in one prompt, and states how probably a text beats each.

The rungs are the references, named by letters. They are shown in one of at most 8 fixed orders, which a digest of text
and ladder chooses, so that a repeated run asks equal questions. Several orders are averaged.
"""

from __future__ import annotations

import functools
import itertools
import math
import string
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import numpy as np

from refladder.errors import UsageError, option, plural
from refladder.prompts import fill
from refladder.records import LOSS, TIE, WIN, by_name, digest_of
from refladder.scoring.modes.comparisons import Compared, preferences
from refladder.scoring.modes.stated_answer import HIGHEST, stated_numbers
from refladder.scoring.question import anchors_compared, comparison_of, rung_side
from refladder.scoring.rules import LINEAR, bounds_of, rung_steps

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from refladder.arrays import BoolArray, FloatArray
    from refladder.files.ladder_sets import LadderSet
    from refladder.prompts import Template
    from refladder.records import Comparison, Context, Dimension, Judgment, Ladder, Prompt, Run
    from refladder.scoring.modes.mode import Block, Group, Mode, Readings, Scope
    from refladder.scoring.question import Question
    from refladder.settings import Scoring

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


class Stated(Compared):
    """A judge that states a probability for every rung, in one prompt for each of `orders` of a ladder's rungs."""

    writes = True
    roles: tuple[str, ...] = ("stated", "stated-shared")
    no_orders = "shows all rungs in one prompt", ", or use stated:2"

    def __init__(self, orders: int = 1) -> None:
        self.name = f"stated:{orders}"
        self.orders = orders
        self.has_intervals = orders >= LEAST_FOR_INTERVAL

    def check_settings(self, asked: Scoring) -> None:
        """Refuse what does not go with stated probabilities."""
        self.check_rule(asked.rule)
        super().check_settings(asked)

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
                f"{option('answers')} {self.name} names rungs by {len(LETTERS)} letters, and the ladders have {rungs} "
                f"rungs; give {option('answers')} a number"
            )
        if self.orders > (most := min(ORDERS, math.factorial(rungs))):
            raise UsageError(
                f"{option('answers')} stated:{self.orders} asks in {self.orders} different orders, and ladders of "
                f"{plural(rungs, 'rung')} are shown in {most}; use stated:{most}"
            )

    def orders_of(self, group: Group) -> Sequence[tuple[int, ...]]:
        """Choose the orders in which a text and a ladder are asked; a digest of both chooses the first."""
        orders = orders_of(len(group))
        first = int(digest_of(*(question.key for question in group)), 16)
        number = min(self.orders, len(orders))
        return [orders[(first + step) % len(orders)] for step in range(number)]

    def prompt(self, template: Template, group: Group, order: tuple[int, ...]) -> Prompt:
        """Write the prompt about a text and the rungs of a ladder; text and contexts are shown once."""
        listed = []
        for letter, rung in zip(LETTERS, order, strict=False):
            listed.append(f"{letter}:\n{group[rung].texts['reference']}")
        slots = {**group[0].slots, "references": "\n\n".join(listed)}
        del slots["reference"]
        return fill(template, slots)

    def beginning(self, group: Group) -> tuple[str, ...]:
        """Return the context of the rungs and that of the text."""
        return group[0].texts.get("reference_context", ""), group[0].context.id

    def read(
        self, group: Group, order: tuple[int, ...], text: str, *, ended: bool
    ) -> list[float] | str:
        """Return the number of each rung, or the reason why there is none."""
        numbers = stated_numbers(text, LETTERS[: len(group)], ended=ended)
        if isinstance(numbers, str):
            return numbers
        return [numbers[order.index(rung)] for rung in range(len(group))]

    def shares(self, said: Sequence[float]) -> Sequence[float]:
        """Return the mean of the numbers as the probability of a win."""
        win = float(np.mean(said)) / HIGHEST
        return win, 1 - win, 0.0

    def prompts_of_a_row(self, template: Template, run: Run) -> int:
        """Return the number of prompts for all ladders of a text."""
        return len(run.dimensions) * max(len(run.anchors), 1) * self.orders

    def of_check(self, ladders: LadderSet) -> Mode:
        """Return the mode that asks in one order."""
        return self if self.orders == 1 else Stated()

    def intervals(self, readings: Readings) -> Mapping[Block, tuple[float, float]]:
        """Return the interval of each score over orders, by row and number of the dimension."""
        run, judgments = readings.run, readings.judgments
        if self.orders < 2 or not judgments:
            return {}
        each = run.compared
        anchors = max(len(run.anchors), 1)
        found = {}
        for number, dimension in enumerate(run.dimensions):
            human = dimension.low, dimension.high
            low, high = bounds_of(readings.rule, run.rungs, human)
            steps = np.tile(rung_steps(readings.rule, run.rungs, human), anchors) / anchors
            of_number: list[Block] = []
            of_dimension: list[Judgment] = []
            for place, block in enumerate(readings.blocks):
                if block[1] == number:
                    of_number.append(block)
                    of_dimension += judgments[place * each : (place + 1) * each]
            scores, fine = order_scores(of_dimension, each, self.orders, low, steps)
            several = scores[(~np.isnan(scores)).sum(axis=1) > 1]
            readings.report.count_orders(dimension.name, np.nanvar(several, axis=1, ddof=1))
            bounds = intervals_of(scores, fine, low, high).tolist()
            for block, (least, most) in zip(of_number, bounds, strict=True):
                if not math.isnan(least):
                    found[block] = (least, most)
        return found

    def check_groups(
        self, scope: Scope, context: Context, dimension: Dimension, ladder: Ladder
    ) -> list[Group]:
        """Compare the best rung, and then the worst, with all other rungs of its ladder."""
        shown = context if scope.ladders.anchors else None
        sides = [rung_side(rung, shown) for rung in ladder.rungs]
        groups: list[Group] = []
        for target, others in (sides[-1], sides[:-1]), (sides[0], sides[1:]):
            groups.append([comparison_of(context, dimension, target, other) for other in others])
        return groups

    def check_answers(self, judgments: Sequence[Judgment], rungs: int) -> FloatArray:
        """Return 1 for a ladder whose best rung gets a mean above 50, and the worst one below."""
        preferred = np.min(preferences(judgments, rungs - 1), axis=1, keepdims=True)
        return np.where(np.isnan(preferred), np.nan, (preferred > 0).astype(np.float64))

    def pair_groups(self, ladders: LadderSet, pairs: Sequence[Question]) -> list[Group]:
        """Ask about each rung among the other rungs of its ladder; in a shared set also against the next two ladders."""
        dimensions = by_name(ladders.dimensions)
        sides = {}
        for (context_id, name), ladder in ladders.ladders.items():
            context = ladders.contexts[context_id] if ladders.anchors else None
            sides[context_id, name] = [rung_side(rung, context) for rung in ladder.rungs]
        compared = anchors_compared(ladders.anchors)
        groups: list[Group] = []
        for (context_id, name), own in sides.items():
            context = ladders.contexts[context_id]
            others = [other for anchor, other in compared if anchor == context_id]
            for other_id, target in itertools.product((context_id, *others), own):
                group = []
                for other in sides[other_id, name]:
                    if other != target:
                        group.append(comparison_of(context, dimensions[name], target, other))
                groups.append(group)
        return groups

    def pairs(
        self, ladders: LadderSet, pairs: Sequence[Question], judgments: Sequence[Judgment]
    ) -> list[Judgment]:
        """Return the judgment about the one rung of each pair, or else that about the other."""

        def of(ids: Comparison) -> tuple[str, str, str, str]:
            # In a shared set, the ids of the rungs name their anchors.
            context_id = "" if ladders.anchors else ids.context_id
            return context_id, ids.dimension, ids.subject, ids.against

        found = {of(judgment.comparison): judgment for judgment in judgments}
        for (context_id, name, subject, against), judgment in list(found.items()):
            found.setdefault((context_id, name, against, subject), _of_the_other(judgment))
        return [found[of(question.comparison)] for question in pairs]


def _of_the_other(judgment: Judgment) -> Judgment:
    """Return the judgment as it is about the other of its two texts."""
    return replace(
        judgment,
        subject=judgment.against or "",
        against=judgment.subject,
        logprobs=judgment.logprobs_of((LOSS, WIN, TIE)),
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
