"""Correlation at one level: within contexts, over all outputs, or between systems.

Publications use contradictory names for the levels:

| here | paper 2509.05440, appendix B | UniEval's code | SummEval paper |
|---|---|---|---|
| within_context | sample-level | summary-level | |
| pooled | summary-level | sample-level | |
| between_systems | system-level | system-level | system-level |
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from refladder.statistics import LEVELS
from refladder.statistics.correlation import (
    check_name,
    complete_pairs,
    correlate,
    correlate_rows,
    row_kinds,
)

if TYPE_CHECKING:
    from refladder.arrays import FloatArray, IntArray


class Correlation(NamedTuple):
    """A correlation and the contexts behind it.

    `value` is between -1 and 1, NaN if undefined. `contexts` is the number of contexts used, `skipped` the number left
    out; together they are all rows of the grid. `constant_predicted` counts the contexts with varying ratings and
    constant predictions. They are counted in `skipped` or, if the convention gives them a value, in `contexts`.
    """

    value: float
    contexts: int
    skipped: int
    constant_predicted: int


def correlate_level(
    predicted: FloatArray,
    human: FloatArray,
    *,
    level: str = "within_context",
    statistic: str = "spearman",
    constant: str = "skip",
) -> Correlation:
    """Correlate predictions and ratings at one level.

    `within_context` averages over contexts the correlation over systems. `pooled` correlates all outputs of all
    contexts at once. `between_systems` correlates the mean prediction of each system with its mean rating, both over
    the contexts with both values. Other names for these are in the table above.

    Args:
        predicted: shape (contexts, systems), finite or NaN.
        human: the same shape.
        level: `within_context`, `pooled` or `between_systems`.
        statistic: `spearman`, `kendall` or `pearson`.
        constant: how constant contexts count at `within_context`: `skip`, `zero` or `one` (see `correlate_rows`).
            The other levels ignore it.

    Raises:
        ShapeError: the shapes differ, or there are not two axes.
        UnknownNameError: no such level, statistic or convention.
        UsageError: a value is infinite.
    """
    check_name("level", level, LEVELS)
    if level == "within_context":
        rows = correlate_rows(predicted, human, statistic, constant)
        constant_predicted = int(row_kinds(predicted, human).predicted_constant.sum())
        return average_over_contexts(rows, constant_predicted)
    left, right = complete_pairs(predicted, human)
    if level == "pooled":
        value = correlate(left.ravel(), right.ravel(), statistic)
    else:
        means = system_means(left, right, np.ones((1, len(left))), statistic)
        value = float(correlate_rows(*means, statistic)[0])
    used = int((~np.isnan(left)).any(axis=1).sum())
    return Correlation(
        value=value,
        contexts=used,
        skipped=len(left) - used,
        constant_predicted=int(row_kinds(left, right).predicted_constant.sum()),
    )


def average_over_contexts(rows: FloatArray, constant_predicted: int) -> Correlation:
    """Average the correlations of contexts, shape (contexts,); NaN is skipped and counted."""
    used = rows[~np.isnan(rows)]
    return Correlation(
        value=float(used.mean()) if len(used) else np.nan,
        contexts=len(used),
        skipped=len(rows) - len(used),
        constant_predicted=constant_predicted,
    )


def system_means(
    left: FloatArray, right: FloatArray, weights: FloatArray, statistic: str
) -> tuple[FloatArray, FloatArray]:
    """Return weighted means of each system over contexts: two arrays, (rows, systems), NaN without a complete pair.

    Grids are from `complete_pairs`, weights have shape (rows, contexts). Rank statistics get rounded means, so that
    rounding errors do not break ties.
    """
    complete = ~np.isnan(left)
    counts = weights @ complete
    means = []
    for values in (left, right):
        sums = weights @ np.where(complete, values, 0.0)
        mean = np.divide(sums, counts, out=np.full(sums.shape, np.nan), where=counts > 0)
        largest = np.fmax.reduce(np.abs(values), axis=None, initial=0.0)
        if statistic != "pearson" and largest > 0:
            mean = np.round(mean / largest, 12)
        means.append(mean)
    return means[0], means[1]


def mean_within(
    predicted: FloatArray, target: FloatArray, contexts: IntArray, statistic: str = "spearman"
) -> float:
    """Average over contexts the correlation of their rows, of arrays of shape (rows,), finite or NaN.

    A context with one row, or with constant numbers, is skipped; NaN if every one is. `contexts` are numbers.
    """
    order = np.argsort(contexts, kind="stable")
    starts = np.flatnonzero(np.diff(contexts[order], prepend=-1))
    sizes = np.diff(np.append(starts, len(order)))
    values: list[float] = []
    for size in np.unique(sizes[sizes > 1]).tolist():
        rows = order[starts[sizes == size][:, np.newaxis] + np.arange(size)]
        correlations = correlate_rows(predicted[rows], target[rows], statistic)
        values += correlations[~np.isnan(correlations)].tolist()
    return float(np.mean(values)) if values else float("nan")
