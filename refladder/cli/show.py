"""refladder show."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from refladder.cli import console
from refladder.cli.certify import print_certificate
from refladder.errors import UnknownNameError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from refladder.files.ladder_sets import LadderSet
    from refladder.files.tables import Row
    from refladder.records import Dimension, Ladder


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
    from refladder.files.jsonl import to_json  # noqa: PLC0415  --help stays quick
    from refladder.files.ladder_sets import choose_dimensions, load_ladders  # noqa: PLC0415
    from refladder.report.certificate_tables import ladder_line  # noqa: PLC0415
    from refladder.report.ladder_tables import ladder_view  # noqa: PLC0415

    out = console.console()
    opened = load_ladders(ladders)
    dimensions = choose_dimensions(opened.dimensions, dimension)
    known = list(dict.fromkeys(context for context, _ in opened.ladders))
    if context_id is None:
        _list_contexts(opened, known, as_json=as_json)
        return
    if context_id not in known:
        raise UnknownNameError("context", context_id, known)
    for chosen in dimensions:
        ladder = opened.ladders.get((context_id, chosen.name))
        if ladder is None:
            console.say(f"no {chosen.name} ladder for {context_id}", err=True)
            continue
        placed = _placed(scores, context_id, chosen, link_file) if scores else []
        if as_json:
            click.echo(console.printable_json(to_json({**_plain(ladder), "outputs": placed}).decode()))
        else:
            if opened.certificate is not None:
                console.say(ladder_line(opened.certificate, context_id, chosen.name))
            for part in ladder_view(opened, ladder, chosen, placed):
                out.print(part)


def _list_contexts(opened: LadderSet, known: Sequence[str], *, as_json: bool) -> None:
    from refladder.report.plain_text import short  # noqa: PLC0415

    for name in known:
        text = opened.contexts[name].text if name in opened.contexts else ""
        line = {"context_id": name, "text": text}
        if as_json:
            click.echo(console.printable_json(json.dumps(line, ensure_ascii=False)))
        else:
            console.say(f"{name}  {short(text, 70)}")
    if as_json:
        return
    if opened.certificate is None:
        console.say("no certificate; see whether the ladders rise with `refladder certify`")
    else:
        print_certificate(opened.certificate)


def _plain(ladder: Ladder) -> dict[str, Any]:
    rungs = [{"level": rung.level, "text": rung.text} for rung in ladder.rungs]
    return {"context_id": ladder.context_id, "dimension": ladder.dimension, "rungs": rungs}


def _placed(path: str, context_id: str, dimension: Dimension, link_file: Path | None) -> list[dict[str, Any]]:
    """Scored rows of the context, best first; those without a score last."""
    from refladder.errors import DataError  # noqa: PLC0415
    from refladder.files.tables import number_in, read_rows  # noqa: PLC0415
    from refladder.jobs.link import open_link  # noqa: PLC0415
    from refladder.scoring.columns import column_names  # noqa: PLC0415

    score, grade, spread, _, note = column_names(dimension.name)
    linker = None if link_file is None else open_link(link_file)

    def linked(row: Row, column: str) -> float | None:
        number = number_in(row, column)
        if number is None or linker is None or not linker.maps(row.fields.get("signature") or None, row.where):
            return number
        return linker.value(column, number, row.where)[0]

    entries = []
    for row in read_rows(path):
        missing = [name for name in ("context_id", "output", score, grade) if name not in row.fields]
        if missing:
            raise DataError(
                f"{row.where}: no column {missing[0]!r}; needs context_id, output, {score} and {grade}, as "
                f"`refladder score` writes them. Columns there: {', '.join(map(str, row.fields)) or 'none'}"
            )
        if row.fields["context_id"] == context_id:
            name = str(row.fields.get("output_id") or row.fields.get("system") or row.where)
            entries.append(
                {
                    "id": name,
                    "text": str(row.fields["output"]),
                    "score": linked(row, score),
                    "grade": linked(row, grade),
                    "spread": number_in(row, spread) if spread in row.fields else None,
                    "note": row.fields.get(note),
                }
            )
    return sorted(entries, key=lambda entry: (entry["grade"] is None, -(entry["grade"] or 0.0)))
