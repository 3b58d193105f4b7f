"""Compute from published ratings how many decisions change between two different models; no model is asked.

python bench/judges.py ../shared/data     # 3 to 6 minutes on one core; writes bench/results/judges.md
python bench/judges.py ../shared/data --figure docs/explanation/judges.svg

Outputs of systems are the rungs: the outputs of five systems, in 16 contexts, are rated as the rungs of a ladder would be.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import itertools
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from figures import drawing
from scipy.stats import rankdata, spearmanr
from stays import changed_at_best

from refladder.comparison.column_maps import best_of, held_out, mapped
from refladder.comparison.decisions import changed_share, deciding_cutoffs
from refladder.comparison.jury_statistics import combined
from refladder.scoring.rung_scale import rungs_beaten

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

HERE = Path(__file__).parent
# Benchmark, file, the column of its groups, the ends of its rating scale, and columns that are no model.
RELEASES = (
    ("HANNA", "hanna", "criterion", (1.0, 5.0)),
    ("GEMBA", "gemba", "pair", (0.0, 100.0)),
    ("WildBench", "wildbench", "set", (1.0, 10.0)),
)
PEOPLE = "people"
# Levels, and contexts whose outputs are rungs, of each draw.
LEVELS, RUNG_CONTEXTS = 5, 16
SHARED = (5, 10, 20, 50)
DRAWS = 30
# The old place of a rating needs this rise of the level means.
LEAST_RISE = 0.5
WAYS = {
    "raw": "as they are",
    **{f"linked {number}": f"linked by {number} texts" for number in SHARED},
    "line": "placed, line",
    "beaten": "placed, rungs beaten",
    "floor": "best cut-off",
}
JURIES = {"raw": "mean rating", "z": "mean of z-scores", "beaten": "mean of placed grades"}
# Rank correlations of two models, from the first number up to the second.
BINS = ((-1.0, 0.3), (0.3, 0.5), (0.5, 0.7), (0.7, 0.85), (0.85, 1.0))


class Group(NamedTuple):
    """Ratings of one criterion or pair of languages, shape (models, contexts, systems), NaN for none.

    The systems are in the order of the means of people, or else of the mean rank over models: from the worst.
    """

    benchmark: str
    name: str
    models: list[str]
    ratings: Floats
    scale: tuple[float, float]


def groups_of(data: Path) -> list[Group]:
    """Read the releases."""
    groups = []
    for benchmark, file, column, scale in RELEASES:
        with gzip.open(data / "judges" / f"{file}.csv.gz", "rt", encoding="utf-8") as stream:
            rows = list(csv.DictReader(stream))
        models = [name for name in rows[0] if name not in {column, "context", "system", PEOPLE}]
        by_group = defaultdict(list)
        for row in rows:
            by_group[row[column]].append(row)
        for name, its in by_group.items():
            contexts, systems = (sorted({row[key] for row in its}) for key in ("context", "system"))
            columns = [*models, PEOPLE] if PEOPLE in its[0] else models
            ratings = np.full((len(columns), len(contexts), len(systems)), np.nan)
            for row in its:
                place = contexts.index(row["context"]), systems.index(row["system"])
                for number, each in enumerate(columns):
                    if row[each]:
                        ratings[(number, *place)] = float(row[each])
            means = np.nanmean(ratings, axis=1)
            quality = means[-1] if PEOPLE in columns else rankdata(means, axis=1).mean(axis=0)
            order = np.argsort(quality, kind="stable")
            groups.append(Group(benchmark, name, models, ratings[: len(models)][..., order], scale))
    return groups


def drawn(group: Group, random: np.random.Generator) -> tuple[Floats, Floats]:
    """Draw rungs, shape (models, levels, rungs), and return the other texts, shape (models, texts)."""
    systems = group.ratings.shape[2]
    levels = np.linspace(0, systems - 1, LEVELS).round().astype(int)
    order = random.permutation(group.ratings.shape[1])
    rungs = group.ratings[:, order[:RUNG_CONTEXTS]][..., levels].swapaxes(1, 2)
    others = np.setdiff1d(np.arange(systems), levels)
    texts = group.ratings[:, order[RUNG_CONTEXTS:]][..., others].reshape(len(group.models), -1)
    return rungs, texts[:, ~np.isnan(texts).any(axis=0)]


def beaten(texts: Floats, rungs: Floats, scale: tuple[float, float]) -> Floats | None:
    """Place ratings by the share of rungs that they beat, as `score` does; None where all rungs are rated alike."""
    known = rungs[~np.isnan(rungs)]
    if known.min() == known.max():
        return None
    levels = np.repeat(np.arange(LEVELS), rungs.shape[1])
    return rungs_beaten(texts, rungs.ravel(), levels.tolist(), scale)


def on_line(texts: Floats, means: Floats) -> Floats | None:
    """Place ratings on the line through the mean ratings of the levels, `means`; None where these rise too little.

    Levels out of order are one, at their means; beyond the ends the nearest step goes on, and is cut.
    """
    if means[-1] - means[0] < LEAST_RISE:
        return None
    pools: list[list[tuple[float, float]]] = []
    for level, mean in enumerate(means):
        pools.append([(mean, level + 0.5)])
        while len(pools) > 1 and np.mean(pools[-2], axis=0)[0] >= np.mean(pools[-1], axis=0)[0]:
            pools[-2:] = [[*pools[-2], *pools[-1]]]
    at, levels = np.array([np.mean(pool, axis=0) for pool in pools]).T
    slopes = np.diff(levels) / np.diff(at)
    step = np.clip(np.searchsorted(at, texts) - 1, 0, len(slopes) - 1)
    places = levels[step] + (texts - at[step]) * slopes[step]
    return np.clip(places, 0, len(means)) / len(means)


def share(first: Floats | None, second: Floats | None) -> float:
    """Return the share of decisions that change, at the cut-offs of the second scores; NaN where there is none."""
    if first is None or second is None:
        return np.nan
    changed = changed_share(first, second)
    return np.nan if changed is None else changed


def of_pair(
    texts: tuple[Floats, Floats],
    lines: tuple[Floats | None, Floats | None],
    places: tuple[Floats | None, Floats | None],
    order: NDArray[np.int64],
) -> list[float]:
    """Return the share of each of `WAYS` for two models; `order` shuffles the texts, and the first are shared."""
    first, second = texts
    cuts = deciding_cutoffs(second)
    if not len(cuts):
        return [np.nan] * len(WAYS)
    linked = []
    for number in SHARED:
        shared, rest = order[:number], order[number:]
        residuals = {
            name: np.abs(values - second[shared])
            for name, values in held_out(first[shared], second[shared]).items()
        }
        values = mapped(best_of(residuals), first[rest], first[shared], second[shared])
        linked.append(changed_share(values, second[rest], cuts) or 0.0)
    return [
        share(first, second),
        *linked,
        share(*lines),
        share(*places),
        changed_at_best(second, first, cuts),
    ]


def of_juries(texts: Floats, places: Sequence[Floats | None]) -> Floats:
    """Return the share of each of `JURIES` where one of three judges is replaced, shape (replacements, ways)."""
    spreads = texts.std(axis=1)
    scores = {
        "raw": list(texts),
        "z": [
            (row - row.mean()) / spread if spread > 0 else None
            for row, spread in zip(texts, spreads, strict=True)
        ],
        "beaten": list(places),
    }
    found = []
    for kept in itertools.combinations(range(len(texts)), 2):
        others = [model for model in range(len(texts)) if model not in kept]
        for one, other in itertools.permutations(others, 2):
            row = []
            for way in JURIES:
                juries = [[scores[way][model] for model in (*kept, each)] for each in (one, other)]
                means = [
                    None if any(each is None for each in jury) else combined(np.array(jury))
                    for jury in juries
                ]
                row.append(share(*means))
            found.append(row)
    return np.array(found).reshape(-1, len(JURIES))


class Found(NamedTuple):
    """What is found for a group: for each pair its rank correlation and shares, shape (draws, ways); and of juries."""

    group: Group
    pairs: dict[tuple[str, str], tuple[float, Floats]]
    juries: Floats


def measured(group: Group, draws: int) -> Found:
    """Measure all pairs of models, in both directions, and all juries."""
    random = np.random.default_rng(0)
    shares: dict[tuple[str, str], list[list[float]]] = defaultdict(list)
    juries = []
    pairs = list(itertools.permutations(range(len(group.models)), 2))
    for _ in range(draws):
        rungs, texts = drawn(group, random)
        order = random.permutation(texts.shape[1])
        both = list(zip(texts, rungs, strict=True))
        lines = [on_line(each, np.nanmean(its, axis=1)) for each, its in both]
        places = [beaten(*each, group.scale) for each in both]
        for one, other in pairs:
            each = [(its[one], its[other]) for its in (texts, lines, places)]
            names = tuple(sorted((group.models[one], group.models[other])))
            shares[names].append(of_pair(*each, order))
        juries.append(of_juries(texts, places))
    found = {}
    for one, other in itertools.combinations(range(len(group.models)), 2):
        names = tuple(sorted((group.models[one], group.models[other])))
        ratings = group.ratings[[one, other]].reshape(2, -1)
        known = ratings[:, ~np.isnan(ratings).any(axis=0)]
        found[names] = float(spearmanr(*known).statistic), np.array(shares[names])
    return Found(group, found, np.concatenate(juries))


def mean(values: Floats) -> float:
    """Return the mean of the values that are known; NaN for none."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else np.nan


