"""How well scores recover the true order of texts whose judge is simulated, by budget, selection and method.

Qualities are drawn from a normal distribution. The judge's log-odds that the first text is better are 1.5 times the
difference of qualities, a preference for the first place, and normal noise. Each number is the mean Spearman
correlation with the true qualities over draws; a text that nothing was asked about is placed by lot, and so are ties.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from refladder.errors import UsageError
from refladder.metaeval.correlation import correlate_rows
from refladder.ranking import bias, estimators
from refladder.ranking.likelihood import likelihood_ranking
from refladder.ranking.selection import all_pairs, select_pairs

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    FloatArray = NDArray[np.float64]
    IntArray = NDArray[np.int64]
    Scores = Callable[[IntArray, FloatArray], FloatArray]

RESULTS = Path(__file__).resolve().parent / "results" / "recovery.md"
ITEMS = 16
DRAWS = 100
BUDGETS = (24, 60, 120, 240)
SHARPNESS, NOISE = 1.5, 0.5
ANSWERS = (1, 3, 10, 30, 100, 300, 1000)


def debiased_win_ratio(pairs: IntArray, p: FloatArray) -> FloatArray:
    """Win ratio over the threshold that chooses the first half of the time."""
    return estimators.win_ratio(ITEMS, pairs, p, bias.fit_threshold(p))


def debiased_mean(pairs: IntArray, p: FloatArray) -> FloatArray:
    """Mean probability after the weight that does the same."""
    weighed = bias.reweigh(p, bias.alpha_of(bias.fit_threshold(p)))
    return estimators.mean_probability(ITEMS, pairs, weighed)


METHODS: dict[str, Scores] = {
    "win-ratio": lambda pairs, p: estimators.win_ratio(ITEMS, pairs, p),
    "win-ratio-debiased": debiased_win_ratio,
    "mean-probability": lambda pairs, p: estimators.mean_probability(ITEMS, pairs, p),
    "mean-probability-debiased": debiased_mean,
    "bradley-terry": lambda pairs, p: estimators.bradley_terry(ITEMS, pairs, p, prior=0.01),
    "poe": lambda pairs, p: estimators.product_of_experts(ITEMS, pairs, p),
    "likelihood": lambda pairs, p: likelihood_ranking(ITEMS, pairs, p),
}


def answers_of(random: np.random.Generator, quality: FloatArray, pairs: IntArray, first: float) -> FloatArray:
    """Probabilities that the first of each pair is better."""
    gap = SHARPNESS * (quality[pairs[:, 0]] - quality[pairs[:, 1]]) + first
    return np.asarray(1 / (1 + np.exp(-gap - NOISE * random.standard_normal(len(pairs)))))


def recovered(random: np.random.Generator, scores: FloatArray, quality: FloatArray) -> float:
    """Spearman correlation; by lot where a score is missing or tied."""
    lot = 1e-9 * random.standard_normal(ITEMS)
    filled = np.where(np.isnan(scores), np.nanmean(scores), scores) + lot
    return float(correlate_rows(filled[None], quality[None], "spearman", "zero")[0])


def by_budget(method: Scores, selection: str, budget: int, first: float) -> float | None:
    """The mean over draws; None where the comparisons of a draw fall apart, so that a method has no scores."""
    random = np.random.default_rng(0)
    found = []
    for draw in range(DRAWS):
        quality = random.standard_normal(ITEMS)
        pairs = select_pairs(ITEMS, budget, selection, draw)
        p = answers_of(random, quality, pairs, first)
        try:
            found.append(recovered(random, method(pairs, p), quality))
        except UsageError:  # components that nothing joins
            return None
    return float(np.mean(found))


def by_answers(count: int | None, first: float) -> float:
    """Win ratio over all pairs with so many sampled answers to each; None: with the probabilities themselves."""
    random = np.random.default_rng(1)
    found = []
    for _ in range(DRAWS):
        quality = random.standard_normal(ITEMS)
        pairs = all_pairs(ITEMS)
        p = answers_of(random, quality, pairs, first)
        if count is not None:
            p = random.binomial(count, p) / count
        found.append(recovered(random, estimators.mean_probability(ITEMS, pairs, p), quality))
    return float(np.mean(found))


def table(heads: list[str], rows: list[list[str]]) -> str:
    """A pipe table."""
    rule = ["---", *["---:"] * (len(heads) - 1)]
    return "\n".join("| " + " | ".join(row) + " |" for row in [heads, rule, *rows]) + "\n"


def main() -> None:
    """Compute the tables and record them."""
    start = time.perf_counter()
    parts = [f"# Recovery of a known order\n\n{__doc__.partition(chr(10))[2].strip()}\n"]
    for first in (0.0, 2.0):
        rows = []
        for name, method in METHODS.items():
            for selection in ("random", "no-repeat", "symmetric"):
                values = []
                for budget in BUDGETS:
                    possible = budget <= (ITEMS * (ITEMS - 1) // (2 if selection == "no-repeat" else 1))
                    value = by_budget(method, selection, budget, first) if possible else None
                    values.append("—" if value is None else f"{value:.3f}")
                rows.append([f"{name}, {selection}", *values])
            print(f"first {first}: {name}", file=sys.stderr)
        heads = ["method, selection", *(f"{budget} comparisons" for budget in BUDGETS)]
        parts.append(f"## Preference for the first place: {first:g} in log-odds\n\n{table(heads, rows)}")
    counts = [[f"{count}", *(f"{by_answers(count, first):.3f}" for first in (0.0, 2.0))] for count in ANSWERS]
    exact = ["log-probabilities", *(f"{by_answers(None, first):.3f}" for first in (0.0, 2.0))]
    parts.append(
        "## Sampled answers a comparison, mean probability over all pairs\n\n"
        + table(["answers", "no preference", "preference of 2"], [*counts, exact])
    )
    parts.append(
        f"{ITEMS} texts, {DRAWS} draws, {time.perf_counter() - start:.0f} s. — : more comparisons than pairs, or the "
        "comparisons of some draw fall into parts that nothing joins.\n"
    )
    RESULTS.write_text("\n".join(parts))
    print("\n".join(parts))


if __name__ == "__main__":
    main()
