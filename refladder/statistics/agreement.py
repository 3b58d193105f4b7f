"""Scores against human ratings: grids, and one row of figures per method, dimension, level and statistic."""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from refladder.arrays import known
from refladder.errors import DataError, UnknownNameError, UsageError
from refladder.records import ids_of, names_of, without_none
from refladder.statistics import CONVENTIONS, LEVELS, STATISTICS
from refladder.statistics.bootstrap import (
    context_seed,
    draw_swaps,
    paired_differences,
    permutation_p_value,
    resample,
    resample_mean,
)
from refladder.statistics.correlation import (
    check_name,
    partial_correlate_rows,
    row_kinds,
)
from refladder.statistics.intervals import CONFIDENCE, jackknife_interval, leave_out
from refladder.statistics.levels import Correlation, average_over_contexts, correlate_level
from refladder.typed import checked

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from refladder.arrays import FloatArray
    from refladder.records import Benchmark, Output, Rating

MEAN = "mean"
PARTIAL = "partial_spearman"


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """Ratings and scores of one dimension: one row for each context, one column for each system.

    `human` and `predicted` have shape (contexts, systems), NaN where a value is missing. `output_ids` has the same
    shape, None where a system wrote nothing. Contexts and systems are in the order of the outputs. `unscored` counts
    the outputs with a rating and without a score; they are left out of their context.
    """

    dimension: str
    contexts: tuple[str, ...]
    systems: tuple[str, ...]
    output_ids: tuple[tuple[str | None, ...], ...]
    human: FloatArray
    predicted: FloatArray
    unscored: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """Agreement of one method with human ratings on one dimension, at one level and by one statistic.

    `value`, `low` and `high` are between -1 and 1, None where undefined. `low` and `high` are the ends of the interval
    from `refladder.statistics.intervals` with the given `confidence` (a share); the level `between_systems` has no
    interval. `contexts` is the number of contexts used, `skipped` the number left out. `constant_predicted` counts the
    contexts with varying ratings and constant scores. `unscored` counts the outputs with a rating and without a score.
    None of this depends on another method.

    `difference` is this method minus the method `reference`, on the `common` contexts: within contexts those in which
    both have a correlation, else those with an output that both scored. It is between -2 and 2. `p_value` belongs to
    its paired test; `p_adjusted` is corrected for all tests of the table, None for a row that is not tested. `p_best`
    is the corrected p-value of a test against the best method of this level, statistic and dimension.

    In the row of dimension `mean`, `value` and `difference` are unweighted means over dimensions (None if any dimension
    has None), `contexts` and `common` are the minimum over dimensions, `skipped` and `constant_predicted` the maximum,
    and `unscored` the sum.
    """

    method: str
    benchmark: str
    dimension: str
    level: str
    statistic: str
    value: float | None
    low: float | None
    high: float | None
    contexts: int
    skipped: int
    constant_predicted: int
    unscored: int
    signature: str
    constant: str = "skip"
    confidence: float = CONFIDENCE
    reference: str | None = None
    p_value: float | None = None
    p_adjusted: float | None = None
    difference: float | None = None
    common: int | None = None
    p_best: float | None = None


class _Figure(NamedTuple):
    """One correlation, its values without each context, and its observed and permuted differences from another."""

    correlation: Correlation
    left_out: FloatArray
    difference: float = math.nan
    permuted: FloatArray = np.empty(0)
    common: int | None = None


def human_means(ratings: Iterable[Rating]) -> dict[tuple[str, str], float]:
    """Average ratings over raters by (output id, dimension).

    The sum is exact, so that equal means are equal numbers.
    """
    values: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    for rating in ratings:
        if not math.isfinite(rating.value):
            raise DataError(
                f"rating of output {rating.output_id!r} on {rating.dimension!r} by {rating.rater!r} is {rating.value}; "
                "ratings must be finite numbers; leave out missing ones"
            )
        values[rating.output_id, rating.dimension].append(rating.value)
    return {key: math.fsum(rated) / len(rated) for key, rated in values.items()}


