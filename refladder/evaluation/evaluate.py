"""evaluate: benchmarks and a judge -> scores of every method -> agreement with people."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from refladder.backends.dry_run import DryRunBackend
from refladder.backends.metered import total
from refladder.errors import (
    UnknownNameError,
    UsageError,
    agreeing,
    column_option,
    either,
    option,
    plural,
)
from refladder.evaluation.cards import report_cards
from refladder.evaluation.charts import file_stems
from refladder.evaluation.recorded_judgments import check_recorded, default_method
from refladder.evaluation.results import Evaluation, Evaluations, write_evaluation
from refladder.files.jsonl import write_json
from refladder.files.ladder_sets import LadderSet, as_ladder_set
from refladder.files.locks import locked_folder
from refladder.files.outputs import RunConfig
from refladder.jobs.score import with_anchors
from refladder.loaders.data import one_alone, one_each
from refladder.methods.contract import LADDER, MethodSettings
from refladder.methods.ladder import ladders_for
from refladder.methods.method_runs import rehearse_methods, run_methods, scored_methods
from refladder.methods.score_files import read_scores
from refladder.methods.surface import BEST, MEASURES, best_name, surface_methods, words
from refladder.options import OPTIONS
from refladder.prompts import check_folder
from refladder.records import ids_of, names_of
from refladder.scoring.modes import mode_of
from refladder.scoring.recorded import Recorded, read_recorded
from refladder.scoring.recorded_files import recorded_files
from refladder.settings import Given, chosen
from refladder.statistics import CONVENTIONS, LEVELS, STATISTICS
from refladder.statistics.agreement import (
    MEAN,
    PARTIAL,
    Agreement,
    build_grid,
    evaluate_method,
    human_means,
)
from refladder.statistics.bootstrap import MOST_EXACT
from refladder.statistics.correction import holm, permutations_for
from refladder.statistics.correlation import check_name
from refladder.typed import checked_record

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from refladder.backends import Backend
    from refladder.backends.plain_function import Judge
    from refladder.events import Events
    from refladder.loaders.data import Data
    from refladder.methods.contract import Judge as OpenJudge
    from refladder.methods.contract import Method
    from refladder.options import NamedOptions
    from refladder.records import Benchmark, Dimension
    from refladder.session import Session

BASELINES = ("best", "all")
BETWEEN = "between_systems"


@checked_record
@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """How agreement is computed.

    `levels` and `statistics` name the correlations, `constant` the convention for contexts with constant ratings or
    scores (see `refladder.statistics.agreement.evaluate_method`). Every method is tested against the method `reference`
    with `resamples` permutations, drawn with `seed`; None chooses the number of permutations by the number of tests.
    Up to 16 contexts have all permutations, so that their p-values are exact.

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


class EvaluatedPart(NamedTuple):
    """The part of a benchmark to evaluate, its dimensions, what was left out, and the settings."""

    benchmark: Benchmark
    dimensions: Sequence[Dimension]
    left_out: tuple[str, ...]
    settings: MethodSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluateSpec:
    """Which methods to compare on which benchmarks.

    `benchmarks` have their dimensions with them, which the user may have named. `ladders` has a set for each, None for
    that of `settings`. `judge` is the name of a backend, an open one, a function or recorded judgments. `writer` None
    is that of `settings`, else the judge. `scores` are files with the scores of other programs. `config` is written to
    run.json in the folder `work`.
    """

    benchmarks: Sequence[tuple[Benchmark, Sequence[Dimension]]]
    methods: Sequence[str]
    judge: str | Backend | Judge = "builtin"
    judge_options: Mapping[str, object] | None = None
    writer: str | Backend | None = None
    writer_options: Mapping[str, object] | None = None
    ladders: Sequence[str | Path | LadderSet | None] = (None,)
    scores: Sequence[str] = ()
    score_columns: Mapping[str, str] = field(default_factory=dict)
    settings: MethodSettings = field(default_factory=MethodSettings)
    protocol: Protocol = field(default_factory=Protocol)
    dimensions_named: bool = False
    config: RunConfig = field(default_factory=RunConfig)

    def __post_init__(self) -> None:
        if self.score_columns and not self.scores:
            raise UsageError(
                "--score-column names a column of --scores FILE, and no file is given; add --scores FILE"
            )


