"""Does sharing cost anything? A ladder for each context against shared sets, on five benchmarks.

`python bench/shared.py` reads ../shared/data and writes bench/results/shared.md. Ladders are written by builtin for the
first contexts of each benchmark. Some of these contexts are drawn as anchors; the rows are the outputs of the others,
so no row has the context of an anchor, and every set scores the same rows. Verdicts are computed for all rows at once;
the scores are those of the package's rule.

Judges: builtin, and simulated ones. A simulated judge knows the mean human rating of a text as its quality (0 to 1),
and the quality (level - 1/2) / N of a rung. It adds noise to each text and comparison. `shifted` also adds one
draw for each context to all texts of that context, rungs included, so that texts of different contexts are harder to
compare. `uneven` is the opposite: the judge has no such shift, but the writer has, so the rungs of a context are better
or worse than asked.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from certificate import SOURCES, table

from refladder.backends import connect
from refladder.backends.builtin.quality import DISCRIMINATION, TIES, quality
from refladder.loaders import load_benchmark
from refladder.scoring.rules import ladder_scores, over_anchors
from refladder.statistics.agreement import human_means
from refladder.statistics.correlation import area_under_curve, correlate
from refladder.statistics.levels import mean_within
from refladder.synth import build_ladders

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from refladder.records import Benchmark, Dimension

    FloatArray = NDArray[np.float64]

RESULTS = Path(__file__).resolve().parent / "results" / "shared.md"
CONTEXTS, DIMENSIONS, RUNGS, DRAWS = 40, 2, 5, 40
ANCHORS = (1, 2, 4)
SHARPNESS, NOISE, PAIR_NOISE = (
    8.0,
    0.1,
    1.0,
)  # log-odds of a unit of quality; noise of a text in quality, of a comparison
# Judge: standard deviation of its shift for a context, and of the writer's, in quality.
SIMULATED = {"steady": (0.0, 0.0), "shifted": (0.2, 0.0), "uneven": (0.0, 0.2)}
SETS = ("own", *ANCHORS)
FIGURES = {
    "pooled": "Pooled Spearman correlation with people",
    "within": "Spearman correlation within contexts",
    "auc": 'AUC of "rated above the median" (where the median is the top of the scale: "at the median")',
}
HEAD = f"""# Does a shared set cost accuracy?

Made by `python bench/shared.py`, with the data of `../shared/data`: the first {CONTEXTS} contexts (SummEval has 100,
HANNA 96) and the first {DIMENSIONS} dimensions of each benchmark. Ladders of {RUNGS} rungs are written by `builtin`.
{max(ANCHORS)} contexts are drawn as anchors, and their outputs left out. The outputs of the others are scored with the
ladder of their own context ("own"), and with the ladders of the first 1, 2 and 4 anchors. The figures are means over
{DRAWS} draws of anchors, and over the dimensions. "sd" is the standard deviation of a figure over the draws.

Judges: `builtin`, and three simulated ones that know the mean human rating of a text and the level at which a rung was
written. A unit of quality, the whole human scale, makes log-odds of {SHARPNESS:g}. There is noise in each text
({NOISE:g} of the scale) and in each comparison ({PAIR_NOISE:g} in log-odds). `shifted` adds to all texts of a context,
rungs included, the same random amount (standard deviation {SIMULATED["shifted"][0]:g} of the scale): within a context
it compares as well as `steady`, across contexts worse. With `uneven` the writer has that shift instead: its rungs are
better in one context than in another. The simulated judges make assumptions about judges and writers. They do not
measure a language model.

