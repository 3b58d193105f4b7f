"""Which items the comparisons hold together."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from refladder.errors import ShapeError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from refladder.arrays import FloatArray, IntArray


_SHOWN = 5  # names of a component in a message


def readable(items: int, pairs: IntArray, probabilities: FloatArray) -> tuple[IntArray, FloatArray]:
    """The comparisons that were answered: those whose probability is not NaN.

    Args:
        items: N.
        pairs: shape (R, 2), numbers of the first and the second item, from 0 to N - 1.
        probabilities: shape (R,), that the first is better, between 0 and 1; NaN where it could not be read.

    Raises:
        ShapeError: the arrays are not of these shapes.
        UsageError: fewer than two items, an item that is compared with itself or does not exist, or a probability
            outside [0, 1].
    """
    pairs, probabilities = np.asarray(pairs, dtype=np.int64), np.asarray(probabilities, dtype=np.float64)
    if pairs.ndim != 2 or pairs.shape[1:] != (2,) or probabilities.shape != pairs.shape[:1]:  # noqa: PLR2004
        raise ShapeError(
            f"pairs must have shape (R, 2) and probabilities (R,), found {pairs.shape} and {probabilities.shape}"
        )
    if items < 2:  # noqa: PLR2004
        raise UsageError(f"a ranking takes two items or more, found {items}")
    if pairs.size and (pairs.min() < 0 or pairs.max() >= items or (pairs[:, 0] == pairs[:, 1]).any()):
        raise UsageError(f"pairs must name two different items from 0 to {items - 1}")
    given = ~np.isnan(probabilities)
    if (probabilities[given] < 0).any() or (probabilities[given] > 1).any():
        raise UsageError("a probability must be between 0 and 1, or NaN where a comparison could not be read")
    return pairs[given], probabilities[given]


def components(items: int, pairs: IntArray) -> IntArray:
    """The connected component of every item: the smallest number in it.

    Args:
        items: N.
        pairs: shape (R, 2).

    Returns:
        Shape (N,).
    """
    label = np.arange(items)
    while True:
        low = np.minimum(label[pairs[:, 0]], label[pairs[:, 1]])
        new = label.copy()
        np.minimum.at(new, label[pairs[:, 0]], low)
        np.minimum.at(new, label[pairs[:, 1]], low)
        new = new[new]
        if np.array_equal(new, label):
            return cast("IntArray", label)
        label = new


def check_connected(items: int, pairs: IntArray, names: Sequence[str] | None = None) -> None:
    """Check that comparisons hold all items together.

    Args:
        items: N.
        pairs: shape (R, 2), those that were answered.
        names: of the items, for the message; by default their numbers.

    Raises:
        UsageError: there are items that no chain of comparisons joins; names them.
    """
    label = components(items, pairs)
    parts = [np.flatnonzero(label == root) for root in np.unique(label)[:3]]
    if len(parts) == 1:
        return

    def shown(part: IntArray) -> str:
        words = [str(item) if names is None else names[item] for item in part[:_SHOWN]]
        more = f" and {len(part) - _SHOWN} more" if len(part) > _SHOWN else ""
        return "{" + ", ".join(words) + more + "}"

    count = len(np.unique(label))
    rest = ", ..." if count > len(parts) else ""
    raise UsageError(
        f"the comparisons fall into {count} components that nothing joins: {', '.join(map(shown, parts))}{rest}; "
        "strengths across them cannot be compared: ask more pairs, or rank by win-ratio"
    )


def never_beaten(items: int, winners: IntArray, losers: IntArray) -> IntArray | None:
    """Items that no comparison with the others was lost by, when there are such: then no finite strengths exist.

    Args:
        items: N, held together by the comparisons.
        winners: shape (R,), who took some of each comparison.
        losers: shape (R,), from whom.

    Returns:
        None when from every item a chain of wins leads to every other; else items that nobody else ever beat.
    """
    down = _reached(items, winners, losers)
    if not down.all():
        return np.flatnonzero(~down)  # those that item 0 does not beat by any chain: no reached item beats them
    up = _reached(items, losers, winners)
    return None if up.all() else np.flatnonzero(up)


def _reached(items: int, sources: IntArray, targets: IntArray) -> NDArray[np.bool_]:
    """Which items a path leads to from item 0."""
    order = np.argsort(sources, kind="stable")
    ends = targets[order]
    starts = np.searchsorted(sources[order], np.arange(items + 1))
    seen = np.zeros(items, dtype=np.bool_)
    seen[0] = True
    front = [0]
    while front:
        found = np.concatenate([ends[starts[item] : starts[item + 1]] for item in front])
        new = np.unique(found[~seen[found]])
        seen[new] = True
        front = new.tolist()
    return seen
