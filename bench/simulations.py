"""The simulations that `python bench/statistics.py` runs: each function returns its section as Markdown."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np
from interval_coverage import draw_contexts, intervals, rates, rates_with_scores

from refladder.scoring.rules import hard_votes, ladder_scores, probabilities_from
from refladder.statistics import bias
from refladder.statistics.correlation import correlate_rows
from refladder.statistics.estimators import product_of_experts, win_ratio
from refladder.statistics.graph import components
from refladder.statistics.selection import select_pairs
from refladder.statistics.shares import share_intervals

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    FloatArray = NDArray[np.float64]
    Asked = tuple[NDArray[np.int64], FloatArray]

SHARE_ROWS = (2, 5, 14, 30, 100)
SHARE_RATES = (0.02, 0.1, 0.5, 0.9, 0.98)
# (trials of a row, drawn from 1 to twice that less 1 where uneven; correlation of trials of a row; share of ties)
SHARE_DESIGNS = (
    (1, 0.0, 0.0),
    (1, 0.0, 0.5),
    (1, 0.0, 0.9),
    (4, 0.0, 0.0),
    (4, 0.3, 0.5),
    (4, 1.0, 0.0),
    (20, 0.1, 0.3),
)
SHARE_DRAWS = 2000


def shares() -> str:
    """How often 95 % intervals of a share hold the true one, and how often the bootstrap over rows does."""
    random = np.random.default_rng(0)
    lines = [
        (
            "Coverage of the 95 % intervals of win rates and of the report card's shares, "
            f"{SHARE_DRAWS:,} draws a cell; in brackets that of a percentile bootstrap over rows. Trials of a row: "
            "this number, or where above 1 drawn evenly from 1 to twice it less 1; correlation: of two trials of a "
            "row; ties: share of the trials that can be tied at this rate."
        ),
        "",
        "| trials of a row | correlation | ties | rows | "
        + " | ".join(f"rate {rate:g}" for rate in SHARE_RATES)
        + " |",
        "| ---: " * (4 + len(SHARE_RATES)) + "|",
    ]
    least = 1.0
    for design in SHARE_DESIGNS:
        for rows in SHARE_ROWS:
            weights = draw_contexts(rows, 1000)
            cells = []
            for rate in SHARE_RATES:
                points, counts = _drawn_shares(random, (SHARE_DRAWS, rows), rate, design)
                low, high = share_intervals(points, counts).T
                covered = float(np.mean((low <= rate) & (rate <= high)))
                drawn = (weights @ points.T) / (weights @ counts.T)
                low, high = np.quantile(drawn, [0.025, 0.975], axis=0)
                cells.append(
                    f"{covered:.3f} [{float(np.mean((low <= rate) & (rate <= high))):.3f}]"
                )
                least = min(least, covered)
            lines.append(
                f"| {design[0]} | {design[1]:g} | {design[2]:g} | {rows} | "
                + " | ".join(cells)
                + " |"
            )
    lines += ["", f"Least coverage: {least:.3f}."]
    return "\n".join(lines)


def _drawn_shares(
    random: np.random.Generator,
    shape: tuple[int, int],
    rate: float,
    design: tuple[int, float, float],
) -> tuple[FloatArray, FloatArray]:
    trials, correlation, ties = design
    if correlation == 0:
        rates = np.full(shape, rate)
    elif correlation == 1:
        rates = (random.random(shape) < rate).astype(np.float64)
    else:
        both = (1 - correlation) / correlation
        rates = random.beta(rate * both, (1 - rate) * both, shape)
    counts = random.integers(1, 2 * trials, shape) if trials > 1 else np.ones(shape, dtype=np.int64)
    tied = ties * 2 * np.minimum(rates, 1 - rates)
    wins = random.binomial(counts, rates - tied / 2)
    halves = random.binomial(
        counts - wins, np.clip(tied / np.maximum(1 - rates + tied / 2, 1e-12), 0, 1)
    )
    return wins + halves / 2, counts.astype(np.float64)


def within_contexts(scores: FloatArray, quality: FloatArray) -> float:
    """Mean Spearman correlation over contexts; constant scores count 0. Both of shape (contexts, texts)."""
    return float(np.nanmean(correlate_rows(scores, quality, "spearman", "zero")))


def asked(
    random: np.random.Generator, quality: FloatArray, first: float, scheme: str, budget: int
) -> Asked:
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
                    np.array(
                        [
                            win_ratio(8, pairs, p, tau)
                            for (pairs, _), p in zip(contexts, given, strict=True)
                        ]
                    ),
                    quality,
                )
                for tau in (0.5, float(np.median(together)), fitted)
            ]
            drawn.append(
                [*agreement, *(bias.share_of_first(together, tau) for tau in (0.5, fitted))]
            )
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


def ties() -> str:
    """Debiasing of a few sampled answers with ties: always, where P(first) comes near 1/2, and as `fit_threshold`."""
    random = np.random.default_rng(4)
    designs = (("no-repeat", 14), ("symmetric", 28), ("random", 56))
    rows, gains = [], []
    for (scheme, budget), first, kind in itertools.product(
        designs, (0.5, 1.0, 2.0), ("none", "random", "close")
    ):
        for answers in (1, 2, 3, 6, 10):
            drawn = []
            for _ in range(4):
                quality = random.standard_normal((60, 8))
                contexts = []
                for texts in quality:
                    pairs, p = asked(random, texts, first, scheme, budget)
                    each = (random.random((budget, answers)) < p[:, None]).astype(np.float64)
                    open_pairs = (
                        np.full(budget, 0.3) if kind == "random" else 0.8 * (np.abs(p - 0.5) < 0.19)
                    )
                    tied = random.random(each.shape) < open_pairs[:, None] * (kind != "none")
                    contexts.append((pairs, np.where(tied, 0.5, each).mean(axis=1)))
                together = np.concatenate([given for _, given in contexts])
                nearest = _nearest_threshold(together)
                near = abs(bias.share_of_first(together, nearest) - 0.5) <= bias.NEAR
                limits = (0.5, nearest, nearest if near else 0.5, bias.fit_threshold(together))
                drawn.append(
                    [
                        within_contexts(
                            np.array([win_ratio(8, pairs, p, limit) for pairs, p in contexts]),
                            quality,
                        )
                        for limit in limits
                    ]
                )
            means = np.mean(drawn, axis=0)
            gains.append(means[1:] - means[0])
            cells = " | ".join(f"{value:.3f}" for value in means)
            rows.append(f"| {scheme}, {budget} | {first:g} | {kind} | {answers} | {cells} |")
    least, mean = np.min(gains, axis=0), np.mean(gains, axis=0)
    found = ", ".join(
        f"{name} {low:+.3f} ({middle:+.3f})"
        for name, low, middle in zip(("always", "near", "used"), least, mean, strict=True)
    )
    text = (
        "Win ratio, mean Spearman correlation with the true quality within 60 contexts of 8 texts, over 4 draws, with "
        "the judge of hard-answers. It writes this many answers; each is a tie never, at random in 30 %, or in 80 % of "
        "the pairs with p between .31 and .69 (close). Always: the threshold that brings P(first) nearest to 1/2. "
        "Near: the same where P(first) comes within .05 of 1/2, else none. Used: `fit_threshold`, which takes none "
        "where most of the decisions that it would change are ties.\n\n"
        f"Least (mean) gain over plain: {found}.\n\n"
        "| selection | bias | ties | answers | plain | always | near | used |\n|---|---|---|---|---|---|---|---|\n"
    )
    return text + "\n".join(rows)


def _nearest_threshold(answers: FloatArray) -> float:
    """The threshold between distinct answers, or at one, at which P(first) is nearest to 1/2."""
    values = np.unique(np.concatenate([[0.0], answers, [1.0]]))
    limits = np.concatenate([values[1:-1], (values[1:] + values[:-1]) / 2])
    return float(
        min(limits, key=lambda limit: abs(bias.share_of_first(answers, float(limit)) - 0.5))
    )


def fairness() -> str:
    """How often ZEPO's search picks the fairest of five instructions, at 64 questions each."""
    random = np.random.default_rng(2)
    draws, biases = 20_000, np.array([0.0, 0.25, -0.5, 0.75, -1.0])
    rows = []
    for noise in (0.0, 0.5, 1.0):
        cells = []
        for pairs, orders in ((64, 1), (32, 2)):
            difference = (
                np.sqrt(2)
                * random.standard_normal((draws, 1, pairs, 1))
                * np.array([1, -1])[:orders]
            )
            gap = (
                difference
                + biases[:, None, None]
                + noise * random.standard_normal((draws, 5, pairs, orders))
            )
            unfair = np.abs((gap > 0).mean(axis=(2, 3)) - 0.5)
            cells.append((unfair[:, 0].mean(), (unfair.argmin(axis=1) == 0).mean()))
        (single, picked), (double, picked_twice) = cells
        rows.append(
            f"| {noise:g} | {single:.3f} | {double:.3f} | {picked:.2f} | {picked_twice:.2f} |"
        )
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
    for (texts, budget), first in itertools.product(
        ((2, 1), (8, 8), (8, 10), (8, 14), (8, 28)), (0.0, 1.0, 2.0)
    ):
        drawn = []
        for _ in range(10):
            quality = random.standard_normal((60, texts))
            contexts = [asked(random, values, first, "no-repeat", budget) for values in quality]
            whole = float(np.concatenate([p for _, p in contexts]).mean())
            scores = np.full((2, 60, texts), np.nan)
            for number, (pairs, p) in enumerate(contexts):
                if np.ptp(components(texts, pairs)) == 0:
                    for row, mean in enumerate((None, whole)):
                        scores[row, number] = product_of_experts(
                            texts, pairs, p, position_bias=mean
                        )
            used = ~np.isnan(scores[0, :, 0])
            drawn.append(
                [used.mean(), *(within_contexts(values[used], quality[used]) for values in scores)]
            )
        joined, context, dimension = np.mean(drawn, axis=0)
        rows.append(
            f"| {texts} | {budget} | {first:g} | {joined:.2f} | {context:.3f} | {dimension:.3f} |"
        )
    text = (
        "Product of experts, mean Spearman correlation with the true quality within 60 contexts, over 10 draws; pairs "
        "in one order each (no-repeat), p read. The judge is that of hard-answers. Connected: share of contexts whose "
        "comparisons hold their texts together; the others have no scores.\n\n"
        "| texts | comparisons | bias | connected | bias of each context | bias of the dimension |\n"
        "|---|---|---|---|---|---|\n"
    )
    return text + "\n".join(rows)