def cell(value: float) -> str:
    """Write a share."""
    return "-" if np.isnan(value) else f"{value:.3f}"


def row_of(label: str, pairs: Sequence[tuple[float, Floats]]) -> str:
    """Return a line with the means over pairs of each way."""
    means = [mean(np.array([mean(each[:, way]) for _, each in pairs])) for way in range(len(WAYS))]
    return f"| {label} | {len(pairs)} | {' | '.join(map(cell, means))} |"


def lines_of(found: list[Found], draws: int) -> list[str]:
    """Return the page."""
    heads = " | ".join(WAYS.values())
    every = [each for of in found for each in of.pairs.values()]
    lines = [
        "# Decisions that change between different models",
        "",
        (
            "`python bench/judges.py ../shared/data`, from published ratings of the same texts by several models. Shares are "
            "means over the pairs of models, both directions, and "
            f"{draws} draws (seed 0). A share is the mean over at most nine cut-offs at the deciles of the second model's "
            "scores that pass neither all nor none. Best cut-off: for each of these, the cut-off of the first model that "
            "changes the fewest decisions, chosen on the same texts; what is left is order, which no scale repairs."
        ),
        "",
        (
            f"Outputs of systems are the rungs: {LEVELS} systems, spread over the order of people's means (HANNA) or, where no "
            "people rated, of the mean rank over the models, which uses the judged ratings. Each draw takes their outputs in "
            f"{RUNG_CONTEXTS} contexts as {LEVELS * RUNG_CONTEXTS} rungs; the texts are those of the other systems in the other "
            "contexts. Linked: by texts that both models rated, judged on the rest. Placed, line: the rule of earlier "
            "versions, on the line through the mean ratings of the levels; no place where these rise by less than "
            f"{LEAST_RISE:g}."
        ),
        "",
        f"| ratings | pairs | {heads} |",
        "|---|--:|" + "--:|" * len(WAYS),
    ]
    names = list(dict.fromkeys(of.group.benchmark for of in found))
    by_name = {
        name: [each for of in found if of.group.benchmark == name for each in of.pairs.values()]
        for name in names
    }
    lines += [row_of(name, pairs) for name, pairs in by_name.items()]
    lines += [
        "",
        "Pairs in which fewer decisions change by rungs beaten than by another way, in the draws where both have a place:",
        "",
        "| ratings | than by the line | than as they are | draws without a place on the line |",
        "|---|--:|--:|--:|",
    ]
    ways = list(WAYS)
    for name, pairs in by_name.items():
        cells = []
        for way in ("line", "raw"):
            both = [
                each[:, [ways.index("beaten"), ways.index(way)]][~np.isnan(each).any(axis=1)]
                for _, each in pairs
            ]
            known = [each.mean(axis=0) for each in both if len(each)]
            cells.append(f"{sum(place < other for place, other in known)} of {len(known)}")
        lacking = np.concatenate([np.isnan(each[:, ways.index("line")]) for _, each in pairs])
        lines.append(f"| {name} | {' | '.join(cells)} | {lacking.sum()} of {len(lacking)} |")
    lines += [
        "",
        "## By rank correlation",
        "",
        "Spearman of the two models' ratings over all texts; all benchmarks.",
        "",
        f"| rank correlation | pairs | {heads} |",
        "|---|--:|" + "--:|" * len(WAYS),
    ]
    for low, high in BINS:
        inside = [each for each in every if low <= each[0] < high]
        label = f"under {high:g}" if low < 0 else f"{low:g} to {high:g}"
        if inside:
            lines.append(row_of(label, inside))
    lines += [
        "",
        "## One of three judges replaced",
        "",
        (
            "Juries of three models, one of which is replaced by another: decisions on the jury's number that change. Z-scores "
            "are over the same texts, so they need a common batch; placed grades need none. One judge: a single model "
            "replaced, as they are."
        ),
        "",
        f"| ratings | replacements | one judge | {' | '.join(JURIES.values())} |",
        "|---|--:|--:|" + "--:|" * len(JURIES),
    ]
    for name in names:
        its = [of for of in found if of.group.benchmark == name]
        if not any(len(of.juries) for of in its):
            continue
        juries = np.concatenate([of.juries for of in its])
        means = [mean(column) for column in juries.T]
        one = mean(np.array([mean(each[:, 0]) for _, each in by_name[name]]))
        lines.append(
            f"| {name} | {len(juries) // draws} | {cell(one)} | {' | '.join(map(cell, means))} |"
        )
    lines += [
        "",
        "## All pairs",
        "",
        f"| ratings | models | rank correlation | {heads} |",
        "|---|---|--:|" + "--:|" * len(WAYS),
    ]
    for of in found:
        for (one, other), (rho, each) in sorted(of.pairs.items(), key=lambda pair: -pair[1][0]):
            shares = " | ".join(cell(mean(column)) for column in each.T)
            label = f"{of.group.benchmark}, {of.group.name}"
            lines.append(f"| {label} | {one}, {other} | {rho:.2f} | {shares} |")
    return [*lines, ""]


