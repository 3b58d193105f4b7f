"""The results of an evaluation in its work folder, so that they can be reviewed without running it again."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from refladder.files.jsonl import atomic, to_json
from refladder.methods.method_runs import scored_methods
from refladder.report.agreement_tables import agreement_tables
from refladder.report.cards import card_tables
from refladder.scoring.judge_check import check_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from refladder.jobs.evaluate import Evaluation
    from refladder.methods.contract import Method
    from refladder.records import Benchmark, Dimension


RESULTS = "results.jsonl"  # in the folder of a run: what `refladder review` shows


def write_evaluation(
    folder: Path,
    evaluation: Evaluation,
    benchmark: Benchmark,
    dimensions: Sequence[Dimension],
    others: Sequence[Method] = (),
) -> None:
    """Write `results.jsonl`: contexts, texts, ratings, the scores of every method, and the tables of the report."""
    with atomic(folder / RESULTS) as stream:
        for line in _lines(evaluation, benchmark, dimensions, others):
            stream.write(to_json(line) + b"\n")


def _lines(
    evaluation: Evaluation,
    benchmark: Benchmark,
    dimensions: Sequence[Dimension],
    others: Sequence[Method],
) -> Iterator[dict[str, Any]]:
    notes = [
        *evaluation.limits,
        *evaluation.notes,
        *itertools.chain(*check_lines(evaluation.checks)),
    ]
    yield {
        "kind": "evaluation",
        "benchmark": benchmark.name,
        "licence": benchmark.licence,
        "notes": notes,
    }
    for context in benchmark.contexts:
        text = "\n\n".join(filter(None, [context.background, context.text]))
        yield {"kind": "row", "row": context.id, "prompt": text}
    names = [dimension.name for dimension in dimensions]
    for dimension in dimensions:
        words = {"description": dimension.description, "low": dimension.low, "high": dimension.high}
        yield {"kind": "criterion", "criterion": dimension.name, **words}
    for output in benchmark.outputs:
        fields = {"id": output.id, "system": output.system, "text": output.text}
        yield {"kind": "text", "row": output.context_id, **fields}
    for rating in benchmark.ratings:
        if rating.dimension in names:
            given = {"criterion": rating.dimension, "value": rating.value, "rater": rating.rater}
            yield {"kind": "rating", "id": rating.output_id, **given}
    for method in scored_methods(evaluation.runs, others):
        for (output_id, name), value in method.scores.items():
            if name in names:
                yield {
                    "kind": "score",
                    "method": method.name,
                    "id": output_id,
                    "criterion": name,
                    "value": value,
                }
    for table in [*agreement_tables(evaluation.rows), *card_tables(evaluation.cards)]:
        yield {
            "kind": "table",
            **{key: getattr(table, key) for key in ("caption", "heads", "rows", "legend")},
        }
