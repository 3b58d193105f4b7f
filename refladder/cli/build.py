"""refladder build."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from refladder.cli import console
from refladder.cli.data import DATA, contexts_and_dimensions

if TYPE_CHECKING:
    from pathlib import Path


@click.command(short_help="Write ladders for contexts.")
@DATA
@click.option("--out", required=True, type=console.PATH, help="Folder the ladder set goes to.")
@click.option(
    "--writer",
    default="builtin",
    metavar="BACKEND",
    shell_complete=console.names_of("backends"),
    help="The backend that writes; `refladder list backends`.",
)
@console.WRITER_OPTION
@console.BASE_URL
@console.SAMPLING
@click.option("--human", type=str, help="Table of rungs written by people: context_id, dimension, level, text.")
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
    from refladder.jobs.build import build, read_human_rungs  # noqa: PLC0415  --help stays quick
    from refladder.records import Sampling  # noqa: PLC0415

    console.check_prompts(prompts)
    contexts, dimensions = contexts_and_dimensions(**data)
    with console.progress("writing") as progress:
        report = build(
            console.open_backend(writer, writer_option, "--writer-option"),
            contexts,
            dimensions,
            out,
            rungs=rungs,
            sampling=Sampling(max_tokens=max_tokens, temperature=temperature, top_p=top_p, seed=seed),
            attempts=attempts,
            prompts=prompts,
            human=read_human_rungs(human) if human else None,
            restart=restart,
            config=console.resolved(context),
            progress=progress,
        )
    if as_json:
        click.echo(json.dumps({"folder": str(out), "ladders": report.ladders, "failed": len(report.failures)}))
    else:
        failed = len(report.failures)
        click.echo(f"{report.ladders:,} ladders of {rungs} rungs in {out}, {failed:,} rungs failed", err=True)
        for failure in report.failures[:10]:
            place = f"{failure.context_id} {failure.dimension} rung {failure.level}"
            click.echo(f"  {place}: {failure.reasons[-1]}", err=True)
    return console.UNSCORED if report.failures else 0
