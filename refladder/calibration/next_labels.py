"""Which rows to label next: a random sample as a file, and what that many labels can promise."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy.special import betainc

from refladder.calibration.calibrate import calibrate, check_scores, further_units, sampled
from refladder.calibration.labelling import (
    filled_cells,
    id_columns,
    named,
    open_pool,
    sampled_above,
)
from refladder.calibration.threshold import (
    Counted,
    certainty,
    counted,
    least,
    lower_bound,
    passes,
    walk_certainty,
)
from refladder.display.rendering import DASH, PlainTable, number
from refladder.display.results import Shown
from refladder.errors import DataError, UsageError, either, plural
from refladder.files.outputs import NEXT_STEP, holds_data
from refladder.files.tables import Row, open_sink, read_once, read_rows, standard_form

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from refladder.arrays import FloatArray
    from refladder.calibration.labelling import LabelledTable, Pool
    from refladder.calibration.promise import Promise
    from refladder.calibration.results import Step
    from refladder.calibration.threshold import Candidates, UnitSums
    from refladder.events import Events

BATCHES = (20, 50, 100, 200)
_SHOWN = ("context_id", "system", "context", "output")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSpec:
    """The scored table with its labels so far, what to promise, and the file `out` that gets the rows to label."""

    table: LabelledTable
    promise: Promise
    out: Path | None = None
    escape_formulas: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Needed:
    """Labels of all rows with which a cut-off can be promised at the first look, if as many are above it as expected.

    It keeps the share `kept` of the rows. The numbers are for no bad label above it, and for one.
    """

    kept: float
    none_bad: int
    one_bad: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A promise of `more` labels: `bad_allowed` at the next look, or the `precision` if none is bad.

    `chance` is the probability of the promise if further labels are like those so far; None without labels.
    """

    more: int
    labels: int
    bad_allowed: int | None
    precision: float
    chance: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelPlan(Shown):
    """The plan: `batches` at a `look`, the `lowest` candidate above which rows are drawn (None: all rows), `drawn` rows.

    `precision` and `sure` are the promise that it is about, and `unit` is what is drawn. `needed` is what the first look
    needs for cut-offs that keep about half and a quarter of the rows, empty where there are labels already.
    """

    batches: tuple[Batch, ...]
    look: int
    lowest: Step | None
    drawn: int
    rows: int
    notes: tuple[str, ...]
    precision: float
    sure: float
    unit: Literal["row", "context"]
    needed: tuple[Needed, ...]

    def lines(self) -> list[str]:
        """Return what a look costs."""
        if not self.needed:
            return []
        first, second = (1 - certainty(self.sure, look) for look in (1, 2))
        costs = f"the first may be wrong with probability {first:.3g}, and the second with {second:.3g}."
        return [f"Label them all before the first look. Each look costs: {costs}"]

    def tables(self) -> list[PlainTable]:
        """Return the table of what more labels can promise, and that of what the first look needs."""
        plan = _plan_table(self.batches, self.look, self.precision, self.sure)
        return [plan, _needed_table(self.needed, self.unit)] if self.needed else [plan]

    def summary(self) -> dict[str, Any]:
        """Return the plan as JSON values."""
        return asdict(self)


def _plan_table(batches: Sequence[Batch], look: int, precision: float, sure: float) -> PlainTable:
    """Show what more labels can promise."""
    legend = (
        ("more", "further labels, all of rows that are drawn as below"),
        ("labels", "with those of such rows that exist"),
        (
            "bad allowed",
            f"bad ones among them with which a precision of {precision:g} can be promised, sure {sure:g}",
        ),
        ("without bad", "the precision that can be promised if none of them is bad"),
        ("chance", "that the promise can be made, if further labels are like those so far"),
    )
    rows = [
        [
            f"{batch.more:,}",
            f"{batch.labels:,}",
            DASH if batch.bad_allowed is None else f"{batch.bad_allowed:,}",
            number(batch.precision, 3),
            number(batch.chance, 2),
        ]
        for batch in batches
    ]
    caption = f"What more labels can promise for the lowest cut-off, at look {look}"
    return PlainTable(caption, [term for term, _ in legend], rows, legend)


