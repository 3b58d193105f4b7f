"""evaluate: a benchmark and a judge -> scores of every method -> agreement with people, in one call."""

from __future__ import annotations

import itertools
from collections import Counter
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from refladder.backends.metered import Spent, total
from refladder.backends.protocol import Backend
from refladder.errors import UnknownNameError, UsageError, column_option
from refladder.files.jsonl import write_json
from refladder.files.ladder_sets import LadderSet, load_ladders
from refladder.files.locks import locked_folder
from refladder.jobs.coverage import covered
from refladder.jobs.recorded_judgments import check_recorded
from refladder.metaeval import CONVENTIONS, LEVELS, STATISTICS
from refladder.metaeval.agreement import (
    MEAN,
    PARTIAL,
    Agreement,
    build_grid,
    evaluate_method,
    human_means,
)
from refladder.metaeval.correction import holm, permutations_for
from refladder.metaeval.correlation import check_name
from refladder.methods.contract import LADDER, MethodSettings
from refladder.methods.ladder import ladders_for
from refladder.methods.method_runs import run_methods, scored_methods
from refladder.methods.surface import BEST, MEASURES, best_name, surface_methods, words
from refladder.report.cards import Card, report_cards
from refladder.report.charts import file_stems
from refladder.scoring.recorded import Recorded

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from refladder.methods.contract import Judge, Method
    from refladder.methods.method_runs import MethodRun
    from refladder.records import Benchmark, Dimension, JudgeCheck

BASELINES = ("best", "all")
# The keys of a record of an evaluation.
_RECORD = (
    *("method", "benchmark", "level", "statistic", "dimension"),
    *("value", "low", "high", "contexts", "skipped", "unscored"),
)
_COSTS = ("calls", "tokens", "seconds")
BETWEEN = "between_systems"


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """How agreement is computed.

    `levels` and `statistics` name the correlations, `constant` the convention for contexts with constant ratings or
    scores (see `refladder.metaeval.agreement.evaluate_method`). Every method is tested against the method `reference`
    with `resamples` permutations, drawn with `seed`; None chooses the number of permutations by the number of tests.

    `baselines` says which surface measures are shown beside the methods: `best`, the best of them as one row, or `all`.
    A surface measure that is the `reference` is shown as well. With `against_best`, every method is tested against the
    best one of each column too, for tables that mark what does not differ from it.

    Raises:
        UnknownNameError: no such level, statistic, convention or choice of baselines.
        UsageError: no level or no statistic, or less than one permutation.
    """

    levels: Sequence[str] = LEVELS[:1]
    statistics: Sequence[str] = STATISTICS[:1]
    constant: str = "skip"
    resamples: int | None = None
    seed: int = 0
    reference: str | None = None
    baselines: str = "best"
    against_best: bool = False

    def __post_init__(self) -> None:
        if not self.levels or not self.statistics:
            raise UsageError("a protocol needs one level and one statistic or more; name them")
        for level in self.levels:
            check_name("level", level, LEVELS)
        for statistic in self.statistics:
            check_name("statistic", statistic, STATISTICS)
        check_name("convention for constant contexts", self.constant, CONVENTIONS)
        check_name("choice of baselines", self.baselines, BASELINES)
        if self.resamples is not None and self.resamples < 1:
            raise UsageError(f"{self.resamples} permutations; a test needs 1 or more")


class Part(NamedTuple):
    """The part of a benchmark to evaluate, its dimensions and settings, and what was left out; see `parts_of`."""

    benchmark: Benchmark
    dimensions: Sequence[Dimension]
    settings: MethodSettings
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """The result of `evaluate`.

    `rows` is the agreement of every method, the surface baselines included. `runs` holds the scores and costs of the
    methods that were run, and `cards` their report cards. `limits` are sentences on what the rows cannot show, and
    `notes` sentences about the methods. `spent` is what the methods took together, in tokens and money.
    """

    rows: tuple[Agreement, ...]
    runs: tuple[MethodRun, ...]
    cards: tuple[Card, ...]
    limits: tuple[str, ...]
    notes: tuple[str, ...]
    spent: Spent

    def records(self) -> list[dict[str, Any]]:
        """One record for each row, as `--format csv` prints them; `pandas.DataFrame(evaluation.records())`.

        The keys are `method`, `benchmark`, `level`, `statistic`, `dimension`, `value`, `low`, `high`, `contexts`,
        `skipped`, `unscored`, `calls`, `tokens` (of prompts) and `seconds`. What is not known is None. The last three
        are those of the whole method in this run, on each of its rows; a method that was not run has None.
        """
        costs = {
            run.name: {"calls": run.calls, "tokens": run.spent.sent, "seconds": run.seconds}
            for run in self.runs
        }
        return [
            {key: getattr(row, key) for key in _RECORD}
            | costs.get(row.method, dict.fromkeys(_COSTS))
            for row in self.rows
        ]

    @property
    def checks(self) -> tuple[JudgeCheck, ...]:
        """Whether the judge tells the best rung from the worst, by dimension; none where it was not asked."""
        return tuple(check for run in self.runs for check in run.checks)

    @property
    def complete(self) -> bool:
        """Whether every output has a score of every method."""
        return not any(row.unscored for row in self.rows)


