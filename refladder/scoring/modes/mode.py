"""A way to ask a judge, in two parts: what is asked, and how readings become numbers.

Code outside this folder asks a mode for its attributes and methods, never for its type. A mode asks nothing itself and
stores nothing, see `refladder.scoring.asker`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from refladder.backends.protocol import STATED_TOKENS
from refladder.errors import UsageError, option
from refladder.prompts import fill
from refladder.records import OUTCOMES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from refladder.arrays import FloatArray
    from refladder.backends import Backend
    from refladder.files.ladder_sets import LadderSet
    from refladder.prompts import Template
    from refladder.records import (
        Context,
        Dimension,
        Judgment,
        Ladder,
        Output,
        Prompt,
        Run,
        RungRating,
        Sampling,
    )
    from refladder.scoring.question import Question
    from refladder.scoring.rules import Rule
    from refladder.scoring.rung_scale import RungScale
    from refladder.scoring.score_report import ScoreReport
    from refladder.settings import Scale, Scoring

    # Questions that are asked together, such as those about a text and the rungs of a ladder.
    Group = Sequence[Question]
    # The item and the number of the dimension that consecutive judgments are about.
    Block = tuple[int, int]


class Scope(NamedTuple):
    """A ladder set, the dimensions that texts are scored on, and the orders of a pair."""

    ladders: LadderSet
    dimensions: Sequence[Dimension]
    orders: int = 1


class Readings(NamedTuple):
    """The judgments of texts, one of `blocks` after another, with all that makes scores of them.

    `rows` is the number of items, and `scales` are those of `rung_scales`.
    """

    run: Run
    rule: Rule
    rows: int
    judgments: Sequence[Judgment]
    blocks: Sequence[Block]
    scales: Mapping[str, RungScale]
    report: ScoreReport

    def placed(self, values: FloatArray) -> FloatArray:
        """Return the values of blocks by item and dimension, NaN where an item has none."""
        table = np.full((self.rows, len(self.run.dimensions), *values.shape[1:]), np.nan)
        if self.blocks:
            rows, numbers = np.array(self.blocks).T
            table[rows, numbers] = values
        return table


class Asking(ABC):
    """What a judge is asked.

    `name` is that of `--answers`, and `roles` are those of its prompts, that for a shared set last. `texts`
    replace the shipped ones, by role. With `writes`, the judge writes its answer; else the probabilities of labels are read, or
    `sampled` answers drawn. `orders` counts the orders in which one prompt shows the rungs, 0 if it shows one text.
    With `needs_ladders`, a text without a ladder has no score. With `rates_rungs`, ratings of rungs come before those of
    texts. `no_orders` says why a pair has no second order, and what to do instead.
    """

    name: str
    roles: tuple[str, ...]
    texts: Mapping[str, str] = MappingProxyType({})
    sampled = 0
    writes = False
    orders = 0
    needs_ladders = True
    rates_rungs = False
    no_orders = "shows one text to rate", ""

    def check_settings(self, asked: Scoring) -> None:
        """Raise UsageError for settings that do not go with this mode."""
        mode, (why, instead) = f"{option('answers')} {self.name}", self.no_orders
        if asked.yes_no:
            raise UsageError(f"{mode} asks no yes/no questions; leave out {option('yes-no')}")
        if asked.both_orders:
            raise UsageError(
                f"{mode} {why}, so pairs have no orders; leave out {option('both-orders')}{instead}"
            )

    def check_rungs(self, rungs: int) -> None:
        """Raise UsageError if a text cannot be asked about together with this number of rungs."""

    def role(self, ladders: LadderSet, *, yes_no: bool = False) -> str:
        """Return the role of the prompt."""
        return self.roles[-1 if ladders.anchors else 0]

    def sampling(self, judge: Backend, drawn: Sampling | None) -> Sampling | None:
        """Return the sampling of written answers, None where labels are read; `drawn` is that of sampled ones."""
        if not self.writes or judge.recorded is not None:
            return None
        if judge.answering is None:
            raise UsageError(
                f"{judge.fingerprint} writes no answers, and {option('answers')} {self.name} asks for them; leave it out, "
                f"or name a model with {option('judge')}"
            )
        return judge.answering

    @abstractmethod
    def groups(self, output: Output, context: Context, scope: Scope) -> list[Group]:
        """Return what is asked about a text, in order; the set has the ladders that it needs."""

    def rung_groups(self, scope: Scope) -> list[Group]:
        """Return what is asked about rungs before the first text."""
        return []

    def orders_of(self, group: Group) -> Sequence[tuple[int, ...]]:
        """Return the orders in which a group is shown, each in a prompt of its own."""
        return [()]

    def prompt(self, template: Template, group: Group, order: tuple[int, ...]) -> Prompt:
        """Return the prompt about a group in one of its orders."""
        return fill(template, group[0].slots)

    def beginning(self, group: Group) -> tuple[str, ...]:
        """Return what prompts are sorted by, so that those which begin alike are next to each other."""
        return (group[0].context.id,)

    def answer_tokens(self, group: Group) -> int:
        """Return the tokens that a written answer may need."""
        return STATED_TOKENS

    def read(self, group: Group, order: tuple[int, ...], text: str, *, ended: bool) -> Any:
        """Return what a written answer says, or a reason, for each question of a group; or one reason for all.

        `ended` is whether the answer ended by itself.
        """
        raise NotImplementedError

    def shares(self, said: Sequence[Any]) -> Sequence[float]:
        """Return the probabilities of the outcomes of a question from what the answers in all orders say, at least one."""
        raise NotImplementedError

    def prompts(self, template: Template, groups: Sequence[Group]) -> int:
        """Return the number of prompts about these groups."""
        return sum(len(self.orders_of(group)) for group in groups)

    def prompts_of_a_row(self, template: Template, run: Run) -> int:
        """Return the number of prompts about a text with all of its ladders."""
        return len(run.dimensions)

    @abstractmethod
    def check_groups(
        self, scope: Scope, context: Context, dimension: Dimension, ladder: Ladder
    ) -> list[Group]:
        """Return what the judge check asks about a ladder."""

    def pair_groups(self, ladders: LadderSet, pairs: Sequence[Question]) -> list[Group]:
        """Return what is asked to compare these pairs of rungs."""
        return [[pair] for pair in pairs]


class Counting(ABC):
    """How readings become numbers.

    `outcomes` are those of a judgment, and with `compares_rungs` it compares a text with a rung: win, loss or tie. With
    `has_anchor_spread`, a score against a shared set has a spread over its anchors; with `has_intervals`, a score has an
    interval.
    """

    outcomes: tuple[str, ...] = OUTCOMES
    compares_rungs = True
    has_anchor_spread = True
    has_intervals = False

    def check_rule(self, rule: str, where: str = "") -> None:
        """Raise UsageError for a rule that cannot score these answers; `where` begins the message."""

    @abstractmethod
    def judgments_of_a_text(self, run: Run) -> Sequence[tuple[str, str | None]]:
        """Return the subject and the other text of each judgment of a text on a dimension, in order; "" is the text."""

    def count(self, run: Run, judgments: Sequence[Judgment], report: ScoreReport) -> None:
        """Add to `report` what the judgments of whole texts show beside their scores."""

    def rung_scales(self, run: Run, readings: Sequence[RungRating]) -> Mapping[str, RungScale]:
        """Return the scale of each dimension, from the ratings of rungs."""
        return {}

    @abstractmethod
    def numbers(self, readings: Readings) -> list[dict[str, FloatArray]]:
        """Return fields of `Score` for each dimension, with a number for each item; NaN where it has none."""

    def intervals(self, readings: Readings) -> Mapping[Block, tuple[float, float]]:
        """Return the interval of each score that has one; the report gets the spread of the scores."""
        return {}

    @abstractmethod
    def bounds(self, rule: Rule, rungs: int, scale: tuple[float, float]) -> tuple[float, float]:
        """Return the least and the greatest score on a dimension with this human scale."""

    @abstractmethod
    def signature(self, run: Run, scale: Scale) -> str:
        """Return what determines a score beside the ladders, the judge and its prompts."""

    @abstractmethod
    def legend(self, run: Run, scale: Scale) -> str:
        """Write a line for people about each of score, grade and spread."""

    @abstractmethod
    def check_answers(self, judgments: Sequence[Judgment], rungs: int) -> FloatArray:
        """Return 1 for the best rung, 0 for the worst and 1/2 for neither: shape (ladders, answers), NaN if unparsed."""

    def pairs(
        self,
        ladders: LadderSet,
        pairs: Sequence[Question],
        judgments: Sequence[Judgment],
    ) -> list[Judgment]:
        """Return the judgments of these pairs of rungs, in order, from those of `pair_groups`."""
        return list(judgments)


class Mode(Asking, Counting):
    """How a judge is asked about a text, and how its answers become a score: a value of `--answers`."""

    def of_rungs(self, ladders: LadderSet) -> Mode:
        """Return the mode in which the rungs of a set are judged."""
        return self

    def of_check(self, ladders: LadderSet) -> Mode:
        """Return the mode of the judge check."""
        return self.of_rungs(ladders)