def run(spec: PlanSpec, events: Events) -> LabelPlan:
    """Plan the next labels of a table, and write the rows to label."""
    table, pool = open_pool(spec.table, events)
    plan, drawn = plan_labels(pool, table, spec.promise)
    if spec.out is not None:
        more = _write_rows(replace(spec, table=table), spec.out, plan, drawn)
        plan = replace(plan, notes=(*plan.notes, *more))
    return plan


def plan_labels(pool: Pool, table: LabelledTable, promise: Promise) -> tuple[LabelPlan, list[int]]:
    """Plan the next labels: of all rows, or of those above the lowest candidate that the labels allow."""
    if promise.kind != "precision":
        raise UsageError(f"--plan is about --precision; leave out --{promise.kind}")
    check_scores(pool, table)
    look, lowest = 1, None
    if pool.marked:
        result = calibrate(pool, table, promise)
        look, lowest = result.next_look, result.lowest
    sample = sampled(pool, table)
    candidate = len(sample.path.cutoffs) - 1
    unlabelled = pool.unlabelled
    if lowest is not None:
        candidate = result.steps.index(lowest)
        unlabelled &= pool.scores >= lowest.cutoff
    generator = np.random.default_rng(len(pool.marked))
    drawn = generator.permutation(np.flatnonzero(unlabelled))[: BATCHES[-1]]
    sure = walk_certainty(promise.certainty(look))
    sums = promise.sums(sample.path, sample.levels, sample.good, sample.units)
    unit = further_units(pool, sample, candidate)
    kept = sums.strictest(candidate + 1)
    plan = LabelPlan(
        batches=tuple(_batch(more, kept, unit, promise.share, sure) for more in BATCHES),
        look=look,
        lowest=lowest,
        drawn=len(drawn),
        rows=len(pool.scores),
        notes=tuple(pool.notes),
        precision=promise.share,
        sure=promise.sure,
        unit=pool.unit,
        needed=() if pool.marked else _needed(sample.path, promise.share, sure),
    )
    return plan, pool.row_numbers[drawn].tolist()


def _needed_table(needed: Sequence[Needed], unit: str) -> PlainTable:
    """Show how many labels the first look needs."""
    legend = (
        ("kept", "share of the rows that the cut-off keeps"),
        ("labels", "about this many labels, if none above the cut-off is bad"),
        ("one bad", "about this many, if one label above it is bad"),
    )
    rows = [[f"{each.kept:.0%}", f"{each.none_bad:,}", f"{each.one_bad:,}"] for each in needed]
    drawn = "different contexts" if unit == "context" else "rows"
    caption = f"Labels that the first look needs, of {drawn} drawn at random"
    return PlainTable(caption, [term for term, _ in legend], rows, legend)


def _needed(path: Candidates, precision: float, sure: float) -> tuple[Needed, ...]:
    """Return the labels needed for the loosest cut-offs that keep at most a half and a quarter of the rows."""

    def above(bad: int) -> int:
        return least(lambda labels: bool(passes(min(bad, labels), labels, precision, sure)))

    needed: dict[float, Needed] = {}
    shares = path.rows / path.total
    for most in (0.5, 0.25):
        fewer = shares[shares <= most]
        if len(fewer):
            share = float(fewer.max())
            none_bad, one_bad = math.ceil(above(0) / share), math.ceil(above(1) / share)
            needed[share] = Needed(kept=share, none_bad=none_bad, one_bad=one_bad)
    return tuple(needed.values())


