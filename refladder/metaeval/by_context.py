"""Correlations within contexts of any size, for rows that are no grid of contexts and systems."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from refladder.metaeval.correlation import correlate_rows

if TYPE_CHECKING:
    from refladder.arrays import FloatArray, IntArray


def mean_within(
    predicted: FloatArray, target: FloatArray, contexts: IntArray, statistic: str = "spearman"
) -> float:
    """Mean over contexts of the correlation of their rows, of arrays of shape (rows,), finite or NaN.

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
