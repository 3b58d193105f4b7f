"""Spearman, Kendall tau-b and Pearson over the rows of two grids with missing values.

A grid has one row per context and one column per system; NaN is a missing value. A pair is complete if both values
are present. Constant rows are found by equality, not by a small variance, so equal means must be equal floats (sum the
ratings first, divide once).

Ranks and short Kendall correlations are computed for all rows at once: scipy.stats has no batch Kendall, and its ranks
are the same numbers in 1 to 2 times the time, after an import of 1 s. The tests compare all statistics with scipy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from refladder.errors import ShapeError, UnknownNameError, UsageError
from refladder.statistics import CONVENTIONS, STATISTICS

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from refladder.arrays import BoolArray, FloatArray


# Rows up to this length compare all their pairs at once; longer ones go to scipy, which takes n log n.
_PAIRWISE_COLUMNS = 64
# The pairwise comparison holds at most this number of numbers.
_CHUNK = 2**22


@dataclass(frozen=True, slots=True, kw_only=True)
class RowKinds:
    """Why a row has no correlation: three boolean arrays of shape (contexts,), at most one true per row.

    `too_few`: fewer than two complete pairs. `human_constant`: all ratings are equal, whatever the prediction.
    `predicted_constant`: the ratings differ and the predictions do not.
    """

    too_few: BoolArray
    human_constant: BoolArray
    predicted_constant: BoolArray


def complete_pairs(predicted: FloatArray, human: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Copy both grids, shape (contexts, systems), with NaN wherever either has NaN. No value may be infinite."""
    left = np.array(predicted, dtype=np.float64)
    right = np.array(human, dtype=np.float64)
    if left.shape != right.shape or left.ndim != 2:
        raise ShapeError(
            f"predicted and human must both be (contexts, systems); got {left.shape} and {right.shape}; "
            "give both one row per context, and NaN for a missing value"
        )
    for name, values in (("predicted", left), ("human", right)):
        infinite = np.argwhere(np.isinf(values))
        if len(infinite):
            row, column = infinite[0]
            raise UsageError(
                f"{name}[{row}, {column}] is {values[row, column]}; values must be finite, or NaN if missing"
            )
    missing = np.isnan(left) | np.isnan(right)
    left[missing] = np.nan
    right[missing] = np.nan
    return left, right


def row_kinds(predicted: FloatArray, human: FloatArray) -> RowKinds:
    """Return which rows of grids, shape (contexts, systems), have no correlation, and why."""
    left, right = complete_pairs(predicted, human)
    too_few = (~np.isnan(left)).sum(axis=1) < 2
    human_constant = _constant(right) & ~too_few
    return RowKinds(
        too_few=too_few,
        human_constant=human_constant,
        predicted_constant=_constant(left) & ~too_few & ~human_constant,
    )


def _constant(values: FloatArray) -> BoolArray:
    lowest = np.fmin.reduce(values, axis=1, initial=np.inf)
    highest = np.fmax.reduce(values, axis=1, initial=-np.inf)
    constant: BoolArray = lowest == highest
    return constant


def correlate_rows(
    predicted: FloatArray, human: FloatArray, statistic: str = "spearman", constant: str = "skip"
) -> FloatArray:
    """Correlate two grids row by row over complete pairs.

    Spearman is Pearson over average ranks; Kendall is tau-b. A constant vector has no correlation. Its value is a
    convention, taken from public code:

    - `skip`: NaN for constant ratings and for a constant prediction (UniEval, G-Eval).
    - `zero`: NaN for constant ratings, 0 for a constant prediction (Liusie et al., comparative-assessment).
    - `one`: 1 for constant ratings with any prediction, 0 for a constant prediction (PairS, ZEPO).

    Args:
        predicted: shape (contexts, systems), finite or NaN.
        human: the same shape, finite or NaN.
        statistic: `spearman`, `kendall` or `pearson`.
        constant: `skip`, `zero` or `one`.

    Returns:
        Shape (contexts,), between -1 and 1. NaN for a skipped row: fewer than two complete pairs, or by
        the convention.

    Raises:
        ShapeError: the shapes differ, or there are not two axes.
        UnknownNameError: no such statistic or convention.
        UsageError: a value is infinite.
    """
    check_name("statistic", statistic, STATISTICS)
    check_name("convention for constant contexts", constant, CONVENTIONS)
    left, right = complete_pairs(predicted, human)
    kinds = row_kinds(left, right)
    varied = ~(kinds.too_few | kinds.human_constant | kinds.predicted_constant)
    values = np.full(len(left), np.nan)
    if varied.any():
        values[varied] = np.clip(_ROW_STATISTICS[statistic](left[varied], right[varied]), -1.0, 1.0)
    if constant != "skip":
        values[kinds.predicted_constant] = 0.0
    if constant == "one":
        values[kinds.human_constant] = 1.0
    return values


