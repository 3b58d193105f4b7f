"""Links between judges: error and coverage on held-out contexts, beside unlinked scores.

`python bench/linking.py` writes bench/results/linking.md. Two judges read the log-odds a (theta - b) + c of each row
and rung, with a noise of their own. The second judge has another slope and shift. Judges may give hard verdicts, win or
loss, instead of log-odds. Other contexts than those of the link measure it.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from refladder.backends.builtin import Builtin
from refladder.files.ladder_sets import load_ladders, rated_names
from refladder.files.tables import Row
from refladder.jobs.link import LEAST_CONTEXTS
from refladder.loaders import load_benchmark
from refladder.loaders.input_rows import Item
from refladder.scoring.asker import verdicts
from refladder.scoring.judgment_file import JudgmentLog
from refladder.scoring.scorer import LadderScorer
from refladder.settings import Scoring
from refladder.statistics.linking import (
    MAPS,
    MOST_ODDS,
    LinearScore,
    by_rank,
    common_rows,
    half_width,
    held_out,
    linked,
    log_odds,
    map_of,
    scores_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from refladder.statistics.linking import Map, MapName

    FloatArray = NDArray[np.float64]

RESULTS = Path(__file__).resolve().parent / "results" / "linking.md"
RUNGS, SYSTEMS, DRAWS, SPLITS = 5, 6, 12, 12
CONTEXTS = (12, 60)  # that make a link
OTHERS, POPULATION = (
    40,
    800,
)  # contexts that measure a text, and those that stand for all there could be
SCORE = LinearScore(np.arange(1.0, RUNGS + 1), 0.0)  # ladder-sum
LINES = ((1.0, 0.0), (0.5, 0.0), (2.0, 0.0), (1.0, 1.0), (0.6, -1.0))
NOISES = (0.2, 1.0)
HARD = {"neither": (False, False), "first": (True, False), "both": (True, True)}
HEAD = """# Links between judges

Made by `python bench/linking.py`.

Errors are mean absolute errors of `ladder-sum` scores (from -15 to 15), on contexts that did not make the link: of the
line, of unlinked scores, of equal ranks, and of the map that `link` uses, which had the least error in folds of the
contexts that made it. Hard: judges that give verdicts without probabilities. "coverage of a text": how often the 95 %
interval of a single text's score holds the score that the second judge gave. "coverage of the map": how often the 95 %
interval of the map holds the map of the same kind that {population:,} contexts give, at quantiles .05 to .95 of the
scores; unlinked scores, whose map is known, are left out.

