"""refladder distil."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import click

from refladder.cli import console

if TYPE_CHECKING:
    from pathlib import Path


@click.command(cls=console.Command, short_help="Train a small regressor on scores.")
@click.argument("source", metavar="SCORED")
@click.option("--by", "by", required=True, metavar="COLUMN", help="Column of the scores to learn, such as NAME_score.")
@click.option("--out", type=console.PATH, required=True, help="Output folder for the student.")
@click.option(
    "--model",
    metavar="hf:ENCODER",
    help="Encoder to train (a model of transformers). Default: hashed n-grams and ridge regression.",
)
@click.option(
    "--model-option",
    multiple=True,
    metavar="KEY=VALUE",
    help="Setting of the encoder's training: epochs, learning_rate, batch, max_tokens or seed. Repeatable.",
)
@click.option(
    "--ladders",
    metavar="SET",
    shell_complete=console.names_of("ladders"),
    help="Ladder set with the texts of the contexts, for a table without a column of them.",
)
@click.option(
    "--labels",
    multiple=True,
    metavar="TABLE",
    help="Table of people's labels with the ids of rows. Repeatable. Default: the labels are in SCORED.",
)
@click.option("--label", metavar="COLUMN", help="Column of people's labels (numbers), to compare with.")
@console.COLUMN
@console.FORMAT
@console.JSON
def command(
    *,
    source: str,
    by: str,
    out: Path,
    model: str | None,
    model_option: tuple[str, ...],
    ladders: str | None,
    labels: tuple[str, ...],
    label: str | None,
    column: tuple[str, ...],
    given: str | None,
    as_json: bool,
) -> None:
    """Train a student: a small regressor that learns the scores in a column of SCORED from the texts.

    A fifth of the contexts is held out; the figures are those of rows that the student has not seen. Use it with `score
    --judge distilled:FOLDER`, or before a judge with `score --cascade distilled:FOLDER`.
    """
    from refladder.files.ladder_sets import load_ladders  # noqa: PLC0415  --help stays quick
    from refladder.jobs.score import Mapped  # noqa: PLC0415
    from refladder.students.distil import distil  # noqa: PLC0415
    from refladder.students.student_table import student_lines, student_table  # noqa: PLC0415

    with console.progress("distilling") as progress:
        record, notes = distil(
            source,
            by,
            out,
            mapped=Mapped(columns=console.pairs(column, "--column")),
            given=given,
            ladders=None if ladders is None else load_ladders(ladders),
            labels=labels,
            label=label,
            model=model,
            options=console.pairs(model_option, "--model-option"),
            progress=progress,
        )
    if as_json:
        console.say_json({**dataclasses.asdict(record), "notes": notes})
        return
    console.say_lines(notes)
    console.say_tables([student_table(record)])
    for line in student_lines(record, str(out)):
        console.say(line)
