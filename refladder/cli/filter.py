"""refladder filter."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from refladder.cli import console
from refladder.files.tables import STANDARD

if TYPE_CHECKING:
    from pathlib import Path

    from refladder.jobs.filter import FilterReport


@click.command(cls=console.Command, short_help="Select scored rows by threshold, top fraction or rank in a group.")
@click.argument("source", default=STANDARD)
@click.option(
    "--min",
    "least",
    multiple=True,
    metavar="COLUMN=NUMBER",
    help="Minimum value of a column. Repeatable; a row must meet all thresholds.",
)
@click.option("--max", "most", multiple=True, metavar="COLUMN=NUMBER", help="Maximum value of a column. Repeatable.")
@click.option(
    "--top",
    type=float,
    help="Fraction (0 to 1) of the rows that meet every threshold to keep, best first. Requires --by.",
)
@click.option(
    "--best",
    type=click.IntRange(min=1),
    metavar="K",
    help="Number of rows that meet every threshold to keep in each group, best first. Requires --per.",
)
@click.option("--per", metavar="COLUMN", help="Column whose values are the groups of --best, such as context_id.")
@click.option(
    "--by",
    "top_by",
    metavar="COLUMN",
    help="Column that --top and --best sort by. Ties are broken by row order. Default for --best: the weighted "
    "score of all dimensions (overall_score), or the only column NAME_score.",
)
@click.option(
    "--threshold", type=console.PATH, help="Threshold file of `refladder calibrate`. Keeps its promise only by itself."
)
@click.option(
    "--link",
    "link_file",
    type=console.PATH,
    help="Link of `refladder link`: compare scores on the scale that it maps to.",
)
@click.option("--out", default=STANDARD, help="Output file for the rows that pass; - is standard output.")
@click.option("--rejected", help="Output file for the rows that do not pass. Default: they are counted and dropped.")
@click.option(
    "--unscored",
    default="drop",
    help="Treatment of rows without a number in a filtered column: keep, drop, or an output file.",
)
@click.option("--mix", is_flag=True, help="Allow scores with different signatures, which can be on different scales.")
@console.FORMAT
@console.OUT_FORMAT
@console.ESCAPE_FORMULAS
@console.JSON
def command(
    *,
    source: str,
    least: tuple[str, ...],
    most: tuple[str, ...],
    top: float | None,
    top_by: str | None,
    best: int | None,
    per: str | None,
    threshold: Path | None,
    link_file: Path | None,
    out: str,
    rejected: str | None,
    unscored: str,
    mix: bool,
    given: str | None,
    out_format: str | None,
    escape_formulas: bool,
    as_json: bool,
) -> int:
    """Select the rows of SOURCE that meet every threshold (- is standard input). Rows and their order stay unchanged.

    --best 2 --per context_id keeps the two best rows of each context.

    Scores with different signatures (ladders, judge, prompts, rule) are on different scales. They are an error without
    --mix.
    """
    from refladder.jobs.filter import asked_condition, filter_rows  # noqa: PLC0415  --help stays quick
    from refladder.jobs.link import open_link  # noqa: PLC0415

    condition = asked_condition(
        threshold,
        least=console.numbers(least, "--min"),
        most=console.numbers(most, "--max"),
        top=top,
        top_by=top_by,
        best=best,
        per=per,
        mix=mix,
        linked=link_file is not None,
    )
    linker = None if link_file is None else open_link(link_file)
    with console.progress("filtering") as progress:
        report = filter_rows(
            condition,
            source,
            out,
            given=given,
            out_given=out_format,
            escape_formulas=escape_formulas,
            rejected=rejected,
            unscored=unscored,
            mix=mix,
            linker=linker,
            progress=progress,
        )
    if as_json:
        names = ("rows", "passed", "rejected", "unscored", "unscored_to", "ranges")
        counts = {name: getattr(report, name) for name in names}
        if linker is not None:
            counts["uncertain"] = report.uncertain
        console.say_json(counts, err=out == STANDARD)
    else:
        where = {"keep": "kept", "drop": "dropped"}.get(unscored, f"in {unscored}")
        share = f" ({report.passed / report.rows:.1%})" if report.rows else ""
        console.say(
            f"{report.rows:,} rows: {report.passed:,} passed{share}, {report.rejected:,} rejected, "
            f"{report.unscored:,} unscored ({where})",
            err=True,
        )
        if report.uncertain is not None:
            console.say(
                f"{report.uncertain:,} rows would be decided otherwise at an end of the link's 95 % interval", err=True
            )
        if report.rows and not report.passed:
            console.say(
                f"no row passes: {', '.join(_range_of(column, report) for column in condition.columns)}", err=True
            )
    return 0


def _range_of(column: str, report: FilterReport) -> str:
    if column not in report.ranges:
        return f"{column} holds no number"
    low, high = report.ranges[column]
    return f"{column} is between {low:g} and {high:g}"
