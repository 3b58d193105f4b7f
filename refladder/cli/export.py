"""refladder export."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from refladder.cli import console
from refladder.cli.data import DATA, load
from refladder.files.tables import STANDARD, refuse_same_files

if TYPE_CHECKING:
    from pathlib import Path


@click.command(short_help="Export a benchmark as one table.")
@DATA
@click.option("--out", default=STANDARD, help="Output file; - is standard output.")
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
    """Export the outputs of BENCHMARK as a table (JSON lines, CSV or Parquet) with ids, texts and mean ratings.

    The columns are context_id, context, background, system, output_id, output and one per dimension. `evaluate own`
    reads this table, and `evaluate --scores` matches rows by its ids.
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
