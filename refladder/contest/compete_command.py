"""refladder compete: the command and the call."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from refladder.cli import console, spending
from refladder.cli.calling import Call
from refladder.cli.options import subcommand
from refladder.display.log import Log, log_lines
from refladder.errors import ExitCode
from refladder.files.jsonl import atomic
from refladder.options import OF_BACKENDS, OF_COST, OF_GENERATION, like
from refladder.records import Sampling

if TYPE_CHECKING:
    from collections.abc import Mapping

    from refladder.backends import Backend
    from refladder.backends.plain_function import Judge
    from refladder.contest.compete import Contest
    from refladder.settings import Given


@subcommand(
    "Generate texts with several models and compare them pairwise.",
    "table",
    "prompt_file",
    "prompt_text",
    "models",
    like("judge", default=None, required=True),
    "judge_option",
    *OF_BACKENDS,
    "criteria",
    "worst",
    "best_words",
    like(
        "weight",
        help="Weight of a criterion in the overall win rate. Repeatable. Default: 1 for each "
        "criterion.",
        metavar="NAME=NUMBER",
    ),
    like("out_folder", help="Output folder for texts, judgments and results.", required=True),
    "id_column",
    "table_format",
    "explain",
    *OF_GENERATION,
    "page",
    "prompts",
    *OF_COST,
    "as_json",
    sampling=Sampling,
    given=dict,
    money=spending.SpendingOptions,
)
def command(
    *,
    given: Given,
    money: spending.SpendingOptions,
    out: Path,
    page: Path | None,
    as_json: bool,
) -> ExitCode:
    """Generate a text with each model for every row of TABLE, and judge every pair of texts in both orders.

    TABLE is JSON lines, CSV or Parquet. The prompt refers to its columns as {column}.

    Run the same command again to resume an interrupted run. Exit code 3: some texts or judgments are missing; they are
    listed and excluded from the win rates.

    Examples:
        refladder compete questions.csv --prompt prompt.txt --model small=hf:ORG/SMALL --model large=hf:ORG/LARGE
            --judge hf:ORG/JUDGE --criterion clear="easy to follow" --out contest
    """
    from refladder.contest.compete import rehearse, run, spec_of
    from refladder.contest.html import review_page
    from refladder.contest.runs import read_run
    from refladder.evaluation.results import RESULTS

    session = spending.Spending(money)
    given = {**given, "config": console.resolved()}
    spec = spec_of(given, lambda _columns: str(given["table"]), out)
    if not session.approves(partial(rehearse, spec), as_json=as_json):
        return ExitCode.DONE
    contest = run(spec, session, console.Console())
    if page is not None:
        with atomic(page) as stream:
            stream.write(review_page(read_run(out)).encode())
    _print(contest, as_json=as_json)
    console.notify(f"{out / RESULTS} holds prompts, texts, verdicts and standings")
    console.tell_spent(session.spent())
    return ExitCode.of(complete=contest.complete)


def _print(contest: Contest, *, as_json: bool) -> None:
    """Print the standings, and on standard error what is missing."""
    if as_json:
        for standing in contest.standings:
            if standing.row is None:
                console.say_json(asdict(standing))
    else:
        console.say_tables(contest.tables())
    if contest.failures:
        missing = "rows without a prompt and texts that could not be written; the same command tries the texts again"
        console.say(f"{len(contest.failures):,} {missing}:", err=True)
    for failure in contest.failures[:10]:
        console.say(f"  {failure}", err=True)
    if len(contest.failures) > 10:
        console.say(f"  and {len(contest.failures) - 10:,} more", err=True)
    console.say_lines(contest.warnings())


@command.call
def compete(
    table: Any,
    *,
    models: Mapping[str, str | Backend],
    judge: str | Backend | Judge,
    criteria: Mapping[str, str],
    prompt: str | Path | None = None,
    prompt_text: str | None = None,
    worst: Mapping[str, str] | None = None,
    best: Mapping[str, str] | None = None,
    weights: Mapping[str, float] | None = None,
    out: str | Path | None = None,
    judge_options: Mapping[str, object] | None = None,
    id: str | None = None,  # noqa: A002  the name of the option
    explain: bool = False,
    sampling: Sampling | None = None,
    prompts: str | Path | None = None,
    store: str | Path | bool | None = None,
) -> Contest:
    """Let models write a text for every row, and a judge compare them in both orders, as `refladder compete`.

    Args:
        table: a path, a list of dicts, a pandas or polars DataFrame, a pyarrow Table or a Dataset.
        models: name in the results to a backend by name, or an open one; two or more.
        judge: a backend by name, an open one, or a function.
        criteria: name to a description in plain words, one or more.
        prompt: file with the task prompt, in which {column} is replaced by the cell of each row.
        prompt_text: the task prompt itself, instead of a file.
        worst: criterion to what its worst text is like; a number and a colon before it set the low end of the scale.
        best: criterion to what its best text is like, likewise.
        weights: weight of a criterion in the overall win rate; 1 for those that are not named.
        out: folder for texts, judgments and results, which `refladder review` opens. An interrupted call continues
            there when it is made again. None keeps nothing.
        judge_options: options of a named judge.
        id: column with the row ids; None for `id`, else the row number.
        explain: ask the judge for a one-sentence explanation of every comparison with a winner.
        sampling: how texts are drawn; None for `Sampling()`, which is the default of the command line.
        prompts: folder of templates that replace the shipped ones.
        store: response store; None for the default of the command line, False for none.

    Returns:
        Texts, trials and standings. What could not be written is in its `failures`, and a warning of the logger
        `refladder` counts it.

    Raises:
        UsageError, UnknownNameError, PromptError: an argument is wrong; no model was asked.
        DataError: the table is wrong, or the folder cannot be written.
        BackendError: a model or the judge failed; the texts and judgments so far are stored, if `out` is given.
    """
    from refladder.contest.compete import run, spec_of

    with Call(compete, locals()) as call:
        folder = call.folder() if out is None else Path(out)
        spec = spec_of({**call.given, "config": call.config()}, call.source, folder)
        contest = run(spec, call.session(), Log())
        log_lines([*contest.failures, *contest.warnings()])
        return contest