def _batch(
    more: int, sums: UnitSums, unit: tuple[FloatArray, FloatArray], precision: float, sure: float
) -> Batch:
    """Return what this many further labels of rows that the last candidate keeps can promise, if units are as so far."""
    labels, bad = round(sums.rows[-1]), round(sums.bad[-1])
    rows, squares = unit
    alike = counted(sums).alike

    def worth(further: int) -> Counted:
        return counted(sums.with_more(more / rows[-1], rows, squares, further / more, alike))

    def fine(further: int) -> bool:
        labels = worth(further)
        return bool(passes(labels.bad, labels.rows, precision, sure, labels.allow)[-1])

    # More bad labels may pass where fewer do not: those of several contexts show how alike the rows of a context are.
    allowed = max(filter(fine, range(more + 1)), default=None)
    none_bad = worth(0)
    chance: float | None = None
    if labels and allowed is None:
        chance = 0.0
    elif labels and allowed is not None:
        # The number of bad labels among this many independent ones is binomial.
        independent = none_bad.rows[-1] * more / (labels + more)
        most = independent * allowed / more
        good = 1 - (bad + 0.5) / (labels + 1)
        chance = float(betainc(max(independent - most, 1e-9), most + 1, good))
    return Batch(
        more=more,
        labels=labels + more,
        bad_allowed=None if allowed is None else bad + allowed,
        precision=float(lower_bound(none_bad.bad, none_bad.rows, sure, none_bad.allow)[-1]),
        chance=chance,
    )


def _write_rows(spec: PlanSpec, out: Path, plan: LabelPlan, rows_drawn: Sequence[int]) -> list[str]:
    """Write the drawn rows in random order, without their scores, which would influence people.

    Rows of an earlier plan in the file stay first if a person has filled a cell of theirs; returns what to say of them.
    """
    source = spec.table.source
    if read_once(source):
        both = either("--plan with --out reads SCORED", "out reads the table")
        raise UsageError(f"{both} twice, so it cannot be standard input or a pipe; give a file")
    rows = named(read_rows(source, spec.table.given), spec.table.columns)
    columns = rows.columns() or []
    ids = id_columns(columns)
    if ids == ("output_id",):
        # An id has the table's own name for it.
        ids = (spec.table.columns.get("output_id", "output_id"),)
    if not ids:
        raise DataError(
            f"{source}: no id column to match labels by; add output_id, id, or context_id and system"
        )
    wanted = set(rows_drawn)
    drawn = {number: row for number, row in enumerate(rows) if number in wanted}
    shown = [column for column in dict.fromkeys([*ids, *_SHOWN]) if column in columns]
    label = spec.table.label or "label"
    beside: dict[str, float | None] = {} if label in shown else {label: None}
    beside[sampled_above(spec.table.by)] = None if plan.lowest is None else plan.lowest.cutoff
    header, form = [*shown, *beside], standard_form(str(out), "csv")
    filled, added = _filled_rows(out, header, label)
    header += added

    def key(row: Row) -> tuple[str, ...]:
        return tuple([str(row.fields.get(name)) for name in ids])

    known = {key(row) for row in filled}
    new = [drawn[number] for number in rows_drawn if key(drawn[number]) not in known]
    formulas = spec.escape_formulas
    with open_sink(str(out), form, {}, header, style=rows.style, escape_formulas=formulas) as write:
        for row in filled:
            write(Row(row.where, {column: row.fields.get(column) for column in header}))
        for row in new:
            fields = {column: row.fields.get(column) for column in shown}
            write(Row(row.where, {**fields, **beside, **dict.fromkeys(added)}))
    if not filled:
        return []
    stay = (
        f"{plural(len(filled), 'row')} with a label or another cell that was filled in stay first"
    )
    return [f"{out}: {stay}; {plural(len(new), 'row')} to label follow"]


def _filled_rows(out: Path, header: Sequence[str], label: str) -> tuple[list[Row], list[str]]:
    """Return the rows of an earlier plan in which a person has filled a cell, and the columns that people added."""
    if not holds_data(out):
        return [], []
    rows = read_rows(str(out))
    columns = rows.columns() or []
    missing = [name for name in header if name not in columns]
    if missing:
        raise UsageError(
            f"{out}: exists, and it is not a plan with these columns (no column {missing[0]!r}); {NEXT_STEP}"
        )
    added = [name for name in columns if name not in header]
    return [row for row in rows if filled_cells(row, label, *added)], added
