"""refladder distil: the command and the call."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from refladder.cli import console
from refladder.cli.calling import Call
from refladder.cli.options import subcommand
from refladder.display.log import Log, log_lines
from refladder.options import like

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from refladder.files.ladder_sets import LadderSet
    from refladder.records import Distilled
    from refladder.settings import Given


@subcommand(
    "Train a small regressor on scores.",
    like("source", metavar="SCORED", required=True),
    like("by", help="Column of the scores to learn, such as NAME_score.", required=True),
    like("out_folder", help="Output folder for the student.", required=True),
    like(
        "ladders",
        help="Ladder set with the texts of the contexts, for a table without a column context.",
    ),
    like(
        "labels",
        help="Table of human labels with the ids of rows. Repeatable. Default: the labels are in "
        "SCORED.",
    ),
    like("label", help="Column of human labels (numbers), to compare the student with."),
    "column",
    "given",
    "as_json",
    given=dict,
)
def command(*, given: Given, as_json: bool) -> None:
    """Train a student: a small regressor that learns the scores in a column of SCORED from the texts.

    A fifth of the contexts is held out, and the printed figures are of these rows. Use the student with `score --judge
    distilled:FOLDER`.

    Examples:
        refladder distil scored.jsonl --by overall_score --out student
    """
    from refladder.calibration.labelling import table_of
    from refladder.students.distil import run, spec_of
    from refladder.students.student import student_lines, student_table

    # The columns are those of texts; labels are found by the fields themselves.
    record, notes = run(spec_of(given, table_of({**given, "columns": None})), console.Console())
    if as_json:
        console.say_json({**asdict(record), "notes": notes})
        return
    console.say_lines(notes)
    console.say_tables([student_table(record)])
    for line in student_lines(record):
        console.say(line)


@command.call
def distil(
    table: Any,
    *,
    by: str,
    out: str | Path,
    ladders: str | Path | LadderSet | None = None,
    labels: Any = None,
    label: str | None = None,
    columns: Mapping[str, str] | None = None,
) -> Distilled:
    """Train a student, a small regressor that learns a column of scores from the texts, as `refladder distil`.

    A fifth of the contexts is held out; the figures are those of rows that the student has not seen. Use it with
    `refladder.score(..., judge="distilled:FOLDER")`.

    Args:
        table: scored rows, as for `refladder.score`; at least 50 of them with a score.
        by: column of the scores to learn, such as `NAME_score`.
        out: output folder for the student. It must be empty, or not exist.
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
    """
    from refladder.calibration.labelling import table_of_call
    from refladder.loaders.input_rows import text_columns
    from refladder.students.distil import run, spec_of
    from refladder.students.student import ShownStudent, surface_lines

    with Call(distil, locals()) as call:
        texts = text_columns(call.given["columns"])
        scored = table_of_call(call, {**call.given, "columns": None}, others=texts)
        record, notes = run(spec_of(call.given, scored), Log())
        log_lines(notes)
        log_lines(surface_lines(record))
        return ShownStudent.of(record)
