"""Uncertainty of a correlation: resamples over contexts and a paired test between two methods.

Contexts are drawn, not outputs: outputs of one context share its difficulty and its raters. A resample is a vector of
counts, one per context. Every level correlates a grid with repeated rows exactly without repeating them. The paired
test uses the same functions: swapping the scores of two methods in a context gives weight 0 to one and 1 to the other
of two stacked grids.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from refladder.errors import ShapeError, UsageError
from refladder.records import digest_of
from refladder.statistics import LEVELS, STATISTICS
from refladder.statistics.correlation import (
    check_name,
    complete_pairs,
    correlate_rows,
    pair_signs,
    ranks_over_all,
)
from refladder.statistics.levels import system_means

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from refladder.arrays import BoolArray, FloatArray

# An interval of a mean difference needs at least this number of contexts.
LEAST_CONTEXTS = 10
# Up to this number of contexts, all swaps are made.
MOST_EXACT = 16
_ROUNDING = 1e-12
# A draw has no variance if it has less than this part of the variance of all differences: the rest is rounding.
_NO_VARIANCE = 1e-9
# A temporary array holds at most this number of numbers.
_CHUNK = 2**20
# At most this number of swaps is held at once.
_SWAPS = 2**22


def resample(
    predicted: FloatArray,
    human: FloatArray,
    weights: FloatArray,
    *,
    level: str = "within_context",
    statistic: str = "spearman",
    constant: str = "skip",
) -> FloatArray:
    """Correlate a grid once per row of weights, as if each context was repeated that often.

    Exact at every level. Pooled Kendall compares all pairs of outputs once (n^2 time, little memory).

    Args:
        predicted: shape (contexts, systems), finite or NaN.
        human: the same shape.
        weights: shape (resamples, contexts), whole numbers from 0.
        level: `within_context`, `pooled` or `between_systems`.
        statistic: `spearman`, `kendall` or `pearson`.
        constant: `skip`, `zero` or `one`; used at `within_context` only.

    Returns:
        Shape (resamples,), between -1 and 1, NaN where a resample has no correlation.

    Raises:
        ShapeError: the shapes do not fit each other.
        UnknownNameError: no such level, statistic or convention.
        UsageError: a value is infinite.
    """
    check_name("level", level, LEVELS)
    check_name("statistic", statistic, STATISTICS)
    left, right = complete_pairs(predicted, human)
    if weights.ndim != 2 or weights.shape[1] != len(left):
        raise ShapeError(
            f"weights must be (resamples, contexts) with {len(left)} contexts; got {weights.shape}"
        )
    if level == "within_context":
        return resample_mean(correlate_rows(left, right, statistic, constant), weights)
    if level == "between_systems":
        return correlate_rows(*system_means(left, right, weights, statistic), statistic)
    complete = ~np.isnan(left)
    context = np.nonzero(complete)[0]
    values = np.full(len(weights), np.nan)
    varied = _varied(left, weights) & _varied(right, weights)
    if varied.any():
        pooled = _POOLED[statistic](left[complete], right[complete], context, weights[varied])
        values[varied] = np.clip(pooled, -1.0, 1.0)
    return values


def resample_mean(rows: FloatArray, weights: FloatArray) -> FloatArray:
    """Average rows, shape (contexts,), for each row of weights, shape (resamples, contexts). NaN is left out."""
    used = ~np.isnan(rows)
    counts = weights @ used
    sums = weights @ np.where(used, rows, 0.0)
    means: FloatArray = np.divide(sums, counts, out=np.full(len(sums), np.nan), where=counts > 0)
    return means


def paired_differences(
    first: FloatArray,
    second: FloatArray,
    human: FloatArray,
    swaps: BoolArray,
    *,
    level: str = "within_context",
    statistic: str = "spearman",
    constant: str = "skip",
) -> tuple[float, FloatArray, int]:
    """Return the difference in correlation of two methods, observed and with scores swapped in some contexts.

    The methods are compared on the outputs that both scored. Within contexts, they are compared on the contexts where
    both have a correlation, so that a swap changes the sign of the difference of a context. At the other levels scores
    are first put on one scale: ranks over all outputs for pooled rank statistics, else mean 0 and deviation 1. This
    changes no correlation and lets methods with different scales swap scores. It is PERM-BOTH of Deutsch et al. 2021,
    over contexts.

    Args:
        first: shape (contexts, systems), finite or NaN.
        second: the same shape.
        human: the same shape.
        swaps: shape (permutations, contexts), true where the scores of a context are swapped.
        level: `within_context`, `pooled` or `between_systems`.
        statistic: `spearman`, `kendall` or `pearson`.
        constant: `skip`, `zero` or `one`; used at `within_context` only.

    Returns:
        The difference (first minus second), the permuted differences of shape (permutations,), and the number of
        contexts compared. NaN where a correlation is undefined.

    Raises:
        ShapeError: the shapes do not fit each other.
        UnknownNameError: no such level, statistic or convention.
        UsageError: a value is infinite.
    """
    first_scores, second_scores, ratings = _paired(
        first, second, human, level=level, statistic=statistic, constant=constant
    )
    scores = np.concatenate((first_scores, second_scores))
    gold = np.concatenate((ratings, ratings))
    swapped = np.concatenate((np.zeros((1, len(ratings)), dtype=np.bool_), swaps))
    options = {"level": level, "statistic": statistic, "constant": constant}
    differences = np.empty(len(swapped))
    step = max(1, _SWAPS // max(1, len(ratings)))
    for start in range(0, len(swapped), step):
        part = swapped[start : start + step]
        weights = np.concatenate((~part, part), axis=1).astype(np.float64)
        mirror = np.concatenate((part, ~part), axis=1).astype(np.float64)
        differences[start : start + step] = resample(scores, gold, weights, **options)
        differences[start : start + step] -= resample(scores, gold, mirror, **options)
    compared = int((~np.isnan(first_scores)).any(axis=1).sum())
    return float(differences[0]), differences[1:], compared


def permutation_p_value(difference: float, permuted: FloatArray) -> float:
    """Return the two-sided p-value (k + 1) / (n + 1), where k permuted differences are at least as far from 0.

    NaN in `permuted`, shape (permutations,), counts as at least as far; NaN for a difference of NaN.
    """
    if np.isnan(difference):
        return np.nan
    # Rounding must not turn a tie into a smaller difference.
    smaller = np.abs(permuted) < abs(difference) - _ROUNDING
    return float((np.count_nonzero(~smaller) + 1) / (len(permuted) + 1))


class MeanDifference(NamedTuple):
    """The mean of one system minus that of another over `contexts`; None where there is no such number."""

    difference: float | None
    low: float | None
    high: float | None
    p: float | None
    contexts: int


def mean_difference(
    first: FloatArray,
    second: FloatArray,
    *,
    permutations: int = 10_000,
    resamples: int = 2_000,
    seed: int = 0,
) -> MeanDifference:
    """Compare the means of two systems over the contexts that both have.

    The interval holds both the studentised bootstrap over contexts and Student's t. From LEAST_CONTEXTS contexts on, it
    covers .92 to .97, and .89 where 70 % of ten differences are 0 (bench/results/compare.md); it is then usually 1 to
    1.5 times as long as Student's, and many times in the rare case of a few differences far apart among many zeros. The
    p-value is that of the paired permutation test, two-sided: the systems swap their values in the choices of contexts
    that `draw_swaps` makes.

    Source: Efron and Tibshirani 1993, An Introduction to the Bootstrap, section 12.5 (interval), 15.2 (test).

    Args:
        first: shape (contexts,), the value of one system in each context, NaN where it has none.
        second: shape (contexts,), the values of the other system.
        permutations: number of random swaps, for more than MOST_EXACT contexts.
        resamples: number of draws of contexts.
        seed: seed of both.

    Returns:
        The difference of the means, its 95 % interval (None below LEAST_CONTEXTS contexts, and where all differences
        are equal), the p-value and the number of contexts.

    Raises:
        ShapeError: the shapes differ, or there is not one axis.
        UsageError: fewer than one permutation.
    """
    from scipy.special import stdtrit

    if first.ndim != 1 or first.shape != second.shape:
        raise ShapeError(
            f"first and second must have one shape (contexts,), got {first.shape} and {second.shape}"
        )
    differences = first - second
    differences = differences[~np.isnan(differences)]
    contexts = len(differences)
    if not contexts:
        return MeanDifference(None, None, None, None, 0)
    mean = float(differences.mean())
    largest = float(np.abs(differences).max()) or 1.0
    scaled = differences / largest
    permuted = [
        (1.0 - 2.0 * swaps) @ scaled for swaps in _swaps_in_blocks(contexts, permutations, seed)
    ]
    p = permutation_p_value(mean / largest, np.concatenate(permuted) / contexts)
    error = float(differences.std(ddof=1)) / contexts**0.5 if contexts > 1 else 0.0
    if contexts < LEAST_CONTEXTS or error <= _ROUNDING * largest:
        return MeanDifference(mean, None, None, p, contexts)
    random = np.random.default_rng(seed)
    centred = differences - mean
    squared = centred**2
    step = max(1, _CHUNK // contexts)
    moments = []
    for start in range(0, resamples, step):
        size = min(step, resamples - start)
        drawn = random.multinomial(contexts, np.full(contexts, 1 / contexts), size=size)
        weights = drawn / contexts
        moments.append((weights @ centred, weights @ squared))
    means, squares = np.concatenate(moments, axis=1)
    variances = np.maximum(squares - means**2, 0.0) * contexts / (contexts - 1)
    # A draw of equal differences has no error of its own; its statistic is left out.
    usable = variances > _NO_VARIANCE * contexts * error**2
    statistics = means[usable] / np.sqrt(variances[usable] / contexts)
    lowest, highest = np.quantile(statistics, [0.025, 0.975])
    student = float(stdtrit(contexts - 1, 0.975))
    low = mean - max(float(highest), student) * error
    high = mean - min(float(lowest), -student) * error
    return MeanDifference(mean, low, high, p, contexts)


def draw_swaps(contexts: int, permutations: int = 1000, seed: int = 0) -> BoolArray:
    """Return choices of contexts in which two methods swap their scores: shape (choices, contexts).

    For up to MOST_EXACT contexts they are all choices but the one without a swap, so that the p-value is exact. A choice
    and its opposite give differences of one size, so the last context never swaps. For more contexts they are random.
    """
    return np.concatenate(list(_swaps_in_blocks(contexts, permutations, seed)))


def _swaps_in_blocks(contexts: int, permutations: int, seed: int) -> Iterator[BoolArray]:
    """Yield the choices of `draw_swaps`, some at a time."""
    if permutations < 1:
        raise UsageError(f"resamples must be at least 1; got {permutations}; 1000 is usual")
    if contexts <= MOST_EXACT:
        choices = np.arange(1, 2 ** max(contexts - 1, 0))
        yield (choices[:, np.newaxis] >> np.arange(contexts)) % 2 == 1
        return
    random = np.random.default_rng(seed)
    # The generator makes 32 of them from one number, so blocks of 32 rows are the same as all rows at once.
    step = 32 * max(1, _CHUNK // (32 * contexts))
    for start in range(0, permutations, step):
        size = (min(step, permutations - start), contexts)
        yield random.integers(0, 2, size=size, dtype=np.bool_)


def context_seed(contexts: Iterable[str], seed: int) -> int:
    """Return a seed that depends on the names of contexts and not on their order."""
    return int(digest_of(str(seed), *sorted(contexts)), 16)


def _paired(
    first: FloatArray,
    second: FloatArray,
    human: FloatArray,
    *,
    level: str,
    statistic: str,
    constant: str,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return both methods on one scale, and the ratings, for the outputs that have all three values."""
    first, second = complete_pairs(first, second)
    ratings, first = complete_pairs(human, first)
    second, ratings = complete_pairs(second, ratings)
    if level == "within_context":
        undefined = np.isnan(correlate_rows(first, ratings, statistic, constant))
        undefined |= np.isnan(correlate_rows(second, ratings, statistic, constant))
        for values in (first, second, ratings):
            values[undefined] = np.nan
        return first, second, ratings
    if level == "pooled" and statistic != "pearson":
        return ranks_over_all(first), ranks_over_all(second), ratings
    return _standardised(first), _standardised(second), ratings


