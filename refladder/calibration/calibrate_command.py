"""refladder calibrate: the command and the call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from refladder.calibration.records import Threshold
from refladder.cli import console
from refladder.cli.calling import Call, record_or_path
from refladder.cli.options import subcommand
from refladder.display.log import LOG, Log, log_lines
from refladder.errors import ExitCode, UsageError, plural
from refladder.files.jsonl import read_record
from refladder.options import like

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from refladder.calibration.good_share import KeptRate
    from refladder.calibration.next_labels import LabelPlan
    from refladder.calibration.results import Calibration
    from refladder.settings import Given


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
    "strict",
    like(
        "out_file", help="Output file: the cut-off for `filter --threshold`, or the rows of --plan."
    ),
    "plan",
    "rate",
    "across_judges",
    "column",
    "given",
    "escape_formulas",
    "as_json",
    given=dict,
)
def command(*, given: Given, out: Path | None, plan: bool, as_json: bool) -> ExitCode:
    """Choose a cut-off on the scores of SCORED, with a promise about the rows that it keeps.

    First label a random sample of the rows. The cut-off keeps as many rows as the promise allows. Exit code 3: no
    cut-off can be promised; the number of labels that could change this is printed.

    --plan and --rate use the labels for other purposes.

    Examples:
        refladder calibrate scored.jsonl --label good --good =yes --by overall_score --precision 0.9 --out cut.json
        refladder calibrate scored.jsonl --label good --good =yes --by overall_score --precision 0.9 --plan
    """
    from refladder.calibration import calibrate, good_share, next_labels
    from refladder.calibration.labelling import table_of
    from refladder.calibration.promise import spec_of

    if given["strict"] and (plan or given["rate"] is not None):
        raise UsageError("--strict is for a cut-off; leave it out with --plan and --rate")
    events = console.Console()
    if given["rate"] is not None:
        _check_rate(given)
        threshold = read_record(Threshold, given["rate"])
        table = table_of(given, threshold)
        rated = good_share.run(good_share.RateSpec(table=table, threshold=threshold), events)
        return _print(rated, as_json=as_json, fails=rated.rate is None)
    table = table_of(given)
    if plan:
        labelling = next_labels.run(spec_of(next_labels.PlanSpec, given, table), events)
        return _print(labelling, as_json=as_json, more=_rows_to_label(labelling, given["by"], out))
    result = calibrate.run(spec_of(calibrate.ThresholdSpec, given, table), events)
    return _print(result, as_json=as_json, fails=result.refused)


def _check_rate(given: Given) -> None:
    """Refuse what is for a promise beside --rate."""
    from refladder.calibration.promise import KINDS

    if given["plan"]:
        raise UsageError("--plan and --rate are different runs; give one of them")
    if any(given[kind] is not None for kind in KINDS):
        kinds = " and ".join(f"--{kind}" for kind in KINDS)
        raise UsageError(f"--rate promises nothing; leave out {kinds}")
    if given["out"] is not None:
        raise UsageError("--rate prints its result and writes no file; leave out --out")
    if given["by"]:
        raise UsageError("--rate takes --by from the threshold file; leave it out")


def _print(
    result: Calibration | LabelPlan | KeptRate,
    *,
    as_json: bool,
    more: Sequence[str] = (),
    fails: bool = False,
) -> ExitCode:
    """Print a result, with `more` lines after its own; returns the exit code."""
    if as_json:
        console.say_json(result.summary())
    else:
        console.say_tables(result.tables())
        for line in (*result.lines(), *more):
            console.say(line)
        console.say_lines(f"Note: {note}" for note in result.notes)
    return ExitCode.of(complete=not fails)


def _rows_to_label(plan: LabelPlan, by: str, out: Path | None) -> list[str]:
    where = "all rows" if plan.lowest is None else f"rows with {by} >= {plan.lowest.cutoff:.6g}"
    sample = f"Rows to label next: a random sample of {where}"
    if out is None:
        return [f"{sample}. Add --out FILE to write it."]
    return [
        f"{sample}, in the order of labelling.",
        f"{out}: {plural(plan.drawn, 'row')}. Labels of the first 20, 50, ... of them are a random sample too.",
    ]


@command.call
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
    strict: bool = False,
    across_judges: bool = False,
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
        strict: promise `precision` also where a rare kind of context, which the labels may not have, misleads the judge
            as a whole. It keeps fewer rows, and needs 24 contexts for a precision of 0.9. For contexts as `unit` only.
        across_judges: allow grades of ratings by several judges, if ladders, scoring anchors and criterion are the
            same; the labels are of rows of one judge.
        columns: field (such as output, whose surface is the baseline) to the name of its column.
        out: file for the cut-off, for `refladder filter --threshold`. It counts the looks: a run with other labels or
            another promise has less of 1 - `sure` than the first.

    Returns:
        The result. Its `threshold` is what `refladder.filter` and `refladder.estimate_precision` take; its `refused`
        says that no cut-off can be promised, and `labels_needed` how many more labels would do.

    Raises:
        UsageError: an argument is wrong.
        DataError: a column is missing, a score or a label is no number, labels are of other rows, or signatures differ;
            with path:line or the number of the row.
    """
    from refladder.calibration.calibrate import ThresholdSpec, run
    from refladder.calibration.labelling import table_of_call
    from refladder.calibration.promise import spec_of

    with Call(calibrate, locals()) as call:
        labelled = table_of_call(call, call.given)
        result = run(spec_of(ThresholdSpec, call.given, labelled), Log())
        if result.refused:
            could = "more labels are unlikely to change this"
            if result.labels_needed is not None:
                could = f"this could change with {plural(result.labels_needed, 'more label')}, if all are good"
            LOG.warning("no cut-off can be promised; %s", could)
        log_lines(result.notes)
        return result


@command.call
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
    across_judges: bool = False,
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
        across_judges: allow grades of ratings by several judges, if ladders, scoring anchors and criterion are the
            same; the labels are of rows of one judge.
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
    from refladder.calibration.labelling import table_of_call
    from refladder.calibration.next_labels import PlanSpec, run
    from refladder.calibration.promise import spec_of

    with Call(plan_labels, locals()) as call:
        labelled = table_of_call(call, call.given)
        plan = run(spec_of(PlanSpec, call.given, labelled), Log())
        log_lines(plan.notes)
        return plan


@command.call
def estimate_precision(
    table: Any,
    *,
    threshold: str | Path | Threshold,
    label: str,
    good: str,
    labels: Any = None,
    unit: Literal["row", "context"] | None = None,
    across_judges: bool = False,
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
        across_judges: allow grades of ratings by several judges, if ladders, scoring anchors and criterion are the
            same; the labels are of rows of one judge.
        columns: field to the name of its column.

    Returns:
        The share of good rows among labels of kept rows with its 95 % interval (`rate`), the same with the scores of all
        kept rows (`powered`), and counts. Both are None where no label of a kept row is left.

    Raises:
        UsageError: an argument is wrong, the threshold is a refusal, or it is of scores with another signature.
        DataError: see `calibrate`.
    """
    from refladder.calibration.filter import read_threshold
    from refladder.calibration.good_share import RateSpec, run
    from refladder.calibration.labelling import table_of_call

    with Call(estimate_precision, locals()) as call:
        record = read_threshold(record_or_path(threshold))
        labelled = table_of_call(call, call.given, record)
        result = run(RateSpec(table=labelled, threshold=record), Log())
        log_lines(result.notes)
        return result
