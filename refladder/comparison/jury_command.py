"""refladder jury: the command and the call."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from refladder.cli import console
from refladder.cli.calling import Call, source_of
from refladder.cli.options import subcommand
from refladder.display.log import Log, log_lines
from refladder.errors import ExitCode, UsageError
from refladder.files.frames import Frame
from refladder.files.tables import Collected
from refladder.options import like

if TYPE_CHECKING:
    from collections.abc import Mapping


@subcommand(
    "Combine the grades of several judges.",
    like(
        "source",
        parameter="tables",
        metavar="SCORED SCORED ...",
        multiple=True,
        required=True,
        beside=(".run.json",),
    ),
    like(
        "column",
        help="Column of output_id, context_id, context or output, if named otherwise, in the tables that have it. "
        "Repeatable.",
    ),
    "median",
    "least",
    "same_judge",
    like("out_file", help="Output file for the rows with the jury's grades.", required=True),
    "as_json",
    given=dict,
)
def command(
    *, source: tuple[str, ...], given: Mapping[str, Any], out: Path, as_json: bool
) -> ExitCode:
    """Combine tables that score the same texts, each with one judge, to one grade for each text.

    All need grades on the same ladders, anchors and criteria, of ratings or of comparisons. A table of a jury may be a
    member. Each criterion gets NAME_grade (the mean), NAME_spread (standard deviation between judges), NAME_judges (judges
    with a grade) and NAME_note. Printed is how each judge is in step with the others.

    Exit code 3: some rows have no grade.

    Examples:
        refladder jury a.jsonl b.jsonl c.jsonl --out jury.jsonl
    """
    from refladder.comparison.jury import JurySettings, jury
    from refladder.settings import chosen

    report = jury(source, str(out), chosen(JurySettings, given), console.Console())
    if as_json:
        console.say_json(report.summary())
    else:
        console.say_tables(report.tables(), hide=False)
        console.say_lines(report.lines())
    return ExitCode.of(complete=report.rows == report.graded)


@command.call
def jury(
    tables: Any,
    *,
    columns: Mapping[str, str] | None = None,
    median: bool = False,
    least: int | None = None,
    same_judge: bool = False,
    out: str | Path | None = None,
) -> Any:
    """Combine tables that score the same texts, each with one judge, as `refladder jury`.

    Args:
        tables: a list of two or more tables of any kind, each with the scores of one judge on the same ladders and criteria.
        columns: field (such as output_id or context_id) to the name of its column, in the tables that have it.
        median: the grade is the median of the judges' grades instead of the mean.
        least: fewest judges whose grades make one; None for half of them, rounded up.
        same_judge: allow tables of one judge.
        out: file for the rows, required where the first table is a path.

    Returns:
        A table like the first one, without its score columns and with the jury's: NAME_grade, NAME_spread, NAME_judges,
        NAME_note and, of several criteria, overall_grade; for a path, the path of `out`. The logger `refladder` says how
        each judge is in step with the others: in a warning where rows have no grade.

    Raises:
        UsageError: an argument is wrong, or two tables are of the same judge.
        DataError: a file cannot be read or written, with path:line; or grades are missing, on different scales, or of
            different texts.
    """
    from refladder.comparison.jury import JurySettings, jury_columns
    from refladder.comparison.jury import jury as combine
    from refladder.settings import chosen

    with Call(jury, locals(), table="") as call:
        if not isinstance(tables, list | tuple):
            raise UsageError(f"tables must be a list of two or more tables, found {tables!r:.60}")
        sources = [source_of(each, f"table {place}") for place, each in enumerate(tables, 1)]
        first = tables[0] if sources else ""
        frame = None if isinstance(first, str | Path) else Frame(first)
        if out is None and frame is None:
            raise UsageError("tables in files are combined in another file; give out=PATH")
        written = Collected(frame.form) if frame is not None and out is None else str(out)
        report = combine(sources, written, chosen(JurySettings, call.given), Log())
        level = logging.INFO if report.rows == report.graded else logging.WARNING
        log_lines(report.lines(), level)
        log_lines(report.member_lines(), logging.INFO)
        if frame is None:
            return type(first)(out)
        return frame.made(written, report.kept, jury_columns(report.signature))
