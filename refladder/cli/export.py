"""refladder export."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from refladder.cli import console
from refladder.cli.data import DATA, load
from refladder.files.tables import STANDARD, refuse_same_files

if TYPE_CHECKING:
    from pathlib import Path


@click.command(short_help="Write a benchmark as one table.")
@DATA
@click.option("--out", default=STANDARD, help="File for the table; - is standard output.")
@console.OUT_FORMAT
def command(
    *,
    benchmark: str,
    source: str | None,
    task_file: Path | None,
    column: tuple[str, ...],
    option: tuple[str, ...],
    dimension: tuple[str, ...],
    out: str,
    out_format: str | None,
) -> None:
    """Write the outputs of BENCHMARK as a table (JSON lines, CSV or Parquet) with their ids, texts and mean ratings.

    Columns are context_id, context, background, system, output_id, output and one for each dimension: what
    `evaluate own` reads, and the ids that `evaluate --scores` needs.
    """
    from refladder.files.ladder_sets import choose_dimensions  # noqa: PLC0415
    from refladder.jobs.export import export_benchmark  # noqa: PLC0415  --help stays quick

    refuse_same_files({"--source": source or STANDARD, "--out": out})
    loaded = load(
        benchmark=benchmark, source=source, task_file=task_file, column=column, option=option, dimension=dimension
    )
    export_benchmark(loaded, choose_dimensions(loaded.dimensions, dimension), out, given=out_format)
    if out != STANDARD:
        counts = f"{len(loaded.outputs):,} outputs of {len(loaded.contexts):,} contexts"
        click.echo(f"{counts} in {console.printable(out)}", err=True)
