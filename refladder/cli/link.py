"""refladder link."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import click

from refladder.cli import console

if TYPE_CHECKING:
    from pathlib import Path


@click.command(cls=console.Command, short_help="Map the scores of one judge to the scale of another.")
@click.option(
    "--from", "first", type=console.PATH, required=True, help="Judgments file of the scores that are to be mapped."
)
@click.option(
    "--to", "second", type=console.PATH, required=True, help="Judgments file of the scores whose scale is the target."
)
@click.option("--out", type=console.PATH, required=True, help="Output file for the link.")
@console.RULE
@console.LEAST_MASS
@console.JSON
def command(*, first: Path, second: Path, out: Path, rule: str, least_mass: float, as_json: bool) -> None:
    """Map scores and grades of one judge to the scale of another, from rows that both have judged on the same ladders.

    `filter --link` and `show --link` use the file. The errors are those on contexts that were held out.
    """
    from refladder.jobs.link import link  # noqa: PLC0415  --help stays quick
    from refladder.report.link_table import link_table, link_warnings  # noqa: PLC0415
    from refladder.scoring.columns import Scale  # noqa: PLC0415

    record = link(first, second, Scale(rule=rule, weights={}, least_mass=least_mass), out)
    if as_json:
        console.say_json(dataclasses.asdict(record))
        return
    console.say_tables([link_table(record)])
    for line in link_warnings(record):
        console.say(line, err=True)
