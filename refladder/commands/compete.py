"""refladder compete: the command and the call."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from refladder.commands import console, spending
from refladder.commands.calling import LOG, Call, checked
from refladder.commands.options import (
    Command,
    CriteriaOptions,
    JudgeOptions,
    backend_options,
    options,
)
from refladder.files.jsonl import atomic, write_json
from refladder.files.locks import locked_folder
from refladder.options import OF_BACKENDS, OF_COST, OF_GENERATION, like
from refladder.records import Sampling
from refladder.report.summary import low_mass_lines
from refladder.session import Session

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from refladder.arena.compete import Contest
    from refladder.arena.task_prompt import Instance
    from refladder.backends import Backend
    from refladder.backends.plain_function import Judge
    from refladder.records import Dimension, Progress


@click.command(
    cls=Command, short_help="Generate texts with several models and compare them pairwise."
)
@options(
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
    judge=JudgeOptions,
    asked=CriteriaOptions,
    money=spending.SpendingOptions,
)
@click.pass_context
def command(
    context: click.Context,
    /,
    *,
    table: str,
    prompt_file: Path | None,
    prompt_text: str | None,
    models: Mapping[str, str],
    judge: JudgeOptions,
    asked: CriteriaOptions,
    out: Path,
    id_column: str | None,
    table_format: str | None,
    explain: bool,
    sampling: Sampling,
    money: spending.SpendingOptions,
    page: Path | None,
    prompts: Path | None,
    as_json: bool,
) -> int:
    """Generate a text with each model for every row of TABLE, and judge every pair of texts in both orders.

    TABLE is JSON lines, CSV or Parquet. The prompt refers to its columns as {column}.

    Run the same command again to resume an interrupted run. Exit code 3: some texts or judgments are missing; they are
    listed and excluded from the win rates.

    Examples:
        refladder compete questions.csv --prompt prompt.txt --model small=hf:ORG/SMALL --model large=hf:ORG/LARGE
            --judge hf:ORG/JUDGE --criterion clear="easy to follow" --out contest
    """
    from refladder.arena.compete import RUN, spent_before
    from refladder.arena.criteria import criteria_of
    from refladder.arena.html import review_page
    from refladder.arena.runs import read_run
    from refladder.arena.task_prompt import open_task_prompt, read_instances
    from refladder.jobs.evaluation_results import RESULTS
    from refladder.session import copied

    console.check_prompts(prompts)
    prompt = open_task_prompt(prompt_file, prompt_text)
    dimensions = criteria_of(asked.criteria, asked.worst, asked.best, asked.weights)
    instances = read_instances(table, prompt, id_column=id_column, form=table_format)
    session = spending.Spending(money)

    named = {name: (target, backend_options(target, {})) for name, target in models.items()}
    how: dict[str, Any] = {"sampling": sampling, "explain": explain, "prompts": prompts}
    run = partial(
        _compete, session, named, (judge.name, judge.options), instances, dimensions, **how
    )

    def rehearse() -> None:
        with copied(out) as copy:
            run(folder=copy or out, bars=session.progress)

    if not session.continues(rehearse, as_json=as_json):
        return 0
    context.with_resource(locked_folder(out))  # before a model is loaded or a server is asked
    kept = _Kept(out / RUN, console.resolved(context), spent_before(out), session)
    contest = run(folder=out, bars=kept.bars)
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
    if len(contest.failures) > 10:
        console.say(f"  and {len(contest.failures) - 10:,} more", err=True)
    console.say_lines(
        low_mass_lines(contest.low_mass, 2 * len(contest.trials))
    )  # each trial has both orders
    console.notify(f"{out / RESULTS} holds prompts, texts, verdicts and standings")
    console.tell_spent(session.spent())
    unparsed = any(trial.winner is None and not trial.tie for trial in contest.trials)
    return console.UNSCORED if contest.failures or unparsed else 0


@dataclass(frozen=True, slots=True)
class _Kept:
    """Keeps what the runs of a contest have asked, as soon as their answers are stored."""

    path: Path
    config: Mapping[str, Any]
    earlier: Sequence[Mapping[str, Any]]
    session: spending.Spending

    def write(self, **more: str) -> None:
        from refladder.backends.metered import all_spent

        write_json(
            self.path,
            {**self.config, **more, "spent": all_spent(self.earlier, self.session.spent())},
        )

    @contextmanager
    def bars(self, what: str) -> Iterator[Progress]:
        with console.progress(what, watch=self.session.under_way) as show:

            def progress(done: int, total: int | None, note: str = "", each: int = 0, /) -> None:
                self.write()
                if show is not None:
                    show(done, total, note, each)

            try:
                yield progress
            finally:
                self.write()


def _compete(
    session: Session,
    models: Mapping[str, tuple[Any, ...]],
    judge: tuple[Any, ...],
    instances: Sequence[Instance],
    criteria: Sequence[Dimension],
    **how: Any,
) -> Contest:
    """The contest of models and a judge that are given as arguments of `Session.open`."""
    from refladder.arena.compete import compete as competed

    opened = {name: session.open(*model) for name, model in models.items()}
    return competed(instances, opened, session.open(*judge), criteria, **how)


def _print(contest: Contest, *, as_json: bool) -> None:
    from dataclasses import asdict

    from refladder.report.standings import standing_tables

    standings = [standing for standing in contest.standings if standing.row is None]
    if as_json:
        for standing in standings:
            console.say_json(asdict(standing))
        return
    console.say_tables(standing_tables([asdict(standing) for standing in standings]))


@checked(command)
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
    from refladder.arena.compete import RUN
    from refladder.arena.criteria import criteria_of
    from refladder.arena.task_prompt import open_task_prompt, read_instances

    with Call(compete, locals()) as call:
        folder_of_prompts = None if prompts is None else Path(prompts)
        console.check_prompts(folder_of_prompts)
        task = open_task_prompt(prompt, prompt_text)
        instances = read_instances(call.source({*task.names, id or "id"}), task, id_column=id)
        dimensions = criteria_of(criteria, worst or {}, best or {}, weights or {})
        folder = call.folder() if out is None else Path(out)
        call.enter_context(locked_folder(folder))  # before a model is loaded or a server is asked
        session = call.enter_context(Session(store))
        named = {name: (model,) for name, model in models.items()}
        how: dict[str, Any] = {"explain": explain, "prompts": folder_of_prompts}
        how |= {
            "sampling": sampling or Sampling(),
            "bars": partial(console.progress, watch=session.under_way),
        }
        contest = _compete(
            session, named, (judge, judge_options), instances, dimensions, folder=folder, **how
        )
        write_json(folder / RUN, {**call.config(), "signature": contest.signature})
        for failure in contest.failures:
            LOG.warning("%s", failure)
        for line in low_mass_lines(
            contest.low_mass, 2 * len(contest.trials)
        ):  # each trial has both orders
            LOG.warning("%s", line)
        return contest