class Evaluations(tuple[Evaluation, ...]):
    """The results of `evaluate` on several benchmarks, in their order."""

    __slots__ = ()

    @property
    def rows(self) -> tuple[Agreement, ...]:
        """The rows of all."""
        return tuple(row for evaluation in self for row in evaluation.rows)

    @property
    def complete(self) -> bool:
        """Whether every output of every benchmark has a score of every method."""
        return all(evaluation.complete for evaluation in self)

    def records(self) -> list[dict[str, Any]]:
        """The records of all, see `Evaluation.records`."""
        return [record for evaluation in self for record in evaluation.records()]


def parts_of(
    rated: Sequence[tuple[Benchmark, Sequence[Dimension]]],
    ladders: Sequence[str | Path | LadderSet | None],
    methods: Sequence[str],
    settings: MethodSettings,
    *,
    scores: Callable[[Benchmark, Sequence[Dimension]], list[Method]],
    protocol: Protocol,
    recorded: Recorded | None,
    named: bool,
) -> tuple[list[Part], list[Method]]:
    """The parts of benchmarks that are evaluated, checked, and the methods that `scores` reads for the first of them.

    Of several benchmarks, each has its ladders, and a folder in the folder `work`. Where the user has not `named` the
    dimensions, those without ladders or recorded judgments are left out; see `covered`.
    """
    names = [benchmark.name for benchmark, _ in rated]
    for name, times in Counter(names).items():
        if times > 1:
            raise UsageError(f"benchmark {name!r} is named {times} times; name each benchmark once")
    stems, parts = file_stems(names), []
    for (benchmark, dimensions), its_ladders in zip(rated, ladders, strict=True):
        its = replace(settings, ladders=its_ladders or settings.ladders)
        if settings.work is not None and len(rated) > 1:
            its = replace(its, work=settings.work / stems[benchmark.name])
        opened = None
        if its.ladders is not None and LADDER in methods:
            opened = (
                its.ladders if isinstance(its.ladders, LadderSet) else load_ladders(its.ladders)
            )
            its = replace(its, ladders=opened)
            ladders_for(benchmark, dimensions if named else (), opened)
        if recorded is not None:
            check_recorded(recorded, benchmark, methods, its)
        part, evaluated, left_out = covered(benchmark, dimensions, opened, recorded, named=named)
        parts.append(Part(part, evaluated, its, left_out))
    others = scores(rated[0][0], parts[0].dimensions)
    for each in parts:
        check_evaluation(each.benchmark, each.dimensions, methods, others, protocol)
    return parts, others


def evaluate(
    benchmark: Benchmark,
    *,
    judge: Backend | Judge,
    dimensions: Sequence[Dimension] | None = None,
    methods: Sequence[str] = (LADDER,),
    others: Sequence[Method] = (),
    settings: MethodSettings | None = None,
    protocol: Protocol | None = None,
    config: Mapping[str, Any] | None = None,
) -> Evaluation:
    """Score the outputs of a benchmark with methods, and correlate the scores with its ratings."""
    dimensions = benchmark.dimensions if dimensions is None else dimensions
    settings = settings or MethodSettings()
    protocol = protocol or Protocol(seed=settings.seed)
    check_evaluation(benchmark, dimensions, methods, others, protocol)
    if isinstance(judge, Recorded):
        check_recorded(judge, benchmark, methods, settings)
    return _evaluated(
        Part(benchmark, dimensions, settings),
        judge,
        methods=methods,
        others=others,
        protocol=protocol,
        config=config,
    )


def _evaluated(
    part: Part,
    judge: Backend | Judge,
    *,
    methods: Sequence[str],
    others: Sequence[Method],
    protocol: Protocol,
    config: Mapping[str, Any] | None,
) -> Evaluation:
    benchmark, dimensions, settings, left_out = part
    opened = (lambda: judge) if isinstance(judge, Backend) else judge
    with nullcontext() if settings.work is None else locked_folder(settings.work):
        runs = run_methods(methods, benchmark, dimensions, opened, settings)
        scored = scored_methods(runs, others)
        rows = agreement(benchmark, dimensions, scored, protocol)
        if config is not None and settings.work is not None:
            checks = [asdict(check) for run in runs for check in run.checks] or None
            write_json(settings.work / "run.json", {**config, "judge_check": checks})
    return Evaluation(
        rows=tuple(rows),
        runs=tuple(runs),
        cards=tuple(report_cards(runs, benchmark, dimensions)),
        limits=(*left_out, *_limits(benchmark, rows, protocol)),
        notes=tuple(notes_of(runs)),
        spent=total([run.spent for run in runs]),
    )


