"""Budget curves: agreement with people when only some of the pairs are asked (arXiv 2307.07889, figure 4).

All pairs are judged once. Each draw takes a part of those answers with another seed, so that a curve costs no call.
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
    """Agreement at one `budget` of comparisons of a context: mean over draws of the mean Spearman correlation.

    `low` and `high` are the 5th and 95th percentile over draws, `unscored` the share of outputs without a comparison,
    `first` the mean of P(first); None where there is no correlation, or no judgment could be parsed.
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
    """Rankings of `size` outputs by win ratio: shares of pairs (0 to 1) as in the ranking of all or in the ratings.

    Means over contexts; None without a value.
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

    A context with constant scores counts 0. The threshold is fitted over all contexts on the chosen comparisons alone.
    """
    items, compared = _compared(comparisons, dimension)
    most = most_pairs(items, "random")
    budgets = budgets or sorted(
        {max(2, round(most * part / POINTS)) for part in range(1, POINTS + 1)}
    )
    matrices = [bias.square(items, context.pairs, context.probabilities) for context in compared]
    ratings = np.array(
        [
            [human.get((output.id, dimension), np.nan) for output in context.outputs]
            for context in compared
        ]
    )
    points = []
    for scheme in SCHEMES:
        for budget in budgets:
            if not 1 <= budget <= most_pairs(items, scheme):
                continue
            drawn = np.array(
                [_draw(matrices, ratings, scheme, budget, seed + draw) for draw in range(draws)],
                dtype=np.float64,
            )
            points += [
                _point(drawn[:, int(debiased)], dimension, scheme, budget, debiased=debiased)
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
    """Agreement of rankings of some outputs with the ranking of all (arXiv 2307.07889, table 8)."""
    items, compared = _compared(comparisons, dimension)
    sizes = [size for size in SIZES if size < items] + [items]
    shares = np.array(
        [
            bias.self_consistency(
                bias.square(items, context.pairs, context.probabilities),
                sizes,
                human=np.array(
                    [human.get((output.id, dimension), np.nan) for output in context.outputs]
                ),
                draws=draws,
                seed=seed + number,
            )
            for number, context in enumerate(compared)
        ]
    )
    return [
        ConsistencyRow(
            dimension=dimension,
            size=size,
            final=_mean(shares[:, column, 1]),
            gold=_mean(shares[:, column, 2]),
        )
        for column, size in enumerate(sizes)
    ]


def _mean(values: FloatArray) -> float | None:
    """The mean of the values that are not NaN; None without any."""
    values = values[~np.isnan(values)]
    return float(values.mean()) if values.size else None


def _compared(comparisons: Sequence[Comparisons], dimension: str) -> tuple[int, list[Comparisons]]:
    """The number of outputs of every context, and the comparisons of one dimension."""
    compared = [context for context in comparisons if context.dimension.name == dimension]
    sizes = {len(context.outputs) for context in compared}
    if not compared or any(
        len(context.pairs) != most_pairs(len(context.outputs), "random") for context in compared
    ):
        raise UsageError(
            f"a budget curve of {dimension!r} needs every pair judged in both orders; run win-ratio without a budget"
        )
    if len(sizes) > 1:
        raise UsageError(
            f"a budget curve needs the same number of outputs in every context, found {sorted(sizes)}; "
            "leave out the contexts with other numbers"
        )
    return sizes.pop(), compared


def _draw(
    matrices: Sequence[FloatArray], ratings: FloatArray, scheme: str, budget: int, seed: int
) -> list[tuple[float, float, float]]:
    """(agreement, share of outputs without a score, P(first)), plain and debiased."""
    items = ratings.shape[1]
    chosen = [
        select_pairs(items, budget, scheme, seed * len(matrices) + number)
        for number in range(len(matrices))
    ]
    answers = [
        matrix[pairs[:, 0], pairs[:, 1]] for matrix, pairs in zip(matrices, chosen, strict=True)
    ]
    together = np.concatenate(answers)
    threshold = bias.fit_threshold(together)
    points = []
    for limit in (0.5, threshold):
        scores = np.array(
            [
                np.full(items, np.nan)
                if np.isnan(limit)
                else win_ratio(items, pairs, answer, limit)
                for pairs, answer in zip(chosen, answers, strict=True)
            ]
        )
        value = _mean(correlate_rows(scores, ratings, "spearman", "zero"))
        unscored = float(np.isnan(scores).mean())
        points.append(
            (
                float("nan") if value is None else value,
                unscored,
                bias.share_of_first(together, limit),
            )
        )
    return points


def _point(
    drawn: FloatArray, dimension: str, scheme: str, budget: int, *, debiased: bool
) -> CurvePoint:
    values = drawn[~np.isnan(drawn[:, 0]), 0]
    low, high = np.percentile(values, [5, 95]).tolist() if values.size else (None, None)
    return CurvePoint(
        dimension=dimension,
        selection=scheme,
        debiased=debiased,
        budget=budget,
        value=_mean(values),
        low=low,
        high=high,
        unscored=float(drawn[:, 1].mean()),
        first=_mean(drawn[:, 2]),
    )
