"""build, evaluate and compete as calls on any table; the same jobs, defaults and results as the commands."""

from __future__ import annotations

import logging
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from refladder.api.frames import Frame, checked, in_words_of_python, written
from refladder.api.judges import Backends, open_recorded, resolved
from refladder.errors import DataError, UsageError
from refladder.files.jsonl import write_json
from refladder.files.ladder_sets import LadderSet, choose_dimensions, load_ladders, published_names
from refladder.files.locks import locked_folder
from refladder.files.tables import EXTENSIONS
from refladder.jobs import build as building
from refladder.jobs import compete as competing
from refladder.jobs import evaluate as evaluating
from refladder.jobs.criteria import criteria_of
from refladder.jobs.recorded_judgments import check_recorded, default_method
from refladder.jobs.task_prompt import open_task_prompt, read_instances
from refladder.loaders import BENCHMARKS, load_benchmark
from refladder.loaders.own import load_contexts, read_own
from refladder.loaders.task_files import FIELDS, read_task
from refladder.methods.contract import LADDER, MethodSettings
from refladder.methods.score_files import read_scores
from refladder.prompts import check_folder
from refladder.records import Benchmark, Dimension, Sampling
from refladder.report.progress import progress
from refladder.report.summary import low_mass_lines

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from refladder.backends import Backend
    from refladder.backends.plain_function import Judge
    from refladder.files.tables import Rows
    from refladder.records import Context

_LOG = logging.getLogger("refladder")
_TASK = "give task_file=PATH, or task=NAME with dimensions=[refladder.Dimension(...)]"


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
    given = {name: value for name, value in locals().items() if name != "data"}
    with ExitStack() as stack:
        stack.enter_context(in_words_of_python(given))
        if prompts is not None:
            check_folder(Path(prompts))
        asked = _Data(data, task, task_file, tuple(dimensions), columns, source, options)
        contexts, chosen = asked.contexts()
        by_people = building.read_human_rungs(str(human)) if human is not None else None
        if out is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="refladder-"))) / "ladders"
        else:
            folder = Path(out)
        stack.enter_context(locked_folder(folder))  # before a model is loaded or a server is asked
        backends = stack.enter_context(Backends(store))
        backend = backends.open(writer, writer_options)
        with progress("writing", backends.under_way) as update:
            report = building.build(
                backend,
                contexts,
                chosen,
                folder,
                rungs=rungs,
                sampling=sampling or Sampling(),
                attempts=attempts,
                prompts=None if prompts is None else Path(prompts),
                human=by_people,
                restart=restart,
                config=resolved("build", given),
                progress=update,
            )
        if report.failures:
            _LOG.warning("%d ladders, %d rungs failed", report.ladders, len(report.failures))
        for failure in report.failures[:10]:
            rung = f"{failure.context_id} {failure.dimension} rung {failure.level}"
            _LOG.warning("  %s: %s", rung, failure.reasons[-1])
        return load_ladders(folder)