def spec_of(
    given: Given,
    named: NamedOptions,
    data: Sequence[Data],
    events: Events,
    *,
    settings: MethodSettings,
    protocol: Protocol,
    config: RunConfig,
) -> EvaluateSpec:
    """Return the settings of a run on these data, which are read; `named` is what the user named."""
    mode_of(settings.answers).check_settings(settings.scoring)
    check_folder(settings.prompts)
    if given["ladders"] and given["writer"] is not None:
        raise UsageError(
            either(
                "--ladders names ladders that exist, and --writer writes new ones; give one of them",
                "ladders are a set that exists, and writer writes new ones; give one of them",
            )
        )
    one_alone(len(data), scores=given["scores"], judgments_from=given["judgments_from"])
    named_sets = one_each(
        given["ladders"], len(data), "ladder set", name="ladders", one_for_all=True
    )
    sets = list(map(as_ladder_set, named_sets))
    rated = [each.rated(its) for each, its in zip(data, sets, strict=True)]
    if settings.prompts is not None:
        named = [*named, ("settings.prompts", OPTIONS["prompts"])]
    files = recorded_files(given, named, data[0].path or data[0].source)
    recorded = read_recorded(*dict.fromkeys(files)) if files else None
    if recorded is not None:
        events.notice(recorded.notice)
        if given["dimensions"] and data[0].is_table(sets[0]):
            # The table was read without the other dimensions.
            recorded = recorded.on(names_of(rated[0][1]))
    names_backend = any(given[name] for name in ("judge", "writer", "ladders"))
    scores_only = bool(given["scores"]) and not names_backend
    found = {
        "benchmarks": rated,
        "ladders": sets,
        "judge": recorded or given["judge"],
        "writer": None if given["writer"] == given["judge"] else given["writer"],
        "methods": methods_to_run(given["methods"], recorded, scores_only=scores_only),
        "scores": list(map(str, given["scores"])),
        "dimensions_named": bool(given["dimensions"]),
        "settings": settings,
        "protocol": protocol,
        "config": config,
    }
    return chosen(EvaluateSpec, {**given, **found})


def methods_to_run(
    given: str | Sequence[str] | None, recorded: Recorded | None, *, scores_only: bool
) -> list[str]:
    """Return the names of methods from a list, or a text with commas; None is the default."""
    if given is None and recorded:
        return [default_method(recorded)]
    if given is None:
        return [] if scores_only else [LADDER]
    names = given.split(",") if isinstance(given, str) else given
    return [name.strip() for name in names if name.strip()]


def rehearse(spec: EvaluateSpec, session: Session, events: Events) -> None:
    """Request the same judgments and texts from backends that give no answers; report what is left out, and the notes."""
    for benchmark, dimensions, left_out, settings in _parts(spec, session)[0]:
        judge = _judge(spec, session)
        said = rehearse_methods(spec.methods, benchmark, dimensions, judge, settings)
        for line in left_out:
            events.notice(line, warns=True)
        for name, sentence in said:
            events.notice(f"{name}: {sentence}", warns=True)


def run(spec: EvaluateSpec, session: Session, events: Events) -> Evaluations:
    """Score the outputs of benchmarks with methods, and correlate the scores with their ratings."""
    parts, others = _parts(spec, session)
    bars = partial(events.progress, watch=session.under_way)
    evaluations = []
    for number, part in enumerate(parts):
        work, settings = part.settings.work, replace(part.settings, progress=bars)
        with nullcontext() if work is None else locked_folder(work):
            evaluation = _evaluated(
                spec, part._replace(settings=settings), others, _judge(spec, session)
            )
            if work is not None:
                write_evaluation(work, evaluation, others)
                write_json(work / "run.json", _config(spec, number, work, evaluation))
        evaluations.append(evaluation)
    return Evaluations(evaluations)


