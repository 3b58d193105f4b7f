"""refladder score: the command and the call."""

from __future__ import annotations

import inspect
from collections.abc import Sized
from contextlib import nullcontext
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from refladder.commands import console, spending
from refladder.commands.calling import LOG, Call, Log, checked
from refladder.commands.frames import read_columns
from refladder.commands.many_files import (
    ManyFiles,
    check_judge,
    check_options,
    score_many_files,
)
from refladder.commands.options import (
    Command,
    JudgeOptions,
    given_options,
    options,
    options_of,
)
from refladder.commands.recorded import (
    asking_arguments,
    asking_options,
    open_recorded,
)
from refladder.errors import UsageError
from refladder.files.jsonl import is_device
from refladder.files.ladder_sets import LadderSet, load_ladders
from refladder.files.locks import locked
from refladder.files.tables import STANDARD, read_once
from refladder.options import OF_BACKENDS, OF_COST, like
from refladder.records import is_shared
from refladder.session import Session
from refladder.settings import LEAST_MASS, Scoring, Tables, chosen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from refladder.backends import Backend
    from refladder.backends.plain_function import Judge
    from refladder.jobs.prepared import Prepared
    from refladder.jobs.score import AllRows, Mapped, RowScorer
    from refladder.records import JudgeCheck, Progress, Score
    from refladder.scoring.columns import ScoreReport
    from refladder.scoring.recorded import Recorded
    from refladder.scoring.scorer import LadderScorer

Table = TypeVar("Table")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileOptions:
    """Files of a run beside its tables, and what is done with those of an earlier run."""

    judgments: Path | None
    judgments_from: tuple[str, ...]


@click.command(cls=Command, short_help="Score outputs against ladders.")
@options(
    "source",
    "ladders",
    "dimension",
    like(
        "out",
        help="Output file; - is standard output. A folder (no extension) or a URL gets one file "
        "per input file.",
        beside=(".run.json", ".judgments.jsonl"),
    ),
    "text",
    "context_id",
    "column",
    "given",
    "out_format",
    "escape_formulas",
    "judge",
    "judge_option",
    "judgments_from",
    *OF_BACKENDS,
    "rule",
    "weight",
    "least_mass",
    "answers",
    "both_orders",
    "yes_no",
    "judgments",
    "any_judge",
    *OF_COST,
    "prompts",
    "workers",
    "engine",
    "shard",
    "as_json",
    asked=Scoring,
    tables=Tables,
    judge=JudgeOptions,
    files=FileOptions,
    money=spending.SpendingOptions,
    many=ManyFiles,
)
@click.pass_context
def command(
    context: click.Context,
    /,
    *,
    asked: Scoring,
    tables: Tables,
    judge: JudgeOptions,
    files: FileOptions,
    money: spending.SpendingOptions,
    many: ManyFiles,
    text: tuple[str, ...],
    context_id: str | None,
    column: Mapping[str, str],
    as_json: bool,
) -> int:
    """Add score columns to every row of SOURCE (JSON lines, CSV or Parquet; - is standard input).

    SOURCE may be a folder, a quoted glob or a URL. With --workers, or a folder as OUT, each file is scored by itself.

    A row needs an output, and a context_id or the text of its context (with a shared set, the output only). Each
    dimension adds NAME_score, NAME_grade (on the human scale), NAME_spread (how undecided the judge was), NAME_mass
    (label mass) and NAME_note (why a score is missing or unreliable).

    First, the judge compares the best and the worst rung of up to 16 ladders per dimension, once per judge and set. A
    judge that cannot distinguish them is refused; see --any-judge.

    Run the same command again to resume an interrupted run. Exit code 3: some scores are missing.

    Examples:
        refladder score answers.jsonl --ladders demo/story --judge hf:ORG/MODEL --out scored.jsonl
        refladder score answers.jsonl --ladders my-ladders --judge openai:MODEL --dry-run
        refladder score --text "Once upon a time ..." --context-id story-01 --ladders demo/story
    """
    from refladder.jobs.prepared import Prepared
    from refladder.jobs.score import Mapped
    from refladder.students.first_pass import PREFIX

    _check_text_options(context, text, tables)
    many = many.into(tables)
    if many.given and not money.dry_run:
        check_options(context)
    mapped = Mapped(columns=column, context=context_id)
    if judge.name.startswith(PREFIX):
        return _score_with_student(
            context, judge.name, asked.ladders, tables, mapped=mapped, many=many, as_json=as_json
        )
    if asked.ladders is None:
        raise click.MissingParameter(
            ctx=context,
            param=next(option for option in context.command.params if option.name == "ladders"),
        )
    prepared = Prepared(asked)
    console.say_lines(_notices(prepared))
    session = spending.Spending(money)
    run = _Run(
        prepared=prepared,
        session=session,
        judge=judge.name,
        judge_options=judge.options,
        tables=tables,
        mapped=mapped,
        judgments=files.judgments,
        config=console.resolved(context),
        tell=str if as_json else console.say_checks,
    )
    if text:
        return _score_texts(run, session, text, context_id, as_json=as_json)
    if many.given and not money.dry_run:
        return _score_many_files(context, run, session, many, money.budget, as_json=as_json)
    if read_once(tables.source) and money.budget is not None and not money.dry_run:
        raise UsageError(
            "--budget reads SOURCE twice, so it cannot be standard input or a pipe; give a file"
        )
    return _score_table(context, run, session, files, as_json=as_json)