def correlate(predicted: FloatArray, human: FloatArray, statistic: str = "spearman") -> float:
    """Correlate two vectors over their complete pairs.

    Args:
        predicted: shape (n,), finite or NaN.
        human: shape (n,), finite or NaN.
        statistic: `spearman`, `kendall` (tau-b) or `pearson`.

    Returns:
        Between -1 and 1; NaN if a vector is constant or has fewer than two complete pairs.

    Raises:
        ShapeError: the shapes differ, or there is not one axis.
        UnknownNameError: no such statistic.
        UsageError: a value is infinite.
    """
    rows = correlate_rows(np.asarray(predicted)[None], np.asarray(human)[None], statistic)
    return float(rows[0])


def partial_correlate_rows(
    predicted: FloatArray, human: FloatArray, control: FloatArray
) -> FloatArray:
    """Correlate two grids row by row and remove the influence of a third (partial Spearman correlation).

    r(xy.z) = (r_xy - r_xz r_yz) / sqrt((1 - r_xz^2) (1 - r_yz^2)) over average ranks of complete triples.
    A constant control has no influence.

    Args:
        predicted: shape (contexts, systems), finite or NaN.
        human: the same shape.
        control: the same shape, for instance the number of words of each output.

    Returns:
        Shape (contexts,), between -1 and 1. NaN for fewer than three complete triples, constant ratings or
        predictions, and where ratings or predictions have the same order as the control, so that nothing remains.

    Raises:
        ShapeError: the shapes differ, or there are not two axes.
        UsageError: a value is infinite.
    """
    left, third = complete_pairs(predicted, control)
    right, third = complete_pairs(human, third)
    left, right = complete_pairs(left, right)
    direct = correlate_rows(left, right)
    # A constant control correlates with nothing: its NaN becomes 0.
    with_left = np.nan_to_num(correlate_rows(left, third))
    with_right = np.nan_to_num(correlate_rows(right, third))
    rest_left = 1.0 - with_left**2
    rest_right = 1.0 - with_right**2
    enough = (~np.isnan(left)).sum(axis=1) > 2
    # Two different orders of n items leave at least 12 / n^3: below 1e-12 the orders are equal.
    defined = enough & (np.minimum(rest_left, rest_right) > 1e-12)
    values = np.full(len(left), np.nan)
    np.divide(
        direct - with_left * with_right, np.sqrt(rest_left * rest_right), out=values, where=defined
    )
    return np.asarray(np.clip(values, -1.0, 1.0), dtype=np.float64)


