"""The counts of a scoring run."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

# pydantic resolves the annotations at run time.
from refladder.records import RungRating  # noqa: TC001

if TYPE_CHECKING:
    from collections.abc import Sequence

    from refladder.arrays import FloatArray
    from refladder.records import Score

# An id or a length in a reason: left out, so that equal reasons are counted together.
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"|(?<=has )[\d,]+(?= tokens)|(?<=label mass )[\d.e-]+")


@dataclass(slots=True, kw_only=True)
class ScoreReport:
    """Counts of a run: rows, missing scores by dimension and by reason, judgments needed and reused.

    `scored` rows have every score, and `copies` have the text and context of an earlier row.
    `thoughts` are rows with marked thoughts in front of the text that was judged.
    `unparsed` judgments gave no reading, `cut` ones are of a shortened context, and `low_mass` ones of a label mass
    below one half.
    By dimension, of `judged_top` texts, `above_top` beat the top rung with p above 1/2. `order_variance` sums, over
    `order_texts`, the variance of the score between the orders of the rungs. `scales` are both ends of each column of
    scores and grades. `rung_ratings` are the judge's ratings of rungs, and `no_grade` says why a dimension has no grades.
    `error_squares` sum, over `placed` texts, the square of the standard error of the grade through the choice of anchors;
    `placed_by` are `anchors` or `ladders`, and `most_anchors` is the number of anchors of a set of which some do not score,
    else empty.
    `models` are the answers of a server in this run by the model that they name, and `left_out` the fields of
    requests that it refuses.
    """

    rows: int = 0
    scored: int = 0
    copies: int = 0
    unscored: dict[str, int] = field(default_factory=dict)
    reasons: dict[str, int] = field(default_factory=dict)
    judgments: int = 0
    reused: int = 0
    unparsed: int = 0
    cut: int = 0
    low_mass: int = 0
    thoughts: int = 0
    disagreements: int = 0
    order_pairs: int = 0
    above_top: dict[str, int] = field(default_factory=dict)
    judged_top: dict[str, int] = field(default_factory=dict)
    below_bottom: dict[str, int] = field(default_factory=dict)
    order_variance: dict[str, float] = field(default_factory=dict)
    order_texts: dict[str, int] = field(default_factory=dict)
    judged_bottom: dict[str, int] = field(default_factory=dict)
    scales: dict[str, tuple[float, float]] = field(default_factory=dict)
    rung_ratings: list[RungRating] = field(default_factory=list)
    no_grade: dict[str, str] = field(default_factory=dict)
    error_squares: dict[str, float] = field(default_factory=dict)
    placed: dict[str, int] = field(default_factory=dict)
    placed_by: str = ""
    most_anchors: str = ""
    models: dict[str, int] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    signature: str = ""

    @property
    def complete(self) -> bool:
        """Return whether every row got every score."""
        return not any(self.unscored.values())

    def count_orders(self, dimension: str, variances: FloatArray) -> None:
        """Add the variance between orders of the score of each text on a dimension."""
        if len(variances):
            self.order_variance[dimension] = self.order_variance.get(dimension, 0.0) + float(
                variances.sum()
            )
            self.order_texts[dimension] = self.order_texts.get(dimension, 0) + len(variances)

    @property
    def order_spread(self) -> dict[str, float]:
        """Return the standard deviation of the score between orders by dimension: the root mean square over texts."""
        spread = {}
        for name, total in self.order_variance.items():
            spread[name] = math.sqrt(total / self.order_texts[name])
        return spread

    def count_errors(self, dimension: str, errors: FloatArray) -> None:
        """Add the standard errors of grades on a dimension, which are NaN where there are none."""
        known = errors[np.isfinite(errors)]
        if len(known):
            squares = self.error_squares.get(dimension, 0.0) + float((known**2).sum())
            self.error_squares[dimension] = squares
            self.placed[dimension] = self.placed.get(dimension, 0) + len(known)

    @property
    def grade_error(self) -> dict[str, float]:
        """Return the standard error of the grades by dimension, through the choice of anchors: a root mean square."""
        errors = {}
        for name, total in self.error_squares.items():
            errors[name] = math.sqrt(total / self.placed[name])
        return errors

    def anchors_of(self, dimension: str) -> int:
        """Return the number of anchors, or of ladders, whose rungs place the ratings on a dimension."""
        return len({each.anchor for each in self.rung_ratings if each.dimension == dimension})

    def count_rows(self, rows: Sequence[Sequence[Score]]) -> None:
        """Add rows, and count their missing scores by dimension and by reason."""
        self.rows += len(rows)
        for scores in rows:
            self.scored += all(score.value is not None for score in scores)
            for score in scores:
                if score.value is None:
                    self.unscored[score.dimension] = self.unscored.get(score.dimension, 0) + 1
                    kind = _QUOTED.sub("...", score.reason or "unparsed")
                    self.reasons[kind] = self.reasons.get(kind, 0) + 1
