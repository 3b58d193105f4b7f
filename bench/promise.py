"""How often the promises of `calibrate` hold, and how many rows they keep, on the real benchmarks.

`python bench/promise.py` draws labels 1,000 times with replacement from each pool and judges each cut-off on the whole
pool; the results go to bench/results/promise.md. `python bench/promise.py --speed` measures `calibrate` and
`filter --threshold` at a million rows and ten thousand labels, and prints the figures. `python bench/promise.py
--choices` writes the section on choices anew, `--power` that on power, and `--intervals` the table of intervals. The
section of bench/promise_fooled.py stays.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import promise_fooled
import promise_power
import promise_units
from scipy.special import ndtri

from refladder.backends import connect
from refladder.calibration.good_share import powered_share
from refladder.calibration.promise import Promise
from refladder.calibration.threshold import Candidates, candidates, naive_candidate
from refladder.display.rendering import PlainTable, markdown
from refladder.loaders import load_benchmark
from refladder.methods.contract import MethodSettings
from refladder.methods.method_runs import run_methods
from refladder.methods.surface import MEASURES, surface_measures
from refladder.statistics.agreement import human_means
from refladder.statistics.correlation import area_under_curve
from refladder.statistics.rate import LEAST, wilson

if TYPE_CHECKING:
    from collections.abc import Iterator

    from refladder.arrays import BoolArray, FloatArray, IntArray

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT.parent / "shared" / "data"
RESULTS = ROOT / "bench" / "results" / "promise.md"
# Source, a dimension, and the rating from which an output is good.
POOLS = {
    "summeval": ("summeval/mteb_summeval.test.jsonl.gz", "relevance", 4.3),
    "topicalchat": ("topicalchat_usr/tc_usr_data.json", "understandability", 1.0),
    "hanna": ("hanna", "coherence", 3.0),
    "newsroom": ("newsroom", "relevance", 3.6),
    "webnlg": ("webnlg2017", "semantics", 2.5),
}
LABELS = (30, 60, 150, 300)
ABOVE_BASE = (0.1, 0.2)
DRAWS = 1000
INTERVAL_DRAWS = 300
SURE = 0.9
POWER = "## Power: what could be kept of whole contexts"
CHOICES = "## Choices: the unit, the looks, all rows first"
WITH_INTERVALS = (
    "builtin",
    "length",
    "coverage",
    "simulated, AUC 0.9",
    "simulated, AUC 0.9, hard votes",
)
AREAS = (0.5, 0.7, 0.9, 0.97)
NEARLY_ALL, ROWS = (
    (0.98, 0.985, 0.99),
    2000,
)  # shares of good rows in simulated pools, each of so many rows
INTERVALS = (
    f"Coverage of 95 % intervals in {INTERVAL_DRAWS} draws: mean, least and greatest of the pools"
)


MEASURED = """
import re, sys, time
from refladder.commands.main import run
assert run(sys.argv[1:]) == 0
memory = re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]
print(time.process_time(), memory, file=sys.stderr)
"""


class Pool(NamedTuple):
    """All rows of a benchmark: scores, which are good, ratings, contexts."""

    benchmark: str
    judge: str
    scores: FloatArray
    good: BoolArray
    ratings: FloatArray
    contexts: IntArray
    whole_contexts: bool = False


def pools(name: str) -> Iterator[Pool]:
    """A benchmark with each judge: built-in, surface measures, simulated ones, with and without ties."""
    source, wanted, bar = POOLS[name]
    benchmark = load_benchmark(name, DATA / source)
    dimensions = [each for each in benchmark.dimensions if each.name == wanted]
    (run,) = run_methods(
        ["ladder"], benchmark, dimensions, lambda: connect("builtin"), MethodSettings()
    )
    values, means = run.result.method.scores, human_means(benchmark.ratings)
    outputs = [
        output
        for output in benchmark.outputs
        if (output.id, wanted) in means and values.get((output.id, wanted)) is not None
    ]
    texts = {context.id: context for context in benchmark.contexts}
    codes = {context: number for number, context in enumerate(texts)}
    contexts = np.array([codes[output.context_id] for output in outputs])
    builtin = np.array([values[output.id, wanted] for output in outputs], dtype=np.float64)
    ratings = np.array([means[output.id, wanted] for output in outputs])
    good = ratings >= bar - 1e-9

    def pool(judge: str, scores: FloatArray, *, whole: bool = False) -> Pool:
        return Pool(name, judge, scores, good, ratings, contexts, whole)

    yield pool("builtin", builtin)
    yield pool("builtin, whole contexts labelled", builtin, whole=True)
    surface = np.array(
        [surface_measures(texts[output.context_id], [output.text])[0] for output in outputs]
    )
    for number, measure in enumerate(MEASURES):
        yield pool(measure, surface[:, number])
    generator = np.random.default_rng(7)
    for area in AREAS:
        drawn = generator.normal(size=len(good)) + np.sqrt(2) * ndtri(area) * good
        yield pool(f"simulated, AUC {area:g}", drawn)
        yield pool(f"simulated, AUC {area:g}, hard votes", np.clip(np.round(1.5 * drawn), -3, 5))
    yield pool("constant", np.zeros(len(good)))


def nearly_all_good() -> Iterator[Pool]:
    """Simulated pools of which nearly all rows are good, for the intervals."""
    for area in (0.5, 0.9):
        for share in NEARLY_ALL:
            generator = np.random.default_rng([int(1000 * share), int(100 * area)])
            good = np.arange(ROWS) < share * ROWS
            scores = generator.normal(size=ROWS) + np.sqrt(2) * ndtri(area) * good
            judge = f"{NEARLY_ALL[0]:.1%} to {NEARLY_ALL[-1]:.1%} good, AUC {area:g}"
            yield Pool("simulated", judge, scores, good, good * 1.0, np.arange(ROWS))


def draws(pool: Pool, labels: int, generator: np.random.Generator) -> IntArray:
    """Rows that are labelled, with replacement: shape (DRAWS, labels)."""
    if not pool.whole_contexts:
        return generator.integers(0, len(pool.good), (DRAWS, labels))
    rows = np.split(
        np.argsort(pool.contexts, kind="stable"), np.cumsum(np.bincount(pool.contexts))[:-1]
    )
    rows = [each for each in rows if len(each)]
    return np.array(
        [
            np.concatenate([rows[c] for c in generator.integers(0, len(rows), labels)])[:labels]
            for _ in range(DRAWS)
        ]
    )


class Cell(NamedTuple):
    """Of many draws: how often the promise is broken, and the mean shares kept and refused."""

    broken: float
    kept: float
    refused: float


def counts(path: Candidates, levels: IntArray, chosen: BoolArray) -> IntArray:
    """Count the chosen rows that each candidate keeps; shapes as in `Candidates.counts`."""
    return path.counts(np.where(chosen, levels, len(path.cutoffs)))


def judged(
    pool: Pool, path: Candidates, share: float, chosen: IntArray, *, recall: bool = False
) -> Cell:
    """Judge chosen candidates on the whole pool; a refusal keeps the promise."""
    levels = path.levels(pool.scores)
    good = counts(path, levels, pool.good)
    reached = good / pool.good.sum() if recall else good / path.rows
    picked = np.maximum(chosen, 0)
    made = chosen >= 0
    return Cell(
        broken=float((made & (reached[picked] < share - 1e-12)).mean()),
        kept=float(np.where(made, path.rows[picked] / path.total, 0).mean()),
        refused=float(1 - made.mean()),
    )


def cells(pool: Pool, labels: int, above_base: float) -> dict[str, Cell]:
    """The promises of one cell, by name."""
    generator = np.random.default_rng([labels, int(above_base * 10), len(pool.judge)])
    path = candidates(pool.scores, labels)
    rows = draws(pool, labels, generator)
    levels, good, units = path.levels(pool.scores)[rows], pool.good[rows], pool.contexts[rows]
    share = float(pool.good.mean()) + above_base
    promises = {
        "sure": Promise(kind="precision", share=share, sure=SURE),
        "recall": Promise(kind="recall", share=1 - above_base, sure=SURE),
    }
    found = {
        name: judged(
            pool,
            path,
            promise.share,
            promise.chosen(promise.sums(path, levels, good, units)),
            recall=promise.kind == "recall",
        )
        for name, promise in promises.items()
    }
    naive = naive_candidate(path.counts(levels), counts(path, levels, ~good), share)
    return {**found, "naive": judged(pool, path, share, naive)}


def coverage(pool: Pool, labels: int) -> dict[str, float]:
    """Shares of draws whose intervals hold the share of good rows."""
    generator = np.random.default_rng([labels, 11])
    rows = draws(pool, labels, generator)[:INTERVAL_DRAWS]
    truth, scores = float(pool.good.mean()), pool.scores
    hits: dict[str, list[float]] = {"Wilson": [], "PPI++": []}
    for drawn in rows:
        everywhere = scores[
            generator.integers(0, len(scores), len(scores))
        ]  # rows of which the pool is the population
        good = pool.good[drawn]
        low, high = wilson(int(good.sum()), labels)[1:]
        hits["Wilson"].append(low <= truth <= high)
        rows = np.arange(labels + len(everywhere))  # each a unit of its own
        labelled = good, scores[drawn], rows[:labels]
        _, low, high = powered_share(
            *labelled, everywhere, rows[labels:], folds=pool.contexts[drawn]
        )
        hits["PPI++"].append(low <= truth <= high)
    return {name: float(np.mean(values)) for name, values in hits.items() if values}


def allowance(draws_made: int) -> float:
    """The greatest share of broken promises that chance explains in one of some thousand cells."""
    return (1 - SURE) + 3.5 * float(np.sqrt(SURE * (1 - SURE) / draws_made))


class Drawn(NamedTuple):
    """A cell of the tables: the pool and the numbers that were asked for, and what came of it."""

    pool: Pool
    labels: int
    above: float
    kind: str
    cell: Cell


def drawn_cells(pool: Pool) -> list[Drawn]:
    """All cells of a pool."""
    return [
        Drawn(pool, labels, above, kind, cell)
        for labels in LABELS
        for above in ABOVE_BASE
        for kind, cell in cells(pool, labels, above).items()
    ]


def promise_tables() -> tuple[list[PlainTable], list[str]]:
    """Tables of all cells, and sentences on the worst of each promise."""
    tables: list[PlainTable] = []
    every: list[Drawn] = []
    covered: dict[tuple[str, str, int], list[float]] = {}
    for pool in nearly_all_good():
        _cover(pool, covered)
    for name in POOLS:
        made = list(pools(name))
        of_pools = [drawn_cells(pool) for pool in made]
        every += [drawn for each in of_pools for drawn in each]
        tables += [_cell_table(name, kind, of_pools) for kind in KINDS]
        for pool in made:
            if pool.judge in WITH_INTERVALS:
                _cover(pool, covered)
        print(name, "done", flush=True)
    return [_interval_table(covered), *tables], [_worst(kind, every) for kind in KINDS]


def _cover(pool: Pool, covered: dict[tuple[str, str, int], list[float]]) -> None:
    for labels in LABELS:
        for interval, share in coverage(pool, labels).items():
            covered.setdefault((interval, pool.judge, labels), []).append(share)


def intervals() -> PlainTable:
    """The table of intervals alone."""
    covered: dict[tuple[str, str, int], list[float]] = {}
    for pool in nearly_all_good():
        _cover(pool, covered)
    for name in POOLS:
        for pool in pools(name):
            if pool.judge in WITH_INTERVALS:
                _cover(pool, covered)
    return _interval_table(covered)


def _cell_table(name: str, kind: str, of_pools: list[list[Drawn]]) -> PlainTable:
    rows = []
    for drawn in of_pools:
        pool = drawn[0].pool
        area = area_under_curve(pool.scores, pool.good) or 0.0
        figures = [each.cell for each in drawn if each.kind == kind]
        rows.append(
            [f"{pool.judge} ({area:.2f})"]
            + [f"{cell.broken:.3f} {cell.kept:.2f} {cell.refused:.2f}" for cell in figures]
        )
    heads = [
        "judge (AUC)",
        *(f"n={labels}, +{above:g}" for labels in LABELS for above in ABOVE_BASE),
    ]
    return PlainTable(f"{name}, {KINDS[kind]}", heads, rows)


def _worst(kind: str, every: list[Drawn]) -> str:
    chosen = [drawn for drawn in every if drawn.kind == kind]
    worst = max(chosen, key=lambda drawn: drawn.cell.broken)
    where = f"{worst.pool.benchmark}, {worst.pool.judge}, n={worst.labels}, +{worst.above:g}"
    broken = np.array([drawn.cell.broken for drawn in chosen])
    kept, refused = (
        np.mean([getattr(drawn.cell, name) for drawn in chosen]) for name in ("kept", "refused")
    )
    beyond = int((broken > allowance(DRAWS)).sum())
    return (
        f"- {kind}: {len(chosen)} cells; broken promises at most {broken.max():.3f} of the draws ({where}), mean "
        f"{broken.mean():.3f}; above {allowance(DRAWS):.3f}, which is 1 - sure and Monte Carlo error, in {beyond} "
        f"cells; rows kept {kept:.3f}, refused {refused:.3f}"
    )


KINDS = {
    "sure": "precision, sure 0.9: broken promises, rows kept, refused",
    "recall": "recall of 0.9 (+0.1) and 0.8 (+0.2), sure 0.9: broken promises, rows kept, refused",
    "naive": "a cut-off without a promise: broken promises, rows kept, refused",
}


def _interval_table(covered: dict[tuple[str, str, int], list[float]]) -> PlainTable:
    rows = []
    for interval, judge in dict.fromkeys((interval, judge) for interval, judge, _ in covered):
        cells_of = [covered.get((interval, judge, labels)) for labels in LABELS]
        rows.append(
            [f"{interval}, {judge}"]
            + [
                f"{np.mean(each):.3f} ({min(each):.2f}-{max(each):.2f})" if each else "none"
                for each in cells_of
            ]
        )
    legend = (("PPI++", f"printed from {LEAST} labels on"),)
    return PlainTable(INTERVALS, ["interval", *map(str, LABELS)], rows, legend)


def speed(rows: int = 1_000_000, labels: int = 10_000) -> list[str]:
    """Seconds and memory of `calibrate` and `filter --threshold`, each in a process of its own."""
    generator = np.random.default_rng(0)
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        scored, given, threshold = (
            Path(folder) / name for name in ("scored.jsonl", "labels.csv", "threshold.json")
        )
        quality = generator.normal(size=rows)
        scores = np.round(quality + 0.5 * generator.normal(size=rows), 6).tolist()
        with scored.open("w") as stream:
            for number, score in enumerate(scores):
                row = {
                    "output_id": f"o{number}",
                    "context_id": f"c{number // 4}",
                    "output": f"A text of number {number}.",
                }
                stream.write(
                    json.dumps({**row, "clarity_score": score, "signature": "ladders:x|judge:y"})
                    + "\n"
                )
        chosen = generator.choice(rows, labels, replace=False).tolist()
        given.write_text(
            "output_id,rating\n" + "".join(f"o{n},{3 + round(quality[n])}\n" for n in chosen)
        )
        calibrating = ["calibrate", scored, "--labels", given, "--label", "rating", "--good", ">=3"]
        calibrating += ["--by", "clarity_score", "--precision", "0.9", "--out", threshold, "--json"]
        filtering = [
            "filter",
            scored,
            "--threshold",
            threshold,
            "--out",
            Path(folder) / "kept.jsonl",
        ]
        for arguments in (calibrating, filtering):
            started = time.perf_counter()
            done = subprocess.run(
                [sys.executable, "-c", MEASURED, *map(str, arguments)],
                capture_output=True,
                text=True,
                check=True,
            )
            seconds = time.perf_counter() - started
            processor, memory = done.stderr.splitlines()[-1].split()
            lines.append(
                f"- {arguments[0]}: {seconds:.1f} s ({float(processor):.1f} s of processor), {int(memory) // 1024} MiB "
                f"for {rows:,} rows and {labels:,} labels"
            )
    return lines


def choices() -> list[str]:
    """The part of the results on choices that were simulated."""
    started = time.process_time()
    found = markdown(promise_units.tables())
    seconds = time.process_time() - started
    above, bases = (
        ", ".join(map(str, each)) for each in (promise_units.ABOVE, promise_units.BASES)
    )
    return [
        CHOICES,
        f"`python bench/promise.py --choices`, {seconds:,.0f} s of processor. {DRAWS:,} draws a cell; judges:",
        f"{', '.join(promise_units.JUDGES)}; shares of good rows {bases}; the promised",
        f"precision is {above} above them, sure {SURE:g}. Correlation: of good rows within contexts.",
        *promise_units.WORDS,
        "",
        found,
        "",
    ]


def power() -> list[str]:
    """The part of the results on what a test could keep."""
    started = time.process_time()
    found = markdown(promise_power.power())
    seconds = time.process_time() - started
    return [
        POWER,
        f"`python bench/promise.py --power`, {seconds:,.0f} s of processor.",
        *promise_power.WORDS,
        "",
        found,
        "",
    ]


def main() -> None:
    if "--speed" in sys.argv:
        print("\n".join(speed()))
        return
    if "--choices" in sys.argv:
        before, _, after = RESULTS.read_text("utf-8").partition("## Speed")
        kept = POWER + before.partition(POWER)[2]
        before = before.partition(CHOICES)[0]
        RESULTS.write_text(
            "\n".join([before.rstrip(), "", *choices(), f"{kept}## Speed{after}"]), "utf-8"
        )
        return
    if "--power" in sys.argv:
        before, _, after = RESULTS.read_text("utf-8").partition("## Speed")
        before = before.partition(POWER)[0]
        RESULTS.write_text("\n".join([before.rstrip(), "", *power(), f"## Speed{after}"]), "utf-8")
        return
    if "--intervals" in sys.argv:
        before, _, rest = RESULTS.read_text("utf-8").partition("Coverage of 95 % intervals")
        after = rest.partition(f"\n\n{next(iter(POOLS))}, ")
        RESULTS.write_text("".join([before, markdown([intervals()]).rstrip(), *after[1:]]), "utf-8")
        return
    started = time.perf_counter()
    tables, lines = promise_tables()
    seconds = time.perf_counter() - started
    _, heading, fooled = RESULTS.read_text("utf-8").partition(promise_fooled.SECTION)
    text = "\n".join(
        [
            "# Promises of calibrate",
            "",
            f"`python bench/promise.py`, {seconds:,.0f} s on one core. {DRAWS:,} draws of labels for each cell, with",
            "replacement; every cut-off is judged on the whole pool. A refusal keeps the promise. The promised",
            "precision is the share of good rows in the pool plus 0.1 or 0.2. Hard votes are scores with few values.",
            "",
            *lines,
            "",
            *choices(),
            *power(),
            "## Speed",
            "`python bench/promise.py --speed`, one run:",
            "",
            *speed(),
            "",
            "## Cells",
            "",
            markdown(tables),
            heading + fooled,
        ]
    )
    RESULTS.write_text(text, "utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
