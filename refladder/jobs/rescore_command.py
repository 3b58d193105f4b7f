"""refladder rescore: the command and the call."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from refladder.cli import console
from refladder.cli.calling import Call
from refladder.cli.options import subcommand
from refladder.display.log import Log, log_lines
from refladder.files.tables import STANDARD
from refladder.options import like
from refladder.settings import LEAST_MASS, Scale, Tables, chosen

if TYPE_CHECKING:
    from collections.abc import Mapping

    from refladder.errors import ExitCode


@subcommand(
    "Recompute scores from saved judgments, without a model.",
    "judgments_argument",
    like("out", help="Output file for the scores; - is standard output.", beside=(".run.json",)),
    "out_format",
    "escape_formulas",
    "rule",
    "weight",
    "least_mass",
    "as_json",
    scale=Scale,
    tables=Tables,
)
def command(*, judgments: str, scale: Scale, tables: Tables, as_json: bool) -> ExitCode:
    """Recompute scores from JUDGMENTS with another rule, --least-mass or other weights.

    JUDGMENTS is a judgments file of `refladder score`, or a folder of scored files (also at a URL).
    The output has one row per text: output_id, context_id and the score columns. Exit code 3: some scores are missing.

    Examples:
        refladder rescore scored.jsonl.judgments.jsonl --rule hard-votes --out rescored.jsonl
    """
    from refladder.jobs.rescore import rescore as rescored

    report = rescored(judgments, tables, scale, console.Console())
    return console.tell(report, as_json=as_json, to_stderr=tables.out == STANDARD)


@overload
def rescore(
    judgments: str | Path,
    *,
    rule: str = "ladder-sum",
    weights: Mapping[str, float] | None = None,
    least_mass: float = LEAST_MASS,
    out: None = None,
) -> list[dict[str, Any]]: ...


@overload
def rescore(
    judgments: str | Path,
    *,
    rule: str = "ladder-sum",
    weights: Mapping[str, float] | None = None,
    least_mass: float = LEAST_MASS,
    out: str | Path,
) -> Path: ...


@command.call
def rescore(
    judgments: str | Path,
    *,
    rule: str = "ladder-sum",
    weights: Mapping[str, float] | None = None,
    least_mass: float = LEAST_MASS,
    out: str | Path | None = None,
) -> list[dict[str, Any]] | Path:
    """Compute scores again from stored judgments, without a judge, as `refladder rescore`.

    Args:
        judgments: a judgments file of `score`, or a folder of scored files.
        rule: scoring rule (see `refladder list rules`).
        weights: weight of a dimension in the overall score; 1 for those that are not named.
        least_mass: least label mass, a probability; a judgment below it gives no score.
        out: file for the rows (JSON lines, CSV or Parquet); None returns them.

    Returns:
        A dict for each output, in the order of judging: output_id, context_id and the columns of `score`. With `out`,
        its path; then rows are streamed and never held in memory together. A score that is missing is None, and its
        note says why; a warning of the logger `refladder` counts them.

    Raises:
        UnknownNameError, UsageError: an argument is wrong, or the judgments are not of whole ladders.
        DataError: the judgments cannot be read, with path:line, or `out` cannot be written.
    """
    from refladder.files.tables import Collected
    from refladder.jobs.rescore import rescore as rescored
    from refladder.scoring.summary import essential_lines

    with Call(rescore, locals(), table="") as call:
        path = None if out is None else Path(out)
        kept = Collected("jsonl")
        tables = Tables(out=kept if path is None else str(path))
        scale = chosen(Scale, call.given)
        report = rescored(judgments, tables, scale, Log())
        log_lines(essential_lines(report))
        return kept.whole_rows() if path is None else path
