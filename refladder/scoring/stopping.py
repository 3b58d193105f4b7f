"""When to stop asking about a row: bounds of its columns from the rungs asked so far, and which rung to ask next.

A column whose rungs were not all asked lies between its value if every other rung is lost and its value if every other
rung is beaten. The rule itself computes both values. Each of its operations is monotone, also after rounding, so the
value on the full ladder cannot leave the bounds by a rounding error, and a decision at exact equality stays as it is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from refladder.errors import UnknownNameError, UsageError, option
from refladder.scoring.columns import column_names, overall_column, weights_for
from refladder.scoring.judging import verdicts
from refladder.scoring.rules import RULES, bounds_of, expected_grades, over_anchors, overall, rule_named

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from refladder.arrays import FloatArray, IntArray
    from refladder.records import Dimension, Judgment
    from refladder.scoring.question import Question
    from refladder.settings import Scale


class Bounds(NamedTuple):
    """Least and greatest value and grade of the full ladder, shape (rows, dimensions, 2); NaN where unparsed."""

    values: FloatArray
    grades: FloatArray


NOT_ASKED = -1.0  # in place of the probabilities of a rung
_TINY = 1e-300  # a threshold that equals an upper bound: any loss decides


@dataclass(frozen=True, slots=True)
class _Target:
    """A column with a threshold. `position` is the number of its dimension; None for the overall column."""

    threshold: float
    position: int | None
    graded: bool


class StopRule:
    """Thresholds of columns: a row passes if every column reaches its own, and asking stops when that is certain.

    `anchors` is the number of ladders that each text is compared with on a dimension; 1 except for a shared set.
    """

    def __init__(
        self,
        thresholds: Mapping[str, float],
        dimensions: Sequence[Dimension],
        rungs: int,
        scale: Scale,
        anchors: int = 1,
    ) -> None:
        if scale.rule not in RULES:
            raise UsageError(
                f"rule {scale.rule!r} has no bounds while some rungs are unjudged, so judging cannot stop early; score "
                f"without {option('stop-at')}, or choose {option('rule')} from: "
                f"{', '.join(RULES)}"
            )
        self.thresholds = dict(thresholds)
        weights = ", ".join(f"{name}={weight:g}" for name, weight in sorted(scale.weights.items()))
        self._scale_words = f"{scale.rule}, least mass {scale.least_mass:g}{weights and f', weights {weights}'}"
        self._anchors, self._rungs = anchors, rungs * anchors
        self._rule = over_anchors(rule_named(scale.rule), anchors)
        self._humans = [(dimension.low, dimension.high) for dimension in dimensions]
        self._ends = np.array([bounds_of(self._rule, self._rungs, human) for human in self._humans])
        self._weights = weights_for(dimensions, scale.weights)
        self._targets = self._targets_of(dimensions)
        self._cutoffs = np.array([target.threshold for target in self._targets])
        self._check_dimensions(dimensions)
        # What one rung can change in each column: shape (columns, dimensions, rungs).
        self._steps = self._rung_steps()
        self._check_ranges()

    def _targets_of(self, dimensions: Sequence[Dimension]) -> list[_Target]:
        columns: dict[str, tuple[int | None, bool]] = {}
        for position, dimension in enumerate(dimensions):
            score, grade, *_ = column_names(dimension.name)
            columns[score], columns[grade] = (position, False), (position, True)
        if len(dimensions) > 1:
            columns[overall_column(dimensions)] = (None, False)
        targets = []
        for column, threshold in self.thresholds.items():
            if column not in columns:
                raise UnknownNameError("column with a threshold", column, columns)
            if not math.isfinite(threshold):
                raise UsageError(f"threshold {column}={threshold}: a threshold must be a finite number")
            targets.append(_Target(threshold, *columns[column]))
        return targets

    def _check_dimensions(self, dimensions: Sequence[Dimension]) -> None:
        for position, dimension in enumerate(dimensions):
            if not any(
                target.position == position or (target.position is None and self._weights[position] > 0)
                for target in self._targets
            ):
                raise UsageError(
                    f"no threshold depends on dimension {dimension.name!r}, so nothing says when to stop asking about "
                    f"it; add one for {column_names(dimension.name)[0]}, or leave it out with {option('dimension')}"
                )

    def _rung_steps(self) -> FloatArray:
        shape = (len(self._humans), self._rungs)
        lost = np.zeros((1 + math.prod(shape), *shape, 3))
        lost[..., 1] = 1.0
        for number, (position, rung) in enumerate(np.ndindex(shape), start=1):
            lost[number, position, rung] = (1.0, 0.0, 0.0)
        columns = self.column_bounds(self.bounds(lost))[:, :, 0]
        return cast("FloatArray", (columns[1:] - columns[0]).T.reshape(-1, *shape))

    def _check_ranges(self) -> None:
        nothing = self.column_bounds(self.bounds(np.full((1, len(self._humans), self._rungs, 3), -1.0)))[0]
        for (column, threshold), (low, high) in zip(self.thresholds.items(), nothing.tolist(), strict=True):
            if not low < threshold <= high:
                raise UsageError(
                    f"threshold {column}={threshold:g}: the column lies between {low:g} and {high:g}, so "
                    f"{'every' if threshold <= low else 'no'} row reaches it whatever the judge says; give a threshold "
                    "inside"
                )

    @property
    def words(self) -> str:
        """The thresholds as one text, for the head of a judgments file."""
        conditions = ", ".join(f"{column}>={value!r}" for column, value in sorted(self.thresholds.items()))
        return f"{conditions} ({self._scale_words})"

    def bounds(self, probabilities: FloatArray) -> Bounds:
        """Bounds from probabilities of shape (rows, dimensions, rungs, 3): -1 where not asked, NaN where unparsed."""
        absent = probabilities[..., :1] < 0
        values, grades = [], []
        for certain in ((0.0, 1.0, 0.0), (1.0, 0.0, 0.0)):  # every rung that was not asked lost, then beaten
            filled = np.where(absent, np.array(certain), probabilities)
            read = [(np.ascontiguousarray(filled[:, place]), human) for place, human in enumerate(self._humans)]
            values.append([self._rule(*of_dimension) for of_dimension in read])
            grades.append([expected_grades(*of_dimension) for of_dimension in read])
        return Bounds(np.array(values).transpose(2, 1, 0), np.array(grades).transpose(2, 1, 0))

    def column_bounds(self, bounds: Bounds) -> FloatArray:
        """Bounds of the columns with a threshold, shape (rows, columns, 2), in the order of the thresholds."""
        columns = []
        for target in self._targets:
            if target.position is not None:
                columns.append((bounds.grades if target.graded else bounds.values)[:, target.position])
            else:
                ends = [overall(bounds.values[:, :, end], self._ends, self._weights) for end in (0, 1)]
                columns.append(np.stack(ends, axis=1))
        return np.stack(columns, axis=1)

    def decisions(self, column_bounds: FloatArray) -> IntArray:
        """What is certain about rows: 1 passes, -1 does not, 0 is open, and -2 has an unparsed judgment."""
        passes = np.all(column_bounds[:, :, 0] >= self._cutoffs, axis=1)
        fails = np.any(column_bounds[:, :, 1] < self._cutoffs, axis=1)
        unparsed = np.any(np.isnan(column_bounds), axis=(1, 2))
        return np.select([unparsed, passes, fails], [-2, 1, -1], 0)

    def next_rungs(self, probabilities: FloatArray, column_bounds: FloatArray) -> IntArray:
        """The rung to ask next about each row, shape (rows,), as dimension * rungs + rung: it closes most of both ways.

        The column that is nearest to a failure is settled first, because one failure decides the row. A rung that was
        not asked is expected to have the verdict between those of its asked neighbours, and a rung below the ladder to
        be beaten, one above it to be lost.
        """
        low, high = column_bounds[:, :, 0], column_bounds[:, :, 1]
        to_fail, to_pass = high - self._cutoffs, self._cutoffs - low
        with np.errstate(invalid="ignore", divide="ignore"):
            nearness = np.where(to_pass > 0, to_fail / (high - low), np.inf)  # a column that passes is settled
        column = np.argmin(nearness, axis=1)
        rows = np.arange(len(column))
        of_anchors = probabilities.reshape(len(probabilities), -1, self._rungs // self._anchors, 3)
        beaten = _expected_shares(of_anchors).reshape(probabilities.shape[:3])
        passing, failing = to_pass[rows, column][:, None, None], to_fail[rows, column][:, None, None]
        closed = self._steps[column] * (beaten / passing + (1 - beaten) / np.maximum(failing, _TINY))
        gains = np.where(probabilities[..., 0] < 0, closed, -1.0)
        return cast("IntArray", np.argmax(gains.reshape(len(rows), -1), axis=1))

    @cached_property
    def fewest(self) -> int:
        """The fewest rungs that can settle a row, over all dimensions."""
        shape = (1, len(self._humans), self._rungs)
        numbers = []
        for certain in ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0)):
            for number in range(len(self._targets)):
                probabilities = np.full((*shape, 3), -1.0)
                order = np.argsort(-self._steps[number], axis=None, kind="stable")
                flat = probabilities.reshape(1, -1, 3)
                count = 0
                for rung in order.tolist():
                    columns = self.column_bounds(self.bounds(probabilities))[0, number]
                    threshold = self._targets[number].threshold
                    if columns[0] >= threshold or columns[1] < threshold:
                        break
                    flat[0, rung] = certain
                    count += 1
                numbers.append(count)
        to_pass, to_fail = numbers[: len(self._targets)], numbers[len(self._targets) :]
        by_dimension: dict[int | None, int] = {}
        for target, number in zip(self._targets, to_pass, strict=True):
            by_dimension[target.position] = max(number, by_dimension.get(target.position, 0))
        of_all = by_dimension.pop(None, 0)
        return min(*to_fail, max(of_all, sum(by_dimension.values())))


def _expected_shares(probabilities: FloatArray) -> FloatArray:
    """The expected share of a win (and half a tie), shape (rows, ladders, rungs): linear between asked neighbours."""
    rungs = probabilities.shape[2]
    asked = probabilities[..., 0] >= 0
    shares = np.where(asked, probabilities[..., 0] + probabilities[..., 2] / 2, 0.0)
    below, below_at = np.ones_like(shares), np.zeros_like(shares)
    above, above_at = np.zeros_like(shares), np.full_like(shares, rungs + 1.0)
    for rung in range(1, rungs):
        before = asked[..., rung - 1]
        below[..., rung] = np.where(before, shares[..., rung - 1], below[..., rung - 1])
        below_at[..., rung] = np.where(before, float(rung), below_at[..., rung - 1])
        after = asked[..., rungs - rung]
        above[..., rungs - rung - 1] = np.where(after, shares[..., rungs - rung], above[..., rungs - rung])
        above_at[..., rungs - rung - 1] = np.where(after, rungs - rung + 1.0, above_at[..., rungs - rung])
    levels = np.arange(1.0, rungs + 1)
    return cast("FloatArray", below + (above - below) * (levels - below_at) / (above_at - below_at))


def ask_in_rounds(
    stop: StopRule,
    shape: tuple[int, int, int],
    rows: Sequence[Sequence[Question]],
    stored: Sequence[Mapping[int, Judgment]],
    *,
    ask: Callable[[Sequence[Question]], Sequence[Judgment]],
    trust: Callable[[Sequence[Judgment]], Sequence[Judgment]],
) -> tuple[list[dict[int, Judgment]], Bounds]:
    """Ask about rows until every decision is certain. A row with an unparsed judgment is not asked about again.

    Each round is one call of the judge, with the next rung of every open row. `shape` is dimensions, rungs, orders;
    `stored` judgments, by the position of their question, are not asked again. `trust` gives judgments as they are
    scored; the result has those that were needed as they are stored, by position, and the bounds of values and grades.
    """
    dimensions, rungs, orders = shape
    probabilities = np.full((len(rows), dimensions, rungs, 3), NOT_ASKED)
    judgments: list[dict[int, Judgment]] = [{} for _ in rows]
    while True:
        bounds = stop.bounds(probabilities)
        columns = stop.column_bounds(bounds)
        waiting = np.flatnonzero(stop.decisions(columns) == 0)
        if not len(waiting):
            return judgments, bounds
        chosen = stop.next_rungs(probabilities[waiting], columns[waiting]).tolist()
        pairs = [
            (row, position)
            for row, rung in zip(waiting.tolist(), chosen, strict=True)
            for position in range(rung * orders, (rung + 1) * orders)
        ]
        new = [(row, position) for row, position in pairs if position not in stored[row]]
        answered = dict(zip(new, ask([rows[row][position] for row, position in new]), strict=True))
        for row, position in pairs:
            judgments[row][position] = answered.get((row, position)) or stored[row][position]
        read = verdicts(trust([judgments[row][position] for row, position in pairs]), 1, orders)[:, 0]
        probabilities.reshape(len(rows), -1, 3)[waiting, chosen] = read


def undecided(
    stop: StopRule,
    shape: tuple[int, int, int],
    stored: Sequence[Mapping[int, Judgment]],
    trust: Callable[[Sequence[Judgment]], Sequence[Judgment]],
) -> list[int]:
    """The rows that stored judgments, by the position of their question, do not decide."""
    dimensions, rungs, orders = shape
    probabilities = np.full((len(stored), dimensions, rungs, 3), NOT_ASKED)
    for row, of_row in enumerate(stored):
        whole = [
            rung
            for rung in range(dimensions * rungs)
            if all(rung * orders + order in of_row for order in range(orders))
        ]
        if whole:
            judgments = [of_row[rung * orders + order] for rung in whole for order in range(orders)]
            probabilities[row].reshape(-1, 3)[whole] = verdicts(trust(judgments), 1, orders)[:, 0]
    return np.flatnonzero(stop.decisions(stop.column_bounds(stop.bounds(probabilities))) == 0).tolist()
