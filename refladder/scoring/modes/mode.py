"""A way to ask a judge: the contract that every mode of `--answers` fulfils.

Nothing outside this folder asks which mode a run has: what differs between modes is a method here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

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
        Progress,
        Run,
        Sampling,
    )
    from refladder.scoring.asker import Asker
    from refladder.scoring.question import Question
    from refladder.scoring.rules import Rule
    from refladder.scoring.score_report import ScoreReport
    from refladder.settings import Scoring

    # Questions of one prompt, such as those about a text and the rungs of a ladder.
    Group = Sequence[Question]
    # The item and the number of the dimension that consecutive judgments are about.
    Block = tuple[int, int]


class Mode(ABC):
    """How a judge is asked about a text, and how its answers become a score.

    `name` is that of `--answers`. `sampled` is the number of answers to a question, 0 if they are not sampled.
    With `has_anchor_spread`, a score against a shared set has a spread over its anchors; with `has_intervals`, a score
    has an interval.
    """

    name: str
    sampled = 0
    has_anchor_spread = True
    has_intervals = False

    # Before anything is asked.

    @abstractmethod
    def check_settings(self, asked: Scoring) -> None:
        """Raise UsageError for settings that do not go with this mode."""

    @abstractmethod
    def check_rule(self, rule: str, where: str = "") -> None:
        """Raise UsageError for a rule that cannot score these answers; `where` begins the message."""

    @abstractmethod
    def check_rungs(self, rungs: int) -> None:
        """Raise UsageError if a text cannot be asked about together with this number of rungs."""

    @property
    def of_check(self) -> Mode:
        """Return the mode of the judge check."""
        return self

    @abstractmethod
    def role(self, ladders: LadderSet, *, yes_no: bool = False) -> str:
        """Return the role of the prompt."""

    @abstractmethod
    def run(self, judge: Backend, template: Template, sampling: Sampling | None = None) -> Run:
        """Return the first line of a file of judgments, without ladders; `sampling` is that of sampled answers."""

    # Asking.

    @abstractmethod
    def groups(
        self,
        output: Output,
        context: Context,
        dimension: Dimension,
        ladders: LadderSet,
        *,
        orders: int,
    ) -> list[Group]:
        """Return what is asked about a text on a dimension; the set has its ladders."""

    @abstractmethod
    def ask(
        self, asker: Asker, groups: Sequence[Group], progress: Progress | None = None
    ) -> list[Judgment]:
        """Return a judgment for every question of every group, in order; stored ones are reused."""

    @abstractmethod
    def characters(self, asker: Asker, groups: Sequence[Group]) -> int:
        """Count the characters of the prompts of these groups."""

    @abstractmethod
    def prompts(self, template: Template, groups: int, questions: int) -> int:
        """Return the number of prompts for `groups` groups with `questions` questions in all."""

    # Scoring.

    @abstractmethod
    def judgments_of_a_text(self, run: Run) -> Sequence[tuple[str, str | None]]:
        """Return the subject and the other text of each judgment of a text on a dimension, in order; "" is the text."""

    @abstractmethod
    def count(self, run: Run, judgments: Sequence[Judgment], report: ScoreReport) -> None:
        """Add to `report` what the judgments of whole texts show beside their scores."""

    @abstractmethod
    def numbers(
        self,
        run: Run,
        rule: Rule,
        rows: int,
        judgments: Sequence[Judgment],
        blocks: Sequence[Block],
    ) -> list[dict[str, FloatArray]]:
        """Return fields of `Score` for each dimension, with a number for each of `rows` items; NaN where it has none.

        `judgments` are those of one of `blocks` after another.
        """

    def intervals(
        self,
        run: Run,
        rule: Rule,
        judgments: Sequence[Judgment],
        blocks: Sequence[Block],
        report: ScoreReport,
    ) -> Mapping[Block, tuple[float, float]]:
        """Return the interval of each score that has one; `report` gets the spread of the scores."""
        del run, rule, judgments, blocks, report
        return {}

    @abstractmethod
    def bounds(self, rule: Rule, rungs: int, scale: tuple[float, float]) -> tuple[float, float]:
        """Return the least and the greatest score on a dimension with this human scale."""

    # Judging rungs.

    @abstractmethod
    def check_questions(
        self, context: Context, dimension: Dimension, ladder: Ladder, *, shared: bool
    ) -> list[Group]:
        """Return what the judge check asks about one ladder."""

    @abstractmethod
    def check_answers(self, judgments: Sequence[Judgment], rungs: int) -> FloatArray:
        """Return 1 for the best rung, 0 for the worst and 1/2 for neither: shape (ladders, answers), NaN if unparsed."""

    @abstractmethod
    def compare_rungs(
        self,
        ladders: LadderSet,
        asker: Asker,
        questions: Sequence[Question],
        progress: Progress | None = None,
    ) -> list[Judgment]:
        """Return judgments of these comparisons of two rungs, in order."""
