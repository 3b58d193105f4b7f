"""refladder build."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from refladder.cli import console

if TYPE_CHECKING:
    from collections.abc import Sequence

    from refladder.records import Context, Dimension

SOURCE = console.options(
    click.option("--source", type=str, help="File or folder with the data; by default its public home is fetched."),
    click.option("--task-file", type=console.PATH, help="For `own`: TOML file with the task and its dimensions."),
    click.option(
        "--column", "column", multiple=True, metavar="FIELD=NAME", help="For `own`: your column for a field; repeat."
    ),
    click.option(
        "--option", "option", multiple=True, metavar="KEY=VALUE", help="An option of the benchmark, such as human=true."
    ),
    click.option("--dimension", "dimension", multiple=True, metavar="NAME", help="Only these dimensions; repeat. All."),
)


@click.command(short_help="Write ladders for contexts.")
@click.argument("benchmark", shell_complete=console.names_of("benchmarks"))
@SOURCE
@click.option("--out", required=True, type=console.PATH, help="Folder the ladder set goes to.")
@click.option(
    "--writer", default="builtin", metavar="BACKEND", shell_complete=console.names_of("backends"), help="What writes."
)
@console.SAMPLING
@click.option("--human", type=str, help="Table of rungs written by people: context_id, dimension, level, text.")
@console.PROMPTS
@console.RESTART
@console.JSON
@click.pass_context
def command(
    context: click.Context,
    /,
    benchmark: str,
    source: str | None,
    task_file: Path | None,
    column: tuple[str, ...],
    option: tuple[str, ...],
    dimension: tuple[str, ...],
    out: Path,
    writer: str,
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
) -> int:
    """Write a ladder for every context and dimension of BENCHMARK (`own` for your own table).

    A build that was cut off goes on where it stopped when the same command is run again. Exit code 3: some ladders
    could not be written; failures.jsonl says why.
    """
    from refladder.jobs.build import build, read_human_rungs  # noqa: PLC0415  --help stays quick
    from refladder.records import Sampling  # noqa: PLC0415

    console.check_prompts(prompts)
    contexts, dimensions = contexts_of(benchmark, source, task_file, column, option, dimension)
    with console.progress("writing") as progress:
        report = build(
            console.open_backend(writer),
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
        click.echo(f"{report.ladders:,} ladders of {rungs} rungs in {out}, {len(report.failures):,} rungs failed", err=True)
        for failure in report.failures[:10]:
            click.echo(f"  {failure.context_id} {failure.dimension} rung {failure.level}: {failure.reasons[-1]}", err=True)
    return console.UNSCORED if report.failures else 0


def contexts_of(
    name: str,
    source: str | None,
    task_file: Path | None,
    column: Sequence[str],
    option: Sequence[str],
    dimension: Sequence[str],
) -> tuple[Sequence[Context], Sequence[Dimension]]:
    """Contexts and dimensions to build for; of `own`, a table that has no outputs will do."""
    from refladder.loaders.own import load_contexts, read_task  # noqa: PLC0415
    from refladder.published import choose_dimensions  # noqa: PLC0415

    if name == "own":
        path, own_source = own_files(source, task_file)
        task, dimensions = read_task(path)
        contexts = load_contexts(own_source, task=task, columns=console.pairs(column, "--column"))
        return contexts, choose_dimensions(dimensions, dimension)
    benchmark = load(name, source, task_file, column, option)
    return benchmark.contexts, choose_dimensions(benchmark.dimensions, dimension)


def own_files(source: str | None, task_file: Path | None) -> tuple[Path, str]:
    """The two files that `own` needs.

    Raises:
        UsageError: one is not given.
    """
    from refladder.errors import UsageError  # noqa: PLC0415

    if source is None or task_file is None:
        missing = "--source TABLE" if source is None else "--task-file TASK.toml"
        raise UsageError(f"benchmark 'own' is your own data; give it with {missing}")
    return task_file, source


def load(name: str, source: str | None, task_file: Path | None, column: Sequence[str], option: Sequence[str]):  # type: ignore[no-untyped-def]  # noqa: ANN201
    """The benchmark that the options name."""
    from refladder.errors import UsageError  # noqa: PLC0415
    from refladder.loaders import load_benchmark  # noqa: PLC0415
    from refladder.loaders.own import load_own  # noqa: PLC0415

    if name == "own":
        path, own_source = own_files(source, task_file)
        return load_own(own_source, task_file=path, columns=console.pairs(column, "--column"))
    if task_file is not None or column:
        raise UsageError(f"--task-file and --column are for benchmark 'own', not {name!r}")
    words = {"true": True, "false": False}
    options = {
        key: words.get(value, tuple(value.split(",")) if key == "systems" else value)
        for key, value in console.pairs(option, "--option").items()
    }
    return load_benchmark(name, source, **options)
