"""Podcast summary assessment (Manakul and Gales 2022): summaries of 179 episodes by 20 systems, one overall grade."""

from __future__ import annotations

from typing import TYPE_CHECKING

from refladder.errors import DataError
from refladder.loaders.draft import Draft
from refladder.loaders.fields import name_of, text_of
from refladder.loaders.sources import fetch_table, find_file, read_table
from refladder.loaders.task_files import TASKS, read_task

if TYPE_CHECKING:
    from pathlib import Path

    from refladder.records import Benchmark

TASK, DIMENSIONS = read_task(TASKS / "podcast.toml")
HUB = "potsawee/podcast_summary_assessment"
ADVICE = "download podcast_summary_assessment.json as https://github.com/potsawee/podcast_summary_assessment describes"
FILES = ("podcast_summary_assessment.json",)
GRADES = {"B": 0.0, "F": 1.0, "G": 2.0, "E": 3.0}
ASSESSOR = "assessor"


def load(source: Path | None) -> Benchmark:
    """Read the podcast summary assessment data: grades Bad to Excellent become 0..3; the attributes are not read."""
    if source is None:
        table = fetch_table(HUB, "evaluation", ADVICE)
    else:
        table = read_table(find_file(source, FILES))
    draft = Draft(TASK, DIMENSIONS)
    for row in table.rows:
        context_id = name_of(row, "episode_id")
        draft.add_context(row.where, context_id, text_of(row, "transcript").rstrip())
        summary = text_of(row, "summary").rstrip()
        output_id = draft.add_output(row.where, context_id, name_of(row, "system_id"), summary)
        grade = text_of(row, "score")
        if grade not in GRADES:
            raise DataError(
                f"{row.where}: column 'score': expected one of {', '.join(GRADES)}, found {grade!r}"
            )
        draft.add_ratings(row.where, output_id, {"overall": GRADES[grade]}, ASSESSOR)
    return draft.finish(name="podcast", revision=table.revision, licence="CC BY 4.0")
