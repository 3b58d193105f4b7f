"""The options that say which data: a benchmark by name, or the user's own table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from refladder.cli import console
from refladder.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from refladder.records import Benchmark, Context, Dimension

OWN = "own"

DATA = console.options(
    click.argument("benchmark", shell_complete=console.names_of("benchmarks")),
    click.option(
        "--source",
        type=str,
        help="File or folder with the data; required for `own`. Default: download from the public source.",
    ),
    click.option("--task-file", type=console.PATH, help="TOML file with the task and its dimensions (`own` only)."),
    click.option(
        "--column",
        "column",
        multiple=True,
        metavar="FIELD=NAME",
        help="Column for a field, such as output=reply (`own` only). Repeatable.",
    ),
    click.option(
        "--option",
        "option",
        multiple=True,
        metavar="KEY=VALUE",
        help="Option of the benchmark, such as human=true. Repeatable.",
    ),
    console.DIMENSION,
)

_WORDS: dict[str, object] = {"true": True, "false": False}


def contexts_and_dimensions(
    *,
    benchmark: str,
    source: str | None,
    task_file: Path | None,
    column: Sequence[str],
    option: Sequence[str],
    dimension: Sequence[str],
) -> tuple[Sequence[Context], Sequence[Dimension]]:
    """What to build ladders for; of `own`, a table without outputs will do."""
    from refladder.files.ladder_sets import choose_dimensions  # noqa: PLC0415
    from refladder.loaders.own import load_contexts, read_task  # noqa: PLC0415  --help stays quick

    if benchmark == OWN:
        path, table = _own_files(source, task_file, option)
        task, dimensions = read_task(path)
        contexts = load_contexts(table, task=task, columns=console.pairs(column, "--column"))
        return contexts, choose_dimensions(dimensions, dimension)
    loaded = load(
        benchmark=benchmark, source=source, task_file=task_file, column=column, option=option, dimension=dimension
    )
    return loaded.contexts, choose_dimensions(loaded.dimensions, dimension)


def load(
    *,
    benchmark: str,
    source: str | None,
    task_file: Path | None,
    column: Sequence[str],
    option: Sequence[str],
    dimension: Sequence[str],
) -> Benchmark:
    """The benchmark that the options name; of `own`, with the columns of those dimensions alone.

    Raises:
        UsageError: options of `own` with another benchmark, or `own` without its files.
        UnknownNameError, DataError: see `refladder.loaders.load_benchmark`.
    """
    from refladder.loaders import load_benchmark  # noqa: PLC0415
    from refladder.loaders.own import load_own  # noqa: PLC0415

    if benchmark == OWN:
        path, table = _own_files(source, task_file, option)
        columns = console.pairs(column, "--column")
        return load_own(table, task_file=path, columns=columns, dimensions=dimension)
    if task_file is not None or column:
        raise UsageError(f"--task-file and --column are for benchmark 'own', not {benchmark!r}")
    options: dict[str, Any] = {
        key: tuple(value.split(",")) if key == "systems" else _WORDS.get(value, value)
        for key, value in console.pairs(option, "--option").items()
    }
    return load_benchmark(benchmark, source, **options)


def _own_files(source: str | None, task_file: Path | None, option: Sequence[str]) -> tuple[Path, str]:
    if option:
        raise UsageError(f"benchmark 'own' has no options, and --option {option[0]} was given; leave it out")
    if source is None or task_file is None:
        missing = "--source TABLE" if source is None else "--task-file TASK.toml"
        raise UsageError(f"benchmark 'own' is your own data; give it with {missing}")
    return task_file, source