def _parts(spec: EvaluateSpec, session: Session) -> tuple[list[EvaluatedPart], list[Method]]:
    """Return the parts of benchmarks that are evaluated, checked, and the methods whose scores are in files.

    Of several benchmarks, each has its ladders, and a folder in the folder `work`. Where the user has not named the
    dimensions, those without ladders or recorded judgments are left out; see `_covered`.
    """
    recorded = spec.judge if isinstance(spec.judge, Recorded) else None
    asked = replace(spec.settings, checks=spec.settings.checks or session.checks_of(spec.judge))
    if spec.writer is not None:
        asked = replace(asked, writer=partial(session.open, spec.writer, spec.writer_options))
    names = [benchmark.name for benchmark, _ in spec.benchmarks]
    for name, times in Counter(names).items():
        if times > 1:
            raise UsageError(f"benchmark {name!r} is named {times} times; name each benchmark once")
    parts = []
    for (benchmark, dimensions), its_ladders in zip(spec.benchmarks, spec.ladders, strict=True):
        its = replace(asked, ladders=its_ladders or asked.ladders)
        if its.work is not None and len(names) > 1:
            its = replace(its, work=its.work / file_stems(names)[benchmark.name])
        opened = _opened_set(its, spec.methods)
        if opened is not None:
            its = replace(its, ladders=opened)
            ladders_for(benchmark, dimensions if spec.dimensions_named else (), opened)
        if recorded is not None:
            check_recorded(recorded, benchmark, spec.methods, its)
            its = replace(its, answers=recorded.mode)
        covered = _covered(benchmark, dimensions, opened, recorded, named=spec.dimensions_named)
        parts.append(EvaluatedPart(*covered, its))
    first = spec.benchmarks[0][0], parts[0].dimensions
    others = [read_scores(path, *first, spec.score_columns) for path in spec.scores]
    for each in parts:
        check_evaluation(each.benchmark, each.dimensions, spec.methods, others, spec.protocol)
    return parts, others


def _opened_set(settings: MethodSettings, methods: Sequence[str]) -> LadderSet | None:
    """Open the ladder set of method `ladder`, with the anchors that score; None if it is not run or names none."""
    named = settings.ladders
    if named is None or LADDER not in methods:
        if settings.anchors is not None:
            raise UsageError(
                f"{option('anchors')} is for method {LADDER!r} with a shared set; name the set with {option('ladders')} "
                "SET, or leave it out"
            )
        return None
    opened = as_ladder_set(named)
    return opened if settings.anchors is None else with_anchors(opened, settings.anchors)


def _covered(
    benchmark: Benchmark,
    dimensions: Sequence[Dimension],
    ladders: LadderSet | None,
    recorded: Recorded | None,
    *,
    named: bool,
) -> tuple[Benchmark, Sequence[Dimension], tuple[str, ...]]:
    """Return the part of a benchmark with ladders and recorded judgments, its dimensions, and what is left out.

    Left out are the dimensions without ladders or recorded judgments (unless the user `named` them), the contexts
    without a ladder, and the outputs without a recorded judgment. A ladder that could not be written is no reason.
    """
    notes: list[str] = []
    if not named:
        dimensions = _judged_dimensions(benchmark, dimensions, ladders, recorded, notes)
    names = set(names_of(dimensions))
    outputs = list(benchmark.outputs)
    if ladders is not None and not ladders.anchors:
        written = (*ladders.ladders, *ladders.failures)
        ids = {context_id for context_id, name in written if name in names}
        count = sum(context.id in ids for context in benchmark.contexts)
        if not count:
            raise UsageError(
                f"{ladders.name} has no ladder for any context of {benchmark.name}; the ladders were written for other "
                f"data: name others with {option('ladders')}"
            )
        if count < len(benchmark.contexts):
            outputs = [output for output in outputs if output.context_id in ids]
            have = agreeing(count, "has a ladder", "have ladders")
            notes.append(
                f"{benchmark.name}: {count:,} of {plural(len(benchmark.contexts), 'context')} {have} in "
                f"{ladders.name}; the others, and their "
                f"{plural(len(benchmark.outputs) - len(outputs), 'output')}, are left out"
            )
    if recorded is not None:
        judged = recorded.on(names).outputs()
        among = len(outputs)
        outputs = [output for output in outputs if (output.context_id, output.id) in judged]
        if len(outputs) < among:
            have = agreeing(len(outputs), "has", "have")
            notes.append(
                f"{benchmark.name}: {len(outputs):,} of {plural(among, 'output')} {have} recorded judgments; the others "
                "are left out"
            )
    if len(outputs) == len(benchmark.outputs):
        return benchmark, dimensions, tuple(notes)
    left = set(ids_of(outputs))
    contexts = {output.context_id for output in outputs}
    part = replace(
        benchmark,
        contexts=tuple(context for context in benchmark.contexts if context.id in contexts),
        outputs=tuple(outputs),
        ratings=tuple(rating for rating in benchmark.ratings if rating.output_id in left),
    )
    return part, dimensions, tuple(notes)


