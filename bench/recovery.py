"""How well scores recover the true order of texts whose judge is simulated, by budget, selection and method.

Qualities are drawn from a normal distribution. The judge's log-odds that the first text is better are 1.5 times the
difference of qualities, a preference for the first place, and normal noise; a judge that ties says 1/2 where they are
nearer to 0 than 1. Each number is the mean Spearman correlation with the true qualities over draws; a text that nothing
was asked about is placed by lot, and so are ties.
"""

from __future__ import annotations

import functools
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from refladder.errors import UsageError
from refladder.statistics import bias, estimators
from refladder.statistics.correlation import correlate_rows
from refladder.statistics.likelihood import likelihood_ranking
from refladder.statistics.selection import all_pairs, select_pairs
from refladder.statistics.sorting import beam_sort, run_together

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from refladder.statistics.sorting import Sort

    FloatArray = NDArray[np.float64]
    IntArray = NDArray[np.int64]
    Scores = Callable[[IntArray, FloatArray], FloatArray]

RESULTS = Path(__file__).resolve().parent / "results" / "recovery.md"
ITEMS = 16
DRAWS = 100
BUDGETS = (24, 60, 120, 240)
SHARPNESS, NOISE = 1.5, 0.5
JUDGES = (
    (0.0, 0.0),
    (2.0, 0.0),
    (2.0, 1.0),
)  # preference for the first place, and nearness to 0 that is a tie
SORTS = {
    "pairs-greedy": (functools.partial(beam_sort, beam=1, gap=0.0), 1),
    "pairs-greedy, both orders": (functools.partial(beam_sort, beam=1, gap=0.0), 2),
    "pairs-beam": (beam_sort, 1),
    "pairs-beam, both orders": (beam_sort, 2),
}
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


def answers_of(
    random: np.random.Generator,
    quality: FloatArray,
    pairs: IntArray,
    first: float,
    undecided: float = 0.0,
) -> FloatArray:
    """Probabilities that the first of each pair is better; 1/2 where the log-odds are nearer to 0 than `undecided`."""
    gap = SHARPNESS * (quality[pairs[:, 0]] - quality[pairs[:, 1]]) + first
    odds = gap + NOISE * random.standard_normal(len(pairs))
    return np.asarray(1 / (1 + np.exp(-np.where(np.abs(odds) < undecided, 0.0, odds))))


def recovered(random: np.random.Generator, scores: FloatArray, quality: FloatArray) -> float:
    """Spearman correlation; by lot where a score is missing or tied."""
    lot = 1e-9 * random.standard_normal(ITEMS)
    filled = np.where(np.isnan(scores), np.nanmean(scores), scores) + lot
    return float(correlate_rows(filled[None], quality[None], "spearman", "zero")[0])


def by_budget(
    method: Scores, selection: str, budget: int, first: float, undecided: float
) -> float | None:
    """The mean over draws; None where the comparisons of a draw fall apart, so that a method has no scores."""
    random = np.random.default_rng(0)
    found = []
    for draw in range(DRAWS):
        quality = random.standard_normal(ITEMS)
        pairs = select_pairs(ITEMS, budget, selection, draw)
        p = answers_of(random, quality, pairs, first, undecided)
        try:
            found.append(recovered(random, method(pairs, p), quality))
        except UsageError:  # components that nothing joins
            return None
    return float(np.mean(found))


def by_answers(count: int | None, first: float) -> float:
    """Mean probability over all pairs with so many sampled answers to each; None: with the probabilities themselves."""
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


