"""calibrate: scored rows and labels of some -> a cut-off with a promise, or a refusal."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from refladder.calibration.good_share import good_shares
from refladder.calibration.labelling import open_pool
from refladder.calibration.records import Look, Threshold
from refladder.calibration.results import Calibration, Step, Surface
from refladder.calibration.threshold import (
    LEAST_UNITS,
    Candidates,
    Counted,
    candidates,
    counted,
    least,
    looks_random,
    lower_bound,
    strict_bounds,
    strictly_precise,
    unit_sums,
    walk_certainty,
)
from refladder.errors import DataError, NoRowsError, UsageError, did_you_mean, option, plural
from refladder.files.jsonl import is_device, read_record, write_record
from refladder.files.tables import read_once, read_rows
from refladder.methods.surface import FOLDS, best_surface, measured
from refladder.signatures import same_scale
from refladder.statistics.correlation import area_under_curve
from refladder.version import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from refladder.arrays import BoolArray, FloatArray, IntArray
    from refladder.calibration.labelling import Good, LabelledTable, Pool
    from refladder.calibration.promise import Promise
    from refladder.calibration.threshold import UnitSums
    from refladder.events import Events

_TWO = 2
# The probability below which a thing is not advised.
_UNLIKELY = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class ThresholdSpec:
    """The scored table with its labels, what to promise, and the file `out` that gets the threshold."""

    table: LabelledTable
    promise: Promise
    out: Path | None = None


def run(spec: ThresholdSpec, events: Events) -> Calibration:
    """Choose the cut-off for a table of scores, and write it; an earlier file at `out` counts the looks."""
    if not spec.table.label and spec.table.good is None:
        raise UsageError(
            "give the column of the labels: --label COLUMN; `--plan` shows which rows to label"
        )
    table, pool = open_pool(spec.table, events)
    earlier = None if spec.out is None else earlier_threshold(spec.out)
    result = calibrate(pool, table, spec.promise, earlier)
    if spec.out is not None:
        write_record(spec.out, result.threshold)
    return result


def earlier_threshold(out: Path) -> Threshold | None:
    """Read the record of an earlier run at `out`, which counts the looks; None if there is no such file."""
    if not out.exists() or is_device(out):
        return None
    try:
        return read_record(Threshold, out)
    except DataError as error:
        raise UsageError(
            f"{error}; {option('out')} counts looks there and would overwrite it: remove it or name another"
        ) from error


def _looks(
    earlier: Threshold | None, pool: Pool, table: LabelledTable, promise: Promise, units: IntArray
) -> tuple[tuple[Look, ...], bool]:
    """Return the looks of an earlier file with this one as the last, and whether this one counts.

    It is one more at these scores, unless all is as before, or an earlier run of the same promise had too few labels.
    """
    condition = None if table.good is None else table.good.text
    labels = sorted((row.digests, str(row.label)) for row in pool.marked)
    asked = (*promise.look_values, promise.sure, condition, pool.unit)
    if promise.strict:
        asked = (*asked, "strict")
    # A look with too few labels is identified by its promise only, so adding labels does not count as a new look.
    whole, none = _digest((*asked, labels)), _digest(asked)
    here = table.by, table.label
    number, others = promise.look, []
    for look in () if earlier is None else earlier.looks:
        same = same_scale(look.signature, pool.signature, table.by)
        if (look.column, look.label) != here or not same:
            others.append(look)
        elif look.digest in {whole, none}:
            number = look.number
        else:
            number = look.number + 1
    spent = replace(promise, look=number).could_pass(units)
    this = Look(
        column=table.by,
        signature=pool.signature,
        label=table.label or "",
        number=number,
        digest=whole if spent else none,
    )
    return (*others, this), spent


def _digest(parts: tuple[object, ...]) -> str:
    return hashlib.blake2b(repr(parts).encode(), digest_size=6).hexdigest()


class Sample(NamedTuple):
    """Labelled rows that a candidate keeps: their levels, which are good, and their units, each of shape (labels,).

    `inside` says which of all labelled rows they are.
    """

    path: Candidates
    levels: IntArray
    good: BoolArray
    units: IntArray
    inside: BoolArray


def sampled(pool: Pool, table: LabelledTable) -> Sample:
    """Return the candidates of a pool, and its labels."""
    labelled = pool.labelled
    path = candidates(pool.scores, len(labelled), pool.lowest)
    levels = path.levels(pool.scores[labelled])
    inside = levels < len(path.cutoffs)
    return Sample(
        path, levels[inside], pool.good(table.good)[inside], pool.units[labelled[inside]], inside
    )


class Choice(NamedTuple):
    """The candidate that is promised, -1 for none, with the sums that decided and the looks; the last look is this one.

    `effective` is the number of labels that count as drawn one by one.
    """

    promise: Promise
    looks: tuple[Look, ...]
    spent: bool
    sample: Sample
    sums: UnitSums
    steps: tuple[Step, ...]
    chosen: int
    effective: float


def calibrate(
    pool: Pool, table: LabelledTable, promise: Promise, earlier: Threshold | None = None
) -> Calibration:
    """Choose the best cut-off under a promise: with a precision, the one that keeps the most rows."""
    check_scores(pool, table)
    condition = table.good
    if not pool.marked or table.label is None or condition is None:
        raise _without_labels(table)
    if pool.lowest is not None and promise.terms.among is not None:
        raise UsageError(
            f"all labels are of rows above a score, so they cannot show {promise.kind}; label rows of all scores"
        )
    if promise.strict and pool.unit == "row":
        raise UsageError(
            f"{option('strict')} is about contexts that mislead the judge as a whole, and the units are rows; leave it "
            f"out, or give {option('unit')} context"
        )
    choice = choose(pool, table, promise, earlier)
    sample = choice.sample
    notes = [*pool.notes, *_notes(pool, table, condition, choice)]
    rate = powered = None
    if pool.lowest is None:
        everything = np.ones(len(pool.scores), np.bool_)
        rate, powered, more = good_shares(pool, sample.good, sample.inside, everything, pool.scores)
        notes += more
    return Calibration(
        threshold=record(pool, table, condition, choice),
        promise=choice.promise,
        spent=choice.spent,
        steps=choice.steps,
        chosen=choice.chosen if choice.chosen >= 0 else None,
        naive=promise.naive(choice.sums),
        **advise(pool, choice)._asdict(),
        tested_first=not promise.strict and choice.promise.tested_first(choice.sums),
        auc=area_under_curve(pool.scores[pool.labelled[sample.inside]], sample.good),
        surface=None if promise.strict else _surface(pool, sample, choice.promise),
        rate=rate,
        powered=powered,
        unscored=pool.unscored,
        units=len(np.unique(sample.units)),
        notes=tuple(notes),
    )


def choose(pool: Pool, table: LabelledTable, promise: Promise, earlier: Threshold | None) -> Choice:
    """Choose a candidate at the next look; an earlier threshold has the looks so far."""
    sample = sampled(pool, table)
    path, levels, good, units, _ = sample
    none = len(path.cutoffs)
    looks, spent = _looks(earlier, pool, table, promise, units)
    promise = replace(promise, look=looks[-1].number)
    sure = promise.certainty(promise.look)
    sums = promise.sums(path, levels, good, units)
    # The table of candidates is about the rows that they keep, whatever is promised.
    kept = unit_sums(levels, np.where(good, none, levels), units, none)
    worth = counted(kept)
    if promise.strict:
        strict, seed = _strict_sums(pool, sample), int(looks[-1].digest, 16)
        chosen = strictly_precise(*strict, promise.share, sure, seed=seed)
        lows = strict_bounds(*strict, walk_certainty(sure), seed)
    else:
        chosen = int(promise.chosen(sums))
        lows = lower_bound(worth.bad, worth.rows, walk_certainty(sure), worth.allow)
    return Choice(
        promise=promise,
        looks=looks,
        spent=spent,
        sample=sample,
        sums=sums,
        steps=_steps(path, kept, worth, lows),
        chosen=chosen,
        effective=float(worth.rows[-1]),
    )


def record(pool: Pool, table: LabelledTable, condition: Good, choice: Choice) -> Threshold:
    """Return the threshold of a choice; without a cut-off where none is promised."""
    step = choice.steps[choice.chosen] if choice.chosen >= 0 else None
    return Threshold(
        column=table.by,
        cutoff=None if step is None else step.cutoff,
        **choice.promise.shares,
        sure=choice.promise.sure,
        signature=pool.signature,
        label=table.label or "",
        good=condition.text,
        labels=len(choice.sample.good),
        labels_above=0 if step is None else step.labels_above,
        bad_above=0 if step is None else step.bad_above,
        rows=len(pool.scores),
        kept=0 if step is None else step.kept,
        used=pool.used,
        version=__version__,
        unit=pool.unit,
        looks=choice.looks,
        scores=pool.one_each.spread(),
    )


def check_scores(pool: Pool, table: LabelledTable) -> None:
    """Refuse a table without a row that has a score."""
    if not len(pool.scores):
        if not pool.unscored:
            raise NoRowsError(f"{table.source}: no rows, so there is nothing to calibrate")
        raise DataError(f"no row has a number in {table.by}; score the rows first")


def _strict_sums(pool: Pool, sample: Sample) -> tuple[FloatArray, FloatArray, IntArray]:
    """Return what `strict_bounds` takes: labelled rows of contexts, the bad ones, and the most rows of a context."""
    path, none = sample.path, len(sample.path.cutoffs)
    number = np.unique(sample.units, return_inverse=True)[1]
    of_context = number == np.arange(number.max() + 1)[:, np.newaxis]
    rows = path.counts(np.where(of_context, sample.levels, none))
    bad = path.counts(np.where(of_context & ~sample.good, sample.levels, none))
    most = [int(np.bincount(pool.units[pool.scores >= cutoff]).max()) for cutoff in path.cutoffs]
    return rows.astype(np.float64), bad.astype(np.float64), np.array(most, dtype=np.int64)


def _without_labels(table: LabelledTable) -> DataError:
    """Return the error for a table of which no scored row has a label."""
    label, given = str(table.label), None
    if not table.labels and not read_once(table.source):
        given = read_rows(table.source, table.given).columns()
    if given and label not in given:
        near = did_you_mean(label, given)
        return DataError(f"{table.source}: no column {label!r}{near} Columns: {', '.join(given)}")
    return DataError(f"no scored row has a label in {label}; fill that column for some rows")


def _steps(path: Candidates, sums: UnitSums, worth: Counted, lows: FloatArray) -> tuple[Step, ...]:
    steps = []
    for number in range(len(path.rows)):
        kept, above, bad = int(path.rows[number]), int(sums.rows[number]), int(sums.bad[number])
        steps.append(
            Step(
                cutoff=float(path.cutoffs[number]),
                kept=kept,
                kept_share=kept / path.total,
                labels_above=above,
                bad_above=bad,
                counted=float(worth.rows[number]),
                precision=1 - bad / above if above else None,
                low=float(lows[number]),
            )
        )
    return tuple(steps)


class Further(NamedTuple):
    """What further labels would do, as `Calibration` has it."""

    lowest: Step | None = None
    labels_needed: int | None = None
    units_needed: int | None = None
    rows_left: int | None = None
    possible: bool = False


def further_units(pool: Pool, sample: Sample, candidate: int) -> tuple[FloatArray, FloatArray]:
    """Return the mean number of labelled rows, and of their squares, that candidates keep of a further unit.

    The unit has a row that `candidate` keeps, and as large a part of its rows is labelled as of the units so far. Both
    have shape (candidate + 1,).
    """
    of_units, known = np.bincount(pool.units), np.unique(pool.units[pool.labelled])
    labelled = len(pool.marked) / max(int(of_units[known].sum()), 1)
    kept = np.bincount(pool.units[pool.scores >= sample.path.cutoffs[candidate]])
    each = np.maximum(labelled * kept[kept > 0], 1)
    rows, squares = float(each.mean()), float(np.mean(each * each))
    part = sample.path.rows[: candidate + 1] / sample.path.rows[candidate]
    return part * rows, part * part * squares + part * (1 - part) * rows


def advise(pool: Pool, choice: Choice) -> Further:
    """Return the fewest further labels that would do at the next look if all are good; none if that is unlikely.

    Cut-offs with enough unlabelled rows come first, and then loose ones. A promise that is made needs no more labels.
    """
    promise, sample, chosen = choice.promise, choice.sample, choice.chosen
    following = replace(promise, look=promise.look + choice.spent)
    unlabelled = pool.unlabelled
    levels = sample.path.levels(pool.scores[unlabelled])
    units = pool.units[unlabelled]
    last = len(choice.steps) - 1
    better: Sequence[int] = []
    if not promise.strict and promise.terms.keeps_most:
        better = range(last, chosen, -1)
    elif not promise.strict and chosen < 0:
        better = [last]
    found = []
    for candidate in better:
        sums = choice.sums.strictest(candidate + 1)
        if needed := _fewest(following, pool, sample, sums, chosen):
            left = levels <= candidate
            possible = needed[0] <= left.sum() and needed[1] <= len(np.unique(units[left]))
            found.append(Further(choice.steps[candidate], *needed, int(left.sum()), possible))
    best = min(found, key=lambda each: (not each.possible, each.labels_needed), default=Further())
    return best if chosen < 0 else best._replace(labels_needed=0, units_needed=0, possible=True)


def _fewest(
    promise: Promise, pool: Pool, sample: Sample, sums: UnitSums, chosen: int
) -> tuple[int, int] | None:
    """Return the fewest labels and units above the last candidate of sums; None if these good labels are unlikely.

    Labels of rows above a candidate show nothing about looser ones, which are left out.
    """
    rows, squares = further_units(pool, sample, len(sums.rows) - 1)
    worth = counted(sums)
    bad: FloatArray | float = 0.0
    of_kept = promise.terms.among is None
    if not of_kept:
        # Every sum is of all such rows, of which candidates keep as large a part as so far.
        rows = np.full_like(rows, rows[-1])
        squares = np.full_like(squares, squares[-1])
        bad = sums.bad / np.maximum(sums.rows, 1)

    def grown(units: int) -> UnitSums:
        return sums.with_more(units, rows, squares, bad, worth.alike)

    units = least(lambda units: int(promise.chosen(grown(units))) > chosen)
    if of_kept:
        have = float(worth.rows[-1])
        fine = have - float(worth.bad[-1])
        # The share of good rows is probably no greater than this.
        best = 1 - float(lower_bound(fine, have, 1 - _UNLIKELY))
        if best ** max(float(counted(grown(units)).rows[-1]) - have, 0) < _UNLIKELY:
            return None
    return math.ceil(units * rows[-1] - 1e-9), units


def _reached(pool: Pool) -> BoolArray:
    """Return which rows the labels were drawn from."""
    return pool.scores >= (-np.inf if pool.lowest is None else pool.lowest)


def _surface(pool: Pool, sample: Sample, promise: Promise) -> Surface | None:
    """Choose a cut-off by the best surface measure; return None where labelled rows have no text or one context."""
    if not pool.texts or len(np.unique(pool.contexts)) < _TWO:
        return None
    reached = _reached(pool)
    labelled = []
    for texts, used in zip(pool.texts, sample.inside, strict=True):
        if used:
            labelled.append((texts.context, texts.output))
    others = [(texts.context, texts.output) for texts in pool.sample if reached[texts.position]]
    values = measured(labelled + sorted(others))
    of_labelled, of_others = values[: len(labelled)], values[len(labelled) :]
    folds = pool.contexts[sample.inside] % FOLDS
    scores, everywhere, name = best_surface(of_labelled, sample.good, folds, of_others)
    path = candidates(everywhere, len(labelled))
    sums = promise.sums(path, path.levels(scores), sample.good, sample.units)
    chosen, share = int(promise.chosen(sums)), None
    if chosen >= 0:
        share = int(path.rows[chosen]) / path.total * float(reached.mean())
    return Surface(measure=name, kept_share=share, auc=area_under_curve(scores, sample.good))


def _notes(pool: Pool, table: LabelledTable, condition: Good, choice: Choice) -> list[str]:
    good, positions = choice.sample.good, pool.labelled[choice.sample.inside]
    notes = []
    if pool.lowest is not None and len(good) < len(pool.marked):
        notes.append(
            f"{len(pool.marked) - len(good):,} of {plural(len(pool.marked), 'label')} not used: the sample was drawn from "
            f"rows with {table.by} >= {pool.lowest:.6g}"
        )
    notes += condition.notes(pool.labels)
    if not good.any():
        values = [value for value in pool.labels if not isinstance(value, str)]
        between = f": they are between {min(values):g} and {max(values):g}" if values else ""
        notes.append(f"no label meets {condition.text}{between}")
    elif good.all():
        notes.append(
            "every label is good, so the labels cannot show whether the scores separate good rows from bad"
        )
    if len(np.unique(pool.scores)) == 1:
        notes.append("every row has the same score; the only cut-off keeps every row")
    contexts = len(np.unique(pool.contexts))
    if contexts == 1 and len(good) > 1:
        notes.append(
            "all labels are of one context, so they show nothing about rows of other contexts"
        )
    elif contexts < len(good) and pool.unit == "row":
        notes.append(
            f"the {len(good):,} labels are of {plural(contexts, 'context')} and taken as rows that were drawn one "
            "by one; the promise does not hold if contexts were drawn, with several rows each"
        )
    elif contexts < len(good) and not choice.promise.strict:
        worth = "which are too few"
        if choice.effective:
            worth = f"and count as {choice.effective:.0f} that were drawn one by one"
        notes.append(
            f"the {len(good):,} labels are of {plural(contexts, 'context')}, {worth}; the test is approximate, and "
            f"needs {LEAST_UNITS} contexts above a cut-off. A kind of context rarer than 1 in {contexts:,} that fools the "
            f"judge as a whole is not covered: label one row of each context, or use {option('strict')}"
        )
    if not looks_random(pool.scores[positions], pool.scores[_reached(pool)]):
        notes.append(
            "the labelled rows have other scores than a random sample would have; the promise needs labels of a random "
            "sample, see `refladder calibrate --plan`"
        )
    return notes
