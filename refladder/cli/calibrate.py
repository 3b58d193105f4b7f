"""refladder calibrate."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from refladder.cli import console

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from refladder.jobs.calibrate import Calibration


@click.command(short_help="Choose a cut-off that keeps a promise, from labels of some rows.")
@click.argument("source", metavar="SCORED")
@click.option("--labels", metavar="TABLE", help="Table of labels with the ids of rows. Default: columns of SCORED.")
@click.option(
    "--label",
    multiple=True,
    metavar="COLUMN",
    help="Column of the labels. Repeatable, one for each --by; all must hold.",
)
@click.option("--good", multiple=True, metavar="CONDITION", help="Labels that are good, such as '>=4' or '=yes'.")
@click.option(
    "--by", multiple=True, metavar="COLUMN", help="Column of the scores. Repeatable; all must reach a cut-off."
)
@click.option(
    "--per", metavar="COLUMN", help="Keep only the best row of each value of this column, such as context_id."
)
@click.option("--precision", type=float, help="Promised share of good rows among those kept.")
@click.option("--recall", type=float, help="Promised share of the good rows that are kept.")
@click.option("--sure", type=float, default=0.9, help="Probability of the promise.")
@click.option(
    "--on-average", is_flag=True, help="Promise the precision on average over runs. Keeps more; --sure is not used."
)
@click.option("--out", type=console.PATH, help="Output file: the cut-off for `filter --threshold`.")
@click.option(
    "--plot", type=console.PATH, help="Output file of a chart (SVG): precision against the share of rows kept."
)
@console.FORMAT
@console.JSON
def command(
    *,
    source: str,
    labels: str | None,
    label: tuple[str, ...],
    good: tuple[str, ...],
    by: tuple[str, ...],
    per: str | None,
    precision: float | None,
    recall: float | None,
    sure: float,
    on_average: bool,
    out: Path | None,
    plot: Path | None,
    given: str | None,
    as_json: bool,
) -> int:
    """Choose a cut-off on the scores of SCORED, with a promise about the rows that it keeps.

    People label a random sample of the rows. The cut-off keeps as many rows as can be promised. Exit code 3: no cut-off
    can be promised; the number of labels that could change this is printed.
    """
    from refladder.errors import UsageError  # noqa: PLC0415  --help stays quick
    from refladder.files.jsonl import atomic, write_record  # noqa: PLC0415
    from refladder.jobs.calibrate import Promise, calibrate  # noqa: PLC0415
    from refladder.jobs.labelling import Asked, Good, read_pool  # noqa: PLC0415
    from refladder.report.promise_tables import kept_chart  # noqa: PLC0415

    asked = Asked(by=by, label=label, good=tuple(map(Good, good)), labels=labels, per=per)
    if not label or not good:
        raise UsageError("give the column of the labels and which are good: --label COLUMN --good '>=4'")
    promise = Promise(precision=precision, recall=recall, sure=None if on_average else sure)
    with console.progress("reading") as progress:
        pool = read_pool(source, asked, given, progress)
    result = calibrate(pool, asked, promise)
    if out is not None:
        write_record(out, result.threshold)
    if plot is not None:
        with atomic(plot) as stream:
            stream.write(kept_chart("Kept rows and their precision", result.steps, precision).encode())
    if as_json:
        click.echo(console.printable_json(json.dumps(_summary(result), ensure_ascii=False)))
    else:
        _print(result)
    return console.UNSCORED if result.refused else 0


def _summary(result: Calibration) -> dict[str, Any]:
    """The result as JSON values; `threshold` is a number, or an object of numbers where there are several columns."""
    record, surface = result.threshold, result.surface
    share = record.kept / record.rows
    return {
        "threshold": _cutoff(record.columns, record.cutoffs),
        "refused": result.refused,
        "labels": record.labels,
        "labels_above": record.labels_above,
        "bad_above": record.bad_above,
        "rows": record.rows,
        "unscored": result.unscored,
        "kept": record.kept,
        "kept_share": share,
        "labels_needed": result.labels_needed,
        "lowest_candidate": _cutoff(record.columns, result.lowest.cutoffs),
        "precision": record.precision,
        "recall": record.recall,
        "sure": record.sure,
        "on_average": record.sure is None,
        "naive": None
        if result.naive is None
        else {
            "threshold": _cutoff(record.columns, result.steps[result.naive].cutoffs),
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


def _cutoff(columns: tuple[str, ...], cutoffs: tuple[float, ...] | None) -> float | dict[str, float] | None:
    if cutoffs is None:
        return None
    return cutoffs[0] if len(columns) == 1 else dict(zip(columns, cutoffs, strict=True))


def _print(result: Calibration) -> None:
    from refladder.report.promise_tables import cutoff_words, steps_table  # noqa: PLC0415
    from refladder.report.terminal import terminal_tables  # noqa: PLC0415

    record = result.threshold
    out = console.console()
    for part in terminal_tables(
        [steps_table(record.columns, result.steps, result.chosen, result.naive, record.precision)], out.width
    ):
        out.print(part)
    for line in _sentences(result):
        console.say(line)
    if record.cutoffs is None:
        console.say(f"Refused: no cut-off can be promised. {_advice(result)}")
    else:
        console.say(f"Promise: {cutoff_words(record.columns, record.cutoffs)}. {_promised(result)}")
    console.say_lines(f"Note: {note}" for note in result.notes)


def _promised(result: Calibration) -> str:
    share, sure = result.promise.share, result.promise.sure
    if sure is None:
        return (
            f"On average over many runs, at most {1 - share:.3g} of the rows kept are bad. A single run can have more; "
            "a promise for this run needs --sure instead of --on-average."
        )
    if result.promise.recall is not None:
        return f"With probability {sure:g}, at least {share:g} of the good rows are kept."
    return (
        f"With probability {sure:g}, at least {share:g} of the rows kept are good. {share:g} is a lower bound: the "
        "labels that chose the cut-off cannot also give its rate."
    )


def _advice(result: Calibration) -> str:
    from refladder.report.promise_tables import cutoff_words  # noqa: PLC0415

    promise, step, more = result.promise, result.lowest, result.labels_needed
    if promise.recall is not None:
        return f"{more:,} more labels of good rows would do."
    where = cutoff_words(result.threshold.columns, step.cutoffs)
    what = "of any rows" if promise.sure is None else f"of rows with {where}"
    reached = step.precision is not None and step.precision >= promise.share
    doubt = (
        "" if reached else f" So far {step.bad_above} of {step.labels_above} labels there are bad, so this is unlikely."
    )
    return f"{more:,} more labels {what} would do if no further row with {where} is bad.{doubt}"


def _sentences(result: Calibration) -> Iterator[str]:
    """What there is to know about the labels and the scores, a line each."""
    from refladder.report.promise_tables import cutoff_words  # noqa: PLC0415

    record, surface = result.threshold, result.surface
    rows = "groups, each with its best row" if record.per else "rows"
    missing = f", {result.unscored:,} more without a score" if result.unscored else ""
    yield f"{record.rows:,} {rows}{missing}; {record.labels:,} labels, taken as a random sample of them"
    if record.cutoffs is not None:
        yield (
            f"kept: {record.kept:,} {'' if record.per is None else 'best '}rows "
            f"({record.kept / record.rows:.1%}); {record.labels_above:,} labels there, {record.bad_above:,} bad"
        )
    if result.naive is None:
        yield "without a promise: no cut-off reaches this on the labels"
    else:
        step = result.steps[result.naive]
        yield (
            f"without a promise: {cutoff_words(record.columns, step.cutoffs)} would keep {step.kept_share:.1%}; such a "
            "cut-off misses its precision in a third of the runs or more"
        )
    auc = "not known, all labels are alike" if result.auc is None else f"{result.auc:.3f}"
    if surface is None:
        yield f"AUC: {auc}; no surface measure to compare (it needs texts of the labelled rows, of two contexts)"
    else:
        keeps = "refused" if surface.kept_share is None else f"keeps {surface.kept_share:.1%}"
        other = "" if surface.auc is None else f", AUC {surface.auc:.3f}"
        yield f"AUC: {auc}; the same procedure on the best surface measure, {surface.measure}: {keeps}{other}"
        if surface.kept_share is not None and surface.kept_share >= record.kept / record.rows:
            yield "the surface measure alone can make this promise and keeps no less"
    if result.rate is not None:
        powered = result.powered
        scores = (
            "" if powered is None else f"; with the scores {powered.value:.3f} [{powered.low:.3f}, {powered.high:.3f}]"
        )
        yield (
            f"good among all rows: {result.rate.value:.3f} [{result.rate.low:.3f}, {result.rate.high:.3f}]{scores} "
            "(95 % intervals)"
        )