def average_ranks(values: FloatArray) -> FloatArray:
    """Rank each row, shape (rows, columns), from 1; equal values share the mean of their ranks, and NaN stays NaN."""
    columns = values.shape[1]
    # NaN comes last.
    order = np.argsort(values, axis=1)
    ordered = np.take_along_axis(values, order, axis=1)
    positions = np.broadcast_to(np.arange(columns, dtype=np.float64), values.shape)
    opens = np.ones(values.shape, dtype=np.bool_)
    opens[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    closes = np.ones(values.shape, dtype=np.bool_)
    closes[:, :-1] = opens[:, 1:]
    first = np.maximum.accumulate(np.where(opens, positions, 0.0), axis=1)
    last = np.minimum.accumulate(np.where(closes, positions, columns)[:, ::-1], axis=1)[:, ::-1]
    ranks = np.empty(values.shape)
    np.put_along_axis(ranks, order, (first + last) / 2.0 + 1.0, axis=1)
    ranks[np.isnan(values)] = np.nan
    return ranks


def ranks_over_all(values: FloatArray) -> FloatArray:
    """Rank all values of a grid together; see `average_ranks`."""
    return average_ranks(values.reshape(1, -1)).reshape(values.shape)


def check_name(kind: str, name: str, available: tuple[str, ...]) -> None:
    """Check that a name is available; the message suggests a similar name."""
    if name not in available:
        raise UnknownNameError(kind, name, available)


def _spearman_rows(left: FloatArray, right: FloatArray) -> FloatArray:
    # Ranks are halves and their mean is (n + 1) / 2, so all sums below are exact.
    middle = ((~np.isnan(left)).sum(axis=1, keepdims=True) + 1) / 2.0
    return _normalised(*(np.nan_to_num(average_ranks(values) - middle) for values in (left, right)))


def _pearson_rows(left: FloatArray, right: FloatArray) -> FloatArray:
    return _normalised(_deviations(left), _deviations(right))


def _deviations(values: FloatArray) -> FloatArray:
    """Return deviations from the mean of each row, scaled twice so that no sum or square overflows or underflows."""
    scaled = values / np.fmax.reduce(np.abs(values), axis=1)[:, np.newaxis]
    distances = np.nan_to_num(scaled - np.nanmean(scaled, axis=1, keepdims=True))
    scaled_distances: FloatArray = distances / np.abs(distances).max(axis=1, keepdims=True)
    return scaled_distances


def _normalised(left: FloatArray, right: FloatArray) -> FloatArray:
    products = np.einsum("ij,ij->i", left, right)
    squares = np.einsum("ij,ij->i", left, left) * np.einsum("ij,ij->i", right, right)
    return np.asarray(products / np.sqrt(squares), dtype=np.float64)


def _kendall_rows(left: FloatArray, right: FloatArray) -> FloatArray:
    rows, columns = left.shape
    if columns > _PAIRWISE_COLUMNS:
        from scipy.stats import kendalltau

        complete = ~np.isnan(left)
        taus = [
            kendalltau(x[used], y[used], method="asymptotic")[0]
            for x, y, used in zip(left, right, complete, strict=True)
        ]
        return np.array(taus)
    values = np.empty(rows)
    step = max(1, _CHUNK // (columns * columns))
    for start in range(0, rows, step):
        part = slice(start, start + step)
        order_left = pair_signs(left[part, :, np.newaxis], left[part, np.newaxis, :])
        order_right = pair_signs(right[part, :, np.newaxis], right[part, np.newaxis, :])
        agreeing = (order_left * order_right).sum(axis=(1, 2), dtype=np.int64)
        untied_left = np.abs(order_left).sum(axis=(1, 2), dtype=np.float64)
        untied_right = np.abs(order_right).sum(axis=(1, 2), dtype=np.float64)
        values[part] = agreeing / np.sqrt(untied_left * untied_right)
    return values


def pair_signs(first: FloatArray, second: FloatArray) -> NDArray[np.int8]:
    """Return 1 where first > second, -1 where first < second, else 0, also for NaN; shapes broadcast."""
    signs: NDArray[np.int8] = (first > second).astype(np.int8) - (first < second).astype(np.int8)
    return signs


_ROW_STATISTICS: dict[str, Callable[[FloatArray, FloatArray], FloatArray]] = {
    "spearman": _spearman_rows,
    "kendall": _kendall_rows,
    "pearson": _pearson_rows,
}


def area_under_curve(scores: FloatArray, good: BoolArray) -> float | None:
    """Return the probability that a good row has a higher score than a bad one; equal scores count one half.

    Args:
        scores: shape (rows,).
        good: shape (rows,).

    Returns:
        Between 0 and 1; None if all rows are good, or none is.
    """
    bad = scores[~good]
    return float(ranks_among(scores[good], bad).mean()) if good.any() and len(bad) else None


def ranks_among(scores: FloatArray, others: FloatArray) -> FloatArray:
    """Return the share of other scores below each score, plus half of the share that are equal."""
    ordered = np.sort(others)
    below, reached = (np.searchsorted(ordered, scores, side=side) for side in ("left", "right"))
    ranks: FloatArray = (below + reached) / (2 * len(others))
    return ranks
