"""evaluate: a benchmark, its ladders, a judge -> scores of every method -> agreement with people."""

from __future__ import annotations

import difflib
from collections import Counter
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from refladder.errors import DataError, UnknownNameError, UsageError
from refladder.files.jsonl import throw_away
from refladder.files.ladder_sets import LadderSet, choose_dimensions, ladder_set
from refladder.files.locks import locked_folder
from refladder.files.tables import number_in, read_rows
from refladder.jobs.build import JOURNAL
from refladder.jobs.score import Scorer, batches
from refladder.loaders.fields import missing_column
from refladder.loaders.flat import text_id
from refladder.loaders.own import context_text
from refladder.metaeval.agreement import (
    MEAN,
    PARTIAL,
    Agreement,
    build_grid,
    common_contexts,
    evaluate_method,
    human_means,
)
from refladder.metaeval.correction import holm, permutations_for
from refladder.metaeval.surface import choose_on_other_contexts, standardise
from refladder.methods.lexical import MEASURES, surface_measures, words
from refladder.scoring.columns import ScoreReport, column_names
from refladder.scoring.judgment_file import JudgmentLog
from refladder.synth import build_ladders
from refladder.version import __version__

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

    from refladder.backends import Backend
    from refladder.files.tables import Row
    from refladder.jobs import Progress
    from refladder.records import Benchmark, Dimension, LadderFailure, Output, Sampling

    Scores = dict[tuple[str, str], float | None]

