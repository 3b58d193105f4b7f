"""Links between judges: error and coverage on held-out contexts, beside unlinked scores.

`python bench/linking.py` writes bench/results/linking.md. Two judges read the log-odds a (theta - b) + c of each row
and rung, with a noise of their own. The second judge has another slope and shift. Other contexts than those of the
link measure it.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from refladder.backends.builtin import Builtin
from refladder.files.ladder_sets import load_ladders, published_names
from refladder.jobs.link import LEAST_CONTEXTS
from refladder.loaders import load_benchmark
from refladder.scoring.columns import Scale as Rule
from refladder.scoring.judging import verdicts
from refladder.scoring.judgment_file import JudgmentLog
from refladder.scoring.scorer import LadderScorer
from refladder.trust.linking import (
    Scale,
    common_rows,
    equipercentile,
    half_width,
    held_out,
    intervals_of,
    knots_of,
    linked,
    log_odds,
    scores_of,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    FloatArray = NDArray[np.float64]

RESULTS = Path(__file__).resolve().parent / "results" / "linking.md"
RUNGS, SYSTEMS, DRAWS = 5, 6, 200
CONTEXTS = (12, 60)  # that make a link
OTHERS, POPULATION = 40, 3000  # contexts that measure a text, and those that stand for all there could be
SCORE = Scale(np.arange(1.0, RUNGS + 1), 0.0)  # ladder-sum
LINES = ((1.0, 0.0), (0.5, 0.0), (2.0, 0.0), (1.0, 1.0), (0.6, -1.0))
NOISES = (0.2, 1.0)
HEAD = """# Links between judges

Made by `python bench/linking.py`.

Errors are mean absolute errors of `ladder-sum` scores (from -15 to 15), on contexts that did not make the link.
"coverage of a text": how often the 95 % interval of a single text's score holds the score that the second judge gave.
"coverage of the map": how often the 95 % interval of the map holds the map that {population:,} contexts give, at scores
between the quantiles .05 and .95. The standard error of each coverage is about .01.

"""


class Judges(NamedTuple):
    """Log-odds of two judges, shape (rows, rungs) each, and the context of each row."""

    first: FloatArray
    second: FloatArray
    contexts: NDArray[np.int64]


class Measured(NamedTuple):
    """Errors of the link, of unlinked scores and of equal ranks, and the coverage of a text, on other contexts."""

    linked: float
    identity: float
    equipercentile: float
    text: float


def judges(line: tuple[float, float], noise: float, contexts: int, random: np.random.Generator) -> Judges:
    """Two judges of new contexts."""
    rungs = np.arange(RUNGS) - 2.0 + random.normal(0.0, 0.4, size=(contexts, 1, RUNGS))
    gaps = random.normal(0.0, 1.5, size=(contexts, SYSTEMS, 1)) - rungs
    first = 1.2 * gaps + noise * random.standard_normal(gaps.shape)
    second = line[0] * 1.2 * gaps + line[1] + noise * random.standard_normal(gaps.shape)
    return Judges(first.reshape(-1, RUNGS), second.reshape(-1, RUNGS), np.repeat(np.arange(contexts), SYSTEMS))


def measured(made_from: Judges, others: Judges) -> Measured:
    """Measure a link from some contexts on others."""
    before, after = scores_of(others.first, SCORE), scores_of(others.second, SCORE)
    predicted = linked(before, common_rows(*made_from, SCORE))[0]
    by_rank = equipercentile(before, scores_of(made_from.first, SCORE), scores_of(made_from.second, SCORE))
    half = half_width(held_out(*made_from, SCORE).residuals)
    errors = [float(np.mean(np.abs(guess - after))) for guess in (predicted, before, by_rank)]
    return Measured(*errors, text=float(np.mean(np.abs(predicted - after) <= (np.nan if half is None else half))))


def simulated() -> list[str]:
    """The table of simulated judges."""
    random = np.random.default_rng(0)
    lines = [
        "## Simulated judges",
        "",
        f"{SYSTEMS} rows of each context, {DRAWS} draws. The noise is that of each judge's log-odds.",
        "",
        "| contexts | slope | shift | noise | error | unlinked | equipercentile | coverage of a text | of the map |",
        "| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    of_text, of_map = [], []
    for line in LINES:
        for noise in NOISES:
            whole = judges(line, noise, POPULATION, random)
            low, high = np.quantile(scores_of(whole.first, SCORE), [0.05, 0.95])
            scores = knots_of(SCORE)[(knots_of(SCORE) >= low) & (knots_of(SCORE) <= high)]
            truth = linked(scores, common_rows(*whole, SCORE))[0]
            for contexts in CONTEXTS:
                cells, covered = [], []
                for _ in range(DRAWS):
                    made_from = judges(line, noise, contexts, random)
                    cells.append(measured(made_from, judges(line, noise, OTHERS, random)))
                    least, most = intervals_of(scores, common_rows(*made_from, SCORE))
                    covered.append(float(np.mean((least <= truth) & (truth <= most))))
                means = Measured(*np.mean(cells, axis=0).tolist())
                of_text.append(means.text)
                of_map.append(float(np.mean(covered)))
                row = [str(contexts), f"{line[0]:g}", f"{line[1]:g}", f"{noise:g}"]
                row += [f"{value:.2f}" for value in means[:3]] + [f"{means.text:.3f}", f"{of_map[-1]:.3f}"]
                lines.append(f"| {' | '.join(row)} |")
    ends = [f"{min(shares):.3f} to {max(shares):.3f}, mean {np.mean(shares):.3f}" for shares in (of_text, of_map)]
    return [*lines, "", f"Coverage of a text: {ends[0]}. Of the map: {ends[1]}."]


def builtin_judges() -> list[str]:
    """The built-in judge against a variation of itself with half of its log-odds and a preference for the rung."""
    lines = [
        "",
        "## The built-in judge against a variation",
        "",
        "The variation halves the log-odds of the built-in judge on the shipped sets, lowers them by 0.5, and adds",
        f"noise of standard deviation 0.2. {DRAWS} splits of the contexts: {LEAST_CONTEXTS} (the fewest that `link`",
        "takes) make the link, the others measure it. The splits share rows: the standard error of a coverage is about",
        ".03.",
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
            contexts = np.unique([output.context_id for output in benchmark.outputs], return_inverse=True)[1]
            cells = []
            for _ in range(DRAWS):
                second = 0.5 * first - 0.5 + 0.2 * random.standard_normal(first.shape)
                number = random.permutation(contexts.max() + 1)[contexts]
                made = number < LEAST_CONTEXTS
                cells.append(
                    measured(
                        Judges(first[made], second[made], number[made]),
                        Judges(first[~made], second[~made], number[~made]),
                    )
                )
            means = Measured(*np.mean(cells, axis=0).tolist())
            figures = [*(f"{value:.2f}" for value in means[:3]), f"{means.text:.3f}"]
            lines.append(f"| {name} | {dimension.name} | {' | '.join(figures)} |")
    return lines


def main() -> None:
    """Measure simulated judges, then the built-in one."""
    started = time.perf_counter()
    lines = [*simulated(), *builtin_judges(), "", f"({time.perf_counter() - started:.0f} s)", ""]
    text = HEAD.format(population=POPULATION) + "\n".join(lines)
    RESULTS.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
