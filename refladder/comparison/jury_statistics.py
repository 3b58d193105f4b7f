"""Grades of several judges as one number, and how each judge is in step with the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from refladder.arrays import known, known_mean
from refladder.comparison.decisions import changed_share
from refladder.statistics.correlation import correlate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from refladder.arrays import FloatArray

# Means of the same grades in another order differ in the last digits, and decisions must not.
_DIGITS = 9


class InStep(NamedTuple):
    """A judge beside the others, over the texts that all of them graded; what is undefined is None.

    `mean` is that of its grades, and `shift` the difference to the jury's mean in standard deviations of the jury. `within`
    and `pooled` are rank correlations with the mean of the others: the mean over contexts, and over all texts. `changed` is
    the share of the jury's decisions that change without it.
    """

    mean: float | None
    shift: float | None
    within: float | None
    pooled: float | None
    changed: float | None


def combined(grades: FloatArray, *, median: bool = False) -> FloatArray:
    """Return the mean or median of the judges' grades, over the first axis; NaN where no judge gave one."""
    found = np.full(grades.shape[1:], np.nan)
    some = ~np.isnan(grades).all(axis=0)
    found[some] = (np.nanmedian if median else np.nanmean)(grades[:, some], axis=0)
    return cast("FloatArray", np.round(found, _DIGITS))


def spreads(grades: FloatArray) -> FloatArray:
    """Return the standard deviation (n - 1) between the judges' grades, over the first axis; NaN for fewer than two."""
    found = np.full(grades.shape[1:], np.nan)
    several = (~np.isnan(grades)).sum(axis=0) > 1
    found[several] = np.nanstd(grades[:, several], axis=0, ddof=1)
    return found


def in_step(grades: FloatArray, contexts: Sequence[str], *, median: bool = False) -> list[InStep]:
    """Compare each judge with the others.

    Args:
        grades: shape (judges, texts), two judges or more; only texts that all graded count.
        contexts: that of each text, empty where it is not known.
        median: whether the jury's grade is the median.
    """
    every = ~np.isnan(grades).any(axis=0)
    grades, at = grades[:, every], np.asarray(contexts, dtype=np.str_)[every]
    if not len(at):
        return [InStep(None, None, None, None, None)] * len(grades)
    jury = combined(grades, median=median)
    spread = float(np.std(jury))
    order = np.argsort(at, kind="stable")
    parts = np.split(order, np.flatnonzero(at[order][1:] != at[order][:-1]) + 1)
    parts = [part for part in parts if at[part[0]] and len(part) > 1]
    found = []
    for judge in range(len(grades)):
        its, others = grades[judge], np.delete(grades, judge, axis=0)
        mean = combined(others)
        within = np.array([correlate(its[part], mean[part]) for part in parts])
        step = InStep(
            mean=float(np.mean(its)),
            shift=float(np.mean(its) - np.mean(jury)) / spread if spread else None,
            within=known_mean(within),
            pooled=known(correlate(its, mean)),
            changed=changed_share(combined(others, median=median), jury),
        )
        found.append(step)
    return found


def least_in_step(correlations: Sequence[Sequence[float | None]]) -> int | None:
    """Return the number of the judge with the least mean of its rank correlations, those with each criterion.

    None of fewer than three judges, where a correlation is not known, and where two judges are equal.
    """
    if len(correlations) < 3 or any(value is None for its in correlations for value in its):
        return None
    means = np.array(correlations, dtype=np.float64).mean(axis=1)
    least = np.flatnonzero(np.isclose(means, means.min(), rtol=0, atol=1e-12))
    return int(least[0]) if len(least) == 1 else None
