"""refladder distil: the command and the call."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from refladder.commands import console
from refladder.commands.calling import Call, output_path
from refladder.commands.options import subcommand
from refladder.files.ladder_sets import load_ladders
from refladder.options import like
from refladder.report.log import Log, log_lines

if TYPE_CHECKING:
    from collections.abc import Mapping

    from refladder.files.ladder_sets import LadderSet
    from refladder.records import Distilled


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
)
def command(
    *,
    source: str,
    by: str,
    out: Path,
    ladders: str | None,
    labels: tuple[str, ...],
    label: str | None,
    column: Mapping[str, str],
    given: str | None,
    as_json: bool,
) -> None:
    """Train a student: a small regressor that learns the scores in a column of SCORED from the texts.

    A fifth of the contexts is held out, and the printed figures are of these rows. Use the student with `score --judge
    distilled:FOLDER`.

    Examples:
        refladder distil scored.jsonl --by overall_score --out student
    """
    from refladder.jobs.input_rows import Mapped
    from refladder.jobs.labelling import LabelledTable
    from refladder.students.distil import DistilSpec, run
    from refladder.students.student import student_lines, student_table

    spec = DistilSpec(
        table=LabelledTable(source=source, given=given, by=by, label=label, labels=labels),
        mapped=Mapped(columns=column),
        ladders=None if ladders is None else load_ladders(ladders),
        out=out,
    )
    record, notes = run(spec, console.Console())
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
    from refladder.jobs.input_rows import FIELDS, Mapped
    from refladder.jobs.labelling import LabelledTable
    from refladder.students.distil import DistilSpec, run
    from refladder.students.student import ShownStudent, surface_lines

    with Call(distil, locals()) as call:
        mapped = Mapped(columns=dict(columns or {}))
        scored = LabelledTable(source="", by=by, label=label)
        label_tables = call.labels(labels, scored.needed)
        source = call.source(scored.needed | {mapped.columns.get(name, name) for name in FIELDS})
        spec = DistilSpec(
            table=replace(scored, source=source, labels=label_tables),
            mapped=mapped,
            ladders=load_ladders(ladders) if isinstance(ladders, str | Path) else ladders,
            out=output_path(out),
        )
        record, notes = run(spec, Log())
        log_lines(notes)
        log_lines(surface_lines(record))
        return ShownStudent.of(record)
