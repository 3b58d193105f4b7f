"""refladder score."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from refladder.cli import console, spending
from refladder.files.tables import STANDARD, read_once, read_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from refladder.backends import Backend
    from refladder.backends.estimate import Plan
    from refladder.files.ladder_sets import LadderSet
    from refladder.records import Output
    from refladder.scoring.scorer import Scorer

_LONG = 200  # characters of a text that the table shows


@click.command(short_help="Score outputs against ladders.")
@click.argument("source", required=False)
@click.option(
    "--ladders",
    required=True,
    metavar="SET",
    shell_complete=console.names_of("ladders"),
    help="Ladder set: a shipped name (`refladder list ladders`) or a folder that `refladder build` wrote.",
)
@console.DIMENSION
@click.option("--out", default=STANDARD, help="File for the scored rows; - is standard output.")
@click.option(
    "--text", "text", multiple=True, help="Score this text instead of a table; may be repeated. Needs --context-id."
)
@click.option("--context-id", help="The context of every row, for a table that has no such column.")
@click.option(
    "--column",
    "column",
    multiple=True,
    metavar="FIELD=NAME",
    help="Your column for context_id, context, background, output or output_id; may be repeated. Without it, columns "
    "of these names.",
)
@console.FORMAT
@console.OUT_FORMAT
@console.ESCAPE_FORMULAS
@console.backend_option("--judge", "The model that compares; `refladder list backends`.", default="builtin")
@console.JUDGE_OPTION
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
    help="File that keeps every judgment. Without it, OUT.judgments.jsonl; none if OUT is -.",
)
@spending.SPENDING
@console.PROMPTS
@console.RESTART
@console.JSON
@click.pass_context
def command(
    context: click.Context,
    /,
    *,
    source: str | None,
    ladders: str,
    dimension: tuple[str, ...],
    out: str,
    text: tuple[str, ...],
    context_id: str | None,
    column: tuple[str, ...],
    given: str | None,
    out_format: str | None,
    escape_formulas: bool,
    judge: str,
    judge_option: tuple[str, ...],
    rule: str,
    weight: tuple[str, ...],
    least_mass: float,
    answers: int,
    both_orders: bool,
    yes_no: bool,
    judgments: Path | None,
    prompts: Path | None,
    restart: bool,
    as_json: bool,
) -> int:
    """Put score columns at the end of every row of SOURCE (JSON lines, CSV or Parquet; - is standard input).

    A row needs an output and a context_id, to find its ladder, or a context, from whose text the same id is made as
    by `build own`. Each dimension adds NAME_score (by --rule), NAME_grade (on the human scale), NAME_spread (of one
    reading), NAME_mass (label probability) and NAME_note, which says why a score is missing or doubtful. A run that was
    cut off goes on when the same command is run again. Exit code 3: some scores are missing.
    """
    from refladder.errors import UsageError  # noqa: PLC0415
    from refladder.files.jsonl import is_device  # noqa: PLC0415  --help stays quick
    from refladder.files.ladder_sets import choose_dimensions, read_ladder_set  # noqa: PLC0415
    from refladder.files.locks import locked  # noqa: PLC0415
    from refladder.jobs.outputs import EMPTY, Mapped, check_input, items  # noqa: PLC0415
    from refladder.jobs.score import score_rows, with_context  # noqa: PLC0415  --help stays quick
    from refladder.scoring.columns import Scale, weights_for  # noqa: PLC0415
    from refladder.scoring.dry_run import plan_scoring  # noqa: PLC0415
    from refladder.scoring.rules import rule_named  # noqa: PLC0415
    from refladder.scoring.scorer import Scorer  # noqa: PLC0415  --help stays quick

    if bool(text) == (source is not None):
        raise UsageError("give either a SOURCE table or --text, not both" if text else "give a SOURCE table, or --text")
    if text and (out != STANDARD or judgments is not None or column or given or out_format or escape_formulas):
        raise UsageError("--text prints its scores and keeps no file; --out, --judgments and the like need a SOURCE")
    rule_named(rule)
    console.check_prompts(prompts)
    mapped = Mapped(columns=console.pairs(column, "--column"), context=context_id)
    opened = read_ladder_set(ladders)
    dimensions = choose_dimensions(opened.dimensions, dimension)
    scale = Scale(rule=rule, weights=console.numbers(weight, "--weight"), least_mass=least_mass)
    weights_for(dimensions, scale.weights)
    checked = None if source is None else check_input(source, given, mapped)
    budgeted = spending.current(context)

    def scorer(backend: Backend) -> Scorer:
        return Scorer(
            backend,
            opened,
            dimensions,
            scale,
            role="compare-yesno" if yes_no else "compare",
            orders=2 if both_orders else 1,
            prompts=prompts,
            answers=answers,
        )

    outputs = _as_outputs(opened, text, context_id) if source is None else []
    if judgments is None and source is not None and out != STANDARD and not is_device(Path(out)):
        judgments = Path(f"{out}.judgments.jsonl")

    def plan(costs: Plan) -> int:
        asking = scorer(budgeted.connect(judge, judge_option))
        if source is None:
            return plan_scoring(costs, asking, ((output, EMPTY) for output in outputs), None)
        if read_once(source) and not budgeted.dry_run:
            raise UsageError("--budget reads SOURCE twice, which standard input and pipes cannot be; give a file")
        rows = (with_context(asking, item) for item in items(read_rows(source, given), mapped, check_ids=False))
        return plan_scoring(costs, asking, ((row.output, row.note) for row in rows), None if restart else judgments)

    if not budgeted.continues(plan, as_json=as_json):
        return 0
    if source is None:
        asking = scorer(budgeted.open(judge, judge_option))
        return _score_texts(asking, text, outputs, context_id, as_json=as_json)
    # Before a model is loaded or a server is asked:
    context.with_resource(nullcontext() if out == STANDARD else locked(Path(out)))
    context.with_resource(nullcontext() if judgments is None else locked(judgments))
    asking = scorer(budgeted.open(judge, judge_option))
    with console.progress("scoring", budgeted.under_way) as progress:
        report = score_rows(
            asking,
            source,
            out,
            mapped=mapped,
            given=given,
            out_given=out_format,
            escape_formulas=escape_formulas,
            judgments=judgments,
            restart=restart,
            config=console.resolved(context),
            checked=checked,
            progress=progress,
        )
    return console.tell(report, as_json=as_json, to_stderr=out == STANDARD, spent=budgeted.spent())


def _as_outputs(ladders: LadderSet, texts: tuple[str, ...], context_id: str | None) -> list[Output | None]:
    from refladder.errors import UnknownNameError, UsageError  # noqa: PLC0415
    from refladder.files.jsonl import is_unicode  # noqa: PLC0415
    from refladder.records import Output  # noqa: PLC0415

    known = {context for context, _ in ladders.ladders}
    if context_id is None:
        raise UsageError(f"--text needs --context-id, one of: {', '.join(sorted(known)[:20])}")
    if context_id not in known:
        raise UnknownNameError("context", context_id, known)
    for text in texts:
        if not is_unicode(text):
            raise UsageError(f"--text {text!r:.60}: not UTF-8; convert it")
    return [
        Output(id=f"text {number}", context_id=context_id, system="", text=text) if text.strip() else None
        for number, text in enumerate(texts, start=1)
    ]


def _score_texts(
    scorer: Scorer, texts: tuple[str, ...], outputs: Sequence[Output | None], context_id: str | None, *, as_json: bool
) -> int:
    from refladder.jobs.outputs import EMPTY  # noqa: PLC0415
    from refladder.scoring.judgment_file import JudgmentLog  # noqa: PLC0415

    with JudgmentLog(None, scorer.run) as log:
        columns = scorer.score(outputs, [EMPTY] * len(outputs), log)
    console.tell_doubts(scorer.report)
    if as_json:
        for text, values in zip(texts, columns, strict=True):
            row = {"context_id": context_id, "output": text, **values}
            click.echo(console.printable_json(json.dumps(row, ensure_ascii=False)))
        return 0 if scorer.report.complete else console.UNSCORED
    _print_texts(scorer, texts, columns)
    return 0 if scorer.report.complete else console.UNSCORED


def _print_texts(scorer: Scorer, texts: Sequence[str], columns: list[dict[str, Any]]) -> None:
    from refladder.report.rendering import DASH, PlainTable, fitted  # noqa: PLC0415
    from refladder.scoring.columns import bounds_text, column_names, overall_column  # noqa: PLC0415

    heads = ["text"]
    for dimension in scorer.dimensions:
        heads += [f"{dimension.name}\nscore", f"grade\n{dimension.low:g} to {dimension.high:g}", "spread"]
    if len(scorer.dimensions) > 1:
        heads.append("overall\n0 to 1")
    rows = []
    for text, values in zip(texts, columns, strict=True):
        cells = []
        for dimension in scorer.dimensions:
            score, grade, spread, *_ = (values[name] for name in column_names(dimension.name))
            cells += [DASH] * 3 if score is None else [f"{score:+.2f}", f"{grade:.2f}", f"{spread:.2f}"]
        if len(scorer.dimensions) > 1:
            total = values[overall_column(scorer.dimensions)]
            cells.append(DASH if total is None else f"{total:.2f}")
        rows.append([console.printable(console.short(text, _LONG)), *cells])
    out = console.console()
    for table in fitted(PlainTable("", heads, rows), out.width):
        out.print(table)
    console.say(bounds_text(scorer.run, scorer.scale.rule))
    console.say(f"signature: {scorer.report.signature}")