def _standardised(values: FloatArray) -> FloatArray:
    defined = values[~np.isnan(values)]
    if not len(defined):
        return values
    if defined.min() == defined.max():
        return np.where(np.isnan(values), np.nan, 0.0)
    centred = values - defined.mean()
    scaled: FloatArray = centred / np.nanstd(centred)
    return scaled


def _varied(values: FloatArray, weights: FloatArray) -> BoolArray:
    """Return whether the contexts with a weight hold two different values, shape (resamples,)."""
    drawn = weights > 0
    lowest = np.fmin.reduce(values, axis=1, initial=np.inf)
    highest = np.fmax.reduce(values, axis=1, initial=-np.inf)
    lowest_drawn = np.where(drawn, lowest, np.inf).min(axis=1, initial=np.inf)
    highest_drawn = np.where(drawn, highest, -np.inf).max(axis=1, initial=-np.inf)
    varied: BoolArray = lowest_drawn < highest_drawn
    return varied


def _pooled_pearson(
    left: FloatArray, right: FloatArray, context: NDArray[np.int64], weights: FloatArray
) -> FloatArray:
    # Centring brings the weighted means near 0, so subtracting them loses little precision.
    x, y = (values - values.mean() for values in (left, right))
    x /= np.abs(x).max()
    y /= np.abs(y).max()
    terms = np.stack([np.ones(len(x)), x, y, x * x, y * y, x * y])
    by_context = np.stack(
        [np.bincount(context, term, minlength=weights.shape[1]) for term in terms]
    )
    count, sum_x, sum_y, square_x, square_y, product = by_context @ weights.T
    spread = (square_x - sum_x**2 / count) * (square_y - sum_y**2 / count)
    covariance = product - sum_x * sum_y / count
    values: FloatArray = np.divide(
        covariance, np.sqrt(np.abs(spread)), out=np.full(len(weights), np.nan), where=spread > 0
    )
    return values


