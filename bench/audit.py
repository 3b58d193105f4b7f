"""Do the intervals of `refladder audit` cover? Samples of contexts from a population whose mean is known.

`python bench/audit.py` reads ../shared/data and writes bench/results/audit.md.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from refladder.backends import connect
from refladder.comparison.audit import ALL, SHIFTS, audit
from refladder.comparison.audit_statistics import mean_over_contexts
from refladder.files.ladder_sets import ladder_set
from refladder.ladders.certify import open_asker
from refladder.loaders import load_benchmark
from refladder.synth import build_ladders

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT.parent / "shared" / "data"
RESULTS = ROOT / "bench" / "results" / "audit.md"
SOURCES = {
    "summeval": DATA / "summeval",
    "topicalchat": DATA / "topicalchat_usr",
    "newsroom": DATA / "newsroom",
}
DRAWS, SIZES = 4000, (6, 12, 30)


def shifts(name: str) -> dict[str, list[float]]:
    """The mean shift of each context under each sentence, for the built-in judge."""
    benchmark, backend = load_benchmark(name, SOURCES[name]), connect("builtin")
    found: dict[str, list[float]] = {kind: [] for kind in SHIFTS}
    ladders, _ = build_ladders(backend, benchmark.contexts, benchmark.dimensions)
    for context in benchmark.contexts:
        own = [ladder for ladder in ladders if ladder.context_id == context.id]
        opened = ladder_set(name, benchmark.dimensions, [context], own)
        for row in audit(opened, open_asker(opened, backend)):
            if row.dimension == ALL and row.measure.startswith("shift ") and row.value is not None:
                found[row.measure.removeprefix("shift ")].append(row.value)
    return found


def coverage(population: list[float], size: int) -> float:
    """The share of samples, drawn with replacement, whose interval holds the mean of the population."""
    random, values, hits = np.random.default_rng(0), np.array(population), 0
    for _ in range(DRAWS):
        found = mean_over_contexts(
            random.choice(values, size), [str(number) for number in range(size)]
        )
        hits += (
            found.low is not None
            and found.high is not None
            and found.low <= values.mean() <= found.high
        )
    return hits / DRAWS


def main() -> None:
    """Run the study and write the page."""
    lines = [
        "# Intervals of an audit",
        "",
        "Written by `python bench/audit.py`: coverage of the 95 % interval of a shift (Student's t over contexts). The",
        "population is the shift of each context of a benchmark under the built-in judge. From it,",
        f"{DRAWS:,} samples of n contexts are drawn with replacement; the Monte Carlo error of a cell is 0.004. The",
        "intervals of the shares (P(target), inconsistent, P(longer), low mass) are those of",
        "[statistics](statistics.md).",
        "",
        "| benchmark | shift | mean | contexts | "
        + " | ".join(f"n = {size}" for size in SIZES)
        + " |",
        "| --- | --- | ---: | ---: |" + " ---: |" * len(SIZES),
    ]
    for name in SOURCES:
        for kind, population in shifts(name).items():
            covered = " | ".join(f"{coverage(population, size):.3f}" for size in SIZES)
            lines.append(
                f"| {name} | {kind} | {np.mean(population):+.3f} | {len(population)} | {covered} |"
            )
            print(lines[-1], flush=True)
    RESULTS.write_text("\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    main()
