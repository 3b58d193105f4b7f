"""How often the interval of `refladder compare` holds the true difference, by the number of contexts.

python bench/compare.py            # about 2 minutes; writes bench/results/compare.md
"""

from pathlib import Path

import numpy as np

from refladder.metaeval import bootstrap
from refladder.metaeval.bootstrap import mean_difference

RUNS = 1_000
GRADES = [-1, 0, 0, 0, 1, 1, 2]
POOLS = {  # differences of two systems in a context, and their true mean
    "normal": (lambda rng, n: rng.normal(size=n), 0.0),
    "skewed (exponential)": (lambda rng, n: rng.exponential(size=n), 1.0),
    "whole grades": (
        lambda rng, n: rng.choice(GRADES, size=n).astype(float),
        float(np.mean(GRADES)),
    ),
    "heavy tails (t, 3 degrees)": (lambda rng, n: rng.standard_t(3, size=n), 0.0),
}


def main() -> None:
    bootstrap.LEAST_CONTEXTS = 2  # to see what smaller numbers would give
    lines = [
        "# Coverage of the intervals of `refladder compare`",
        "",
        f"`python bench/compare.py`: {RUNS:,} runs a cell, 500 resamples, 95 % intervals of the mean difference.",
        "A share has a standard error of .007. Without an interval are runs whose differences are all equal.",
        "",
        "| contexts | " + " | ".join(POOLS) + " |",
        "|--:|" + "--:|" * len(POOLS),
    ]
    for contexts in (4, 6, 8, 10, 15, 25, 50, 100):
        cells = []
        for draw, true in POOLS.values():
            rng = np.random.default_rng(contexts)
            held = []
            for _ in range(RUNS):
                found = mean_difference(
                    draw(rng, contexts), np.zeros(contexts), permutations=1, resamples=500
                )
                held.append(found.low is not None and found.low <= true <= found.high)
            cells.append(f"{np.mean(held):.3f}")
        lines.append(f"| {contexts} | " + " | ".join(cells) + " |")
    text = "\n".join(lines) + "\n"
    print(text)
    (Path(__file__).parent / "results" / "compare.md").write_text(text, "utf-8")


if __name__ == "__main__":
    main()
