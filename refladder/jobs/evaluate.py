"""evaluate: a benchmark, its ladders, a judge -> scores of every method -> agreement with people."""

from __future__ import annotations

import difflib
from collections import Counter
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from refladder import __version__
from refladder.artifacts import throw_away
from refladder.errors import DataError, UnknownNameError, UsageError
from refladder.jobs.build import JOURNAL
from refladder.jobs.columns import ScoreReport, column_names
from refladder.jobs.score import Scorer, batches
from refladder.locks import locked_folder
from refladder.metaeval.agreement import MEAN, Agreement, evaluate_method
from refladder.metaeval.correction import holm
from refladder.published import LadderSet, choose_dimensions, ladder_set
from refladder.rows import number_in, read_rows
from refladder.scoring.judgment_log import JudgmentLog
from refladder.scoring.lexical import BASELINES
from refladder.synth import build_ladders

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from refladder.backends import Backend
    from refladder.jobs import Progress
    from refladder.records import Benchmark, Dimension, LadderFailure, Sampling

    Scores = dict[tuple[str, str], float | None]

LADDER = "ladder"


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """Scores of one method, by output id and dimension, with the signature of all that made them."""

    name: str
    signature: str
    scores: Mapping[tuple[str, str], float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """How agreement is computed: levels, statistics, convention for constant contexts, resamples and their seed."""

    levels: Sequence[str]
    statistics: Sequence[str]
    constant: str = "skip"
    resamples: int = 1000
    seed: int = 0
    reference: str | None = None


def evaluation_ladders(
    writer: Backend,
    benchmark: Benchmark,
    dimensions: Sequence[Dimension],
    *,
    rungs: int,
    sampling: Sampling,
    attempts: int,
    prompts: Path | None = None,
    work: Path | None = None,
    restart: bool = False,
    progress: Progress | None = None,
) -> tuple[LadderSet, list[LadderFailure]]:
    """Ladders for every context of a benchmark; with `work`, kept in that folder and found there again.

    Args:
        writer: the backend that writes.
        benchmark: whose contexts.
        dimensions: the qualities to write ladders for.
        rungs: rungs of a ladder, 2 or more.
        sampling: how texts are drawn.
        attempts: how often a rung is tried.
        prompts: the user's own templates.
        work: folder of the journal.
        restart: throw away what the journal holds.
        progress: called with texts done and texts in all.

    Returns:
        The ladders, and the rungs that could not be written.

    Raises:
        UsageError: not one ladder could be written, or another process is writing to the folder.
        BackendError, DataError: see `refladder.synth.build_ladders`.
    """
    journal = None if work is None else work / JOURNAL
    with nullcontext() if work is None else locked_folder(work):
        if journal is not None and restart:
            throw_away(journal)
        ladders, failures = build_ladders(
            writer,
            benchmark.contexts,
            dimensions,
            rungs=rungs,
            sampling=sampling,
            attempts=attempts,
            prompts=prompts,
            journal=journal,
            progress=progress,
        )
    if not ladders:
        reason = failures[0].reasons[-1] if failures else "the benchmark has no contexts"
        raise UsageError(f"no ladder could be written for {benchmark.name}: {reason}; try another --writer")
    return ladder_set(benchmark.name, dimensions, benchmark.contexts, ladders, failures), failures


def ladders_for(benchmark: Benchmark, dimensions: Sequence[Dimension], ladders: LadderSet) -> LadderSet:
    """A ladder set that exists, checked to be for this benchmark; contexts that it has no text of get the benchmark's.

    Raises:
        UnknownNameError: it has no ladders on one of the dimensions.
        UsageError: its ladders are of another task, or a context of that id has another text there.
    """
    choose_dimensions(ladders.dimensions, [dimension.name for dimension in dimensions])
    contexts = {context.id: context for context in benchmark.contexts}
    for context in benchmark.contexts:
        if context.task != ladders.task:
            raise UsageError(
                f"the ladders of {ladders.name} are of task {ladders.task!r}, and {benchmark.name} is of "
                f"{context.task!r}; name ladders of that task with --ladders"
            )
        other = ladders.contexts.get(context.id)
        if other is not None and other.text != context.text:
            raise UsageError(
                f"context {context.id!r} has another text in {ladders.name} than in {benchmark.name}; "
                "the ladders were written for other data: name others with --ladders"
            )
    return replace(ladders, contexts=contexts | dict(ladders.contexts))


def score_benchmark(
    scorer: Scorer,
    benchmark: Benchmark,
    *,
    name: str = LADDER,
    judgments: Path | None = None,
    restart: bool = False,
    progress: Progress | None = None,
) -> tuple[Method, ScoreReport]:
    """Score every output of a benchmark against the scorer's ladders.

    Args:
        scorer: judge, ladders and scale; its ladder set need not hold the contexts' texts.
        benchmark: whose outputs.
        name: of the method in tables.
        judgments: file that keeps the judgments, and from which a run that was cut off goes on.
        restart: throw away what that file holds.
        progress: called with outputs done and outputs in all.
    """
    outputs = sorted(benchmark.outputs, key=lambda output: output.context_id)  # a judge can share what they begin with
    scores: Scores = {}
    with JudgmentLog(judgments, scorer.run, restart=restart) as log:
        for batch in batches(outputs, scorer.judge, lambda output: output.context_id):
            for output, values in zip(batch, scorer.score(batch, [None] * len(batch), log), strict=True):
                for dimension in scorer.dimensions:
                    scores[output.id, dimension.name] = values[column_names(dimension.name)[0]]
            if progress is not None:
                progress(scorer.report.rows, len(outputs))
        log.finish()
    return Method(name=name, signature=scorer.report.signature, scores=scores), scorer.report


def baselines(benchmark: Benchmark, dimensions: Sequence[Dimension]) -> list[Method]:
    """The surface measures of every output, the same number for each dimension."""
    contexts = {context.id: context for context in benchmark.contexts}
    methods = []
    for name, measure in BASELINES.items():
        values = {output.id: measure(contexts[output.context_id], output.text) for output in benchmark.outputs}
        methods.append(
            Method(
                name=name,
                signature=f"surface:{name.replace(' ', '-')}|refladder:{__version__}",
                scores={
                    (output_id, dimension.name): value
                    for output_id, value in values.items()
                    for dimension in dimensions
                },
            )
        )
    return methods


def read_scores(path: str, benchmark: Benchmark, dimensions: Sequence[Dimension]) -> Method:
    """Scores that any program made, from a table: one row an output.

    A row names its output by `output_id` (or `id`), or by `context_id` and `system`. It has a column for each
    dimension (`coherence` or `coherence_score`), or one column `score` that stands for every dimension. Empty, null
    or absent is unscored, and counted.

    Raises:
        DataError: with path:line: no id, no score column, an output that is not in the benchmark or stands there
            twice, a cell that is not a finite number.
    """
    by_place = {(output.context_id, output.system): output.id for output in benchmark.outputs}
    known = {output.id for output in benchmark.outputs}
    scores: Scores = {}
    columns: dict[str, str] | None = None
    seen: set[str] = set()
    for row in read_rows(path):
        if columns is None:
            columns = _score_columns(row.where, row.fields, dimensions)
        output_id = _output_id(row.where, row.fields, by_place)
        if output_id not in known:
            near = difflib.get_close_matches(output_id, sorted(known), n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise DataError(f"{row.where}: output {output_id!r} is not in {benchmark.name}{hint}")
        if output_id in seen:
            raise DataError(f"{row.where}: output {output_id!r} stands there twice")
        seen.add(output_id)
        for dimension, column in columns.items():
            scores[output_id, dimension] = number_in(row, column) if column in row.fields else None
    if columns is None:
        raise DataError(f"{path}: no rows; a row for each output is needed")
    name = path.rpartition("/")[2].removesuffix(".gz").rpartition(".")[0] or path
    return Method(name=name, signature=f"file:{path.rpartition('/')[2]}", scores=scores)


def _score_columns(where: str, fields: Mapping[str, object], dimensions: Sequence[Dimension]) -> dict[str, str]:
    found = {}
    for dimension in dimensions:
        names = (dimension.name, column_names(dimension.name)[0], "score")
        column = next((name for name in names if name in fields), None)
        if column is not None:
            found[dimension.name] = column
    missing = [dimension.name for dimension in dimensions if dimension.name not in found]
    if missing:
        raise DataError(
            f"{where}: no column for dimension {missing[0]!r} (nor 'score'); columns there: {', '.join(fields)}. "
            "Name the dimensions that the file has with --dimension"
        )
    return found


def _output_id(where: str, fields: Mapping[str, object], by_place: Mapping[tuple[str, str], str]) -> str:
    for name in ("output_id", "id"):
        if name in fields:
            return str(fields[name])
    if "context_id" in fields and "system" in fields:
        place = (str(fields["context_id"]), str(fields["system"]))
        return by_place.get(place, "/".join(place))
    raise DataError(
        f"{where}: a row must name its output by output_id, or by context_id and system; columns there: "
        f"{', '.join(fields)}"
    )


def check_names(names: Sequence[str], reference: str | None = None) -> None:
    """Check that every method of a table, the baselines included, has a name of its own, and `reference` is among them.

    Raises:
        UsageError: two have the same.
        UnknownNameError: there is no such reference.
    """
    for name, count in Counter([*names, *BASELINES]).items():
        if count > 1:
            raise UsageError(f"two methods are called {name!r}; rename the file of scores that has this name")
    if reference is not None and reference not in {*names, *BASELINES}:
        raise UnknownNameError("reference method", reference, [*names, *BASELINES])


def agreement(
    benchmark: Benchmark, dimensions: Sequence[Dimension], methods: Sequence[Method], protocol: Protocol
) -> list[Agreement]:
    """Every method's agreement with the ratings, the surface baselines included.

    Args:
        benchmark: outputs and ratings.
        dimensions: those to report.
        methods: what to compare; the baselines are put after them.
        protocol: how.

    Raises:
        UsageError: the benchmark has no ratings, or two methods have one name; see also
            `refladder.metaeval.agreement.evaluate_method`.
        UnknownNameError: the reference is not one of the methods.
    """
    names = [dimension.name for dimension in dimensions]
    if not any(rating.dimension in names for rating in benchmark.ratings):
        raise UsageError(
            f"{benchmark.name} has no ratings on {', '.join(names)}; evaluation compares scores with ratings"
        )
    check_names([method.name for method in methods], protocol.reference)
    every = [*methods, *baselines(benchmark, dimensions)]
    rival = next((method for method in every if method.name == protocol.reference), None)
    contexts = {context.id: context for context in benchmark.contexts}
    lengths = {output.id: BASELINES["length"](contexts[output.context_id], output.text) for output in benchmark.outputs}
    rows: list[Agreement] = []
    for method in every:
        rows += evaluate_method(
            benchmark,
            method.scores,
            method=method.name,
            signature=method.signature,
            dimensions=names,
            levels=protocol.levels,
            statistics=protocol.statistics,
            constant=protocol.constant,
            resamples=protocol.resamples,
            seed=protocol.seed,
            control=lengths if method in methods else None,
            reference=(rival.name, rival.scores) if rival is not None and method is not rival else None,
        )
    return _adjusted(rows)


def _adjusted(rows: Sequence[Agreement]) -> list[Agreement]:
    """Holm's correction over the tests of a table: every method and dimension of one level and statistic."""
    tested: dict[tuple[str, str], list[int]] = {}
    for place, row in enumerate(rows):
        # With one dimension, the row of the mean repeats its test.
        if row.p_value is not None and (row.dimension != MEAN or len({one.dimension for one in rows}) > 2):  # noqa: PLR2004
            tested.setdefault((row.level, row.statistic), []).append(place)
    found = list(rows)
    for places in tested.values():
        values = holm([value for place in places if (value := rows[place].p_value) is not None])
        for place, value in zip(places, values, strict=True):
            found[place] = replace(rows[place], p_adjusted=value)
    return found
