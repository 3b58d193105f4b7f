"""refladder score: the command and the call."""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict, replace
from functools import partial
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Literal,
    ParamSpec,
    Protocol,
    TypeVar,
    cast,
    overload,
)

import click

from refladder.cli import console, spending
from refladder.cli.calling import Call
from refladder.cli.options import (
    given_arguments,
    given_options,
    subcommand,
)
from refladder.display.log import Log, log_lines
from refladder.errors import ExitCode, UsageError, option
from refladder.events import Silent
from refladder.files.frames import added_values
from refladder.files.ladder_sets import as_ladder_set
from refladder.files.tables import STANDARD, read_once, read_rows
from refladder.many_files.options import (
    ManyFiles,
    check_options,
    score_many_files,
    score_with_judge,
)
from refladder.options import OF_BACKENDS, OF_COST, like
from refladder.scoring.summary import cost_words
from refladder.settings import LEAST_MASS, Tables

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from refladder.backends import Backend
    from refladder.backends.plain_function import Judge
    from refladder.files.ladder_sets import LadderSet
    from refladder.scoring.score_report import ScoreReport
    from refladder.session import Session
    from refladder.settings import Given, ScoreSpec

P = ParamSpec("P")
Table = TypeVar("Table")


@subcommand(
    "Score outputs against ladders.",
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
    "anchors",
    "judgments",
    "any_judge",
    "text_of",
    *OF_COST,
    "prompts",
    "workers",
    "engine",
    "shard",
    "as_json",
    given=dict,
    tables=Tables,
    money=spending.SpendingOptions,
    many=ManyFiles,
)
def command(
    *,
    given: Given,
    tables: Tables,
    money: spending.SpendingOptions,
    many: ManyFiles,
    text: tuple[str, ...],
    as_json: bool,
) -> ExitCode:
    """Add score columns to every row of SOURCE (JSON lines, CSV, Parquet or a log of Inspect; - is standard input).

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
    from refladder.jobs.score import spec_of
    from refladder.students.first_pass import PREFIX

    if text:
        _check_text_options(tables.source)
    elif tables.source is None:
        raise UsageError("give a SOURCE table, or --text")
    each_file = many.into(tables)
    if each_file is not None and not money.dry_run:
        check_options()
    spec = spec_of(given, given_options(), tables, console.resolved())
    events = console.Console(as_json=as_json)
    if given["judge"].startswith(PREFIX):
        return _score_with_student(spec, each_file, events)
    if not spec.asked.ladders:
        raise UsageError(_without_ladders(spec))
    session = spending.Spending(money)
    if text:
        return _score_texts(spec, session, text, events)
    if each_file is not None and not money.dry_run:
        spec = replace(spec, judgments=given["judgments"])
        return score_with_judge(spec, session, each_file, events)
    return _score_table(spec, session, events)


def _without_ladders(spec: ScoreSpec) -> str:
    """Say that the ladder set is missing, and which shipped sets fit the columns of the table."""
    from refladder.cli.inventory import sets_for

    fields = None
    source = spec.tables.source
    if not read_once(source):
        with closing(read_rows(source, spec.tables.given)) as rows:
            columns = rows.columns() or []
        named = {
            field: spec.columns.get(field, field) for field in ("output", "context", "background")
        }
        if named.pop("output") in columns:
            fields = [field for field, column in named.items() if column in columns]
    fitting = sets_for(fields) or sets_for(None)
    return (
        f"name the ladder set with {option('ladders')}. Shipped sets{' for such a table' * (fields is not None)}: "
        f"{fitting}. `refladder list ladders` lists all sets, and `refladder build` generates one for prompts that recur"
    )


def _score_table(spec: ScoreSpec, session: spending.Spending, events: console.Console) -> ExitCode:
    """Score a table into one file, and print the counts."""
    from refladder.jobs.score import prepare, rehearse, score_rows

    if read_once(spec.tables.source) and session.budget is not None and not session.only_estimates:
        raise UsageError(
            "--budget reads SOURCE twice, so it cannot be standard input or a pipe; give a file"
        )
    prepared = prepare(spec, events)
    if not session.approves(partial(rehearse, prepared), as_json=events.as_json):
        return ExitCode.DONE
    report = score_rows(prepared, session, events)
    code = console.tell(
        report,
        as_json=events.as_json,
        to_stderr=spec.tables.out == STANDARD,
        spent=session.spent(),
        checks=events.checks,
    )
    if session.earlier and not events.as_json:
        for costs in session.total_spent():
            console.notify(f"with the runs before: {cost_words(costs)}")
    return code


def _check_text_options(source: str | None) -> None:
    """Refuse options that do not go with --text, and a table beside it."""
    if source is not None:
        raise UsageError("give either a SOURCE table or --text, not both")
    params = click.get_current_context().params
    of_tables = [(flag, option) for flag, option in given_options() if not option.with_text]
    given = ", ".join(flag for flag, option in of_tables if params[option.name] != STANDARD)
    if given:
        raise UsageError(
            f"--text prints its scores and reads and writes no table; leave out {given}, or give a SOURCE table instead "
            "of --text"
        )


def _score_texts(
    spec: ScoreSpec,
    session: spending.Spending,
    texts: tuple[str, ...],
    events: console.Console,
) -> ExitCode:
    """Score the texts of --text, and print the scores."""
    from refladder.jobs.ladder_tables import score_table
    from refladder.jobs.score import score_texts, text_items
    from refladder.scoring.summary import warning_lines

    # Checked before a model is loaded.
    ladders, items = text_items(spec, texts)

    def rehearse(dry: Session) -> int:
        return score_texts(spec, ladders, items, dry, Silent())[0].report.reused

    if not session.approves(rehearse, as_json=events.as_json):
        return ExitCode.DONE
    scorer, columns = score_texts(spec, ladders, items, session, events)
    console.say_lines(warning_lines(scorer.report))
    if events.as_json:
        for text, values in zip(texts, columns, strict=True):
            console.say_json({"context_id": spec.context_id, "output": text, **values})
    else:
        console.say_tables([score_table(texts, columns, scorer.dimensions)])
        console.say(scorer.mode.legend(scorer.run, scorer.scale))
        console.say(f"signature: {scorer.report.signature}")
    return ExitCode.of(complete=scorer.report.complete)


def _score_with_student(
    spec: ScoreSpec, many: ManyFiles | None, events: console.Console
) -> ExitCode:
    """Score a table with a student as the judge."""
    from refladder.many_files.worker import task_of
    from refladder.students.first_pass import mapped_of, run, student_folder, student_judge

    judge, tables, ladders = str(spec.judge), spec.tables, spec.asked.ladders or None
    student = student_judge(judge, given_options())
    if tables.source is None:
        raise UsageError("give a SOURCE table")
    texts = as_ladder_set(ladders)
    if many is not None:
        task = replace(
            task_of(spec, texts),
            judgments=False,
            student=str(student_folder(judge)),
        )
        mapped = mapped_of(spec, student)
        return score_many_files(many, task, mapped, events, gpus=False)
    report = run(spec, student, texts, events)
    return console.tell(report, as_json=events.as_json, to_stderr=tables.out == STANDARD)


class _Score(Protocol[P]):
    """For type checkers: a table gives a table of its kind, and a dry run gives counts."""

    @overload
    def __call__(
        self, table: object, *, dry_run: Literal[True], **options: Any
    ) -> dict[str, Any]: ...

    @overload
    def __call__(self, table: Table, *args: P.args, **options: P.kwargs) -> Table: ...


def _by_run(call: Callable[Concatenate[Any, P], Any]) -> _Score[P]:
    return cast("_Score[P]", call)


@_by_run
@command.call
def score(
    table: Table,
    *,
    ladders: str | Path | LadderSet | None = None,
    judge: str | Backend | Judge = "builtin",
    judge_options: Mapping[str, object] | None = None,
    dimensions: Sequence[str] = (),
    columns: Mapping[str, str] | None = None,
    context_id: str | float | None = None,
    rule: str = "ladder-sum",
    weights: Mapping[str, float] | None = None,
    least_mass: float = LEAST_MASS,
    answers: int | str = 0,
    both_orders: bool = False,
    yes_no: bool = False,
    prompts: str | Path | None = None,
    anchors: int | None = None,
    any_judge: bool = False,
    text_of: Literal["answer", "whole"] = "answer",
    judgments_from: str | Path | Sequence[str | Path] | None = None,
    out: str | Path | None = None,
    judgments: str | Path | None = None,
    store: str | Path | bool | None = None,
    dry_run: bool = False,
) -> Table | dict[str, Any]:
    """Add score columns to every row of a table, as `refladder score`.

    A row needs an output, and except for a shared set the id or the text of its context, in the columns `output`,
    `context_id` and `context`. A column may hold a chat: `columns={"context": "messages", "output": "messages"}`.
    Each dimension adds five columns: NAME_score, NAME_grade, NAME_spread, NAME_mass and NAME_note. A score that is
    missing is null, and its note says why; a warning of the logger `refladder` counts them.

    Args:
        table: a path (JSON lines, CSV, Parquet or a log of Inspect), a list of dicts, a pandas or polars DataFrame, a
            pyarrow Table, or a Dataset of `datasets`.
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
            NAME_score_low and NAME_score_high are the ends of an interval. With `rating`, `rating:stated` and
            `rating:together` the judge rates the text alone, and with `anchored` and `anchored:stated` after the rungs
            as graded examples.
        both_orders: judge every pair in both orders.
        yes_no: ask three yes/no questions for each comparison.
        prompts: folder of templates that replace the shipped ones.
        anchors: with a shared set, the number of its anchors that score; None for those that it names.
        any_judge: score also with a judge that does not distinguish the best rung of ladders from the worst. Before the first
            row, it compares them on up to 16 ladders of each dimension, once for a named judge and a set.
        text_of: what of an output is judged: its `answer`, which is what follows the marked thoughts that it begins with, or
            the `whole` text.
        judgments_from: table of judgments that another program made, or a judgments file, instead of a judge; several
            count as one. No model is asked; a comparison that is not in it is unparsed.
        out: file for the scored rows, required where `table` is a path. An interrupted call continues from
            `OUT.judgments.jsonl` when it is made again.
        judgments: file that stores the judgments; None for `OUT.judgments.jsonl`, or none without `out` or with
            `judgments_from`.
        store: response store; None for the default of the command line, False for none.
        dry_run: count what would be asked, and ask nothing; a server gets only the requests of its handshake.

    Returns:
        A table of the same kind with the columns added and its own columns unchanged; for a path, the path of `out`.
        Rows of a file are streamed and never held in memory together.
        With `dry_run`, a dict: `backends` has for each the number of calls, requests, characters and tokens, and
        `kept_judgments` is the number of judgments that are reused.

    Raises:
        UsageError, UnknownNameError: an argument is wrong; the judge was not asked.
        JudgeRefusedError: the judge does not distinguish the best rung of ladders from the worst; see `any_judge`.
        DataError: a row is wrong, with path:line or the number of the row; or a file cannot be read or written.
        BackendError: the judge failed; its judgments so far are stored, if they have a file.
    """
    from refladder.jobs.score import prepare, rehearse, score_rows, spec_of
    from refladder.loaders.fields import row_id
    from refladder.loaders.input_rows import text_columns
    from refladder.students import first_pass

    with Call(score, locals()) as call:
        call.given["context_id"] = row_id("score", "context_id", context_id)
        named = list(given_arguments(command, call.given))
        needed = text_columns(columns) if out is None else None
        written = STANDARD if dry_run and out is None else call.out(out)
        files = Tables(source=call.source(needed), out=written)
        spec = spec_of(call.given, named, files, None if out is None else call.config())
        if isinstance(judge, str) and judge.startswith(first_pass.PREFIX):
            student = first_pass.student_judge(judge, named)
            report = first_pass.run(spec, student, as_ladder_set(ladders), Log())
            return _returned(call, table, files, report, first_pass.estimate_columns(student))
        if ladders is None:
            raise UsageError(_without_ladders(spec))
        prepared, session = prepare(spec, Log()), call.session()
        if dry_run:
            session.only_estimates = True
            return asdict(session.plan(rehearse(prepared, session.rehearsal())))
        report = score_rows(prepared, session, Log())
        return _returned(call, table, files, report, prepared.added)


def _returned(
    call: Call, table: Table, files: Tables, report: ScoreReport, added: Mapping[str, type]
) -> Table:
    """Return the scored table, of the kind that the user gave; the counts go to the logger."""
    from refladder.scoring.summary import essential_lines

    log_lines(essential_lines(report))
    if call.frame is None:
        return type(table)(call.given["out"])  # type: ignore[call-arg]
    values = added_values(files.out, added)
    return cast("Table", call.frame.with_columns(values, added, call.given["columns"]))
