"""Drift of a judge: false alarms over many looks, and looks until a shifted judge is caught.

`python bench/drift.py` writes bench/results/drift.md. The simulated judge reads the log-odds of win and loss between
neighbouring rungs with a noise of its own in every reading. Probes, repeats and looks are as in `score --check-drift`.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from refladder.jobs.check_drift import ALPHA, EACH_LOOK, MOST_PROBES, REPEATS
from refladder.scoring.rules import probabilities_from
from refladder.trust.drift import changes_of, drift_evidence

if TYPE_CHECKING:
    from numpy.typing import NDArray

    FloatArray = NDArray[np.float64]

RESULTS = Path(__file__).resolve().parent / "results" / "drift.md"
RUNS, LOOKS = 1000, 100
NOISES = (0.0, 0.1, 0.3, 1.0)
SHIFTS = (0.1, 0.2, 0.5, 1.0, 2.0)
QUIET = 10  # looks before the judge changes


def read(gaps: FloatArray, noise: float, shift: FloatArray | float, random: np.random.Generator) -> FloatArray:
    """Probabilities of win, loss and tie from log-odds of win against loss; shape (..., 3)."""
    seen = gaps + shift + noise * random.standard_normal(gaps.shape)
    return probabilities_from(np.stack([seen / 2, -seen / 2, np.full_like(seen, -0.5)], axis=-1))


def looks_of(noise: float, shifts: FloatArray, runs: int, random: np.random.Generator) -> FloatArray:
    """The evidence after each look, shape (runs, looks); `shifts` has the shift of every look."""
    gaps = random.normal(1.0, 1.0, size=(runs, MOST_PROBES))
    first = read(gaps, noise, 0.0, random)

    def changes(number: int, shift: FloatArray | float) -> FloatArray:
        chosen = random.integers(0, MOST_PROBES, size=(runs, number))
        before = np.take_along_axis(first, chosen[..., None], axis=1)
        now = read(np.take_along_axis(gaps, chosen, axis=1), noise, shift, random)
        return changes_of(before.reshape(-1, 3), now.reshape(-1, 3)).reshape(runs, number, 2)

    repeats = changes(REPEATS, 0.0)
    looks = changes(EACH_LOOK * len(shifts), np.repeat(shifts, EACH_LOOK))
    return drift_evidence(repeats, looks.reshape(runs, len(shifts), EACH_LOOK, 2))


def main() -> None:
    """Measure false alarms, then the looks until a shift is seen."""
    started = time.perf_counter()
    random = np.random.default_rng(0)
    false = []
    for noise in NOISES:
        highest = looks_of(noise, np.zeros(LOOKS), RUNS, random).max(axis=1)
        false.append(f"| {noise:g} | {int(np.sum(highest >= 1 / ALPHA))} | {int(np.sum(highest >= 20))} |")
    caught = []
    for noise in NOISES:
        cells = []
        for shift in SHIFTS:
            shifts = np.concatenate([np.zeros(QUIET), np.full(50, shift)])
            alarms = looks_of(noise, shifts, 200, random)[:, QUIET:] >= 1 / ALPHA
            looks = np.where(alarms.any(axis=1), np.argmax(alarms, axis=1) + 1.0, np.inf)
            middle, late = np.quantile(looks, [0.5, 0.95], method="higher")
            cells.append(" / ".join("> 50" if np.isinf(number) else f"{number:.0f}" for number in (middle, late)))
        caught.append(f"| {noise:g} | {' | '.join(cells)} |")
    text = "\n".join(
        [
            "# Drift of a judge",
            "",
            "Made by `python bench/drift.py`.",
            "",
            f"A look judges {EACH_LOOK} of {MOST_PROBES} probes again; the first run has {REPEATS} repeats. Noise and",
            "shift are in nats of the log-odds of win against loss.",
            "",
            "## False alarms",
            "",
            f"Alarms in {RUNS:,} runs of {LOOKS} looks at a judge that does not change. The expected number is at most",
            f"{ALPHA * RUNS:.0f} at alpha {ALPHA:g} and at most {RUNS // 20} at alpha .05.",
            "",
            f"| noise | alarms at alpha {ALPHA:g} | at alpha .05 |",
            "| ---: | ---: | ---: |",
            *false,
            "",
            "## Looks until a shifted judge is caught",
            "",
            f"Median / 95th percentile of the looks after the shift in 200 runs, at alpha {ALPHA:g}; the judge changes",
            f"after {QUIET} looks. Each column is a shift of the bias.",
            "",
            f"| noise | {' | '.join(f'{shift:g}' for shift in SHIFTS)} |",
            f"| ---: {'| ---: ' * len(SHIFTS)}|",
            *caught,
            "",
            f"({time.perf_counter() - started:.0f} s)",
            "",
        ]
    )
    RESULTS.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
