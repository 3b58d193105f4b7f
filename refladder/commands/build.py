"""refladder build: the command and the call."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from refladder.commands import console, spending
from refladder.commands.calling import LOG, Call, checked
from refladder.commands.data import Data, DataOptions
from refladder.commands.options import (
    Command,
    JudgeOptions,
    backend_options,
    given_options,
    options,
    options_of,
    pairs,
)
from refladder.errors import UsageError, option, plural
from refladder.files.jsonl import read_bytes
from refladder.files.ladder_sets import LadderSet, ladder_set, load_ladders
from refladder.files.locks import locked_folder
from refladder.options import OF_BACKENDS, OF_COST, OF_DATA, OF_GENERATION, like
from refladder.parsing import parse_json
from refladder.records import DOCUMENT, Sampling
from refladder.session import Session
from refladder.settings import Asking

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from refladder.backends import Backend
    from refladder.backends.plain_function import Judge
    from refladder.jobs.build import BuildReport
    from refladder.records import Context, Dimension, LadderFailure


STOCK = "writer builtin: its sentences are stock and know nothing of your table; its ladders only try commands out"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """The ladders to write; `own` says that they are for a table of the user's, `adds` is the set that gets them."""

    contexts: Sequence[Context]
    dimensions: Sequence[Dimension]
    rungs: int
    human: Mapping[tuple[str, str], Mapping[int, str]] | None
    shared: bool
    own: bool
    adds: LadderSet | None = None
    known: int = 0  # contexts of the table that have ladders in that set

    @classmethod
    def of_data(
        cls,
        data: Data,
        *,
        rungs: int,
        human: str | Path | None,
        shared: int | None,
        sampling: Sampling,
    ) -> _Wanted:
        """Ladders of the contexts of data."""
        from refladder.jobs.build import draw_anchors, read_human_rungs

        contexts, dimensions = data.contexts(shared=shared is not None)
        return cls(
            contexts=contexts if shared is None else draw_anchors(contexts, shared, sampling),
            dimensions=dimensions,
            rungs=rungs,
            human=None if human is None else read_human_rungs(str(human)),
            shared=shared is not None,
            own=data.is_table(),
        )

    @property
    def sampling(self) -> Sampling:
        """How the texts of the set are drawn that gets more ladders."""
        ladders = () if self.adds is None else self.adds.ladders.values()
        return next((each.recipe.sampling for each in ladders if each.recipe.sampling), Sampling())

    def writer(self, named: str | Backend | None, tell: Callable[[str], object]) -> str | Backend:
        """Return the writer; only a benchmark gets the built-in one without being named, and `tell` says what it is."""
        texts = sum(map(len, (self.human or {}).values()))
        unnamed = self.shared and any(
            each.task == DOCUMENT and not each.text for each in self.contexts
        )
        written = unnamed or texts < len(self.contexts) * len(self.dimensions) * self.rungs
        if self.own and written and named is None:
            raise UsageError(
                f"no writer is named for the ladders of your table. Name a model with {option('writer')} MODEL; give "
                f"every rung as a text with {option('human')} TABLE; or build nothing, and score with a general set, "
                "such as `refladder score TABLE --ladders general/reply`"
            )
        if self.own and written and named == "builtin":
            tell(STOCK)
        return named or "builtin"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Build:
    """A build of the command or the call; `writer` and `judge` are arguments of `Session.open`, `how` is for texts."""

    wanted: _Wanted
    session: Session
    writer: tuple[Any, ...]
    judge: tuple[Any, ...]
    certify: bool
    folder: Path
    how: Mapping[str, Any]

    def rehearse(self) -> None:
        """Ask for the same texts and judgments, with nobody answering."""
        from refladder.jobs.build import add_journal, check_recipe
        from refladder.jobs.certify import JUDGMENTS, open_asker, set_questions
        from refladder.session import copied
        from refladder.synth import build_ladders, name_subjects
        from refladder.synth.journal import JOURNAL, SUBJECTS

        wanted, writer = self.wanted, self.session.open(*self.writer)
        about, name = wanted.contexts, JOURNAL
        if wanted.adds is not None:
            check_recipe(wanted.adds, writer, self.how["prompts"])
            name = add_journal(wanted.adds)
        with copied(self.folder) as copy:
            journal, subjects = (None if copy is None else copy / each for each in (name, SUBJECTS))
            if wanted.shared:
                about, _ = name_subjects(writer, about, journal=subjects, **self.how)
            of: dict[str, Any] = {"rungs": wanted.rungs, "human": wanted.human, **self.how}
            ladders, _ = build_ladders(writer, about, wanted.dimensions, journal=journal, **of)
        if self.certify and ladders:
            anchors = [each.id for each in about] if wanted.shared else []
            opened = ladder_set(
                str(self.folder), wanted.dimensions, about, ladders, anchors=anchors
            )
            asking = Asking(judgments=self.folder / JUDGMENTS, prompts=self.how["prompts"])
            open_asker(opened, self.session.open(*self.judge), asking).ask(set_questions(opened))

    def run(self, what: str, config: Mapping[str, Any]) -> BuildReport:
        """Write the ladders, with a progress bar named by `what`."""
        from refladder.jobs.build import add
        from refladder.jobs.build import build as built
        from refladder.jobs.mend import Mender

        wanted, writer = self.wanted, self.session.open(*self.writer)
        if wanted.adds is not None:
            with console.progress(what, self.session.under_way) as progress:
                of = {"human": wanted.human, "progress": progress, **self.how}
                return add(writer, wanted.contexts, wanted.adds, self.folder, **of)
        judge = self.session.open(*self.judge) if self.certify else None
        of = {"contexts": wanted.contexts, "dimensions": wanted.dimensions, "folder": self.folder}
        with console.progress(what, self.session.under_way) as progress:
            of |= {"progress": progress, **self.how}
            return built(
                writer,
                rungs=wanted.rungs,
                human=wanted.human,
                config=config,
                mender=None
                if judge is None
                else Mender(writer=writer, judge=judge, human=wanted.human, **of),
                shared=wanted.shared,
                **of,
            )