@checked
def evaluate(
    data: Any,  # noqa: ANN401  a Benchmark, a name or a table of any package
    *,
    ladders: str | Path | LadderSet | None = None,
    judge: str | Backend | Judge | None = None,
    judge_options: Mapping[str, object] | None = None,
    methods: str | Sequence[str] | None = None,
    task: str | None = None,
    task_file: str | Path | None = None,
    dimensions: Sequence[str | Dimension] = (),
    columns: Mapping[str, str] | None = None,
    source: str | Path | None = None,
    options: Mapping[str, object] | None = None,
    writer: str | Backend | None = None,
    writer_options: Mapping[str, object] | None = None,
    judgments_from: str | Path | None = None,
    scores: Sequence[str | Path] = (),
    settings: MethodSettings | None = None,
    protocol: evaluating.Protocol | None = None,
    work: str | Path | None = None,
    restart: bool = False,
    store: str | Path | bool | None = None,
) -> evaluating.Evaluation:
    """Score outputs with methods, and measure the agreement of the scores with human ratings, as `refladder evaluate`.

    Args:
        data: a name of a benchmark, a `Benchmark`, or a table (see `build`) with the columns `context`, `output` and
            one of ratings for each dimension.
        ladders: a shipped name, a folder, or a set from `load_ladders`; None generates ladders. For a table without
            `task`, the task and the dimensions are those of the ladders.
        judge: a backend by name (`builtin`, `hf:ORG/MODEL`, `openai:MODEL`), an open one, or a function; None for
            `builtin`.
        judge_options: options of a named judge.
        methods: names of the methods to run, as a list or joined by commas (see `refladder list methods`); None for
            `ladder`, or none where only `scores` are to be compared.
        task: for a table, see `build`.
        task_file: for a table, see `build`.
        dimensions: `Dimension` objects with `task`; otherwise names of those to evaluate, empty for all.
        columns: for a table, field or dimension to the name of its column.
        source: for a benchmark by name, its file or folder; None downloads it.
        options: for a benchmark by name, its options.
        writer: the backend that writes ladders; None for the judge.
        writer_options: options of a named writer.
        judgments_from: table of judgments that another program made, instead of a judge. No model is asked; a
            comparison that is not in the table is unparsed. `methods` None then means `ladder` or `win-ratio`, by what
            was compared.
        scores: files with the scores of other programs, each shown as a method.
        settings: how the methods score; `ladders`, `work` and `restart` here replace those there.
        protocol: levels, statistics and tests; None for the default of the command line.
        work: folder for ladders and judgments; an interrupted call continues there when it is made again.
        restart: discard what the folder holds.
        store: response store; None for the default of the command line, False for none.

    Returns:
        Agreement in `rows`, report cards, and what the methods cost.

    Raises:
        UsageError, UnknownNameError, PromptError: an argument is wrong; the judge was not asked.
        DataError: the data are wrong, with path:line or the number of the row.
        BackendError: the judge failed; its judgments so far are stored, if `work` is given.
    """
    given = {name: value for name, value in locals().items() if name != "data"}
    with ExitStack() as stack:
        stack.enter_context(in_words_of_python(given))
        if ladders is not None and writer is not None:
            raise UsageError("ladders are a set that exists, and writer writes new ones; give one of them")
        opened = load_ladders(ladders) if isinstance(ladders, str | Path) else ladders
        benchmark, chosen = _Data(data, task, task_file, tuple(dimensions), columns, source, options).rated(opened)
        others = [read_scores(str(path), benchmark, chosen) for path in scores]
        chosen_settings = settings or MethodSettings()
        recorded = None
        if judgments_from is not None:
            asking = {name: given[name] for name in ("judge", "judge_options", "writer", "writer_options")}
            recorded = open_recorded(judgments_from, {**asking, "settings.prompts": chosen_settings.prompts})
            recorded = recorded.on([dimension.name for dimension in chosen])
        if methods is None:
            methods = [LADDER] if not scores or any(each is not None for each in (judge, writer, ladders)) else []
            methods = methods if recorded is None else [default_method(recorded)]
        names = [name.strip() for name in methods.split(",")] if isinstance(methods, str) else list(methods)
        if chosen_settings.prompts is not None:
            check_folder(chosen_settings.prompts)
        backends = stack.enter_context(Backends(store))
        open_judge = partial(backends.open, judge or "builtin", judge_options)
        open_writer = chosen_settings.writer
        if writer is not None or writer_options:
            open_writer = partial(backends.open, writer or judge or "builtin", writer_options)
        chosen_settings = replace(
            chosen_settings,
            writer=open_writer,
            ladders=chosen_settings.ladders if opened is None else opened,
            work=chosen_settings.work if work is None else Path(work),
            restart=restart or chosen_settings.restart,
            progress=partial(progress, watch=backends.under_way),
        )
        if recorded is not None:
            check_recorded(recorded, benchmark, names, chosen_settings)
        evaluation = evaluating.evaluate(
            benchmark,
            judge=recorded or open_judge,
            dimensions=chosen,
            methods=names,
            others=others,
            settings=chosen_settings,
            protocol=protocol,
            config=resolved("evaluate", given),
        )
        for sentence in (*evaluation.limits, *evaluation.notes):
            _LOG.warning("%s", sentence)
        return evaluation


