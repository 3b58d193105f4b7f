"""refladder rescore."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from refladder.cli import console
from refladder.files.tables import STANDARD

if TYPE_CHECKING:
    from pathlib import Path


@click.command(cls=console.Command, short_help="Recompute scores from saved judgments, without a model.")
@click.argument("judgments")
@click.option("--out", default=STANDARD, help="Output file for the scores; - is standard output.")
@console.OUT_FORMAT
@console.ESCAPE_FORMULAS
@console.RULE
@console.WEIGHT
@console.LEAST_MASS
@click.option(
    "--link",
    "link_file",
    type=console.PATH,
    help="Link of `refladder link`: add scores and grades on the scale that it maps to, with a 95 % interval.",
)
@console.JSON
def command(
    *,
    judgments: str,
    out: str,
    out_format: str | None,
    escape_formulas: bool,
    rule: str,
    weight: tuple[str, ...],
    least_mass: float,
    link_file: Path | None,
    as_json: bool,
) -> int:
    """Recompute scores from JUDGMENTS with another rule, --least-mass or other weights.

    JUDGMENTS is a judgments file of `refladder score`, a folder of scored shards (also at a URL), or
    `hub:ORG/NAME@REVISION` of a set that was published with judgments.
    The output has one row per text: output_id, context_id and the score columns. Exit code 3: some scores are missing.
    --link adds COLUMN_linked, COLUMN_linked_low and COLUMN_linked_high for each score and grade that the link has.
    """
    from refladder.jobs.rescore import rescore  # noqa: PLC0415  --help stays quick
    from refladder.scoring.columns import Scale  # noqa: PLC0415

    scale = Scale(rule=rule, weights=console.numbers(weight, "--weight"), least_mass=least_mass)
    with console.progress("rescoring") as progress:
        report = rescore(
            judgments,
            out,
            scale,
            out_given=out_format,
            escape_formulas=escape_formulas,
            link=link_file,
            progress=progress,
        )
    return console.tell(report, as_json=as_json, to_stderr=out == STANDARD)
