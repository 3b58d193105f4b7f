"""refladder export."""

from __future__ import annotations

import click

from refladder.commands import console
from refladder.commands.data import DATA, DataOptions
from refladder.commands.options import grouped
from refladder.errors import plural
from refladder.files.tables import STANDARD


@click.command(cls=console.Command, short_help="Export a benchmark as one table.")
@DATA
@click.option("--out", default=STANDARD, help="Output file; - is standard output.")
@console.OUT_FORMAT
@grouped(data=DataOptions)
def command(*, data: DataOptions, out: str, out_format: str | None) -> None:
    """Export the outputs of BENCHMARK as a table (JSON lines, CSV or Parquet) with ids, texts and mean ratings.

    The columns are context_id, context, background, references, system, output_id, output and one per dimension.
    `evaluate TABLE` reads it, and `evaluate --scores` matches rows by its ids.

    Examples:
        refladder export summeval --out summeval.csv
    """
    from refladder.files.ladder_sets import choose_dimensions
    from refladder.jobs.export import export_benchmark

    benchmark = data.data().rated(None)[0]
    export_benchmark(
        benchmark, choose_dimensions(benchmark.dimensions, data.dimension), out, given=out_format
    )
    if out != STANDARD:
        outputs, contexts = (
            plural(len(benchmark.outputs), "output"),
            plural(len(benchmark.contexts), "context"),
        )
        console.notify(f"{outputs} of {contexts} in {out}")
