"""Simulations behind three choices of `calibrate`: the unit of a label, the price of a look, and the test of all rows.

`bench/promise.py` runs them and writes the tables. A refusal keeps the promise; rows kept stand beside.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import betainc, betaln, ndtri, stdtrit

from refladder.calibration.threshold import (
    EXACT,
    KEEP_ALL,
    Candidates,
    Counted,
    UnitSums,
    candidates,
    certainty,
    counted,
    surely_complete,
    surely_precise,
    unit_sums,
)
from refladder.display.rendering import PlainTable

if TYPE_CHECKING:
    from collections.abc import Callable

    from refladder.arrays import BoolArray, FloatArray, IntArray

DRAWS, SURE, RECALL, CONTEXTS = 1000, 0.9, 0.8, 3000
SHAPES = ("12 rows", "2 rows", "1 to 60 rows", "3 or 40 rows")
CORRELATIONS, DRAWN, BASES, ABOVE = (0.1, 0.4, 0.8), (5, 8, 25, 60), (0.6, 0.8, 0.9), (0.05, 0.15)
# Area under the curve, and the correlation of the judge's error within contexts; hard votes have few values.
JUDGES = {
    "AUC 0.5": (0.5, 0.3),
    "AUC 0.6": (0.6, 0.3),
    "AUC 0.7, errors by context": (0.7, 0.8),
    "AUC 0.8": (0.8, 0.3),
    "AUC 0.9, hard votes": (0.9, 0.3),
    "AUC 0.97": (0.97, 0.0),
}


class World(NamedTuple):
    """Rows of a simulated table, and for each context how many rows each candidate keeps, and bad ones of them."""

    path: Candidates
    levels: IntArray
    good: BoolArray
    contexts: IntArray
    kept: FloatArray
    bad: FloatArray

    def broken_and_kept(
        self, chosen: IntArray, share: float, *, recall: bool = False
    ) -> tuple[float, float]:
        """Shares of draws that break the promise, and of rows kept (with a recall, a refusal keeps all)."""
        kept, bad = self.kept.sum(axis=0), self.bad.sum(axis=0)
        good = kept - bad
        reached = good / good[-1] if recall else good / kept
        made, place = chosen >= 0, np.maximum(chosen, 0)
        rows = np.where(made, kept[place] / kept[-1], float(recall))
        return float((made & (reached[place] < share - 1e-12)).mean()), float(rows.mean())


def world(shape: str, alike: float, base: float, judge: str, contexts: int = CONTEXTS) -> World:
    """A table of contexts; good rows of one are alike: their correlation is `alike` (beta-binomial)."""
    place = [SHAPES.index(shape), int(100 * alike), int(100 * base), list(JUDGES).index(judge)]
    generator = np.random.default_rng(place)
    sizes = {
        "12 rows": np.full(contexts, 12),
        "2 rows": np.full(contexts, 2),
        "1 to 60 rows": np.minimum(generator.geometric(1 / 8, contexts), 60),
        "3 or 40 rows": np.where(generator.random(contexts) < 0.15, 40, 3),
    }[shape]
    context = np.repeat(np.arange(contexts), sizes)
    odds = (1 - alike) / alike
    good = (
        generator.random(len(context))
        < generator.beta(base * odds, (1 - base) * odds, contexts)[context]
    )
    area, shared = JUDGES[judge]
    noise = np.sqrt(shared) * generator.normal(size=contexts)[context]
    scores = (
        np.sqrt(2) * ndtri(area) * good
        + noise
        + np.sqrt(1 - shared) * generator.normal(size=len(context))
    )
    if "hard" in judge:
        scores = np.clip(np.round(1.5 * scores), -3, 5)
    path = candidates(scores, 300)
    levels, wide = path.levels(scores), len(path.rows)
    kept, bad = (
        np.bincount((context * wide + levels)[rows], minlength=contexts * wide)
        .reshape(contexts, wide)
        .cumsum(axis=1)
        for rows in (np.ones(len(good), np.bool_), ~good)
    )
    return World(path, levels, good, context, kept * 1.0, bad * 1.0)


def whole(rows: FloatArray, bad: FloatArray, drawn: IntArray) -> UnitSums:
    """Sums over whole contexts that are drawn; shape (draws, candidates)."""
    n, b = rows[drawn], bad[drawn]
    return UnitSums(*(part.sum(axis=1) for part in (n, b, n > 0, n * n, n * b, b * b)))


def rows_alone(sums: UnitSums) -> Counted:
    """Rows of a context as if they had been drawn one by one."""
    return Counted(sums.rows, sums.bad, EXACT, np.zeros(len(sums.rows)))


def last_of_run(passed: BoolArray, skipped: BoolArray) -> IntArray:
    """The last candidate before the first that fails, -1 for none."""
    run = np.logical_and.accumulate(passed | skipped, axis=-1) & ~skipped
    last = run.shape[-1] - 1 - run[..., ::-1].argmax(axis=-1)
    return np.where(run.any(axis=-1), last, -1)


def two_starts(
    rows: FloatArray, bad: FloatArray, share: float, error: float, part: float
) -> IntArray:
    """The exact tests: all rows with a part of the error (0: no such test), then a walk with the rest of it."""
    p = np.where(rows > 0, betainc(np.maximum(rows - bad, 1e-9), bad + 1, share), 1)
    walked = last_of_run(
        p <= error * (1 - part) + 1e-12, rows < np.log(error * (1 - part)) / np.log(share) - 1e-9
    )
    return np.where((p[:, -1] <= error * part) & (part > 0), rows.shape[-1] - 1, walked)


def cluster_robust(sums: UnitSums, share: float) -> IntArray:
    """A t test with the residuals of the contexts that a candidate keeps, one bad row added; a walk, all rows first."""
    n, units = np.maximum(sums.rows, 1), np.maximum(sums.units, 2)
    ratio, bad = sums.bad / n, (sums.bad + 1) / (n + 1)
    residual = np.maximum(sums.bad_bad - 2 * ratio * sums.rows_bad + ratio**2 * sums.rows_rows, 0)
    error = np.sqrt(np.maximum(residual * units / (units - 1) / n**2, bad * (1 - bad) / n))
    spent = 1 - certainty(SURE, 1)
    walk, first = (
        bad - stdtrit(units - 1, part * spent) * error <= 1 - share
        for part in (1 - KEEP_ALL, KEEP_ALL)
    )
    skipped = (sums.units < 5) | (
        sums.rows < math.ceil(math.log((1 - KEEP_ALL) * spent) / math.log(share))
    )
    return np.where((first & ~skipped)[:, -1], n.shape[-1] - 1, last_of_run(walk, skipped))


def one_row(made: World, drawn: IntArray, generator: np.random.Generator) -> Counted:
    """One row of each drawn context."""
    sizes = made.kept[:, -1].astype(int)[drawn]
    rows = np.searchsorted(made.contexts, drawn) + (generator.random(drawn.shape) * sizes).astype(
        int
    )
    levels, bad = (
        made.levels[rows],
        np.where(made.good[rows], len(made.path.rows), made.levels[rows]),
    )
    return Counted(made.path.counts(levels), made.path.counts(bad), EXACT, np.zeros(len(rows)))


TESTS: dict[str, Callable[[World, UnitSums, IntArray, float], IntArray]] = {
    "rows as units": lambda _, sums, __, share: two_starts(sums.rows, sums.bad, share, 1 - SURE, 0),
    "cluster-robust t": lambda _, sums, __, share: cluster_robust(sums, share),
    "one row each": lambda made, _, drawn, share: precise(
        one_row(made, drawn, np.random.default_rng(5)), share
    ),
    "counted": lambda _, sums, __, share: precise(counted(sums), share),
}


def precise(labels: Counted, share: float) -> IntArray:
    """What `calibrate` promises at the first look."""
    return surely_precise(labels.rows, labels.bad, share, certainty(SURE, 1), labels.allow)


def complete(labels: Counted, share: float) -> IntArray:
    """The same for a recall; `labels` are good rows, and the bad ones of them those that are not kept."""
    return surely_complete(labels.bad, labels.rows, share, certainty(SURE, 1), labels.allow)


class Found(NamedTuple):
    """Of one cell and test: the share of broken promises and of rows kept."""

    broken: float
    kept: float


def whole_contexts() -> list[PlainTable]:
    """Precision with whole contexts labelled: the worst cell and the mean of rows kept, by shape and correlation."""
    found: dict[tuple[str, float, int], dict[str, list[Found]]] = {}
    recalls: dict[int, dict[str, list[Found]]] = {}
    for shape, alike, base, judge in itertools.product(SHAPES, CORRELATIONS, BASES, JUDGES):
        made = world(shape, alike, base, judge)
        good, kept_good = (
            made.kept - made.bad,
            made.kept[:, -1:] - made.bad[:, -1:] + np.zeros_like(made.kept),
        )
        base_rate = float(made.good.mean())
        for units in DRAWN:
            drawn = np.random.default_rng(units).integers(0, CONTEXTS, (DRAWS, units))
            sums, of_good = (
                whole(made.kept, made.bad, drawn),
                whole(kept_good, kept_good - good, drawn),
            )
            cell = found.setdefault((shape, alike, units), {name: [] for name in TESTS})
            for share in (base_rate + above for above in ABOVE if base_rate + above < 0.985):
                for name, test in TESTS.items():
                    cell[name].append(
                        Found(*made.broken_and_kept(test(made, sums, drawn, share), share))
                    )
            for name, labels in (
                ("rows as units", rows_alone(of_good)),
                ("counted", counted(of_good)),
            ):
                of_cell = Found(
                    *made.broken_and_kept(complete(labels, RECALL), RECALL, recall=True)
                )
                recalls.setdefault(units, {}).setdefault(name, []).append(of_cell)
    title = "Whole contexts labelled: worst share of broken promises, and mean share of rows kept"
    rows = [[*map(str, key), *map(_words, cell.values())] for key, cell in found.items()]
    total = {name: [one for cell in found.values() for one in cell[name]] for name in TESTS}
    rows.append(["all", "", "", *map(_words, total.values())])
    more = [[str(units), *map(_words, cell.values())] for units, cell in recalls.items()]
    return [
        PlainTable(title, ["rows of a context", "correlation", "contexts", *TESTS], rows),
        PlainTable(
            f"Whole contexts: recall of {RECALL:g} (broken, rows kept; a refusal keeps all)",
            ["contexts", *list(TESTS)[::3]],
            more,
        ),
    ]


def _words(cells: list[Found]) -> str:
    return f"{max(cell.broken for cell in cells):.3f} {np.mean([cell.kept for cell in cells]):.3f}"


def random_rows() -> PlainTable:
    """The same for rows that are drawn one by one, of few or many contexts."""
    rows = []
    for shape, alike, contexts in itertools.product(
        (SHAPES[0], SHAPES[3]), (0.1, 0.8), (60, CONTEXTS)
    ):
        for labels in (60, 300):
            found: dict[str, list[Found]] = {"rows as units": [], "counted": []}
            for judge in list(JUDGES)[::2]:
                made = world(shape, alike, 0.6, judge, contexts)
                drawn = np.random.default_rng(labels).integers(0, len(made.good), (DRAWS, labels))
                levels, none = made.levels[drawn], len(made.path.rows)
                sums = unit_sums(
                    levels, np.where(made.good[drawn], none, levels), made.contexts[drawn], none
                )
                for share in (float(made.good.mean()) + above for above in ABOVE):
                    for name, worth in (
                        ("rows as units", rows_alone(sums)),
                        ("counted", counted(sums)),
                    ):
                        found[name].append(
                            Found(*made.broken_and_kept(precise(worth, share), share))
                        )
            rows.append(
                [shape, f"{alike:g}", f"{contexts:,}", f"{labels:,}", *map(_words, found.values())]
            )
    heads = ["rows of a context", "correlation", "contexts", "labels", "rows as units", "counted"]
    return PlainTable(
        "Random rows labelled: worst share of broken promises, and mean of rows kept", heads, rows
    )


LOOKS = {
    "every look has all": lambda _: 1.0,
    "half at each look": lambda look: 0.5**look,
    "0.9, then halves": lambda look: 1 - certainty(0.0, look),
    "0.8, then halves": lambda look: 0.8 if look == 1 else 0.2 * 0.5 ** (look - 1),
    "0.8, then 1 / (j (j + 1))": lambda look: 0.8 if look == 1 else 0.2 / (look * (look - 1)),
    "0.6, then halves": lambda look: 0.6 if look == 1 else 0.4 * 0.5 ** (look - 1),
}
CASES = {  # base rate, AUC, precision
    "none": (0.88, 0.5, 0.9),
    "middle": (0.7, 0.75, 0.8),
    "sharp": (0.6, 0.9, 0.8),
    "none, .8": (0.8, 0.5, 0.82),
    "none, .6": (0.6, 0.5, 0.65),
}


def mixture(rows: FloatArray, bad: FloatArray, share: float, error: float) -> IntArray:
    """A walk with an e-value for each candidate: a bet on each share of bad rows below the promised one, mixed."""

    def value(wrong: FloatArray) -> FloatArray:
        mixed = betaln(wrong + 1, rows - wrong + 1) + np.log(
            betainc(wrong + 1, rows - wrong + 1, 1 - share) + 1e-300
        )
        return mixed - (wrong + 1) * np.log(1 - share) - (rows - wrong) * np.log(share)

    return last_of_run(value(bad) >= -np.log(error), value(0 * bad) < -np.log(error))


def looks() -> PlainTable:
    """Up to 8 looks of 100 + 50 labels each until something is promised."""
    rows = []
    for name, (base, area, share) in CASES.items():
        generator = np.random.default_rng(8)
        good = np.arange(CONTEXTS) < base * CONTEXTS
        scores = np.sqrt(2) * ndtri(area) * good + generator.normal(size=len(good))
        path = candidates(scores, 300)
        levels, none = path.levels(scores), len(path.rows)
        of_all, of_bad = path.counts(levels), path.counts(np.where(good, none, levels))
        drawn = generator.integers(0, len(good), (DRAWS, 450))
        above, bad = levels[drawn], np.where(good[drawn], none, levels[drawn])
        cells = []
        for spending in [*LOOKS.values(), None]:
            chosen, ends = np.full(DRAWS, -1), []
            for look in range(1, 9):
                n, b = (path.counts(first[:, : 50 + 50 * look]) * 1.0 for first in (above, bad))
                new = (
                    mixture(n, b, share, 1 - SURE)
                    if spending is None
                    else two_starts(n, b, share, (1 - SURE) * spending(look), KEEP_ALL)
                )
                chosen = np.where(chosen < 0, new, chosen)
                ends.append(chosen)
            at = []
            for end in (ends[0], ends[-1]):
                made = end >= 0
                at.append(f"{(made & (1 - of_bad[end] / of_all[end] < share - 1e-12)).mean():.3f}")
                at.append(f"{np.where(made, of_all[end] / len(good), 0).mean():.2f}")
            cells.append(" ".join(at))
        rows.append([f"{name} (base {base:g}, q {share:g})", *cells])
    heads = ["judge", *LOOKS, "mixture e-value"]
    return PlainTable(
        "Up to 8 looks: broken and kept at the first look, broken and kept at the end", heads, rows
    )


def all_rows_first() -> PlainTable:
    """What the test of all rows gives and costs, with part of the error of the first look."""
    found: dict[tuple[float, float], list[Found]] = {}
    parts = (0, 0.1, 0.2, 0.3, 0.5)
    for base, judge in itertools.product(BASES, JUDGES):
        made = world(SHAPES[0], 0.1, base, judge)
        for labels in (60, 150, 300):
            drawn = np.random.default_rng(labels).integers(0, len(made.good), (DRAWS, labels))
            levels = made.levels[drawn]
            n, b = (
                made.path.counts(first) * 1.0
                for first in (levels, np.where(made.good[drawn], len(made.path.rows), levels))
            )
            for above, part in itertools.product((-0.1, -0.05, 0.05, 0.15), parts):
                share = float(made.good.mean()) + above
                if share < 0.985:
                    chosen = two_starts(n, b, share, 1 - certainty(SURE, 1), part)
                    found.setdefault((above, part), []).append(
                        Found(*made.broken_and_kept(chosen, share))
                    )
    rows = [
        [f"{above:+g}", *(_words(found[above, part]) for part in parts)]
        for above in dict.fromkeys(a for a, _ in found)
    ]
    heads = ["promise - base", *(f"part {part:g}" for part in parts)]
    return PlainTable(
        "All rows tested first, random rows: worst share of broken promises, rows kept", heads, rows
    )


def tables() -> list[PlainTable]:
    """Every table."""
    return [*whole_contexts(), random_rows(), looks(), all_rows_first()]


WORDS = (
    "",
    "`counted` is what `calibrate` does: labels count less by 1 + (m - 1)(c + 6 / (1 + B)^2), see",
    "refladder/calibration/threshold.py, and nothing is promised from less than 5 contexts. `rows as units` is the test of",
    "rows with the whole error; the others are at the first look (0.9 of it), with all rows tested first (a tenth of",
    "that). Each cell: the worst share of broken promises, and the mean share of rows kept, where a refusal keeps",
    "none.",
)