def _judged_dimensions(
    benchmark: Benchmark,
    dimensions: Sequence[Dimension],
    ladders: LadderSet | None,
    recorded: Recorded | None,
    notes: list[str],
) -> Sequence[Dimension]:
    needed: dict[str, set[str]] = {}
    if ladders is not None:
        needed[f"ladders in {ladders.name}"] = set(names_of(ladders.dimensions))
    if recorded is not None:
        needed["recorded judgments"] = recorded.dimensions()
    for which, names in needed.items():
        missing = [dimension.name for dimension in dimensions if dimension.name not in names]
        if not missing:
            continue
        lacks = f"{benchmark.name}: no {which} on {', '.join(missing)}"
        if len(missing) == len(dimensions):
            raise UsageError(f"{lacks}, but on {', '.join(sorted(names))}; name others")
        notes.append(f"{lacks}; left out")
        dimensions = [dimension for dimension in dimensions if dimension.name in names]
    return dimensions


def _evaluated(
    spec: EvaluateSpec, part: EvaluatedPart, others: Sequence[Method], judge: OpenJudge
) -> Evaluation:
    benchmark, dimensions, left_out, settings = part
    runs = run_methods(spec.methods, benchmark, dimensions, judge, settings)
    scored = scored_methods(runs, others)
    rows = agreement(benchmark, dimensions, scored, spec.protocol)
    notes: list[str] = []
    for run in runs:
        said = filter(None, (run.result.skipped, *run.result.notes))
        notes += [f"{run.name}: {note}" for note in said]
    return Evaluation(
        rows=tuple(rows),
        runs=tuple(runs),
        cards=tuple(report_cards(runs, benchmark, dimensions)),
        limits=(*left_out, *_limits(benchmark, rows, spec.protocol)),
        notes=tuple(notes),
        spent=total([run.spent for run in runs]),
        benchmark=benchmark,
        dimensions=tuple(dimensions),
        left_out=left_out,
    )


def _judge(spec: EvaluateSpec, session: Session) -> OpenJudge:
    """Return the function that opens the judge for a method that asks it; recorded judgments are open already."""
    recorded = spec.judge
    if isinstance(recorded, Recorded):
        opened = DryRunBackend(recorded) if session.dry_run else recorded
        return lambda: opened
    return partial(session.open, spec.judge, spec.judge_options)


def _config(spec: EvaluateSpec, number: int, work: Path, evaluation: Evaluation) -> dict[str, Any]:
    """Return what run.json holds of one of the benchmarks: its own name, source, set and folder."""
    options = dict(spec.config.options)
    for key in ("benchmark", "source", "ladders"):
        values = options.get(key)
        if isinstance(values, list | tuple):
            options[key] = values[number % len(values)] if values else None
    checks = list(map(asdict, evaluation.checks)) or None
    config = replace(spec.config, options={**options, "work": str(work)})
    return {**asdict(config), "judge_check": checks}