ANSWERS = (1, 3, 10, 30, 100, 300, 1000)  # sampled for each comparison
JUDGES = {
    "sharp judge": 1.0,
    "blunt judge": 0.1,
}  # log-odds of win for one standard deviation of quality


def sampling() -> str:
    """Agreement of the ladder's score with people: n sampled answers, label probabilities, most probable labels."""
    trials, contexts, systems, rungs = 20, 100, 16, 5
    ways = {
        **{f"{answers:,} sampled": answers for answers in ANSWERS},
        "probabilities": 0,
        "hard-votes": -1,
    }
    found: dict[str, list[str]] = {way: [] for way in ways}
    for sharpness in JUDGES.values():
        values: dict[str, list[float]] = {way: [] for way in ways}
        for trial in range(trials):
            random = np.random.default_rng(trial)
            quality = random.standard_normal((contexts, systems))
            ratings = quality + random.normal(0, 0.7, quality.shape)
            gap = (quality + random.normal(0, 0.7, quality.shape))[..., None] - np.linspace(
                -1.5, 1.5, rungs
            )
            h = sharpness * (gap + random.normal(0, 0.5, gap.shape))
            logprobs = np.stack([h, -h, np.zeros_like(h)], axis=-1).reshape(-1, rungs, 3)
            probabilities = probabilities_from(logprobs)
            for way, answers in ways.items():
                verdicts = (
                    random.multinomial(answers, probabilities) / answers
                    if answers > 0
                    else probabilities
                )
                rule = hard_votes if way == "hard-votes" else ladder_scores
                scores = rule(verdicts, (1.0, 5.0)).reshape(contexts, systems)
                values[way].append(float(np.nanmean(correlate_rows(scores, ratings))))
        for way, trials_of in values.items():
            found[way].append(f"{np.mean(trials_of):.3f} ± {np.std(trials_of, ddof=1):.3f}")
    lines = [f"| {way} | {' | '.join(cells)} |" for way, cells in found.items()]
    sharpness_of = " or ".join(f"{value:g}" for value in JUDGES.values())
    about = f"""Spearman within contexts between `ladder-sum` and ratings: mean ± standard deviation of {trials} trials
of {contexts} contexts, {systems} systems and {rungs} rungs. Quality is standard normal; people and the judge each add
noise of 0.7, the judge 0.5 more at each rung. The probabilities of win, loss and tie are as e^h : e^-h : 1, with
h = {sharpness_of} (quality - rung). arXiv 2509.05440, Table 2, has .094 (1 sample), .147 (3), .212 (10), .309 (100),
.364 (1,000) and .374 (probabilities) on SummEval."""
    head = f"| verdicts | {' | '.join(JUDGES)} |\n|---|" + "---|" * len(JUDGES)
    return "\n".join([about, "", head, *lines])


# name -> function that returns its section as Markdown

SECTIONS: dict[str, Callable[[], str]] = {
    "intervals": intervals,
    "shares": shares,
    "rates": rates,
    "rates-with-scores": rates_with_scores,
    "hard-answers": hard_answers,
    "ties": ties,
    "fairness": fairness,
    "poe-bias": poe_bias,
    "sampling": sampling,
}
