"""Correction of p-values when many tests are made."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from refladder.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence


SIGNIFICANT = 0.05
_LEAST_PERMUTATIONS = 1000


def permutations_for(tests: int) -> int:
    """Return the number of permutations with which any of these tests can be significant after Holm's correction.

    The smallest p-value of n permutations is 1 / (n + 1), and the correction multiplies it by the number of tests. With
    20 tests / alpha it can fall to alpha / 20. Never fewer than 1000.
    """
    return max(_LEAST_PERMUTATIONS, math.ceil(20 * tests / SIGNIFICANT))


def holm(p_values: Sequence[float]) -> list[float]:
    """Correct p-values by Holm's step-down method: results below a have at most chance a of any false rejection.

    The k-th smallest of m is multiplied by m - k + 1, and is never smaller than the one before it.

    Source: Holm 1979, A simple sequentially rejective multiple test procedure.

    Args:
        p_values: p-values of the tests that are reported together, between 0 and 1.

    Returns:
        Adjusted p-values in the same order, at most 1.

    Raises:
        UsageError: a p-value is not between 0 and 1.
    """
    values = np.asarray(p_values, dtype=np.float64)
    if not ((values >= 0) & (values <= 1)).all():
        raise UsageError(f"p-values must be between 0 and 1, found {list(p_values)}")
    order = np.argsort(values, kind="stable")
    raised = np.minimum(np.maximum.accumulate(values[order] * np.arange(len(values), 0, -1)), 1.0)
    adjusted = np.empty_like(values)
    adjusted[order] = raised
    return [float(value) for value in adjusted]
