"""How often the intervals of `evaluate` and `calibrate` hold the population value: simulated tables and real ones."""

from __future__ import annotations

import math
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import ndtri

from refladder.calibration.good_share import powered_share, share_of_good
from refladder.display.rendering import PlainTable, markdown
from refladder.loaders import load_benchmark
from refladder.methods.surface import MEASURES, surface_measures
from refladder.statistics.agreement import build_grid, human_means
from refladder.statistics.bootstrap import resample, resample_mean
from refladder.statistics.correlation import correlate_rows
from refladder.statistics.intervals import jackknife_interval, leave_out
from refladder.statistics.levels import correlate_level, system_means
from refladder.statistics.rate import LEAST, wilson

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from refladder.arrays import FloatArray, IntArray

    Bools = NDArray[np.bool_]

    Grid = tuple[FloatArray, FloatArray]
    Draw = Callable[[int], Grid]

DATA = Path(__file__).parents[2] / "shared" / "data"
POOLS = {
    "summeval": ("summeval/mteb_summeval.test.jsonl.gz", "relevance", "coverage"),
    "webnlg": ("webnlg2017/all_data_final_averaged.csv.gz", "semantics", "length"),
}
CONTEXTS = (14, 30, 60, 100)
DRAWS = 600
RESAMPLES = 400  # of the bootstraps that are shown for comparison
NORMAL_95 = 1.959964


class Judge(NamedTuple):
    """A simulated method: how much of its score is quality, and whether its scores are grades from 1 to 5."""

    words: str
    share: float
    grades: bool


JUDGES = (
    Judge("weak, grades 1-5", 0.2, grades=True),
    Judge("middling, grades 1-5", 0.5, grades=True),
)
JUDGES += (Judge("strong, real numbers", 0.8, grades=False),)


def effects(generator: np.random.Generator, systems: int, *, heavy: bool = False) -> Grid:
    """Quality of systems, and what the method wrongly adds to each; with `heavy`, few are far from the rest."""
    drawn = (
        generator.standard_t(3, size=(2, systems)) / math.sqrt(3)
        if heavy
        else generator.normal(size=(2, systems))
    )
    return 0.6 * drawn[0], 0.4 * drawn[1]


def simulated(generator: np.random.Generator, contexts: int, systems: Grid, judge: Judge) -> Grid:
    """Scores and ratings: system + context + rest, three raters who give grades from 1 to 5."""
    quality, wrong = systems
    shape = (contexts, len(quality))
    true = quality + 0.7 * generator.normal(size=(contexts, 1)) + 0.6 * generator.normal(size=shape)
    raters = np.clip(
        np.round(3 + true[..., np.newaxis] + 0.7 * generator.normal(size=(*shape, 3))), 1, 5
    )
    noise = 0.7 * generator.normal(size=(contexts, 1)) + generator.normal(size=shape)
    scores = judge.share * true + (1 - judge.share) * (wrong + noise)
    return np.clip(np.round(3 + 1.2 * scores), 1, 5) if judge.grades else scores, raters.sum(
        axis=-1
    ) / 3


def covered(
    draw: Draw, truth: float, contexts: int, level: str, statistic: str
) -> tuple[float, float]:
    """Shares of draws whose jackknife interval, and whose percentiles of a bootstrap, hold the truth."""
    grids = [draw(contexts) for _ in range(DRAWS)]
    without, drawn = leave_out(contexts), draw_contexts(contexts, RESAMPLES)
    hits = np.zeros(2)
    if level == "within_context":
        predicted, human = (np.concatenate(part) for part in zip(*grids, strict=True))
        for rows in correlate_rows(predicted, human, statistic).reshape(DRAWS, contexts):
            left_out = resample_mean(rows, without)
            ends = jackknife_interval(
                float(np.nanmean(rows)), left_out, int((~np.isnan(rows)).sum())
            )
            hits += [
                _inside(truth, ends),
                _inside(truth, percentile_interval(resample_mean(rows, drawn))),
            ]
        return hits[0] / DRAWS, hits[1] / DRAWS
    for predicted, human in grids:
        figure = correlate_level(predicted, human, level=level, statistic=statistic)
        left_out = resample(predicted, human, without, level=level, statistic=statistic)
        hits[0] += _inside(truth, jackknife_interval(figure.value, left_out, figure.contexts))
    return hits[0] / DRAWS, 0.0


