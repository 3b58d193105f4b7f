"""refladder filter: the command and the call."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar, cast

from refladder.calibration.records import Filtering
from refladder.cli import console
from refladder.cli.calling import Call
from refladder.cli.options import subcommand
from refladder.display.log import LOG, Log, log_lines
from refladder.errors import ExitCode, UsageError
from refladder.files.frames import Frame
from refladder.files.tables import STANDARD
from refladder.options import like
from refladder.settings import Tables, chosen

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from refladder.calibration.filter import FilterReport
    from refladder.calibration.records import Threshold
    from refladder.files.tables import Collected
    from refladder.records import Link

Table = TypeVar("Table")
KEEP, DROP = "keep", "drop"


@subcommand(
    "Select scored rows by threshold, top fraction or rank in a group.",
    like("source", default="-", beside=(".run.json", ".judgments.jsonl")),
    "min",
    "max",
    "top",
    "best",
    "per",
    like(
        "by",
        help="Column that --top and --best sort by. Ties are broken by row order. Default: overall_score, or the only "
        "column NAME_score; of ratings with grades, overall_grade or NAME_grade. With a --link of one column, the column "
        "that it maps.",
    ),
    "threshold",
    "link",
    "column",
    "out",
    "rejected",
    "unscored",
    "mix",
    "across_judges",
    "given",
    "out_format",
    "escape_formulas",
    "as_json",
    asked=Filtering,
    tables=Tables,
)
def command(*, asked: Filtering, tables: Tables, as_json: bool) -> ExitCode:
    """Select the rows of SOURCE that meet every threshold (- is standard input). Rows and their order stay unchanged.

    --best 2 --per context_id keeps the two best rows of each context.

    Scores of other ladders, judges, prompts or rules are on different scales. Mixing them is an error without --mix, or,
    for grades of ratings by several judges, --across-judges.

    Examples:
        refladder filter scored.jsonl --min overall_score=3 --out good.jsonl
        refladder filter scored.jsonl --best 2 --per context_id --out best.jsonl
    """
    from refladder.calibration.filter import run

    report = run(asked, tables, console.Console())
    if as_json:
        console.say_json(report.summary(), err=tables.out == STANDARD)
    else:
        counts, *others = report.lines()
        console.notify(counts, warns=report.unscored > 0)
        console.say_lines(others)
    if not report.rows:
        console.say("The table has no rows, so nothing was filtered", err=True)
    return ExitCode.of(complete=report.rows)


@command.call
def filter(  # noqa: A001  the name of the command
    table: Table,
    *,
    min: Mapping[str, float] | None = None,  # noqa: A002  the name of the option
    max: Mapping[str, float] | None = None,  # noqa: A002
    top: float | None = None,
    best: int | None = None,
    per: str | None = None,
    by: str | None = None,
    threshold: str | Path | Threshold | None = None,
    link: str | Path | Link | None = None,
    out: str | Path | None = None,
    rejected: str | Path | None = None,
    unscored: str | Path = DROP,
    mix: bool = False,
    across_judges: bool = False,
    columns: Mapping[str, str] | None = None,
) -> Table:
    """Select the rows that meet every threshold, as `refladder filter`. Rows and their order stay unchanged.

    Args:
        table: as for `score`.
        min: column to its least value.
        max: column to its greatest value.
        top: share (0 to 1) of the rows that meet every threshold to keep, best first by the column `by`.
        best: number of rows that meet every threshold to keep in each group, best first.
        per: column whose values are the groups of `best`, such as `context_id`.
        by: column that `top` and `best` sort by; None for `overall_score` or the only NAME_score, and of ratings with
            grades for `overall_grade` or NAME_grade. With a `link` of one column, the column that it maps; None for
            the one that the link was made from.
        threshold: a threshold from `calibrate`, or its file. It cannot be combined with other conditions.
        link: a link from `link`, or its file: compare scores on the scale that it maps to, and add COLUMN_linked for each
            column that it maps.
        out: file for the rows that pass, where `table` is a path.
        rejected: file for the rows that do not pass, likewise.
        unscored: rows without a number in a column: `drop`, `keep`, or, where `table` is a path, a file for them.
        mix: allow scores with different signatures, which can be on different scales.
        across_judges: allow grades of ratings by several judges, if ladders, scoring anchors and criterion are the
            same.
        columns: field (such as context_id) to the name of its column, for `per`; None for those that `score` used.

    Returns:
        A table of the same kind; for a path, the path of `out`. A warning of the logger `refladder` counts the rows that
        were dropped because they have no score, and those that an end of the link's interval would decide otherwise.

    Raises:
        UsageError: an argument is wrong.
        DataError: a column is missing or holds no number, or signatures differ; with path:line or the number of the
            row.
    """
    from refladder.calibration.filter import condition_of, run

    with Call(filter, locals()) as call:
        asked = chosen(Filtering, call.given)
        needed = None
        if call.frame is not None:
            asked = _in_memory(asked, out, call.source({"signature"}))
            # A link names columns itself.
            needed = None if asked.link is not None else condition_of(asked).needed
        tables = Tables(source=call.source(needed), out=call.out(out))
        report = run(asked, tables, Log())
        _log(report, drops=asked.unscored == DROP)
        if call.frame is None:
            return type(table)(out)  # type: ignore[call-arg]
        passed = cast("Collected", tables.out)
        kept = call.frame.select([row.number for row in passed.rows])
        if report.added:
            kept = Frame(kept).with_columns(passed.values, report.added, None)
        return cast("Table", kept)


def _in_memory(asked: Filtering, out: object, source: str) -> Filtering:
    """Return the settings for a table in memory: nothing is written, and the column to sort by is known."""
    from refladder.calibration.filter import condition_of
    from refladder.files.tables import read_rows
    from refladder.loaders.scored_tables import ranked_by

    if out is not None or asked.rejected is not None or asked.unscored not in (KEEP, DROP):
        raise UsageError(
            "out, rejected and a file for unscored rows are for a table in a file; give its path"
        )
    condition = condition_of(asked)
    selects = condition.best is not None or condition.top is not None
    if selects and condition.by is None:
        return replace(asked, by=ranked_by([(source, read_rows(source))]))
    return asked


def _log(report: FilterReport, *, drops: bool) -> None:
    """Log what a reader of the rows cannot see."""
    log_lines(report.notes)
    if report.uncertain:
        LOG.warning(
            "%d rows would be decided otherwise at an end of the link's 95 %% interval",
            report.uncertain,
        )
    if report.unscored and drops:
        LOG.warning("%d of %d rows have no score and were dropped", report.unscored, report.rows)
