"""Budget curves: agreement with people when only some of the pairs are asked (arXiv 2307.07889, figure 4).

All pairs are judged once. Each draw takes a part of those answers with another seed, so that a curve costs no call.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from refladder.arrays import known_mean
from refladder.errors import UsageError
from refladder.statistics import SCHEMES, bias
from refladder.statistics.correlation import correlate_rows
from refladder.statistics.estimators import win_ratio
from refladder.statistics.selection import most_pairs, select_pairs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from refladder.arrays import FloatArray
    from refladder.methods.contract import Comparisons


# Default number of budgets on a curve.
POINTS = 10
# Self-consistency is measured on subsets of these sizes.
SIZES = (2, 3, 4, 6, 8, 12, 16)


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
    """Compute win ratio's agreement with people by budget, for every selection of pairs, plain and debiased.

    A context with constant scores counts 0. The threshold is fitted over all contexts on the chosen comparisons alone.
    """
    items, compared = _compared(comparisons, dimension)
    most = most_pairs(items, "random")
    budgets = budgets or sorted(
        {max(2, round(most * part / POINTS)) for part in range(1, POINTS + 1)}
    )
    matrix = np.concatenate(
        [bias.square(items, context.pairs, context.probabilities) for context in compared]
    )
    ratings = np.array([_ratings(context, human) for context in compared])
    points = []
    for scheme in SCHEMES:
        for budget in budgets:
            if not 1 <= budget <= most_pairs(items, scheme):
                continue
            drawn = np.array(
                [_draw(matrix, ratings, scheme, budget, seed + draw) for draw in range(draws)]
            )
            for debiased in (False, True):
                of_kind = drawn[:, int(debiased)]
                points.append(_point(of_kind, dimension, scheme, budget, debiased=debiased))
    return points


def consistency_rows(
    comparisons: Sequence[Comparisons],
    human: Mapping[tuple[str, str], float],
    dimension: str,
    *,
    draws: int = 10,
    seed: int = 0,
) -> list[ConsistencyRow]:
    """Compare rankings of some outputs with the ranking of all (arXiv 2307.07889, table 8)."""
    items, compared = _compared(comparisons, dimension)
    sizes = [size for size in SIZES if size < items] + [items]
    rows = []
    for number, context in enumerate(compared):
        matrix = bias.square(items, context.pairs, context.probabilities)
        ratings = np.array(_ratings(context, human))
        rows.append(
            bias.self_consistency(matrix, sizes, human=ratings, draws=draws, seed=seed + number)
        )
    shares = np.array(rows)
    return [
        ConsistencyRow(
            dimension=dimension, size=size, final=known_mean(final), gold=known_mean(gold)
        )
        for size, final, gold in zip(sizes, shares[:, :, 1].T, shares[:, :, 2].T, strict=True)
    ]


def _ratings(compared: Comparisons, human: Mapping[tuple[str, str], float]) -> list[float]:
    """Return the rating of each output that was compared; NaN if it has none."""
    return [human.get((output.id, compared.dimension.name), np.nan) for output in compared.outputs]


def _compared(comparisons: Sequence[Comparisons], dimension: str) -> tuple[int, list[Comparisons]]:
    """Return the number of outputs of every context, and the comparisons of one dimension."""
    compared = [context for context in comparisons if context.dimension.name == dimension]
    sizes = {len(context.outputs) for context in compared}
    if not has_all_pairs(compared):
        raise UsageError(
            f"a budget curve of {dimension!r} needs every pair judged in both orders; run win-ratio without a budget"
        )
    if len(sizes) > 1:
        raise UsageError(
            f"a budget curve needs the same number of outputs in every context, found {sorted(sizes)}; "
            "leave out the contexts with other numbers"
        )
    return sizes.pop(), compared


def has_all_pairs(comparisons: Sequence[Comparisons]) -> bool:
    """Return whether every pair of outputs was compared in both orders; not so without any."""
    return bool(comparisons) and all(
        len(context.pairs) == most_pairs(len(context.outputs), "random") for context in comparisons
    )


def _draw(
    matrix: FloatArray, ratings: FloatArray, scheme: str, budget: int, seed: int
) -> list[tuple[float, float, float]]:
    """Compute (agreement, share of outputs without a score, P(first)), plain and debiased.

    `matrix` has shape (contexts * items, items): the comparisons of one context below those of another.
    """
    contexts, items = ratings.shape
    # Items are numbered over all contexts, so that one estimate covers them all.
    chosen = []
    for number in range(contexts):
        of_context = select_pairs(items, budget, scheme, seed * contexts + number)
        chosen.append(of_context + number * items)
    pairs = np.concatenate(chosen)
    answers = matrix[pairs[:, 0], pairs[:, 1] % items]
    points = []
    for threshold in (0.5, bias.fit_threshold(answers)):
        scores = win_ratio(contexts * items, pairs, answers, threshold).reshape(ratings.shape)
        value = known_mean(correlate_rows(scores, ratings, "spearman", "zero"))
        unscored = float(np.isnan(scores).mean())
        first = bias.share_of_first(answers, threshold)
        points.append((float("nan") if value is None else value, unscored, first))
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
        value=known_mean(values),
        low=low,
        high=high,
        unscored=float(drawn[:, 1].mean()),
        first=known_mean(drawn[:, 2]),
    )