def build_grid(
    outputs: Sequence[Output],
    means: Mapping[tuple[str, str], float],
    scores: Mapping[tuple[str, str], float | None],
    dimension: str,
) -> Grid:
    """Arrange ratings (`means`) and scores of one dimension as grids.

    Outputs without a system fill the columns from the left in each context. Such a column is no system: it has a
    meaning within contexts and over all outputs only. Scores are rounded to 1e-12 of the largest, so that rounding errors
    do not break ties.
    """
    names = dict.fromkeys(output.context_id for output in outputs)
    contexts = {context: row for row, context in enumerate(names)}
    unnamed: Counter[str] = Counter()
    # The column of an output is that of its system, or of its number among outputs without one.
    keys: list[tuple[str, int]] = []
    for output in outputs:
        keys.append((output.system, 0 if output.system else unnamed[output.context_id]))
        unnamed[output.context_id] += not output.system
    systems = {key: column for column, key in enumerate(dict.fromkeys(keys))}
    output_ids: list[list[str | None]] = [[None] * len(systems) for _ in contexts]
    human = np.full((len(contexts), len(systems)), np.nan)
    predicted = np.full((len(contexts), len(systems)), np.nan)
    for output, key in zip(outputs, keys, strict=True):
        row = contexts[output.context_id]
        column = systems[key]
        other_id = output_ids[row][column]
        if other_id is not None:
            raise DataError(
                f"outputs {other_id!r} and {output.id!r} are both of system {output.system!r} for context "
                f"{output.context_id!r}; a context has one output of each system, give them different system names"
            )
        output_ids[row][column] = output.id
        human[row, column] = means.get((output.id, dimension), math.nan)
        score = scores.get((output.id, dimension))
        if score is not None and math.isinf(score):
            raise UsageError(
                f"score of output {output.id!r} on {dimension!r} is {score}; scores must be finite, or None for an "
                "output without a score"
            )
        predicted[row, column] = math.nan if score is None else score
    largest = np.fmax.reduce(np.abs(predicted), axis=None, initial=0.0)
    if largest > 0:
        # Rounding to decimal places keeps whole numbers and decimals as they are, so equal means stay equal.
        places = 12 - math.ceil(math.log10(largest))
        predicted = np.round(predicted, min(places, 300))
    return Grid(
        dimension=dimension,
        contexts=tuple(contexts),
        systems=tuple(system for system, _ in systems),
        output_ids=tuple(map(tuple, output_ids)),
        human=human,
        predicted=predicted,
        unscored=int((~np.isnan(human) & np.isnan(predicted)).sum()),
    )


@checked
def evaluate_method(
    benchmark: Benchmark,
    scores: Mapping[tuple[str, str], float | None],
    *,
    method: str,
    signature: str,
    dimensions: Sequence[str] | None = None,
    levels: Sequence[str] = LEVELS,
    statistics: Sequence[str] = STATISTICS,
    constant: str = "skip",
    resamples: int = 1000,
    seed: int = 0,
    control: Mapping[str, float] | None = None,
    reference: tuple[str, Mapping[tuple[str, str], float | None]] | None = None,
) -> list[Agreement]:
    """Compare the scores of a method with the human ratings of a benchmark.

    Args:
        benchmark: outputs and ratings.
        scores: (output id, dimension) to score, higher is better; None, NaN or no entry for an output without a
            score: it is left out of its context and counted.
        method: name of the method in the rows.
        signature: signature of the scores, copied to the rows.
        dimensions: names of dimensions; by default all dimensions of the benchmark.
        levels: some of `within_context`, `pooled`, `between_systems`.
        statistics: some of `spearman`, `kendall`, `pearson`.
        constant: how constant contexts count within contexts: `skip`, `zero` or `one`; see `correlate_rows`.
        resamples: number of permutations of the test, at least 1; up to MOST_EXACT contexts have all permutations.
        seed: seed of the permutations, which all dimensions, levels and methods share; the names of the contexts are
            added to it.
        control: output id to the length of the output (captions call it so); adds rows of statistic
            `partial_spearman` within contexts, which always skip constant contexts.
        reference: name and scores of the method to test against; fills `difference`, `common` and `p_value`.

    Returns:
        For each level and statistic, one row per dimension and one row of dimension `mean`.

    Raises:
        DataError: a rating is not finite, or a context has two outputs of one system.
        UnknownNameError: no such dimension, level, statistic or convention.
        UsageError: no score belongs to an output of the benchmark, a score is infinite, an output has no control, or
            an option is out of range.
    """
    available = tuple(names_of(benchmark.dimensions))
    chosen = available if dimensions is None else tuple(dimensions)
    for name in chosen:
        check_name("dimension", name, available)
    for name in levels:
        check_name("level", name, LEVELS)
    for name in statistics:
        check_name("statistic", name, STATISTICS)
    check_name("convention for constant contexts", constant, CONVENTIONS)
    _check_keys(benchmark, scores, chosen, method)
    means = human_means(benchmark.ratings)
    grids = [build_grid(benchmark.outputs, means, scores, name) for name in chosen]
    other_scores: list[FloatArray | None] = [None] * len(grids)
    if reference is not None:
        other_scores = [
            build_grid(benchmark.outputs, means, reference[1], name).predicted for name in chosen
        ]
    contexts = list(dict.fromkeys(output.context_id for output in benchmark.outputs))
    weights = leave_out(len(contexts))
    # Swaps are drawn for contexts in sorted order, so p-values do not depend on the order of the rows.
    places = {name: place for place, name in enumerate(sorted(contexts))}
    swaps = draw_swaps(len(contexts), resamples, context_seed(contexts, seed))
    swaps = swaps[:, [places[name] for name in contexts]]

    def row(
        figure: _Figure, dimension: str, level: str, statistic: str, unscored: int
    ) -> Agreement:
        low, high = jackknife_interval(
            figure.correlation.value, figure.left_out, figure.correlation.contexts
        )
        return Agreement(
            method=method,
            benchmark=benchmark.name,
            dimension=dimension,
            level=level,
            statistic=statistic,
            value=known(figure.correlation.value),
            low=known(low),
            high=known(high),
            contexts=figure.correlation.contexts,
            skipped=figure.correlation.skipped,
            constant_predicted=figure.correlation.constant_predicted,
            unscored=unscored,
            signature=signature,
            constant="skip" if statistic == PARTIAL else constant,
            reference=None if reference is None or statistic == PARTIAL else reference[0],
            p_value=known(permutation_p_value(figure.difference, figure.permuted)),
            difference=known(figure.difference),
            common=figure.common,
        )

    rows = []
    cells = [(level, statistic) for level in levels for statistic in statistics]
    if control is not None:
        cells.append(("within_context", PARTIAL))
    for level, statistic in cells:
        options = {"level": level, "statistic": statistic, "constant": constant}
        figures = []
        for grid, other in zip(grids, other_scores, strict=True):
            if control is not None and statistic == PARTIAL:
                figure = _partial_figure(grid, control, weights)
            else:
                figure = _figure(grid, other, weights, swaps, options)
            figures.append(figure)
            rows.append(row(figure, grid.dimension, level, statistic, grid.unscored))
        unscored = sum(grid.unscored for grid in grids)
        rows.append(row(_mean_figure(figures), MEAN, level, statistic, unscored))
    return rows


