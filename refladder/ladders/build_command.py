"""refladder build: the command and the call."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from refladder.backends.metered import spent_json
from refladder.cli import console, spending
from refladder.cli.calling import Call
from refladder.cli.data import DataOptions
from refladder.cli.options import (
    backend_options,
    given_arguments,
    given_options,
    subcommand,
)
from refladder.display.log import LOG, Log
from refladder.errors import ExitCode
from refladder.files.ladder_sets import LadderSet, load_ladders
from refladder.loaders.data import data_of
from refladder.options import OF_BACKENDS, OF_COST, OF_DATA, OF_GENERATION, like
from refladder.records import Sampling

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from refladder.backends import Backend
    from refladder.backends.plain_function import Judge
    from refladder.ladders.build import BuildReport
    from refladder.records import Dimension
    from refladder.settings import BuildSpec, Given


@subcommand(
    "Generate ladders for a benchmark or a table.",
    "benchmark",
    "benchmark_source",
    *OF_DATA,
    "add",
    like("out_folder", help="Output folder for the ladder set.", required=True),
    "writer",
    "writer_option",
    *OF_BACKENDS,
    "rungs",
    "attempts",
    *OF_GENERATION,
    "human",
    "certify",
    "shared",
    like("judge", help="Judge model of --certify (see `refladder list backends`)."),
    "judge_option",
    *OF_COST,
    "prompts",
    "as_json",
    data=DataOptions,
    sampling=Sampling,
    money=spending.SpendingOptions,
    given=dict,
)
def command(
    *,
    data: DataOptions,
    money: spending.SpendingOptions,
    given: Given,
    out: Path,
    as_json: bool,
) -> ExitCode:
    """Generate a ladder for every context and dimension of BENCHMARK (a name, or your own table).

    Run the same command again to resume an interrupted build. Exit code 3: some ladders failed (the reasons are in
    failures.jsonl), or the certificate is refused. The estimates of --dry-run and --budget do not include rungs that
    --certify generates again.

    Examples:
        refladder build questions.csv --task-file task.toml --writer hf:ORG/MODEL --out my-ladders
        refladder build summeval --writer openai:MODEL --prices prices.toml --budget 5 --out ladders
        refladder build --add new-questions.csv --out my-ladders
    """
    from refladder.ladders.build import new_contexts, rehearse, run, spec_of

    table = None if given["add"] is not None or data.benchmark is None else data.data()
    session = spending.Spending(money)
    spec = spec_of(given, given_options(), table, out, session.events)
    writer_options = backend_options(str(spec.writer), spec.writer_options)
    config = console.resolved(writer=spec.writer)
    spec = replace(spec, writer_options=writer_options, config=config)
    if new_contexts(spec) and not session.approves(partial(rehearse, spec), as_json=as_json):
        return ExitCode.DONE
    report = run(spec, session, console.Console())
    if as_json:
        console.say_json({**report.summary(spec), "spent": spent_json(session.spent())})
    else:
        _print(report, spec)
        console.tell_spent(session.spent())
    return ExitCode.of(complete=report.complete)


def _print(report: BuildReport, spec: BuildSpec) -> None:
    """Print what was written, the certificate, and the first failed rungs."""
    from refladder.ladders.certificate_tables import certificate_lines

    for line in report.lines(spec):
        console.notify(line, warns=bool(report.failures or report.uncertified))
    if report.certificate is not None:
        console.say_lines(certificate_lines(report.certificate))
    console.say_lines(f"  {place}" for place in report.places())


@command.call
def build(
    data: Any = None,
    *,
    add: Any = None,
    out: str | Path | None = None,
    task: str | None = None,
    task_file: str | Path | None = None,
    dimensions: Sequence[str | Dimension] = (),
    columns: Mapping[str, str] | None = None,
    source: str | Path | None = None,
    options: Mapping[str, object] | None = None,
    writer: str | Backend | None = None,
    writer_options: Mapping[str, object] | None = None,
    rungs: int = 5,
    attempts: int = 3,
    sampling: Sampling | None = None,
    human: str | Path | None = None,
    shared: int | None = None,
    certify: bool = False,
    judge: str | Backend | Judge = "builtin",
    judge_options: Mapping[str, object] | None = None,
    prompts: str | Path | None = None,
    store: str | Path | bool | None = None,
) -> LadderSet:
    """Generate a ladder for every context and dimension, or add ladders to a set, as `refladder build`.

    Args:
        data: a table (a path, a list of dicts, a pandas or polars DataFrame, a pyarrow Table or a Dataset) with a
            column `context`; a name of a benchmark; or a `Benchmark`.
        add: instead of `data`, a table whose new contexts get ladders in the set in `out`. Task, dimensions, rungs and
            sampling are those of the set, and so is the writer. The ladders of the set stay as they are.
        out: folder for the ladder set. An interrupted call continues there when it is made again. None keeps the set in
            memory.
        task: for a table, the task, such as `summarization`; `dimensions` then describes the dimensions.
        task_file: for a table, a TOML file with the task and its dimensions, instead of `task`.
        dimensions: `Dimension` objects with `task`; otherwise names of those to use, empty for all.
        columns: for a table, field (context, context_id, background) to the name of its column.
        source: for a benchmark by name, its file or folder; None downloads it.
        options: for a benchmark by name, its options, such as `{"human": True}`.
        writer: a backend by name (`builtin`, `hf:ORG/MODEL`, `openai:MODEL`), or an open one. None is builtin for a
            benchmark; a table needs a writer, unless `human` has every rung.
        writer_options: options of a named writer.
        rungs: number of rungs of a ladder, 2 or more.
        attempts: maximum number of attempts to generate a rung.
        sampling: how texts are drawn; None for `Sampling()`, which is the default of the command line.
        human: table of human-written rungs with the columns context_id, dimension, level and text.
        shared: build one scale for all rows: the ladders of this many contexts (anchors), drawn with the seed of
            `sampling` from the table, with which every text is compared, whatever its context.
        certify: judge the rungs against each other. Rungs out of order are generated again, in at most 2 rounds; then
            their level is dropped, or their ladder fails.
        judge: the judge of `certify`: a backend by name, an open one, or a function.
        judge_options: options of a named judge.
        prompts: folder of templates that replace the shipped ones.
        store: response store; None for the default of the command line, False for none.

    Returns:
        The ladder set. Rungs that could not be written are in its `failures`; a warning of the logger `refladder`
        counts them.

    Raises:
        UsageError, UnknownNameError, PromptError: an argument is wrong, and the writer was not asked.
        DataError: the data are wrong, with path:line or the number of the row; or the folder cannot be written.
        BackendError: the writer failed; the texts so far are stored, if `out` is given.
    """
    from refladder.ladders.build import run, spec_of

    with Call(build, locals(), table="", without=("data",)) as call:
        named = given_arguments(command, {"data": data, **call.given})
        table = None if data is None else data_of(call.given, [data])[0]
        folder = call.folder() / "ladders" if out is None else Path(out)
        spec = spec_of(call.given, named, table, folder, Log())
        call.given["writer"] = spec.writer
        spec = replace(spec, config=call.config())
        report = run(spec, call.session(), Log())
        if report.uncertified:
            LOG.warning("%s", report.lines(spec)[-1])
        if report.failures:
            LOG.warning("%d ladders, %d rungs failed", report.ladders, len(report.failures))
        for place in report.places():
            LOG.warning("  %s", place)
        return load_ladders(spec.folder)