def _pooled_spearman(
    left: FloatArray, right: FloatArray, context: NDArray[np.int64], weights: FloatArray
) -> FloatArray:
    code_left = np.unique(left, return_inverse=True)[1]
    code_right = np.unique(right, return_inverse=True)[1]
    values = np.empty(len(weights))
    step = max(1, _CHUNK // len(context))
    for start in range(0, len(weights), step):
        part = slice(start, start + step)
        ranks_left, spread_left = _weighted_ranks(code_left, context, weights[part])
        ranks_right, spread_right = _weighted_ranks(code_right, context, weights[part])
        products = np.einsum(
            "rn,rn,rn->r",
            ranks_left[:, code_left],
            ranks_right[:, code_right],
            weights[part][:, context],
        )
        values[part] = products / np.sqrt(spread_left * spread_right)
    return values


def _weighted_ranks(
    codes: NDArray[np.int64], context: NDArray[np.int64], weights: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return centred average ranks of distinct values, (resamples, distinct), and their weighted sums of squares."""
    order = np.argsort(codes, kind="stable")
    starts = np.searchsorted(codes[order], np.arange(codes.max() + 1))
    counts = np.add.reduceat(weights[:, context[order]], starts, axis=1)
    upper = np.cumsum(counts, axis=1)
    # A value drawn c times up to rank u has the ranks u-c+1 .. u; all n ranks have the mean (n + 1) / 2.
    ranks: FloatArray = upper - counts / 2.0 - upper[:, -1:] / 2.0
    return ranks, np.einsum("rk,rk,rk->r", counts, ranks, ranks)


def _pooled_kendall(
    left: FloatArray, right: FloatArray, context: NDArray[np.int64], weights: FloatArray
) -> FloatArray:
    """Compute tau-b of each resample as quadratic forms of its weights.

    Summed over the pairs of outputs of contexts a and b, let C[a, b] be the product of the two orders (1, 0, -1) and
    X[a, b], Y[a, b] the squares of each. Drawing context a w[a] times repeats each of its pairs with b w[a] w[b]
    times, and two copies of one output are a tie in both, so tau-b = wCw / sqrt(wXw * wYw).
    """
    contexts = weights.shape[1]
    blocks = np.zeros((3, contexts, contexts))
    step = max(1, _CHUNK // len(context))
    for row in np.unique(context):
        members = np.flatnonzero(context == row)
        for start in range(0, len(members), step):
            part = members[start : start + step, np.newaxis]
            order_left = pair_signs(left[part], left)
            order_right = pair_signs(right[part], right)
            terms = (order_left * order_right, np.abs(order_left), np.abs(order_right))
            for block, term in zip(blocks, terms, strict=True):
                sums = term.sum(axis=0, dtype=np.float64)
                block[row] += np.bincount(context, sums, minlength=contexts)
    agreeing, untied_left, untied_right = (
        ((weights @ block) * weights).sum(axis=1) for block in blocks
    )
    return np.asarray(agreeing / np.sqrt(untied_left * untied_right), dtype=np.float64)


_POOLED = {
    "spearman": _pooled_spearman,
    "kendall": _pooled_kendall,
    "pearson": _pooled_pearson,
}
