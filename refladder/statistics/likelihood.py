"""Maximum likelihood ranking: exact for few items, greedy search for more."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from refladder.errors import UsageError
from refladder.statistics.graph import answered, check_connected

if TYPE_CHECKING:
    from collections.abc import Sequence

    from refladder.arrays import FloatArray, IntArray


# Up to this number of items the search is exact, over all 2^N sets of items.
EXACT = 10
# The search needs a matrix of N x N, so N is at most this.
MOST = 2000
# Probabilities are cut here, so that one wrong answer does not rule out a ranking.
_SURE = 1e-6
# Log-likelihoods within this distance are equal.
_EQUAL = 1e-9


def gains(items: int, pairs: IntArray, probabilities: FloatArray) -> FloatArray:
    """Return the log-likelihood (natural, at most 0) of each row's item above each column's: shape (N, N).

    Source: arXiv 2307.07889, equation 12, as the product of p^z (1 - p)^(1 - z); the sum printed there is not a
    probability.
    """
    clipped = np.clip(probabilities, _SURE, 1 - _SURE)
    matrix = np.zeros((items, items))
    np.add.at(matrix, (pairs[:, 0], pairs[:, 1]), np.log(clipped))
    np.add.at(matrix, (pairs[:, 1], pairs[:, 0]), np.log1p(-clipped))
    return matrix


def log_likelihood(matrix: FloatArray, order: Sequence[int] | IntArray) -> float:
    """Return the log-likelihood of a ranking, best first, by the matrix of `gains`."""
    items = np.asarray(order)
    return float(np.triu(matrix[items[:, None], items], 1).sum())


def likelihood_ranking(
    items: int,
    pairs: IntArray,
    probabilities: FloatArray,
    *,
    names: Sequence[str] | None = None,
) -> FloatArray:
    """Rank items so that the comparisons are most likely.

    With up to 10 items all rankings are considered, by dynamic programming over sets of items. An item gets its
    mean position over all best rankings, so that ties alone give all items the same number. With more items, a greedy
    search from two starts moves single items while the likelihood rises; the better result is used, or the mean
    position if they are equal.

    Hard answers are probabilities of 0 and 1, so that all answers have the same weight for either position. Equation 13
    weights them by P(answer | order), which is not estimated smaller. With pairs in both orders it has no effect: two
    answers for one position are equally likely in either order of the items. With pairs in one order it cannot be
    separated from the ranking.

    Source: arXiv 2307.07889, appendix B, equations 11 and 12.

    Args:
        items: N, at most 2,000.
        pairs: shape (R, 2), numbers of the first and the second item.
        probabilities: shape (R,), probability that the first is better; NaN for an unparsed answer. With 0, 1/2 and 1
            the best ranking contradicts the fewest answers.
        names: names of the items for messages.

    Returns:
        Shape (N,): number of items ranked below, N - 1 for the best; halves for ties.

    Raises:
        ShapeError, UsageError: see `refladder.statistics.graph.answered`; the comparisons do not connect the items; too
            many items.
    """
    if items > MOST:
        raise UsageError(
            f"likelihood ranking takes up to {MOST:,} items, found {items:,}; use bradley-terry"
        )
    pairs, probabilities = answered(items, pairs, probabilities)
    check_connected(items, pairs, names)
    matrix = gains(items, pairs, probabilities)
    if items <= EXACT:
        return items - 1 - _mean_positions(matrix)
    wins = (matrix - matrix.T).sum(axis=1)
    first = _improved(matrix, np.lexsort((np.arange(items), -wins)))
    second = _improved(matrix, np.lexsort((-np.arange(items), -wins)))
    lead = log_likelihood(matrix, first) - log_likelihood(matrix, second)
    places = np.argsort([first, second], axis=1)
    if lead > _EQUAL:
        places = places[:1]
    elif lead < -_EQUAL:
        places = places[1:]
    return cast("FloatArray", items - 1 - places.mean(axis=0))


def _mean_positions(matrix: FloatArray) -> FloatArray:
    """Return the mean position, 0 the best, of every item over the rankings of highest likelihood."""
    items = len(matrix)
    sets = np.arange(1 << items)
    members = (sets[:, None] >> np.arange(items)) & 1 == 1
    # below[s, i] is the log-likelihood of item i above all other items outside of s.
    below = (~members).astype(np.float64) @ (matrix - np.diag(np.diag(matrix))).T
    sizes = members.sum(axis=1)
    layers = [sets[sizes == size] for size in range(items + 1)]

    def without(layer: IntArray, item: int) -> IntArray:
        return cast("IntArray", layer[~members[layer, item]])

    best = np.full(len(sets), -np.inf)
    best[0] = 0.0
    counts = np.zeros(len(sets))
    counts[0] = 1.0
    for layer in layers[:-1]:
        for item in range(items):
            smaller = without(layer, item)
            np.maximum.at(best, smaller | 1 << item, best[smaller] + below[smaller, item])
        for item in range(items):
            smaller = without(layer, item)
            larger = smaller | 1 << item
            counts[larger] += counts[smaller] * (
                best[smaller] + below[smaller, item] >= best[larger] - _EQUAL
            )
    # A set has this number of best orders of the items that are not in it yet.
    completions = np.zeros(len(sets))
    completions[-1] = 1.0
    positions = np.zeros(items)
    for layer in layers[-2::-1]:
        for item in range(items):
            smaller = without(layer, item)
            larger = smaller | 1 << item
            optimal = completions[larger] * (
                best[smaller] + below[smaller, item] >= best[larger] - _EQUAL
            )
            completions[smaller] += optimal
            positions[item] += float(counts[smaller] @ (optimal * sizes[smaller]))
    return cast("FloatArray", positions / counts[-1])


def _improved(matrix: FloatArray, order: IntArray) -> IntArray:
    """Move single items to their best position until no move helps."""
    order = order.copy()
    moved = True
    while moved:
        moved = False
        for item in order.copy():
            rest = order[order != item]
            # The item is placed before rest[k:] and behind rest[:k], for k = 0 .. N - 1.
            ahead = np.append(np.cumsum(matrix[item, rest][::-1])[::-1], 0.0)
            behind = np.insert(np.cumsum(matrix[rest, item]), 0, 0.0)
            values = ahead + behind
            current = int(np.flatnonzero(order == item)[0])
            goal = int(np.argmax(values))
            if values[goal] > values[current] + _EQUAL:
                order = np.insert(rest, goal, item)
                moved = True
    return order