def _alone(given: Iterable[str]) -> None:
    """Check that nothing is given beside `--add` that the set decides."""
    for name in given:
        raise UsageError(
            f"{option('add')} takes task, criteria, rungs and sampling from the set; leave out {name}"
        )


def _to_add(
    table: Any, columns: Mapping[str, str] | None, folder: Path, human: str | Path | None
) -> _Wanted:
    """Return the ladders for the contexts of a table that have none in the set in a folder."""
    from refladder.jobs.build import open_to_add, read_human_rungs, without_ladders

    ladders = open_to_add(folder)
    data = Data(table, ladders.task, dimensions=ladders.dimensions, columns=columns)
    contexts, dimensions = data.contexts()
    new = without_ladders(ladders, contexts)
    return _Wanted(
        contexts=new,
        dimensions=dimensions,
        rungs=ladders.rungs,
        human=None if human is None else read_human_rungs(str(human)),
        shared=False,
        own=True,
        adds=ladders,
        known=len(contexts) - len(new),
    )


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


@click.command(cls=Command, short_help="Generate ladders for a benchmark or a table.")
@options(
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
@click.pass_context
def command(
    context: click.Context,
    /,
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
    console.check_prompts(prompts)
    if add is not None:
        _alone(each.flag for each in given_options(context) if each.of_new_set)
        wanted = _to_add(add, data.columns, out, human)
        sampling = wanted.sampling
        if writer is None:
            writer, its = _writer_of(out)
            writer_option = writer_option or its
    elif data.benchmark is None:
        raise UsageError("name a benchmark or your table (BENCHMARK), or a table with --add")
    else:
        wanted = _Wanted.of_data(
            data.data(), rungs=rungs, human=human, shared=shared, sampling=sampling
        )
    if wanted.adds is not None and not wanted.contexts:
        from refladder.jobs.build import BuildReport

        report = BuildReport(ladders=0, failures=())
        return _tell_added(report, wanted, out, [], as_json=as_json)
    session = spending.Spending(money)
    writer = context.params["writer"] = str(wanted.writer(writer, session.notify))
    run = _Build(
        wanted=wanted,
        session=session,
        writer=(
            writer,
            backend_options(writer, writer_option),
            "--writer-option",
        ),
        judge=(judge.name, judge.options),
        certify=certify,
        folder=out,
        how={"sampling": sampling, "attempts": attempts, "prompts": prompts},
    )
    if not session.continues(run.rehearse, as_json=as_json):
        return 0
    context.with_resource(locked_folder(out))  # before a model is loaded or a server is asked
    report = run.run("building" if certify else "writing", console.resolved(context))
    if wanted.adds is not None:
        return _tell_added(report, wanted, out, session.spent(), as_json=as_json)
    return _tell(report, wanted, out, session.spent(), as_json=as_json)


def _place(failure: LadderFailure) -> str:
    return f"{failure.context_id} {failure.dimension} rung {failure.level}: {failure.reasons[-1]}"


def _added_lines(report: BuildReport, wanted: _Wanted, folder: Path) -> Iterator[str]:
    """What was added to a set, in sentences."""
    before = 0 if wanted.adds is None else len(wanted.adds.ladders)
    if wanted.known:
        yield f"{plural(wanted.known, 'context')} of the table {'has' if wanted.known == 1 else 'have'} ladders already"
    yield (
        f"{plural(report.ladders, 'ladder')} of {wanted.rungs} rungs added to {folder}, which has "
        f"{before + report.ladders:,} now, {plural(len(report.failures), 'rung')} failed"
    )
    if report.uncertified:
        yield (
            f"The certificate of {folder} was of the earlier ladders and is removed; `refladder certify {folder}` "
            "makes a new one"
        )


def _tell_added(
    report: BuildReport,
    wanted: _Wanted,
    out: Path,
    spent: Sequence[Mapping[str, Any]],
    *,
    as_json: bool,
) -> int:
    """Print what was added; returns the exit code."""
    if as_json:
        counts = {
            "folder": str(out),
            "added": report.ladders,
            "known": wanted.known,
            "failed": len(report.failures),
        }
        console.say_json({**counts, "uncertified": report.uncertified, "spent": spent})
    else:
        for line in _added_lines(report, wanted, out):
            console.notify(line, warns=bool(report.failures or report.uncertified))
        for failure in report.failures[:10]:
            console.say(f"  {_place(failure)}", err=True)
        console.tell_spent(spent)
    return console.UNSCORED if report.failures else 0


def _tell(
    report: BuildReport,
    wanted: _Wanted,
    out: Path,
    spent: Sequence[Mapping[str, Any]],
    *,
    as_json: bool,
) -> int:
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
        left = wanted.rungs if certificate is None else certificate["counts"]["rungs"]
        of = f" ({plural(len(report.anchors), 'shared anchor')})" if report.anchors else ""
        built = f"{plural(report.ladders, 'ladder')} of {left} rungs{of} in {out}, {plural(failed, 'rung')} failed"
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
    with Call(build, locals(), table="", without=("data",)) as call:
        folder_of_prompts = None if prompts is None else Path(prompts)
        console.check_prompts(folder_of_prompts)
        sampling = sampling or Sampling()
        if add is not None:
            parameters = inspect.signature(build).parameters
            of_set = {each.parameter for each in options_of(command) if each.of_new_set}
            given = {**call.given, "data": data}
            _alone(
                name
                for name in parameters
                if name in {*of_set, "task", "sampling"} and given[name] != parameters[name].default
            )
            if out is None:
                raise UsageError(
                    "add is a table whose ladders go into a set; name the set with out"
                )
            wanted = _to_add(add, columns, Path(out), human)
            sampling = wanted.sampling
            if not wanted.contexts:
                return load_ladders(Path(out))
            if writer is None:
                writer, its = _writer_of(Path(out))
                writer_options = writer_options or its
        elif data is None:
            raise UsageError("data is missing; give a table or a benchmark, or a table with add")
        else:
            table = Data(data, task, task_file, tuple(dimensions), columns, source, options)
            wanted = _Wanted.of_data(
                table, rungs=rungs, human=human, shared=shared, sampling=sampling
            )
        session = call.enter_context(Session(store))
        writer = call.given["writer"] = wanted.writer(writer, session.notify)
        folder = call.folder() / "ladders" if out is None else Path(out)
        call.enter_context(locked_folder(folder))  # before a model is loaded or a server is asked
        run = _Build(
            wanted=wanted,
            session=session,
            writer=(writer, writer_options),
            judge=(judge, judge_options),
            certify=certify,
            folder=folder,
            how={"sampling": sampling, "attempts": attempts, "prompts": folder_of_prompts},
        )
        report = run.run("writing", call.config())
        if report.uncertified:
            LOG.warning("%s", list(_added_lines(report, wanted, folder))[-1])
        if report.failures:
            LOG.warning("%d ladders, %d rungs failed", report.ladders, len(report.failures))
        for failure in report.failures[:10]:
            LOG.warning("  %s", _place(failure))
        return load_ladders(folder)