def evaluate_all(
    parts: Sequence[Part],
    config: Mapping[str, Any],
    *,
    judge: Backend | Judge,
    methods: Sequence[str],
    others: Sequence[Method],
    protocol: Protocol,
) -> Evaluations:
    """`evaluate` the parts of a run, which were checked; the `config` of each has its own name, set and folder."""
    evaluations = []
    for number, part in enumerate(parts):
        options = dict(config["options"])
        for key in ("benchmark", "source", "ladders"):
            if isinstance(values := options.get(key), list | tuple):
                options[key] = values[number % len(values)] if values else None
        if part.settings.work is not None:
            options["work"] = str(part.settings.work)
        written = {**config, "options": options}
        evaluations.append(
            _evaluated(
                part, judge, methods=methods, others=others, protocol=protocol, config=written
            )
        )
    return Evaluations(evaluations)


def check_evaluation(
    benchmark: Benchmark,
    dimensions: Sequence[Dimension],
    methods: Sequence[str],
    others: Sequence[Method],
    protocol: Protocol,
) -> None:
    """Check what `evaluate` is given, as far as that is possible before a method is run."""
    names = [dimension.name for dimension in dimensions]
    if not any(rating.dimension in names for rating in benchmark.ratings):
        raise UsageError(
            f"{benchmark.name} has no ratings on {', '.join(names)}; add ratings, or choose other dimensions"
            + (
                f". Ratings are read from columns of these names; map others with {column_option(names[0], 'NAME')}"
                if benchmark.name == "own"
                else ""
            )
        )
    if tuple(protocol.levels) == (BETWEEN,) and not _has_systems(benchmark):
        raise UsageError(
            f"{benchmark.name}: some outputs have no system, and {BETWEEN} compares systems; name them in a column "
            "'system'"
        )
    build_grid(benchmark.outputs, human_means(benchmark.ratings), {}, names[0])
    compared = [*dict.fromkeys(methods), *(method.name for method in others), BEST, *MEASURES]
    for name, count in Counter(compared).items():
        if count > 1:
            raise UsageError(
                f"two methods are called {name!r}; rename the file of scores that has this name"
            )
    if protocol.reference is not None and protocol.reference not in compared:
        raise UnknownNameError("reference method", protocol.reference, compared)


def notes_of(runs: Sequence[MethodRun]) -> list[str]:
    """Sentences about methods, each after the name of its method: why it could not be run, and its notes."""
    return [
        f"{run.name}: {note}"
        for run in runs
        for note in (run.result.skipped, *run.result.notes)
        if note
    ]


def _limits(benchmark: Benchmark, rows: Sequence[Agreement], protocol: Protocol) -> list[str]:
    """What the rows cannot show: no correlation, or too few permutations."""
    limits = []
    if _has_single_outputs(benchmark) and any(row.level == "within_context" for row in rows):
        limits.append(
            f"{benchmark.name}: every context has one output, so there is no correlation within contexts; the level "
            "pooled compares outputs of different contexts"
        )
    elif all(row.value is None for row in rows):
        limits.append(
            f"{benchmark.name}: no correlation: it needs two outputs with different ratings and different scores, "
            "and no context has them; `--level pooled` compares outputs of different contexts"
        )
    if BETWEEN in protocol.levels and not _has_systems(benchmark):
        limits.append(
            f"{benchmark.name}: some outputs have no system, so there is no correlation between systems; name the "
            "systems in a column 'system'"
        )
    few = None if protocol.resamples is None else few_permutations(rows, protocol.resamples)
    return limits if few is None else [*limits, few]


def _has_single_outputs(benchmark: Benchmark) -> bool:
    """Whether every context has one output at most, so that nothing can be correlated within contexts."""
    return len({output.context_id for output in benchmark.outputs}) == len(benchmark.outputs)


def _has_systems(benchmark: Benchmark) -> bool:
    """Whether every output has a system."""
    return all(output.system for output in benchmark.outputs)


