"""Estimators: ordered comparisons -> one number per item, higher is better.

All take `items`, the number N of items; `pairs` of shape (R, 2), the numbers of the first and the second item; and
`probabilities` of shape (R,), the probability that the first is better. Hard answers are 0, 1/2 and 1. NaN is an
unparsed answer and is left out; an item without any answer gets NaN. `refladder.statistics.graph.answered` lists the
errors for invalid arrays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from refladder.errors import NotConvergedError, UsageError
from refladder.statistics.graph import (
    answered,
    check_connected,
    listed,
    never_beaten,
    solve_laplacian,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from refladder.arrays import FloatArray, IntArray


# Probabilities within this distance of the threshold are ties.
SAME = 1e-9
# Bradley-Terry has converged if no gradient, in wins of an item, is larger.
_GRADIENT = 1e-9
_STEPS = 100


def decisions(probabilities: FloatArray, threshold: float = 0.5) -> FloatArray:
    """Return hard answers: 1 where the first wins, 0 where the second does, 1/2 for a tie, NaN for NaN.

    Source: arXiv 2307.07889, equations 2 and 10, except that a probability equal to the threshold is a tie here and a
    win of the second there.

    Args:
        probabilities: any shape, probability that the first is better.
        threshold: tau, between 0 and 1.
    """
    away = np.asarray(probabilities) - threshold
    hard = np.where(np.abs(away) <= SAME, 0.5, (away > 0).astype(np.float64))
    return cast("FloatArray", np.where(np.isnan(away), np.nan, hard))


def _shares(items: int, pairs: IntArray, points: FloatArray) -> FloatArray:
    # Summing in the order of size gives items with the same answers exactly the same number.
    item = np.concatenate([pairs[:, 0], pairs[:, 1]])
    share = np.concatenate([points, 1 - points])
    order = np.lexsort((share, item))
    won = np.bincount(item[order], share[order], items)
    played = np.bincount(item, minlength=items)
    return np.asarray(np.divide(won, played, out=np.full(items, np.nan), where=played > 0))


def win_ratio(
    items: int, pairs: IntArray, probabilities: FloatArray, threshold: float = 0.5
) -> FloatArray:
    """Return the share of its comparisons that each item wins; a tie counts half.

    Source: arXiv 2307.07889, equation 6.

    Args:
        items: N.
        pairs: shape (R, 2).
        probabilities: shape (R,).
        threshold: tau of equation 10; the first wins if its probability exceeds it.

    Returns:
        Shape (N,), between 0 and 1.
    """
    pairs, probabilities = answered(items, pairs, probabilities)
    return _shares(items, pairs, decisions(probabilities, threshold))


def mean_probability(items: int, pairs: IntArray, probabilities: FloatArray) -> FloatArray:
    """Return the mean probability with which each item wins its comparisons.

    Args:
        items: N.
        pairs: shape (R, 2).
        probabilities: shape (R,).

    Returns:
        Shape (N,), between 0 and 1.
    """
    pairs, probabilities = answered(items, pairs, probabilities)
    return _shares(items, pairs, probabilities)


def _net(items: int, pairs: IntArray, flow: FloatArray) -> FloatArray:
    """Return the flow out of each item minus the flow into it; flow goes from first to second."""
    net = np.bincount(pairs[:, 0], flow, items) - np.bincount(pairs[:, 1], flow, items)
    return np.asarray(net, dtype=np.float64)


def _rounded(scores: FloatArray) -> FloatArray:
    """Shift the mean to 0 and keep seven decimals, so that iteration error does not rank items with equal answers."""
    return cast("FloatArray", np.round(scores - scores.mean(), 7) + 0.0)


def bradley_terry(
    items: int,
    pairs: IntArray,
    probabilities: FloatArray,
    *,
    prior: float = 0.0,
    names: Sequence[str] | None = None,
) -> FloatArray:
    """Estimate strengths s by maximum likelihood: the first wins with probability 1 / (1 + e^(s_j - s_i)).

    A probability p counts as p wins and 1 - p losses, so 1/2 is a tie. The likelihood is concave and maximised by
    Newton's method.

    Args:
        items: N.
        pairs: shape (R, 2).
        probabilities: shape (R,).
        prior: number of ties added to every comparison. With 0, strengths exist only if a chain of wins leads from
            every item to every other. A probability within 1e-9 of 0 or 1 is a sure loss or win there: it is what the
            label shares of sampled answers give for a label that was never said, or always.
        names: names of the items for messages.

    Returns:
        Shape (N,), natural-log odds, mean 0, to seven decimals.

    Raises:
        UsageError: the comparisons do not connect the items; or, with prior 0, some items never lost to the others, so
            that their strengths are infinite; or the prior is negative.
        NotConvergedError: Newton's method did not converge.
    """
    if not prior >= 0:
        raise UsageError(f"a prior of {prior}: it must be 0 or more, as a number of ties")
    pairs, probabilities = answered(items, pairs, probabilities)
    check_connected(items, pairs, names)
    share = (probabilities + prior / 2) / (1 + prior)
    # Smaller shares are lost in the tolerance of the iteration.
    won = share > _GRADIENT
    lost = share < 1 - _GRADIENT
    winners = np.concatenate([pairs[won, 0], pairs[lost, 1]])
    losers = np.concatenate([pairs[won, 1], pairs[lost, 0]])
    unbeaten = never_beaten(items, winners, losers)
    if unbeaten is not None:
        raise UsageError(
            f"no finite strengths: {len(unbeaten)} of {items} items ({listed(unbeaten, names)}) lost to "
            "none of the others; give a prior above 0"
        )
    first, second = pairs[:, 0], pairs[:, 1]

    def likelihood(values: FloatArray) -> float:
        gap = values[first] - values[second]
        return -float(share @ np.logaddexp(0, -gap) + (1 - share) @ np.logaddexp(0, gap))

    strengths = np.zeros(items)
    current = likelihood(strengths)
    for _ in range(_STEPS):
        expected = 1 / (1 + np.exp(np.clip(strengths[second] - strengths[first], -700, 700)))
        gradient = _net(items, pairs, share - expected)
        error = float(np.abs(gradient).max())
        if error <= _GRADIENT:
            return _rounded(strengths)
        # Far from the maximum a rough step is good enough, so the tolerance follows the error.
        weights = np.maximum(expected * (1 - expected), 1e-12)
        change = solve_laplacian(items, pairs, weights, gradient, min(0.1, max(error, 1e-10)))
        length = 1.0
        while length > 1e-10 and (
            after := likelihood(strengths + length * change)
        ) < current - 1e-12 * abs(current):
            length /= 2
        strengths = strengths + length * change
        current = after
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
    """Estimate scores by least squares: every comparison is a Gaussian expert on s_i - s_j.

    The mean of an expert is p - b. b is the mean of p and removes a constant position bias; it is 1/2 for an unbiased
    judge and pairs in both orders. Estimate b over many contexts: the mean of few comparisons depends on the quality of
    their texts, too, and with one comparison nothing remains. All experts have the same variance, so the most likely
    scores are s = (W'W)^+ W'(p - b), where W has one row per comparison with +1 and -1.

    Source: Liusie et al. 2024, arXiv 2405.05894, the linear Gaussian expert with a bias term.

    Args:
        items: N.
        pairs: shape (R, 2).
        probabilities: shape (R,).
        position_bias: b, between 0 and 1; by default the mean of these probabilities.
        names: names of the items for messages.

    Returns:
        Shape (N,), mean 0, to seven decimals; the unit is that of a difference of probability.

    Raises:
        UsageError: the comparisons do not connect the items, or the position bias is not between 0 and 1.
        NotConvergedError: the equations could not be solved.
    """
    pairs, probabilities = answered(items, pairs, probabilities)
    check_connected(items, pairs, names)
    if position_bias is None:
        position_bias = float(probabilities.mean())
    if not 0 <= position_bias <= 1:
        raise UsageError(
            f"a position bias of {position_bias}: it must be a mean probability, between 0 and 1"
        )
    right = _net(items, pairs, probabilities - position_bias)
    return _rounded(solve_laplacian(items, pairs, np.ones(len(pairs)), right))
