"""How often a promise breaks on a newer table with fewer good rows, and how often `filter` says that its scores differ.

python bench/promise_shift.py    # about a minute; writes bench/results/promise_shift.md
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from refladder.calibration.promise import Promise, other_scores
from refladder.calibration.records import ScoreSpread
from refladder.calibration.threshold import candidates

DRAWS, ROWS, LABELS = 1000, 2000, 200
OLD, SHARES = 0.6, (0.6, 0.55, 0.5, 0.4, 0.3)
APART = (0.5, 1.0, 1.5, 2.0)
PRECISIONS = (0.7, 0.8, 0.9)
RESULTS = Path(__file__).resolve().parent / "results" / "promise_shift.md"
HEAD = """# Promises on a newer table

`python bench/promise_shift.py`: {draws:,} draws a cell. A table of {rows:,} rows, one of each context, has a share of
{old:g} good ones. Scores are normal with standard deviation 1, and good rows have a mean that is higher by the number in
the first column. Of {labels} random labels, a cut-off is promised (`--sure 0.9`). A newer table of as many rows has
another share of good rows; good and bad rows have the same scores as before. The promise is broken if the precision of
its kept rows is lower: the share of all draws, and a refusal breaks nothing. `refused`: no cut-off was promised. `told`:
the share of the other draws in which `filter --threshold` says that the scores differ. Shares of all draws have standard
errors of at most .016.

| apart | precision | refused | {shares} |
|--:|--:|--:|{rule}
"""


def table(rng: np.random.Generator, share: float, apart: float) -> tuple[np.ndarray, np.ndarray]:
    """Draw scores, and which rows are good."""
    good = rng.random(ROWS) < share
    return rng.normal(size=ROWS) + apart * good, good


def cell(rng: np.random.Generator, apart: float, precision: float) -> str:
    """Return the cells of a row."""
    promise = Promise(kind="precision", share=precision)
    refused, broken, told = 0, np.zeros(len(SHARES)), np.zeros(len(SHARES))
    for _ in range(DRAWS):
        scores, good = table(rng, OLD, apart)
        labelled = rng.integers(0, ROWS, LABELS)
        path = candidates(scores, LABELS)
        levels = path.levels(scores[labelled])
        chosen = int(promise.chosen(promise.sums(path, levels, good[labelled], np.arange(LABELS))))
        if chosen < 0:
            refused += 1
            continue
        # Each row has a context of its own, so all scores count.
        quantiles = np.quantile(scores, np.linspace(0, 1, 21), method="inverted_cdf")
        spread = ScoreSpread(quantiles=tuple(quantiles.tolist()), contexts=ROWS)
        for place, share in enumerate(SHARES):
            newer, fine = table(rng, share, apart)
            kept = newer >= path.cutoffs[chosen]
            broken[place] += bool(kept.any()) and fine[kept].mean() < precision
            told[place] += bool(other_scores(newer, spread))
    both = [
        f"{a / DRAWS:.3f}, {b / max(DRAWS - refused, 1):.3f}"
        for a, b in zip(broken, told, strict=True)
    ]
    return f"| {apart:g} | {precision:g} | {refused / DRAWS:.3f} | {' | '.join(both)} |\n"


def main() -> None:
    """Simulate, and write the table."""
    shares = " | ".join(f"{share:g} good: broken, told" for share in SHARES)
    text = HEAD.format(
        draws=DRAWS, rows=ROWS, old=OLD, labels=LABELS, shares=shares, rule="--:|" * len(SHARES)
    )
    rng = np.random.default_rng(0)
    for apart in APART:
        for precision in PRECISIONS:
            text += cell(rng, apart, precision)
            print(text.splitlines()[-1], flush=True)
    RESULTS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
