"""Compare replies of the same content in English and German: `python bench/sets/languages.py`; no model is asked.

The readings are bench/readings/languages-*.jsonl: 40 replies in both languages, written for the project, on helpfulness.
`reply` and `reply-de` are stated probabilities for levels 1 to 5 against the first anchor of these sets; `rating` are
percentages of the ratings 1 to 5. Each reader saw every reply in one of its two languages, half of them in each. The second
table is where the German replies are on the German set.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

READINGS = Path(__file__).parent.parent / "readings"
# How the two writers were told to write, by the letter and number in the id of a reply.
KINDS = {"a1": "careless", "a2": "with ordinary care", "b1": "reasonable, plain", "b2": "thorough"}


def score(way: str, percent: list[float]) -> float:
    """Return the expected rating, or the ladder score."""
    if way == "rating":
        return float(np.average([1, 2, 3, 4, 5], weights=percent))
    return sum(level * (2 * share / 100 - 1) for level, share in enumerate(percent, start=1))


def read(way: str) -> dict[str, list[float]]:
    """Return the percentages of each reply."""
    rows = map(json.loads, (READINGS / f"languages-{way}.jsonl").read_text().splitlines())
    return {row["output_id"]: row["percent"] for row in rows}


def places() -> None:
    """Print the grades of the German replies on the German set, and how many beat its top rung."""
    print()
    print("| replies | median grade | lowest | highest | beat the top rung |")
    print("|---|--:|--:|--:|--:|")
    readings = read("reply-de")
    for kind, words in KINDS.items():
        of_kind = [each for name, each in readings.items() if name.endswith(f"/{kind}/de")]
        # A grade is 1 plus 4 times the share of the rungs that are beaten.
        grades = [1 + 4 * sum(percent) / 500 for percent in of_kind]
        above = sum(percent[-1] > 50 for percent in of_kind)
        print(
            f"| {words} | {np.median(grades):.2f} | {min(grades):.2f} | {max(grades):.2f} | {above} of {len(of_kind)} |"
        )


def main() -> None:
    """Print shift from English to German, its interval, and decisions that change at the deciles of the English scores."""
    random = np.random.default_rng(0)
    print("| way | shift, English to German | 95 % interval | decisions that change | Spearman |")
    print("|---|--:|---|--:|--:|")
    for way in ("reply", "reply-de", "rating"):
        scores = {name: score(way, percent) for name, percent in read(way).items()}
        texts = sorted({name.rpartition("/")[0] for name in scores})
        english, german = (
            np.array([scores[f"{text}/{language}"] for text in texts]) for language in ("en", "de")
        )
        spread = np.sqrt((english.var(ddof=1) + german.var(ddof=1)) / 2)
        differences = (german - english) / spread
        means = differences[random.integers(len(texts), size=(10_000, len(texts)))].mean(axis=1)
        low, high = np.quantile(means, [0.025, 0.975])
        cuts = np.quantile(english, np.arange(1, 10) / 10)
        changed = np.mean([(english >= cut) != (german >= cut) for cut in cuts])
        rho = spearmanr(english, german).statistic
        print(
            f"| {way} | {differences.mean():.2f} | [{low:.2f}, {high:.2f}] | {changed:.3f} | {rho:.2f} |"
        )
    places()


if __name__ == "__main__":
    main()
