"""refladder score."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from refladder.cli import console, spending
from refladder.cli.first_pass import CASCADE, CascadeOptions, scored_alone
from refladder.cli.groups import JudgingOptions, TableOptions, grouped
from refladder.cli.recorded import JUDGMENTS_FROM
from refladder.cli.score_run import FileOptions, LadderOptions, ScoreRun
from refladder.cli.sharding import SHARDING, ShardOptions
from refladder.errors import UsageError
from refladder.files.tables import STANDARD, read_once

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


@click.command(cls=console.Command, short_help="Score outputs against ladders.")
@click.argument("source", required=False)
@click.option(
    "--ladders",
    metavar="SET",
    shell_complete=console.names_of("ladders"),
    help="Ladder set: a shipped name (see `refladder list ladders`), a folder of `refladder build`, or the address "
    "hub:ORG/NAME@REVISION. Required, except for --judge distilled:FOLDER.",
)
@console.DIMENSION
@click.option(
    "--out",
    default=STANDARD,
    help="Output file for the scored rows; - is standard output. A folder (a name without extension, or a URL) gets "
    "one file per shard.",
)
@click.option(
    "--text", "text", multiple=True, help="Text to score instead of a table. Repeatable. Requires --context-id."
)
@click.option("--context-id", help="Context id of every row, for a table without such a column.")
@console.COLUMN
@console.FORMAT
@console.OUT_FORMAT
@console.ESCAPE_FORMULAS
@console.backend_option("--judge", "Judge model (see `refladder list backends`).", default="builtin")
@console.JUDGE_OPTION
@JUDGMENTS_FROM
@console.BASE_URL
@console.LOCAL
@console.RULE
@console.WEIGHT
@console.LEAST_MASS
@console.ANSWERS
@console.JUDGING
@click.option(
    "--stop-at",
    "stop_at",
    multiple=True,
    metavar="COLUMN=NUMBER",
    help="Stop asking about a row when it is certain whether COLUMN (NAME_score, NAME_grade or the overall score) "
    "reaches NUMBER. Repeatable: a row passes when all columns do. Rows that stop have bounds instead of a score.",
)
@click.option(
    "--threshold",
    type=console.PATH,
    help="Stop likewise at the cut-offs of a threshold file of `refladder calibrate`.",
)
@click.option(
    "--judgments",
    type=console.PATH,
    help="Judgments file, for resuming and `rescore`. Default: OUT.judgments.jsonl; none if OUT is -, or with "
    "--judgments-from.",
)
@CASCADE
@click.option(
    "--check-drift",
    "check_drift",
    is_flag=True,
    help="Before the rows, judge a few pairs of rungs again and compare with the first time. Exit code 3: the judge "
    "has changed.",
)
@click.option(
    "--drift-file",
    type=console.PATH,
    help="File of --check-drift with the readings of earlier runs. Default: a file of this ladder set and judge in the "
    "user's cache folder.",
)
@click.option(
    "--calibration",
    type=console.PATH,
    help="File of `calibrate --human-scale`. Adds NAME_expected (the expected rating) and the ends of its interval.",
)
@spending.SPENDING
@console.PROMPTS
@console.RESTART
@SHARDING
@console.JSON
@click.pass_context
@grouped(
    judging=JudgingOptions,
    against=LadderOptions,
    table=TableOptions,
    files=FileOptions,
    money=spending.SpendingOptions,
    first=CascadeOptions,
    sharding=ShardOptions,
)
def command(
    context: click.Context,
    /,
    *,
    source: str | None,
    text: tuple[str, ...],
    context_id: str | None,
    column: tuple[str, ...],
    judging: JudgingOptions,
    against: LadderOptions,
    table: TableOptions,
    files: FileOptions,
    money: spending.SpendingOptions,
    first: CascadeOptions,
    sharding: ShardOptions,
    as_json: bool,
) -> int:
    """Add score columns to every row of SOURCE (JSON lines, CSV or Parquet; - is standard input).

    SOURCE may be a folder, a quoted glob or a URL (s3://, gs://, hf://). If OUT is a folder, or with --shard-rows,
    --workers, --shard or --engine, it is scored shard by shard; see "Score on many machines" in the documentation.

    A row needs an output and either a context_id or the text of its context. Each dimension adds five columns:
    NAME_score (by --rule), NAME_grade (on the human scale), NAME_spread (standard deviation of one reading), NAME_mass
    (label mass) and NAME_note (why a score is missing or unreliable).

    Run the same command again to resume an interrupted run. Exit code 3: some scores are missing.
    """
    from refladder.jobs.score import Mapped  # noqa: PLC0415  --help stays quick

    _check_text_options(text, source, table, files, given=[against.threshold, *column, *against.stop_at])
    sharding = sharding.into(table)
    mapped = Mapped(columns=console.pairs(column, "--column"), context=context_id)
    alone = scored_alone(
        context,
        judging.judge,
        source,
        against.ladders,
        mapped=mapped,
        table=table,
        sharding=sharding,
        restart=files.restart,
        as_json=as_json,
    )
    if alone is not None:
        return alone
    run = ScoreRun(
        context,
        judging=judging,
        against=against,
        files=files,
        money=money,
        first=first,
        student=first.student(text=bool(text), threshold=against.threshold is not None),
        as_json=as_json,
    )
    if source is None:
        return run.score_texts(text, context_id)
    if sharding.given and not money.dry_run:
        return run.score_in_shards(source, table, mapped, sharding)
    if read_once(source) and money.budget is not None and not money.dry_run:
        raise UsageError("--budget reads SOURCE twice, which standard input and pipes cannot be; give a file")
    return run.score_table(source, table, mapped)


def _check_text_options(
    text: tuple[str, ...],
    source: str | None,
    table: TableOptions,
    files: FileOptions,
    *,
    given: Sequence[Path | str | None],
) -> None:
    """Refuse options that a --text does not have, and a table beside it."""
    if bool(text) == (source is not None):
        raise UsageError("give either a SOURCE table or --text, not both" if text else "give a SOURCE table, or --text")
    if not text:
        return
    given = [*given, files.judgments, files.judgments_from, files.calibration, files.drift_file]
    if table.out != STANDARD or any(given) or table.given or table.out_format or table.escape_formulas:
        raise UsageError(
            "--text prints its scores and keeps no file; --out, --judgments, --calibration and the like need a SOURCE"
        )
    if files.check_drift:
        raise UsageError("--check-drift needs a SOURCE table; --text prints its scores and keeps no file")
