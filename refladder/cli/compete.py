"""refladder compete."""

from __future__ import annotations

from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from refladder.cli import console, spending
from refladder.cli.groups import DrawingOptions, ScaleOptions, grouped
from refladder.files.tables import FORMATS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from refladder.arena.compete import Contest
    from refladder.records import Progress


@click.command(cls=console.Command, short_help="Generate texts with several models and compare them pairwise.")
@click.argument("table")
@click.option(
    "--prompt",
    "prompt_file",
    type=console.PATH,
    help="File with the task prompt. {column} is replaced by the cell of each row.",
)
@click.option("--prompt-text", help="The task prompt itself, instead of a file.")
@click.option(
    "--model",
    "models",
    multiple=True,
    metavar="NAME=BACKEND",
    help="Model to compare, with its name in the results, such as small=hf:ORG/MODEL. Repeatable; two or more.",
)
@console.backend_option("--judge", "Judge model (see `refladder list backends`).", required=True)
@console.JUDGE_OPTION
@console.BASE_URL
@console.LOCAL
@click.option(
    "--criterion",
    "criteria",
    multiple=True,
    metavar="NAME=WORDS",
    help="Criterion and its description in plain words. Repeatable; one or more.",
)
@click.option(
    "--worst",
    multiple=True,
    metavar="NAME=WORDS",
    help="What the worst text on a criterion is like. A number and a colon before it set the low end of the scale, "
    "such as '-2: incoherent'. Repeatable.",
)
@click.option(
    "--best",
    multiple=True,
    metavar="NAME=WORDS",
    help="What the best text on a criterion is like, likewise. Repeatable.",
)
@click.option(
    "--weight",
    "weight",
    multiple=True,
    metavar="NAME=NUMBER",
    help="Weight of a criterion in the overall win rate. Repeatable. Default: 1 for each criterion.",
)
@click.option("--out", required=True, type=console.PATH, help="Output folder for texts, judgments and results.")
@click.option("--id", "id_column", metavar="COLUMN", help="Column with the row ids. Default: id, else the row number.")
@click.option(
    "--table-format",
    "table_format",
    type=click.Choice(FORMATS),
    help="Format of TABLE. Default: by file extension.",
)
@click.option(
    "--explain", is_flag=True, help="Ask the judge for a one-sentence explanation of every comparison with a winner."
)
@console.DRAWING
@click.option(
    "--html",
    "page",
    type=console.PATH,
    help="Output file for the review page: one HTML file, which also takes ratings.",
)
@console.PROMPTS
@console.RESTART
@spending.SPENDING
@console.JSON
@click.pass_context
@grouped(drawing=DrawingOptions, scale=ScaleOptions, money=spending.SpendingOptions)
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
    scale: ScaleOptions,
    out: Path,
    id_column: str | None,
    table_format: str | None,
    explain: bool,
    drawing: DrawingOptions,
    money: spending.SpendingOptions,
    page: Path | None,
    prompts: Path | None,
    restart: bool,
    as_json: bool,
) -> int:
    """Generate a text with each model for every row of TABLE, and judge every pair of texts in both orders.

    TABLE is JSON lines, CSV or Parquet. The prompt refers to its columns as {column}.

    Run the same command again to resume an interrupted run. Exit code 3: some texts or judgments are missing; they are
    listed and excluded from the win rates.
    """
    from refladder.arena.compete import RUN, compete, spent_before  # noqa: PLC0415
    from refladder.arena.criteria import criteria_of  # noqa: PLC0415
    from refladder.arena.html import review_page  # noqa: PLC0415
    from refladder.arena.runs import read_run  # noqa: PLC0415
    from refladder.arena.task_prompt import open_task_prompt, read_instances  # noqa: PLC0415
    from refladder.files.jsonl import atomic  # noqa: PLC0415  --help stays quick
    from refladder.files.locks import locked_folder  # noqa: PLC0415
    from refladder.jobs.evaluation_results import RESULTS  # noqa: PLC0415
    from refladder.report.summary import low_mass_lines  # noqa: PLC0415
    from refladder.scoring.dry_run import copied  # noqa: PLC0415

    console.check_prompts(prompts)
    prompt = open_task_prompt(prompt_file, prompt_text)
    descriptions = console.pairs(criteria, "--criterion")
    dimensions = criteria_of(
        descriptions,
        console.pairs(scale.worst, "--worst"),
        console.pairs(scale.best, "--best"),
        console.numbers(scale.weight, "--weight"),
    )
    instances = read_instances(table, prompt, id_column=id_column, form=table_format)
    targets = console.pairs(models, "--model")
    budgeted = spending.Spending(money)

    def run(folder: Path, bars: Callable[[str], AbstractContextManager[Progress | None]]) -> Contest:
        return compete(
            instances,
            {name: budgeted.open(target) for name, target in targets.items()},
            budgeted.open(judge, judge_option),
            dimensions,
            folder,
            sampling=drawing.sampling,
            explain=explain,
            prompts=prompts,
            restart=restart,
            bars=bars,
        )

    def rehearse() -> None:
        with copied(out) as copy:
            run(copy or out, budgeted.progress)

    if not budgeted.continues(rehearse, as_json=as_json):
        return 0
    context.with_resource(locked_folder(out))  # before a model is loaded or a server is asked
    kept = _Kept(out / RUN, console.resolved(context), [] if restart else spent_before(out), budgeted)
    contest = run(out, kept.bars)
    kept.write(signature=contest.signature)
    if page is not None:
        with atomic(page) as stream:
            stream.write(review_page(read_run(out)).encode())
    _print(contest, as_json=as_json)
    if contest.failures:
        missing = "rows without a prompt and texts that could not be written; the same command tries the texts again"
        console.say(f"{len(contest.failures):,} {missing}:", err=True)
    for failure in contest.failures[:10]:
        console.say(f"  {failure}", err=True)
    if len(contest.failures) > 10:  # noqa: PLR2004
        console.say(f"  and {len(contest.failures) - 10:,} more", err=True)
    console.say_lines(low_mass_lines(contest.faint, 2 * len(contest.trials)))  # each trial has both orders
    console.say(f"{out / RESULTS} holds prompts, texts, verdicts and standings", err=True)
    console.tell_spent(budgeted.spent())
    unread = any(trial.winner is None and not trial.tie for trial in contest.trials)
    return console.UNSCORED if contest.failures or unread else 0


@dataclass(frozen=True, slots=True)
class _Kept:
    """Keeps what the runs of a contest have asked, as soon as their answers are stored."""

    path: Path
    config: Mapping[str, Any]
    earlier: Sequence[Mapping[str, Any]]
    budgeted: spending.Spending

    def write(self, **more: str) -> None:
        from refladder.backends.metered import all_spent  # noqa: PLC0415  --help stays quick
        from refladder.files.jsonl import write_json  # noqa: PLC0415

        write_json(self.path, {**self.config, **more, "spent": all_spent(self.earlier, self.budgeted.spent())})

    @contextmanager
    def bars(self, what: str) -> Iterator[Progress]:
        with console.progress(what, watch=self.budgeted.under_way) as show:

            def progress(done: int, total: int | None) -> None:
                self.write()
                show(done, total)

            try:
                yield progress
            finally:
                self.write()


def _print(contest: Contest, *, as_json: bool) -> None:
    from dataclasses import asdict  # noqa: PLC0415

    from refladder.report.standings import standing_tables  # noqa: PLC0415

    standings = [standing for standing in contest.standings if standing.row is None]
    if as_json:
        for standing in standings:
            console.say_json(asdict(standing))
        return
    console.say_tables(standing_tables([asdict(standing) for standing in standings]))
