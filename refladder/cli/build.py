"""refladder build."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from refladder.cli import console, spending
from refladder.cli.data import DATA, contexts_and_dimensions

if TYPE_CHECKING:
    from pathlib import Path

    from refladder.backends.estimate import Plan


@click.command(short_help="Write ladders for contexts.")
@DATA
@click.option("--out", required=True, type=console.PATH, help="Folder the ladder set goes to.")
@console.backend_option("--writer", "The model that writes; `refladder list backends`.", default="builtin")
@console.WRITER_OPTION
@console.BASE_URL
@console.LOCAL
@console.SAMPLING
@click.option("--human", type=str, help="Table of rungs written by people: context_id, dimension, level, text.")
@spending.SPENDING
@console.PROMPTS
@console.RESTART
@console.JSON
@click.pass_context
def command(
    context: click.Context,
    /,
    *,
    out: Path,
    writer: str,
    writer_option: tuple[str, ...],
    rungs: int,
    attempts: int,
    seed: int,
    max_tokens: int,
    temperature: float,
    top_p: float,
    human: str | None,
    prompts: Path | None,
    restart: bool,
    as_json: bool,
    **data: Any,  # noqa: ANN401  the options of DATA
) -> int:
    """Write a ladder for every context and dimension of BENCHMARK (`own` for your own table).

    A build that was cut off goes on where it stopped when the same command is run again. Exit code 3: some ladders
    could not be written; failures.jsonl says why.
    """
    from refladder.files.locks import locked_folder  # noqa: PLC0415
    from refladder.jobs.build import build, read_human_rungs  # noqa: PLC0415  --help stays quick
    from refladder.records import Sampling  # noqa: PLC0415
    from refladder.scoring.dry_run import copied  # noqa: PLC0415
    from refladder.synth import plan_ladders  # noqa: PLC0415
    from refladder.synth.journal import JOURNAL  # noqa: PLC0415  --help stays quick

    console.check_prompts(prompts)
    contexts, dimensions = contexts_and_dimensions(**data)
    sampling = Sampling(max_tokens=max_tokens, temperature=temperature, top_p=top_p, seed=seed)
    by_people = read_human_rungs(human) if human else None
    budgeted = spending.current(context)

    asked = (writer, writer_option, "--writer-option")
    how: dict[str, Any] = {
        "rungs": rungs,
        "sampling": sampling,
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
