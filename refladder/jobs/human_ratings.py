"""A scale from scores to human ratings: made from labels, and added to scored rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from refladder.errors import DataError, UsageError, option
from refladder.records import HumanScale, scale_of
from refladder.trust.human_scale import expected_rating, fit_human_scale
from refladder.version import __version__

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from refladder.jobs.labelling import Asked, Pool

_ENDINGS = ("_score", "_grade")


def human_scale(pool: Pool, asked: Asked) -> HumanScale:
    """The expected rating at each score of one column, from its labels."""
    if len(asked.by) != 1 or len(asked.label) != 1:
        raise UsageError("--human-scale maps one score to one rating; give one --by and one --label")
    if not len(pool.labelled):
        raise DataError(f"no scored row has a label in {asked.label[0]}; fill that column for some rows")
    if pool.lowest is not None:
        raise UsageError(
            "all labels are of rows above a score, and a human scale needs all scores; label rows of all scores"
        )
    ratings = np.array(pool.labels[0], dtype=np.float64)
    fit = fit_human_scale(pool.scores[pool.labelled, 0], ratings, pool.contexts)
    return HumanScale(
        column=asked.by[0],
        signature=pool.signature,
        label=asked.label[0],
        method="isotonic" if fit.isotonic else "linear",
        scores=tuple(fit.scores.tolist()),
        ratings=tuple(fit.ratings.tolist()),
        half_width=fit.half_width,
        low=float(ratings.min()),
        high=float(ratings.max()),
        fitted=fit.fitted,
        held_out=fit.held_out,
        version=__version__,
    )


class ExpectedRatings:
    """Adds the columns NAME_expected, NAME_expected_low and NAME_expected_high to scored rows."""

    def __init__(self, scale: HumanScale, columns: Collection[str], signature: str) -> None:
        if scale.column not in columns:
            raise UsageError(
                f"{option('calibration')}: a scale of column {scale.column!r}, which these scores do not have; choose "
                "its dimension, or run `refladder calibrate --human-scale` for this one"
            )
        if scale_of(scale.signature) != scale_of(signature):
            raise UsageError(
                f"{option('calibration')}: a scale for scores with another signature, {scale.signature or 'none'}; "
                f"these have {signature}. Run `refladder calibrate --human-scale` with labels of these scores"
            )
        self._scale = scale
        stem = next((scale.column.removesuffix(end) for end in _ENDINGS if scale.column.endswith(end)), scale.column)
        self._names = (f"{stem}_expected", f"{stem}_expected_low", f"{stem}_expected_high")

    @property
    def added(self) -> dict[str, type]:
        """The columns and their type."""
        return dict.fromkeys(self._names, float)

    def values(self, row: Mapping[str, Any]) -> dict[str, float | None]:
        """The columns of a row; None where it has no score, and for the ends where the scale has no interval."""
        score = row[self._scale.column]
        numbers = (None, None, None) if score is None else expected_rating(self._scale, float(score))
        return dict(zip(self._names, numbers, strict=True))
