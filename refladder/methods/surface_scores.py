"""The best surface measure as a score of rows with labels, chosen on other contexts: what length alone could do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from refladder.methods.surface import MEASURES, surface_measures
from refladder.records import Context
from refladder.trust.threshold import area_under_curve

if TYPE_CHECKING:
    from collections.abc import Sequence

    from refladder.arrays import BoolArray, FloatArray, IntArray

FOLDS = 5


def measured(texts: Sequence[tuple[str, str]]) -> FloatArray:
    """Surface measures of texts beside their contexts, shape (texts, measures) in the order of `MEASURES`."""
    by_context: dict[str, list[int]] = {}
    for number, (context, _) in enumerate(texts):
        by_context.setdefault(context, []).append(number)
    values = np.empty((len(texts), len(MEASURES)))
    for context, numbers in by_context.items():
        values[numbers] = surface_measures(
            Context(id="", task="", text=context), [texts[number][1] for number in numbers]
        )
    return values


def best_surface(
    labelled: FloatArray, good: BoolArray, folds: IntArray, others: FloatArray
) -> tuple[FloatArray, FloatArray, str]:
    """The score of the measure with the greatest area under the curve in the labels of other contexts, standardised.

    The folds take turns in `others`, in its order; all labels of a context are in one. Shapes: `labelled` (labels,
    measures), `good` and `folds` (labels,), `others` (rows, measures). Gives scores of both, and the usual measure.
    """
    middle, spread = others.mean(axis=0), others.std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    left, right = (labelled - middle) / spread, (others - middle) / spread
    chosen = np.empty(FOLDS, dtype=np.int64)
    for fold in range(FOLDS):
        rest = folds != fold
        areas = [area_under_curve(measure, good[rest]) for measure in left[rest].T]
        chosen[fold] = np.argmax([0.5 if area is None else area for area in areas])
    turns = chosen[np.arange(len(others)) % FOLDS]
    name = list(MEASURES)[int(np.bincount(chosen[folds] if len(folds) else chosen).argmax())]
    return left[np.arange(len(left)), chosen[folds]], right[np.arange(len(right)), turns], name
