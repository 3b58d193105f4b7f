"""Simulations behind the statistics that refladder prints: coverage of intervals, debiasing, sampling, fairness.

`python bench/statistics.py` runs every section, `python bench/statistics.py NAME ...` some of them. Each section is
recorded under its own heading in bench/results/statistics.md; the others stay as they are.
"""

from __future__ import annotations

import importlib.util
import re
import sys
import sysconfig
import time
from pathlib import Path
from typing import TYPE_CHECKING

if __name__ == "statistics":
    # Another bench in this folder, or a library that it uses, imports the standard library's module of this name.
    _spec = importlib.util.spec_from_file_location("statistics", Path(sysconfig.get_path("stdlib")) / "statistics.py")
    if _spec is None or _spec.loader is None:
        raise ImportError("the standard library's statistics module is missing")
    sys.modules["statistics"] = importlib.util.module_from_spec(_spec)
    _spec.loader.exec_module(sys.modules["statistics"])

import itertools

import numpy as np

from refladder.metaeval.correlation import correlate_rows
from refladder.ranking import bias
from refladder.ranking.estimators import product_of_experts, win_ratio
from refladder.ranking.graph import components
from refladder.ranking.selection import select_pairs

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    FloatArray = NDArray[np.float64]
    Asked = tuple[NDArray[np.int64], FloatArray]

RESULTS = Path(__file__).resolve().parent / "results" / "statistics.md"
HEAD = "# Simulations of the statistics\n\nMade by `python bench/statistics.py`.\n"


def within_contexts(scores: FloatArray, quality: FloatArray) -> float:
    """Mean Spearman correlation over contexts; constant scores count 0. Both of shape (contexts, texts)."""
    return float(np.nanmean(correlate_rows(scores, quality, "spearman", "zero")))


def asked(random: np.random.Generator, quality: FloatArray, first: float, scheme: str, budget: int) -> Asked:
    """Pairs of one context and P(first) of a judge: log-odds = difference of quality + `first` + noise of 0.7."""
    pairs = select_pairs(len(quality), budget, scheme, int(random.integers(2**31)))
    gap = quality[pairs[:, 0]] - quality[pairs[:, 1]] + first + 0.7 * random.standard_normal(budget)
    return pairs, 1 / (1 + np.exp(-gap))


def hard_answers() -> str:
    """Debiasing by the median and by `fit_threshold` when the judge writes K answers."""
    random = np.random.default_rng(1)
    rows = []
    cases = [("no-repeat", 14, first) for first in (0.0, 1.0, 2.0)] + [("symmetric", 28, 1.0)]
    for (scheme, budget, first), answers in itertools.product(cases, (1, 2, 3, 5, 10, 0)):
        drawn = []
        for _ in range(12):
            quality = random.standard_normal((60, 8))
            contexts = [asked(random, texts, first, scheme, budget) for texts in quality]
            given = [random.binomial(answers, p) / answers if answers else p for _, p in contexts]
            together = np.concatenate(given)
            fitted = bias.fit_threshold(together)
            agreement = [
                within_contexts(
                    np.array([win_ratio(8, pairs, p, tau) for (pairs, _), p in zip(contexts, given, strict=True)]),
                    quality,
                )
                for tau in (0.5, float(np.median(together)), fitted)
            ]
            drawn.append([*agreement, *(bias.share_of_first(together, tau) for tau in (0.5, fitted))])
        cells = " | ".join(f"{value:.3f}" for value in np.mean(drawn, axis=0))
        rows.append(f"| {scheme}, {budget} | {first:g} | {answers or 'p'} | {cells} |")
    text = (
        "Win ratio, mean Spearman correlation with the true quality within 60 contexts of 8 texts, over 12 draws. The "
        "log-odds of the judge are the difference of quality (normal, 1) + bias + noise (normal, 0.7). It writes this "
        "many answers, or gives p itself. Median: tau is the median of p, also where it is 0 or 1. Fitted: "
        "`fit_threshold`, between 0 and 1.\n\n"
        "| selection | bias | answers | plain | median | fitted | P(first) plain | P(first) fitted |\n"
        "|---|---|---|---|---|---|---|---|\n"
    )
    return text + "\n".join(rows)