def draw_contexts(contexts: int, resamples: int, seed: int = 0) -> FloatArray:
    """How often each context is drawn with replacement; shape (resamples, contexts)."""
    shares = np.full(contexts, 1.0 / contexts)
    return np.asarray(
        np.random.default_rng(seed).multinomial(contexts, shares, size=resamples), dtype=np.float64
    )


def percentile_interval(values: FloatArray) -> tuple[float, float]:
    """The middle 95 % of resampled values; NaN if fewer than 95 % of the resamples have a correlation."""
    defined = values[~np.isnan(values)]
    if len(defined) < 0.95 * len(values) or not len(defined):
        return np.nan, np.nan
    low, high = np.quantile(defined, [0.025, 0.975])
    return float(low), float(high)


def _inside(truth: float, ends: tuple[float, float]) -> bool:
    return ends[0] <= truth <= ends[1]


def over_contexts() -> str:
    """Coverage at both levels whose contexts are left out."""
    rows = []
    cells = [
        (level, "spearman", systems)
        for level in ("within_context", "pooled")
        for systems in (6, 16)
    ]
    cells += [("within_context", "kendall", 4), ("pooled", "kendall", 6), ("pooled", "pearson", 6)]
    for level, statistic, systems in cells:
        for judge in JUDGES:
            generator = np.random.default_rng(1)
            fixed = effects(generator, systems)

            def draw(
                contexts: int,
                generator: np.random.Generator = generator,
                fixed: Grid = fixed,
                judge: Judge = judge,
            ) -> Grid:
                return simulated(generator, contexts, fixed, judge)

            grids = [draw(400) for _ in range(50)]
            truth = float(
                np.mean(
                    [
                        correlate_level(*grid, level=level, statistic=statistic).value
                        for grid in grids
                    ]
                )
            )
            found = [covered(draw, truth, contexts, level, statistic) for contexts in CONTEXTS]
            rows.append(
                [level, statistic, str(systems), judge.words, f"{truth:.3f}", *map(_shares, found)]
            )
    rows += [
        _real(name, DATA / file, dimension, measure, level)
        for name, (file, dimension, measure) in POOLS.items()
        for level in ("within_context", "pooled")
    ]
    heads = [
        "level",
        "statistic",
        "systems",
        "scores",
        "population",
        *(f"{number} contexts" for number in CONTEXTS),
    ]
    return markdown(
        [
            PlainTable(
                "Coverage of 95 % intervals, the jackknife's and (bootstrap percentiles).",
                heads,
                rows,
            )
        ]
    )


def _shares(found: tuple[float, float]) -> str:
    return f"{found[0]:.3f}" + (f" ({found[1]:.3f})" if found[1] else "")


def _real(name: str, path: Path, dimension: str, measure: str, level: str) -> list[str]:
    """Contexts drawn from a real benchmark, which stands for the population, with a surface measure as the scores."""
    if not path.is_file():
        return [
            level,
            "spearman",
            "—",
            f"{name}: {path.name} is not on this machine",
            *["—"] * (1 + len(CONTEXTS)),
        ]
    made = load_benchmark(name, path)
    texts = {context.id: context for context in made.contexts}
    column = list(MEASURES).index(measure)
    scores = {
        (output.id, dimension): float(
            surface_measures(texts[output.context_id], [output.text])[0, column]
        )
        for output in made.outputs
    }
    grid = build_grid(made.outputs, human_means(made.ratings), scores, dimension)
    generator = np.random.default_rng(2)

    def draw(contexts: int) -> Grid:
        rows = generator.integers(0, len(grid.human), size=contexts)
        return grid.predicted[rows], grid.human[rows]

    truth = correlate_level(grid.predicted, grid.human, level=level).value
    found = [covered(draw, truth, contexts, level, "spearman") for contexts in CONTEXTS]
    words = f"{name}, {dimension}: {measure}"
    return [level, "spearman", str(len(grid.systems)), words, f"{truth:.3f}", *map(_shares, found)]


