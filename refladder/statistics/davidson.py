"""Davidson's model: one strength per item from wins, losses and ties."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from refladder.errors import NotConvergedError, ShapeError, UsageError
from refladder.statistics.graph import check_connected

if TYPE_CHECKING:
    from refladder.arrays import FloatArray

# Every compared pair gets these comparisons, a third each a win, a loss and a tie. They keep strengths finite.
PRIOR = 0.01
_STEPS = 200
_GRADIENT = 1e-9


class Davidson(NamedTuple):
    """Strengths, shape (N,), mean 0, in log-odds of a win over a loss; and `ties`, the weight of a tie, above 0."""

    strengths: FloatArray
    ties: float


def davidson(wins: FloatArray, ties: FloatArray) -> Davidson:
    """Estimate strengths: P(i beats j) : P(j beats i) : P(tie) = e^h : e^-h : nu, with h = (s_i - s_j) / 2.

    These maximise the likelihood, by Newton's method: it is concave in the strengths and ln nu.

    Source: Davidson 1970, JASA 65, pages 317-328.

    Args:
        wins: shape (N, N), how often the item of the row beat the item of the column; shares of a win may be added.
        ties: shape (N, N), symmetric, how often the two tied.

    Raises:
        ShapeError: the matrices are not square, or differ in shape.
        UsageError: a count is negative or not finite, or comparisons do not connect all items.
        NotConvergedError: Newton's method did not converge.
    """
    if wins.ndim != 2 or wins.shape[0] != wins.shape[1] or wins.shape != ties.shape:
        raise ShapeError(
            f"wins and ties must be square and of one shape, found {wins.shape} and {ties.shape}"
        )
    both = np.stack([wins, ties])
    if not (np.isfinite(both) & (both >= 0)).all():
        raise UsageError("wins and ties must be finite numbers, 0 or more")
    items = len(wins)
    low, high = np.triu_indices(items, 1)
    # These count how often the higher number wins, loses and ties.
    counts = np.stack([wins[high, low], wins[low, high], ties[low, high]], axis=1)
    compared = counts.sum(axis=1) > 0
    if not compared.any():
        raise UsageError("no pair was compared, so there are no strengths; judge at least one pair")
    low = low[compared]
    high = high[compared]
    check_connected(items, np.stack([low, high], axis=1))
    counts = counts[compared] + PRIOR / 3
    # The log-weight of each outcome is linear in (strengths, ln nu): +-h for a win and a loss, ln nu for a tie.
    identity = np.eye(items)
    half = (identity[high] - identity[low]) / 2
    design = np.zeros((len(low), 3, items + 1))
    design[:, 0, :items] = half
    design[:, 1, :items] = -half
    design[:, 2, items] = 1.0
    totals = counts.sum(axis=1)
    observed = np.einsum("pk,pkv->v", counts, design)
    # Strengths are known up to a constant: this direction gets a curvature of its own.
    fixed = np.append(np.ones(items), 0.0)

    def likelihood(values: FloatArray) -> tuple[float, FloatArray]:
        logits = design @ values
        top = logits.max(axis=1, keepdims=True)
        weights = np.exp(logits - top)
        whole = weights.sum(axis=1, keepdims=True)
        return float((counts * (logits - top - np.log(whole))).sum()), weights / whole

    values = np.zeros(items + 1)
    current, shares = likelihood(values)
    for _ in range(_STEPS):
        expected = totals[:, None] * shares
        gradient = observed - np.einsum("pk,pkv->v", expected, design)
        if float(np.abs(gradient).max()) <= _GRADIENT * max(1.0, float(totals.sum())):
            strengths = values[:items] - values[:items].mean()
            return Davidson(strengths=strengths, ties=math.exp(values[items]))
        mean = np.einsum("pk,pkv->pv", shares, design)
        curvature = np.einsum("pk,pkv,pku->vu", expected, design, design)
        curvature -= np.einsum("p,pv,pu->vu", totals, mean, mean)
        curvature += np.outer(fixed, fixed) + 1e-12 * np.eye(items + 1)
        change = np.linalg.solve(curvature, gradient)
        length = 1.0
        while (after := likelihood(values + length * change))[0] < current and length > 1e-10:
            length /= 2
        values, (current, shares) = values + length * change, after
    raise NotConvergedError(
        f"Davidson strengths of {items} items did not converge in {_STEPS} steps"
    )
