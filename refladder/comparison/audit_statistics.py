"""Statistics of an audit: length preference, and the shift of a verdict when sentences are added."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import stdtrit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from refladder.arrays import FloatArray


class Mean(NamedTuple):
    """A mean over contexts with the ends of its interval; None where there is none. `of` is the number of contexts."""

    value: float | None
    low: float | None
    high: float | None
    of: int


class Figure(NamedTuple):
    """One figure of an audit: a share or a mean with its 95 % interval over contexts, None where it has none."""

    dimension: str
    measure: str
    value: float | None
    low: float | None
    high: float | None
    of: int


def mean_over_contexts(values: FloatArray, contexts: Sequence[str]) -> Mean:
    """Return the mean of the means of contexts, with Student's t interval of 95 %: mean +- t(K - 1) s / sqrt(K) for K contexts.

    Args:
        values: shape (n,), any unit; NaN is left out.
        contexts: of each value; values of one context may depend on each other.

    Returns:
        The ends are None for fewer than two contexts, and where all contexts have the same mean: an interval without
        width would claim certainty.
    """
    by_context: dict[str, list[float]] = {}
    for value, context in zip(values.tolist(), contexts, strict=True):
        if not math.isnan(value):
            by_context.setdefault(context, []).append(value)
    means = np.array([sum(own) / len(own) for own in by_context.values()])
    count = len(means)
    if count == 0:
        return Mean(None, None, None, 0)
    mean = float(means.mean())
    if count == 1 or np.ptp(means) <= 1e-12:
        return Mean(mean, None, None, count)
    error = float(means.std(ddof=1)) / math.sqrt(count)
    distance = float(stdtrit(count - 1, 0.975)) * error
    return Mean(mean, mean - distance, mean + distance, count)


def longer_wins(w: FloatArray, lengths: FloatArray) -> tuple[int, int, int]:
    """Return how often the longer of two rungs wins, and how often it is the higher one.

    Args:
        w: shape (N, N), probability that the rung of the column is better than that of the row; NaN if unparsed.
        lengths: shape (N,), from the worst rung.

    Returns:
        (pairs in which the longer rung is preferred, pairs in which the longer rung is the higher one, pairs of
        different length that decide).
    """
    low, high = np.triu_indices(len(lengths), 1)
    preferred = np.sign(np.round(w[low, high] - 0.5, 9))
    longer = np.sign(lengths[high] - lengths[low])
    used = ~np.isnan(preferred) & (preferred != 0) & (longer != 0)
    return (
        int((preferred[used] == longer[used]).sum()),
        int((longer[used] > 0).sum()),
        int(used.sum()),
    )
