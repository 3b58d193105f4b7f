"""rescore: scores from stored judgments, without a model."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from refladder.errors import DataError, UsageError
from refladder.files.tables import Row, open_sink, refuse_same_files
from refladder.records import OUTCOMES
from refladder.scoring.columns import (
    Columns,
    Scale,
    ScoreReport,
    added_columns,
    block_notes,
    least_masses,
    signature_of,
    weights_for,
)
from refladder.scoring.judging import inconsistency, trusted, verdicts
from refladder.scoring.judgment_file import check_outcomes, read_judgments
from refladder.scoring.question import rung_id

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from refladder.records import Judgment, Progress, Run


BATCH = 2048  # outputs held at a time


def rescore(
    judgments: Path,
    out: str,
    scale: Scale,
    *,
    out_given: str | None = None,
    escape_formulas: bool = False,
    progress: Progress | None = None,
) -> ScoreReport:
    """Compute scores from stored judgments, without a model: one row for each output, in the order of the judgments.

    Args:
        judgments: the file that `score_rows` wrote.
        out: file or `-`; its rows have output_id, context_id and the score columns.
        scale: rule, weights and least label mass.
        out_given: format of the output, where its name does not show it.
        escape_formulas: put `'` before text in CSV that a spreadsheet would run as a formula.
        progress: called with the number of judgments read so far, and None.

    Returns:
        The counts.

    Raises:
        DataError: with path:line, the file is damaged or its order is not the canonical one.
        UsageError: `out` is the same file, the judgments are not of a ladder, or a weight names another dimension.
    """
    refuse_same_files({"the judgments": str(judgments), "--out": out})
    run, located = read_judgments(judgments)
    if not run.rungs:
        raise UsageError(
            f"{judgments}: judgments of pairs or of single texts, and rescore reads comparisons with ladders; "
            "run `refladder evaluate` with the same --work again, which asks nothing twice"
        )
    weights_for(run.dimensions, scale.weights)
    columns = Columns(run.dimensions, run.rungs, scale)
    report = ScoreReport(signature=signature_of(run, scale))
    count = run.rungs * run.orders  # judgments of an output on a dimension
    outputs = _judged_outputs(located, run, count)
    added, header = added_columns(run.dimensions), ["output_id", "context_id"]
    with open_sink(out, out_given, added, header, escape_formulas=escape_formulas) as write:
        while batch := list(itertools.islice(outputs, BATCH)):
            probabilities = np.full((len(batch), len(run.dimensions), run.rungs, 3), np.nan)
            reasons: dict[tuple[int, int], str] = {}
            cells = [(row, number) for row, (_, blocks) in enumerate(batch) for number in blocks]
            stored = [judgment for _, blocks in batch for block in blocks.values() for judgment in block]
            scored = trusted(stored, scale.least_mass)
            masses = np.full(probabilities.shape[:2], np.nan)
            rows, numbers = np.array(cells).T
            probabilities[rows, numbers] = verdicts(scored, run.rungs, run.orders)
            masses[rows, numbers] = least_masses(scored, count)
            reasons.update(block_notes(scored, cells, count))
            absent = {(row, number) for row in range(len(batch)) for number in range(len(run.dimensions))}
            reasons.update(dict.fromkeys(absent - set(cells), "not judged"))
            report.judgments += len(scored)
            report.count(scored)
            if run.orders > 1:
                disagree, pairs = inconsistency(scored)
                report.disagreements += disagree
                report.order_pairs += pairs
            for (ids, _), values in zip(batch, columns.of(probabilities, masses, reasons, report), strict=True):
                values["signature"] = report.signature
                write(Row("", ids), values)
            if progress is not None:
                progress(report.judgments, None)
    report.reused = report.judgments
    return report


def _judged_outputs(
    located: Iterator[tuple[str, Judgment]], run: Run, count: int
) -> Iterator[tuple[dict[str, str], dict[int, list[Judgment]]]]:
    """The judgments of one output after another, in blocks by the number of their dimension."""
    number_of = {dimension.name: number for number, dimension in enumerate(run.dimensions)}
    expected = [
        ("", rung_id(level)) if not swapped else (rung_id(level), "")
        for level in range(1, run.rungs + 1)
        for swapped in range(run.orders)
    ]
    current: tuple[dict[str, str], dict[int, list[Judgment]]] | None = None
    while block := list(itertools.islice(located, count)):
        where, first = block[0]
        output_id = first.subject
        number = number_of.get(first.dimension)
        if number is None:
            raise DataError(f"{where}: dimension {first.dimension!r} is not among the run's: {sorted(number_of)}")
        for (line, judgment), (subject, against) in zip(block, expected, strict=False):
            check_outcomes(line, judgment, OUTCOMES)
            if (judgment.subject, judgment.against) != (subject or output_id, against or output_id):
                raise DataError(
                    f"{line}: expected {subject or output_id!r} against {against or output_id!r}, found "
                    f"{judgment.subject!r} against {judgment.against!r}; judgments must keep their order"
                )
        if len(block) < count:
            raise DataError(
                f"{block[-1][0]}: the file ends within output {output_id!r}; run `refladder score` again to complete it"
            )
        if current is None or current[0]["output_id"] != output_id or number in current[1]:
            if current is not None:
                yield current
            current = ({"output_id": output_id, "context_id": first.context_id}, {})
        current[1][number] = [judgment for _, judgment in block]
    if current is not None:
        yield current
