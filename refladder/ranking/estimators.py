"""Estimators: ordered comparisons -> one number for each item, higher is better.

All take `items`, the number N of items; `pairs` of shape (R, 2), the numbers of the first and the second item; and
`probabilities` of shape (R,), that the first is better: 0, 1/2 and 1 where only hard answers are known, NaN where a
comparison could not be read. What could not be read is left out; an item that nothing readable was asked about gets
NaN. For what may be wrong with these arrays see `refladder.ranking.graph.readable`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from refladder.errors import NotConvergedError, UsageError
from refladder.ranking.graph import check_connected, never_beaten, readable, solve_laplacian

if TYPE_CHECKING:
    from collections.abc import Sequence

    from refladder.arrays import FloatArray, IntArray


SAME = 1e-9  # probabilities this near to the threshold are a tie
_GRADIENT = 1e-9  # largest wins left unexplained of an item, when Bradley-Terry has converged
_STEPS = 100


def decisions(probabilities: FloatArray, threshold: float = 0.5) -> FloatArray:
    """Hard answers: 1 where the first wins, 0 where the second does, 1/2 for a tie, NaN where not read.

    Source: arXiv 2307.07889, equations 2 and 10; a probability of the threshold itself, which they give to the second,
    is a tie here.

    Args:
        probabilities: any shape, that the first is better.
        threshold: tau, between 0 and 1.
    """
    away = np.asarray(probabilities) - threshold
    hard = np.where(np.abs(away) <= SAME, 0.5, (away > 0).astype(np.float64))
    return cast("FloatArray", np.where(np.isnan(away), np.nan, hard))


def _shares(items: int, pairs: IntArray, points: FloatArray) -> FloatArray:
    # Added up in the order of their size, so that items with the same answers get the same number to the last bit.
    who, got = np.concatenate([pairs[:, 0], pairs[:, 1]]), np.concatenate([points, 1 - points])
    order = np.lexsort((got, who))
    taken = np.bincount(who[order], got[order], items)
    played = np.bincount(who, minlength=items)
    return np.asarray(np.divide(taken, played, out=np.full(items, np.nan), where=played > 0))


def win_ratio(items: int, pairs: IntArray, probabilities: FloatArray, threshold: float = 0.5) -> FloatArray:
    """The share of its comparisons that an item wins, a tie counting half.

    Source: arXiv 2307.07889, equation 6.

    Args:
        items: N.
        pairs: shape (R, 2).
        probabilities: shape (R,).
        threshold: tau of equation 10, that a probability must exceed for the first to win.

    Returns:
        Shape (N,), between 0 and 1.
    """
    pairs, probabilities = readable(items, pairs, probabilities)
    return _shares(items, pairs, decisions(probabilities, threshold))


def mean_probability(items: int, pairs: IntArray, probabilities: FloatArray) -> FloatArray:
    """The mean probability with which an item wins its comparisons.

    Args:
        items: N.
        pairs: shape (R, 2).
        probabilities: shape (R,).

    Returns:
        Shape (N,), between 0 and 1.
    """
    pairs, probabilities = readable(items, pairs, probabilities)
    return _shares(items, pairs, probabilities)


def _net(items: int, pairs: IntArray, flow: FloatArray) -> FloatArray:
    """What flows out of each item less what flows in, from first to second."""
    out, back = np.bincount(pairs[:, 0], flow, items), np.bincount(pairs[:, 1], flow, items)
    return np.asarray(out - back, dtype=np.float64)


def _rounded(scores: FloatArray) -> FloatArray:
    """Mean 0, seven decimals: what is left of the iteration's error must not rank items with the same answers."""
    return cast("FloatArray", np.round(scores - scores.mean(), 7) + 0.0)


