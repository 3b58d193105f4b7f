"""The share of good rows, of all or of those that a threshold keeps; the units of intervals are what was drawn."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from refladder.calibration.labelling import TEXT, open_pool
from refladder.calibration.promise import check_signature, other_scores
from refladder.display.results import Shown
from refladder.errors import UsageError, plural
from refladder.statistics.rate import (
    LEAST,
    LEAST_EVEN,
    LEAST_UNITS,
    Rate,
    cross_fitted,
    prediction_powered,
    wilson,
)
from refladder.statistics.shares import residual_intervals, share_intervals

if TYPE_CHECKING:
    from refladder.arrays import BoolArray, FloatArray, IntArray
    from refladder.calibration.labelling import LabelledTable, Pool
    from refladder.calibration.records import Threshold
    from refladder.events import Events

_TWO = 2


def good_shares(
    pool: Pool, good: BoolArray, chosen: BoolArray, rows: BoolArray, scores: FloatArray
) -> tuple[Rate, Rate | None, list[str]]:
    """Return the share of good rows from labels (at least one), with the pool's scores where that covers, and notes."""
    positions = pool.labelled[chosen]
    units, contexts = pool.units[positions], pool.contexts[chosen]
    plain = share_of_good(good, units)
    if plain.low is None:
        return plain, None, [_why_not(len(np.unique(units)))]
    others = rows.copy()
    others[pool.labelled] = False
    if len(good) < LEAST or others.sum() < _TWO or len(np.unique(contexts)) < _TWO:
        return plain, None, []
    powered = powered_share(
        good, scores[positions], units, scores[others], pool.units[others], folds=contexts
    )
    return plain, powered, []


def _why_not(contexts: int) -> str:
    words = (
        f"no interval of the share of good rows: the labels are of {plural(contexts, 'context')}"
    )
    if contexts < LEAST_UNITS:
        return f"{words}; label rows of {LEAST_UNITS} or more"
    return f"{words}, of which a few hold most of them; label more contexts"


def share_of_good(good: BoolArray, units: IntArray) -> Rate:
    """Return the share of good labels, shape (labels,), and its 95 % interval: Wilson's, or of units with several."""
    units = np.unique(units, return_inverse=True)[1]
    counts = np.bincount(units).astype(np.float64)
    if counts.max() == 1:
        return wilson(int(good.sum()), len(good))
    # With fewer such contexts, the interval does not cover: bench/results/statistics.md, `rates`.
    effective = float(counts.sum() ** 2 / np.sum(counts**2))
    if effective < max(LEAST_UNITS - 1e-9, LEAST_EVEN * len(counts)):
        return Rate(float(good.mean()), None, None)
    low, high = share_intervals(np.bincount(units, good).astype(np.float64), counts).tolist()
    return Rate(float(good.mean()), low, high)


def powered_share(
    good: BoolArray,
    scores: FloatArray,
    units: IntArray,
    others: FloatArray,
    other_units: IntArray,
    *,
    folds: IntArray,
) -> Rate:
    """Return the share of good rows from labels of some and scores of all, with its 95 % interval.

    `good`, `scores`, `units` and `folds` have shape (labels,), two at least; `others` and `other_units` are of the rows
    without a label. Predictions of a row are made without labels of the same fold.
    """
    everyone = np.unique(np.concatenate([units, other_units]), return_inverse=True)[1]
    units, other_units = everyone[: len(units)], everyone[len(units) :]
    predicted, rest = cross_fitted(good, scores, folds, others)
    value, residuals = prediction_powered(good, predicted, rest, units, other_units)
    counts = np.bincount(units, minlength=len(residuals)).astype(np.float64)
    share = min(max(value, 0.0), 1.0)
    low, high = residual_intervals(np.array(share), residuals, counts).tolist()
    return Rate(share, low, high)


def rate_words(rate: Rate) -> str:
    """Show a share with its interval."""
    if rate.low is None or rate.high is None:
        return f"{rate.value:.3f} (no interval)"
    return f"{rate.value:.3f} [{rate.low:.3f}, {rate.high:.3f}] (95 % interval)"


@dataclass(frozen=True, slots=True, kw_only=True)
class RateSpec:
    """The scored table, with labels that did not choose the threshold, and the threshold."""

    table: LabelledTable
    threshold: Threshold


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptRate(Shown):
    """The share of good rows among labels of kept rows, and `powered` by the scores; None without labels.

    `reused` labels were not used, because they chose the threshold. `bound` is the promised precision, or None.
    """

    rate: Rate | None
    powered: Rate | None
    labels: int
    reused: int
    kept: int
    rows: int
    bound: float | None
    sure: float
    notes: tuple[str, ...]

    def lines(self) -> list[str]:
        """Return the counts and the shares, or why there are none."""
        kept = f"kept: {self.kept:,} of {plural(self.rows, 'row')}"
        lines = [f"{kept}; used: {plural(self.labels, 'label')} of them"]
        if self.reused:
            lines.append(f"left out: {plural(self.reused, 'label')} that chose the threshold")
        if self.rate is not None:
            lines.append(f"good among the rows kept: {rate_words(self.rate)}")
        if self.powered is not None:
            lines.append(f"the same with the scores: {rate_words(self.powered)}")
        if self.rate is None:
            bound = ""
            if self.bound is not None:
                bound = f" Its lower bound is {self.bound:g}, with probability {self.sure:g}."
            lines.append(
                f"No rate: no label of a kept row is left.{bound} Label rows that are kept, at random."
            )
        return lines

    def summary(self) -> dict[str, Any]:
        """Return the result as JSON values."""
        rates = {"rate": self.rate, "powered": self.powered}
        return asdict(self) | {name: rate and rate._asdict() for name, rate in rates.items()}


def run(spec: RateSpec, events: Events) -> KeptRate:
    """Estimate the share of good rows among those that a threshold keeps of a table."""
    table, pool = open_pool(spec.table, events)
    return kept_rate(pool, table, spec.threshold)


def kept_rate(pool: Pool, table: LabelledTable, threshold: Threshold) -> KeptRate:
    """Estimate the share of good rows among those kept; labels that chose the threshold are left out."""
    if threshold.cutoff is None:
        raise UsageError(
            "this threshold file holds a refusal, so it keeps no rows; calibrate with more labels"
        )
    check_signature(pool.signature, threshold, table.source, across_judges=table.across_judges)
    kept = pool.scores >= threshold.cutoff
    used = set(threshold.used)
    fresh = np.array([used.isdisjoint(row.digests) for row in pool.marked], dtype=np.bool_)
    chosen = fresh & kept[pool.labelled]
    good = pool.good(table.good)[chosen]
    notes = [] if table.good is None else table.good.notes(pool.labels)
    notes += _notes(used, pool)
    if differ := other_scores(pool.one_each.scores, threshold.scores):
        notes.append(differ)
    rate = powered = None
    if len(good):
        rate, powered, more = good_shares(pool, good, chosen, kept, pool.scores)
        notes += more
    return KeptRate(
        rate=rate,
        powered=powered,
        labels=len(good),
        reused=int((~fresh).sum()),
        kept=int(kept.sum()),
        rows=len(kept),
        bound=threshold.precision,
        sure=threshold.sure,
        notes=(*pool.notes, *notes),
    )


def _notes(used: set[str], pool: Pool) -> list[str]:
    with_texts = any(digest.startswith(TEXT) for digest in pool.used)
    if not used or not with_texts or any(digest.startswith(TEXT) for digest in used):
        return []
    note = "the threshold file knows the labels that chose it by their ids alone, so the same rows under other ids would "
    return [f"{note}be used again; calibrate again on a table with texts"]
