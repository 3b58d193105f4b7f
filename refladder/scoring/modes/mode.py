"""A way to ask a judge: the contract that every mode of `--answers` fulfils.

Code outside this folder asks a mode for its attributes and methods, never for its type.
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
        Prompt,
        Run,
        RungRating,
        Sampling,
    )
    from refladder.scoring.asker import Asker
    from refladder.scoring.question import Question
    from refladder.scoring.rules import Rule
    from refladder.scoring.rung_scale import RungScale
    from refladder.scoring.score_report import ScoreReport
    from refladder.settings import Scale, Scoring

    # Questions of one prompt, such as those about a text and the rungs of a ladder.
    Group = Sequence[Question]
    # The item and the number of the dimension that consecutive judgments are about.
    Block = tuple[int, int]


class Mode(ABC):
    """How a judge is asked about a text, and how its answers become a score.

    `name` is that of `--answers`, and `roles` are those of its prompts. `sampled` is the number of answers to a question,
    0 if they are not sampled. With `needs_ladders`, a text without a ladder has no score. With `writes`, the judge only
    writes: no label is read. With `rates_rungs`, ratings of
    rungs come before those of texts. With `has_anchor_spread`, a score against a shared set has a spread over its anchors;
    with `has_intervals`, a score has an interval.
    """

    name: str
    roles: tuple[str, ...]
    sampled = 0
    writes = False
    needs_ladders = True
    rates_rungs = False
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

    def of_rungs(self, ladders: LadderSet) -> Mode:
        """Return the mode in which the rungs of a set are judged."""
        del ladders
        return self

    def of_check(self, ladders: LadderSet) -> Mode:
        """Return the mode of the judge check."""
        return self.of_rungs(ladders)

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
        dimensions: Sequence[Dimension],
        ladders: LadderSet,
        *,
        orders: int,
    ) -> list[Group]:
        """Return what is asked about a text on these dimensions, in order; the set has the ladders that it needs."""

    def rung_groups(self, ladders: LadderSet, dimensions: Sequence[Dimension]) -> list[Group]:
        """Return what is asked about rungs before the first text."""
        del ladders, dimensions
        return []

    @abstractmethod
    def ask(
        self, asker: Asker, groups: Sequence[Group], progress: Progress | None = None
    ) -> list[Judgment]:
        """Return a judgment for every question of every group, in order; stored ones are reused."""

    def first_prompt(self, template: Template, group: Group) -> Prompt:
        """Return the first prompt about a group, in a mode that `writes`."""
        raise NotImplementedError

    @abstractmethod
    def characters(self, asker: Asker, groups: Sequence[Group]) -> int:
        """Count the characters of the prompts of these groups."""

    @abstractmethod
    def prompts(self, template: Template, groups: int, questions: int) -> int:
        """Return the number of prompts for `groups` groups with `questions` questions in all."""

    @abstractmethod
    def prompts_of_a_row(self, template: Template, run: Run) -> int:
        """Return the number of prompts for a text with all of its ladders."""

    # Scoring.

    @abstractmethod
    def judgments_of_a_text(self, run: Run) -> Sequence[tuple[str, str | None]]:
        """Return the subject and the other text of each judgment of a text on a dimension, in order; "" is the text."""

    @abstractmethod
    def count(self, run: Run, judgments: Sequence[Judgment], report: ScoreReport) -> None:
        """Add to `report` what the judgments of whole texts show beside their scores."""

    def rung_scales(self, run: Run, readings: Sequence[RungRating]) -> Mapping[str, RungScale]:
        """Return the scale of each dimension, from the ratings of `rung_groups`."""
        del run, readings
        return {}

    @abstractmethod
    def numbers(
        self,
        run: Run,
        rule: Rule,
        rows: int,
        judgments: Sequence[Judgment],
        blocks: Sequence[Block],
        *,
        scales: Mapping[str, RungScale],
    ) -> list[dict[str, FloatArray]]:
        """Return fields of `Score` for each dimension, with a number for each of `rows` items; NaN where it has none.

        `judgments` are those of one of `blocks` after another, and `scales` those of `rung_scales`.
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

    @abstractmethod
    def signature(self, run: Run, scale: Scale) -> str:
        """Return what determines a score beside the ladders, the judge and its prompts."""

    @abstractmethod
    def legend(self, run: Run, scale: Scale) -> str:
        """Write a line for people about each of score, grade and spread."""

    # Judging rungs.

    @abstractmethod
    def check_questions(
        self,
        ladders: LadderSet,
        context: Context,
        dimension: Dimension,
        ladder: Ladder,
        dimensions: Sequence[Dimension],
    ) -> list[Group]:
        """Return what the judge check asks about one ladder; `dimensions` are all that texts are scored on."""

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
