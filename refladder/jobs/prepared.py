"""The settings of a scoring run, checked before a judge is opened."""

from __future__ import annotations

from typing import TYPE_CHECKING

from refladder.files.ladder_sets import LadderSet, choose_dimensions, load_ladders
from refladder.prompts import check_folder
from refladder.scoring.columns import weights_for
from refladder.scoring.rules import rule_named
from refladder.scoring.scorer import LadderScorer
from refladder.scoring.stated import check_orders

if TYPE_CHECKING:
    from refladder.backends import Backend
    from refladder.settings import Scoring


class Prepared:
    """Settings with their files read; with a judge, they make a scorer."""

    def __init__(self, asked: Scoring) -> None:
        rule_named(asked.rule)
        if asked.prompts is not None:
            check_folder(asked.prompts)
        self.asked = asked
        self.ladders = asked.ladders if isinstance(asked.ladders, LadderSet) else load_ladders(asked.ladders)
        self.dimensions = choose_dimensions(self.ladders.dimensions, asked.dimensions)
        weights_for(self.dimensions, asked.weights)
        if asked.stated:
            check_orders(asked.stated, self.ladders.rungs)

    def scorer(self, judge: Backend) -> LadderScorer:
        """Make the scorer with a judge."""
        return LadderScorer(
            judge,
            self.ladders,
            self.dimensions,
            self.asked.scale,
            yes_no=self.asked.yes_no,
            orders=self.asked.orders,
            prompts=self.asked.prompts,
            answers=self.asked.sampled,
            stated=self.asked.stated,
        )
