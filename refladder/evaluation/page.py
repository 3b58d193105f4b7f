"""Figures of `evaluate` in a folder, and tables with figures as one page."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from refladder.display.pages import card_page
from refladder.evaluation.charts import file_stems
from refladder.evaluation.figures import consistency_tables, draw_figures
from refladder.files.jsonl import atomic
from refladder.scoring.judge_check import check_lines

if TYPE_CHECKING:
    from pathlib import Path

    from refladder.evaluation.results import Evaluations


def draw_evaluations(
    evaluations: Evaluations, *, figures: Path | None, page: Path | None, seed: int
) -> list[str]:
    """Write figures into a folder, and a page with tables and figures; return why figures could not be drawn."""
    tables = evaluations.tables()
    charts: dict[str, str] = {}
    notes = [f"{row.method}: {row.signature}" for row in evaluations.rows]
    not_drawn: list[str] = []
    stems = file_stems([evaluation.benchmark.name for evaluation in evaluations])
    for evaluation in evaluations:
        name = evaluation.benchmark.name
        files, missing = draw_figures(
            evaluation.rows,
            evaluation.cards,
            evaluation.runs,
            evaluation.benchmark,
            dimensions=evaluation.dimensions,
            seed=seed,
        )
        not_drawn += missing
        if figures is not None:
            folder = figures / stems[name] if len(stems) > 1 else figures
            for file_name, content in files.items():
                with atomic(folder / file_name) as stream:
                    stream.write(content if isinstance(content, bytes) else content.encode())
        tables += [*evaluation.card_tables(), *consistency_tables(files)]
        for file_name, content in files.items():
            if isinstance(content, str) and file_name.endswith(".svg"):
                charts[f"{name}: {file_name.removesuffix('.svg')}"] = content
        checks = itertools.chain(*check_lines(evaluation.checks))
        notes += [*evaluation.left_out, *evaluation.notes, *checks, *missing]
    if page is not None:
        title = f"{', '.join(stems)}: agreement with people"
        with atomic(page) as stream:
            stream.write(card_page(title, tables, charts, list(dict.fromkeys(notes))).encode())
    return not_drawn
