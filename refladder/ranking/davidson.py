"""Davidson's model: one strength per item from wins, losses and ties."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from refladder.errors import NotConvergedError, ShapeError, UsageError

if TYPE_CHECKING:
    from refladder.arrays import FloatArray

PRIOR = 0.01  # comparisons with an even outcome, added to every pair that was compared: keeps strengths finite
_STEPS = 200
_GRADIENT = 1e-9


class Davidson(NamedTuple):
    """Strengths, shape (N,), mean 0, in log-odds of a win over a loss; and `ties`, the weight of a tie, above 0."""

    strengths: FloatArray
    ties: float


def davidson(wins: FloatArray, ties: FloatArray, *, prior: float = PRIOR) -> Davidson:
    """Strengths of the maximum likelihood: P(i beats j) : P(j beats i) : P(tie) = e^h : e^-h : nu, h = (s_i - s_j) / 2.

    Fitted by Newton's method; the log-likelihood is concave in the strengths and ln nu.

    Source: Davidson 1970, JASA 65, pages 317-328.

    Args:
        wins: shape (N, N), how often the item of the row beat the item of the column; shares of a win may be added.
        ties: shape (N, N), symmetric, how often the two tied.
        prior: comparisons that each compared pair gets in addition, a third each a win, a loss and a tie.

    Raises:
        ShapeError: the matrices are not square, or differ in shape.
        UsageError: a count is negative or not finite, no pair was compared, or the prior is not above 0.
        NotConvergedError: Newton's method did not converge.
    """
    wins, ties = np.asarray(wins, dtype=np.float64), np.asarray(ties, dtype=np.float64)
    if wins.ndim != 2 or wins.shape[0] != wins.shape[1] or wins.shape != ties.shape:
        raise ShapeError(
            f"wins and ties must be square and of one shape, found {wins.shape} and {ties.shape}"
        )
    if not (
        np.isfinite(wins).all()
        and np.isfinite(ties).all()
        and (wins >= 0).all()
        and (ties >= 0).all()
    ):
        raise UsageError("wins and ties must be finite numbers, 0 or more")
    if not prior > 0:
        raise UsageError(f"a prior of {prior}: it must be above 0, as a number of comparisons")
    items = len(wins)
    low, high = np.triu_indices(items, 1)
    counts = np.stack(
        [wins[high, low], wins[low, high], ties[low, high]], axis=1
    )  # the higher number wins, loses, ties
    compared = counts.sum(axis=1) > 0
    low, high, counts = low[compared], high[compared], counts[compared] + prior / 3
    if not len(low):
        raise UsageError("no pair was compared, so there are no strengths; judge at least one pair")
    # The log-weight of each outcome is linear in (strengths, ln nu): +-h for a win and a loss, ln nu for a tie.
    half = np.zeros((len(low), items))
    half[np.arange(len(low)), high], half[np.arange(len(low)), low] = 0.5, -0.5
    design = np.zeros((len(low), 3, items + 1))
    design[:, 0, :items], design[:, 1, :items], design[:, 2, items] = half, -half, 1.0
    totals = counts.sum(axis=1)
    observed = np.einsum("pk,pkv->v", counts, design)
    fixed = np.zeros(items + 1)
    fixed[:items] = (
        1.0  # strengths are known up to a constant: this direction gets a curvature of its own
    )

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
        f"Davidson strengths of {items} items did not converge in {_STEPS} steps; raise the prior"
    )