def check_evaluation(
    benchmark: Benchmark,
    dimensions: Sequence[Dimension],
    methods: Sequence[str],
    others: Sequence[Method],
    protocol: Protocol,
) -> None:
    """Check what `evaluate` is given, as far as that is possible before a method is run."""
    names = names_of(dimensions)
    if not any(rating.dimension in names for rating in benchmark.ratings):
        columns = ""
        if benchmark.name == "table":
            other = column_option(names[0], "NAME")
            columns = f". Ratings are read from columns of these names; map others with {other}"
        raise UsageError(
            f"{benchmark.name} has no ratings on {', '.join(names)}; add ratings, or choose other dimensions"
            f"{columns}"
        )
    if tuple(protocol.levels) == (BETWEEN,) and not _has_systems(benchmark):
        raise UsageError(
            f"{benchmark.name}: some outputs have no system, and {BETWEEN} compares systems; name them in a column "
            "'system'"
        )
    build_grid(benchmark.outputs, human_means(benchmark.ratings), {}, names[0])
    compared = [*dict.fromkeys(methods), *names_of(others), BEST, *MEASURES]
    for name, count in Counter(compared).items():
        if count > 1:
            raise UsageError(
                f"two methods are called {name!r}; rename the file of scores that has this name"
            )
    if protocol.reference is not None and protocol.reference not in compared:
        raise UnknownNameError("reference method", protocol.reference, compared)


def _limits(benchmark: Benchmark, rows: Sequence[Agreement], protocol: Protocol) -> list[str]:
    """Return what the rows cannot show: no correlation, or too few permutations."""
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
    contexts = {output.context_id for output in benchmark.outputs}
    if protocol.resamples is not None and len(contexts) > MOST_EXACT:
        few = few_permutations(rows, protocol.resamples)
        if few is not None:
            limits.append(few)
    return limits


def _has_single_outputs(benchmark: Benchmark) -> bool:
    """Return whether every context has one output at most, so that nothing can be correlated within contexts."""
    return len({output.context_id for output in benchmark.outputs}) == len(benchmark.outputs)


def _has_systems(benchmark: Benchmark) -> bool:
    """Return whether every output has a system."""
    return all(output.system for output in benchmark.outputs)


def agreement(
    benchmark: Benchmark,
    dimensions: Sequence[Dimension],
    methods: Sequence[Method],
    protocol: Protocol,
) -> list[Agreement]:
    """Compute the agreement of methods, and of the surface baselines, with the ratings.

    Each method has its value over its own contexts. The methods are tested against the reference on the contexts that
    both have, with Holm's correction; the baselines are tested only where there is no other method.
    """
    check_evaluation(benchmark, dimensions, (), methods, protocol)
    names = names_of(dimensions)
    shown = {BEST, protocol.reference or BEST}
    if protocol.baselines == "all":
        shown.update(MEASURES)
    baselines = []
    for method in methods:
        if method.baseline and any(score is not None for score in method.scores.values()):
            baselines.append(method)
    compared = [*methods, *surface_methods(benchmark, dimensions, shown, baselines)]
    asked = best_name(baselines) if protocol.reference == BEST else protocol.reference
    reference = next((method for method in compared if method.name == asked), None)
    tested: Sequence[Method] = []
    if reference is not None:
        # The baselines are tested only where there is no other method.
        tested = [each for each in methods if each is not reference]
        tested = tested or [each for each in compared if each is not reference]
    lengths = {output.id: float(len(words(output.text))) for output in benchmark.outputs}
    protocol = replace(protocol, levels=_levels(protocol.levels, benchmark))
    tests = len(tested) * len(names)
    rows: list[Agreement] = []
    for method in compared:
        rows += _method_rows(
            benchmark,
            names,
            method,
            protocol,
            tests=tests,
            reference=reference if method in tested else None,
            control=lengths if method in methods else None,
        )
    p_values = {}
    for position, row in enumerate(rows):
        if row.p_value is not None and row.dimension != MEAN:
            p_values[position] = row.p_value
    rows = _corrected(rows, p_values, "p_adjusted")
    if protocol.against_best:
        return _against_best(rows, benchmark, names, compared, protocol)
    return rows