def between(contexts: int = 30) -> str:
    """Coverage between systems, which are drawn anew as contexts are, by four kinds of interval."""
    rows = []
    for statistic in ("spearman", "pearson"):
        for heavy in (False, True):
            for judge in JUDGES[1:]:
                generator = np.random.default_rng(3)
                large = [
                    simulated(generator, contexts, effects(generator, 2000, heavy=heavy), judge)
                    for _ in range(10)
                ]
                truth = np.mean(
                    [
                        correlate_level(*grid, level="between_systems", statistic=statistic).value
                        for grid in large
                    ]
                )
                for systems in (6, 16, 30):
                    hits = np.zeros(4)
                    for number in range(DRAWS):
                        grid = simulated(
                            generator, contexts, effects(generator, systems, heavy=heavy), judge
                        )
                        ends = _between_intervals(*grid, statistic, number)
                        hits += (ends[:, 0] <= truth) & (truth <= ends[:, 1])
                    kind = "heavy-tailed" if heavy else "normal"
                    shares = [f"{share:.3f}" for share in hits / DRAWS]
                    rows.append(
                        [statistic, kind, judge.words, f"{truth:.3f}", str(systems), *shares]
                    )
    heads = ["statistic", "system effects", "scores", "population", "systems"]
    heads += ["contexts resampled", "contexts left out", "both resampled", "Fisher z over systems"]
    return markdown(
        [
            PlainTable(
                f"Between systems, {contexts} contexts: coverage of 95 % intervals.", heads, rows
            )
        ]
    )


def between_fixed() -> str:
    """Coverage between the same systems, whose true means a perfect or a strong method orders."""
    rows = []
    for systems in (6, 16):
        for judge in (Judge("quality itself", 1.0, grades=False), JUDGES[2]):
            generator = np.random.default_rng(4)
            fixed = effects(generator, systems)
            truth = correlate_level(
                *simulated(generator, 20_000, fixed, judge), level="between_systems"
            ).value
            shares = []
            for contexts in CONTEXTS:
                hits = 0
                weights = draw_contexts(contexts, RESAMPLES)
                for _ in range(DRAWS):
                    predicted, human = simulated(generator, contexts, fixed, judge)
                    values = resample(predicted, human, weights, level="between_systems")
                    hits += _inside(truth, percentile_interval(values))
                shares.append(f"{hits / DRAWS:.3f}")
            rows.append([str(systems), judge.words, f"{truth:.3f}", *shares])
    heads = ["systems", "scores", "population", *(f"{number} contexts" for number in CONTEXTS)]
    return markdown(
        [
            PlainTable(
                "Between the same systems, Spearman: coverage of bootstrap percentiles.",
                heads,
                rows,
            )
        ]
    )


def _between_intervals(
    predicted: FloatArray, human: FloatArray, statistic: str, seed: int
) -> FloatArray:
    """Four intervals, shape (4, 2)."""
    contexts, systems = predicted.shape
    options = {"level": "between_systems", "statistic": statistic}
    value = correlate_level(predicted, human, **options).value
    weights = draw_contexts(contexts, RESAMPLES, seed)
    left_out = resample(predicted, human, leave_out(contexts), **options)
    chosen = np.random.default_rng(seed).integers(0, systems, size=(RESAMPLES, systems))
    means = [
        np.take_along_axis(mean, chosen, axis=1)
        for mean in system_means(predicted, human, weights, statistic)
    ]
    # Bonett and Wright 2000 for Spearman, Fisher 1915 for Pearson.
    error = math.sqrt((1 + value**2 / 2 if statistic == "spearman" else 1) / (systems - 3))
    middle = math.atanh(min(max(value, -1 + 1e-9), 1 - 1e-9))
    return np.array(
        [
            percentile_interval(resample(predicted, human, weights, **options)),
            jackknife_interval(value, left_out, contexts),
            percentile_interval(correlate_rows(means[0], means[1], statistic)),
            (math.tanh(middle - NORMAL_95 * error), math.tanh(middle + NORMAL_95 * error)),
        ]
    )


