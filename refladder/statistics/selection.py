"""Selection of the pairs to compare, if there are too many to compare all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from refladder.errors import UnknownNameError, UsageError
from refladder.statistics import SCHEMES

if TYPE_CHECKING:
    from refladder.arrays import IntArray


def most_pairs(items: int, scheme: str) -> int:
    """Return the largest number of comparisons of at least two items that a scheme can select."""
    if scheme not in SCHEMES:
        raise UnknownNameError("selection of pairs", scheme, SCHEMES)
    if items < 2:
        raise UsageError(
            f"a comparison needs two items, found {items}; give a context at least two outputs"
        )
    return items * (items - 1) // (2 if scheme == "no-repeat" else 1)


def all_pairs(items: int) -> IntArray:
    """Return all ordered pairs of at least two items, shape (N(N-1), 2), sorted by first and second item."""
    return _ordered(np.arange(most_pairs(items, "random")), items)


def select_pairs(items: int, budget: int, scheme: str, seed: int) -> IntArray:
    """Draw ordered pairs at random without repetition.

    Source: arXiv 2307.07889, section 3.4.

    Args:
        items: N, at least 2.
        budget: R, number of comparisons to draw.
        scheme: `random`: any ordered pairs. `no-repeat`: a pair is asked in one order only, drawn at random.
            `symmetric`: a pair is asked in both orders, except for one pair of an odd budget.
        seed: seed of the draw.

    Returns:
        Shape (budget, 2): numbers of the first and the second item.

    Raises:
        UsageError: fewer than two items, or a budget that is not between 1 and the number of pairs.
        UnknownNameError: no such scheme.
    """
    most = most_pairs(items, scheme)
    if not 1 <= budget <= most:
        raise UsageError(
            f"a budget of {budget:,} comparisons: {items} items have {most:,} pairs under {scheme!r}; "
            f"choose between 1 and {most:,}"
        )
    random = np.random.default_rng(seed)
    if scheme == "random":
        return _ordered(random.choice(most, budget, replace=False), items)
    drawn = budget if scheme == "no-repeat" else (budget + 1) // 2
    pairs = _unordered(random.choice(items * (items - 1) // 2, drawn, replace=False), items)
    turned = random.random(drawn) < 0.5
    pairs[turned] = pairs[turned, ::-1]
    if scheme == "no-repeat":
        return pairs
    both = np.stack([pairs, pairs[:, ::-1]], axis=1).reshape(-1, 2)
    return both[:budget]


def _ordered(numbers: IntArray, items: int) -> IntArray:
    first, second = np.divmod(numbers, items - 1)
    return np.stack([first, second + (second >= first)], axis=1)


def _unordered(numbers: IntArray, items: int) -> IntArray:
    # Row k of the upper triangle starts at k * items - k * (k + 1) / 2.
    rows = np.arange(items)
    starts = rows * items - rows * (rows + 1) // 2
    first = np.searchsorted(starts, numbers, side="right") - 1
    return np.stack([first, numbers - starts[first] + first + 1], axis=1)
