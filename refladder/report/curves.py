"""Budget curves: agreement with people when only some of the pairs are asked (arXiv 2307.07889, figure 4).

All pairs were judged once; a budget takes some of those answers, again and again with other seeds, so that a curve
costs no call.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from refladder.errors import UsageError
from refladder.metaeval.correlation import correlate_rows
from refladder.ranking import SCHEMES, bias
from refladder.ranking.estimators import win_ratio
from refladder.ranking.selection import most_pairs, select_pairs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from refladder.arrays import FloatArray
    from refladder.methods.contract import Comparisons


POINTS = 10  # budgets of a curve, when none are given
SIZES = (2, 3, 4, 6, 8, 12, 16)  # subsets of outputs


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint:
    """Agreement at one budget: mean over draws of the mean Spearman correlation over contexts.

    `low` and `high` are the 5th and 95th percentile over the draws; all three are None when no context has a
    correlation. `budget` counts the comparisons of one context. `unscored` is the share of outputs, over contexts and
    draws, that no comparison was about; they are left out of their context. `first` is the mean of P(first) over the
    draws: with `debiased`, of what the threshold leaves; None when nothing could be read.
    """

    kind: str = "curve"
    dimension: str
    selection: str
    debiased: bool
    budget: int
    value: float | None
    low: float | None
    high: float | None
    unscored: float
    first: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsistencyRow:
    """Rankings by win ratio of `size` outputs of a context: how they agree pair by pair, as shares between 0 and 1.

    `final`: with the ranking of all outputs; `gold`: with the ratings. Means over contexts; None where there is none.
    """

    kind: str = "self-consistency"
    dimension: str
    size: int
    final: float | None
    gold: float | None


def budget_curve(
    comparisons: Sequence[Comparisons],
    human: Mapping[tuple[str, str], float],
    dimension: str,
    *,
    budgets: Sequence[int] | None = None,
    draws: int = 20,
    seed: int = 0,
) -> list[CurvePoint]:
    """Win ratio's agreement with people by budget, for every selection of pairs, plain and debiased.

    A context whose scores are constant counts 0, as at small budgets they often are. The threshold of the debiased
    curve is fitted over all contexts on the chosen comparisons alone; where the judge gave single answers it is 1/2, so
    that the two curves are the same.

    Args:
        comparisons: all ordered pairs of every context, as the method win-ratio asks them without a budget.
        human: (output id, dimension) to mean rating.
        dimension: the one to draw.
        budgets: comparisons of one context; by default ten, up to all pairs. A selection leaves out those it cannot
            reach.
        draws: choices of pairs at each budget.
        seed: of the first; the others follow.

    Raises:
        UsageError: no context has all of its pairs, or the contexts have different numbers of outputs.
    """
    items, own = _whole(comparisons, dimension)
    most = most_pairs(items, "random")
    wanted = budgets or sorted({max(2, round(most * part / POINTS)) for part in range(1, POINTS + 1)})
    matrices = [bias.square(items, one.pairs, one.probabilities) for one in own]
    ratings = np.array([[human.get((output.id, dimension), np.nan) for output in one.outputs] for one in own])
    points = []
    for scheme in SCHEMES:
        for budget in wanted:
            if not 1 <= budget <= most_pairs(items, scheme):
                continue
            found = np.array(
                [_draw(matrices, ratings, scheme, budget, seed + draw) for draw in range(draws)], dtype=np.float64
            )
            points += [
                _point(found[:, int(debiased)], dimension, scheme, budget, debiased=debiased)
                for debiased in (False, True)
            ]
    return points


def consistency_rows(
    comparisons: Sequence[Comparisons],
    human: Mapping[tuple[str, str], float],
    dimension: str,
    *,
    draws: int = 10,
    seed: int = 0,
) -> list[ConsistencyRow]:
    """How far rankings of some of the outputs agree with the ranking of all (arXiv 2307.07889, table 8).

    Args:
        comparisons: all ordered pairs of every context.
        human: (output id, dimension) to mean rating.
        dimension: which one.
        draws: subsets of each size and context.
        seed: of the draws.

    Raises:
        UsageError: see `budget_curve`.
    """
    items, own = _whole(comparisons, dimension)
    sizes = [size for size in SIZES if size < items] + [items]
    found = np.array(
        [
            bias.self_consistency(
                bias.square(items, one.pairs, one.probabilities),
                sizes,
                human=np.array([human.get((output.id, dimension), np.nan) for output in one.outputs]),
                draws=draws,
                seed=seed + place,
            )
            for place, one in enumerate(own)
        ]
    )
    rows = []
    for place, size in enumerate(sizes):
        final, gold = (values[~np.isnan(values)] for values in found[:, place, 1:].T)
        rows.append(
            ConsistencyRow(
                dimension=dimension,
                size=size,
                final=float(final.mean()) if final.size else None,
                gold=float(gold.mean()) if gold.size else None,
            )
        )
    return rows


def _whole(comparisons: Sequence[Comparisons], dimension: str) -> tuple[int, list[Comparisons]]:
    """The number of outputs of every context, and the comparisons of one dimension."""
    own = [one for one in comparisons if one.dimension.name == dimension]
    sizes = {len(one.outputs) for one in own}
    if not own or any(len(one.pairs) != most_pairs(len(one.outputs), "random") for one in own):
        raise UsageError(
            f"a budget curve of {dimension!r} needs every pair judged in both orders; run win-ratio without a budget"
        )
    if len(sizes) > 1:
        raise UsageError(
            f"a budget curve needs the same number of outputs in every context, found {sorted(sizes)}; "
            "leave the others out"
        )
    return sizes.pop(), own


def _draw(
    matrices: Sequence[FloatArray], ratings: FloatArray, scheme: str, budget: int, seed: int
) -> list[tuple[float, float, float]]:
    """(agreement, share of outputs without a score, P(first)), plain and debiased."""
    items = ratings.shape[1]
    chosen = [select_pairs(items, budget, scheme, seed * len(matrices) + place) for place in range(len(matrices))]
    answers = [matrix[pairs[:, 0], pairs[:, 1]] for matrix, pairs in zip(matrices, chosen, strict=True)]
    together = np.concatenate(answers)
    threshold = bias.fit_threshold(together)
    found = []
    for limit in (0.5, threshold):
        scores = np.array(
            [
                np.full(items, np.nan) if np.isnan(limit) else win_ratio(items, pairs, answer, limit)
                for pairs, answer in zip(chosen, answers, strict=True)
            ]
        )
        rows = correlate_rows(scores, ratings, "spearman", "zero")
        used = rows[~np.isnan(rows)]
        found.append(
            (
                float(used.mean()) if used.size else float("nan"),
                float(np.isnan(scores).mean()),
                bias.share_of_first(together, limit),
            )
        )
    return found


def _point(drawn: FloatArray, dimension: str, scheme: str, budget: int, *, debiased: bool) -> CurvePoint:
    values = drawn[~np.isnan(drawn[:, 0]), 0]
    shares = drawn[~np.isnan(drawn[:, 2]), 2]
    low, high = np.percentile(values, [5, 95]).tolist() if values.size else (None, None)
    return CurvePoint(
        dimension=dimension,
        selection=scheme,
        debiased=debiased,
        budget=budget,
        value=float(values.mean()) if values.size else None,
        low=low,
        high=high,
        unscored=float(drawn[:, 1].mean()),
        first=float(shares.mean()) if shares.size else None,
    )
