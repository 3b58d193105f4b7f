"""The best of several measures, chosen for each context on the other contexts, so that the choice is unbiased."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from refladder.statistics.correlation import correlate_rows, ranks_over_all

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from refladder.arrays import FloatArray


def choose_on_other_contexts(measures: FloatArray, human: FloatArray) -> NDArray[np.int64]:
    """Choose for each context the measure that agrees best with the ratings of all other contexts.

    This is the measure with the largest mean Spearman correlation within the other contexts. A measure that is constant
    in a context counts 0 there, so that all measures are compared on the same contexts. If no other context has a
    correlation (each has one output, for example), the choice is by the correlation of ranks over all outputs of the
    other contexts; ranks are computed once, over all outputs. If that is undefined too, or measures are equally good,
    the first measure is chosen.

    Args:
        measures: shape (measures, contexts, systems), finite or NaN.
        human: shape (contexts, systems), finite or NaN.

    Returns:
        Shape (contexts,), indices of measures.

    Raises:
        ShapeError: the shapes differ.
        UsageError: a value is infinite.
    """
    rows = np.array([correlate_rows(measure, human, "spearman", "zero") for measure in measures])
    counted = ~np.isnan(rows)
    values = np.where(counted, rows, 0.0)
    others = counted.sum(axis=1, keepdims=True) - counted
    sums = values.sum(axis=1, keepdims=True) - values
    within = np.divide(sums, others, out=np.full(rows.shape, -np.inf), where=others > 0)
    # Without rounding, the order of a sum would choose between equal measures.
    within_choice: NDArray[np.int64] = np.round(within, 12).argmax(axis=0)
    if (others > 0).any(axis=0).all():
        return within_choice
    pooled = np.array([_ranks_without_each_context(measure, human) for measure in measures])
    choice: NDArray[np.int64] = np.where(
        (others > 0).any(axis=0), within_choice, np.round(pooled, 12).argmax(axis=0)
    )
    return choice


def _ranks_without_each_context(measure: FloatArray, human: FloatArray) -> FloatArray:
    """Correlate ranks over all outputs except those of a context; -inf if undefined. Shape (contexts,)."""
    missing = np.isnan(measure) | np.isnan(human)
    left = np.nan_to_num(ranks_over_all(np.where(missing, np.nan, measure)))
    right = np.nan_to_num(ranks_over_all(np.where(missing, np.nan, human)))

    def without_each(grid: FloatArray) -> FloatArray:
        sums: FloatArray = grid.sum() - grid.sum(axis=1)
        return sums

    count = without_each((~missing).astype(np.float64))

    def products(one: FloatArray, other: FloatArray) -> FloatArray:
        return count * without_each(one * other) - without_each(one) * without_each(other)

    both = products(left, right)
    squares = np.maximum(products(left, left), 0.0) * np.maximum(products(right, right), 0.0)
    spread = np.sqrt(squares)
    correlations: FloatArray = np.divide(
        both, spread, out=np.full(len(human), -np.inf), where=spread > 0
    )
    return correlations


def standardise(measures: FloatArray) -> FloatArray:
    """Scale each measure, shape (measures, contexts, systems), to mean 0 and deviation 1; a constant one becomes 0."""
    axes = (1, 2)
    centred = measures - np.nanmean(measures, axis=axes, keepdims=True)
    highest = np.nanmax(measures, axis=axes, keepdims=True)
    constant = highest == np.nanmin(measures, axis=axes, keepdims=True)
    deviation = np.sqrt(np.nanmean(centred**2, axis=axes, keepdims=True))
    scaled = centred / np.where(constant, 1.0, deviation)
    return np.where(constant & ~np.isnan(measures), 0.0, scaled)
