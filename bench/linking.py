"""Links between judges: error and coverage on held-out contexts, beside scores that are left as they are.

`python bench/linking.py` writes bench/results/linking.md. Two judges read the log-odds a (theta - b) + c of each row
and rung, with a noise of their own. The second judge has another slope and shift. Half of the contexts make the link,
the others measure it.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

import numpy as np

from refladder.backends.builtin import Builtin
from refladder.files.ladder_sets import load_ladders, published_names
from refladder.loaders import load_benchmark
from refladder.scoring.columns import Scale as Rule
from refladder.scoring.judging import verdicts
from refladder.scoring.judgment_file import JudgmentLog
from refladder.scoring.scorer import LadderScorer
from refladder.trust import linking
from refladder.trust.linking import (
    Scale,
    bootstrap_curves,
    equipercentile,
    half_width,
    held_out,
    knots_of,
    linked,
    log_odds,
    scores_of,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    FloatArray = NDArray[np.float64]
    Judges = tuple[FloatArray, FloatArray, NDArray[np.int64]]

RESULTS = Path(__file__).resolve().parent / "results" / "linking.md"
RUNGS, SYSTEMS, CONTEXTS, DRAWS = 5, 6, 60, 8
SCORE = Scale(np.arange(1.0, RUNGS + 1), 0.0)  # ladder-sum
LINES = ((1.0, 0.0), (0.5, 0.0), (2.0, 0.0), (1.0, 1.0), (0.6, -1.0))
NOISES = (0.2, 1.0)
HEAD = """# Links between judges

Made by `python bench/linking.py`.

Half of the contexts make the link, the other half measures it. Errors are mean absolute errors of `ladder-sum` scores
(from -15 to 15). "coverage of a text": how often the 95 % interval of a single text's score holds the score that the
second judge gave. "coverage of the map": how often the 95 % interval of the map, averaged over its knots, holds the map
that {population:,} contexts give.

"""


def judges(line: tuple[float, float], noise: float, contexts: int, random: np.random.Generator) -> Judges:
    """Log-odds of two judges, shape (rows, rungs) each, and the context of each row."""
    rungs = np.arange(RUNGS) - 2.0 + random.normal(0.0, 0.4, size=(contexts, 1, RUNGS))
    gaps = random.normal(0.0, 1.5, size=(contexts, SYSTEMS, 1)) - rungs
    first = 1.2 * gaps + noise * random.standard_normal(gaps.shape)
    second = line[0] * 1.2 * gaps + line[1] + noise * random.standard_normal(gaps.shape)
    numbers = np.repeat(np.arange(contexts), SYSTEMS)
    return first.reshape(-1, RUNGS), second.reshape(-1, RUNGS), numbers


def measured(
    first: FloatArray, second: FloatArray, contexts: NDArray[np.int64], random: np.random.Generator
) -> list[float]:
    """Errors of the link, of unlinked scores and of equal ranks, and the coverage of a text, on held-out contexts."""
    names = random.permutation(np.unique(contexts))
    train = np.isin(contexts, names[: len(names) // 2])
    before, after = scores_of(first, SCORE), scores_of(second, SCORE)
    predicted = linked(before[~train], first[train], second[train], SCORE)
    by_rank = equipercentile(before[~train], before[train], after[train])
    half = half_width(held_out(first[train], second[train], contexts[train], SCORE).residuals)
    errors = [float(np.mean(np.abs(guess - after[~train]))) for guess in (predicted, before[~train], by_rank)]
    return [*errors, float(np.mean(np.abs(predicted - after[~train]) <= (half or np.inf)))]


def simulated(population: int) -> list[str]:
    """The table of simulated judges."""
    random = np.random.default_rng(0)
    lines = [
        "## Simulated judges",
        "",
        f"{CONTEXTS} contexts of {SYSTEMS} rows, {DRAWS} draws. The noise is that of each judge's log-odds.",
        "",
        "| slope | shift | noise | error | unlinked | equipercentile | coverage of a text | coverage of the map |",
        "| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for line in LINES:
        for noise in NOISES:
            whole = judges(line, noise, population, random)
            with patch.object(linking, "MOST_PROFILES", len(whole[0])):  # all rows, so that the truth has little error
                truth = linked(knots_of(SCORE), whole[0], whole[1], SCORE)
            cells, covered = [], []
            for _ in range(DRAWS):
                first, second, contexts = judges(line, noise, CONTEXTS, random)
                cells.append(measured(first, second, contexts, random))
                curves = bootstrap_curves(first, second, contexts, SCORE)
                low, high = np.quantile(curves, [0.025, 0.975], axis=0)
                covered.append(np.mean((low <= truth) & (truth <= high)))
            means = [f"{value:.2f}" for value in np.mean(cells, axis=0)[:3]]
            row = [f"{line[0]:g}", f"{line[1]:g}", f"{noise:g}", *means]
            row += [f"{np.mean(cells, axis=0)[3]:.3f}", f"{np.mean(covered):.3f}"]
            lines.append(f"| {' | '.join(row)} |")
    return lines


def builtin_judges() -> list[str]:
    """The built-in judge against a variation of itself with half of its log-odds and a preference for the rung."""
    lines = [
        "",
        "## The built-in judge against a variation",
        "",
        "The variation halves the log-odds of the built-in judge on the shipped sets, lowers them by 0.5, and adds",
        f"noise of standard deviation 0.2. {DRAWS} splits of the contexts.",
        "",
        "| set | dimension | error | unlinked | equipercentile | coverage of a text |",
        "| --- | --- | ---: | ---: | ---: | ---: |",
    ]
    random = np.random.default_rng(1)
    for name in published_names():
        ladders, benchmark = load_ladders(name), load_benchmark(name)
        for dimension in ladders.dimensions:
            scorer = LadderScorer(Builtin(), ladders, [dimension], Rule(rule="ladder-sum", weights={}))
            read = []
            scorer.watch = read.extend
            with JudgmentLog(None, scorer.run) as log:
                scorer.score(benchmark.outputs, [None] * len(benchmark.outputs), log)
            first = log_odds(verdicts(read, RUNGS, 1))
            second = 0.5 * first - 0.5 + 0.2 * random.standard_normal(first.shape)
            contexts = np.unique([output.context_id for output in benchmark.outputs], return_inverse=True)[1]
            cells = np.mean([measured(first, second, contexts, random) for _ in range(DRAWS)], axis=0)
            figures = [*(f"{value:.2f}" for value in cells[:3]), f"{cells[3]:.3f}"]
            lines.append(f"| {name} | {dimension.name} | {' | '.join(figures)} |")
    return lines


def main() -> None:
    """Measure simulated judges, then the built-in one."""
    started = time.perf_counter()
    population = 2000
    lines = [*simulated(population), *builtin_judges(), "", f"({time.perf_counter() - started:.0f} s)", ""]
    text = HEAD.format(population=population) + "\n".join(lines)
    RESULTS.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