def _check_keys(
    benchmark: Benchmark,
    scores: Mapping[tuple[str, str], float | None],
    dimensions: Sequence[str],
    method: str,
) -> None:
    if not dimensions:
        raise UsageError(f"no dimension of {benchmark.name!r} is selected; select at least one")
    if not benchmark.outputs:
        raise UsageError(
            f"benchmark {benchmark.name!r} has no outputs; there is nothing to evaluate"
        )
    output_ids = ids_of(benchmark.outputs)
    keys = itertools.product(output_ids, dimensions)
    if not scores or any(key in scores for key in keys):
        return
    output_id, dimension = next(iter(scores))
    if output_id in output_ids:
        raise UnknownNameError(f"dimension of the scores of {method!r}", dimension, dimensions)
    raise UsageError(
        f"no score of {method!r} is for an output of {benchmark.name!r}: the first score is for output {output_id!r}, "
        f"the benchmark's first output is {output_ids[0]!r}; check that the scores belong to this benchmark"
    )


def _figure(
    grid: Grid,
    reference: FloatArray | None,
    weights: FloatArray,
    swaps: np.ndarray,
    options: Mapping[str, str],
) -> _Figure:
    # No interval between systems: leaving contexts out does not measure the variation over systems, and no interval
    # reached its nominal coverage there (bench/results/statistics.md, section `intervals`).
    left_out = np.empty(0)
    if options["level"] != "between_systems":
        left_out = resample(grid.predicted, grid.human, weights, **options)
    correlation = correlate_level(grid.predicted, grid.human, **options)
    if reference is None:
        return _Figure(correlation, left_out)
    compared = paired_differences(grid.predicted, reference, grid.human, swaps, **options)
    return _Figure(correlation, left_out, *compared)


def _partial_figure(grid: Grid, control: Mapping[str, float], weights: FloatArray) -> _Figure:
    output_ids = list(itertools.chain.from_iterable(grid.output_ids))
    missing = [each for each in output_ids if each is not None and each not in control]
    if missing:
        raise UsageError(
            f"control has no number for {len(missing)} outputs, the first is {missing[0]!r}; give one for every output"
        )
    controls = [math.nan if each is None else control[each] for each in output_ids]
    third = np.array(controls).reshape(grid.human.shape)
    rows = partial_correlate_rows(grid.predicted, grid.human, third)
    constant = int(row_kinds(grid.predicted, grid.human).predicted_constant.sum())
    return _Figure(average_over_contexts(rows, constant), resample_mean(rows, weights))


def _mean_figure(figures: Sequence[_Figure]) -> _Figure:
    """Average over dimensions, unweighted; NaN if any dimension is NaN, since the rest would not be comparable."""
    correlations, left_out, differences, permuted, common = zip(*figures, strict=True)
    values, contexts, skipped, constant_predicted = zip(*correlations, strict=True)
    return _Figure(
        correlation=Correlation(
            value=float(np.mean(values)),
            contexts=min(contexts),
            skipped=max(skipped),
            constant_predicted=max(constant_predicted),
        ),
        left_out=np.mean(left_out, axis=0),
        difference=float(np.mean(differences)),
        permuted=np.mean(permuted, axis=0),
        common=min(without_none(common), default=None),
    )
