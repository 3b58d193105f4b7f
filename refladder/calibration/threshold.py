"""A cut-off on scores that keeps its promise, from a random sample of labels, or a refusal.

Promises are about the share of good rows among those that a cut-off keeps (the precision), or about the share of the
good rows that it keeps (the recall): with probability `sure`, the share of this very run is at least the promised one.

Candidate cut-offs come from all scores and never from labels. Assumption: the labelled rows are a random sample of all
rows, or of the rows that reach the lowest candidate; or all or some rows of a random sample of contexts. The tests are
exact for one row of each context and approximate for several, which `counted` makes fewer. They are for a sample with
replacement; a sample without replacement is only safer. bench/results/promise.md shows how often the promises hold.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np
from scipy.special import betainc, betaincinv, kolmogorov, ndtri, stdtrit

from refladder.errors import UsageError, meant_share
from refladder.statistics.correlation import ranks_among

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike

    from refladder.arrays import BoolArray, FloatArray, IntArray

# Shares of the rows that the candidates keep, and shares that are tried first where there are labels enough. More
# candidates keep less: a walk ends at its first chance failure, and one bad label among a few is one.
_SHARES = tuple(step / 20 for step in range(1, 21))
_FIRST = (0.01, 0.02, 0.03, 0.04)
_ENOUGH = 40
# With several labelled rows in some context, nothing is promised of fewer contexts than this.
LEAST_UNITS = 5
# The first look has this share of the allowed error; every further one has half of the rest.
FIRST_LOOK = 0.9
# The test of all rows, before the walk, has this share of the error of a look.
KEEP_ALL = 0.1
# Over (1 + B)^2: the allowance for a correlation that B contexts with bad rows show.
_UNKNOWN = 6
# Looks after the 30th have its error, which is about one in a billion.
_HALF, _LOOKS = 0.5, 30
# Draws of weights for `strict_bounds`, and how many are held at once.
STRICT_DRAWS, _AT_ONCE = 4000, 100
# The part of a bad label that tests add where contexts have several rows.
MID_P = 0.5
# Probabilities that differ by less are equal: rounding must not turn a passing test into a failure.
_EQUAL = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """Cut-offs, strictest first; each keeps the rows of the one before it, and more.

    Both arrays have shape (candidates,): the least score of a kept row, and the number of rows that each one keeps.
    `total` is the number of all rows.
    """

    cutoffs: FloatArray
    rows: IntArray
    total: int

    def levels(self, scores: FloatArray) -> IntArray:
        """Return the strictest candidate that keeps each row, shape (rows,); the number of candidates if none does."""
        return _levels(self.cutoffs, scores)

    def counts(self, levels: IntArray) -> IntArray:
        """Return how many rows each candidate keeps: shape (..., candidates), of levels of shape (..., rows)."""
        wide = len(self.cutoffs) + 1
        # There may be no row.
        samples = levels.reshape(math.prod(levels.shape[:-1]), levels.shape[-1])
        numbered = samples + wide * np.arange(len(samples))[:, np.newaxis]
        each = np.bincount(numbered.ravel(), minlength=wide * len(samples)).reshape(
            *levels.shape[:-1], wide
        )
        return cast("IntArray", each.cumsum(axis=-1)[..., :-1])


def _levels(cutoffs: FloatArray, scores: FloatArray) -> IntArray:
    return len(cutoffs) - np.searchsorted(cutoffs[::-1], scores, side="right")


def candidates(scores: FloatArray, labels: int, lowest: float | None = None) -> Candidates:
    """Return cut-offs that keep 5, 10, ..., 100 % of the rows, and 1 to 4 % if 40 labels or more are expected there.

    Rows with equal scores are kept together.

    Args:
        scores: shape (rows,), finite, of all rows, labelled or not.
        labels: number of labels.
        lowest: the least score of the rows from which the labels were drawn; None for all rows.

    Raises:
        UsageError: there are no rows, or none reaches `lowest`.
    """
    total = len(scores)
    if lowest is not None:
        scores = scores[scores >= lowest]
    if not len(scores):
        raise UsageError("no row has a score from which a cut-off could be chosen")
    shares = np.array([*(share for share in _FIRST if share * labels >= _ENOUGH), *_SHARES])
    ranks = np.unique(np.ceil(shares * len(scores) - 1e-9).astype(int)) - 1
    path = -np.partition(-scores, ranks)[ranks]
    rows = np.cumsum(np.bincount(_levels(path, scores), minlength=len(path))[: len(path)])
    # The first of the candidates that keep the same rows is used.
    first = np.flatnonzero(np.diff(rows, prepend=0))
    return Candidates(cutoffs=path[first], rows=rows[first], total=total)


class UnitSums(NamedTuple):
    """Sums over the contexts of which rows are labelled, each of shape (..., candidates).

    `rows` and `bad` are labelled rows that a candidate keeps and the bad ones of them, `units` contexts of which it
    keeps one; `rows_rows`, `rows_bad` and `bad_bad` are sums of products of the two numbers of a context.
    """

    rows: FloatArray
    bad: FloatArray
    units: FloatArray
    rows_rows: FloatArray
    rows_bad: FloatArray
    bad_bad: FloatArray

    def strictest(self, count: int) -> UnitSums:
        """Return the sums of the first `count` candidates, from the strictest on."""
        return UnitSums(*(each[..., :count] for each in self))

    def with_more(
        self,
        units: float,
        rows: FloatArray,
        squares: FloatArray,
        bad: FloatArray | float,
        alike: FloatArray,
    ) -> UnitSums:
        """Return the expected sums with `units` further contexts.

        Args:
            units: number of contexts.
            rows: shape (candidates,), the mean number of labelled rows of a context that a candidate keeps.
            squares: same shape, the mean of the squares of these numbers.
            bad: share of bad rows among the new ones, of each candidate or of all.
            alike: correlation of bad rows within contexts.
        """
        share: FloatArray = np.asarray(bad, dtype=np.float64)
        apart = share * (1 - share) * (rows + alike * (squares - rows))
        more = (
            rows,
            share * rows,
            np.minimum(rows, 1),
            squares,
            share * squares,
            apart + share * share * squares,
        )
        return UnitSums(*(old + units * each for old, each in zip(self, more, strict=True)))

    def exchanged(self) -> UnitSums:
        """Return the sums with good rows in the place of bad ones."""
        rows, bad, units, squares, cross, bad_squares = self
        return UnitSums(
            rows, rows - bad, units, squares, squares - cross, squares - 2 * cross + bad_squares
        )


def unit_sums(rows: IntArray, bad: IntArray, units: IntArray, candidates: int) -> UnitSums:
    """Count labelled rows in each context.

    `rows` and `bad`, shape (..., labels), are the first candidate that keeps a row, or a bad one, else `candidates`;
    `units` are numbers of contexts.
    """
    if not rows.shape[-1]:
        return UnitSums(*np.zeros((6, *rows.shape[:-1], candidates)))
    samples, wide = units.reshape(-1, rows.shape[-1]), candidates + 1
    keys = samples + (samples.max() + 1) * np.arange(len(samples))[:, np.newaxis]
    each, place = np.unique(keys, return_inverse=True)

    def kept_in_contexts(first: IntArray) -> FloatArray:
        cells = place.ravel() * wide + first.ravel()
        counts = np.bincount(cells, minlength=wide * len(each)).reshape(-1, wide)
        return counts.cumsum(axis=1)[:, :-1].astype(np.float64)

    starts = np.searchsorted(each, keys.min(axis=1))

    def summed(of_contexts: FloatArray | BoolArray) -> FloatArray:
        sums = np.add.reduceat(of_contexts, starts, dtype=np.float64)
        return sums.reshape(*rows.shape[:-1], candidates)

    # With a million contexts, each of these arrays is large, so products are summed one at a time.
    kept, wrong = kept_in_contexts(rows), kept_in_contexts(bad)
    return UnitSums(
        summed(kept),
        summed(wrong),
        summed(kept > 0),
        summed(kept * kept),
        summed(kept * wrong),
        summed(wrong * wrong),
    )


class Allowance(NamedTuple):
    """What tests allow for, see `counted`: `freedom` of the contexts (Student's), and the part of a bad label `added`.

    Both are numbers, or of shape (..., 1).
    """

    freedom: ArrayLike
    added: ArrayLike


# This is for independent labels.
EXACT = Allowance(math.inf, 1.0)


class Counted(NamedTuple):
    """Labels as a number of independent ones: of the rows that each candidate keeps, and the bad ones of them.

    `rows` and `bad` have shape (..., candidates), and `alike` (...): the correlation of bad ones within contexts.
    """

    rows: FloatArray
    bad: FloatArray
    allow: Allowance
    alike: FloatArray


def divisor(size: ArrayLike, alike: ArrayLike, spread: ArrayLike) -> FloatArray:
    """Return by how much labels count less, see `counted`; `size` is m, `alike` c without its allowance, `spread` B."""
    within = np.minimum(np.asarray(alike) + _UNKNOWN / np.square(1 + np.asarray(spread)), 1)
    less: FloatArray = 1 + np.maximum(np.asarray(size) - 1, 0) * within
    return less


def counted(sums: UnitSums) -> Counted:
    """Return how many independent labels the labelled rows of contexts are worth.

    Rows are divided by 1 + (m - 1) c, where m is the mean number of kept rows in the context of a kept row, and c, at
    most 1, the correlation of bad ones within contexts (from the squared residuals of contexts, over all candidates)
    plus 6 / (1 + B)^2. B is the number of contexts in which a candidate keeps bad rows, as if contexts had equal sizes.
    So where it is 0 or 1, all rows of a context count as one. Candidates that keep rows of less than 5 contexts
    count 0 rows. Tests add max(1/2, 1/m) of a bad label, with m over all rows. Where each context has one row, nothing
    is changed, and a whole label is added, which is exact.

    Source: Kish 1965, Survey Sampling, for the divisor; Korn and Graubard 1998, Survey Methodology 24, for the
    binomial test with fewer rows and Student's t; Lancaster 1961, JASA 56, for half a label (mid-P). What is added to c
    and to the bad labels, and c over all candidates, are choices that bench/results/promise.md measures.
    """
    n, b, units, squares, cross, bad_squares = sums
    size, share = squares / np.maximum(n, 1), b / np.maximum(n, 1)
    residual = (
        (bad_squares - 2 * share * cross + share * share * squares)
        * units
        / np.maximum(units - 1, 1)
    )
    variance = n * share * (1 - share)
    excess = (residual - variance).sum(axis=-1)
    most = (variance * (size - 1)).sum(axis=-1)
    alike = np.maximum(excess, 0) / np.where(most > 0, most, 1)
    effect = divisor(size, alike[..., np.newaxis], spread(sums))
    effect = np.where((size > 1) & (n < LEAST_UNITS * size), np.inf, effect)
    whole = np.maximum(size[..., -1:], 1)
    freedom = np.where(whole > 1, np.maximum(n[..., -1:] / whole - 1, _HALF), np.inf)
    return Counted(n / effect, b / effect, Allowance(freedom, np.maximum(MID_P, 1 / whole)), alike)


def spread(sums: UnitSums) -> FloatArray:
    """Return the number of contexts in which candidates keep bad rows, as if contexts had equal sizes.

    G (sum n b)^2 / (sum n^2 sum b^2) with G = (sum n)^2 / sum n^2, which is (sum b)^2 / sum b^2 for equal sizes. Bad
    rows of small contexts count less beside large ones.
    """
    cross, squares = sums.rows * sums.rows_bad, sums.rows_rows
    return np.square(cross / np.maximum(squares, 1)) / np.maximum(sums.bad_bad, 1)


def certainty(sure: float, look: int) -> float:
    """Return the certainty that a look must reach, so that all looks are wrong with probability 1 - sure at most.

    1 - sure is spent: 0.9 of it at the first look, and half of what is left at every further one.
    """
    return 1 - (1 - sure) * (
        FIRST_LOOK if look == 1 else (1 - FIRST_LOOK) * 0.5 ** min(look - 1, _LOOKS)
    )


def walk_certainty(sure: float) -> float:
    """Return the certainty of the tests of `surely_precise` that begin at the strictest candidate."""
    return 1 - (1 - KEEP_ALL) * (1 - sure)


def least(enough: Callable[[int], bool]) -> int:
    """Return the least number from 1 that is enough, if every greater one is enough too."""
    low, high = 0, 1
    while not enough(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _fewer(freedom: ArrayLike, sure: float) -> FloatArray:
    """Return the share of labels that Student's t leaves, compared with the normal distribution."""
    finite = np.where(np.isinf(freedom), 1, freedom)
    ratio = np.square(ndtri(1 - sure) / stdtrit(finite, 1 - sure))
    return cast("FloatArray", np.where(np.isinf(freedom) | (sure <= _HALF), 1, ratio))


def passes(
    bad: ArrayLike,
    labels: ArrayLike,
    share: float,
    sure: float,
    allow: Allowance = EXACT,
) -> BoolArray:
    """Return whether P(X <= bad) <= 1 - sure for X binomial of the labels and 1 - share; `added` 1/2 takes half of P(bad)."""
    fine, above, below = _beta(bad, labels, sure, allow)
    passed: BoolArray = np.where(fine, betainc(above, below, share), 1) <= 1 - sure + _EQUAL
    return passed


def _beta(
    bad: ArrayLike, labels: ArrayLike, sure: float, allow: Allowance
) -> tuple[BoolArray, FloatArray, FloatArray]:
    """Return where labels are good, and both parameters of the beta distribution of their share."""
    left, added = _fewer(allow.freedom, sure), np.asarray(allow.added)
    wrong, good = left * np.asarray(bad), left * (np.asarray(labels) - np.asarray(bad))
    return good > 0, np.where(good > 0, good, 1) + 1 - added, wrong + added


def check_promise(share: float, sure: float) -> None:
    """Check that both numbers of a promise are between 0 and 1."""
    for name, value in (("share", share), ("certainty", sure)):
        if not 0 < value < 1:
            advice = (meant_share(value) if value < 100 else "") or ", such as 0.9"
            raise UsageError(
                f"a promised {name} of {value}: it must be more than 0 and less than 1{advice}"
            )


def surely_precise(
    above: ArrayLike,
    bad: ArrayLike,
    precision: float,
    sure: float,
    allow: Allowance = EXACT,
) -> IntArray:
    """Return the candidate with the most rows for which P(precision < the promised one) <= 1 - sure.

    Fixed-sequence testing with two starts: p = P(X <= bad) for X binomial of the labels above and 1 - precision. The
    last candidate is tested first, with 0.1 of 1 - sure. If it fails, a walk from the strictest candidate on ends
    before the first p above 0.9 of 1 - sure. Candidates that could not pass with 0 bad labels are skipped.

    Source: Angelopoulos et al. 2021, Learn then Test, arXiv 2110.01052; Jung et al. 2024, arXiv 2407.18370.

    Args:
        above: shape (..., candidates), labelled rows that each candidate keeps.
        bad: the same shape, the bad ones of them.
        precision: between 0 and 1.
        sure: between 0 and 1.
        allow: see `counted`.

    Returns:
        Shape (...): the number of the candidate, or -1 where none can be promised.
    """
    check_promise(precision, sure)
    above, bad = np.asarray(above), np.asarray(bad)
    walk = walk_certainty(sure)
    skipped = ~passes(0, above, precision, walk, allow)
    walked = _last_of_run(passes(bad, above, precision, walk, allow) | skipped, ~skipped)
    everything = keeps_all(above, bad, precision, sure, allow)
    return cast("IntArray", np.where(everything, above.shape[-1] - 1, walked))


def keeps_all(
    above: ArrayLike,
    bad: ArrayLike,
    precision: float,
    sure: float,
    allow: Allowance = EXACT,
) -> BoolArray:
    """Return whether the last candidate passes the test that comes before the walk; arguments as for `surely_precise`."""
    rows, wrong = np.asarray(above)[..., -1:], np.asarray(bad)[..., -1:]
    return passes(wrong, rows, precision, 1 - KEEP_ALL * (1 - sure), allow)[..., 0]


def surely_complete(
    missed: ArrayLike,
    good: ArrayLike,
    recall: float,
    sure: float,
    allow: Allowance = EXACT,
) -> IntArray:
    """Return the strictest candidate for which P(recall < the promised one) <= 1 - sure.

    As the walk of `surely_precise`, but it starts at the candidate that keeps the most rows, and p = P(X <= missed) for
    X binomial of the good labels and 1 - recall.

    Args:
        missed: shape (..., candidates), good labelled rows that each candidate does not keep.
        good: the same shape, or (...,1): good labelled rows.
        recall: between 0 and 1.
        sure: between 0 and 1.
        allow: see `counted`.

    Returns:
        Shape (...): the number of the candidate, or -1 where none can be promised.
    """
    check_promise(recall, sure)
    passed = passes(missed, good, recall, sure, allow)
    skipped = ~passes(0 * np.asarray(missed), good, recall, sure, allow)
    backwards = _last_of_run((passed | skipped)[..., ::-1], ~skipped[..., ::-1])
    return cast("IntArray", np.where(backwards < 0, -1, passed.shape[-1] - 1 - backwards))


def strict_bounds(
    rows: FloatArray, bad: FloatArray, most: IntArray, sure: float, seed: int
) -> FloatArray:
    """Return lower bounds of the precision of candidates that allow for an unseen context that is wholly bad.

    Gaffke's bound on the mean over contexts of bad - (1 - q) kept rows, with exponential weights of the contexts. It is
    written as a bound of q: the draw with weights E has the share (sum E (kept - bad)) / (sum E kept + E' most), and
    (1 + number of shares up to q) / 4001 is the p-value of q. With equal contexts and no bad row, p is q to the power
    of the number of contexts.

    Source: Gaffke 2005, Three test statistics for a nonparametric one-sided hypothesis on the mean of a nonnegative
    variable; Learned-Miller and Thomas 2020, arXiv 1905.06208.

    Args:
        rows: shape (contexts, candidates), labelled rows of each context that a candidate keeps.
        bad: the same shape, the bad ones of them.
        most: shape (candidates,), the greatest number of rows of one context, labelled or not, that a candidate keeps.
        sure: between 0 and 1.
        seed: seed of the weights.
    """
    generator = np.random.default_rng(seed)
    shares = []
    for _ in range(STRICT_DRAWS // _AT_ONCE):
        weights = generator.standard_exponential((_AT_ONCE, len(rows) + 1))
        kept = weights[:, :-1] @ rows
        shares.append((kept - weights[:, :-1] @ bad) / (kept + weights[:, -1:] * most))
    place = math.floor((STRICT_DRAWS + 1) * (1 - sure) + _EQUAL) - 1
    if place < 0:
        return np.zeros(len(most))
    return cast("FloatArray", np.sort(np.concatenate(shares), axis=0)[place])


def strictly_precise(
    rows: FloatArray, bad: FloatArray, most: IntArray, precision: float, sure: float, *, seed: int
) -> int:
    """Return the candidate that `surely_precise` would, by `strict_bounds`; arguments as there."""
    check_promise(precision, sure)
    last = strict_bounds(rows, bad, most, 1 - KEEP_ALL * (1 - sure), seed)[-1]
    if last > precision:
        return len(most) - 1
    walk = walk_certainty(sure)
    passed = strict_bounds(rows, bad, most, walk, seed) > precision
    tested = strict_bounds(rows, 0 * bad, most, walk, seed) > precision
    return int(_last_of_run(passed | ~tested, tested))


def _last_of_run(passed: BoolArray, tested: BoolArray) -> IntArray:
    """Return the last tested candidate before the first that does not pass; -1 if there is none."""
    return _last(np.logical_and.accumulate(passed, axis=-1) & tested)


def _last(passed: BoolArray) -> IntArray:
    """Return the last candidate that passes; -1 if there is none."""
    last = passed.shape[-1] - 1 - passed[..., ::-1].argmax(axis=-1)
    return cast("IntArray", np.where(passed.any(axis=-1), last, -1))


def lower_bound(
    bad: ArrayLike, labels: ArrayLike, sure: float, allow: Allowance = EXACT
) -> FloatArray:
    """Return the one-sided bound of a share of good rows: it reaches a share if and only if the test passes.

    Source: Clopper and Pearson 1934. It holds for a cut-off chosen in advance, not for the best of several.

    Args:
        bad: bad labels.
        labels: all labels, same shape; the bound of 0 labels is 0.
        sure: between 0 and 1.
        allow: see `counted`.
    """
    good, above, below = _beta(bad, labels, sure, allow)
    return cast("FloatArray", np.where(good, betaincinv(above, below, 1 - sure), 0.0))


def naive_candidate(
    above: IntArray | FloatArray, bad: IntArray | FloatArray, precision: float
) -> IntArray:
    """Return the candidate with the most rows whose labels reach the precision, ignoring chance; -1 if none does."""
    return _last((above > 0) & (bad <= (1 - precision) * above + _EQUAL))


def spread_distance(
    quantiles: FloatArray, contexts: int, scores: FloatArray
) -> tuple[float, float]:
    """Return the distance of two distributions of scores, and the p-value of the Kolmogorov-Smirnov test.

    At a quantile, the first distribution reaches its share, and below it does not exceed it. So the distance is the
    least that the quantiles allow, and the p-value is the greatest.

    Source: Smirnov 1948, Annals of Mathematical Statistics 19, for the limit that gives the p-value.

    Args:
        quantiles: shape (quantiles,), at equal steps from 0 to 1, of the first distribution.
        contexts: number of scores that they are of.
        scores: shape (rows,), of the second distribution.
    """
    ordered, shares = np.sort(scores), np.linspace(0, 1, len(quantiles))
    below, reached = (
        np.searchsorted(ordered, quantiles, side=side) / len(ordered) for side in ("left", "right")
    )
    distance = float(np.maximum(shares - reached, below - shares).max())
    number = contexts * len(ordered) / (contexts + len(ordered))
    return distance, float(kolmogorov(math.sqrt(number) * max(distance, 0.0)))


def looks_random(scores: FloatArray, everywhere: FloatArray) -> bool:
    """Return whether the mean rank of some rows among all rows suits a random sample, with an error of 1 in 1000.

    Args:
        scores: shape (rows,), of the sample.
        everywhere: shape (all rows,).
    """
    _, ties = np.unique(everywhere, return_counts=True)
    # Ties make the variance of the ranks smaller.
    variance = (1 - float(((ties / len(everywhere)) ** 3).sum())) / 12
    distance = abs(float(ranks_among(scores, everywhere).mean()) - 0.5)
    return distance <= -float(ndtri(0.0005)) * math.sqrt(variance / len(scores)) + _EQUAL
