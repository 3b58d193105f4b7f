"""Comparisons as a graph: checks, connected components, reachability and Laplacian equations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from refladder.errors import NotConvergedError, ShapeError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from refladder.arrays import BoolArray, FloatArray, IntArray


# A message names at most this number of items.
_SHOWN = 5
# Up to this number of items, a dense solver is faster than conjugate gradients.
_DENSE = 256
# scipy.sparse is imported in the functions that use it: 0.1 to 0.3 s that `refladder list` and completion do not need.


def answered(items: int, pairs: IntArray, probabilities: FloatArray) -> tuple[IntArray, FloatArray]:
    """Check pairs, shape (R, 2), of N items and their probabilities; return those with an answer."""
    pairs = np.asarray(pairs, dtype=np.int64)
    probabilities = np.asarray(probabilities, dtype=np.float64)
    if pairs.ndim != 2 or pairs.shape[1:] != (2,) or probabilities.shape != pairs.shape[:1]:
        raise ShapeError(
            f"pairs must have shape (R, 2) and probabilities (R,), found {pairs.shape} and {probabilities.shape}"
        )
    if items < 2:
        raise UsageError(f"a ranking needs at least two items, found {items}")
    if pairs.size and (
        pairs.min() < 0 or pairs.max() >= items or (pairs[:, 0] == pairs[:, 1]).any()
    ):
        raise UsageError(f"pairs must name two different items from 0 to {items - 1}")
    present = ~np.isnan(probabilities)
    if (probabilities[present] < 0).any() or (probabilities[present] > 1).any():
        raise UsageError(
            "a probability must be between 0 and 1, or NaN for a comparison without an answer"
        )
    return pairs[present], probabilities[present]


def components(items: int, pairs: IntArray) -> IntArray:
    """Return the smallest item number in the connected component of each item, by pairs of shape (R, 2)."""
    from scipy.sparse import csgraph

    labels = csgraph.connected_components(
        _adjacency(items, pairs[:, 0], pairs[:, 1]), directed=False
    )[1]
    _, first, position = np.unique(labels, return_index=True, return_inverse=True)
    return first[position]


def check_connected(items: int, pairs: IntArray, names: Sequence[str] | None = None) -> None:
    """Check that comparisons with an answer, pairs of shape (R, 2), connect all items; the message has their names."""
    labels = components(items, pairs)
    roots = np.unique(labels)
    if len(roots) == 1:
        return

    parts = [f"{{{listed(np.flatnonzero(labels == root), names)}}}" for root in roots[:3]]
    rest = ", ..." if len(roots) > len(parts) else ""
    raise UsageError(
        f"the comparisons form {len(roots)} unconnected components: {', '.join(parts)}{rest}; "
        "strengths of different components cannot be compared: ask more pairs, or rank by win-ratio"
    )


def listed(items: IntArray, names: Sequence[str] | None) -> str:
    """List the names of items for a message, or their numbers."""
    words = [str(item) if names is None else names[item] for item in items[:_SHOWN]]
    more = f" and {len(items) - _SHOWN} more" if len(items) > _SHOWN else ""
    return ", ".join(words) + more


def never_beaten(items: int, winners: IntArray, losers: IntArray) -> IntArray | None:
    """Return the items that never lost to others, so that no finite strengths exist; None if there are none."""
    below = _reachable(items, winners, losers)
    if not below.all():
        # No chain of wins leads from item 0 to them: no item in `below` beats them.
        return np.flatnonzero(~below)
    above = _reachable(items, losers, winners)
    return None if above.all() else np.flatnonzero(above)


def _reachable(items: int, sources: IntArray, targets: IntArray) -> BoolArray:
    """Return whether a path leads from item 0 to each item, shape (N,)."""
    from scipy.sparse import csgraph

    nodes = csgraph.breadth_first_order(
        _adjacency(items, sources, targets), 0, return_predecessors=False
    )
    reachable = np.zeros(items, dtype=np.bool_)
    reachable[nodes] = True
    return reachable


def _adjacency(
    items: int, sources: IntArray, targets: IntArray, weights: FloatArray | None = None
) -> Any:
    from scipy.sparse import coo_array

    values = np.ones(len(sources)) if weights is None else weights
    return coo_array((values, (sources, targets)), shape=(items, items)).tocsr()


def solve_laplacian(
    items: int, pairs: IntArray, weights: FloatArray, right: FloatArray, tolerance: float = 1e-10
) -> FloatArray:
    """Solve L x = b for the weighted Laplacian L of the comparisons: sum over pairs of w (x_i - x_j) = b_i.

    Items are connected, weights above 0, b (`right`, shape (N,)) adds up to 0, and x has mean 0. For more than 256
    items, conjugate gradients end where |L x - b| / |b| is `tolerance`, or after 10 N steps in NotConvergedError.
    """
    # L cannot produce a constant.
    right = right - right.mean()
    first, second = pairs[:, 0], pairs[:, 1]
    if items <= _DENSE:
        joint = np.bincount(first * items + second, weights, items * items).reshape(items, items)
        joint += joint.T
        degrees = joint.sum(axis=1)
        # The constant vector is the null space of L; adding a multiple of the matrix of ones makes L regular.
        solution = np.linalg.solve(np.diag(degrees) - joint + degrees.mean() / items, right)
        return cast("FloatArray", solution - solution.mean())
    from scipy.sparse import diags_array
    from scipy.sparse.linalg import cg

    adjacency = _adjacency(items, first, second, weights)
    adjacency += adjacency.T
    solution, steps = cg(diags_array(adjacency.sum(axis=1)) - adjacency, right, rtol=tolerance)
    if steps:
        raise NotConvergedError(
            f"conjugate gradients did not converge in {steps} steps on {items} items; ask more pairs"
        )
    return cast("FloatArray", solution - solution.mean())
