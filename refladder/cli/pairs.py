"""refladder pairs."""

from __future__ import annotations

from dataclasses import asdict

import click

from refladder.cli import console
from refladder.cli.groups import TableOptions, grouped
from refladder.files.tables import STANDARD


@click.command(cls=console.Command, short_help="Pair better and worse outputs for training.")
@click.argument("source", default=STANDARD)
@click.option(
    "--margin",
    required=True,
    type=float,
    help="Minimum difference of the two scores, in units of the score column. Equal scores are never a pair.",
)
@click.option(
    "--per-context",
    type=click.IntRange(min=1),
    metavar="K",
    help="Maximum number of pairs per context; those with the largest differences. Default: all.",
)
@click.option(
    "--by",
    metavar="COLUMN",
    help="Column with the scores. Default: the weighted score of all dimensions (overall_score), or the only column "
    "NAME_score.",
)
@click.option(
    "--ladders",
    metavar="SET",
    shell_complete=console.names_of("ladders"),
    help="Ladder set with the texts of the contexts, for rows without a column context.",
)
@console.COLUMN
@click.option(
    "--conversational",
    is_flag=True,
    help="Write prompt, chosen and rejected as chat messages, to which TRL applies the model's chat template.",
)
@click.option("--out", default=STANDARD, help="Output file for the pairs; - is standard output.")
@click.option("--mix", is_flag=True, help="Allow scores with different signatures, which can be on different scales.")
@console.FORMAT
@console.OUT_FORMAT
@console.ESCAPE_FORMULAS
@console.JSON
@grouped(table=TableOptions)
def command(
    *,
    source: str,
    margin: float,
    per_context: int | None,
    by: str | None,
    ladders: str | None,
    column: tuple[str, ...],
    conversational: bool,
    mix: bool,
    table: TableOptions,
    as_json: bool,
) -> int:
    """Pair outputs of the same context in the scored rows of SOURCE (- is standard input).

    Each row has prompt (the context's text), chosen and rejected, as preference training with TRL reads them; then the
    ids, the two scores and their signature.

    Scores with different signatures are on different scales. They are an error without --mix.
    """
    from refladder.jobs.preference_pairs import pair_lines, preference_pairs  # noqa: PLC0415  --help stays quick
    from refladder.jobs.score import Mapped  # noqa: PLC0415

    with console.progress("pairing") as progress:
        report = preference_pairs(
            source,
            table.out,
            mapped=Mapped(columns=console.pairs(column, "--column")),
            margin=margin,
            per_context=per_context,
            by=by,
            ladders=ladders,
            conversational=conversational,
            given=table.given,
            out_given=table.out_format,
            escape_formulas=table.escape_formulas,
            mix=mix,
            progress=progress,
        )
    if as_json:
        console.say_json(asdict(report), err=table.out == STANDARD)
    else:
        console.say_lines(pair_lines(report))
    return 0
