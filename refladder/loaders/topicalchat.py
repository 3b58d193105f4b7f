"""Topical-Chat responses of USR (Mehri and Eskenazi 2020): 60 dialogues, 6 responses each, rated on six dimensions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from refladder.errors import DataError
from refladder.loaders.draft import Draft, add_flat
from refladder.loaders.fields import as_number, as_row, list_of, name_of, text_of
from refladder.loaders.sources import find_copy, read_table
from refladder.loaders.task_files import TASKS, read_task
from refladder.records import text_id

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from refladder.files.tables import Row
    from refladder.records import Benchmark

TASK, DIMENSIONS = read_task(TASKS / "topicalchat.toml")
COLUMNS = {
    "Understandable": "understandability",
    "Natural": "naturalness",
    "Maintains Context": "coherence",
    "Engaging": "engagingness",
    "Uses Knowledge": "groundedness",
    "Overall": "overall",
}
FILES = "tc_usr_data.json", "usr_topical_chat.json", "topical_chat.json"
COPY = "http://shikib.com/tc_usr_data.json"
NO_FACT = "_nofact"
PERSONA_CHAT_MODELS = frozenset({"KV-MemNN", "Seq2Seq", "Language Model"})


def load(source: Path | None) -> Benchmark:
    """Read USR's Topical-Chat responses; the background of a context is the fact, empty without one.

    Formats: the file of USR (individual raters with their names), and the flat list of UniEval and G-Eval (means). The
    dimensions have the names of UniEval: coherence is Maintains Context in USR, groundedness is Uses Knowledge. The id
    of a context is a digest of the dialogue and the fact.
    """
    table = read_table(find_copy(source, FILES, "topicalchat", COPY))
    draft = Draft(TASK, DIMENSIONS)
    if "system_output" in table.rows[0].fields:
        for row in table.rows:
            _refuse_persona_chat(row, str(row.fields.get("system_id")))
        add_flat(
            draft,
            table.rows,
            dimensions=tuple(COLUMNS.values()),
            background=lambda row: _fact(row, "context"),
        )
    else:
        _add_release(draft, table.rows)
    return draft.finish(
        name="topicalchat",
        revision=table.revision,
        licence="not stated for the data; USR's code Apache-2.0",
    )


def _add_release(draft: Draft, rows: Iterable[Row]) -> None:
    for row in rows:
        text, fact = text_of(row, "context").rstrip(), _fact(row, "fact")
        context_id = text_id(text, fact)
        annotators = list_of(row, "annotators")
        responses = list_of(row, "responses")
        draft.add_context(row.where, context_id, text, background=fact)
        for number, item in enumerate(responses, start=1):
            response = as_row(f"{row.where}: response {number}", item)
            system = name_of(response, "model")
            _refuse_persona_chat(response, system)
            output_id = draft.add_output(
                response.where, context_id, system, text_of(response, "response").rstrip()
            )
            lists = {column: list_of(response, column, len(annotators)) for column in COLUMNS}
            for position, annotator in enumerate(annotators):
                ratings = {}
                for column, name in COLUMNS.items():
                    value = lists[column][position]
                    ratings[name] = as_number(response.where, column, value)
                rater = draft.rater_for(response.where, output_id, str(annotator))
                draft.add_ratings(response.where, output_id, ratings, rater)


def _fact(row: Row, column: str) -> str:
    fact = text_of(row, column).rstrip()
    return "" if fact == NO_FACT else fact


def _refuse_persona_chat(row: Row, system: str) -> None:
    if system in PERSONA_CHAT_MODELS:
        raise DataError(
            f"{row.where}: a response of {system!r}: this is USR's PersonaChat file, which has the same field names, "
            f"not Topical-Chat; download {COPY}"
        )
