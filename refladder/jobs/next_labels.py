"""Which rows to label next: a random sample as a file, and what that many labels can promise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import betainc

from refladder.errors import DataError, UsageError
from refladder.files.tables import Row, open_sink, read_once, read_rows, standard_form
from refladder.jobs.calibrate import calibrate, further_units, sampled
from refladder.jobs.labelling import id_columns, named, sampled_above
from refladder.report.promise_tables import Batch
from refladder.trust.threshold import Counted, counted, lower_bound, passes, walk_certainty

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from refladder.arrays import FloatArray
    from refladder.jobs.calibrate import Promise
    from refladder.jobs.labelling import Asked, Pool
    from refladder.report.promise_tables import Step
    from refladder.trust.threshold import UnitSums

BATCHES = (20, 50, 100, 200)
_SHOWN = ("context_id", "system", "context", "output")


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelPlan:
    """The plan: `batches`, the `lowest` candidate above which rows are drawn (None: all rows), and `drawn` rows."""

    batches: tuple[Batch, ...]
    lowest: Step | None
    drawn: int
    rows: int
    notes: tuple[str, ...]


def plan_labels(pool: Pool, asked: Asked, promise: Promise) -> tuple[LabelPlan, list[int]]:
    """Plan the next labels: of all rows, or of those above the lowest candidate that the labels allow."""
    if promise.precision is None:
        raise UsageError("--plan is about --precision; leave out --recall")
    if not len(pool.scores):
        raise DataError(f"no row has a number in {asked.by}; score the rows first")
    result = calibrate(pool, asked, promise) if len(pool.labelled) else None
    lowest = None if result is None else result.lowest
    reached = np.ones(len(pool.scores), np.bool_)
    if lowest is not None:
        reached = pool.scores >= lowest.cutoff
    reached[pool.labelled] = False
    drawn = np.random.default_rng(len(pool.labelled)).permutation(np.flatnonzero(reached))[
        : BATCHES[-1]
    ]
    sure = walk_certainty(promise.certainty(1 if result is None else result.promise.look + 1))
    sample = sampled(pool, asked)
    candidate = (
        len(sample.path.cutoffs) - 1
        if result is None or lowest is None
        else result.steps.index(lowest)
    )
    sums = promise.sums(sample.path, sample.levels, sample.good, sample.units)
    sums = sums.strictest(candidate + 1)
    unit = further_units(pool, sample, candidate)
    batches = tuple(_batch(more, sums, unit, promise.precision, sure) for more in BATCHES)
    plan = LabelPlan(
        batches=batches,
        lowest=lowest,
        drawn=len(drawn),
        rows=len(pool.scores),
        notes=tuple(pool.notes),
    )
    return plan, pool.row_numbers[drawn].tolist()


def _batch(
    more: int, sums: UnitSums, unit: tuple[FloatArray, FloatArray], precision: float, sure: float
) -> Batch:
    """What so many further labels of rows that the last candidate keeps can promise, if units are as so far."""
    labels, bad = round(sums.rows[-1]), round(sums.bad[-1])
    rows, squares = unit
    alike = counted(sums).alike

    def worth(further: int) -> Counted:
        return counted(sums.with_more(more / rows[-1], rows, squares, further / more, alike))

    def fine(further: int) -> bool:
        labels = worth(further)
        return bool(passes(labels.bad, labels.rows, precision, sure, labels.allow)[-1])

    # Not always fewer: bad rows of several contexts show how alike the rows of a context are.
    allowed = max(filter(fine, range(more + 1)), default=-1)
    none_bad, chance = worth(0), None
    if labels:
        # of so many independent labels, the number of bad ones is binomial
        independent = none_bad.rows[-1] * more / (labels + more)
        most = independent * allowed / more
        good = 1 - (bad + 0.5) / (labels + 1)
        chance = (
            float(betainc(max(independent - most, 1e-9), most + 1, good)) if allowed >= 0 else 0.0
        )
    return Batch(
        more=more,
        labels=labels + more,
        bad_allowed=bad + allowed if allowed >= 0 else None,
        precision=float(lower_bound(none_bad.bad, none_bad.rows, sure, none_bad.allow)[-1]),
        chance=chance,
    )


def write_rows(
    source: str,
    out: str,
    plan: LabelPlan,
    rows_drawn: Collection[int],
    *,
    by: str,
    label: str | None,
    given: str | None = None,
    mapped: Mapping[str, str],
    escape_formulas: bool = False,
) -> None:
    """Write the drawn rows in random order, without their scores, which would influence people."""
    if read_once(source):
        raise UsageError(
            "--plan with --out reads SCORED twice, so it cannot be standard input or a pipe; give a file"
        )
    rows = named(read_rows(source, given), mapped)
    columns = rows.columns() or []
    ids = id_columns(columns)
    if not ids:
        raise DataError(
            f"{source}: no id column to match labels by; add output_id, id, or context_id and system"
        )
    wanted = {number: turn for turn, number in enumerate(rows_drawn)}
    chosen = sorted((wanted[number], row) for number, row in enumerate(rows) if number in wanted)
    shown = [column for column in dict.fromkeys([*ids, *_SHOWN]) if column in columns]
    labels = {} if label in shown else {label or "label": None}
    beside = {**labels, sampled_above(by): None if plan.lowest is None else plan.lowest.cutoff}
    header = [*shown, *beside]
    with open_sink(
        out, standard_form(out, "csv"), {}, header, escape_formulas=escape_formulas
    ) as write:
        for _, row in chosen:
            fields = {column: row.fields.get(column) for column in shown}
            write(Row(row.where, {**fields, **beside}))