def _levels(asked: Sequence[str], benchmark: Benchmark) -> list[str]:
    """Return the levels that are computed: `pooled` too where outputs are single, and none between systems without names."""
    levels = list(asked)
    if "within_context" in levels and "pooled" not in levels and _has_single_outputs(benchmark):
        levels.append("pooled")
    if _has_systems(benchmark):
        return levels
    return [level for level in levels if level != BETWEEN]


def _method_rows(
    benchmark: Benchmark,
    names: Sequence[str],
    method: Method,
    protocol: Protocol,
    *,
    tests: int,
    reference: Method | None,
    control: Mapping[str, float] | None = None,
) -> list[Agreement]:
    """Compute the agreement of one method; the number of `tests` of a table decides how many permutations are drawn."""
    return evaluate_method(
        benchmark,
        method.scores,
        method=method.name,
        signature=method.signature,
        dimensions=names,
        levels=protocol.levels,
        statistics=protocol.statistics,
        constant=protocol.constant,
        resamples=protocol.resamples or permutations_for(tests),
        seed=protocol.seed,
        control=control,
        reference=None if reference is None else (reference.name, reference.scores),
    )


def _against_best(
    rows: Sequence[Agreement],
    benchmark: Benchmark,
    names: Sequence[str],
    methods: Sequence[Method],
    protocol: Protocol,
) -> list[Agreement]:
    """Add p-values of paired tests of each method against the best of its column, corrected by table."""
    p_values: dict[int, float] = {}
    tables: dict[tuple[str, str], list[int]] = {}
    for position, row in enumerate(rows):
        # A single dimension is its own mean.
        of_its_own = row.dimension != MEAN or len(names) > 1
        if row.value is not None and row.statistic != PARTIAL and of_its_own:
            tables.setdefault((row.level, row.statistic), []).append(position)
    for (level, statistic), positions in tables.items():
        rising = sorted(positions, key=lambda position: rows[position].value or 0.0)
        best = {rows[position].dimension: rows[position].method for position in rising}
        of_table = replace(protocol, levels=[level], statistics=[statistic])
        found = _p_values(benchmark, names, methods, best, of_table)
        for position in positions:
            key = rows[position].method, rows[position].dimension
            if key in found:
                p_values[position] = found[key]
    return _corrected(rows, p_values, "p_best")


def _p_values(
    benchmark: Benchmark,
    names: Sequence[str],
    methods: Sequence[Method],
    best: Mapping[str, str],
    protocol: Protocol,
) -> dict[tuple[str, str], float]:
    """Return the p-value of each method and dimension of one table against the best method of this dimension."""
    found = {}
    tests = len(best) * (len(methods) - 1)
    for method, reference in itertools.permutations(methods, 2):
        if reference.name not in best.values():
            continue
        against_reference = _method_rows(
            benchmark, names, method, protocol, tests=tests, reference=reference
        )
        for row in against_reference:
            if row.p_value is not None and best.get(row.dimension) == reference.name:
                found[row.method, row.dimension] = row.p_value
    return found


def few_permutations(rows: Sequence[Agreement], resamples: int) -> str | None:
    """Return a sentence if this number of permutations is too small for the tests of these rows, else None."""
    corrected = [("p_adjusted", row) for row in rows if row.p_adjusted is not None]
    corrected += [("p_best", row) for row in rows if row.p_best is not None]
    tables = Counter((name, row.level, row.statistic) for name, row in corrected)
    tests = max(tables.values(), default=0)
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
    """Add p-values, by position, after Holm's correction over those of one level and statistic: a table."""
    corrected = list(rows)
    tables: defaultdict[tuple[str, str], dict[int, float]] = defaultdict(dict)
    for position, p_value in p_values.items():
        row = rows[position]
        tables[row.level, row.statistic][position] = p_value
    for table in tables.values():
        for position, value in zip(table, holm(list(table.values())), strict=True):
            corrected[position] = replace(rows[position], **{name: value})  # type: ignore[arg-type]
    return corrected