def draw(found: list[Found], path: Path) -> None:
    """Draw for each pair of models the decisions that change, by their rank correlation."""
    with drawing(path, (5, 3.6)) as (_, (axis,)):
        for way, colour, label in (
            ("raw", "C1", "ratings as they are"),
            ("beaten", "C0", "placed by rungs beaten"),
            ("floor", "0.6", "best cut-off there is"),
        ):
            number = list(WAYS).index(way)
            points = [
                (rho, mean(each[:, number])) for of in found for rho, each in of.pairs.values()
            ]
            axis.scatter(*zip(*points, strict=True), s=18, color=colour, label=label)
        axis.set_xlabel("rank correlation of two models")
        axis.set_ylabel("share of decisions that change")
        axis.set_ylim(bottom=0)
        axis.legend(frameon=False, loc="lower left")


def main() -> None:
    """Write the page of figures, and the figure."""
    parser = argparse.ArgumentParser(description=__doc__.split(";")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--figure", type=Path)
    parser.add_argument("--draws", type=int, default=DRAWS)
    parser.add_argument("--out", type=Path, default=HERE / "results" / "judges.md")
    given = parser.parse_args()
    found = [measured(group, given.draws) for group in groups_of(given.data)]
    given.out.write_text("\n".join(lines_of(found, given.draws)), encoding="utf-8")
    if given.figure:
        draw(found, given.figure)


if __name__ == "__main__":
    main()