LADDER = "ladder"
BEST = "best of the surface measures"


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """Scores of one method, by output id and dimension, with the signature of all that made them."""

    name: str
    signature: str
    scores: Mapping[tuple[str, str], float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """How agreement is computed: levels, statistics, convention for constant contexts, permutations and their seed.

    `resamples` is the number of permutations of each test against `reference`; None chooses it by their number.

    `baselines` says which surface measures are shown beside the methods: `best`, the best of them as one row, or `all`.
    A surface measure that is the `reference` is shown as well.
    """

    levels: Sequence[str]
    statistics: Sequence[str]
    constant: str = "skip"
    resamples: int | None = None
    seed: int = 0
    reference: str | None = None
    baselines: str = "best"


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


def surface_methods(benchmark: Benchmark, dimensions: Sequence[Dimension], names: Collection[str]) -> list[Method]:
    """Surface measures of every output as methods: the best of all, and single ones.

    A single measure has the same number for each dimension. The best of them takes the scores of a context from the
    measure that agrees best with the ratings of the other contexts on that dimension; scores of different measures are
    put on one scale by giving each measure mean 0 and standard deviation 1 over all outputs. So one set of scores
    serves all levels: within a context they are those of the chosen measure, and the pooled level and the means of
    systems have scores of several measures where contexts chose differently.

    Args:
        benchmark: outputs and ratings.
        dimensions: those to choose for.
        names: which methods to make, of `BEST` and `MEASURES`.
    """
    by_context: dict[str, list[Output]] = {}
    for output in benchmark.outputs:
        by_context.setdefault(output.context_id, []).append(output)
    values: dict[str, list[float]] = {}
    for context in benchmark.contexts:
        outputs = by_context.get(context.id, [])
        measured = surface_measures(context, [output.text for output in outputs]).tolist()
        values.update(zip((output.id for output in outputs), measured, strict=True))
    methods = [_best_surface(benchmark, dimensions, values)] if BEST in names else []
    for position, name in enumerate(MEASURES):
        if name in names:
            methods.append(
                Method(
                    name=name,
                    signature=f"surface:{name.replace(' ', '-')}|refladder:{__version__}",
                    scores={
                        (output_id, dimension.name): numbers[position]
                        for output_id, numbers in values.items()
                        for dimension in dimensions
                    },
                )
            )
    return methods


def _best_surface(
    benchmark: Benchmark, dimensions: Sequence[Dimension], values: Mapping[str, Sequence[float]]
) -> Method:
    means = human_means(benchmark.ratings)
    names = list(MEASURES)
    scores: Scores = {}
    chosen_of: list[str] = []
    for dimension in dimensions:
        grid = build_grid(benchmark.outputs, means, {}, dimension.name)
        cells = [
            (row, column, output)
            for row, line in enumerate(grid.output_ids)
            for column, output in enumerate(line)
            if output is not None
        ]
        rows, columns = [row for row, _, _ in cells], [column for _, column, _ in cells]
        measures = np.full((len(names), *grid.human.shape), np.nan)
        measures[:, rows, columns] = np.array([values[output] for _, _, output in cells]).T
        chosen = choose_on_other_contexts(measures, grid.human)
        best = np.take_along_axis(standardise(measures), chosen[np.newaxis, :, np.newaxis], axis=0)[0]
        scores.update(
            ((output, dimension.name), number)
            for (_, _, output), number in zip(cells, best[rows, columns].tolist(), strict=True)
        )
        counts = Counter(names[position].replace(" ", "-") for position in chosen.tolist())
        chosen_of.append(f"{dimension.name}={'+'.join(f'{name}*{count}' for name, count in counts.most_common())}")
    return Method(name=BEST, signature=f"surface:best({','.join(chosen_of)})|refladder:{__version__}", scores=scores)


def read_scores(
    path: str, benchmark: Benchmark, dimensions: Sequence[Dimension], named: Mapping[str, str] | None = None
) -> Method:
    """Scores that any program made, from a table: one row an output.

    A row names its output by `output_id` (or `id`), or by `context_id` and `system`; a `context` column stands for a
    missing `context_id`, by the id that `refladder build own` makes from its text. The scores of a dimension are in
    the column that `named` has for it, else in the first of `coherence_score`, `coherence` and `score` that the first
    row has; `score` serves every dimension. Empty, null or absent is unscored, and counted.

    Args:
        path: the table.
        benchmark: whose outputs.
        dimensions: those to read.
        named: from a dimension's name to the column of its scores; the table must have that column.

    Raises:
        UnknownNameError: `named` has a dimension that is not read.
        DataError: with path:line: no id, no score column, an output that is not in the benchmark or appears twice, a
            cell that is not a finite number; or the column of a dimension equals the human ratings.
    """
    for name in named or {}:
        if name not in {dimension.name for dimension in dimensions}:
            raise UnknownNameError("dimension of --score-column", name, [dimension.name for dimension in dimensions])
    by_place = {(output.context_id, output.system): output.id for output in benchmark.outputs}
    known = {output.id for output in benchmark.outputs}
    scores: Scores = {}
    columns: dict[str, str] | None = None
    seen: set[str] = set()
    for row in read_rows(path):
        if columns is None:
            columns = _score_columns(row.where, row.fields, dimensions, named or {})
        output_id = _output_id(row, by_place)
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
    _refuse_ratings(path, benchmark, scores, columns)
    name = path.rpartition("/")[2].removesuffix(".gz").rpartition(".")[0] or path
    return Method(name=name, signature=f"file:{path.rpartition('/')[2]}", scores=scores)


def _refuse_ratings(path: str, benchmark: Benchmark, scores: Scores, columns: Mapping[str, str]) -> None:
    """Refuse a column that holds the human ratings themselves: its agreement would be 1 and say nothing.

    Equal ratings of all outputs are passed over, since constant scores have no correlation anyway.
    """
    means = human_means(benchmark.ratings)
    for dimension, column in columns.items():
        pairs = [
            (rating, score)
            for (output_id, name), rating in means.items()
            if name == dimension and (score := scores.get((output_id, name))) is not None
        ]
        if len({rating for rating, _ in pairs}) > 1 and all(rating == score for rating, score in pairs):
            raise DataError(
                f"{path}: column {column!r} equals the human ratings on {dimension!r}, so it measures nothing; "
                f"name the column of the scores with --score-column {dimension}=COLUMN"
            )


def _score_columns(
    where: str, fields: Mapping[str, object], dimensions: Sequence[Dimension], named: Mapping[str, str]
) -> dict[str, str]:
    found = {}
    for dimension in dimensions:
        if dimension.name in named and named[dimension.name] not in fields:
            raise missing_column(where, named[dimension.name], fields)
        # A table that refladder scored has NAME_score beside what it had before, which may be the ratings.
        names = (named.get(dimension.name), column_names(dimension.name)[0], dimension.name, "score")
        column = next((name for name in names if name is not None and name in fields), None)
        if column is not None:
            found[dimension.name] = column
    missing = [dimension.name for dimension in dimensions if dimension.name not in found]
    if missing:
        raise DataError(
            f"{where}: no column for dimension {missing[0]!r} (nor 'score'); columns there: {', '.join(fields)}. "
            f"Name the column with --score-column {missing[0]}=COLUMN, or the dimensions that the file has with "
            "--dimension"
        )
    return found


def _output_id(row: Row, by_place: Mapping[tuple[str, str], str]) -> str:
    fields = row.fields
    for name in ("output_id", "id"):
        if name in fields:
            return str(fields[name])
    if "system" in fields and ("context_id" in fields or "context" in fields):
        context_id = (
            str(fields["context_id"])
            if "context_id" in fields
            else text_id(*context_text(row, {"context": "context", "background": "background"}))
        )
        place = (context_id, str(fields["system"]))
        return by_place.get(place, "/".join(place))
    raise DataError(
        f"{row.where}: a row must name its output by output_id, or by context_id and system; columns there: "
        f"{', '.join(fields)}"
    )


def check_names(names: Sequence[str], reference: str | None = None) -> None:
    """Check that every method of a table, the baselines included, has a name of its own, and `reference` is among them.

    Raises:
        UsageError: two have the same.
        UnknownNameError: there is no such reference.
    """
    for name, count in Counter([*names, BEST, *MEASURES]).items():
        if count > 1:
            raise UsageError(f"two methods are called {name!r}; rename the file of scores that has this name")
    if reference is not None and reference not in {*names, BEST, *MEASURES}:
        raise UnknownNameError("reference method", reference, [*names, BEST, *MEASURES])


def check_ratings(benchmark: Benchmark, dimensions: Sequence[Dimension]) -> None:
    """Check all that agreement needs of a benchmark, so that no judge is asked in vain.

    Raises:
        UsageError: there are no ratings on these dimensions.
        DataError: a context has two outputs of one system, or a rating is not finite.
    """
    names = [dimension.name for dimension in dimensions]
    if not any(rating.dimension in names for rating in benchmark.ratings):
        raise UsageError(
            f"{benchmark.name} has no ratings on {', '.join(names)}; evaluation compares scores with ratings"
        )
    build_grid(benchmark.outputs, human_means(benchmark.ratings), {}, names[0])


def has_single_outputs(benchmark: Benchmark) -> bool:
    """Whether every context has one output at most, so that nothing can be correlated within contexts."""
    return len({output.context_id for output in benchmark.outputs}) == len(benchmark.outputs)


def agreement(
    benchmark: Benchmark, dimensions: Sequence[Dimension], methods: Sequence[Method], protocol: Protocol
) -> list[Agreement]:
    """Every method's agreement with the ratings, the surface baselines included.

    Where every context has a single output, the level `pooled` is added to `within_context`, which is empty.

    Within contexts, the methods are compared on the contexts in which each of them has a correlation; a baseline
    restricts them only where it is the reference. Tests against the reference, and their correction, are of the
    methods; of the baselines only where no other method is to be tested.

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
    check_ratings(benchmark, dimensions)
    names = [dimension.name for dimension in dimensions]
    check_names([method.name for method in methods], protocol.reference)
    shown = {BEST, *(MEASURES if protocol.baselines == "all" else ()), protocol.reference or BEST}
    every = [*methods, *surface_methods(benchmark, dimensions, shown)]
    rival = next((method for method in every if method.name == protocol.reference), None)
    lengths = {output.id: float(len(words(output.text))) for output in benchmark.outputs}
    levels = tuple(protocol.levels)
    if "within_context" in levels and "pooled" not in levels and has_single_outputs(benchmark):
        levels += ("pooled",)
    compared = [method for method in every if method in methods or method is rival]
    tested = _tested(methods, every, rival)
    scores = [method.scores for method in compared]
    common = None
    if compared:
        common = common_contexts(benchmark, scores, dimensions=names, constant=protocol.constant, control=lengths)
    rows: list[Agreement] = []
    for method in every:
        rows += evaluate_method(
            benchmark,
            method.scores,
            method=method.name,
            signature=method.signature,
            dimensions=names,
            levels=levels,
            statistics=protocol.statistics,
            constant=protocol.constant,
            resamples=protocol.resamples or permutations_for(len(tested) * len(names)),
            seed=protocol.seed,
            control=lengths if method in methods else None,
            reference=(rival.name, rival.scores) if rival is not None and method in tested else None,
            common=common,
        )
    return _adjusted(rows)


def _tested(methods: Sequence[Method], every: Sequence[Method], rival: Method | None) -> list[Method]:
    """What is tested against `rival`: the methods asked for, or all baselines where there is no other method."""
    if rival is None:
        return []
    asked = [method for method in methods if method is not rival]
    return asked or [method for method in every if method is not rival]


def few_permutations(rows: Sequence[Agreement], resamples: int) -> str | None:
    """Why this number of permutations is too small for the tests of these rows; None where it is not."""
    tables = Counter((row.level, row.statistic) for row in rows if row.p_adjusted is not None)
    tests = max(tables.values(), default=0)
    needed = permutations_for(tests)
    if not tests or resamples >= needed:
        return None
    return (
        f"--resamples {resamples} is few for {tests} corrected tests: no corrected p-value can be below "
        f"{min(1.0, tests / (resamples + 1)):.2g}; give at least {needed}, or leave --resamples out"
    )


def narrowed_contexts(rows: Sequence[Agreement], names: Sequence[str | None]) -> list[str]:
    """Say for each dimension which methods reduce the contexts that the methods are compared on.

    Args:
        rows: of one benchmark, from `agreement`.
        names: of the methods that are compared.

    Returns:
        A sentence for each dimension in which a method is averaged over fewer contexts than it has correlations in.
    """
    tables: dict[str, dict[str, Agreement]] = {}
    for row in rows:
        if row.level == "within_context" and row.statistic != PARTIAL and row.dimension != MEAN and row.correlated:
            tables.setdefault(row.dimension, {}).setdefault(row.method, row)
    sentences = []
    for dimension, table in tables.items():
        counts = {name: row.correlated or 0 for name, row in table.items() if name in names}
        if all(counts[name] == table[name].contexts for name in counts):
            continue
        first = next(row for name, row in table.items() if name in counts)
        fewest = [name for name in counts if counts[name] < max(counts.values())] or list(counts)
        causes = ", ".join(f"{name} in {counts[name]}" for name in sorted(fewest, key=counts.__getitem__)[:3])
        sentences.append(
            f"{first.benchmark}, {dimension}: methods are compared on the {first.contexts} of "
            f"{first.contexts + first.skipped} contexts in which each has a correlation; fewest: {causes}"
        )
    return sentences


def _adjusted(rows: Sequence[Agreement]) -> list[Agreement]:
    """Holm's correction over the tests of a table: methods and dimensions of one level and statistic, not the mean."""
    tested: dict[tuple[str, str], list[int]] = {}
    for place, row in enumerate(rows):
        if row.p_value is not None and row.dimension != MEAN:
            tested.setdefault((row.level, row.statistic), []).append(place)
    found = list(rows)
    for places in tested.values():
        values = holm([value for place in places if (value := rows[place].p_value) is not None])
        for place, value in zip(places, values, strict=True):
            found[place] = replace(rows[place], p_adjusted=value)
    return found
