"""NewsRoom human evaluation (Grusky et al. 2018): summaries of 60 news articles by 7 systems."""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING

from refladder.loaders.draft import Draft, add_flat
from refladder.loaders.fields import name_of, number_of, text_of
from refladder.loaders.sources import find_copy, read_table
from refladder.loaders.task_files import TASKS, read_task
from refladder.records import names_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from refladder.files.tables import Row
    from refladder.records import Benchmark

TASK, DIMENSIONS = read_task(TASKS / "newsroom.toml")
COLUMNS = {f"{dimension.name.capitalize()}Rating": dimension.name for dimension in DIMENSIONS}
FILES = "newsroom-human-eval.csv", "newsroom.json"
COPY = "newsroom-human-eval.csv from https://github.com/lil-lab/newsroom/tree/master/humaneval"
RATERS = 3


def load(source: Path | None) -> Benchmark:
    """Read the NewsRoom human evaluation; HTML entities are decoded and each paragraph is a line.

    Formats: the release (CSV, one row per rater), and the flat list of PairS (means), which has no system names and
    whose order differs between documents: `system 1` .. `system 7` are positions, so compare systems only with the
    release.
    """
    table = read_table(find_copy(source, FILES, "newsroom", COPY))
    draft = Draft(TASK, DIMENSIONS)
    if "system_output" in table.rows[0].fields:
        names = names_of(DIMENSIONS)
        add_flat(draft, table.rows, dimensions=names, clean=_clean)
    else:
        _add_release(draft, table.rows)
    return draft.finish(
        name="newsroom",
        revision=table.revision,
        licence="repository Apache-2.0; article texts belong to their publishers",
    )


def _add_release(draft: Draft, rows: Iterable[Row]) -> None:
    for row in rows:
        context_id = name_of(row, "ArticleID")
        draft.add_context(row.where, context_id, _clean(text_of(row, "ArticleText")))
        summary = _clean(text_of(row, "SystemSummary"))
        output_id = draft.add_output(
            row.where, context_id, name_of(row, "System"), summary, repeated=True
        )
        rater = draft.rater_for(row.where, output_id, limit=RATERS)
        ratings = {name: number_of(row, column) for column, name in COLUMNS.items()}
        draft.add_ratings(row.where, output_id, ratings, rater)


def _clean(text: str) -> str:
    return html.unescape(re.sub(r"\s*</p>\s*<p>\s*", "\n", text)).rstrip()
