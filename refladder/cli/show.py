"""refladder show."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from refladder.cli import console
from refladder.cli.certify import print_certificate

if TYPE_CHECKING:
    from pathlib import Path

    from refladder.files.ladder_sets import LadderSet


@click.command(cls=console.Command, short_help="Print the ladder of a context, with scored outputs on it.")
@click.argument("ladders", metavar="SET", shell_complete=console.names_of("ladders"))
@click.argument("context_id", required=False)
@console.DIMENSION
@click.option("--scores", metavar="FILE", help="Scored rows of `refladder score` to place on the ladder.")
@click.option(
    "--link",
    "link_file",
    type=console.PATH,
    help="Link of `refladder link`: place the rows on the scale that it maps to.",
)
@console.JSON
def command(
    *,
    ladders: str,
    context_id: str | None,
    dimension: tuple[str, ...],
    scores: str | None,
    link_file: Path | None,
    as_json: bool,
) -> None:
    """Print the ladder of CONTEXT_ID in SET, best rung first. Without CONTEXT_ID, list contexts and the certificate.

    Long texts are shortened; --json prints them in full.
    """
    from refladder.files.ladder_sets import load_ladders  # noqa: PLC0415  --help stays quick
    from refladder.jobs.show import ladder_json, ladders_of  # noqa: PLC0415
    from refladder.report.certificate_tables import ladder_line  # noqa: PLC0415
    from refladder.report.ladder_tables import ladder_view  # noqa: PLC0415

    out = console.console()
    opened = load_ladders(ladders)
    if context_id is None:
        _list_contexts(opened, dimension, as_json=as_json)
        return
    for chosen, ladder, placed in ladders_of(opened, context_id, dimension, scores, link_file):
        if ladder is None:
            console.say(f"no {chosen.name} ladder for {context_id}", err=True)
        elif as_json:
            console.say_json(ladder_json(ladder, placed))
        else:
            if opened.certificate is not None:
                console.say(ladder_line(opened.certificate, context_id, chosen.name))
            for part in ladder_view(opened, ladder, chosen, placed):
                out.print(part)


def _list_contexts(opened: LadderSet, dimensions: tuple[str, ...], *, as_json: bool) -> None:
    from refladder.jobs.show import contexts_in  # noqa: PLC0415
    from refladder.report.plain_text import short  # noqa: PLC0415

    for line in contexts_in(opened, dimensions):
        if as_json:
            console.say_json(line)
        else:
            console.say(f"{line['context_id']}  {short(line['text'], 70)}")
    if as_json:
        return
    if opened.certificate is None:
        console.say("no certificate; see whether the ladders rise with `refladder certify`")
    else:
        print_certificate(opened.certificate)
