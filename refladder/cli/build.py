"""refladder build."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from refladder.cli import console, spending
from refladder.cli.data import DATA, DataOptions
from refladder.cli.groups import DrawingOptions, grouped

if TYPE_CHECKING:
    from pathlib import Path

    from refladder.backends.estimate import Plan


@click.command(short_help="Generate ladders for a benchmark or a table.")
@DATA
@click.option("--out", required=True, type=console.PATH, help="Output folder for the ladder set.")
@console.backend_option("--writer", "Writer model (see `refladder list backends`).", default="builtin")
@console.WRITER_OPTION
@console.BASE_URL
@console.LOCAL
@console.SAMPLING
@click.option(
    "--human", type=str, help="Table of human-written rungs with the columns context_id, dimension, level and text."
)
@spending.SPENDING
@console.PROMPTS
@console.RESTART
@console.JSON
@click.pass_context
@grouped(data=DataOptions, drawing=DrawingOptions, money=spending.SpendingOptions)
def command(
    context: click.Context,
    /,
    *,
    data: DataOptions,
    drawing: DrawingOptions,
    money: spending.SpendingOptions,
    out: Path,
    writer: str,
    writer_option: tuple[str, ...],
    rungs: int,
    attempts: int,
    human: str | None,
    prompts: Path | None,
    restart: bool,
    as_json: bool,
) -> int:
    """Generate a ladder for every context and dimension of BENCHMARK (`own` for your own table).

    Run the same command again to resume an interrupted build. Exit code 3: some ladders failed; the reasons are in
    failures.jsonl.
    """
    from refladder.files.locks import locked_folder  # noqa: PLC0415
    from refladder.jobs.build import build, read_human_rungs  # noqa: PLC0415  --help stays quick
    from refladder.scoring.dry_run import copied  # noqa: PLC0415
    from refladder.synth import plan_ladders  # noqa: PLC0415
    from refladder.synth.journal import JOURNAL  # noqa: PLC0415  --help stays quick

    console.check_prompts(prompts)
    contexts, dimensions = data.contexts_and_dimensions()
    by_people = read_human_rungs(human) if human else None
    budgeted = spending.Spending(money)

    asked = (writer, writer_option, "--writer-option")
    how: dict[str, Any] = {
        "rungs": rungs,
        "sampling": drawing.sampling,
        "attempts": attempts,
        "prompts": prompts,
        "human": by_people,
    }

    def plan(costs: Plan) -> None:
        with copied(None if restart else out) as copy:
            journal = None if copy is None else copy / JOURNAL
            plan_ladders(costs, budgeted.connect(*asked), contexts, dimensions, journal=journal, **how)

    if not budgeted.continues(plan, as_json=as_json):
        return 0
    context.with_resource(locked_folder(out))  # before a model is loaded or a server is asked
    backend = budgeted.open(*asked)
    with console.progress("writing", budgeted.under_way) as progress:
        report = build(
            backend,
            contexts,
            dimensions,
            out,
            restart=restart,
            config=console.resolved(context),
            progress=progress,
            **how,
        )
    if as_json:
        counts = {"folder": str(out), "ladders": report.ladders, "failed": len(report.failures)}
        click.echo(json.dumps({**counts, "spent": budgeted.spent()}))
    else:
        failed = len(report.failures)
        console.say(f"{report.ladders:,} ladders of {rungs} rungs in {out}, {failed:,} rungs failed", err=True)
        for failure in report.failures[:10]:
            place = f"{failure.context_id} {failure.dimension} rung {failure.level}"
            console.say(f"  {place}: {failure.reasons[-1]}", err=True)
        console.tell_spent(budgeted.spent())
    return console.UNSCORED if report.failures else 0
