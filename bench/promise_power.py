"""What `calibrate` keeps with whole contexts labelled, beside a test that is tuned to each cell.

The tuned test takes rows as units, and its level is such that the promise breaks in exactly 1 - sure of the draws of
the cell. Nobody can use it, because that takes the truth; it says how much could be kept. `bench/promise.py --power`
writes the tables.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from promise_units import SURE, complete, last_of_run, precise, two_starts, whole
from scipy.special import betainc, ndtri, stdtrit

from refladder.calibration.threshold import LEAST_UNITS, candidates, counted, divisor, spread
from refladder.display.rendering import PlainTable

if TYPE_CHECKING:
    from collections.abc import Callable

    from refladder.arrays import FloatArray, IntArray
    from refladder.calibration.threshold import UnitSums

DRAWS, CONTEXTS = 1000, 3000
SHAPES = ("12 rows", "2 rows", "1 or 2 rows", "1 to 60 rows", "3 or 40 rows")
CORRELATIONS, BASES, ABOVE, RECALLS = (
    (0.05, 0.2, 0.5, 0.95),
    (0.6, 0.8, 0.9),
    (0.03, 0.1),
    (0.8, 0.9),
)
DRAWN = (8, 15, 25, 60)
# Area under the curve, and the correlation of the judge's error within contexts.
JUDGES = {
    "AUC 0.6": (0.6, 0.3),
    "AUC 0.75, errors by context": (0.75, 0.9),
    "AUC 0.85": (0.85, 0.3),
    "AUC 0.95": (0.95, 0.1),
    "AUC 0.85, hard votes": (0.85, 0.3),
    "AUC 0.9, fooled by 6 % of the contexts": (0.9, 0.1),
}
ALLOWED = 1 - SURE + 3 * float(np.sqrt(SURE * (1 - SURE) / DRAWS))


class Rows(NamedTuple):
    """For each context of a table how many rows each candidate keeps, and how many of them are bad."""

    kept: FloatArray
    bad: FloatArray


def rows_of(shape: str, alike: float, base: float, judge: str) -> Rows:
    """A table of contexts; good rows of one are alike: their correlation is `alike` (beta-binomial)."""
    place = [991, SHAPES.index(shape), int(100 * alike), int(100 * base), list(JUDGES).index(judge)]
    generator = np.random.default_rng(place)
    sizes = {
        "12 rows": np.full(CONTEXTS, 12),
        "2 rows": np.full(CONTEXTS, 2),
        "1 or 2 rows": 1 + (generator.random(CONTEXTS) < 0.1),
        "1 to 60 rows": np.minimum(generator.geometric(1 / 8, CONTEXTS), 60),
        "3 or 40 rows": np.where(generator.random(CONTEXTS) < 0.15, 40, 3),
    }[shape]
    context = np.repeat(np.arange(CONTEXTS), sizes)
    odds = (1 - alike) / alike
    good = (
        generator.random(len(context))
        < generator.beta(base * odds, (1 - base) * odds, CONTEXTS)[context]
    )
    area, shared = JUDGES[judge]
    noise = np.sqrt(shared) * generator.normal(size=CONTEXTS)[context]
    scores = (
        np.sqrt(2) * ndtri(area) * good
        + noise
        + np.sqrt(1 - shared) * generator.normal(size=len(context))
    )
    if "hard" in judge:
        scores = np.clip(np.round(1.5 * scores), -3, 5)
    if "fooled" in judge:  # all rows of these contexts are bad, and score as high as the best
        fooled = (generator.random(CONTEXTS) < 0.06)[context]
        good &= ~fooled
        scores = np.where(fooled, 2 + 0.7 * generator.normal(size=len(context)), scores)
    path = candidates(scores, 300)
    levels, wide = path.levels(scores), len(path.rows)
    kept, bad = (
        np.bincount((context * wide + levels)[rows], minlength=CONTEXTS * wide)
        .reshape(CONTEXTS, wide)
        .cumsum(axis=1)
        for rows in (np.ones(len(good), np.bool_), ~good)
    )
    return Rows(kept * 1.0, bad * 1.0)


class Found(NamedTuple):
    """Of one cell: the share of broken promises, and of rows kept."""

    broken: float
    kept: float


def judged(table: Rows, chosen: IntArray, share: float, *, recall: bool = False) -> Found:
    """Judge chosen candidates on the whole table; a refusal keeps no row, and with a recall all."""
    kept, good = table.kept.sum(axis=0), (table.kept - table.bad).sum(axis=0)
    reached = good / good[-1] if recall else good / kept
    made, place = chosen >= 0, np.maximum(chosen, 0)
    rows = np.where(made, kept[place] / kept[-1], float(recall))
    return Found(float((made & (reached[place] < share - 1e-12)).mean()), float(rows.mean()))


def tuned(table: Rows, sums: UnitSums, share: float) -> Found:
    """The walk over rows as units, at the greatest level of those tried at which 1 - sure of the promises break."""
    n, b = sums.rows, sums.bad
    p = np.where(n > b, betainc(np.maximum(n - b, 1e-9), b + 1, share), 1)
    least = np.where(n > 0, share**n, 1)
    low, high, best = -6.0, 0.0, Found(0, 0)
    for _ in range(14):
        middle = (low + high) / 2
        found = judged(table, last_of_run(p <= 10**middle, least > 10**middle), share)
        if found.broken <= 1 - SURE:
            low, best = middle, max(best, found, key=lambda each: each.kept)
        else:
            high = middle
    return best


def earlier(sums: UnitSums, share: float) -> IntArray:
    """The test before: 2/G for the correlation, a whole bad label, .8 for the first look and .2 of it for all rows."""
    found = counted(sums)
    n, b, _, squares, *_ = sums
    size = squares / np.maximum(n, 1)
    equal = np.maximum(n[:, -1:] / np.maximum(size[:, -1:], 1), 1)
    effect = 1 + np.maximum(size - 1, 0) * np.minimum(found.alike[:, np.newaxis] + 2 / equal, 1)
    error, freedom = 0.8 * (1 - SURE), np.maximum(equal - 1, 0.5)
    fewer = np.where(
        size[:, -1:] > 1, np.square(ndtri(0.8 * error) / stdtrit(freedom, 0.8 * error)), 1
    )
    effect = np.where((size > 1) & (n < LEAST_UNITS * size), np.inf, effect) / fewer
    return two_starts(n / effect, b / effect, share, error, 0.2)


def all_bad(sums: UnitSums, share: float) -> IntArray:
    """As `calibrate`, but B counts contexts with bad rows of any score, not only those that a candidate keeps."""
    found = counted(sums)
    size = sums.rows_rows / np.maximum(sums.rows, 1)
    effect = divisor(size, found.alike[:, np.newaxis], spread(sums)[:, -1:])
    effect = np.where((size > 1) & (sums.rows < LEAST_UNITS * size), np.inf, effect)
    return precise(found._replace(rows=sums.rows / effect, bad=sums.bad / effect), share)


TESTS: dict[str, Callable[[UnitSums, float], IntArray]] = {
    "earlier test": earlier,
    "B over all rows": all_bad,
    "calibrate": lambda sums, share: precise(counted(sums), share),
}


def power() -> list[PlainTable]:
    """Broken promises, rows kept and efficiency; the first table by contexts, the others by what is varied."""
    cells: list[tuple[dict[str, str], list[Found]]] = []
    recalls: dict[str, list[Found]] = {shape: [] for shape in SHAPES}
    for number, (shape, alike, base) in enumerate(itertools.product(SHAPES, CORRELATIONS, BASES)):
        for judge in (list(JUDGES)[(number + step) % len(JUDGES)] for step in (1, 4)):
            table = rows_of(shape, alike, base, judge)
            good = table.kept - table.bad
            share = float(good[:, -1].sum() / table.kept[:, -1].sum())
            for units in DRAWN:
                drawn = np.random.default_rng([units, number]).integers(0, CONTEXTS, (DRAWS, units))
                sums = whole(table.kept, table.bad, drawn)
                for above in (each for each in ABOVE if share + each < 0.985):
                    wanted = share + above
                    names = {
                        "contexts": f"{units}",
                        "rows of a context": shape,
                        "correlation": f"{alike:g}",
                    }
                    found = [judged(table, test(sums, wanted), wanted) for test in TESTS.values()]
                    cells.append(({**names, "judge": judge}, [tuned(table, sums, wanted), *found]))
                of_good = whole(good[:, -1:] + 0 * good, good[:, -1:] - good, drawn)
                for recall in RECALLS:
                    chosen = complete(counted(of_good), recall)
                    recalls[shape].append(judged(table, chosen, recall, recall=True))
    tables = [
        _table(kind, cells) for kind in ("contexts", "rows of a context", "correlation", "judge")
    ]
    rows = [
        [
            shape,
            f"{len(found)}",
            f"{max(found)[0]:.3f}",
            f"{np.mean([each.kept for each in found]):.3f}",
        ]
        for shape, found in recalls.items()
    ]
    heads = ["rows of a context", "cells", "worst broken", "rows kept (a refusal keeps all)"]
    return [*tables, PlainTable("Recall of 0.8 and 0.9 with whole contexts", heads, rows)]


def _table(kind: str, cells: list[tuple[dict[str, str], list[Found]]]) -> PlainTable:
    groups: dict[str, list[list[Found]]] = {}
    for names, found in cells:
        groups.setdefault(names[kind], []).append(found)
    if kind == "contexts":
        groups["all"] = [found for _, found in cells]
    rows = []
    for name, group in groups.items():
        could, *tests = np.array(group).transpose(1, 2, 0)  # tests, (broken, kept), cells
        words = [
            f"{broken.max():.3f} ({(broken > ALLOWED).sum()}) {kept.mean():.3f} {kept.mean() / could[1].mean():.2f}"
            for broken, kept in tests
        ]
        rows.append([name, f"{len(group)}", f"{could[1].mean():.3f}", *words])
    title = f"Power by {kind}: worst broken (cells above {ALLOWED:.3f}), rows kept, and their share of the tuned test's"
    return PlainTable(title, [kind, "cells", "tuned", *TESTS], rows)


WORDS = (
    f"{DRAWS:,} draws a cell, whole contexts labelled, sure {SURE:g}. The tables were drawn after the test had been",
    "chosen on others. `tuned` takes rows as units, at the level at which the promise breaks in 1 - sure of the draws",
    "of the cell, which takes the truth. `earlier test` adds 2/G to the correlation, and a whole bad label. `B over",
    "all rows` counts the contexts with bad rows of any score; it breaks where some contexts are bad as a whole and",
    "score high. With an AUC of .95, `calibrate` keeps less than the earlier test: hardly a bad row is above the",
    "cut-off, so nothing shows how alike the rows of a context are.",
)