def intervals() -> str:
    """The section of the results."""
    with ProcessPoolExecutor(3) as pool:
        parts = [pool.submit(part) for part in (over_contexts, between_fixed, between)]
        contexts_table, fixed_table, between_table = (part.result() for part in parts)
    noise = 1.96 * math.sqrt(0.95 * 0.05 / DRAWS)
    return f"""\
How often a 95 % interval of `evaluate` holds the population value, in {DRAWS} draws a cell (a share of .950 is seen as
.950 +- {noise:.3f}). Ratings are means of three raters who give grades from 1 to 5, so that many are tied; quality is
system + context + rest, and a method adds an error of its own to each system.

Within contexts and pooled, the systems stay the same and contexts are drawn. The population value is the statistic over
20,000 contexts of the same systems, in 50 grids of 400; for real benchmarks, the statistic over all of its contexts,
from which contexts are drawn with replacement. `evaluate` prints the jackknife's interval; percentiles of a bootstrap
with {RESAMPLES} resamples are in brackets where they were computed.

{contexts_table}
Between systems, `evaluate` prints no interval: none of four kinds covers .93 to .97 throughout. First, the systems stay
the same and contexts are drawn; the population value is the statistic over 20,000 contexts.

{fixed_table}
Next, systems are drawn as contexts are; the population value is the statistic over 20,000 systems with as many
contexts. "Both resampled" draws systems and contexts with replacement; "Fisher z" takes systems alone as the sample.

{between_table}"""


SIZES = {
    "12 rows": lambda _, contexts: np.full(contexts, 12),
    "1 to 40 rows, mean 7": lambda random, contexts: np.minimum(
        1 + random.geometric(1 / 6, contexts), 40
    ),
    "2 rows": lambda _, contexts: np.full(contexts, 2),
    "half 1 row, half 20": lambda random, contexts: np.where(random.random(contexts) < 0.5, 1, 20),
    "1 row": lambda _, contexts: np.ones(contexts, np.int64),
}
CORRELATIONS = (0.1, 0.4, 0.8)
LABELLED = (8, 15, 25, 60)  # contexts with labels
SHARES = (0.5, 0.8, 0.95)
RATE_DRAWS, SCORE_DRAWS, RATE_POOL = 1000, 400, 120
RATE_JUDGES = {"AUC .5": 0.5, "AUC .7": 0.7, "AUC .9": 0.9, "AUC .97": 0.97, "AUC .9, grades": 0.9}


def labels_of(
    random: np.random.Generator, sizes: IntArray, share: float, correlation: float
) -> tuple[Bools, IntArray]:
    """Which rows are good, and their contexts; two rows of a context are correlated."""
    both = (1 - correlation) / correlation
    rates = random.beta(share * both, (1 - share) * both, len(sizes))
    contexts = np.repeat(np.arange(len(sizes)), sizes)
    return random.random(len(contexts)) < rates[contexts], contexts


def rates() -> str:
    """Coverage of the interval of a share of good rows, from labels of whole contexts."""
    random = np.random.default_rng(0)
    rows, worst = [], 1.0
    for words, sizes in SIZES.items():
        for correlation in CORRELATIONS:
            for contexts in LABELLED:
                cells = []
                for share in SHARES:
                    hits, printed, plain = 0, 0, 0
                    for _ in range(RATE_DRAWS):
                        good, units = labels_of(random, sizes(random, contexts), share, correlation)
                        rate, alone = share_of_good(good, units), wilson(int(good.sum()), len(good))
                        plain += _inside(share, alone[1:])
                        if rate.low is not None and rate.high is not None:
                            printed += 1
                            hits += _inside(share, (rate.low, rate.high))
                    found = f"{hits / printed:.3f}" if printed > RATE_DRAWS / 100 else "none"
                    worst = min(worst, hits / printed) if printed > RATE_DRAWS / 100 else worst
                    cells.append(f"{found} ({printed / RATE_DRAWS:.2f}; {plain / RATE_DRAWS:.3f})")
                rows.append([words, f"{correlation:g}", str(contexts), *cells])
    heads = [
        "labels of a context",
        "correlation",
        "contexts",
        *(f"share {share:g}" for share in SHARES),
    ]
    title = "Coverage where it is printed (share of the draws with an interval; coverage of Wilson's over rows)."
    about = (
        f"The 95 % interval of `calibrate` for the share of good rows, {RATE_DRAWS:,} draws a cell, whole contexts "
        "labelled. The share of a context has a beta distribution, with this correlation of two of its rows. Least "
        f"coverage of the printed ones: {worst:.3f}."
    )
    return f"{about}\n\n{markdown([PlainTable(title, heads, rows)])}"


