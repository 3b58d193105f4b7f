"""export: a benchmark -> one table with ids, texts and mean ratings, as `table` reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from refladder.errors import DataError
from refladder.files.tables import Row, open_sink
from refladder.records import by_id
from refladder.statistics.agreement import human_means

if TYPE_CHECKING:
    from collections.abc import Sequence

    from refladder.records import Benchmark, Dimension

COLUMNS = ("context_id", "context", "background", "references", "system", "output_id", "output")


def export_benchmark(
    benchmark: Benchmark, dimensions: Sequence[Dimension], out: str, *, given: str | None = None
) -> None:
    """Write a row for each output, in the benchmark's order, as `refladder.loaders.user_table.load_user_table` reads them.

    There is no column `system` where no output has one, and no `references` where no context has one (JSON in CSV).
    """
    for dimension in dimensions:
        if dimension.name in COLUMNS:
            raise DataError(
                f"{benchmark.name}: dimension {dimension.name!r} has the name of a column that every table has; export "
                "the others with --dimension"
            )
    contexts = by_id(benchmark.contexts)
    means = human_means(benchmark.ratings)
    absent = set()
    if not any(output.system for output in benchmark.outputs):
        absent.add("system")
    if not any(context.references for context in benchmark.contexts):
        absent.add("references")
    columns = [name for name in COLUMNS if name not in absent]
    ratings = {dimension.name: float for dimension in dimensions}
    with open_sink(out, given, ratings, columns, record={"command": "export"}) as write:
        for number, output in enumerate(benchmark.outputs, start=1):
            context = contexts[output.context_id]
            fields: dict[str, Any] = {
                "context_id": context.id,
                "context": context.text,
                "background": context.background,
                "references": list(context.references),
                "system": output.system,
                "output_id": output.id,
                "output": output.text,
            }
            row = Row(f"{out}:{number}", {name: fields[name] for name in columns})
            write(row, {name: means.get((output.id, name)) for name in ratings})
