"""Where scoring stops asking about a row: at thresholds that are given, or at those of a threshold file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from refladder.errors import UsageError
from refladder.jobs.filter import promised_condition
from refladder.jobs.scored_tables import check_signature
from refladder.records import Threshold
from refladder.scoring.stopping import StopRule

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from refladder.files.ladder_sets import LadderSet
    from refladder.records import Dimension
    from refladder.scoring.columns import Scale
    from refladder.scoring.scorer import LadderScorer


def stop_thresholds(
    stop_at: Mapping[str, float],
    threshold: Path | Threshold | None,
    ladders: LadderSet,
    dimensions: Sequence[Dimension],
    scale: Scale,
) -> tuple[dict[str, float], Callable[[LadderScorer], LadderScorer]]:
    """The thresholds at which asking stops, and a check that a scorer is the one that they are for."""
    thresholds, promise = {column: float(value) for column, value in stop_at.items()}, None
    where = "the threshold" if isinstance(threshold, Threshold) else str(threshold)
    if threshold is not None:
        if thresholds:
            raise UsageError("--stop-at and --threshold both say where to stop; give one of them")
        condition = promised_condition(threshold)
        thresholds, promise = dict(condition.least), condition.promise
        if promise is not None and promise.per is not None:
            raise UsageError(
                f"{where}: the threshold keeps the best row of each {promise.per}, and rows that stop early have no "
                "rank; score without --threshold"
            )
    if thresholds:
        StopRule(thresholds, dimensions, ladders.rungs, scale)

    def made_for(scorer: LadderScorer) -> LadderScorer:
        if promise is not None:
            check_signature(scorer.report.signature, promise.signature, where)
        return scorer

    return thresholds, made_for
