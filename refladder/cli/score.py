"""refladder score."""

from __future__ import annotations

import json
import re
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from refladder.cli import console, spending
from refladder.cli.first_pass import CASCADE, CascadeOptions, scored_alone
from refladder.cli.groups import JudgingOptions, TableOptions, grouped
from refladder.cli.recorded import JUDGMENTS_FROM, open_recorded
from refladder.cli.sharding import SHARDING, ShardOptions, judge_task, score_in_shards
from refladder.files.tables import STANDARD, read_once, read_rows, refuse_same_files

if TYPE_CHECKING:
    from collections.abc import Sequence

    from refladder.backends import Backend
    from refladder.backends.estimate import Plan
    from refladder.files.ladder_sets import LadderSet
    from refladder.jobs.check_drift import DriftReport
    from refladder.records import HumanScale
    from refladder.scoring.recorded import Recorded
    from refladder.scoring.scorer import LadderScorer


@click.command(short_help="Score outputs against ladders.")
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
    "--judgments",
    type=console.PATH,
    help="Judgments file, for resuming and `rescore`. Default: OUT.judgments.jsonl; none if OUT is -, or with "
    "--judgments-from.",
)
@click.option(
    "--threshold",
    type=console.PATH,
    help="Stop likewise at the cut-offs of a threshold file of `refladder calibrate`.",
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
    table=TableOptions,
    money=spending.SpendingOptions,
    first=CascadeOptions,
    sharding=ShardOptions,
)
def command(  # noqa: C901, PLR0915  one check after another
    context: click.Context,
    /,
    *,
    source: str | None,
    ladders: str | None,
    dimension: tuple[str, ...],
    text: tuple[str, ...],
    context_id: str | None,
    column: tuple[str, ...],
    weight: tuple[str, ...],
    judging: JudgingOptions,
    table: TableOptions,
    money: spending.SpendingOptions,
    first: CascadeOptions,
    sharding: ShardOptions,
    judgments_from: str | None,
    stop_at: tuple[str, ...],
    threshold: Path | None,
    check_drift: bool,
    drift_file: Path | None,
    judgments: Path | None,
    calibration: Path | None,
    prompts: Path | None,
    restart: bool,
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
    from refladder.errors import UsageError  # noqa: PLC0415
    from refladder.files.ladder_sets import choose_dimensions, load_ladders  # noqa: PLC0415
    from refladder.files.locks import locked  # noqa: PLC0415
    from refladder.jobs.score import EMPTY, Mapped, check_input, items, score_rows, text_outputs, with_context  # noqa: PLC0415  --help stays quick
    from refladder.jobs.stop_at import stop_thresholds  # noqa: PLC0415
    from refladder.scoring.columns import Scale, weights_for  # noqa: PLC0415
    from refladder.scoring.dry_run import plan_scoring  # noqa: PLC0415
    from refladder.scoring.scorer import LadderScorer  # noqa: PLC0415  --help stays quick

    _check_text_options(
        text,
        source,
        table,
        given=[judgments, judgments_from, calibration, drift_file, threshold, *column, *stop_at],
        check_drift=check_drift,
    )
    sharding = sharding.into(table)
    mapped = Mapped(columns=console.pairs(column, "--column"), context=context_id)
    alone = scored_alone(
        context,
        judging.judge,
        source,
        ladders,
        mapped=mapped,
        table=table,
        sharding=sharding,
        restart=restart,
        as_json=as_json,
    )
    if alone is not None:
        return alone
    _check_names(judging.rule, prompts)
    scale_of_people = _human_scale(calibration)
    opened = load_ladders(ladders or "")
    dimensions = choose_dimensions(opened.dimensions, dimension)
    scale = Scale(rule=judging.rule, weights=console.numbers(weight, "--weight"), least_mass=judging.least_mass)
    weights_for(dimensions, scale.weights)
    student = first.student(text=bool(text), threshold=threshold is not None)
    thresholds, made_for = stop_thresholds(console.numbers(stop_at, "--stop-at"), threshold, opened, dimensions, scale)
    budgeted = spending.Spending(money)
    task = None
    if sharding.given and not money.dry_run:
        task = judge_task(
            context,
            sharding,
            ladders=opened,
            name=ladders or "",
            dimensions=dimensions,
            scale=scale,
            stop_at=console.numbers(stop_at, "--stop-at"),
            threshold=threshold,
            mapped=mapped,
            judging=judging,
            student=None if student is None else first.folder,
            between=first.between,
            check_share=first.check_share,
            spending=budgeted,
            budget=money.budget,
            judgments=judgments,
            prompts=prompts,
            calibration=calibration,
        )
    _tell_sampled(sampled=bool(thresholds and judging.answers))
    checked = None if source is None or task is not None else check_input(source, table.given, mapped)
    recorded = _recorded(
        context, judgments_from, source=source, ladders=opened, files=(table.out, judgments), check_drift=check_drift
    )
    judge_asked = (judging.judge or "builtin", judging.judge_option)

    def scorer(backend: Backend) -> LadderScorer:
        made = LadderScorer(
            backend,
            opened,
            dimensions,
            scale,
            role="compare-yesno" if judging.yes_no else "compare",
            orders=judging.orders,
            prompts=prompts,
            answers=judging.answers,
            stop_at=thresholds,
        )
        return made_for(made)

    outputs = text_outputs(opened, text, context_id) if source is None else []
    if recorded is None:
        judgments = judgments or _default_judgments(source, table.out)

    def plan(costs: Plan) -> int:
        asking = scorer(recorded or budgeted.connect(*judge_asked))
        if source is None:
            return plan_scoring(costs, asking, ((output, EMPTY) for output in outputs), None)
        if read_once(source) and not money.dry_run:
            raise UsageError("--budget reads SOURCE twice, which standard input and pipes cannot be; give a file")
        rows = (with_context(asking, item) for item in items(read_rows(source, table.given), mapped, check_ids=False))
        if check_drift:
            _plan_drift(costs, asking, _drift_file(asking, judge_asked, drift_file))
        judged = first.undecided(rows, asking, student)
        return plan_scoring(costs, asking, ((row.output, row.note) for row in judged), None if restart else judgments)

    if not budgeted.continues(plan, as_json=as_json):
        return 0
    if task is not None:
        return score_in_shards(
            context,
            sharding,
            source,
            task,
            mapped=mapped,
            table=table,
            gpus=task.judge.startswith("hf:"),
            restart=restart,
            as_json=as_json,
        )
    if source is None:
        return _score_texts(scorer(budgeted.open(*judge_asked)), text, context_id, as_json=as_json)
    # Before a model is loaded or a server is asked:
    context.with_resource(nullcontext() if table.out == STANDARD else locked(Path(table.out)))
    context.with_resource(nullcontext() if judgments is None else locked(judgments))
    asking = scorer(recorded or budgeted.open(*judge_asked))
    drift = _drift(asking, budgeted, judge_asked, drift_file, as_json=as_json) if check_drift else None
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
            calibration=scale_of_people,
            first_pass=first.before(asking, student),
            config=console.resolved(context),
            checked=checked,
            progress=progress,
        )
    return console.tell(report, as_json=as_json, to_stderr=table.out == STANDARD, spent=budgeted.spent(), drift=drift)