def fairness() -> str:
    """How often ZEPO's search picks the fairest of five instructions, at 64 questions each."""
    random = np.random.default_rng(2)
    draws, biases = 20_000, np.array([0.0, 0.25, -0.5, 0.75, -1.0])
    rows = []
    for noise in (0.0, 0.5, 1.0):
        cells = []
        for pairs, orders in ((64, 1), (32, 2)):
            difference = np.sqrt(2) * random.standard_normal((draws, 1, pairs, 1)) * np.array([1, -1])[:orders]
            gap = difference + biases[:, None, None] + noise * random.standard_normal((draws, 5, pairs, orders))
            unfair = np.abs((gap > 0).mean(axis=(2, 3)) - 0.5)
            cells.append((unfair[:, 0].mean(), (unfair.argmin(axis=1) == 0).mean()))
        (single, picked), (double, picked_twice) = cells
        rows.append(f"| {noise:g} | {single:.3f} | {double:.3f} | {picked:.2f} | {picked_twice:.2f} |")
    text = (
        "The fairest of five instructions, whose biases are 0, 0.25, -0.5, 0.75 and -1 log-odds for the first, by 64 "
        f"questions each: 64 pairs in one order, or 32 in both; {draws:,} draws. The log-odds of the judge are the "
        "difference of two qualities (normal, 1) + bias + noise. Unbiased: mean of abs(P(first) - 1/2) of the "
        "instruction without bias. Picked: how often it is taken for the fairest.\n\n"
        "| noise | unbiased, one order | unbiased, both orders | picked, one order | picked, both orders |\n"
        "|---|---|---|---|---|\n"
    )
    return text + "\n".join(rows)


def poe_bias() -> str:
    """Product of experts with the position bias of each context, and with that of the dimension."""
    random = np.random.default_rng(3)
    rows = []
    for (texts, budget), first in itertools.product(((2, 1), (8, 8), (8, 10), (8, 14), (8, 28)), (0.0, 1.0, 2.0)):
        drawn = []
        for _ in range(10):
            quality = random.standard_normal((60, texts))
            contexts = [asked(random, values, first, "no-repeat", budget) for values in quality]
            whole = float(np.concatenate([p for _, p in contexts]).mean())
            scores = np.full((2, 60, texts), np.nan)
            for number, (pairs, p) in enumerate(contexts):
                if np.ptp(components(texts, pairs)) == 0:
                    for row, mean in enumerate((None, whole)):
                        scores[row, number] = product_of_experts(texts, pairs, p, position_bias=mean)
            used = ~np.isnan(scores[0, :, 0])
            drawn.append([used.mean(), *(within_contexts(values[used], quality[used]) for values in scores)])
        joined, context, dimension = np.mean(drawn, axis=0)
        rows.append(f"| {texts} | {budget} | {first:g} | {joined:.2f} | {context:.3f} | {dimension:.3f} |")
    text = (
        "Product of experts, mean Spearman correlation with the true quality within 60 contexts, over 10 draws; pairs "
        "in one order each (no-repeat), p read. The judge is that of hard-answers. Connected: share of contexts whose "
        "comparisons hold their texts together; the others have no scores.\n\n"
        "| texts | comparisons | bias | connected | bias of each context | bias of the dimension |\n"
        "|---|---|---|---|---|---|\n"
    )
    return text + "\n".join(rows)


SECTIONS: dict[str, Callable[[], str]] = {  # name -> function that returns its section as Markdown
    "hard-answers": hard_answers,
    "fairness": fairness,
    "poe-bias": poe_bias,
}


def record(name: str, text: str) -> None:
    """Put a section into the results file in place of the one of that name."""
    old = RESULTS.read_text() if RESULTS.exists() else HEAD
    sections = dict(re.findall(r"^## (\S+)\n(.*?)(?=^## |\Z)", old, flags=re.MULTILINE | re.DOTALL))
    sections[name] = f"\n{text.strip()}\n\n"
    RESULTS.write_text(HEAD + "".join(f"\n## {key}\n{sections[key].rstrip()}\n" for key in SECTIONS if key in sections))


def main(names: list[str]) -> None:
    """Run the sections of these names, or all."""
    for name in names or list(SECTIONS):
        started = time.perf_counter()
        text = f"{SECTIONS[name]()}\n\n({time.perf_counter() - started:.0f} s)"
        print(f"## {name}\n\n{text}\n")
        record(name, text)


if __name__ == "__main__":
    main(sys.argv[1:])
