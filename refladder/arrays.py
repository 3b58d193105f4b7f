"""The array types that functions take and return, and None for NaN."""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]
BoolArray: TypeAlias = NDArray[np.bool_]


def known(value: float | None) -> float | None:
    """Return a number, and None for NaN or None."""
    return None if value is None or math.isnan(value) else float(value)


def known_numbers(numbers: FloatArray) -> list[float | None]:
    """Return the numbers of an array, with None for NaN."""
    return list(map(known, numbers.tolist()))


def known_mean(numbers: ArrayLike) -> float | None:
    """Return the mean of the numbers that are not NaN; None without any."""
    values = np.asarray(numbers, dtype=np.float64)
    values = values[~np.isnan(values)]
    return float(values.mean()) if values.size else None
