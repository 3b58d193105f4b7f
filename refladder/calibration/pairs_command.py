"""refladder pairs: the command and the call."""

from __future__ import annotations

import logging
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, TypeVar, cast

from refladder.calibration.records import Pairing
from refladder.cli import console
from refladder.cli.calling import Call
from refladder.cli.options import subcommand
from refladder.display.log import Log, log_lines
from refladder.errors import ExitCode
from refladder.files.tables import STANDARD, read_rows
from refladder.options import like
from refladder.settings import Tables, chosen

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from refladder.files.ladder_sets import LadderSet

Table = TypeVar("Table")


@subcommand(
    "Pair better and worse outputs for training.",
    like("source", default="-", beside=(".run.json", ".judgments.jsonl")),
    "margin",
    "per_context",
    "by",
    like(
        "ladders",
        help="Ladder set with the texts of the contexts, for rows without a column context.",
    ),
    "column",
    "conversational",
    like("out", help="Output file for the pairs; - is standard output."),
    "mix",
    "across_judges",
    "given",
    "out_format",
    "escape_formulas",
    "as_json",
    asked=Pairing,
    tables=Tables,
)
def command(*, asked: Pairing, tables: Tables, as_json: bool) -> ExitCode:
    """Pair outputs of the same context in the scored rows of SOURCE (- is standard input).

    Each row has prompt (the text of the context), chosen and rejected, the format of preference training with TRL. The
    ids, both scores and their signature follow.

    Scores on different scales are an error without --mix, or, for grades of ratings by several judges, --across-judges.

    Examples:
        refladder pairs scored.jsonl --margin 1 --ladders my-ladders --out pairs.jsonl
    """
    from refladder.calibration.preference_pairs import pair_lines, run

    report = run(asked, tables, console.Console())
    if as_json:
        console.say_json(asdict(report), err=tables.out == STANDARD)
    else:
        for line in pair_lines(report):
            console.notify(line, warns=not report.pairs)
    if not report.rows:
        console.say("The table has no rows, so nothing was paired", err=True)
    return ExitCode.of(complete=report.rows)


@command.call
def pairs(
    table: Table,
    *,
    margin: float,
    per_context: int | None = None,
    by: str | None = None,
    ladders: str | Path | LadderSet | None = None,
    columns: Mapping[str, str] | None = None,
    conversational: bool = False,
    out: str | Path | None = None,
    mix: bool = False,
    across_judges: bool = False,
) -> Table:
    """Pair better and worse outputs of the same context in scored rows, as `refladder pairs`.

    A pair has the columns prompt (the context's text), chosen and rejected, as preference training with TRL reads them;
    then context_id, chosen_id, rejected_id, score_chosen, score_rejected and signature.

    Args:
        table: scored rows, as for `score`.
        margin: minimum difference of the two scores, in units of the score column; equal scores are never a pair.
        per_context: maximum number of pairs per context, those with the largest differences; None for all.
        by: column with the scores; None for `overall_score` or the only column NAME_score, and of ratings with grades
            for `overall_grade` or NAME_grade.
        ladders: ladder set with the texts of the contexts, for rows without a column `context`.
        columns: field (context_id, context, background, output, output_id) to the name of its column.
        conversational: write prompt, chosen and rejected as lists of one chat message.
        out: file for the pairs, required where `table` is a path.
        mix: allow scores with different signatures, which can be on different scales.
        across_judges: allow grades of ratings by several judges, if ladders, scoring anchors and criterion are the
            same.

    Returns:
        A table of the same kind with a row for each pair; for a path, the path of `out`. The logger `refladder` counts
        the pairs and what was not paired: in a warning where rows are unscored or there is no pair.

    Raises:
        UsageError: an argument is wrong, or the score column is not clear.
        DataError: a column is missing or wrong, a context has no text or two, or signatures differ; with path:line or
            the number of the row.
    """
    from refladder.calibration.preference_pairs import NUMBERS, TEXTS, pair_lines, run
    from refladder.loaders.input_rows import text_columns
    from refladder.loaders.scored_tables import ranked_by

    with Call(pairs, locals()) as call:
        asked = chosen(Pairing, call.given)
        needed = None
        if call.frame is not None:
            source = call.source({"signature"})
            by = by or ranked_by([(source, read_rows(source))])
            asked = replace(asked, by=by)
            needed = {*text_columns(asked.columns), by, "signature"}
        tables = Tables(source=call.source(needed), out=call.out(out))
        report = run(asked, tables, Log())
        level = logging.WARNING
        if report.pairs and not report.unscored:
            level = logging.INFO
        log_lines(pair_lines(report), level)
        if call.frame is None:
            return type(table)(out)  # type: ignore[call-arg]
        return cast("Table", call.frame.made(tables.out, TEXTS, NUMBERS))