def rates_with_scores() -> str:
    """Coverage of the interval that uses the scores of all rows too (PPI++)."""
    random = np.random.default_rng(1)
    designs = [("12 rows", contexts) for contexts in LABELLED[1:]]
    designs += [("1 to 40 rows, mean 7", contexts) for contexts in LABELLED[2:]]
    designs += [("2 rows", LABELLED[-1]), ("rows at random", 150), ("rows at random", 360)]
    rows, every = [], []
    for words, number in designs:
        for correlation in CORRELATIONS:
            for share in SHARES:
                cells = []
                for name, area in RATE_JUDGES.items():
                    found = [
                        _with_scores(random, words, number, (share, correlation), (name, area))
                        for _ in range(SCORE_DRAWS)
                    ]
                    printed = [(hit, length) for hit, length in found if length]
                    covered, shorter = np.mean(printed, axis=0) if printed else (math.nan, math.nan)
                    every += [covered] if len(printed) > SCORE_DRAWS / 10 else []
                    cells.append(f"{covered:.3f} ({shorter:.2f})" if printed else "none")
                rows.append([words, str(number), f"{correlation:g}", f"{share:g}", *cells])
    heads = ["labels of a context", "contexts (rows)", "correlation", "share", *RATE_JUDGES]
    about = (
        f"The interval that also uses the scores, from {LEAST} labels, {SCORE_DRAWS:,} draws a cell (a share of .950 "
        f"is seen as .950 +- {1.96 * math.sqrt(0.95 * 0.05 / SCORE_DRAWS):.3f}): tables of {RATE_POOL} contexts (2 "
        f"rows: twice as many), five judges. Coverage: {min(every):.3f} to {max(every):.3f}, mean {np.mean(every):.3f}."
    )
    title = "Coverage (length by that of the interval from labels alone)."
    return f"{about}\n\n{markdown([PlainTable(title, heads, rows)])}"


def _with_scores(
    random: np.random.Generator,
    words: str,
    number: int,
    table: tuple[float, float],
    judge: tuple[str, float],
) -> tuple[bool, float]:
    """Whether the interval holds the share, and its length by that from labels alone; 0 where none is printed."""
    sizes = SIZES.get(words, SIZES["12 rows"])(random, RATE_POOL * (2 if words == "2 rows" else 1))
    good, contexts = labels_of(random, sizes, *table)
    scores = (
        np.sqrt(2) * ndtri(judge[1]) * good + 0.5 * random.standard_normal(len(sizes))[contexts]
    )
    scores += math.sqrt(0.75) * random.standard_normal(len(good))
    scores = np.clip(np.round(1.5 * scores), -3, 5) if "grades" in judge[0] else scores
    seen = contexts < number
    if words not in SIZES:
        seen = np.isin(np.arange(len(good)), random.choice(len(good), number, replace=False))
    plain = share_of_good(good[seen], contexts[seen])
    if plain.low is None or plain.high is None or seen.sum() < LEAST:
        return False, 0.0
    labelled = good[seen], scores[seen], contexts[seen]
    _, low, high = powered_share(*labelled, scores[~seen], contexts[~seen], folds=contexts[seen])
    return _inside(table[0], (low or 0.0, high or 0.0)), ((high or 0.0) - (low or 0.0)) / (
        plain.high - plain.low
    )
