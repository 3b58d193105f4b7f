"""refladder build: the command and the call."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from refladder.commands import console, spending
from refladder.commands.calling import LOG, Call, checked
from refladder.commands.data import DATA, Data, DataOptions
from refladder.commands.options import DrawingOptions, JudgeOptions, grouped
from refladder.records import Sampling
from refladder.session import Session
from refladder.settings import Asking

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from refladder.backends import Backend
    from refladder.files.ladder_sets import LadderSet
    from refladder.jobs.build import BuildReport
    from refladder.records import Dimension


@click.command(cls=console.Command, short_help="Generate ladders for a benchmark or a table.")
@DATA
@click.option("--out", required=True, type=console.PATH, help="Output folder for the ladder set.")
@console.backend_option("--writer", "Writer model (see `refladder list backends`).", default="builtin")
@console.WRITER_OPTION
@console.BASE_URL
@console.LOCAL
@console.SAMPLING
@click.option(
    "--human", type=str, help="Table of human-written rungs with the columns context_id, dimension, level and text."
)
@click.option(
    "--certify",
    is_flag=True,
    help="Judge the rungs against each other. Rungs out of order are generated again, in at most 2 rounds; then their "
    "level is dropped, or their ladder fails.",
)
@click.option(
    "--shared",
    type=click.IntRange(1),
    metavar="K",
    help="Build one scale for all rows: the ladders of K contexts (anchors), drawn with --seed from the table, with "
    "which every text is compared, whatever its context (`own` only).",
)
@console.backend_option("--judge", "Judge model of --certify (see `refladder list backends`).", default="builtin")
@console.JUDGE_OPTION
@spending.SPENDING
@console.PROMPTS
@console.RESTART
@console.JSON
@click.pass_context
@grouped(data=DataOptions, drawing=DrawingOptions, judge=JudgeOptions, money=spending.SpendingOptions)
def command(
    context: click.Context,
    /,
    *,
    data: DataOptions,
    drawing: DrawingOptions,
    money: spending.SpendingOptions,
    out: Path,
    writer: str,
    writer_option: tuple[str, ...],
    rungs: int,
    attempts: int,
    human: str | None,
    shared: int | None,
    certify: bool,
    judge: JudgeOptions,
    prompts: Path | None,
    restart: bool,
    as_json: bool,
) -> int:
    """Generate a ladder for every context and dimension of BENCHMARK (a name, or your own table).

    Run the same command again to resume an interrupted build. Exit code 3: some ladders failed (the reasons are in
    failures.jsonl), or the certificate is refused. The estimates of --dry-run and --budget do not include rungs that
    --certify generates again.

    Examples:
        refladder build questions.csv --task-file task.toml --writer hf:ORG/MODEL --out my-ladders
        refladder build summeval --writer openai:MODEL --prices prices.toml --budget 5 --out ladders
    """
    from refladder.files.ladder_sets import ladder_set
    from refladder.files.locks import locked_folder
    from refladder.jobs.build import build, draw_anchors, read_human_rungs
    from refladder.jobs.certify import JUDGMENTS, open_asker, set_questions
    from refladder.jobs.mend import Mender
    from refladder.scoring.dry_run import copied
    from refladder.synth import build_ladders, name_subjects
    from refladder.synth.journal import JOURNAL, SUBJECTS

    console.check_prompts(prompts)
    contexts, dimensions = data.data().contexts(shared=shared is not None)
    if shared is not None:
        contexts = draw_anchors(contexts, shared, drawing.sampling)
    by_people = read_human_rungs(human) if human is not None else None
    session = spending.Spending(money)

    judge_asked = judge.name, judge.options
    asked = writer, console.backend_options(writer, writer_option, "--writer-option"), "--writer-option"
    how: dict[str, Any] = {
        "rungs": rungs,
        "sampling": drawing.sampling,
        "attempts": attempts,
        "prompts": prompts,
        "human": by_people,
    }

    def rehearse() -> None:
        with copied(None if restart else out) as copy:
            journal = None if copy is None else copy / JOURNAL
            unanswered, about = session.open(*asked), contexts
            if shared is not None:
                named = None if copy is None else copy / SUBJECTS
                naming: dict[str, Any] = {"attempts": attempts, "prompts": prompts, "journal": named}
                about, _ = name_subjects(unanswered, contexts, sampling=drawing.sampling, **naming)
            ladders, _ = build_ladders(unanswered, about, dimensions, journal=journal, **how)
        if certify and ladders:
            anchors = [] if shared is None else [each.id for each in about]
            opened = ladder_set(str(out), dimensions, about, ladders, anchors=anchors)
            certifier = session.open(*judge_asked)
            asking = Asking(judgments=out / JUDGMENTS, prompts=prompts, restart=restart)
            open_asker(opened, certifier, asking).ask(set_questions(opened))

    if not session.continues(rehearse, as_json=as_json):
        return 0
    context.with_resource(locked_folder(out))  # before a model is loaded or a server is asked
    backend = session.open(*asked)
    mender = None
    if certify:
        mender = Mender(
            writer=backend,
            judge=session.open(*judge_asked),
            contexts=contexts,
            dimensions=dimensions,
            folder=out,
            sampling=drawing.sampling,
            attempts=attempts,
            prompts=prompts,
            human=by_people,
            restart=restart,
        )
    with session.progress("building" if certify else "writing") as progress:
        report = build(
            backend,
            contexts,
            dimensions,
            out,
            restart=restart,
            config=console.resolved(context),
            progress=progress,
            mender=None if mender is None else replace(mender, progress=progress),
            shared=shared is not None,
            **how,
        )
    return _tell(report, out, rungs, session.spent(), as_json=as_json)


def _tell(report: BuildReport, out: Path, rungs: int, spent: Sequence[Mapping[str, Any]], *, as_json: bool) -> int:
    """Print what was built; returns the exit code."""
    from refladder.report.certificate_tables import certificate_lines
    from refladder.trust.certificate import REFUSE

    certificate, failed = report.certificate, len(report.failures)
    if as_json:
        counts: dict[str, Any] = {"folder": str(out), "ladders": report.ladders, "failed": failed}
        counts |= {"anchors": list(report.anchors)} if report.anchors else {}
        if certificate is not None:
            counts |= {key: certificate[key] for key in ("verdict", "digest", "built")}
        console.say_json({**counts, "spent": spent})
    else:
        left = rungs if certificate is None else certificate["counts"]["rungs"]
        of = f" ({len(report.anchors)} shared anchors)" if report.anchors else ""
        console.notify(
            f"{report.ladders:,} ladders of {left} rungs{of} in {out}, {failed:,} rungs failed", warns=failed > 0
        )
        if certificate is not None:
            console.say_lines(certificate_lines(certificate))
        for failure in report.failures[:10]:
            place = f"{failure.context_id} {failure.dimension} rung {failure.level}"
            console.say(f"  {place}: {failure.reasons[-1]}", err=True)
        console.tell_spent(spent)
    refused = certificate is not None and certificate["verdict"] == REFUSE
    return console.UNSCORED if failed or refused else 0


@checked
def build(
    data: Any,  # noqa: ANN401  a Benchmark, a name or a table of any package
    *,
    out: str | Path | None = None,
    task: str | None = None,
    task_file: str | Path | None = None,
    dimensions: Sequence[str | Dimension] = (),
    columns: Mapping[str, str] | None = None,
    source: str | Path | None = None,
    options: Mapping[str, object] | None = None,
    writer: str | Backend = "builtin",
    writer_options: Mapping[str, object] | None = None,
    rungs: int = 5,
    attempts: int = 3,
    sampling: Sampling | None = None,
    human: str | Path | None = None,
    shared: int | None = None,
    prompts: str | Path | None = None,
    restart: bool = False,
    store: str | Path | bool | None = None,
) -> LadderSet:
    """Generate a ladder for every context and dimension, as `refladder build`.

    Args:
        data: a table (a path, a list of dicts, a pandas or polars DataFrame, a pyarrow Table or a Dataset) with a
            column `context`; a name of a benchmark; or a `Benchmark`.
        out: folder for the ladder set. An interrupted call continues there when it is made again. None keeps the set in
            memory.
        task: for a table, the task, such as `summarization`; `dimensions` then describes the dimensions.
        task_file: for a table, a TOML file with the task and its dimensions, instead of `task`.
        dimensions: `Dimension` objects with `task`; otherwise names of those to use, empty for all.
        columns: for a table, field (context, context_id, background) to the name of its column.
        source: for a benchmark by name, its file or folder; None downloads it.
        options: for a benchmark by name, its options, such as `{"human": True}`.
        writer: a backend by name (`builtin`, `hf:ORG/MODEL`, `openai:MODEL`), or an open one.
        writer_options: options of a named writer.
        rungs: number of rungs of a ladder, 2 or more.
        attempts: maximum number of attempts to generate a rung.
        sampling: how texts are drawn; None for the default of the command line.
        human: table of human-written rungs with the columns context_id, dimension, level and text.
        shared: build one scale for all rows: the ladders of this many contexts (anchors), drawn with the seed of
            `sampling` from the table, with which every text is compared, whatever its context.
        prompts: folder of templates that replace the shipped ones.
        restart: discard the progress of an earlier call.
        store: response store; None for the default of the command line, False for none.

    Returns:
        The ladder set. Rungs that could not be written are in its `failures`; a warning of the logger `refladder`
        counts them.

    Raises:
        UsageError, UnknownNameError, PromptError: an argument is wrong; the writer was not asked.
        DataError: the data are wrong, with path:line or the number of the row; or the folder cannot be written.
        BackendError: the writer failed; the texts so far are stored, if `out` is given.
    """
    from refladder.files.ladder_sets import load_ladders
    from refladder.files.locks import locked_folder
    from refladder.jobs.build import build as built
    from refladder.jobs.build import draw_anchors, read_human_rungs
    from refladder.report.progress import progress

    with Call(build, locals(), table="", without=("data",)) as call:
        folder_of_prompts = None if prompts is None else Path(prompts)
        console.check_prompts(folder_of_prompts)
        contexts, chosen = Data(data, task, task_file, tuple(dimensions), columns, source, options).contexts(
            shared=shared is not None
        )
        if shared is not None:
            contexts = draw_anchors(contexts, shared, sampling or Sampling())
        by_people = read_human_rungs(str(human)) if human is not None else None
        folder = call.folder() / "ladders" if out is None else Path(out)
        call.enter_context(locked_folder(folder))  # before a model is loaded or a server is asked
        session = call.enter_context(Session(store))
        backend = session.open(writer, writer_options)
        with progress("writing", session.under_way) as bar:
            report = built(
                backend,
                contexts,
                chosen,
                folder,
                rungs=rungs,
                sampling=sampling or Sampling(),
                attempts=attempts,
                prompts=folder_of_prompts,
                human=by_people,
                restart=restart,
                config=call.config(),
                progress=bar,
                shared=shared is not None,
            )
        if report.failures:
            LOG.warning("%d ladders, %d rungs failed", report.ladders, len(report.failures))
        for failure in report.failures[:10]:
            rung = f"{failure.context_id} {failure.dimension} rung {failure.level}"
            LOG.warning("  %s: %s", rung, failure.reasons[-1])
        return load_ladders(folder)
