"""calibrate: scored rows and labels of some -> a cut-off with a promise, or a refusal."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np

from refladder.errors import DataError, UsageError
from refladder.jobs.good_share import good_shares
from refladder.methods.surface_scores import FOLDS, best_surface, measured
from refladder.records import Threshold
from refladder.trust.threshold import (
    Candidates,
    area_under_curve,
    candidates,
    check_promise,
    least_labels,
    looks_random,
    lower_bound,
    naive_candidate,
    precise_on_average,
    surely_complete,
    surely_precise,
)
from refladder.version import __version__

if TYPE_CHECKING:
    from refladder.arrays import BoolArray, FloatArray, IntArray
    from refladder.jobs.labelling import Asked, Pool
    from refladder.trust.rate import Rate

_TWO = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """What is promised: a precision or a recall, with probability `sure`, or a precision on average (`sure` None).

    Raises:
        UsageError: both or neither is given, a recall on average, or a number is not between 0 and 1.
    """

    precision: float | None = None
    recall: float | None = None
    sure: float | None = 0.9

    def __post_init__(self) -> None:
        if (self.precision is None) == (self.recall is None):
            raise UsageError("give what to promise: either --precision or --recall, such as --precision 0.9")
        if self.recall is not None and self.sure is None:
            raise UsageError("--on-average promises a precision; give --precision, or leave out --on-average")
        check_promise(self.share, 0.5 if self.sure is None else self.sure)

    @property
    def share(self) -> float:
        """The promised precision or recall."""
        return float(self.recall if self.precision is None else self.precision)  # type: ignore[arg-type]

    def choose(self, path: Candidates, levels: IntArray, good: BoolArray) -> IntArray:
        """The promised candidate of each sample of labels, or -1.

        Args:
            path: the candidates.
            levels: shape (..., labels), see `Candidates.levels`.
            good: the same shape.
        """
        bad = counts(path, levels, ~good)
        if self.sure is None:
            labels = counts(path, levels, np.ones(good.shape, np.bool_))[..., -1]
            return precise_on_average(bad, labels, path.rows, self.share)
        if self.recall is not None:
            total = good.sum(axis=-1)
            return surely_complete(total[..., np.newaxis] - counts(path, levels, good), total, self.share, self.sure)
        return surely_precise(path.counts(levels), bad, self.share, self.sure)


def counts(path: Candidates, levels: IntArray, chosen: BoolArray) -> IntArray:
    """How many of the chosen rows each candidate keeps; shapes as in `Candidates.counts`."""
    return path.counts(np.where(chosen, levels, len(path.cutoffs)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A candidate cut-off with its labels: `low` is the lower bound of its precision if it were the only one."""

    cutoffs: tuple[float, ...]
    kept: int
    kept_share: float
    labels_above: int
    bad_above: int
    precision: float | None
    low: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Surface:
    """The same procedure on the best surface measure: its name, share of rows kept (None: refused) and AUC."""

    measure: str
    kept_share: float | None
    auc: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """The result of `calibrate`.

    `threshold` is the file's record. `steps` are the candidates, strictest first, and `chosen` the number of the
    promised one, None where it is refused; `naive` that of the cut-off without a promise. `labels_needed` more labels
    of rows that reach `lowest` would do if none of them is bad (with `recall`: more labels of good rows); it is 0 for
    a promise that is made. `auc` is None where all labels are good or none is. `rate` and `powered` are the share of
    good rows among all, from the labels alone and with the scores; None where that would be no such share.
    """

    threshold: Threshold
    promise: Promise
    steps: tuple[Step, ...]
    chosen: int | None
    naive: int | None
    lowest: Step
    labels_needed: int
    auc: float | None
    surface: Surface | None
    rate: Rate | None
    powered: Rate | None
    unscored: int
    notes: tuple[str, ...]

    @property
    def refused(self) -> bool:
        """Whether no cut-off can be promised."""
        return self.chosen is None

    @property
    def surface_suffices(self) -> bool:
        """Whether the surface measure can make the promise, and keeps no less (with a recall: no more)."""
        if self.surface is None or self.surface.kept_share is None:
            return False
        kept = self.threshold.kept / self.threshold.rows
        more = self.surface.kept_share >= kept
        return more if self.promise.recall is None else self.refused or self.surface.kept_share <= kept


