"""refladder compete."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from refladder.cli import console, spending
from refladder.files.tables import FORMATS

if TYPE_CHECKING:
    from pathlib import Path

    from refladder.backends.estimate import Plan
    from refladder.jobs.compete import Contest


_TITLE = (
    "{}: win rate over pairs of texts, each judged in both orders. A pair is won when both orders choose the same "
    "text, else it is a tie, which counts half; interval: 95 %, by the spread between rows. Not counted: pairs "
    "that the judge gave no answer to (unread), rows without a text of the model."
)


@click.command(short_help="Let models write and compare them with each other.")
@click.argument("table")
@click.option(
    "--prompt", "prompt_file", type=console.PATH, help="File with the task prompt; {column} stands for a cell."
)
@click.option("--prompt-text", help="The task prompt itself, in place of a file.")
@click.option(
    "--model",
    "models",
    multiple=True,
    metavar="NAME=BACKEND",
    help="A model that writes, with its name in the results, such as small=hf:ORG/MODEL; two or more.",
)
@console.backend_option("--judge", "The model that compares; `refladder list backends`.", required=True)
@console.JUDGE_OPTION
@console.BASE_URL
@console.LOCAL
@click.option(
    "--criterion",
    "criteria",
    multiple=True,
    metavar="NAME=WORDS",
    help="What to judge by, in plain words; one or more.",
)
@click.option("--out", required=True, type=console.PATH, help="Folder for texts, judgments and results.")
@click.option(
    "--id", "id_column", metavar="COLUMN", help="Column that names a row. Without it, id, else the row's number."
)
@click.option(
    "--table-format",
    "table_format",
    type=click.Choice(FORMATS),
    help="Format of TABLE. Without it, its ending tells.",
)
@click.option("--explain", is_flag=True, help="Ask the judge for a sentence on every comparison that has a winner.")
@console.DRAWING
@click.option("--html", "page", type=console.PATH, help="File for the whole contest as one page, to be mailed.")
@console.PROMPTS
@console.RESTART
@spending.SPENDING
@console.JSON
@click.pass_context
def command(
    context: click.Context,
    /,
    *,
    table: str,
    prompt_file: Path | None,
    prompt_text: str | None,
    models: tuple[str, ...],
    judge: str,
    judge_option: tuple[str, ...],
    criteria: tuple[str, ...],
    out: Path,
    id_column: str | None,
    table_format: str | None,
    explain: bool,
    seed: int,
    max_tokens: int,
    temperature: float,
    top_p: float,
    page: Path | None,
    prompts: Path | None,
    restart: bool,
    as_json: bool,
) -> int:
    """Fill a task prompt with every row of TABLE, let models answer, and judge every pair of answers in both orders.

    TABLE is JSON lines, CSV or Parquet; any column of it may stand in the prompt, as {column}.

    A run that was cut off goes on where it stopped when the same command is run again. Exit code 3: some rows have no
    text of some model; they are told, and count neither for nor against it.
    """
    from refladder.errors import UsageError  # noqa: PLC0415
    from refladder.files.jsonl import atomic, read_bytes, write_json  # noqa: PLC0415  --help stays quick
    from refladder.files.locks import locked_folder  # noqa: PLC0415
    from refladder.jobs.compete import RESULTS, compete, plan_compete  # noqa: PLC0415
    from refladder.jobs.task_prompt import parse_task_prompt, read_instances  # noqa: PLC0415
    from refladder.records import Dimension, Sampling  # noqa: PLC0415
    from refladder.report.page import contest_page  # noqa: PLC0415
    from refladder.scoring.dry_run import copied  # noqa: PLC0415

    console.check_prompts(prompts)
    if (prompt_file is None) == (prompt_text is None):
        raise UsageError("give the task prompt once: --prompt FILE or --prompt-text TEXT")
    if prompt_file is not None:
        prompt = parse_task_prompt(_text(prompt_file), str(prompt_file))
    else:
        prompt = parse_task_prompt(prompt_text or "", "--prompt-text")
    words = console.pairs(criteria, "--criterion")
    instances = read_instances(table, prompt, id_column=id_column, form=table_format)
    targets = console.pairs(models, "--model")
    budgeted = spending.current(context)

    how: dict[str, Any] = {
        "sampling": Sampling(max_tokens=max_tokens, temperature=temperature, top_p=top_p, seed=seed),
        "explain": explain,
        "prompts": prompts,
        "restart": restart,
    }
    dimensions = [Dimension(name=name, description=text) for name, text in words.items()]

    def plan(costs: Plan) -> None:
        backends = {name: budgeted.connect(target) for name, target in targets.items()}
        with copied(out) as copy:
            plan_compete(
                costs, instances, backends, budgeted.connect(judge, judge_option), dimensions, copy or out, **how
            )

    if not budgeted.continues(plan, as_json=as_json):
        return 0
    context.with_resource(locked_folder(out))  # before a model is loaded or a server is asked
    contest = compete(
        instances,
        {name: budgeted.open(target) for name, target in targets.items()},
        budgeted.open(judge, judge_option),
        dimensions,
        out,
        bars=partial(console.progress, watch=budgeted.under_way),
        **how,
    )
    write_json(out / "run.json", {**console.resolved(context), "signature": contest.signature})
    if page is not None:
        lines = [json.loads(line) for line in read_bytes(out / RESULTS).splitlines()]
        with atomic(page) as stream:
            stream.write(contest_page(f"{' : '.join(targets)}, judged by {judge}", lines).encode())
    _print(contest, as_json=as_json)
    if contest.failures:
        missing = "rows without a prompt and texts that could not be written; the same command tries the texts again"
        console.say(f"{len(contest.failures):,} {missing}:", err=True)
    for failure in contest.failures[:10]:
        console.say(f"  {failure}", err=True)
    if len(contest.failures) > 10:  # noqa: PLR2004
        console.say(f"  and {len(contest.failures) - 10:,} more", err=True)
    console.tell_faint(contest.faint)
    console.say(f"{out / RESULTS} holds prompts, texts, verdicts and standings", err=True)
    console.tell_spent(budgeted.spent())
    unread = any(trial.winner is None and not trial.tie for trial in contest.trials)
    return console.UNSCORED if contest.failures or unread else 0


def _text(path: Path) -> str:
    from refladder.errors import DataError  # noqa: PLC0415
    from refladder.files.jsonl import read_bytes  # noqa: PLC0415

    try:
        return read_bytes(path).decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8; save the prompt as UTF-8") from error


def _print(contest: Contest, *, as_json: bool) -> None:
    from dataclasses import asdict  # noqa: PLC0415

    from refladder.report.rendering import DASH, PlainTable, fitted  # noqa: PLC0415

    standings = [one for one in contest.standings if one.row is None]
    if as_json:
        for one in standings:
            click.echo(console.printable_json(json.dumps(asdict(one), ensure_ascii=False)))
        return
    out = console.console()
    heads = ["model", "win rate", "interval", "wins", "ties", "losses", "unread", "no text"]
    for criterion in dict.fromkeys(one.criterion for one in standings):
        rows = []
        for one in standings:
            if one.criterion == criterion:
                ends = DASH if one.low is None or one.high is None else f"{one.low:.3f} - {one.high:.3f}"
                rate = DASH if one.rate is None else f"{one.rate:.3f}"
                counts = (one.wins, one.ties, one.losses, one.unread, one.failed)
                rows.append([one.model, rate, ends, *(f"{count:,}" for count in counts)])
        for table in fitted(PlainTable(_TITLE.format(criterion), heads, rows), out.width):
            out.print(table)
