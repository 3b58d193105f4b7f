"""refladder build: the command and the call."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from refladder.commands import console, spending
from refladder.commands.calling import LOG, Call, Log, checked
from refladder.commands.data import Data, DataOptions
from refladder.commands.options import (
    JudgeOptions,
    backend_options,
    given_arguments,
    given_options,
    pairs,
    subcommand,
)
from refladder.errors import UsageError, option, plural
from refladder.files.jsonl import read_bytes
from refladder.files.ladder_sets import LadderSet, load_ladders
from refladder.options import OF_BACKENDS, OF_COST, OF_DATA, OF_GENERATION, like
from refladder.parsing import parse_json
from refladder.records import Sampling
from refladder.session import Session
from refladder.settings import BuildSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from refladder.backends import Backend
    from refladder.backends.plain_function import Judge
    from refladder.jobs.build import BuildReport
    from refladder.records import Dimension, LadderFailure


STOCK = "writer builtin: its sentences are stock and know nothing of your table; its ladders only try commands out"


def _alone(given: Iterable[str]) -> None:
    """Check that nothing is given beside `--add` that the set decides."""
    for name in given:
        raise UsageError(
            f"{option('add')} takes task, criteria, rungs and sampling from the set; leave out {name}"
        )


def _to_add(
    spec: BuildSpec, table: Any, columns: Mapping[str, str] | None
) -> tuple[Data, BuildSpec]:
    """Return the data of a table for the set in the folder, and settings with those of the set."""
    from refladder.jobs.build import open_to_add

    ladders = open_to_add(spec.folder)
    data = Data(table, ladders.task, dimensions=ladders.dimensions, columns=columns)
    drawn = (each.recipe.sampling for each in ladders.ladders.values())
    sampling = next(filter(None, drawn), Sampling())
    return data, replace(spec, adds=ladders, rungs=ladders.rungs, sampling=sampling)


def _with_contexts(
    spec: BuildSpec, data: Data, shared: int | None, human: str | Path | None
) -> BuildSpec:
    """Return settings with the contexts of data, the anchors among them, and the rungs that people wrote."""
    from refladder.jobs.build import draw_anchors, read_human_rungs

    contexts, dimensions = data.contexts(shared=shared is not None)
    return replace(
        spec,
        contexts=contexts if shared is None else draw_anchors(contexts, shared, spec.sampling),
        dimensions=dimensions,
        human=None if human is None else read_human_rungs(str(human)),
        shared=shared is not None,
    )


def _writer(
    spec: BuildSpec, named: str | Backend | None, tell: Callable[[str], object], *, own: bool
) -> str | Backend:
    """Return the writer; only a benchmark gets the built-in one without being named, and `tell` says what it is."""
    from refladder.jobs.build import needs_writer

    needed = own and needs_writer(spec)
    if needed and named is None:
        raise UsageError(
            f"no writer is named for the ladders of your table. Name a model with {option('writer')} MODEL; give "
            f"every rung as a text with {option('human')} TABLE; or build nothing, and score with a general set, "
            "such as `refladder score TABLE --ladders general/reply`"
        )
    if needed and named == "builtin":
        tell(STOCK)
    return named or "builtin"


def _writer_of(folder: Path) -> tuple[str | None, dict[str, str]]:
    """Return the name and the options of the writer of a set, as its run.json has them."""
    path = folder / "run.json"
    config = parse_json(read_bytes(path), str(path), whole_file=True) if path.is_file() else None
    options = config.get("options") if isinstance(config, dict) else None
    if not isinstance(options, dict) or not isinstance(options.get("writer"), str):
        return None, {}
    given = options.get("writer_option") or options.get("writer_options") or {}
    return options["writer"], given if isinstance(given, dict) else pairs(
        tuple(given), "--writer-option"
    )


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
    judge=JudgeOptions,
    money=spending.SpendingOptions,
)
def command(
    *,
    data: DataOptions,
    sampling: Sampling,
    money: spending.SpendingOptions,
    add: str | None,
    out: Path,
    writer: str | None,
    writer_option: Mapping[str, str],
    rungs: int,
    attempts: int,
    human: str | None,
    shared: int | None,
    certify: bool,
    judge: JudgeOptions,
    prompts: Path | None,
    as_json: bool,
) -> int:
    """Generate a ladder for every context and dimension of BENCHMARK (a name, or your own table).

    Run the same command again to resume an interrupted build. Exit code 3: some ladders failed (the reasons are in
    failures.jsonl), or the certificate is refused. The estimates of --dry-run and --budget do not include rungs that
    --certify generates again.

    Examples:
        refladder build questions.csv --task-file task.toml --writer hf:ORG/MODEL --out my-ladders
        refladder build summeval --writer openai:MODEL --prices prices.toml --budget 5 --out ladders
        refladder build --add new-questions.csv --out my-ladders
    """
    from refladder.jobs.build import new_contexts, rehearse, run

    console.check_prompts(prompts)
    spec = BuildSpec(
        folder=out,
        rungs=rungs,
        sampling=sampling,
        attempts=attempts,
        prompts=prompts,
        certify=certify,
        judge=judge.name,
        judge_options=judge.options,
    )
    if add is not None:
        _alone(each.flag for each in given_options() if each.of_new_set)
        table, spec = _to_add(spec, add, data.columns)
        if writer is None:
            writer, its = _writer_of(out)
            writer_option = writer_option or its
    elif data.benchmark is None:
        raise UsageError("name a benchmark or your table (BENCHMARK), or a table with --add")
    else:
        table = data.data()
    spec = _with_contexts(spec, table, shared, human)
    session = spending.Spending(money)
    writer = str(_writer(spec, writer, session.notify, own=table.is_table()))
    spec = replace(
        spec,
        writer=writer,
        writer_options=backend_options(writer, writer_option),
        config=console.resolved(writer=writer),
    )
    if new_contexts(spec) and not session.approves(partial(rehearse, spec), as_json=as_json):
        return 0
    report = run(spec, session, console.Console())
    tell = _tell if add is None else _tell_added
    return tell(report, spec, session.spent(), as_json=as_json)


def _place(failure: LadderFailure) -> str:
    return f"{failure.context_id} {failure.dimension} rung {failure.level}: {failure.reasons[-1]}"


def _added_lines(report: BuildReport, spec: BuildSpec) -> Iterator[str]:
    """Yield sentences on what was added to a set."""
    folder, before = spec.folder, 0 if spec.adds is None else len(spec.adds.ladders)
    if report.known:
        yield f"{plural(report.known, 'context')} of the table {'has' if report.known == 1 else 'have'} ladders already"
    yield (
        f"{plural(report.ladders, 'ladder')} of {spec.rungs} rungs added to {folder}, which has "
        f"{before + report.ladders:,} now, {plural(len(report.failures), 'rung')} failed"
    )
    if report.uncertified:
        yield (
            f"The certificate of {folder} was of the earlier ladders and is removed; `refladder certify {folder}` "
            "makes a new one"
        )


def _tell_added(
    report: BuildReport, spec: BuildSpec, spent: Sequence[Mapping[str, Any]], *, as_json: bool
) -> int:
    """Print what was added; returns the exit code."""
    if as_json:
        counts = {
            "folder": str(spec.folder),
            "added": report.ladders,
            "known": report.known,
            "failed": len(report.failures),
        }
        console.say_json({**counts, "uncertified": report.uncertified, "spent": spent})
    else:
        for line in _added_lines(report, spec):
            console.notify(line, warns=bool(report.failures or report.uncertified))
        for failure in report.failures[:10]:
            console.say(f"  {_place(failure)}", err=True)
        console.tell_spent(spent)
    return console.UNSCORED if report.failures else 0


def _tell(
    report: BuildReport, spec: BuildSpec, spent: Sequence[Mapping[str, Any]], *, as_json: bool
) -> int:
    """Print what was built; returns the exit code."""
    from refladder.report.certificate_tables import certificate_lines
    from refladder.trust.certificate import REFUSE

    certificate, failed = report.certificate, len(report.failures)
    if as_json:
        counts: dict[str, Any] = {
            "folder": str(spec.folder),
            "ladders": report.ladders,
            "failed": failed,
        }
        counts |= {"anchors": list(report.anchors)} if report.anchors else {}
        if certificate is not None:
            counts |= {key: certificate[key] for key in ("verdict", "digest", "built")}
        console.say_json({**counts, "spent": spent})
    else:
        left = spec.rungs if certificate is None else certificate["counts"]["rungs"]
        of = f" ({plural(len(report.anchors), 'shared anchor')})" if report.anchors else ""
        built = f"{plural(report.ladders, 'ladder')} of {left} rungs{of} in {spec.folder}, {plural(failed, 'rung')} failed"
        console.notify(built, warns=failed > 0)
        if certificate is not None:
            console.say_lines(certificate_lines(certificate))
        for failure in report.failures[:10]:
            console.say(f"  {_place(failure)}", err=True)
        console.tell_spent(spent)
    refused = certificate is not None and certificate["verdict"] == REFUSE
    return console.UNSCORED if failed or refused else 0


@checked(command)
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
    from refladder.jobs.build import run

    with Call(build, locals(), table="", without=("data",)) as call:
        spec = BuildSpec(
            folder=call.folder() / "ladders" if out is None else Path(out),
            rungs=rungs,
            sampling=sampling or Sampling(),
            attempts=attempts,
            prompts=None if prompts is None else Path(prompts),
            certify=certify,
            judge=judge,
            judge_options=judge_options,
        )
        console.check_prompts(spec.prompts)
        if add is not None:
            values = given_arguments(command, {"data": data, **call.given})
            # `task` and `sampling` are no options.
            _alone(name for name, each in values if each is None or each.of_new_set)
            if out is None:
                raise UsageError(
                    "add is a table whose ladders go into a set; name the set with out"
                )
            table, spec = _to_add(spec, add, columns)
            if writer is None:
                writer, its = _writer_of(spec.folder)
                writer_options = writer_options or its
        elif data is None:
            raise UsageError("data is missing; give a table or a benchmark, or a table with add")
        else:
            table = Data(data, task, task_file, tuple(dimensions), columns, source, options)
        spec = _with_contexts(spec, table, shared, human)
        session = call.enter_context(Session(store))
        writer = call.given["writer"] = _writer(spec, writer, session.notify, own=table.is_table())
        spec = replace(spec, writer=writer, writer_options=writer_options, config=call.config())
        report = run(spec, session, Log())
        if report.uncertified:
            LOG.warning("%s", list(_added_lines(report, spec))[-1])
        if report.failures:
            LOG.warning("%d ladders, %d rungs failed", report.ladders, len(report.failures))
        for failure in report.failures[:10]:
            LOG.warning("  %s", _place(failure))
        return load_ladders(spec.folder)