def calibrate(pool: Pool, asked: Asked, promise: Promise) -> Calibration:
    """Choose the cut-off that keeps the most rows (with a recall: the fewest) under a promise.

    Args:
        pool: scores of all rows and labels of a random sample of them.
        asked: what the columns are.
        promise: what to promise.

    Raises:
        DataError: no row has a score, or no row has a label.
        UsageError: a recall is asked for, and the labels are of the rows above a score only.
    """
    if not len(pool.scores):
        raise DataError(f"no row has a number in {', '.join(asked.by)}; score the rows first")
    if not len(pool.labelled):
        raise DataError(f"no scored row has a label in {', '.join(asked.label)}; fill that column for some rows")
    if pool.lowest is not None and promise.recall is not None:
        raise UsageError("these labels are of rows above a score only, which show no recall; label rows of all scores")
    path, good = candidates(pool.scores, len(pool.labelled), pool.lowest), pool.good(asked.conditions)
    levels = path.levels(pool.scores[pool.labelled])
    inside = levels < len(path.cutoffs)
    levels, good, positions = levels[inside], good[inside], pool.labelled[inside]
    above, bad = path.counts(levels), counts(path, levels, ~good)
    chosen = int(promise.choose(path, levels, good))
    naive = int(_naive(promise, above, bad, good))
    steps = _steps(path, above, bad, promise.sure or 0.9)
    lowest, needed = _needed(promise, path, steps, naive, int(good.sum()))
    kept = steps[chosen] if chosen >= 0 else None
    overall = _combined(path, pool.scores)
    labelled_all = pool.lowest is None and bool(inside.all())
    everything = np.ones(len(pool.scores), np.bool_)
    rate, powered, more = good_shares(pool, good, inside, everything, overall) if labelled_all else (None, None, [])
    return Calibration(
        threshold=Threshold(
            columns=asked.by,
            cutoffs=kept.cutoffs if kept else None,
            precision=promise.precision,
            recall=promise.recall,
            sure=promise.sure,
            per=asked.per,
            signature=pool.signature,
            label=asked.label,
            good=tuple(condition.text for condition in asked.conditions),
            labels=len(good),
            labels_above=kept.labels_above if kept else 0,
            bad_above=kept.bad_above if kept else 0,
            rows=len(pool.scores),
            kept=kept.kept if kept else 0,
            used=tuple(dict.fromkeys(itertools.chain.from_iterable(pool.digests))),
            version=__version__,
            unit=pool.unit,
        ),
        promise=promise,
        steps=steps,
        chosen=chosen if kept else None,
        naive=naive if naive >= 0 else None,
        lowest=lowest,
        labels_needed=0 if kept else needed,
        auc=area_under_curve(overall[positions], good),
        surface=_surface(pool, inside, good, promise),
        rate=rate,
        powered=powered,
        unscored=pool.unscored,
        notes=(*pool.notes, *_notes(pool, asked, good, overall, positions), *more),
    )


def _naive(promise: Promise, above: IntArray, bad: IntArray, good: BoolArray) -> IntArray | int:
    if promise.precision is not None:
        return naive_candidate(above, bad, promise.share)
    reached = np.flatnonzero(above - bad >= promise.share * good.sum() - 1e-9)
    return int(reached[0]) if good.any() else -1


def _steps(path: Candidates, above: IntArray, bad: IntArray, sure: float) -> tuple[Step, ...]:
    lows = lower_bound(bad, above, sure)
    return tuple(
        Step(
            cutoffs=tuple(path.cutoffs[number].tolist()),
            kept=int(path.rows[number]),
            kept_share=int(path.rows[number]) / path.total,
            labels_above=int(above[number]),
            bad_above=int(bad[number]),
            precision=1 - int(bad[number]) / int(above[number]) if above[number] else None,
            low=float(lows[number]),
        )
        for number in range(len(path.rows))
    )


