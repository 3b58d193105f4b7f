"""The settings of a scoring run, checked before a judge is opened."""

from __future__ import annotations

from typing import TYPE_CHECKING

from refladder.errors import UsageError, did_you_mean
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
        self.ladders = (
            asked.ladders if isinstance(asked.ladders, LadderSet) else load_ladders(asked.ladders)
        )
        known = [dimension.name for dimension in self.ladders.dimensions]
        for name in asked.dimensions:
            if self.ladders.anchors and name not in known:
                raise UsageError(
                    f"{self.ladders.name} has no criterion {name!r}{did_you_mean(name, known, end='.')} It has: "
                    f"{', '.join(known)}. `refladder build TABLE --task-file TASK.toml --shared 12` makes a set with "
                    "criteria of yours"
                )
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
