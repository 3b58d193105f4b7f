"""How often the interval of `refladder compare` holds the true difference, beside Student's t and a plain bootstrap.

python bench/compare.py            # about 3 minutes; writes bench/results/compare.md
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import t as student

from refladder.statistics import bootstrap
from refladder.statistics.bootstrap import mean_difference

if TYPE_CHECKING:
    from collections.abc import Callable

    from refladder.arrays import FloatArray

RUNS = 1_000
RESAMPLES = 1_000
CONTEXTS = (4, 6, 8, 10, 12, 15, 25, 50, 100)
GRADES = [-1, 0, 0, 0, 1, 1, 2]


def mostly_equal(rng: np.random.Generator, contexts: int) -> FloatArray:
    """Draw differences of which 70 % are 0 and the others normal with mean 1."""
    return np.where(rng.random(contexts) < 0.7, 0.0, rng.normal(1.0, 1.0, contexts))


POOLS = {  # differences of two systems in a context, and their true mean
    "normal": (lambda rng, n: rng.normal(size=n), 0.0),
    "whole grades": (lambda rng, n: rng.choice(GRADES, size=n) * 1.0, float(np.mean(GRADES))),
    "70 % equal": (mostly_equal, 0.3),
    "Poisson, mean 1": (lambda rng, n: rng.poisson(1.0, n) * 1.0, 1.0),
    "exponential": (lambda rng, n: rng.exponential(size=n), 1.0),
    "t, 3 degrees": (lambda rng, n: rng.standard_t(3, size=n), 0.0),
    "lognormal": (lambda rng, n: rng.lognormal(size=n), float(np.exp(0.5))),
}


def of_student(values: FloatArray) -> tuple[float, float]:
    """Return Student's t interval of a mean."""
    half = student.ppf(0.975, len(values) - 1) * values.std(ddof=1) / len(values) ** 0.5
    return values.mean() - half, values.mean() + half


def of_resamples(values: FloatArray, rng: np.random.Generator) -> tuple[float, float]:
    """Return the studentised bootstrap interval of a mean, written down on its own: draw, studentise, sort."""
    count = len(values)
    drawn = values[rng.integers(0, count, (RESAMPLES, count))]
    errors = drawn.std(axis=1, ddof=1) / count**0.5
    moved = drawn.mean(axis=1) - values.mean()
    usable = errors > 1e-4 * values.std(ddof=1) / count**0.5
    ratios = np.sort(moved[usable] / errors[usable])
    error = values.std(ddof=1) / count**0.5
    low, high = (ratios[int(share * (len(ratios) - 1))] for share in (0.975, 0.025))
    return values.mean() - low * error, values.mean() - high * error


def measure(
    draw: Callable[[np.random.Generator, int], FloatArray], true: float, contexts: int
) -> tuple[FloatArray, float, float]:
    """Return the coverage of each interval, and the median and greatest length beside Student's t."""
    rng = np.random.default_rng(contexts)
    held, ratios = [], []
    for run in range(RUNS):
        values = draw(rng, contexts)
        found = mean_difference(
            values, np.zeros(contexts), permutations=1, resamples=RESAMPLES, seed=run
        )
        if found.low is None:
            continue
        others = [of_student(values), of_resamples(values, rng)]
        held.append([low <= true <= high for low, high in [(found.low, found.high), *others]])
        ratios.append((found.high - found.low) / (others[0][1] - others[0][0]))
    return np.mean(held, axis=0), float(np.median(ratios)), max(ratios)


def main() -> None:
    bootstrap.LEAST_CONTEXTS = 2  # to see what smaller numbers would give
    lines = [
        "# Coverage of the intervals of `refladder compare`",
        "",
        f"`python bench/compare.py`: {RUNS:,} runs a cell, {RESAMPLES:,} resamples, 95 % intervals of the mean difference.",
        "A cell has the coverage of `compare`, of Student's t and of a studentised bootstrap that was written on its own.",
        "Behind it are the median and the greatest length of the interval of `compare`, divided by that of Student's t.",
        "A coverage has a standard error of .007. Runs whose differences are all equal have no interval and are left out.",
        "`compare` prints an interval from 10 contexts on.",
        "",
        "| contexts | " + " | ".join(POOLS) + " |",
        "|--:|" + "--:|" * len(POOLS),
    ]
    for contexts in CONTEXTS:
        cells = []
        for draw, true in POOLS.values():
            held, usual, longest = measure(draw, true, contexts)
            cells.append(
                " / ".join(f"{share:.3f}" for share in held) + f" ({usual:.2f}, {longest:.3g})"
            )
        lines.append(f"| {contexts} | " + " | ".join(cells) + " |")
        print(lines[-1], flush=True)
    text = "\n".join(lines) + "\n"
    (Path(__file__).parent / "results" / "compare.md").write_text(text, "utf-8")


if __name__ == "__main__":
    main()
