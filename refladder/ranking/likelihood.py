"""The ranking that makes the comparisons most likely: exact for few items, greedy search for more."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from refladder.errors import UsageError
from refladder.ranking.graph import check_connected, readable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from refladder.arrays import FloatArray, IntArray


EXACT = 10  # items up to which every ranking is weighed; the sets of items are 2^N
MOST = 2000  # items; the search holds a matrix of N x N
_SURE = 1e-6  # a probability of 0 or 1 counts as this near to it, so that one wrong answer rules nothing out
_EQUAL = 1e-9  # log-likelihoods this near are equal


def gains(items: int, pairs: IntArray, probabilities: FloatArray) -> FloatArray:
    """What each order of two items adds to the log-likelihood of a ranking.

    Source: arXiv 2307.07889, equation 12, read as the product of p^z (1 - p)^(1 - z); the sum that is printed there is
    no probability.

    Args:
        items: N.
        pairs: shape (R, 2), answered.
        probabilities: shape (R,), without NaN.

    Returns:
        Shape (N, N): what is added when the row's item stands above the column's; natural logarithm, at most 0.
    """
    clipped = np.clip(probabilities, _SURE, 1 - _SURE)
    matrix = np.zeros((items, items))
    np.add.at(matrix, (pairs[:, 0], pairs[:, 1]), np.log(clipped))
    np.add.at(matrix, (pairs[:, 1], pairs[:, 0]), np.log1p(-clipped))
    return matrix


def log_likelihood(matrix: FloatArray, order: Sequence[int] | IntArray) -> float:
    """The log-likelihood of a ranking.

    Args:
        matrix: from `gains`.
        order: the items, best first.
    """
    places = np.asarray(order)
    return float(np.triu(matrix[places[:, None], places], 1).sum())


def likelihood_ranking(
    items: int,
    pairs: IntArray,
    probabilities: FloatArray,
    *,
    exact: int = EXACT,
    names: Sequence[str] | None = None,
) -> FloatArray:
    """Rank items so that the comparisons are most likely.

    With up to `exact` items every ranking is weighed (by dynamic programming over sets of items), and an item gets its
    mean place over all rankings that are equally the best, so that all ties give all items the same number. With more,
    a greedy search moves single items while that helps, from two starts; the likelier result counts, the mean place
    where they are equal.

    Hard answers count as probabilities of 0 and 1, so that all answers weigh the same, whichever position they choose.
    Equation 13 would weigh them by P(answer | order), which is not estimated here: where pairs are asked in both orders
    it has no effect (two answers for one position are equally likely in either order of the items), and where they are
    asked in one order it cannot be estimated apart from the ranking itself.

    Source: arXiv 2307.07889, appendix B, equations 11 and 12.

    Args:
        items: N, at most 2,000.
        pairs: shape (R, 2), numbers of the first and the second item.
        probabilities: shape (R,), that the first is better; NaN where not read. With 0, 1/2 and 1 the best ranking is
            the one that breaks the fewest answers.
        exact: up to how many items every ranking is weighed.
        names: of the items, for messages.

    Returns:
        Shape (N,): how many items stand below, N - 1 for the best; halves for ties.

    Raises:
        ShapeError, UsageError: see `refladder.ranking.graph.readable`; the comparisons do not hold the items together;
            too many items.
    """
    if items > MOST:
        raise UsageError(f"likelihood ranking takes up to {MOST:,} items, found {items:,}; use bradley-terry")
    pairs, probabilities = readable(items, pairs, probabilities)
    check_connected(items, pairs, names)
    matrix = gains(items, pairs, probabilities)
    if items <= exact:
        return items - 1 - _mean_places(matrix)
    wins = (matrix - matrix.T).sum(axis=1)
    found = [_improved(matrix, np.lexsort((place, -wins))) for place in (np.arange(items), -np.arange(items))]
    values = [log_likelihood(matrix, order) for order in found]
    best = [order for order, value in zip(found, values, strict=True) if value >= max(values) - _EQUAL]
    return cast("FloatArray", items - 1 - np.mean([np.argsort(order) for order in best], axis=0))


def _mean_places(matrix: FloatArray) -> FloatArray:
    """Mean place, 0 the best, of every item over the rankings of highest likelihood."""
    items = len(matrix)
    sets = np.arange(1 << items)
    members = (sets[:, None] >> np.arange(items)) & 1 == 1
    # below[s, i]: what is added when item i stands above all of those outside s but itself
    below = (~members).astype(np.float64) @ (matrix - np.diag(np.diag(matrix))).T
    sizes = members.sum(axis=1)
    layers = [sets[sizes == size] for size in range(items + 1)]

    def walk(layer: IntArray, item: int) -> IntArray:
        return cast("IntArray", layer[~members[layer, item]])

    best, ways = np.full(len(sets), -np.inf), np.zeros(len(sets))
    best[0], ways[0] = 0.0, 1.0
    for layer in layers[:-1]:
        for item in range(items):
            here = walk(layer, item)
            np.maximum.at(best, here | 1 << item, best[here] + below[here, item])
        for item in range(items):
            here = walk(layer, item)
            there = here | 1 << item
            ways[there] += ways[here] * (best[here] + below[here, item] >= best[there] - _EQUAL)
    back = np.zeros(len(sets))  # in how many best ways a set can be completed, along best ways only
    back[-1] = 1.0
    places = np.zeros(items)
    for layer in layers[-2::-1]:
        for item in range(items):
            here = walk(layer, item)
            there = here | 1 << item
            kept = back[there] * (best[here] + below[here, item] >= best[there] - _EQUAL)
            back[here] += kept
            places[item] += float(ways[here] @ (kept * sizes[here]))
    return cast("FloatArray", places / ways[-1])


def _improved(matrix: FloatArray, order: IntArray) -> IntArray:
    """Move single items to their best place until no move helps."""
    order = order.copy()
    moved = True
    while moved:
        moved = False
        for item in order.copy():
            rest = order[order != item]
            # Standing before rest[k:] and behind rest[:k], for k = 0 .. N - 1.
            ahead, behind = matrix[item, rest], matrix[rest, item]
            values = np.append(np.cumsum(ahead[::-1])[::-1], 0.0) + np.insert(np.cumsum(behind), 0, 0.0)
            now = int(np.flatnonzero(order == item)[0])
            goal = int(np.argmax(values))
            if values[goal] > values[now] + _EQUAL:
                order = np.insert(rest, goal, item)
                moved = True
    return order