def bradley_terry(
    items: int,
    pairs: IntArray,
    probabilities: FloatArray,
    *,
    prior: float = 0.0,
    names: Sequence[str] | None = None,
) -> FloatArray:
    """Strengths s that make the comparisons most likely: the first wins with probability 1 / (1 + e^(s_j - s_i)).

    A probability between 0 and 1 counts as that much of a win and the rest of a loss, so 1/2 is a tie. Newton's
    method with conjugate gradients; the likelihood is concave. (Dense solvers need the square of N in memory.)

    Args:
        items: N.
        pairs: shape (R, 2).
        probabilities: shape (R,).
        prior: so much of a tie is added to every comparison. With 0, strengths exist only where from every item a
            chain of wins leads to every other.
        names: of the items, for messages.

    Returns:
        Shape (N,), natural-log odds, mean 0, to seven decimals.

    Raises:
        UsageError: the comparisons do not hold the items together; or, with prior 0, some items were never beaten by
            the others, so that their strengths are infinite; or the prior is negative.
        NotConvergedError: Newton's method did not end.
    """
    if not prior >= 0:
        raise UsageError(f"a prior of {prior}: it must be 0 or more, as a number of ties")
    pairs, probabilities = readable(items, pairs, probabilities)
    check_connected(items, pairs, names)
    share = (probabilities + prior / 2) / (1 + prior)
    took, lost = share > 0, share < 1
    winners = np.concatenate([pairs[took, 0], pairs[lost, 1]])
    losers = np.concatenate([pairs[took, 1], pairs[lost, 0]])
    best = never_beaten(items, winners, losers)
    if best is not None:
        words = ", ".join(str(item) if names is None else names[item] for item in best[:5])
        raise UsageError(
            f"no finite strengths: {len(best)} of {items} items ({words}{', ...' if len(best) > 5 else ''}) lost to "  # noqa: PLR2004
            "none of the others; give a prior above 0"
        )
    first, second = pairs[:, 0], pairs[:, 1]

    def likelihood(values: FloatArray) -> float:
        gap = values[first] - values[second]
        return -float(share @ np.logaddexp(0, -gap) + (1 - share) @ np.logaddexp(0, gap))

    strengths = np.zeros(items)
    now = likelihood(strengths)
    for _ in range(_STEPS):
        expected = 1 / (1 + np.exp(np.clip(strengths[second] - strengths[first], -700, 700)))
        left = share - expected
        gradient = _net(items, pairs, left)
        error = float(np.abs(gradient).max())
        if error <= _GRADIENT:
            return _rounded(strengths)
        # far from the end a rough step is as good: the equations are solved as well as the strengths are known
        weights = np.maximum(expected * (1 - expected), 1e-12)
        change = solve_laplacian(items, pairs, weights, gradient, min(0.1, max(error, 1e-10)))
        length = 1.0
        while length > 1e-10 and (after := likelihood(strengths + length * change)) < now - 1e-12 * abs(now):  # noqa: PLR2004
            length /= 2
        strengths, now = strengths + length * change, after
    raise NotConvergedError(
        f"Bradley-Terry strengths of {items} items did not converge in {_STEPS} steps; give a prior above 0"
    )


def product_of_experts(
    items: int,
    pairs: IntArray,
    probabilities: FloatArray,
    *,
    position_bias: float | None = None,
    names: Sequence[str] | None = None,
) -> FloatArray:
    """Scores whose differences fit the probabilities best: every comparison is a Gaussian expert on s_i - s_j.

    The expert's mean is p - b, with b the mean of p, which takes a constant position bias out (b is 1/2 for a symmetric
    set of an unbiased judge). Take b over many contexts: the mean of few comparisons holds their qualities too, and
    takes these out with it; with one comparison nothing is left. All experts have one variance, so the most likely
    scores are those of least squares: s = (W'W)^+ W'(p - b), W one row a comparison with +1 and -1.

    Source: Liusie et al. 2024, arXiv 2405.05894, the linear Gaussian expert with a bias term.

    Args:
        items: N.
        pairs: shape (R, 2).
        probabilities: shape (R,).
        position_bias: b, between 0 and 1; by default the mean of these probabilities.
        names: of the items, for messages.

    Returns:
        Shape (N,), mean 0, to seven decimals; the unit is that of a difference of probability.

    Raises:
        UsageError: the comparisons do not hold the items together, or the position bias is not between 0 and 1.
        NotConvergedError: the equations could not be solved.
    """
    pairs, probabilities = readable(items, pairs, probabilities)
    check_connected(items, pairs, names)
    if position_bias is None:
        position_bias = float(probabilities.mean())
    if not 0 <= position_bias <= 1:
        raise UsageError(f"a position bias of {position_bias}: it must be a mean probability, between 0 and 1")
    leaning = probabilities - position_bias
    return _rounded(solve_laplacian(items, pairs, np.ones(len(pairs)), _net(items, pairs, leaning)))
