"""HANNA (Chhun et al. 2022): stories for 96 prompts by 10 systems and by people, rated on six dimensions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from refladder.errors import DataError, UsageError
from refladder.loaders.draft import Draft
from refladder.loaders.fields import name_of, number_of, text_of
from refladder.loaders.sources import fetch_table, find_file, read_table
from refladder.loaders.task_files import TASKS, read_task
from refladder.records import text_id

if TYPE_CHECKING:
    from pathlib import Path

    from refladder.records import Benchmark

TASK, DIMENSIONS = read_task(TASKS / "hanna.toml")
HUB = "llm-aes/hanna"
ADVICE = (
    "download hanna_stories_annotations.csv from https://github.com/dig-team/hanna-benchmark-asg"
)
FILES = "hanna_stories_annotations.csv", "hanna.csv", "hanna.parquet"
HUMAN = "Human"
RATERS = 3


def load(source: Path | None, human: bool = False) -> Benchmark:  # noqa: FBT002  an option of load_benchmark
    """Read HANNA from the release's CSV or the Hub data set; `human` adds the human stories as a system.

    The human story of a prompt is the reference of its context, whose id is a digest of the prompt. A rater is the
    source's `Worker ID`, or `rater 1` .. `rater 3` in the order of the rows without one.
    """
    if not isinstance(human, bool):
        raise UsageError(f"hanna: option human must be true or false, found {human!r}")
    if source is None:
        table = fetch_table(HUB, "train", ADVICE)
    else:
        table = read_table(find_file(source, FILES))
    story_column = "Story_ID" if "Story_ID" in table.rows[0].fields else "Story ID"
    draft = Draft(TASK, DIMENSIONS)
    stories: dict[str, str] = {}
    for row in table.rows:
        system = name_of(row, "Model")
        prompt = text_of(row, "Prompt").rstrip()
        context_id = text_id(prompt)
        reference = text_of(row, "Human").rstrip()
        draft.add_context(row.where, context_id, prompt, references=(reference,))
        if system == HUMAN and not human:
            continue
        story = name_of(row, story_column)
        output_id = draft.add_output(
            row.where, context_id, system, text_of(row, "Story").rstrip(), repeated=True
        )
        if stories.setdefault(output_id, story) != story:
            raise DataError(
                f"{row.where}: {system!r} has a second story for this prompt, {story} after {stories[output_id]}; "
                "each system must have one"
            )
        worker = str(row.fields.get("Worker ID") or "")
        rater = draft.rater_for(row.where, output_id, worker, limit=RATERS)
        ratings = {}
        for dimension in DIMENSIONS:
            ratings[dimension.name] = number_of(row, dimension.name.capitalize())
        draft.add_ratings(row.where, output_id, ratings, rater)
    return draft.finish(name="hanna", revision=table.revision, licence="MIT")
