"""The options that say which data: a benchmark by name, or the user's own table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from refladder.cli import console
from refladder.errors import UsageError
from refladder.files.table_files import form_by_name

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


@dataclass(frozen=True, slots=True, kw_only=True)
class DataOptions:
    """The values of `DATA`."""

    benchmark: str
    source: str | None
    task_file: Path | None
    column: tuple[str, ...]
    option: tuple[str, ...]
    dimension: tuple[str, ...]

    def contexts_and_dimensions(self) -> tuple[Sequence[Context], Sequence[Dimension]]:
        """The contexts and dimensions to build ladders for. A table of `own` may have no outputs.

        Raises:
            UsageError, UnknownNameError, DataError: see `load`.
        """
        from refladder.files.ladder_sets import choose_dimensions  # noqa: PLC0415
        from refladder.loaders.own import load_contexts  # noqa: PLC0415  --help stays quick
        from refladder.loaders.task_files import read_task  # noqa: PLC0415

        if self.benchmark == OWN:
            task_file, table = self._own_files()
            task, dimensions = read_task(task_file)
            contexts = load_contexts(table, task=task, columns=console.pairs(self.column, "--column"))
            return contexts, choose_dimensions(dimensions, self.dimension)
        benchmark = self.load()
        return benchmark.contexts, choose_dimensions(benchmark.dimensions, self.dimension)

    def load(self) -> Benchmark:
        """The benchmark; of `own`, with the columns of the chosen dimensions alone.

        Raises:
            UsageError: options of `own` with another benchmark, or `own` without its files.
            UnknownNameError, DataError: see `refladder.loaders.load_benchmark`.
        """
        from refladder.loaders import load_benchmark  # noqa: PLC0415
        from refladder.loaders.own import load_own  # noqa: PLC0415

        if self.benchmark == OWN:
            task_file, table = self._own_files()
            columns = console.pairs(self.column, "--column")
            return load_own(table, task_file=task_file, columns=columns, dimensions=self.dimension)
        if form_by_name(self.benchmark):
            raise UsageError(
                f"{self.benchmark}: a table of your own is the benchmark 'own'; give it as "
                f"`own --source {self.benchmark} --task-file TASK.toml`, a file with the task and its dimensions"
            )
        if self.task_file is not None or self.column:
            raise UsageError(f"--task-file and --column are for benchmark 'own', not {self.benchmark!r}")
        options: dict[str, Any] = {
            key: tuple(value.split(",")) if key == "systems" else _WORDS.get(value, value)
            for key, value in console.pairs(self.option, "--option").items()
        }
        return load_benchmark(self.benchmark, self.source, **options)

    def _own_files(self) -> tuple[Path, str]:
        if self.option:
            raise UsageError(f"benchmark 'own' has no options, and --option {self.option[0]} was given; leave it out")
        if self.source is None or self.task_file is None:
            missing = "--source TABLE" if self.source is None else "--task-file TASK.toml"
            raise UsageError(f"benchmark 'own' is your own data; give it with {missing}")
        return self.task_file, self.source
