"""refladder score."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from refladder.cli import console, spending
from refladder.cli.groups import JudgingOptions, TableOptions, grouped
from refladder.cli.recorded import JUDGMENTS_FROM, open_recorded
from refladder.cli.sharding import SHARDING, ShardOptions, score_in_shards
from refladder.files.tables import STANDARD, read_once, read_rows, refuse_same_files

if TYPE_CHECKING:
    from collections.abc import Sequence

    from refladder.backends import Backend
    from refladder.backends.estimate import Plan
    from refladder.scoring.scorer import Scorer


@click.command(short_help="Score outputs against ladders.")
@click.argument("source", required=False)
@click.option(
    "--ladders",
    required=True,
    metavar="SET",
    shell_complete=console.names_of("ladders"),
    help="Ladder set: a shipped name (see `refladder list ladders`) or a folder of `refladder build`.",
)
@console.DIMENSION
@click.option("--out", default=STANDARD, help="Output file for the scored rows; - is standard output.")
@click.option(
    "--text", "text", multiple=True, help="Text to score instead of a table. Repeatable. Requires --context-id."
)
@click.option("--context-id", help="Context id of every row, for a table without such a column.")
@click.option(
    "--column",
    "column",
    multiple=True,
    metavar="FIELD=NAME",
    help="Column for a field: context_id, context, background, output or output_id. Repeatable. Default: columns with "
    "these names.",
)
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
    "--judgments",
    type=console.PATH,
    help="Judgments file, for resuming and `rescore`. Default: OUT.judgments.jsonl; none if OUT is -, or with "
    "--judgments-from.",
)
@spending.SPENDING
@console.PROMPTS
@console.RESTART
@SHARDING
@console.JSON
@click.pass_context
@grouped(judging=JudgingOptions, table=TableOptions, money=spending.SpendingOptions, sharding=ShardOptions)
def command(  # noqa: C901  one check after another
    context: click.Context,
    /,
    *,
    source: str | None,
    ladders: str,
    dimension: tuple[str, ...],
    text: tuple[str, ...],
    context_id: str | None,
    column: tuple[str, ...],
    weight: tuple[str, ...],
    judging: JudgingOptions,
    table: TableOptions,
    money: spending.SpendingOptions,
    sharding: ShardOptions,
    judgments_from: str | None,
    judgments: Path | None,
    prompts: Path | None,
    restart: bool,
    as_json: bool,
) -> int:
    """Add score columns to every row of SOURCE (JSON lines, CSV or Parquet; - is standard input).

    SOURCE may be a folder, a quoted glob or a URL (s3://, gs://, hf://). --shard-rows, --workers, --shard and --engine
    score it shard by shard into the folder OUT; see "Score on many machines" in the documentation.

    A row needs an output and either a context_id or the text of its context. Each dimension adds five columns:
    NAME_score (by --rule), NAME_grade (on the human scale), NAME_spread (standard deviation of one reading), NAME_mass
    (label mass) and NAME_note (why a score is missing or unreliable).

    Run the same command again to resume an interrupted run. Exit code 3: some scores are missing.
    """
    from refladder.errors import UsageError  # noqa: PLC0415
    from refladder.files.jsonl import is_device  # noqa: PLC0415  --help stays quick
    from refladder.files.ladder_sets import choose_dimensions, load_ladders  # noqa: PLC0415
    from refladder.files.locks import locked  # noqa: PLC0415
    from refladder.jobs.score import EMPTY, Mapped, check_input, items, score_rows, text_outputs, with_context  # noqa: PLC0415  --help stays quick
    from refladder.scoring.columns import Scale, weights_for  # noqa: PLC0415
    from refladder.scoring.dry_run import plan_scoring  # noqa: PLC0415
    from refladder.scoring.rules import rule_named  # noqa: PLC0415
    from refladder.scoring.scorer import Scorer  # noqa: PLC0415  --help stays quick

    if bool(text) == (source is not None):
        raise UsageError("give either a SOURCE table or --text, not both" if text else "give a SOURCE table, or --text")
    if text and (
        table.out != STANDARD
        or judgments is not None
        or judgments_from is not None
        or column
        or table.given
        or table.out_format
        or table.escape_formulas
    ):
        raise UsageError("--text prints its scores and keeps no file; --out, --judgments and the like need a SOURCE")
    rule_named(judging.rule)
    console.check_prompts(prompts)
    mapped = Mapped(columns=console.pairs(column, "--column"), context=context_id)
    opened = load_ladders(ladders)
    dimensions = choose_dimensions(opened.dimensions, dimension)
    scale = Scale(rule=judging.rule, weights=console.numbers(weight, "--weight"), least_mass=judging.least_mass)
    weights_for(dimensions, scale.weights)
    if sharding.given and not money.dry_run:
        return score_in_shards(
            context,
            sharding,
            source,
            ladders=opened,
            name=ladders,
            dimensions=dimensions,
            scale=scale,
            mapped=mapped,
            judging=judging,
            table=table,
            money=money,
            judgments=judgments,
            prompts=prompts,
            restart=restart,
            as_json=as_json,
        )
    checked = None if source is None else check_input(source, table.given, mapped)
    refuse_same_files(
        {"--judgments-from": judgments_from or STANDARD, "--out": table.out, "--judgments": str(judgments or STANDARD)}
    )
    recorded = open_recorded(context, judgments_from, source=source, ladders=opened)
    budgeted = spending.Spending(money)
    judge_asked = (judging.judge or "builtin", judging.judge_option)

    def scorer(backend: Backend) -> Scorer:
        return Scorer(
            backend,
            opened,
            dimensions,
            scale,
            role="compare-yesno" if judging.yes_no else "compare",
            orders=judging.orders,
            prompts=prompts,
            answers=judging.answers,
        )

    outputs = text_outputs(opened, text, context_id) if source is None else []
    if (
        judgments is None
        and recorded is None
        and source is not None
        and table.out != STANDARD
        and not is_device(Path(table.out))
    ):
        judgments = Path(f"{table.out}.judgments.jsonl")

    def plan(costs: Plan) -> int:
        asking = scorer(recorded or budgeted.connect(*judge_asked))
        if source is None:
            return plan_scoring(costs, asking, ((output, EMPTY) for output in outputs), None)
        if read_once(source) and not money.dry_run:
            raise UsageError("--budget reads SOURCE twice, which standard input and pipes cannot be; give a file")
        rows = (with_context(asking, item) for item in items(read_rows(source, table.given), mapped, check_ids=False))
        return plan_scoring(costs, asking, ((row.output, row.note) for row in rows), None if restart else judgments)

    if not budgeted.continues(plan, as_json=as_json):
        return 0
    if source is None:
        return _score_texts(scorer(budgeted.open(*judge_asked)), text, context_id, as_json=as_json)
    # Before a model is loaded or a server is asked:
    context.with_resource(nullcontext() if table.out == STANDARD else locked(Path(table.out)))
    context.with_resource(nullcontext() if judgments is None else locked(judgments))
    asking = scorer(recorded or budgeted.open(*judge_asked))
    with console.progress("scoring", budgeted.under_way) as progress:
        report = score_rows(
            asking,
            source,
            table.out,
            mapped=mapped,
            given=table.given,
            out_given=table.out_format,
            escape_formulas=table.escape_formulas,
            judgments=judgments,
            restart=restart,
            config=console.resolved(context),
            checked=checked,
            progress=progress,
        )
    return console.tell(report, as_json=as_json, to_stderr=table.out == STANDARD, spent=budgeted.spent())


def _score_texts(scorer: Scorer, texts: tuple[str, ...], context_id: str | None, *, as_json: bool) -> int:
    from refladder.jobs.score import score_texts  # noqa: PLC0415
    from refladder.report.summary import warning_lines  # noqa: PLC0415
    from refladder.scoring.columns import Columns  # noqa: PLC0415

    scores = score_texts(scorer, texts, context_id)
    table = Columns(scorer.dimensions, scorer.run.rungs, scorer.scale)
    console.say_lines(warning_lines(scorer.report))
    if as_json:
        for text, values in zip(texts, table.rows(scores), strict=True):
            row = {"context_id": context_id, "output": text, **values}
            click.echo(console.printable_json(json.dumps(row, ensure_ascii=False)))
    else:
        _print_texts(scorer, texts, table.rows(scores))
    return 0 if scorer.report.complete else console.UNSCORED


def _print_texts(scorer: Scorer, texts: Sequence[str], columns: list[dict[str, Any]]) -> None:
    from refladder.report.ladder_tables import score_table  # noqa: PLC0415
    from refladder.report.terminal import terminal_tables  # noqa: PLC0415
    from refladder.scoring.columns import bounds_text  # noqa: PLC0415

    out = console.console()
    for part in terminal_tables([score_table(texts, columns, scorer.dimensions)], out.width):
        out.print(part)
    console.say(bounds_text(scorer.run, scorer.scale.rule))
    console.say(f"signature: {scorer.report.signature}")