def _check_text_options(context: click.Context, text: tuple[str, ...], tables: Tables) -> None:
    """Refuse options that do not go with --text, and a table beside it."""
    if bool(text) == (tables.source is not None):
        raise UsageError(
            "give either a SOURCE table or --text, not both"
            if text
            else "give a SOURCE table, or --text"
        )
    given = (option.name for option in given_options(context) if not option.with_text)
    if text and any(context.params[name] != STANDARD for name in given):
        raise UsageError(
            "--text prints its scores and writes no file; --out, --judgments and similar options need a SOURCE table"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """A table that is scored with a judge, by the command or by the call."""

    prepared: Prepared
    session: Session
    judge: str | Backend | Judge
    judge_options: Mapping[str, object]
    tables: Tables
    mapped: Mapped
    judgments: Path | None
    config: Mapping[str, Any] | None
    tell: Callable[[Sequence[JudgeCheck]], object]
    recorded: Recorded | None = None

    def scorer(self) -> LadderScorer:
        """The scorer with the judge, which is opened, or in a dry run only counts."""
        return self.prepared.scorer(
            self.recorded or self.session.open(self.judge, self.judge_options)
        )

    def asking(self) -> AllRows:
        """The judge, ready for the rows of the table."""
        from refladder.jobs.score import AllRows

        scorer = self.scorer()
        asking = AllRows(scorer)
        asking.prove = partial(self.checks, scorer)
        return asking

    def checks(
        self, scorer: LadderScorer, progress: Progress | None = None, *, ask: bool = True
    ) -> list[JudgeCheck]:
        """The check of the judge, told unless this is a rehearsal; a refusal is an error unless any judge may score."""
        from refladder.scoring.judge_check import missing_line, prove

        folder = self.session.checks_of(self.judge)
        if (
            ask
            and scorer.judge.wants_all
            and missing_line(scorer, prove(scorer, folder, any_judge=True, ask=False))
        ):
            self.session.notify(
                "the judge check is an exchange of files of its own, and the rows are the next: a first run takes two"
            )
        checks = prove(
            scorer, folder, any_judge=self.prepared.asked.any_judge, ask=ask, progress=progress
        )
        if not self.session.rehearsing:
            self.tell(checks)
        return checks

    def score(
        self, asking: AllRows, progress: Progress | None, counted: int | None = None
    ) -> ScoreReport:
        """Score the table, or rehearse it; `counted` rows, as `check_input` gives them."""
        from refladder.jobs.score import score_rows

        return score_rows(
            asking,
            self.tables,
            self.mapped,
            judgments=self.judgments,
            config=self.config,
            checked=counted,
            dry_run=self.session.rehearsing,
            progress=progress,
        )


def _notices(prepared: Prepared) -> Iterator[str]:
    from refladder.scoring.columns import OVERALL, overall_column

    if len(prepared.dimensions) > 1 and overall_column(prepared.dimensions) != OVERALL[0]:
        column = f"the weighted score is {overall_column(prepared.dimensions)}"
        yield f"{OVERALL[0]} is the score on the dimension 'overall'; {column}"


def _score_table(
    context: click.Context,
    run: _Run,
    session: spending.Spending,
    files: FileOptions,
    *,
    as_json: bool,
) -> int:
    from refladder.jobs.score import check_input

    source, out = run.tables.source, run.tables.out
    counted = check_input(
        source, run.tables.given, run.mapped, run.prepared.ladders, console.notify
    )
    recorded = open_recorded(
        files.judgments_from,
        asking_options(context),
        console.notify,
        source=source,
        ladders=run.prepared.ladders,
    )
    to_stderr = out == STANDARD
    kept = run.judgments
    if kept is None and recorded is None and not (to_stderr or is_device(Path(out))):
        kept = Path(f"{out}.judgments.jsonl")
    run = replace(run, recorded=recorded, judgments=kept)
    if not session.continues(lambda: _scored(run, session)[0].reused, as_json=as_json):
        return 0
    # Before a model is loaded or a server is asked:
    context.with_resource(nullcontext() if to_stderr else locked(Path(out)))
    context.with_resource(nullcontext() if kept is None else locked(kept))
    report, checks = _scored(run, session, counted)
    return console.tell(
        report, as_json=as_json, to_stderr=to_stderr, spent=session.spent(), checks=checks
    )


def _scored(
    run: _Run, session: spending.Spending, counted: int | None = None
) -> tuple[ScoreReport, list[JudgeCheck]]:
    """Score the table, or rehearse it; the counts, and the checks of the judge."""
    asking = run.asking()
    with session.progress("scoring") as progress:
        report = run.score(asking, progress, counted)
    return report, asking.checks


def _score_texts(
    run: _Run,
    session: spending.Spending,
    texts: tuple[str, ...],
    context_id: str | None,
    *,
    as_json: bool,
) -> int:
    """Score the texts of --text, and print the scores."""
    from refladder.jobs.score import score_texts, text_outputs
    from refladder.report.ladder_tables import score_table
    from refladder.report.summary import warning_lines
    from refladder.scoring.columns import Columns, bounds_text
    from refladder.scoring.judge_check import missing_line

    text_outputs(run.prepared.ladders, texts, context_id)  # before a model is loaded

    def scored() -> tuple[LadderScorer, list[tuple[Score, ...]]]:
        scorer = run.scorer()
        if (
            missing := missing_line(scorer, run.checks(scorer, ask=False))
        ) and not session.rehearsing:
            console.notify(missing)
        return scorer, score_texts(scorer, texts, context_id)

    if not session.continues(lambda: scored()[0].report.reused, as_json=as_json):
        return 0
    scorer, scores = scored()
    columns = Columns(scorer.run, scorer.scale).rows(scores)
    console.say_lines(warning_lines(scorer.report))
    if as_json:
        for text, values in zip(texts, columns, strict=True):
            console.say_json({"context_id": context_id, "output": text, **values})
    else:
        console.say_tables([score_table(texts, columns, scorer.dimensions)])
        console.say(bounds_text(scorer.run, scorer.scale.rule))
        console.say(f"signature: {scorer.report.signature}")
    return 0 if scorer.report.complete else console.UNSCORED


def _score_many_files(
    context: click.Context,
    run: _Run,
    session: spending.Spending,
    many: ManyFiles,
    budget: float | None,
    *,
    as_json: bool,
) -> int:
    from refladder.fleet.worker import Task

    judge, options = str(run.judge), {name: str(value) for name, value in run.judge_options.items()}
    check_judge(judge, options, many, budget=budget, judgments=run.judgments)
    price = session.price_of(judge)
    store = session.store_of(judge, costs=price is not None)
    prepared = run.prepared
    asked: dict[str, Any] = {
        each.name: getattr(prepared.asked, each.name) for each in fields(Scoring)
    }
    asked["dimensions"] = [dimension.name for dimension in prepared.dimensions]
    task = Task(
        **asked,
        version=prepared.ladders.signature,
        columns=dict(run.mapped.columns),
        context_id=run.mapped.context,
        judge=judge,
        judge_options=options,
        store=None if store is None else str(store),
        price=None if price is None else asdict(price),
        budget=None if price is None else budget,
        judgments=run.judgments is None,
        checks=session.checks_of(judge) is not None,
    )

    def rehearsed() -> int:
        with session.progress("scoring") as progress:
            return replace(run, judgments=None).score(run.asking(), progress).reused

    if not session.continues(rehearsed, as_json=as_json):
        return 0
    gpus = judge.startswith(("hf:", "reward:")) and "base_url" not in options
    mapped = replace(run.mapped, alone=bool(run.prepared.ladders.anchors))
    return score_many_files(context, many, task, run.tables, mapped, gpus=gpus, as_json=as_json)


def _score_with_student(
    context: click.Context,
    judge: str,
    ladders: object,
    tables: Tables,
    *,
    mapped: Mapped,
    many: ManyFiles,
    as_json: bool,
) -> int:
    """Score a table with a student as the judge."""
    from refladder.fleet.worker import Task
    from refladder.jobs.score import score_rows
    from refladder.students.first_pass import StudentAlone, student_folder, student_judge

    refused = [option.flag for option in given_options(context) if not option.with_student]
    student = student_judge(judge, refused)
    if tables.source is None:
        raise UsageError("give a SOURCE table")
    contexts = None if ladders is None else load_ladders(str(ladders))
    if many.given:
        task = Task(
            ladders=str(ladders or ""),
            version="" if contexts is None else contexts.signature,
            columns=dict(mapped.columns),
            context_id=mapped.context,
            judge=judge,
            judgments=False,
            student=str(student_folder(judge)),
        )
        mapped = replace(mapped, alone=is_shared(student.record.teacher))
        return score_many_files(context, many, task, tables, mapped, gpus=False, as_json=as_json)
    asking, config = StudentAlone(student, contexts), console.resolved(context)
    with console.progress("scoring") as progress:
        report = score_rows(asking, tables, mapped, config=config, progress=progress)
    return console.tell(report, as_json=as_json, to_stderr=tables.out == STANDARD)


@checked(command)
def score(
    table: Table,
    *,
    ladders: str | Path | LadderSet | None = None,
    judge: str | Backend | Judge = "builtin",
    judge_options: Mapping[str, object] | None = None,
    dimensions: Sequence[str] = (),
    columns: Mapping[str, str] | None = None,
    context_id: str | int | None = None,
    rule: str = "ladder-sum",
    weights: Mapping[str, float] | None = None,
    least_mass: float = LEAST_MASS,
    answers: int | str = 0,
    both_orders: bool = False,
    yes_no: bool = False,
    prompts: str | Path | None = None,
    any_judge: bool = False,
    judgments_from: str | Path | Sequence[str | Path] | None = None,
    out: str | Path | None = None,
    judgments: str | Path | None = None,
    store: str | Path | bool | None = None,
) -> Table:
    """Add score columns to every row of a table, as `refladder score`.

    A row needs an output, and except for a shared set the id or the text of its context, in the columns `output`,
    `context_id` and `context`.
    Each dimension adds five columns: NAME_score, NAME_grade, NAME_spread, NAME_mass and NAME_note. A score that is
    missing is null, and its note says why; a warning of the logger `refladder` counts them.

    Args:
        table: a path (JSON lines, CSV or Parquet), a list of dicts, a pandas or polars DataFrame, a pyarrow Table, or
            a Dataset of `datasets`.
        ladders: a shipped name, a folder, or a set from `load_ladders`. A student needs none; a set
            gives it the texts of contexts that the table lacks.
        judge: a backend by name (`builtin`, `hf:ORG/MODEL`, `openai:MODEL`), an open one, or a function (see "Use your
            own judge" in the documentation). Or `distilled:FOLDER`, a student from `distil`: it adds the column that it
            learned, its note and the signature. No model is asked, so arguments about asking are refused.
        judge_options: options of a named judge, such as `{"base_url": ..., "dtype": "bfloat16"}`.
        dimensions: names of the dimensions to score; empty for all of the set.
        columns: field (context_id, context, background, output, output_id) to the name of its column.
        context_id: the context of every row, for a table without such a column.
        rule: scoring rule (see `refladder list rules`).
        weights: weight of a dimension in the overall score; 1 for those that are not named.
        least_mass: least label mass, a probability; a judgment below it gives no score.
        answers: answers to sample for each question; 0 reads label probabilities. `stated` lets the judge write its
            probabilities for all rungs in one answer, and `stated:K` averages K orders of the rungs. From 5 orders on,
            NAME_score_low and NAME_score_high are the ends of an interval.
        both_orders: judge every pair in both orders.
        yes_no: ask three yes/no questions for each comparison.
        prompts: folder of templates that replace the shipped ones.
        any_judge: score also with a judge that does not tell the best rung of ladders from the worst. Before the first
            row, it compares them on up to 16 ladders of each dimension, once for a named judge and a set.
        judgments_from: table of judgments that another program made, or a judgments file, instead of a judge; several
            count as one. No model is asked; a comparison that is not in it is unparsed.
        out: file for the scored rows, required where `table` is a path. An interrupted call continues from
            `OUT.judgments.jsonl` when it is made again.
        judgments: file that stores the judgments; None for `OUT.judgments.jsonl`, or none without `out` or with
            `judgments_from`.
        store: response store; None for the default of the command line, False for none.

    Returns:
        The same kind of table with the columns added and its own columns unchanged; for a path, the path of `out`.
        Rows of a file are streamed and never held in memory together.

    Raises:
        UsageError, UnknownNameError: an argument is wrong; the judge was not asked.
        JudgeRefusedError: the judge does not tell the best rung of ladders from the worst; see `any_judge`.
        DataError: a row is wrong, with path:line or the number of the row; or a file cannot be read or written.
        BackendError: the judge failed; its judgments so far are stored, if they have a file.
    """
    from refladder.jobs.prepared import Prepared
    from refladder.jobs.score import FIELDS, Mapped, check_input, score_rows
    from refladder.loaders.fields import row_id
    from refladder.students.first_pass import PREFIX, StudentAlone, student_judge

    with Call(score, locals()) as call:
        call.given["context_id"] = row_id("score", "context_id", context_id)
        mapped = Mapped(columns=dict(columns or {}), context=call.given["context_id"])
        needed = {mapped.columns.get(name, name) for name in FIELDS} if out is None else None
        config = None if out is None else call.config()

        def tables() -> Tables:
            source = call.source(needed)
            return Tables(source=source, out=str(call.out(out, "scored")))

        if isinstance(judge, str) and judge.startswith(PREFIX):
            alone = student_judge(judge, _asking(call.given))
            texts = load_ladders(ladders) if isinstance(ladders, str | Path) else ladders
            files, asking = tables(), StudentAlone(alone, texts)
            with console.progress("scoring") as bar:
                score_rows(asking, files, mapped, config=config, progress=bar)
            return _returned(call, table, files, asking)
        if ladders is None:
            raise UsageError(
                f"give the ladder set: ladders=SET; only judge='{PREFIX}FOLDER' needs none"
            )
        prepared = Prepared(chosen(Scoring, call.given))
        recorded = open_recorded(
            judgments_from,
            asking_arguments(command, call.given),
            partial(LOG.info, "%s"),
            ladders=prepared.ladders,
        )
        files = tables()
        counted = check_input(files.source, None, mapped, prepared.ladders, LOG.warning)
        kept = Path(judgments) if judgments is not None else None
        if kept is None and out is not None and recorded is None:
            kept = Path(f"{files.out}.judgments.jsonl")
        call.enter_context(locked(Path(files.out)))  # before a model is loaded or a server is asked
        if kept is not None:
            call.enter_context(locked(kept))
        run = _Run(
            prepared=prepared,
            session=call.enter_context(Session(store)),
            judge=judge,
            judge_options=judge_options or {},
            tables=files,
            mapped=mapped,
            judgments=kept,
            config=config,
            tell=Log().checked,
            recorded=recorded,
        )
        by_judge = run.asking()
        with console.progress("scoring", run.session.under_way) as bar:
            run.score(by_judge, bar, counted)
        return _returned(call, table, files, by_judge)


def _asking(given: Mapping[str, object]) -> Iterator[str]:
    """Yield the arguments of `score` that are given and that a student does not accept."""
    accepted = {option.parameter for option in options_of(command) if option.with_student}
    for name, parameter in inspect.signature(score).parameters.items():
        if name in given and name not in accepted:
            value = given[name]
            empty = isinstance(value, Sized) and not len(value)
            if value is not False and not empty and value != parameter.default:
                yield name


def _returned(call: Call, table: Table, files: Tables, asking: RowScorer) -> Table:
    """The scored table, as the user gave it; the counts go to the logger."""
    from refladder.report.summary import essential_lines

    call.log(essential_lines(asking.report))
    if call.frame is None:
        return type(table)(call.given["out"])  # type: ignore[call-arg]
    added = asking.added
    return cast("Table", call.frame.with_columns(read_columns(Path(files.out), added), added))
