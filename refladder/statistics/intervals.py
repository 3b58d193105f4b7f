"""Intervals for correlations: a jackknife over contexts with Student's t on Fisher's scale.

Contexts are left out, not outputs: outputs of one context share its difficulty and its raters. The jackknife needs one
value per context and no seed. It covers the population value at 14 contexts as well as at 100; bootstrap percentiles
are too narrow for few contexts (see bench/results/statistics.md, section `intervals`).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import stdtrit

if TYPE_CHECKING:
    from refladder.arrays import FloatArray

# The share of such intervals that hold the population value.
CONFIDENCE = 0.95
_MOST_GROUPS = 1000


def leave_out(contexts: int) -> FloatArray:
    """Return weights, shape (groups, contexts): 0 for one context, or one of at most 1,000 groups, else 1."""
    groups = min(contexts, _MOST_GROUPS)
    return np.asarray(
        np.arange(contexts) % max(groups, 1) != np.arange(groups)[:, np.newaxis], dtype=np.float64
    )


def jackknife_interval(value: float, left_out: FloatArray, contexts: int) -> tuple[float, float]:
    """Compute the 95 % interval of a correlation, or a mean of correlations, from its values without each context.

    With k = min(contexts, groups), se^2 = (k - 1) / k * sum of (left_out - value)^2; the ends are
    tanh(atanh(value) +- t(k - 1) se / (1 - value^2)).

    Source: Tukey 1958 (the jackknife's variance); Fisher 1921 (the scale of atanh, by the delta method).

    Args:
        value: the correlation over all contexts, between -1 and 1.
        left_out: shape (groups,), the correlation without each group of contexts, NaN where undefined. A
            context that is not used does not change the value.
        contexts: number of contexts that are used.

    Returns:
        The low and the high end, between -1 and 1. NaN, NaN where the value or a value without a context is missing,
        for fewer than two contexts, and if leaving contexts out changes nothing: an interval without width would claim
        certainty.
    """
    groups = min(contexts, len(left_out))
    differences = left_out - value
    # Smaller differences are rounding errors of sums over contexts. `not (... > ...)` holds for NaN too.
    if groups < 2 or abs(value) >= 1 or not np.abs(differences).max() > 1e-12:
        return np.nan, np.nan
    error = math.sqrt((groups - 1) / groups * float((differences**2).sum()))
    distance = float(stdtrit(groups - 1, (1 + CONFIDENCE) / 2)) * error / (1 - value**2)
    middle = math.atanh(value)
    return math.tanh(middle - distance), math.tanh(middle + distance)