"""


class Judges(NamedTuple):
    """Log-odds of two judges, shape (rows, rungs) each, and the context of each row."""

    first: FloatArray
    second: FloatArray
    contexts: NDArray[np.int64]


class Measured(NamedTuple):
    """Errors of the line, of unlinked scores, of equal ranks and of the map used, and the coverage of a text."""

    line: float
    identity: float
    equipercentile: float
    used: float
    text: float


def judges(
    line: tuple[float, float],
    noise: float,
    contexts: int,
    random: np.random.Generator,
    hard: tuple[bool, bool] = (False, False),
) -> Judges:
    """Two judges of new contexts."""
    rungs = np.arange(RUNGS) - 2.0 + random.normal(0.0, 0.4, size=(contexts, 1, RUNGS))
    gaps = random.normal(0.0, 1.5, size=(contexts, SYSTEMS, 1)) - rungs
    first = 1.2 * gaps + noise * random.standard_normal(gaps.shape)
    second = line[0] * 1.2 * gaps + line[1] + noise * random.standard_normal(gaps.shape)
    read = [
        np.where(odds > 0, MOST_ODDS, -MOST_ODDS) if verdicts_only else odds
        for odds, verdicts_only in zip((first, second), hard, strict=True)
    ]
    return Judges(
        read[0].reshape(-1, RUNGS),
        read[1].reshape(-1, RUNGS),
        np.repeat(np.arange(contexts), SYSTEMS),
    )


def maps_of(made_from: Judges, names: Sequence[MapName]) -> dict[MapName, Map]:
    """Maps from some contexts."""
    scores = scores_of(made_from.first, SCORE), scores_of(made_from.second, SCORE)
    common = common_rows(*made_from, SCORE)
    return {name: map_of(name, common, scores, made_from.contexts) for name in names}


def measured(made_from: Judges, others: Judges) -> tuple[MapName, Map, Measured]:
    """The map that `link` uses from some contexts, and what the maps do on others."""
    before, after = scores_of(others.first, SCORE), scores_of(others.second, SCORE)
    made, held = maps_of(made_from, MAPS), held_out(*made_from, SCORE)
    wrong = {
        name: np.abs(np.interp(before, each.scores, each.values) - after)
        for name, each in made.items()
    }
    half = half_width(held.residuals[held.best])
    errors = [
        float(np.mean(wrong[name])) for name in ("line", "identity", "equipercentile", held.best)
    ]
    return (
        held.best,
        made[held.best],
        Measured(*errors, text=float(np.mean(wrong[held.best] <= (half or np.nan)))),
    )


def simulated() -> list[str]:
    """The table of simulated judges."""
    random = np.random.default_rng(0)
    lines = [
        "## Simulated judges",
        "",
        f"{SYSTEMS} rows of each context, {DRAWS} draws. The noise is that of each judge's log-odds. Used: the error",
        "of the map that `link` uses. Which: how often this is the line, the unlinked scores, or equal ranks. Text and",
        "map: coverages.",
        "",
        "| hard | contexts | slope | shift | noise | line | unlinked | equipercentile | used | which | text | map |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    of_text, of_map, lost = [], [], []
    for words, hard in HARD.items():
        for line in LINES:
            for noise in NOISES:
                whole = judges(line, noise, POPULATION, random, hard)
                before = scores_of(whole.first, SCORE)
                at = np.quantile(before, np.linspace(0.05, 0.95, 41), method="nearest")
                truths = {
                    "line": linked(at, common_rows(*whole, SCORE))[0],
                    "equipercentile": np.interp(
                        at, *by_rank(before, scores_of(whole.second, SCORE), SCORE)
                    ),
                }
                for contexts in CONTEXTS:
                    cells, covered, names = [], [], []
                    for _ in range(DRAWS):
                        made_from = judges(line, noise, contexts, random, hard)
                        name, used, figures = measured(
                            made_from, judges(line, noise, OTHERS, random, hard)
                        )
                        cells.append(figures)
                        names.append(name)
                        if name in truths:
                            least, most = (np.interp(at, used.scores, ends) for ends in used[2:])
                            covered.append(
                                float(np.mean((least <= truths[name]) & (truths[name] <= most)))
                            )
                    means = Measured(*np.mean(cells, axis=0).tolist())
                    of_text.append(means.text)
                    of_map += [float(np.mean(covered))] if len(covered) > DRAWS / 2 else []
                    lost.append(means.used - min(means[:3]))
                    row = [words, str(contexts), f"{line[0]:g}", f"{line[1]:g}", f"{noise:g}"]
                    row += [f"{value:.2f}" for value in means[:4]]
                    row += [
                        " ".join(
                            f"{names.count(name) / DRAWS:.2f}"
                            for name in ("line", "identity", "equipercentile")
                        )
                    ]
                    row += [f"{means.text:.3f}", f"{np.mean(covered):.3f}" if covered else "-"]
                    lines.append(f"| {' | '.join(row)} |")
    ends = [
        f"{min(shares):.3f} to {max(shares):.3f}, mean {np.mean(shares):.3f}"
        for shares in (of_text, of_map)
    ]
    return [
        *lines,
        "",
        f"Coverage of a text: {ends[0]}. Of the map, where it is one of the two in more than half of the draws:",
        f"{ends[1]}. The map used has an error of at most {max(lost):.2f} above that of the best one.",
    ]


def builtin_judges() -> list[str]:
    """The built-in judge against a variation of itself with half of its log-odds and a preference for the rung."""
    lines = [
        "",
        "## The built-in judge against a variation",
        "",
        "The variation halves the log-odds of the built-in judge on the shipped sets, lowers them by 0.5, and adds",
        f"noise of standard deviation 0.2. {SPLITS} splits of the contexts: {LEAST_CONTEXTS} (the fewest that `link`",
        "takes) make the link, the others measure it. The splits share rows: the standard error of a coverage is about",
        ".03.",
        "",
        "| set | dimension | line | unlinked | equipercentile | used | coverage of a text |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    random = np.random.default_rng(1)
    for name in rated_names():
        ladders, benchmark = load_ladders(name), load_benchmark(name)
        for dimension in ladders.dimensions:
            scorer = LadderScorer(Builtin(), ladders, Scoring(dimensions=[dimension.name]))
            items = [Item(Row(output.id, {}), output) for output in benchmark.outputs]
            with JudgmentLog(None, scorer.run) as log:
                read = scorer.judged(items, log).judgments
            first = log_odds(verdicts(read, RUNGS, 1))
            contexts = np.unique(
                [output.context_id for output in benchmark.outputs], return_inverse=True
            )[1]
            cells = []
            for _ in range(SPLITS):
                second = 0.5 * first - 0.5 + 0.2 * random.standard_normal(first.shape)
                number = random.permutation(contexts.max() + 1)[contexts]
                made = number < LEAST_CONTEXTS
                cells.append(
                    measured(
                        Judges(first[made], second[made], number[made]),
                        Judges(first[~made], second[~made], number[~made]),
                    )[2]
                )
            means = Measured(*np.mean(cells, axis=0).tolist())
            figures = [*(f"{value:.2f}" for value in means[:4]), f"{means.text:.3f}"]
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