def by_sorting(
    sort: Callable[[Sequence[int]], Sort], orders: int, first: float, undecided: float
) -> tuple[float, float]:
    """The mean number of comparisons that a sort asks, each in one order or in both, and the mean correlation."""
    random = np.random.default_rng(2)
    counts, found = [], []
    for _ in range(DRAWS):
        quality = random.standard_normal(ITEMS)
        p = bias.square(
            ITEMS, all_pairs(ITEMS), answers_of(random, quality, all_pairs(ITEMS), first, undecided)
        )
        if orders > 1:
            p = (p + 1 - p.T) / 2
        start = random.permutation(ITEMS).tolist()
        (done,) = run_together(
            [sort(start)], lambda asked, p=p: [p[one, other] for _, one, other in asked]
        )
        counts.append(orders * len(done.asked))
        found.append(recovered(random, np.array(done.scores(ITEMS), dtype=np.float64), quality))
    return float(np.mean(counts)), float(np.mean(found))


def table(heads: list[str], rows: list[list[str]]) -> str:
    """A pipe table."""
    rule = ["---", *["---:"] * (len(heads) - 1)]
    return "\n".join("| " + " | ".join(row) + " |" for row in [heads, rule, *rows]) + "\n"


def at_scale() -> list[list[str]]:
    """Seconds of each method that takes so many items."""
    random = np.random.default_rng(0)
    quality, pairs = random.standard_normal(10_000), select_pairs(10_000, 200_000, "symmetric", 0)
    p = answers_of(random, quality, pairs, 0.0)
    rows = []
    for name, method in {
        "win-ratio": estimators.win_ratio,
        "mean-probability": estimators.mean_probability,
        "bradley-terry": functools.partial(estimators.bradley_terry, prior=0.01),
        "poe": estimators.product_of_experts,
    }.items():
        start = time.perf_counter()
        method(10_000, pairs, p)
        rows.append([name, f"{time.perf_counter() - start:.2f}"])
    return rows


def main() -> None:
    """Compute the tables and record them."""
    start = time.perf_counter()
    parts = [f"# Recovery of a known order\n\n{__doc__.partition(chr(10))[2].strip()}\n"]
    for first, undecided in JUDGES:
        rows = []
        for name, method in METHODS.items():
            for selection in ("random", "no-repeat", "symmetric"):
                values = []
                for budget in BUDGETS:
                    possible = budget <= (
                        ITEMS * (ITEMS - 1) // (2 if selection == "no-repeat" else 1)
                    )
                    value = (
                        by_budget(method, selection, budget, first, undecided) if possible else None
                    )
                    values.append("—" if value is None else f"{value:.3f}")
                rows.append([f"{name}, {selection}", *values])
            print(f"first {first}, undecided {undecided}: {name}", file=sys.stderr)
        heads = ["method, selection", *(f"{budget} comparisons" for budget in BUDGETS)]
        ties = ", ties" if undecided else ""
        parts.append(
            f"## Preference for the first place: {first:g} in log-odds{ties}\n\n{table(heads, rows)}"
        )
        asked = [
            (name, *by_sorting(sort, orders, first, undecided))
            for name, (sort, orders) in SORTS.items()
        ]
        sorts = [[name, f"{count:.1f}", f"{value:.3f}"] for name, count, value in asked]
        parts.append(table(["sort", "comparisons asked", "correlation"], sorts))
    counts = [
        [f"{count}", *(f"{by_answers(count, first):.3f}" for first in (0.0, 2.0))]
        for count in ANSWERS
    ]
    exact = ["log-probabilities", *(f"{by_answers(None, first):.3f}" for first in (0.0, 2.0))]
    parts.append(
        "## Sampled answers a comparison, mean probability over all pairs\n\n"
        + table(["answers", "no preference", "preference of 2"], [*counts, exact])
    )
    parts.append(
        f"{ITEMS} texts, {DRAWS} draws, {time.perf_counter() - start:.0f} s. — : more comparisons than pairs, or the "
        "comparisons of some draw fall into parts that nothing joins.\n"
    )
    parts.append(
        f"## 10,000 items, 200,000 comparisons\n\n{table(['method', 'seconds'], at_scale())}"
    )
    RESULTS.write_text("\n".join(parts))
    print("\n".join(parts))


if __name__ == "__main__":
    main()
