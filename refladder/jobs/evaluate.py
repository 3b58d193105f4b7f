"""evaluate: a benchmark, its ladders, a judge -> scores of every method -> agreement with people."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from refladder.errors import UnknownNameError, UsageError
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
from refladder.methods.surface import BEST, MEASURES, surface_methods, words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from refladder.methods.contract import Method
    from refladder.records import Benchmark, Dimension

    Scores = dict[tuple[str, str], float | None]


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
