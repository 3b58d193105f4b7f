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

import numpy as np

from refladder.metaeval.bootstrap import draw_contexts
from refladder.metaeval.shares import share_intervals

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    FloatArray = NDArray[np.float64]

RESULTS = Path(__file__).resolve().parent / "results" / "statistics.md"
HEAD = "# Simulations of the statistics\n\nMade by `python bench/statistics.py`.\n"

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
                cells.append(f"{covered:.3f} [{float(np.mean((low <= rate) & (rate <= high))):.3f}]")
                least = min(least, covered)
            lines.append(f"| {design[0]} | {design[1]:g} | {design[2]:g} | {rows} | " + " | ".join(cells) + " |")
    lines += ["", f"Least coverage: {least:.3f}."]
    return "\n".join(lines)


def _drawn_shares(
    random: np.random.Generator, shape: tuple[int, int], rate: float, design: tuple[int, float, float]
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
    halves = random.binomial(counts - wins, np.clip(tied / np.maximum(1 - rates + tied / 2, 1e-12), 0, 1))
    return wins + halves / 2, counts.astype(np.float64)


SECTIONS: dict[str, Callable[[], str]] = {  # name -> function that returns its section as Markdown
    "shares": shares,
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