def _needed(promise: Promise, path: Candidates, steps: tuple[Step, ...], naive: int, good: int) -> tuple[Step, int]:
    """The lowest candidate that the labels so far allow, and how many more good labels there would do."""
    if promise.recall is not None:
        return steps[-1], max(least_labels(0, promise.share, promise.sure or 0.9) - good, 0)

    def missing(number: int) -> int:
        step = steps[number]
        if promise.sure is not None:
            return max(least_labels(step.bad_above, promise.share, promise.sure) - step.labels_above, 0)
        share = (1 - promise.share) * float(path.rows[number] / path.rows[-1])
        return max(math.ceil((1 + step.bad_above) / share - 1 - 1e-9) - steps[-1].labels_above, 0)

    others = sorted(range(len(steps)), key=lambda each: (missing(each), -each))
    # A candidate with enough labels was not reached, because a stricter one has too few of them.
    number = next((each for each in [*([naive] if naive >= 0 else []), *others] if missing(each)), others[0])
    return steps[number], missing(number)


def _combined(path: Candidates, scores: FloatArray) -> FloatArray:
    """One score for each row: its only column, or the number of its candidate, higher for stricter ones."""
    return scores[:, 0] if scores.shape[1] == 1 else -path.levels(scores).astype(np.float64)


def _reached(pool: Pool) -> BoolArray:
    """The rows from which the labels were drawn."""
    lowest = -np.inf if pool.lowest is None else pool.lowest
    return cast("BoolArray", np.logical_and.reduce(pool.scores >= lowest, axis=1))


def _surface(pool: Pool, inside: BoolArray, good: BoolArray, promise: Promise) -> Surface | None:
    """The same procedure on the best surface measure; None where labelled rows have no text or one context."""
    if not pool.texts or len(np.unique(pool.contexts)) < _TWO:
        return None
    reached = _reached(pool)
    sample = [(texts.context, texts.output) for texts in pool.sample if reached[texts.position]]
    labelled = [(texts.context, texts.output) for texts, used in zip(pool.texts, inside, strict=True) if used]
    values = measured(labelled + sample)
    folds = pool.contexts[inside] % FOLDS
    scores, others, name = best_surface(values[: len(labelled)], good, folds, values[len(labelled) :])
    path = candidates(others[:, np.newaxis], len(labelled))
    chosen = int(promise.choose(path, path.levels(scores[:, np.newaxis]), good))
    share = int(path.rows[chosen]) / path.total * float(reached.mean()) if chosen >= 0 else None
    return Surface(measure=name, kept_share=share, auc=area_under_curve(scores, good))


def _notes(pool: Pool, asked: Asked, good: BoolArray, overall: FloatArray, positions: IntArray) -> list[str]:
    notes = []
    if not good.any():
        met = " and ".join(dict.fromkeys(condition.text for condition in asked.conditions))
        values = [value for column in pool.labels for value in column if not isinstance(value, str)]
        between = f": they are between {min(values):g} and {max(values):g}" if values else ""
        notes.append(f"no label meets {met}{between}")
    elif good.all():
        notes.append("every label is good, so the labels cannot show whether the scores separate good rows from bad")
    if len(np.unique(overall)) == 1:
        notes.append("every row has the same score; the only cut-off keeps every row")
    if asked.per is None:
        contexts = len(np.unique(pool.contexts))
        if contexts == 1 and len(good) > 1:
            notes.append("all labels are of one context, so they show nothing about rows of other contexts")
        elif contexts < len(good):
            notes.append(
                f"the {len(good):,} labels are of {contexts:,} contexts; the promise is exact for one row of a context"
            )
    if not looks_random(overall[positions], overall[_reached(pool)]):
        notes.append(
            "the labelled rows have other scores than a random sample would have; the promise needs labels of a random "
            "sample, see `refladder calibrate --plan`"
        )
    return notes