def _human_scale(path: Path | None) -> HumanScale | None:
    from refladder.files.jsonl import read_record  # noqa: PLC0415  --help stays quick
    from refladder.records import HumanScale  # noqa: PLC0415  --help stays quick

    return None if path is None else read_record(HumanScale, path)


def _check_names(rule: str, prompts: Path | None) -> None:
    """Refuse a rule that does not exist, and a folder of prompts that does not."""
    from refladder.scoring.rules import rule_named  # noqa: PLC0415  --help stays quick

    rule_named(rule)
    console.check_prompts(prompts)


def _default_judgments(source: str | None, out: str) -> Path | None:
    from refladder.files.jsonl import is_device  # noqa: PLC0415  --help stays quick

    if source is None or out == STANDARD or is_device(Path(out)):
        return None
    return Path(f"{out}.judgments.jsonl")


def _tell_sampled(*, sampled: bool) -> None:
    if sampled:
        console.say(
            "sampled answers: each decision is that of the whole ladder with the same answers; others may decide "
            "otherwise",
            err=True,
        )


def _recorded(
    context: click.Context,
    path: str | None,
    *,
    source: str | None,
    ladders: LadderSet,
    files: tuple[str, Path | None],
    check_drift: bool,
) -> Recorded | None:
    """The judgments of --judgments-from, in the place of the judge."""
    from refladder.errors import UsageError  # noqa: PLC0415

    out, judgments = files
    refuse_same_files({"--judgments-from": path or STANDARD, "--out": out, "--judgments": str(judgments or STANDARD)})
    recorded = open_recorded(context, path, source=source, ladders=ladders)
    if recorded is not None and check_drift:
        raise UsageError("--check-drift asks the judge again, and recorded judgments have none; leave it out")
    return recorded


