"""A score as the rating that people would give, with an interval for each text."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from refladder.errors import ShapeError, UsageError

if TYPE_CHECKING:
    from refladder.arrays import FloatArray, IntArray
    from refladder.records import HumanScale

ISOTONIC_FROM = 100  # labels from which steps are fitted instead of a line
CONFIDENCE = 0.95
LEAST_INTERVAL = 60  # labels from which the intervals cover 93 to 97 %: bench/results/promise.md
_TWO = 2


class Fit(NamedTuple):
    """A curve from scores to ratings and the width of its intervals; see `refladder.records.HumanScale`."""

    isotonic: bool
    scores: FloatArray
    ratings: FloatArray
    half_width: float | None
    fitted: int
    held_out: int


def fit_human_scale(scores: FloatArray, ratings: FloatArray, contexts: IntArray, seed: int = 0) -> Fit:
    """Fit the ratings of a third of the contexts, and take the interval from the errors in the others.

    A line of least squares below `ISOTONIC_FROM` labels, else the best rising steps (pool adjacent violators). Half of
    the interval is the ceil((n + 1) 0.95)-th of the n absolute errors: split conformal, for a text of another context.
    With fewer labels than `LEAST_INTERVAL` there is none.

    Source: Papadopoulos et al. 2002, Inductive confidence machines; Barlow et al. 1972 (the steps).

    Args:
        scores: shape (labels,).
        ratings: shape (labels,).
        contexts: shape (labels,), a number for the context of each; a context is never divided.
        seed: of the choice of contexts.

    Raises:
        ShapeError: the shapes differ.
        UsageError: one context, constant scores or constant ratings.
    """
    if not scores.shape == ratings.shape == contexts.shape:
        raise ShapeError(f"scores, ratings and contexts must have one shape; got {scores.shape}, {ratings.shape}")
    names = np.unique(contexts)
    if len(names) < _TWO:
        raise UsageError("a human scale needs labels of two contexts or more: some check the fit to the others")
    for what, values in (("scores", scores), ("labels", ratings)):
        if not np.ptp(values) > 0:
            raise UsageError(f"the {what} of the labelled rows are all {values[0]:g}; a scale needs different ones")
    drawn = np.random.default_rng(seed).permutation(names)
    held = np.isin(contexts, drawn[: max(len(names) * 2 // 3, 1)])
    isotonic = len(scores) >= ISOTONIC_FROM
    knots, values = (_steps if isotonic else _line)(scores[~held], ratings[~held])
    values = np.clip(values, ratings.min(), ratings.max())
    errors = np.sort(np.abs(ratings[held] - np.interp(scores[held], knots, values)))
    rank = math.ceil((len(errors) + 1) * CONFIDENCE - 1e-9)
    half = float(errors[rank - 1]) if rank <= len(errors) and len(scores) >= LEAST_INTERVAL else None
    return Fit(isotonic, knots, values, half, int((~held).sum()), int(held.sum()))


def _line(scores: FloatArray, ratings: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The two ends of a line of least squares; a falling line becomes the mean."""
    ends = np.array([scores.min(), scores.max()])
    centred = scores - scores.mean()
    spread = float((centred**2).sum())
    slope = max(float((centred * ratings).sum()) / spread, 0.0) if spread > 0 else 0.0
    return ends, ratings.mean() + slope * (ends - scores.mean())


def _steps(scores: FloatArray, ratings: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The two ends of each step of the best rising fit."""
    from scipy.optimize import isotonic_regression  # noqa: PLC0415  slow to import

    different, position = np.unique(scores, return_inverse=True)
    weights = np.bincount(position).astype(np.float64)
    fit = isotonic_regression(np.bincount(position, weights=ratings) / weights, weights=weights)
    ends = np.unique(np.concatenate([fit.blocks[:-1], fit.blocks[1:] - 1]))
    return different[ends], fit.x[ends]


def expected_rating(scale: HumanScale, score: float) -> tuple[float, float | None, float | None]:
    """The expected rating at a score, and the ends of the interval of a text's rating; None where it has none."""
    value = float(np.interp(score, scale.scores, scale.ratings))
    if scale.half_width is None:
        return value, None, None
    return value, max(scale.low, value - scale.half_width), min(scale.high, value + scale.half_width)
