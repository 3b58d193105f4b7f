"""refladder calibrate: the command and the call."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from refladder.commands import console
from refladder.commands.calling import (
    LOG,
    Call,
    Log,
    checked,
    log_lines,
    output_path,
    record_or_path,
)
from refladder.commands.options import subcommand
from refladder.errors import UsageError, plural
from refladder.files.jsonl import read_record
from refladder.options import like
from refladder.records import Threshold

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from refladder.jobs.calibrate import Calibration, Promise
    from refladder.jobs.good_share import KeptRate
    from refladder.jobs.labelling import LabelledTable
    from refladder.jobs.next_labels import LabelPlan, PlanSpec
    from refladder.trust.rate import Rate

Result = TypeVar("Result", "Calibration", "LabelPlan", "KeptRate")


@subcommand(
    "Choose a cut-off that keeps a promise, from labels of some rows.",
    like("source", metavar="SCORED", required=True),
    "labels",
    "label",
    "good",
    like("by", help="Column of the scores."),
    "unit",
    "precision",
    "recall",
    "sure",
    like(
        "out_file", help="Output file: the cut-off for `filter --threshold`, or the rows of --plan."
    ),
    "plan",
    "rate",
    "column",
    "given",
    "escape_formulas",
    "as_json",
)
def command(
    *,
    source: str,
    labels: tuple[str, ...],
    label: str | None,
    good: str | None,
    by: str | None,
    unit: Literal["row", "context"] | None,
    precision: float | None,
    recall: float | None,
    sure: float,
    out: Path | None,
    plan: bool,
    rate: Path | None,
    column: Mapping[str, str],
    given: str | None,
    escape_formulas: bool,
    as_json: bool,
) -> int:
    """Choose a cut-off on the scores of SCORED, with a promise about the rows that it keeps.

    First label a random sample of the rows. The cut-off keeps as many rows as the promise allows. Exit code 3: no
    cut-off can be promised; the number of labels that could change this is printed.

    --plan and --rate use the labels for other purposes.

    Examples:
        refladder calibrate scored.jsonl --label good --good =yes --by overall_score --precision 0.9 --out cut.json
        refladder calibrate scored.jsonl --label good --good =yes --by overall_score --precision 0.9 --plan
    """
    from refladder.jobs import calibrate, good_share, next_labels
    from refladder.jobs.labelling import Good, LabelledTable

    if plan and rate is not None:
        raise UsageError("--plan and --rate are different runs; give one of them")
    if rate is not None and (precision is not None or recall is not None):
        raise UsageError("--rate promises nothing; leave out --precision and --recall")
    if rate is not None and out is not None:
        raise UsageError("--rate prints its result and writes no file; leave out --out")
    threshold = None if rate is None else read_record(Threshold, rate)
    if threshold is not None and by:
        raise UsageError("--rate takes --by from the threshold file; leave it out")
    table = LabelledTable(
        source=source,
        given=given,
        by=(by or "") if threshold is None else threshold.column,
        label=label,
        good=None if good is None else Good(good),
        labels=labels,
        unit=unit or (threshold.unit if threshold else None),
        columns=column,
    )
    events = console.Console()
    if threshold is not None:
        rated = good_share.RateSpec(table=table, threshold=threshold)
        return _tell_rate(good_share.run(rated, events), as_json=as_json)
    promise = calibrate.Promise(precision=precision, recall=recall, sure=sure)
    if plan:
        planned = next_labels.PlanSpec(
            table=table, promise=promise, out=out, escape_formulas=escape_formulas
        )
        return _tell_plan(next_labels.run(planned, events), planned, as_json=as_json)
    spec = calibrate.ThresholdSpec(table=table, promise=promise, out=out)
    result = calibrate.run(spec, events)
    if as_json:
        console.say_json(_summary(result))
    else:
        _print(result)
    return console.UNSCORED if result.refused else 0


def _tell_rate(result: KeptRate, *, as_json: bool) -> int:
    if as_json:
        rates = {"rate": result.rate, "powered": result.powered}
        console.say_json(
            asdict(result) | {name: rate and rate._asdict() for name, rate in rates.items()}
        )
        return 0 if result.rate else console.UNSCORED
    console.say(
        f"kept: {result.kept:,} of {plural(result.rows, 'row')}; used: {plural(result.labels, 'label')} of them"
    )
    if result.reused:
        console.say(f"left out: {plural(result.reused, 'label')} that chose the threshold")
    for words, rate in (
        ("good among the rows kept", result.rate),
        ("the same with the scores", result.powered),
    ):
        if rate is not None:
            console.say(f"{words}: {_interval(rate)}")
    if result.rate is None:
        bound = (
            ""
            if result.bound is None
            else f" Its lower bound is {result.bound:g}, with probability {result.sure:g}."
        )
        console.say(
            f"No rate: no label of a kept row is left.{bound} Label rows that are kept, at random."
        )
    console.say_lines(f"Note: {note}" for note in result.notes)
    return 0 if result.rate else console.UNSCORED


def _tell_plan(plan: LabelPlan, spec: PlanSpec, *, as_json: bool) -> int:
    from refladder.report.promise_tables import plan_table

    promise, out = spec.promise, spec.out
    if as_json:
        console.say_json(asdict(plan) | {"precision": promise.precision, "sure": promise.sure})
        return 0
    console.say_tables([plan_table(plan.batches, promise.share, promise.sure)])
    where = (
        "all rows"
        if plan.lowest is None
        else f"rows with {spec.table.by} >= {plan.lowest.cutoff:.6g}"
    )
    end = ". Add --out FILE to write it" if out is None else ", in the order of labelling"
    console.say(f"Rows to label next: a random sample of {where}{end}.")
    if out is not None:
        console.say(
            f"{out}: {plural(plan.drawn, 'row')}. Labels of the first 20, 50, ... of them are a random sample too."
        )
    console.say_lines(f"Note: {note}" for note in plan.notes)
    return 0


def _summary(result: Calibration) -> dict[str, Any]:
    """Return the result as JSON values."""
    record, surface = result.threshold, result.surface
    return {
        "threshold": record.cutoff,
        "refused": result.refused,
        **{name: getattr(record, name) for name in ("labels", "labels_above", "bad_above", "rows")},
        "unscored": result.unscored,
        "kept": record.kept,
        "kept_share": record.kept / record.rows,
        "labels_needed": result.labels_needed,
        "units_needed": result.units_needed,
        "rows_left": result.rows_left,
        "unit": record.unit,
        "look": record.look,
        "lowest_candidate": None if result.lowest is None else result.lowest.cutoff,
        **{name: getattr(record, name) for name in ("precision", "recall", "sure")},
        "naive": None
        if result.naive is None
        else {
            "threshold": result.steps[result.naive].cutoff,
            "kept_share": result.steps[result.naive].kept_share,
        },
        "surface": None if surface is None else asdict(surface),
        "auc": result.auc,
        "good_share": result.rate._asdict() if result.rate else None,
        "good_share_with_scores": result.powered._asdict() if result.powered else None,
        "candidates": [asdict(step) for step in result.steps],
        "signature": record.signature,
        "notes": list(result.notes),
    }


def _print(result: Calibration) -> None:
    from refladder.report.promise_tables import steps_table

    record = result.threshold
    console.say_tables(
        [steps_table(record.column, result.steps, result.chosen, result.naive, record.precision)]
    )
    for line in _sentences(result):
        console.say(line)
    if record.cutoff is None:
        console.say(f"Refused: {_wanted(result.promise)}. {_advice(result)}")
    else:
        console.say(f"Promise: {record.column} >= {record.cutoff:.6g}. {_promised(result)}")
    console.say_lines(f"Note: {note}" for note in result.notes)


def _promised(result: Calibration) -> str:
    share, sure = result.promise.share, result.promise.sure
    if result.promise.recall is not None:
        return f"With probability {sure:g}, at least {share:g} of the good rows are kept."
    return (
        f"With probability {sure:g}, at least {share:g} of the rows kept are good. {share:g} is a lower bound: the "
        "labels that chose the cut-off cannot also give its rate."
    )


def _wanted(promise: Promise) -> str:
    share = "of the good rows" if promise.recall is not None else "precision"
    return f"no cut-off reaches {promise.share:g} {share} with certainty {promise.sure:g}"


def _advice(result: Calibration) -> str:
    promise, step, more = result.promise, result.lowest, result.labels_needed
    if step is None or more is None or result.units_needed is None:
        return (
            "More labels are unlikely to change this, because too many are bad. Promise less, or use a judge that "
            "separates good rows from bad ones better."
        )
    units = ""
    if 2 * result.units_needed <= more:
        units = f", of {plural(result.units_needed, 'context')} with as many labelled rows each"
    where = (
        f" with {result.threshold.column} >= {step.cutoff:.6g}" if promise.recall is None else ""
    )
    if not result.possible:
        return (
            f"Score more rows first: at least {plural(more, 'more good label')} of rows{where}{units}"
            f"{',' if units else ''} are needed, and {plural(result.rows_left or 0, 'row')} there have no label."
        )
    if promise.recall is not None:
        return f"Label more rows{units}, of which at least {more:,} must be good."
    must = "it must be good" if more == 1 else "all must be good"
    so_far = (
        f" So far {step.bad_above} of {step.labels_above} labels there are bad."
        if step.bad_above
        else ""
    )
    return f"Label at least {plural(more, 'more row')}{where}{units}; {must}.{so_far}"


def _sentences(result: Calibration) -> Iterator[str]:
    """Yield lines on what labels and scores show: counts, the naive cut-off, AUC, the promise and its notes."""
    record, surface = result.threshold, result.surface
    missing = f", {result.unscored:,} more without a score" if result.unscored else ""
    yield f"{plural(record.rows, 'row')}{missing}; {plural(record.labels, 'label')}, taken as a random sample of them"
    promise = result.promise
    this, then = (1 - promise.certainty(look) for look in (promise.look, promise.look + 1))
    yield (
        f"look {promise.look} at these labels: its promise may be wrong with probability {this:.3g}. Look "
        f"{promise.look + 1} would have {then:.3g}, and so need more labels. All looks together have "
        f"{1 - promise.sure:.3g}."
    )
    if record.cutoff is not None:
        yield (
            f"kept: {plural(record.kept, 'row')} "
            f"({record.kept / record.rows:.1%}); {plural(record.labels_above, 'label')} there, {record.bad_above:,} bad"
            f"{'; all rows passed the test that comes first' if result.tested_first else ''}"
        )
    if result.naive is None:
        yield "without a promise: no cut-off reaches this on the labels"
    else:
        step = result.steps[result.naive]
        yield (
            f"without a promise: {record.column} >= {step.cutoff:.6g} would keep {step.kept_share:.1%} (no "
            "allowance for chance)"
        )
    yield f"AUC: {'not known, all labels are equal' if result.auc is None else f'{result.auc:.3f}'}"
    if surface is None:
        yield "baseline without a judge: none (it needs the texts of the labelled rows, of two contexts)"
    else:
        keeps = (
            "no cut-off found" if surface.kept_share is None else f"keeps {surface.kept_share:.1%}"
        )
        auc = "" if surface.auc is None else f"AUC {surface.auc:.3f}, "
        yield f"baseline without a judge ({surface.measure}): {auc}{keeps}"
        if result.surface_suffices:
            yield "This baseline alone can make the promise, and is no worse."
    if result.rate is not None:
        scores = "" if result.powered is None else f"; with the scores {_interval(result.powered)}"
        yield f"good among all rows: {_interval(result.rate)}{scores}"


def _interval(rate: Rate) -> str:
    if rate.low is None or rate.high is None:
        return f"{rate.value:.3f} (no interval)"
    return f"{rate.value:.3f} [{rate.low:.3f}, {rate.high:.3f}] (95 % interval)"


@checked(command)
def calibrate(
    table: Any,
    *,
    label: str,
    good: str,
    by: str,
    labels: Any = None,
    unit: Literal["row", "context"] | None = None,
    precision: float | None = None,
    recall: float | None = None,
    sure: float = 0.9,
    columns: Mapping[str, str] | None = None,
    out: str | Path | None = None,
) -> Calibration:
    """Choose a cut-off that keeps a promise, from labels of some rows, as `refladder calibrate`.

    People label a random sample of the rows. The cut-off keeps as many rows as can be promised.

    Args:
        table: scored rows, as for `refladder.score`.
        label: column of the labels.
        good: which labels are good, such as `">=4"` or `"=yes"`.
        by: column of the scores.
        labels: table of labels with the ids of rows (output_id, id, or context_id and system), as `table`; or a list of
            paths of such tables. None: the labels are in `table`.
        unit: what was drawn at random to be labelled: `"row"`, or `"context"` with some or all of its rows. None:
            contexts, where rows have one.
        precision: promised share of good rows among those kept, between 0 and 1.
        recall: promised share of the good rows that are kept, instead of `precision`.
        sure: probability of the promise, between 0 and 1.
        columns: field (such as output, whose surface is the baseline) to the name of its column.
        out: file for the cut-off, for `refladder filter --threshold`. It counts the looks: a run with other labels or
            another promise has less of 1 - `sure` than the first.

    Returns:
        The result. Its `threshold` is what `refladder.filter` and `refladder.score` take; its `refused` says that no
        cut-off can be promised, and `labels_needed` how many more labels would do.

    Raises:
        UsageError: an argument is wrong.
        DataError: a column is missing, a score or a label is no number, labels are of other rows, or signatures differ;
            with path:line or the number of the row.
    """
    from refladder.jobs.calibrate import Promise, ThresholdSpec, run

    with Call(calibrate, locals()) as call:
        spec = ThresholdSpec(
            promise=Promise(precision=precision, recall=recall, sure=sure),
            out=None if out is None else output_path(out),
            table=_labelled(call, labels, columns, by=by, label=label, good=good, unit=unit),
        )
        result = run(spec, Log())
        if result.refused:
            could = "more labels are unlikely to change this"
            if result.labels_needed is not None:
                could = f"this could change with {plural(result.labels_needed, 'more label')}, if all are good"
            LOG.warning("no cut-off can be promised; %s", could)
        log_lines(result.notes)
        return result


@checked(command)
def plan_labels(
    table: Any,
    *,
    by: str,
    precision: float,
    sure: float = 0.9,
    label: str | None = None,
    good: str | None = None,
    labels: Any = None,
    unit: Literal["row", "context"] | None = None,
    columns: Mapping[str, str] | None = None,
    out: str | Path | None = None,
) -> LabelPlan:
    """Say what more labels can promise, and draw the rows to label next, as `refladder calibrate --plan`.

    Args:
        table: scored rows, as for `refladder.score`.
        by: column of the scores.
        precision: share of good rows among those kept that is to be promised, between 0 and 1.
        sure: probability of the promise, between 0 and 1.
        label: column of the labels so far; None where there are none.
        good: with `label`, which labels are good, such as `">=4"` or `"=yes"`.
        labels: tables of the labels so far, as for `calibrate`.
        unit: what is drawn at random to be labelled, as for `calibrate`.
        columns: field to the name of its column.
        out: file for the rows to label, in the order of labelling, without their scores. Fill its column of labels, and
            keep the others: `calibrate` finds in them the rows from which the sample was drawn.

    Returns:
        What 20, 50, 100 and 200 more labels can promise (`batches`), the cut-off from which rows are drawn (`lowest`,
        None for all rows), and the number of rows drawn.

    Raises:
        UsageError: an argument is wrong.
        DataError: see `calibrate`; or no row has an id by which its label can be found.
    """
    from refladder.jobs.calibrate import Promise
    from refladder.jobs.next_labels import PlanSpec, run

    with Call(plan_labels, locals()) as call:
        spec = PlanSpec(
            promise=Promise(precision=precision, sure=sure),
            out=None if out is None else output_path(out),
            table=_labelled(call, labels, columns, by=by, label=label, good=good, unit=unit),
        )
        plan = run(spec, Log())
        log_lines(plan.notes)
        return plan


@checked(command)
def estimate_precision(
    table: Any,
    *,
    threshold: str | Path | Threshold,
    label: str,
    good: str,
    labels: Any = None,
    unit: Literal["row", "context"] | None = None,
    columns: Mapping[str, str] | None = None,
) -> KeptRate:
    """Estimate the share of good rows among those that a threshold keeps, as `refladder calibrate --rate`.

    The labels must be new: those that chose the threshold are left out and counted.

    Args:
        table: scored rows, as for `refladder.score`.
        threshold: the threshold of `calibrate`, or the path of its file.
        label: column of the labels.
        good: which labels are good, such as `">=4"` or `"=yes"`.
        labels: tables of labels, as for `calibrate`.
        unit: what was drawn at random to be labelled; None is that of the threshold.
        columns: field to the name of its column.

    Returns:
        The share of good rows among labels of kept rows with its 95 % interval (`rate`), the same with the scores of all
        kept rows (`powered`), and counts. Both are None where no label of a kept row is left.

    Raises:
        UsageError: an argument is wrong, the threshold is a refusal, or it is of scores with another signature.
        DataError: see `calibrate`.
    """
    from refladder.jobs.good_share import RateSpec, run

    with Call(estimate_precision, locals()) as call:
        chosen = record_or_path(threshold)
        record = chosen if isinstance(chosen, Threshold) else read_record(Threshold, chosen)
        by, unit = record.column, unit or record.unit
        scored = _labelled(call, labels, columns, by=by, label=label, good=good, unit=unit)
        result = run(RateSpec(table=scored, threshold=record), Log())
        log_lines(result.notes)
        return result


def _labelled(
    call: Call,
    labels: object,
    columns: Mapping[str, str] | None,
    *,
    by: str,
    label: str | None,
    good: str | None,
    unit: Literal["row", "context"] | None,
) -> LabelledTable:
    """Return the scored table of a call and its tables of labels."""
    from refladder.jobs.labelling import Good, LabelledTable

    table = LabelledTable(
        source="",
        by=by,
        label=label,
        good=None if good is None else Good(good),
        unit=unit,
        columns=dict(columns or {}),
    )
    paths = call.labels(labels, table.needed)
    return replace(table, source=call.source(table.needed), labels=paths)