def _check_text_options(
    text: tuple[str, ...],
    source: str | None,
    table: TableOptions,
    *,
    given: Sequence[Path | str | None],
    check_drift: bool,
) -> None:
    """Refuse options that a --text does not have, and a table beside it."""
    from refladder.errors import UsageError  # noqa: PLC0415

    if bool(text) == (source is not None):
        raise UsageError("give either a SOURCE table or --text, not both" if text else "give a SOURCE table, or --text")
    if not text:
        return
    if table.out != STANDARD or any(given) or table.given or table.out_format or table.escape_formulas:
        raise UsageError(
            "--text prints its scores and keeps no file; --out, --judgments, --calibration and the like need a SOURCE"
        )
    if check_drift:
        raise UsageError("--check-drift needs a SOURCE table; --text prints its scores and keeps no file")


def _drift(
    scorer: LadderScorer,
    budgeted: spending.Spending,
    judge: tuple[str, tuple[str, ...]],
    path: Path | None,
    *,
    as_json: bool,
) -> DriftReport:
    """Take a look at the judge."""
    from refladder.jobs.check_drift import check_drift, drift_line  # noqa: PLC0415

    report = check_drift(scorer, budgeted.without_store_of(*judge), _drift_file(scorer, judge, path))
    if not as_json:
        console.say(drift_line(report), err=True)
    return report


def _drift_file(scorer: LadderScorer, judge: tuple[str, tuple[str, ...]], path: Path | None) -> Path:
    """The default is one file for each ladder set and each judge as the user names it."""
    from refladder.api.judges import default_store  # noqa: PLC0415

    name = re.sub(r"[^\w.-]+", "-", f"{scorer.ladders.name}-{scorer.ladders.digest}-{judge[0]}")
    return path or default_store().parent / "drift" / f"{name}.json"


def _plan_drift(costs: Plan, scorer: LadderScorer, path: Path) -> None:
    from refladder.jobs.check_drift import plan_look  # noqa: PLC0415

    console.say(f"--check-drift asks {plan_look(costs, scorer, path):,} of the calls", err=True)


def _score_texts(scorer: LadderScorer, texts: tuple[str, ...], context_id: str | None, *, as_json: bool) -> int:
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


def _print_texts(scorer: LadderScorer, texts: Sequence[str], columns: list[dict[str, Any]]) -> None:
    from refladder.report.ladder_tables import score_table  # noqa: PLC0415
    from refladder.report.terminal import terminal_tables  # noqa: PLC0415
    from refladder.scoring.columns import bounds_text  # noqa: PLC0415

    out = console.console()
    for part in terminal_tables([score_table(texts, columns, scorer.dimensions)], out.width):
        out.print(part)
    console.say(bounds_text(scorer.run, scorer.scale.rule))
    console.say(f"signature: {scorer.report.signature}")
