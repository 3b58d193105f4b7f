"""refladder compare: the command and the call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from refladder.cli import console
from refladder.cli.calling import Call, are_paths
from refladder.cli.options import subcommand
from refladder.display.log import Log
from refladder.errors import ExitCode
from refladder.options import like
from refladder.settings import Comparing, chosen

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@subcommand(
    "Compare two or more systems by their scores.",
    like("source", metavar="SCORED [SCORED ...]", multiple=True, required=True),
    "by",
    "systems",
    like("column", help="Column of system, context_id or context, if named otherwise. Repeatable."),
    "fail_if_worse",
    like(
        "unscored",
        help="Rows without a score in --fail-if-worse: worst counts them as the low end of the scale, skip leaves "
        "them out.",
        type=("worst", "skip"),
        default="worst",
        writes="",
    ),
    "mix",
    "across_judges",
    like("seed", help="Seed of the permutations and resamples."),
    like("form", type=("text", "markdown", "latex", "csv")),
    "as_json",
    asked=Comparing,
)
def command(*, source: tuple[str, ...], asked: Comparing, form: str, as_json: bool) -> ExitCode:
    """Compare systems by their scores on the same contexts: means, differences, intervals and paired tests.

    The column system names the system of each row; in a log, it is the model. In another file without it, all rows are
    of one system, named like the file. Exit code 3: see --fail-if-worse.

    Examples:
        refladder compare scored.jsonl --by overall_score --systems new,old
        refladder compare old.jsonl new.jsonl --fail-if-worse new
    """
    from refladder.comparison.compare import run
    from refladder.display.rendering import csv_text, latex, markdown

    found = run(source, asked, console.Console())
    # The only names are those of the user's systems.
    if as_json:
        console.say_json(found.summary())
    elif form == "text":
        console.say_tables(found.tables(), hide=False)
    elif form == "csv":
        console.say(csv_text(found.records()), nl=False, hide=False)
    else:
        written = {"latex": latex, "markdown": markdown}[form](found.tables())
        console.say(written, nl=False, hide=False)
    gate = found.gate
    for line in () if gate is None else gate.lines():
        console.say(line, err=True, hide=False)
    return ExitCode.of(complete=gate is None or not gate.worse)


@command.call
def compare(
    table: Any,
    *,
    by: str | None = None,
    systems: Sequence[str] = (),
    columns: Mapping[str, str] | None = None,
    fail_if_worse: str | None = None,
    unscored: str = "worst",
    mix: bool = False,
    across_judges: bool = False,
    seed: int = 0,
) -> dict[str, Any]:
    """Compare systems by their scores on the same contexts, as `refladder compare`.

    Args:
        table: scored rows of all systems, as for `score`; or paths, one for each system.
        by: column with the scores; None for `overall_score` or the only column NAME_score, and of ratings with grades
            for `overall_grade` or NAME_grade.
        systems: names of the systems, in order; empty for all.
        columns: field (system, context_id, context) to the name of its column.
        fail_if_worse: the candidate that is tested: `gate` says whether it is worse than another system.
        unscored: rows without a score in `fail_if_worse`: `worst` counts them as the low end of the scale, `skip` leaves
            them out.
        mix: allow scores with different signatures, which can be on different scales.
        across_judges: allow grades of ratings by several judges, if ladders, scoring anchors and criterion are the
            same.
        seed: of the permutations and resamples.

    Returns:
        `by`, `systems` (`system`, `rows`, `unscored`, `contexts`, `mean`), `pairs` (`first`, `second`,
        `difference` of the means over the contexts of both, `low` and `high` of its 95 % interval, `p` of the paired
        permutation test, `p_holm`, `win_rate`, `contexts`, and `worst_case`: the difference if rows without a score
        count as the low end of the scale, with `unscored_first` and `unscored_second` of them) and `gate` (`system`,
        `worse`, also where it cannot be compared, the `reason`, the systems `compared` with it, and those of them that
        are `beaten`: significantly worse than it). What has no value is None.

    Raises:
        UsageError: fewer than two systems, or the score column is not clear.
        UnknownNameError: no such system.
        DataError: a column is missing, or signatures differ; with path:line or the number of the row.
    """
    from refladder.comparison.compare import run
    from refladder.display.results import ShownDict

    paths = list(map(str, table)) if are_paths(table) else []
    if paths:
        table = paths[0]
    with Call(compare, locals()) as call:
        found = run(paths or [call.source()], chosen(Comparing, call.given), Log())
        verdict = () if found.gate is None else found.gate.lines()
        return ShownDict(found.summary(), found.tables(), verdict)