def agreement(
    benchmark: Benchmark,
    dimensions: Sequence[Dimension],
    methods: Sequence[Method],
    protocol: Protocol,
) -> list[Agreement]:
    """Correlate the scores of methods, and of the surface baselines, with the ratings.

    Each method has its value over its own contexts. The methods are tested against the reference on the contexts that
    both have, with Holm's correction; the baselines are tested only where there is no other method.
    """
    check_evaluation(benchmark, dimensions, (), methods, protocol)
    names = [dimension.name for dimension in dimensions]
    shown = {BEST, *(MEASURES if protocol.baselines == "all" else ()), protocol.reference or BEST}
    baselines = [
        method
        for method in methods
        if method.baseline and any(n is not None for n in method.scores.values())
    ]
    compared = [*methods, *surface_methods(benchmark, dimensions, shown, baselines)]
    asked = best_name(baselines) if protocol.reference == BEST else protocol.reference
    reference = next((method for method in compared if method.name == asked), None)
    asked_for, all_of_them = (
        [each for each in some if each is not reference] for some in (methods, compared)
    )
    tested = [] if reference is None else asked_for or all_of_them  # these are all baselines
    lengths = {output.id: float(len(words(output.text))) for output in benchmark.outputs}
    levels = tuple(protocol.levels)
    if "within_context" in levels and "pooled" not in levels and _has_single_outputs(benchmark):
        levels += ("pooled",)
    if not _has_systems(benchmark):
        levels = tuple(level for level in levels if level != BETWEEN)
    rows: list[Agreement] = []
    for method in compared:
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
            reference=(reference.name, reference.scores)
            if reference is not None and method in tested
            else None,
        )
    p_values = {place: row.p_value for place, row in enumerate(rows) if row.dimension != MEAN}
    rows = _corrected(
        rows, {place: value for place, value in p_values.items() if value is not None}, "p_adjusted"
    )
    return (
        _against_best(rows, benchmark, names, compared, protocol) if protocol.against_best else rows
    )


def _against_best(
    rows: Sequence[Agreement],
    benchmark: Benchmark,
    names: Sequence[str],
    methods: Sequence[Method],
    protocol: Protocol,
) -> list[Agreement]:
    """The rows, with p-values of paired tests of each method against the best of its column, corrected by table."""
    p_values: dict[int, float] = {}
    tables: dict[tuple[str, str], list[int]] = {}
    for position, row in enumerate(rows):
        of_its_own = row.dimension != MEAN or len(names) > 1  # one dimension is its own mean
        if row.value is not None and row.statistic != PARTIAL and of_its_own:
            tables.setdefault((row.level, row.statistic), []).append(position)
    for (level, statistic), positions in tables.items():
        rising = sorted(positions, key=lambda position: rows[position].value or 0.0)
        best = {rows[position].dimension: rows[position].method for position in rising}
        found = _p_values(
            benchmark,
            names,
            methods,
            best,
            replace(protocol, levels=[level], statistics=[statistic]),
        )
        keys = {place: (rows[place].method, rows[place].dimension) for place in positions}
        p_values |= {place: found[key] for place, key in keys.items() if key in found}
    return _corrected(rows, p_values, "p_best")


def _p_values(
    benchmark: Benchmark,
    names: Sequence[str],
    methods: Sequence[Method],
    best: Mapping[str, str],
    protocol: Protocol,
) -> dict[tuple[str, str], float]:
    """The p-value of each method and dimension of one table against the best method of this dimension."""
    found = {}
    for method, reference in itertools.permutations(methods, 2):
        if reference.name not in best.values():
            continue
        for row in evaluate_method(
            benchmark,
            method.scores,
            method=method.name,
            signature=method.signature,
            dimensions=names,
            levels=protocol.levels,
            statistics=protocol.statistics,
            constant=protocol.constant,
            resamples=protocol.resamples or permutations_for(len(best) * (len(methods) - 1)),
            seed=protocol.seed,
            reference=(reference.name, reference.scores),
        ):
            if row.p_value is not None and best.get(row.dimension) == reference.name:
                found[row.method, row.dimension] = row.p_value
    return found


def few_permutations(rows: Sequence[Agreement], resamples: int) -> str | None:
    """A sentence if this number of permutations is too small for the tests of these rows, else None."""
    tables = [
        Counter((row.level, row.statistic) for row in rows if getattr(row, key) is not None)
        for key in ("p_adjusted", "p_best")
    ]
    tests = max([count for table in tables for count in table.values()], default=0)
    needed = permutations_for(tests)
    if not tests or resamples >= needed:
        return None
    return (
        f"--resamples {resamples} is few for {tests} corrected tests: no corrected p-value can be below "
        f"{min(1.0, tests / (resamples + 1)):.2g}; give at least {needed}, or leave --resamples out"
    )


def _corrected(
    rows: Sequence[Agreement], p_values: Mapping[int, float], name: str
) -> list[Agreement]:
    """The rows with p-values, by position, after Holm's correction over those of one level and statistic: a table."""
    corrected = list(rows)
    for table in {(rows[place].level, rows[place].statistic) for place in p_values}:
        tested = [
            place for place in p_values if (rows[place].level, rows[place].statistic) == table
        ]
        for place, value in zip(tested, holm([p_values[place] for place in tested]), strict=True):
            corrected[place] = replace(rows[place], **{name: value})  # type: ignore[arg-type]
    return corrected
