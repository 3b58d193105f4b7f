"""WebNLG 2017 human evaluation (Gardent et al. 2017): texts for 223 sets of triples by 9 systems."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from refladder.errors import DataError, UnknownNameError
from refladder.files.jsonl import read_lines
from refladder.loaders.draft import MEAN, Draft
from refladder.loaders.fields import name_of, number_of, text_of
from refladder.loaders.sources import find_beside, find_copy, read_table
from refladder.loaders.task_files import TASKS, read_task
from refladder.records import text_id

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from refladder.records import Benchmark

TASK, DIMENSIONS = read_task(TASKS / "webnlg.toml")
AVERAGED = {name: name for name in ("fluency", "grammar", "semantics")}
INDIVIDUAL = {"fluency": "fluency", "grammar": "grammaticality", "semantics": "semantic_adequacy"}
FILES = "all_data_final_scores_anonymised.csv", "all_data_final_averaged.csv"
REFERENCES = (
    "gold-sample-reference0.lex",
    "gold-sample-reference1.lex",
    "gold-sample-reference2.lex",
)
COPY = "all_data_final_scores_anonymised.csv from https://gitlab.com/webnlg/webnlg-human-evaluation"
REFERENCE_TEAM = "webnlg"
NO_OUTPUT = "null"


def load(source: Path | None, systems: Collection[str] | None = None) -> Benchmark:
    """Read the WebNLG 2017 human evaluation of `systems`, by default of all but the team `webnlg` (references).

    Formats: the individual judgments (raters by their anonymous numbers; preferred if a folder has both) and means. The
    second judgment of a text by one rater has the rater `NUMBER (2)`, since the published means count both. Texts
    `null` (no output of the system) become empty; empty texts keep their ratings. A context has one triple per line,
    and a digest as its id. References come from the .lex files and MRs.txt in the same folder, if present.
    """
    path = find_copy(source, FILES, "webnlg", COPY)
    table = read_table(path)
    individual = "grammaticality" in table.rows[0].fields
    columns = INDIVIDUAL if individual else AVERAGED
    teams = {name_of(row, "team") for row in table.rows}
    for system in systems or ():
        if system not in teams:
            raise UnknownNameError("WebNLG system", system, teams)
    selected = teams - {REFERENCE_TEAM} if systems is None else set(systems)
    references = _references(path.parent)
    draft = Draft(TASK, DIMENSIONS)
    for row in table.rows:
        triples = text_of(row, "mr")
        text = "\n".join(part.strip() for part in re.split(r"<br\s*/?>", triples))
        context_id = text_id(text)
        draft.add_context(row.where, context_id, text, references=references.get(triples, ()))
        team = name_of(row, "team")
        if team not in selected:
            continue
        written = text_of(row, "text").rstrip()
        if written == NO_OUTPUT:
            written = ""
        output_id = draft.add_output(row.where, context_id, team, written, repeated=individual)
        rater = MEAN
        if individual:
            rater = draft.rater_for(row.where, output_id, name_of(row, "X_worker_id"))
        ratings = {name: number_of(row, column) for name, column in columns.items()}
        draft.add_ratings(row.where, output_id, ratings, rater)
    return draft.finish(name="webnlg", revision=table.revision, licence="CC BY-NC-SA 4.0")


def _references(folder: Path) -> Mapping[str, tuple[str, ...]]:
    """Return reference texts by set of triples as spelled in the table, without empty lines."""
    triples_path = find_beside(folder, "MRs.txt")
    paths = list(filter(None, (find_beside(folder, name) for name in REFERENCES)))
    if triples_path is None or not paths:
        return {}
    triples = [line for _, line in read_lines(triples_path)]
    texts: list[list[str]] = []
    for path in paths:
        lines = [line.strip() for _, line in read_lines(path)]
        if len(lines) != len(triples):
            raise DataError(
                f"{path}:{min(len(lines), len(triples)) + 1}: {len(lines)} lines, but {triples_path} has "
                f"{len(triples)}; line k of both must belong together"
            )
        texts.append(lines)
    of_triples = {}
    for key, *references in zip(triples, *texts, strict=True):
        of_triples[key] = tuple(filter(None, references))
    return of_triples
