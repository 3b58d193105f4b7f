"""refladder export."""

from __future__ import annotations

from refladder.cli import console
from refladder.cli.data import DataOptions
from refladder.cli.options import subcommand
from refladder.errors import plural
from refladder.files.tables import STANDARD
from refladder.options import OF_DATA, like


@subcommand(
    "Export a benchmark as one table.",
    like("benchmark", required=True),
    "benchmark_source",
    *OF_DATA,
    like("out", help="Output file; - is standard output."),
    "out_format",
    data=DataOptions,
)
def command(*, data: DataOptions, out: str, out_format: str | None) -> None:
    """Export the outputs of BENCHMARK as a table (JSON lines, CSV or Parquet) with ids, texts and mean ratings.

    The columns are context_id, context, background, references, system, output_id, output and one per dimension.
    `evaluate TABLE` reads it, and `evaluate --scores` matches rows by its ids.

    Examples:
        refladder export summeval --out summeval.csv
    """
    from refladder.evaluation.export import export_benchmark

    benchmark, dimensions = data.data().rated(None)
    export_benchmark(benchmark, dimensions, out, given=out_format)
    if out != STANDARD:
        outputs, contexts = (
            plural(len(benchmark.outputs), "output"),
            plural(len(benchmark.contexts), "context"),
        )
        console.notify(f"{outputs} of {contexts} in {out}")
