"""Measures of faulty comparisons (position bias, order inconsistency, intransitivity), and debiasing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from refladder.errors import ShapeError, UsageError
from refladder.statistics.estimators import SAME, decisions, win_ratio
from refladder.statistics.selection import all_pairs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from refladder.arrays import FloatArray, IntArray

# P(first) counts as debiased up to this distance from 1/2.
NEAR = 0.05


def share_of_first(probabilities: FloatArray, threshold: float = 0.5) -> float:
    """Return P(A), the share of comparisons that the first text wins; a tie counts half. NaN without answers.

    It is 1/2 for an unbiased judge if pairs are asked in both orders.

    Source: arXiv 2307.07889, equation 8.

    Args:
        probabilities: probability that the first is better; NaN for an unparsed answer.
        threshold: tau of equation 10.
    """
    hard = decisions(probabilities, threshold)
    hard = hard[~np.isnan(hard)]
    return float(hard.mean()) if hard.size else float("nan")


def inconsistency(items: int, pairs: IntArray, probabilities: FloatArray) -> tuple[int, int]:
    """Count the pairs whose two orders disagree.

    Args:
        items: N.
        pairs: shape (R, 2), each ordered pair at most once.
        probabilities: shape (R,).

    Returns:
        (pairs whose orders disagree, pairs with an answer in both orders). A tie in only one order is a disagreement.
    """
    matrix = square(items, pairs, decisions(probabilities))
    upper = np.triu_indices(items, 1)
    forward, backward = matrix[upper], 1 - matrix.T[upper]
    answered = ~np.isnan(forward) & ~np.isnan(backward)
    return int((forward[answered] != backward[answered]).sum()), int(answered.sum())


def square(items: int, pairs: IntArray, values: FloatArray) -> FloatArray:
    """Arrange comparisons as a matrix, shape (N, N): row first, column second; NaN for a pair without an answer."""
    matrix = np.full((items, items), np.nan)
    matrix[pairs[:, 0], pairs[:, 1]] = values
    return matrix


def fit_threshold(probabilities: FloatArray) -> float:
    """Find the threshold tau that brings P(first) nearest to 1/2: usually the median.

    No labels are needed. Pairs should be asked in both orders, so that the first text is the better one in half of
    them.

    Sampled answers have few distinct probabilities. A threshold of 0 or 1 would turn all answers for one position into
    ties. The threshold is therefore strictly between 0 and 1: the median, or halfway to the next probability on either
    side. P(first) may stay far from 1/2; `share_of_first` computes it. The threshold is 1/2, which changes no decision,
    if all answers are 0 or 1, or if most of the decisions that it would change are ties: it would then decide what the
    judge left open.

    Source: arXiv 2307.07889, equation 10. Ties: bench/results/statistics.md, section `ties`.

    Args:
        probabilities: probability that the first is better; NaN for an unparsed answer.

    Returns:
        Above 0 and below 1; NaN without answers.
    """
    answers = probabilities[~np.isnan(probabilities)]
    if not answers.size:
        return float("nan")
    median = float(np.median(answers))
    lower = answers[answers < median - SAME].max(initial=0.0)
    upper = answers[answers > median + SAME].min(initial=1.0)
    # P(first) decreases in the threshold, so one of these candidates is closest to 1/2.
    thresholds = [median, (lower + median) / 2, (median + upper) / 2]
    inner = [float(threshold) for threshold in thresholds if SAME < threshold < 1 - SAME]
    best = min(
        inner, key=lambda threshold: abs(share_of_first(answers, threshold) - 0.5), default=0.5
    )
    plain = decisions(answers)
    changed = plain[plain != decisions(answers, best)]
    return 0.5 if 2 * np.count_nonzero(changed == 0.5) > len(changed) else best


def alpha_of(threshold: float) -> float:
    """Return the weight alpha that gives the same decisions as a threshold tau: (1 - tau) / tau."""
    if threshold <= 0 or threshold >= 1:
        raise UsageError(
            f"the median probability is {threshold:g}, so no weight gives both positions half of the wins; "
            "debias by threshold, or read probabilities instead of single answers"
        )
    return (1 - threshold) / threshold


def reweigh(probabilities: FloatArray, alpha: float) -> FloatArray:
    """Remove position bias from probabilities: a p / (a p + 1 - p).

    Source: arXiv 2307.07889, equation 9.

    Args:
        probabilities: probability that the first is better; NaN for an unparsed answer.
        alpha: weight of the first text, above 0.

    Raises:
        UsageError: alpha is not a finite number above 0.
    """
    if not 0 < alpha < np.inf:
        raise UsageError(
            f"alpha {alpha}: the weight of the first position must be a finite number above 0"
        )
    raised = alpha * np.asarray(probabilities)
    return raised / (raised + (1 - probabilities))


def comparative_accuracy(
    pairs: IntArray, probabilities: FloatArray, human: FloatArray
) -> tuple[float, int]:
    """Count how often the judge prefers the text with the higher human rating (pairwise accuracy).

    Source: arXiv 2307.07889, section 5.4.

    Args:
        pairs: shape (R, 2).
        probabilities: shape (R,).
        human: shape (N,), ratings of the items; NaN if missing.

    Returns:
        (points, number of comparisons between items with different ratings). An agreement is one point, a tie half.
    """
    difference = human[pairs[:, 0]] - human[pairs[:, 1]]
    hard = decisions(probabilities)
    used = ~np.isnan(hard) & ~np.isnan(difference) & (difference != 0)
    return float(np.where(difference[used] > 0, hard[used], 1 - hard[used]).sum()), int(used.sum())


def pair_agreement(scores: FloatArray, target: FloatArray) -> tuple[float, int]:
    """Compare the order of scores with that of targets, arrays of shape (N,), as `comparative_accuracy` does."""
    first, second = np.triu_indices(len(target), 1)
    order = np.sign(scores[first] - scores[second])
    return comparative_accuracy(np.stack([first, second], axis=1), (1 + order) / 2, target)


def self_consistency(
    matrix: FloatArray,
    sizes: Sequence[int],
    *,
    human: FloatArray | None = None,
    draws: int = 50,
    seed: int = 0,
) -> list[tuple[int, float, float]]:
    """Compare rankings of subsets of the items with the ranking of all items.

    Source: arXiv 2307.07889, section 5.5, table 8.

    Args:
        matrix: shape (N, N), probability that the item of the row, shown first, beats the item of the column.
        sizes: numbers of items to draw, from 2 to N each.
        human: shape (N,), ratings; NaN if missing.
        draws: number of subsets of each size.
        seed: seed of the draws.

    Returns:
        For each size: (size, share of pairs in the order of the ranking of all, share in the order of the ratings);
        NaN without any pair to compare. Rankings are by win ratio; ties count half.

    Raises:
        ShapeError: the matrix is not square.
        UsageError: a size is not between 2 and N.
    """
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ShapeError(f"the matrix of comparisons must be square, found {matrix.shape}")
    items = len(matrix)

    def ranked(chosen: IntArray) -> FloatArray:
        pairs = all_pairs(len(chosen))
        return win_ratio(len(chosen), pairs, matrix[chosen[pairs[:, 0]], chosen[pairs[:, 1]]])

    final = ranked(np.arange(items))
    random = np.random.default_rng(seed)
    rows = []
    for size in sizes:
        if not 2 <= size <= items:
            raise UsageError(f"a subset of {size} items: choose between 2 and {items}")
        points = np.zeros((2, 2))
        for _ in range(draws):
            chosen = random.choice(items, size, replace=False)
            scores = ranked(chosen)
            points[0] += pair_agreement(scores, final[chosen])
            if human is not None:
                points[1] += pair_agreement(scores, human[chosen])
        shares = [float(agreeing / count) if count else float("nan") for agreeing, count in points]
        rows.append((size, shares[0], shares[1]))
    return rows


def intransitive_triples(items: int, pairs: IntArray, probabilities: FloatArray) -> tuple[int, int]:
    """Count the intransitive triples: those that no ranking, ties allowed, agrees with.

    The two orders of a pair are averaged. Intransitive triples are cycles (a beats b, b beats c, c beats a) and
    contradictory ties (a ties b, b ties c, a beats c; a beats b, b ties c, a does not beat c), as in TrustJudge.

    Args:
        items: N.
        pairs: shape (R, 2), each ordered pair at most once.
        probabilities: shape (R,).

    Returns:
        (intransitive triples, triples whose three pairs have an answer in at least one order).
    """
    matrix = square(items, pairs, np.asarray(probabilities, dtype=np.float64))
    both = np.stack([matrix, 1 - matrix.T])
    counts = (~np.isnan(both)).sum(axis=0)
    mean = np.divide(
        np.nansum(both, axis=0), counts, out=np.full_like(matrix, np.nan), where=counts > 0
    )
    sign = np.where(np.abs(mean - 0.5) <= SAME, 0.0, np.sign(mean - 0.5))
    wrong = triples = 0
    # One item at a time keeps memory at N^2 instead of N^3.
    for item in range(items - 2):
        second, third = np.triu_indices(items - item - 1, 1)
        ab, ac = sign[item, item + 1 + second], sign[item, item + 1 + third]
        bc = sign[item + 1 + second, item + 1 + third]
        answered = ~np.isnan(ab) & ~np.isnan(bc) & ~np.isnan(ac)
        triples += int(answered.sum())
        # If a and c both beat b, or both lose to it, any order of a and c is consistent; otherwise only one is.
        wrong += int((answered & (ab * bc != -1) & (np.sign(ab + bc) != ac)).sum())
    return wrong, triples


def discordance(pairs: IntArray, probabilities: FloatArray, scores: FloatArray) -> tuple[int, int]:
    """Count the comparisons that contradict absolute scores of the same judge.

    Args:
        pairs: shape (R, 2).
        probabilities: shape (R,).
        scores: shape (N,), scores of the items; NaN if missing.

    Returns:
        (comparisons that disagree with the scores, comparisons with an answer and two scores). A tie on only one side
        is a disagreement.
    """
    hard = np.sign(decisions(probabilities) - 0.5)
    order = np.sign(scores[pairs[:, 0]] - scores[pairs[:, 1]])
    used = ~np.isnan(hard) & ~np.isnan(order)
    return int((hard[used] != order[used]).sum()), int(used.sum())