The built-in judge gives each text one number, and its verdict is a function of the difference of two numbers. So all
shared sets put its texts into the same order, whatever their anchors.
"""


class Texts(NamedTuple):
    """Rows of a benchmark on one dimension, and the quality of all texts as a judge reads it, without noise.

    `ratings`, `contexts` and `outputs` have shape (rows,), `rungs` (contexts, N). A unit of quality makes log-odds of
    `sharpness`, and a tie has the weight `ties`.
    """

    ratings: FloatArray
    contexts: NDArray[np.int64]
    outputs: FloatArray
    rungs: FloatArray
    sharpness: float
    ties: float


def texts_of(benchmark: Benchmark, dimension: Dimension, judge: str) -> Texts:
    """The rows of the first contexts that have a rating, for builtin or a simulated judge."""
    contexts = benchmark.contexts[:CONTEXTS]
    number = {context.id: position for position, context in enumerate(contexts)}
    means = human_means(benchmark.ratings)
    rated = [
        each
        for each in benchmark.outputs
        if each.context_id in number and (each.id, dimension.name) in means
    ]
    ratings = np.array([means[output.id, dimension.name] for output in rated])
    of_row = np.array([number[output.context_id] for output in rated])
    if judge != "builtin":
        levels = (np.arange(RUNGS) + 0.5) / RUNGS
        known = (ratings - dimension.low) / (dimension.high - dimension.low)
        return Texts(ratings, of_row, known, np.tile(levels, (len(contexts), 1)), SHARPNESS, 1.0)
    ladders, _ = build_ladders(connect("builtin"), contexts, [dimension], rungs=RUNGS)
    rungs = np.full((len(contexts), RUNGS), np.nan)

    def worth(text: str, position: int) -> float:
        context = contexts[position]
        about = (
            context.text,
            context.background,
            context.task,
            dimension.name,
            dimension.description,
        )
        return quality(text, *about)

    for ladder in ladders:
        position = number[ladder.context_id]
        rungs[position] = [worth(rung.text, position) for rung in ladder.rungs]
    outputs = np.array(
        [
            worth(output.text, position)
            for output, position in zip(rated, of_row.tolist(), strict=True)
        ]
    )
    return Texts(ratings, of_row, outputs, rungs, DISCRIMINATION, TIES)


def scores(texts: Texts, outputs: FloatArray, rungs: FloatArray, noise: FloatArray) -> FloatArray:
    """Scores of `outputs` (rows,) against `rungs` (rows, anchors * N), by Davidson's model and the rule ladder-sum.

    `noise` has the shape of `rungs`, in log-odds.
    """
    half = (texts.sharpness * (outputs[:, np.newaxis] - rungs) + noise) / 2
    weights = np.stack([np.exp(half), np.exp(-half), np.full_like(half, texts.ties)], axis=2)
    rule = over_anchors(ladder_scores, rungs.shape[1] // RUNGS)
    return rule(weights / weights.sum(axis=2, keepdims=True), (1.0, 5.0))


def study(benchmark: Benchmark, dimension: Dimension, judge: str) -> FloatArray:
    """Shape (draws, sets, figures)."""
    texts = texts_of(benchmark, dimension, judge)
    of_judge, of_writer = SIMULATED.get(judge, (0.0, 0.0))
    noise = NOISE if judge in SIMULATED else 0.0
    whole = np.flatnonzero(~np.isnan(texts.rungs[:, 0]))
    found = []
    for draw in range(DRAWS):
        random = np.random.default_rng(draw)
        shift, uneven = random.normal(0, 1, (2, len(texts.rungs)))
        outputs = (
            texts.outputs
            + noise * random.normal(0, 1, len(texts.outputs))
            + of_judge * shift[texts.contexts]
        )
        rungs = texts.rungs + noise * random.normal(0, 1, texts.rungs.shape)
        rungs += (of_judge * shift + of_writer * uneven)[:, np.newaxis]
        anchors = random.permutation(whole)[: max(ANCHORS)]
        rows = np.flatnonzero(np.isin(texts.contexts, np.setdiff1d(whole, anchors)))
        contexts, ratings = texts.contexts[rows], texts.ratings[rows]
        median = np.median(ratings)
        good = ratings > median if median < ratings.max() else ratings == median
        of_draw = []
        for name in SETS:
            if isinstance(name, str):
                compared = rungs[contexts]
            else:
                compared = np.tile(rungs[anchors[:name]].reshape(-1), (len(rows), 1))
            of_pairs = PAIR_NOISE * (judge in SIMULATED) * random.normal(0, 1, compared.shape)
            values = scores(texts, outputs[rows], compared, of_pairs)
            within = mean_within(values, ratings, contexts)
            of_draw.append([correlate(values, ratings), within, area_under_curve(values, good)])
        found.append(of_draw)
    return np.array(found, dtype=np.float64)


def main() -> None:
    """Run the study and write the page."""
    judges = ("builtin", *SIMULATED)
    results: dict[tuple[str, str], FloatArray] = {}
    for name, path in SOURCES.items():
        benchmark = load_benchmark(name, path)
        for judge in judges:
            of_dimensions = [
                study(benchmark, dimension, judge)
                for dimension in benchmark.dimensions[:DIMENSIONS]
            ]
            results[name, judge] = np.mean(of_dimensions, axis=0)
            print(name, judge, results[name, judge].mean(axis=0).round(3).tolist(), flush=True)
    lines = [HEAD]
    for number, title in enumerate(FIGURES.values()):
        means = {key: found[:, :, number].mean(axis=0) for key, found in results.items()}
        rows = [(*key, *(f"{value:.3f}" for value in of_sets)) for key, of_sets in means.items()]
        for judge in judges:
            mean = np.mean(
                [of_sets for (_, of_judge), of_sets in means.items() if of_judge == judge], axis=0
            )
            rows.append(("**mean**", judge, *(f"**{value:.3f}**" for value in mean)))
        heads = [
            "benchmark",
            "judge",
            "own",
            *(f"{count} anchor{'s' * (count > 1)}" for count in ANCHORS),
        ]
        if number == 0:
            heads += ["sd, 1", "sd, 4"]
            spreads = {
                key: found[:, (1, 3), number].std(axis=0, ddof=1) for key, found in results.items()
            }
            rows = [
                (*row, *(f"{one:.3f}" for one in spreads.get((row[0], row[1]), ()))) for row in rows
            ]
            rows = [(*row, *("" for _ in range(len(heads) - len(row)))) for row in rows]
        lines += [f"## {title}", "", *table(heads, rows, 2), ""]
    RESULTS.write_text("\n".join(lines), "utf-8")


if __name__ == "__main__":
    main()
