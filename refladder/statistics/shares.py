"""Intervals of shares that are counted by context, with a width above 0 even at shares of 0 and 1."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np
from scipy.special import ndtri, stdtrit

from refladder.errors import ShapeError

if TYPE_CHECKING:
    from refladder.arrays import FloatArray

CONFIDENCE = 0.95
# This share of a distribution is below the upper end of its middle 95 %.
_MIDDLE = (1 + CONFIDENCE) / 2
_NORMAL = float(ndtri(_MIDDLE))
# Smaller differences from the expected points of a context are rounding errors.
_SAME = 1e-9


def share_intervals(points: FloatArray, counts: FloatArray) -> FloatArray:
    """Compute 95 % intervals of sum(points) / sum(counts), where trials of one context may depend on each other.

    This is the Wilson score interval with continuity correction on an effective number of trials: p (1 - p) / v times
    (z / t)^2. v is the variance of the share from the differences between contexts (linearised, with the leverage of
    each context); z / t accounts for the sampling error of v. t has K - 1 degrees of freedom for K contexts, or
    2 K / (k - 1) - 1 if that is less, where k is the kurtosis of the residuals of the contexts. The effective number is
    at least (sum n)^2 / sum n^2, its value if all trials of a context are equal. If contexts do not differ, it is this
    minimum at a share of 0 or 1, and the number of trials otherwise.

    Source: Korn and Graubard 1998, Survey Methodology 24 (the effective number of trials and its z / t); Newcombe 1998,
    Statistics in Medicine 17, method 4 (the interval). Coverage: bench/results/statistics.md, section `shares`.

    Args:
        points: shape (..., contexts), between 0 and the count of the context.
        counts: shape (..., contexts), trials of each context, from 0.

    Returns:
        Shape (..., 2): low and high end, between 0 and 1; NaN if fewer than two contexts have a trial.

    Raises:
        ShapeError: the shapes differ.
    """
    if points.shape != counts.shape:
        raise ShapeError(
            f"points and counts of contexts must have the same shape; got {points.shape} and {counts.shape}"
        )
    several = np.count_nonzero(counts, axis=-1) > 1
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(several, points.sum(axis=-1) / counts.sum(axis=-1), np.nan)
    residuals = points - share[..., None] * counts
    residuals = np.where(np.abs(residuals) <= _SAME * counts, 0.0, residuals)
    return residual_intervals(share, residuals, counts)


def residual_intervals(share: FloatArray, residuals: FloatArray, counts: FloatArray) -> FloatArray:
    """Compute the intervals of `share_intervals` from what contexts add to the error, in trials: (..., contexts)."""
    trials = counts.sum(axis=-1)
    contexts = np.count_nonzero(counts, axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        squares = residuals**2 / (1 - counts / trials[..., None])
        spread = squares.sum(axis=-1)
        kurtosis = contexts * (squares**2).sum(axis=-1) / spread**2
        freedom = np.clip(2 * contexts / (kurtosis - 1) - 1, 1, contexts - 1)
        shrink = (_NORMAL / stdtrit(np.where(kurtosis > 1, freedom, contexts - 1), _MIDDLE)) ** 2
        least = trials**2 / (counts**2).sum(axis=-1)
        effective = share * (1 - share) * trials**2 / spread * shrink
        certain = np.where((share <= _SAME) | (share >= 1 - _SAME), least, trials)
    return _wilson(share, np.maximum(np.where(spread > 0, effective, certain), least))


def _wilson(share: FloatArray, trials: FloatArray) -> FloatArray:
    square = _NORMAL**2

    def low(part: FloatArray) -> FloatArray:
        # The correction assumes whole numbers of points; below one point the end falls linearly to 0.
        least = np.maximum(part, 1 / trials)
        root = np.sqrt(
            np.maximum(square - 1 / trials + 4 * trials * least * (1 - least) + 4 * least - 2, 0.0)
        )
        end = (2 * trials * least + square - _NORMAL * root - 1) / (2 * (trials + square))
        return cast("FloatArray", np.maximum(end, 0.0) * np.minimum(part * trials, 1.0))

    return np.stack([low(share), 1 - low(1 - share)], axis=-1)
