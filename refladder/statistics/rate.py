"""The share of good rows with an interval, from labels of a random sample."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import ndtri

if TYPE_CHECKING:
    from refladder.arrays import BoolArray, FloatArray, IntArray

FOLDS = 10
# From this number of labels, intervals with predictions cover 93 to 97 % (bench/results/promise.md).
LEAST = 100
# From this number of contexts, intervals of several labels a context cover (bench/results/statistics.md).
LEAST_UNITS = 8
# Below this effective share of the contexts (Kish), a few hold most of the labels.
LEAST_EVEN = 0.6


class Rate(NamedTuple):
    """A share with the ends of its interval, all between 0 and 1; None where no interval would cover."""

    value: float
    low: float | None
    high: float | None


def wilson(good: float, labels: int) -> Rate:
    """Return Wilson's score interval of 95 % of a share.

    Source: Wilson 1927, JASA 22.

    Args:
        good: good labels; an undecided one may count 1/2.
        labels: all labels, at least 1.
    """
    z = float(ndtri(0.975))
    share = good / labels
    added = z * z / labels
    middle = (share + added / 2) / (1 + added)
    half = z * math.sqrt((share * (1 - share) + added / 4) / labels) / (1 + added)
    return Rate(share, max(0.0, middle - half), min(1.0, middle + half))


def prediction_powered(
    good: BoolArray,
    predicted: FloatArray,
    everywhere: FloatArray,
    units: IntArray,
    others: IntArray,
) -> tuple[float, FloatArray]:
    """Return a share from labels of some rows and predictions of all rows (PPI++).

    theta = lam mean(f) + mean(y - lam f), with lam = cov(y, f) / ((1 + n / N) var(f)), between 0 and 1. What a unit
    adds to the error of n theta is the sum of y - lam f less its mean over its labelled rows, and of n / N lam f less
    its mean over its others.

    Source: Angelopoulos, Duchi and Zrnic 2023, PPI++, arXiv 2311.01453; with units as clusters.

    Args:
        good: shape (n,), the labels y.
        predicted: shape (n,), predictions f of the labelled rows that were made without their own labels.
        everywhere: shape (N,), predictions of rows without a label.
        units: shape (n,), numbers of the units of labelled rows, from 0.
        others: shape (N,), those of the other rows.

    Returns:
        theta, and the residual of each unit.
    """
    labels, rows = len(good), len(everywhere)
    y = good.astype(np.float64)
    variance = float(np.var(np.concatenate([predicted, everywhere]), ddof=1))
    covariance = float(np.cov(y, predicted)[0, 1])
    weight = (
        min(max(covariance / ((1 + labels / rows) * variance), 0.0), 1.0) if variance > 0 else 0.0
    )
    rest = y - weight * predicted
    value = weight * float(everywhere.mean()) + float(rest.mean())
    number = int(max(units.max(), others.max())) + 1
    of_labels = np.bincount(units, rest - rest.mean(), number)
    of_others = np.bincount(others, everywhere - everywhere.mean(), number)
    return value, of_labels + labels / rows * weight * of_others


def cross_fitted(
    good: BoolArray, levels: FloatArray, groups: IntArray, everywhere: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Predict shares of good rows from one score: a line for each fold, fitted to the labels of the other folds.

    Args:
        good: shape (n,), the labels.
        levels: shape (n,), their scores.
        groups: shape (n,), whole numbers; rows of a group are in one fold.
        everywhere: shape (N,), scores of the other rows.

    Returns:
        Predictions of the labelled rows, each from other folds, and of the others, the mean of the folds.
    """
    y = good.astype(np.float64)
    fold = groups.astype(int) % FOLDS
    predicted, total = np.empty(len(y)), np.zeros(len(everywhere))
    folds = np.unique(fold)
    for number in folds:
        held = fold == number
        slope, start = _line(levels[~held], y[~held])
        predicted[held] = np.clip(start + slope * levels[held], 0, 1)
        total += np.clip(start + slope * everywhere, 0, 1)
    return predicted, total / len(folds)


def _line(x: FloatArray, y: FloatArray) -> tuple[float, float]:
    """Return slope and intercept of least squares; slope 0 if x does not vary."""
    if not len(x):
        return 0.0, 0.5
    apart = x - x.mean()
    spread = float((apart**2).sum())
    slope = float((apart * (y - y.mean())).sum()) / spread if spread > 0 else 0.0
    return slope, float(y.mean()) - slope * float(x.mean())
