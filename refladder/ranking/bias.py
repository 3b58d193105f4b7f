"""What is wrong with a judge's comparisons: preference for a place or for length, contradictions, and their repair."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from refladder.errors import ShapeError, UsageError
from refladder.ranking.estimators import SAME, decisions, win_ratio
from refladder.ranking.selection import all_pairs

NEAR = 0.05  # a P(first) within this of 1/2 counts as debiased

if TYPE_CHECKING:
    from collections.abc import Sequence

    from refladder.arrays import FloatArray, IntArray


def share_of_first(probabilities: FloatArray, threshold: float = 0.5) -> float:
    """P(A): the share of comparisons in which the first is chosen, a tie counting half; NaN when none could be read.

    1/2 for an unbiased judge, when pairs are asked in both orders.

    Source: arXiv 2307.07889, equation 8.

    Args:
        probabilities: that the first is better; NaN where not read.
        threshold: tau of equation 10.
    """
    hard = decisions(probabilities, threshold)
    hard = hard[~np.isnan(hard)]
    return float(hard.mean()) if hard.size else float("nan")


def inconsistency(items: int, pairs: IntArray, probabilities: FloatArray) -> tuple[int, int]:
    """How often the two orders of a pair choose differently.

    Args:
        items: N.
        pairs: shape (R, 2), an ordered pair once at most.
        probabilities: shape (R,).

    Returns:
        (pairs whose orders disagree, pairs whose two orders could be read). A tie in one order only disagrees.
    """
    matrix = square(items, pairs, decisions(probabilities))
    upper = np.triu_indices(items, 1)
    there, back = matrix[upper], 1 - matrix.T[upper]
    read = ~np.isnan(there) & ~np.isnan(back)
    return int((there[read] != back[read]).sum()), int(read.sum())


def square(items: int, pairs: IntArray, values: FloatArray) -> FloatArray:
    """Comparisons as a matrix: row first, column second; NaN where not asked or not read. Shape (N, N)."""
    matrix = np.full((items, items), np.nan)
    matrix[pairs[:, 0], pairs[:, 1]] = values
    return matrix


def fit_threshold(probabilities: FloatArray) -> float:
    """The threshold tau that brings P(first) nearest to 1/2: the median, where that is no answer of 0 or 1.

    It needs no labels. Ask pairs in both orders, so that half of the firsts are the better ones.

    Sampled answers have few distinct probabilities. At a median of 0 or 1, all answers for one position would be ties,
    so the threshold stays between 0 and 1, at the median or halfway to the next probability on either side. It may
    leave P(first) far from 1/2: `share_of_first` computes what it leaves. Single answers of 0 and 1 get 1/2, which
    changes no choice.

    Source: arXiv 2307.07889, equation 10.

    Args:
        probabilities: that the first is better; NaN where not read.

    Returns:
        Above 0 and below 1; 1/2 when all probabilities are 0, or all are 1; NaN when none could be read.
    """
    read = probabilities[~np.isnan(probabilities)]
    if not read.size:
        return float("nan")
    median = float(np.median(read))
    lower = read[read < median - SAME].max(initial=0.0)
    upper = read[read > median + SAME].min(initial=1.0)
    # P(first) falls with the threshold, so the nearest to 1/2 is among these.
    thresholds = [median, (lower + median) / 2, (median + upper) / 2]
    inner = [float(threshold) for threshold in thresholds if SAME < threshold < 1 - SAME]
    return min(inner, key=lambda threshold: abs(share_of_first(read, threshold) - 0.5), default=0.5)


def alpha_of(threshold: float) -> float:
    """The weight alpha that makes the same choices as a threshold tau: (1 - tau) / tau.

    Raises:
        UsageError: the threshold is 0 or 1: no finite weight above 0 would do.
    """
    if threshold <= 0 or threshold >= 1:
        raise UsageError(
            f"the median probability is {threshold:g}, so no weight gives both places half of the choices; "
            "debias by threshold, or ask for probabilities instead of single answers"
        )
    return (1 - threshold) / threshold


def reweigh(probabilities: FloatArray, alpha: float) -> FloatArray:
    """Probabilities with a preference for one place taken out: a p / (a p + 1 - p).

    Source: arXiv 2307.07889, equation 9.

    Args:
        probabilities: that the first is better; NaN where not read.
        alpha: above 0; above 1 it favours the first.

    Raises:
        UsageError: alpha is not a finite number above 0.
    """
    if not 0 < alpha < np.inf:
        raise UsageError(f"alpha {alpha}: the weight of the first place must be a finite number above 0")
    raised = alpha * np.asarray(probabilities)
    return raised / (raised + (1 - probabilities))


def comparative_accuracy(pairs: IntArray, probabilities: FloatArray, human: FloatArray) -> tuple[float, int]:
    """How often the judge chooses as people do, over pairs that people rate differently.

    Source: arXiv 2307.07889, section 5.4.

    Args:
        pairs: shape (R, 2).
        probabilities: shape (R,).
        human: shape (N,), ratings of the items; NaN where there is none.

    Returns:
        (points, comparisons that count): a choice as people's is a point, a tie half.
    """
    difference = human[pairs[:, 0]] - human[pairs[:, 1]]
    hard = decisions(probabilities)
    used = ~np.isnan(hard) & ~np.isnan(difference) & (difference != 0)
    return float(np.where(difference[used] > 0, hard[used], 1 - hard[used]).sum()), int(used.sum())


def pair_agreement(found: FloatArray, wanted: FloatArray) -> tuple[float, int]:
    """Points for the pairs of items that two scores put in the same order, and the pairs that `wanted` tells apart.

    Args:
        found: shape (N,); a pair that it ties is half a point.
        wanted: shape (N,).
    """
    first, second = np.triu_indices(len(wanted), 1)
    goal, given = np.sign(wanted[first] - wanted[second]), np.sign(found[first] - found[second])
    used = ~np.isnan(goal) & ~np.isnan(given) & (goal != 0)
    return float(np.where(given[used] == 0, 0.5, given[used] == goal[used]).sum()), int(used.sum())


def self_consistency(
    matrix: FloatArray, sizes: Sequence[int], *, human: FloatArray | None = None, draws: int = 50, seed: int = 0
) -> list[tuple[int, float, float]]:
    """How far a ranking of some of the items agrees with the ranking of all.

    Source: arXiv 2307.07889, section 5.5, table 8.

    Args:
        matrix: shape (N, N), probability that the row's item, shown first, beats the column's; all pairs asked.
        sizes: how many items to draw, from 2 to N each.
        human: shape (N,), ratings; NaN where there is none.
        draws: subsets of each size.
        seed: of the draws.

    Returns:
        For each size: (size, share of pairs in the order of the ranking of all, share in the order of the ratings);
        NaN where there is nothing to compare with. Rankings are by win ratio; ties count half.

    Raises:
        ShapeError: the matrix is not square.
        UsageError: a size that is not between 2 and N.
    """
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:  # noqa: PLR2004
        raise ShapeError(f"the matrix of comparisons must be square, found {matrix.shape}")
    items = len(matrix)

    def ranked(chosen: IntArray) -> FloatArray:
        pairs = all_pairs(len(chosen))
        return win_ratio(len(chosen), pairs, matrix[chosen[pairs[:, 0]], chosen[pairs[:, 1]]])

    final = ranked(np.arange(items))
    random = np.random.default_rng(seed)
    rows = []
    for size in sizes:
        if not 2 <= size <= items:  # noqa: PLR2004
            raise UsageError(f"a subset of {size} items: choose between 2 and {items}")
        points = np.zeros((2, 2))
        for _ in range(draws):
            chosen = random.choice(items, size, replace=False)
            found = ranked(chosen)
            points[0] += pair_agreement(found, final[chosen])
            if human is not None:
                points[1] += pair_agreement(found, human[chosen])
        shares = [float(got / count) if count else float("nan") for got, count in points]
        rows.append((size, shares[0], shares[1]))
    return rows


def intransitive_triples(items: int, pairs: IntArray, probabilities: FloatArray) -> tuple[int, int]:
    """How many triples of items no ranking, ties allowed, agrees with.

    The two orders of a pair are averaged. Intransitive are circles (a beats b, b beats c, c beats a) and
    contradictions of ties (a ties b, b ties c, a beats c; a beats b, b ties c, a does not beat c), as in TrustJudge.

    Args:
        items: N.
        pairs: shape (R, 2), an ordered pair once at most.
        probabilities: shape (R,).

    Returns:
        (intransitive triples, triples whose three pairs were read in one order at least).
    """
    matrix = square(items, pairs, np.asarray(probabilities, dtype=np.float64))
    both = np.stack([matrix, 1 - matrix.T])
    counts = (~np.isnan(both)).sum(axis=0)
    mean = np.divide(np.nansum(both, axis=0), counts, out=np.full_like(matrix, np.nan), where=counts > 0)
    sign = np.where(np.abs(mean - 0.5) <= SAME, 0.0, np.sign(mean - 0.5))
    wrong = triples = 0
    for item in range(items - 2):  # one item at a time: memory grows with N^2, not N^3
        second, third = np.triu_indices(items - item - 1, 1)
        ab, ac = sign[item, item + 1 + second], sign[item, item + 1 + third]
        bc = sign[item + 1 + second, item + 1 + third]
        read = ~np.isnan(ab) & ~np.isnan(bc) & ~np.isnan(ac)
        triples += int(read.sum())
        # a over b and c over b leaves a and c open; otherwise the two steps tell how a and c stand.
        wrong += int((read & (ab * bc != -1) & (np.sign(ab + bc) != ac)).sum())
    return wrong, triples


def conflict(pairs: IntArray, probabilities: FloatArray, scores: FloatArray) -> tuple[int, int]:
    """How often a comparison contradicts absolute scores of the same judge.

    Args:
        pairs: shape (R, 2).
        probabilities: shape (R,).
        scores: shape (N,), of the items; NaN where there is none.

    Returns:
        (comparisons that choose otherwise than the scores, comparisons where both are known). A tie on one side only
        is a conflict.
    """
    hard = np.sign(decisions(probabilities) - 0.5)
    order = np.sign(scores[pairs[:, 0]] - scores[pairs[:, 1]])
    used = ~np.isnan(hard) & ~np.isnan(order)
    return int((hard[used] != order[used]).sum()), int(used.sum())