@checked
def compete(
    table: Any,  # noqa: ANN401  a path or a table of any package
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
    restart: bool = False,
    store: str | Path | bool | None = None,
) -> competing.Contest:
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
        sampling: how texts are drawn; None for the default of the command line.
        prompts: folder of templates that replace the shipped ones.
        restart: discard the texts and judgments in `out`.
        store: response store; None for the default of the command line, False for none.

    Returns:
        Texts, trials and standings. What could not be written is in its `failures`, and a warning of the logger
        `refladder` counts it.

    Raises:
        UsageError, UnknownNameError, PromptError: an argument is wrong; no model was asked.
        DataError: the table is wrong, or the folder cannot be written.
        BackendError: a model or the judge failed; the texts and judgments so far are stored, if `out` is given.
    """
    given = {name: value for name, value in locals().items() if name != "table"}
    with ExitStack() as stack:
        stack.enter_context(in_words_of_python(given))
        if prompts is not None:
            check_folder(Path(prompts))
        task = open_task_prompt(prompt, prompt_text)
        source = str(table)
        if not isinstance(table, str | Path):
            source = written(stack, table, {*task.names, id or "id"}, "the table")
        instances = read_instances(source, task, id_column=id)
        dimensions = criteria_of(criteria, worst or {}, best or {}, weights or {})
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="refladder-")) if out is None else out)
        stack.enter_context(locked_folder(folder))  # before a model is loaded or a server is asked
        backends = stack.enter_context(Backends(store))
        contest = competing.compete(
            instances,
            {name: backends.open(model) for name, model in models.items()},
            backends.open(judge, judge_options),
            dimensions,
            folder,
            sampling=sampling or Sampling(),
            explain=explain,
            prompts=None if prompts is None else Path(prompts),
            restart=restart,
            bars=partial(progress, watch=backends.under_way),
        )
        write_json(folder / "run.json", {**resolved("compete", given), "signature": contest.signature})
        for failure in contest.failures:
            _LOG.warning("%s", failure)
        for line in low_mass_lines(contest.faint, 2 * len(contest.trials)):  # each trial has both orders
            _LOG.warning("%s", line)
        return contest


@dataclass(frozen=True, slots=True)
class _Data:
    """A benchmark or a table, as `build` and `evaluate` take it."""

    data: Any
    task: str | None
    task_file: str | Path | None
    dimensions: tuple[str | Dimension, ...]
    columns: Mapping[str, str] | None
    source: str | Path | None
    options: Mapping[str, object] | None

    def contexts(self) -> tuple[Sequence[Context], Sequence[Dimension]]:
        """Contexts and dimensions to build ladders for; a table may have no outputs."""
        if self._is_table():
            task, described = self._described(None)
            contexts = load_contexts(self._rows(), task=task, columns=self.columns)
            return contexts, choose_dimensions(described, self._names())
        benchmark, chosen = self.rated(None)
        return benchmark.contexts, chosen

    def rated(self, ladders: LadderSet | None) -> tuple[Benchmark, Sequence[Dimension]]:
        """The benchmark, and the dimensions to evaluate.

        Args:
            ladders: the set whose task and dimensions a table has that comes without them.
        """
        if self._is_table(ladders):
            task, described = self._described(ladders)
            names = self._names()
            benchmark = read_own(self._rows(), task, described, columns=self.columns, dimensions=names)
            return benchmark, choose_dimensions(benchmark.dimensions, names)
        if self.task is not None or self.task_file is not None or self.columns:
            raise UsageError("task, task_file and columns are for a table, not a benchmark; leave them out")
        benchmark = self.data
        if isinstance(benchmark, Benchmark):
            if self.source is not None or self.options:
                raise UsageError("source and options are for a benchmark by name; leave them out")
        else:
            benchmark = load_benchmark(str(self.data), self.source, **(self.options or {}))
        return benchmark, choose_dimensions(benchmark.dimensions, self._names())

    def _is_table(self, ladders: LadderSet | None = None) -> bool:
        """Whether the data are a table: anything with a task, and what is no benchmark.

        Args:
            ladders: the set whose task and dimensions a table has that comes without them.

        Raises:
            DataError: there is no such file.
            UsageError: a table has neither a task nor ladders.
        """
        if isinstance(self.data, Benchmark):
            return False
        if self.task is not None or self.task_file is not None:
            return True
        if isinstance(self.data, str | Path):
            name = str(self.data)
            looks_like_table = Path(name).is_file() or name.removesuffix(".gz").endswith(EXTENSIONS)
            if name in {*BENCHMARKS, *published_names()} or not looks_like_table:
                return False
        if isinstance(self.data, str | Path) and not Path(self.data).exists():
            raise DataError(f"{self.data}: no such file")
        if ladders is None:
            raise UsageError(f"a table needs its task and dimensions; {_TASK}")
        return True

    def _described(self, ladders: LadderSet | None) -> tuple[str, tuple[Dimension, ...]]:
        """The task, and all its dimensions."""
        objects = tuple(each for each in self.dimensions if isinstance(each, Dimension))
        if self.task is not None and self.task_file is not None:
            raise UsageError("task and task_file both name the task; give one of them")
        if self.task_file is not None:
            return read_task(Path(self.task_file))
        if self.task is None and ladders is not None:
            return ladders.task, ladders.dimensions
        if not objects or len(objects) < len(self.dimensions):
            raise UsageError("task=NAME needs dimensions=[refladder.Dimension(...)], which describe what is judged")
        names = [dimension.name for dimension in objects]
        for dimension in objects:
            if names.count(dimension.name) > 1 or dimension.name in FIELDS or not dimension.low < dimension.high:
                raise UsageError(
                    f"dimension {dimension.name!r} has the name of another dimension or field, or its low is not below "
                    "its high; change it"
                )
        return self.task or "", objects

    def _names(self) -> list[str]:
        return [each.name if isinstance(each, Dimension) else each for each in self.dimensions]

    def _rows(self) -> str | Rows:
        if self.source is not None or self.options:
            raise UsageError("source and options are for a benchmark by name, not a table; leave them out")
        return str(self.data) if isinstance(self.data, str | Path) else Frame(self.data).rows()
