"""The settings of a scoring run, checked before a judge is opened."""

from __future__ import annotations

from typing import TYPE_CHECKING

from refladder.errors import UsageError, option
from refladder.files.jsonl import read_record
from refladder.files.ladder_sets import LadderSet, choose_dimensions, load_ladders
from refladder.jobs.filter import promised_condition
from refladder.jobs.scored_tables import check_signature
from refladder.prompts import check_folder
from refladder.records import HumanScale, Threshold
from refladder.scoring.columns import weights_for
from refladder.scoring.few_answers import most_answers
from refladder.scoring.rules import rule_named
from refladder.scoring.scorer import LadderScorer
from refladder.scoring.stopping import StopRule

if TYPE_CHECKING:
    from refladder.backends import Backend
    from refladder.settings import Scoring


class Prepared:
    """Settings with their files read; with a judge, they make a scorer."""

    def __init__(self, asked: Scoring) -> None:
        rule_named(asked.rule)
        if asked.prompts is not None:
            check_folder(asked.prompts)
        scale = asked.calibration
        self.human_scale = scale if scale is None or isinstance(scale, HumanScale) else read_record(HumanScale, scale)
        self.asked = asked
        self.ladders = asked.ladders if isinstance(asked.ladders, LadderSet) else load_ladders(asked.ladders)
        self.dimensions = choose_dimensions(self.ladders.dimensions, asked.dimensions)
        weights_for(self.dimensions, asked.weights)
        self.thresholds, self._promise = _stop_thresholds(asked)
        if self.thresholds:
            StopRule(self.thresholds, self.dimensions, self.ladders.rungs, asked.scale, self.ladders.ladders_each)

    @property
    def answers(self) -> int:
        """Answers to sample for each question; with a mode, the most about a text and a ladder."""
        if isinstance(self.asked.answers, int):
            return self.asked.answers
        return most_answers(self.asked.mode, self.ladders.rungs, self.asked.orders)

    def scorer(self, judge: Backend) -> LadderScorer:
        """The scorer with a judge; a threshold made for another signature is a DataError."""
        scorer = LadderScorer(
            judge,
            self.ladders,
            self.dimensions,
            self.asked.scale,
            yes_no=self.asked.yes_no,
            orders=self.asked.orders,
            prompts=self.asked.prompts,
            answers=self.answers,
            mode=self.asked.mode,
            stop_at=self.thresholds,
        )
        if self._promise is not None:
            check_signature(scorer.report.signature, self._promise.signature, _named(self.asked.threshold))
        return scorer


def _named(threshold: object) -> str:
    return "the threshold" if isinstance(threshold, Threshold) else str(threshold)


def _stop_thresholds(asked: Scoring) -> tuple[dict[str, float], Threshold | None]:
    """The thresholds at which asking stops, and the promise that they keep, if they are those of a threshold."""
    thresholds = {column: float(value) for column, value in asked.stop_at.items()}
    if asked.threshold is None:
        return thresholds, None
    if thresholds:
        raise UsageError(f"{option('stop-at')} and {option('threshold')} both say where to stop; give one of them")
    condition = promised_condition(asked.threshold)
    if condition.promise is not None and condition.promise.per is not None:
        raise UsageError(
            f"{_named(asked.threshold)}: the threshold keeps the best row of each {condition.promise.per}, and rows "
            f"that stop early have no rank; score without {option('threshold')}"
        )
    return dict(condition.min), condition.promise
