"""distil as a call on any table; the same job, defaults and results as `refladder distil`."""

from __future__ import annotations

import logging
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from refladder.api.frames import checked, in_words_of_python, output_path, with_parameters, written
from refladder.api.promises import label_tables
from refladder.files.ladder_sets import LadderSet, load_ladders
from refladder.jobs.labelling import Asked
from refladder.jobs.score import FIELDS, Mapped
from refladder.report.progress import progress
from refladder.students import distil as distilling
from refladder.students.student_table import surface_lines

if TYPE_CHECKING:
    from collections.abc import Mapping

    from refladder.records import Distilled

_LOG = logging.getLogger("refladder")


@checked
def distil(
    table: Any,  # noqa: ANN401  a table of any package
    *,
    by: str,
    out: str | Path,
    model: str | None = None,
    model_options: Mapping[str, object] | None = None,
    ladders: str | Path | LadderSet | None = None,
    labels: Any = None,  # noqa: ANN401  as above
    label: str | None = None,
    columns: Mapping[str, str] | None = None,
) -> Distilled:
    """Train a student, a small regressor that learns a column of scores from the texts, as `refladder distil`.

    A fifth of the contexts is held out; the figures are those of rows that the student has not seen. Use it with
    `refladder.score(..., judge="distilled:FOLDER")`, or before a judge with `cascade="distilled:FOLDER"`.

    Args:
        table: scored rows, as for `refladder.score`; at least 50 of them with a score.
        by: column of the scores to learn, such as `NAME_score`.
        out: output folder for the student. It must be empty, or not exist.
        model: encoder to train, `hf:ENCODER`; None for hashed n-grams and ridge regression.
        model_options: settings of the encoder's training: `epochs`, `learning_rate`, `batch`, `max_tokens`, `seed`.
        ladders: ladder set with the texts of the contexts, for a table without a column of them.
        labels: table of people's labels with the ids of rows, as `table`; or a list of paths of such tables. None: the
            labels are in `table`.
        label: column of people's labels (numbers), to compare with.
        columns: field (context_id, context, background, output, output_id) to the name of its column.

    Returns:
        The record of the student. `held_out` has its agreement with its teacher and with people; 90 % of the held-out
        estimates are within `half_width` of the score, in units of the scores. Warnings of the logger `refladder` say
        what the student does not read, and where a surface measure agrees as well as it does.

    Raises:
        UsageError: an argument is wrong, a library is missing, or the folder holds something else.
        DataError: a column is missing or wrong, scores have several signatures, or there are too few of them; with
            path:line or the number of the row.
        BackendUnavailableError: the encoder cannot be opened.
    """
    given = {name: value for name, value in locals().items() if name != "table"}
    with ExitStack() as stack:
        stack.enter_context(in_words_of_python(given))
        mapped = Mapped(columns=dict(columns or {}))
        asked = Asked(by=(by,), label=() if label is None else (label,))
        asked = replace(asked, labels=label_tables(stack, labels, asked))
        source = str(table)
        if in_memory := not isinstance(table, str | Path):
            needed = asked.needed | {mapped.columns.get(name, name) for name in FIELDS}
            source = written(stack, table, needed, "the table")
        with progress("distilling") as update:
            record, notes = distilling.distil(
                source,
                by,
                output_path(out),
                mapped=mapped,
                ladders=load_ladders(ladders) if isinstance(ladders, str | Path) else ladders,
                labels=asked.labels,
                label=label,
                model=model,
                options={name: str(value) for name, value in (model_options or {}).items()},
                progress=update,
            )
    for note in notes:
        _LOG.warning("%s", with_parameters(note.replace(source, "the table") if in_memory else note, given))
    for line in surface_lines(record):
        _LOG.warning("%s", line)
    return record
