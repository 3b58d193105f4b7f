"""Compute the second study on judges of different temperament from its readings; no model is asked.

python bench/apart.py ../shared/data     # a folder with the public releases; writes bench/results/apart.md

In this study no reader read texts and rungs: section 2 of bench/stays/plan.md. The readings are
bench/readings/order1-apart-*.jsonl, and bench/readings/order1-readers.jsonl says which reader read which request.
"""

from __future__ import annotations

import argparse
import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import stays
from stays import changed, changed_at_best, expected_rating, lines_of, shift

import refladder
from refladder.comparison.decisions import deciding_cutoffs
from refladder.scoring.rung_scale import rungs_beaten

if TYPE_CHECKING:
    from stays import Floats

# The readings of the first order of the prompt: section 3 of the plan.
ORDER = "order1-"
RESULTS = Path(__file__).parent / "results" / "apart.md"
ENDS = 1.0, 5.0
RESAMPLES = 10_000
# A bootstrap sample of one text, drawn several times, has no spread but for rounding.
LEAST_SPREAD = 1e-9
# The anchors that place the replies, as in the product; all twelve are rated.
SCORING = 3
# Strict against lenient comes first, then the zero line.
PAIRS = sorted(
    itertools.combinations(stays.JUDGES, 2),
    key=lambda pair: (pair != ("strict", "lenient"), pair != ("neutral1", "neutral2")),
)


class Read(NamedTuple):
    """The ratings of a judge: texts in the order of the sample, and rungs, each with the number of its reader."""

    texts: Floats
    text_readers: Floats
    rungs: Floats
    levels: Floats
    rung_readers: Floats
    rung_ids: list[tuple[str, int]]


def rating_of(row: dict[str, Any]) -> float:
    """Return the expected rating of a reading, NaN where the answer could not be read."""
    return np.nan if row["percent"] is None else expected_rating(row["percent"])


def cells_of(sample: str) -> tuple[list[str], dict[str, Read]]:
    """Return the ids of the texts that every judge could read, and the ratings of each judge."""
    reader = {row["request"]: row["reader"] for row in lines_of(f"{ORDER}readers")}
    of_judges = {judge: lines_of(f"{ORDER}apart-{sample}-{judge}") for judge in stays.JUDGES}
    texts: list[str] = []
    for row in of_judges["neutral1"]:
        if "output_id" in row:
            texts.append(row["output_id"])
    unread = set()
    for rows in of_judges.values():
        unread |= {
            row["output_id"] for row in rows if "output_id" in row and row["percent"] is None
        }
    texts = sorted(set(texts) - unread)
    cells = {}
    for judge, rows in of_judges.items():
        by_id = {row["output_id"]: row for row in rows if "output_id" in row}
        rated = sorted((row for row in rows if "level" in row), key=_rung_of)
        cells[judge] = Read(
            texts=np.array([rating_of(by_id[text]) for text in texts]),
            text_readers=np.array([reader[by_id[text]["request"]] for text in texts]),
            rungs=np.array([rating_of(row) for row in rated]),
            levels=np.array([row["level"] for row in rated]),
            rung_readers=np.array([reader[row["request"]] for row in rated]),
            rung_ids=[_rung_of(row) for row in rated],
        )
    return texts, cells


def _rung_of(row: dict[str, Any]) -> tuple[str, int]:
    return row["context_id"], row["level"]


def by_line(ratings: Floats, rungs: Floats, levels: Floats) -> Floats:
    """Place ratings by the line through the mean ratings of the levels: the rule of the first study.

    Means that do not rise are pooled, ends go on with the nearest slope, and places are clipped to 0 and 5 rungs.
    """
    blocks: list[list[float]] = []
    if len(np.unique(levels)) < 5:
        return np.full(ratings.shape, np.nan)
    for level in range(1, 6):
        blocks.append([float(np.nanmean(rungs[levels == level])), level, 1])
        while len(blocks) > 1 and blocks[-2][0] >= blocks[-1][0]:
            mean, place, size = blocks.pop()
            total = blocks[-1][2] + size
            for number, value in enumerate((mean, place)):
                blocks[-1][number] = (blocks[-1][number] * blocks[-1][2] + value * size) / total
            blocks[-1][2] = total
    if len(blocks) < 2:
        return np.full(ratings.shape, np.nan)
    knots, places = (np.array([block[number] for block in blocks]) for number in (0, 1))
    places = places - 0.5
    beaten = np.interp(ratings, knots, places)
    low, high = np.diff(places)[[0, -1]] / np.diff(knots)[[0, -1]]
    beaten = np.where(ratings < knots[0], places[0] + low * (ratings - knots[0]), beaten)
    beaten = np.where(ratings > knots[-1], places[-1] + high * (ratings - knots[-1]), beaten)
    return np.clip(beaten, 0, 5)


def scoring_rungs(sample: str, cell: Read) -> Floats:
    """Return which rungs place texts: of the replies those of the scoring anchors, else all."""
    if sample != "replies":
        return np.ones(len(cell.rungs), dtype=bool)
    anchors = refladder.load_ladders("general/reply").anchors[:SCORING]
    return np.array([anchor in anchors for anchor, _ in cell.rung_ids])


def ways_of(sample: str, cell: Read, weights: Floats | None = None) -> dict[str, Floats]:
    """Return the numbers of the texts in each way; `weights` says how often each rung counts."""
    used = scoring_rungs(sample, cell)
    counts = used.astype(int) if weights is None else used * weights
    rungs, levels = np.repeat(cell.rungs, counts), np.repeat(cell.levels, counts)
    return {
        "rating": cell.texts,
        "placed": rungs_beaten(cell.texts, rungs, levels.tolist(), ENDS),
        "line": by_line(cell.texts, rungs, levels),
    }


def reader_errors(cells: dict[str, Read]) -> dict[str, tuple[float, float]]:
    """Return for each judge the standard deviation between its readers' mean errors, for texts and for rungs.

    An error is a rating less the mean over the judges of the same text, less the mean of these in the cell.
    """
    errors = {}
    kinds = (("texts", "text_readers"), ("rungs", "rung_readers"))
    for judge, cell in cells.items():
        deviations = []
        for kind, readers_of in kinds:
            mean = np.nanmean([getattr(each, kind) for each in cells.values()], axis=0)
            residuals = getattr(cell, kind) - mean
            residuals = residuals - np.nanmean(residuals)
            readers = getattr(cell, readers_of)
            means = [np.nanmean(residuals[readers == reader]) for reader in np.unique(readers)]
            deviations.append(float(np.std(means, ddof=1)))
        errors[judge] = tuple(deviations)
    return errors


def drawn(sample: str, cells: dict[str, Read], contexts: Floats, draws: int) -> dict[Any, Floats]:
    """Return shifts and changed decisions of bootstrap samples of contexts and readers, by way and pair."""
    random = np.random.default_rng(0)
    names = np.unique(contexts)
    found: dict[Any, list[tuple[float, float]]] = {}
    plain = {judge: ways_of(sample, cell) for judge, cell in cells.items()}
    cuts = {way: deciding_cutoffs(values) for way, values in plain["neutral1"].items()}
    for _ in range(draws):
        chosen = np.bincount(random.integers(len(names), size=len(names)), minlength=len(names))
        of_context = chosen[np.searchsorted(names, contexts)]
        ways, weights = {}, {}
        for judge, cell in cells.items():
            weights[judge] = _redrawn(cell.text_readers, random)
            ways[judge] = ways_of(sample, cell, _redrawn(cell.rung_readers, random))
        for one, other in PAIRS:
            rows = np.repeat(np.arange(len(contexts)), of_context * weights[one] * weights[other])
            for way in ("rating", "placed", "line"):
                first, second = ways[one][way][rows], ways[other][way][rows]
                if (
                    len(rows) < 2
                    or np.isnan(first + second).any()
                    or first.std() + second.std() < LEAST_SPREAD
                ):
                    continue
                pair = shift(first, second), changed(first, second, cuts[way])
                found.setdefault((way, one, other), []).append(pair)
    return {key: np.array(values) for key, values in found.items()}


def _redrawn(readers: Floats, random: np.random.Generator) -> Floats:
    """Return how often each reading counts if the readers of its cell are drawn again."""
    names = np.unique(readers)
    counts = np.bincount(random.integers(len(names), size=len(names)), minlength=len(names))
    return counts[np.searchsorted(names, readers)]


def section(
    sample: str, dimension: str, data: Path, draws: int
) -> tuple[list[str], dict[str, Any]]:
    """Return the tables of a sample as lines, and what the rule of the plan needs."""
    texts, cells = cells_of(sample)
    owner, _ = stays.people_of(sample, dimension, data)
    contexts = np.array([owner[text] for text in texts])
    ways = {judge: ways_of(sample, cell) for judge, cell in cells.items()}
    first_texts, first_cells = stays.cells_of(sample)
    kept = [first_texts.index(text) for text in texts]
    for judge, by_way in ways.items():
        by_way["ladder"] = first_cells["stated", judge].scores[kept]
    samples = stays.resampled(contexts, draws)
    both = drawn(sample, cells, contexts, draws // 5)
    unread = sum(int(np.isnan(cell.rungs).sum()) for cell in cells.values())
    lines = [
        f"## {stays.TITLES[sample]}",
        "",
        f"{len(texts)} texts of {len(set(contexts.tolist()))} contexts; {unread} rungs could not be read.",
        "",
        (
            "| way | judges | shift | over contexts | over contexts and readers | times the zero line | "
            "decisions that change | beyond the best cut-off |"
        ),
        "|---|---|--:|---|---|--:|--:|--:|",
    ]
    facts: dict[str, Any] = {"decisions": {}}
    for way in ("rating", "placed", "line", "ladder"):
        cuts = deciding_cutoffs(ways["neutral1"][way])
        zero = abs(shift(ways["neutral1"][way], ways["neutral2"][way]))
        for one, other in PAIRS:
            first, second = ways[one][way], ways[other][way]
            moved = [shift(first[rows], second[rows]) for rows in samples]
            over = both.get((way, one, other))
            with_readers = "-" if over is None else stays.interval(over[:, 0].tolist())
            share = changed(first, second, cuts)
            facts["decisions"][way, one, other] = share
            facts[way, one, other] = shift(first, second)
            ratio = abs(shift(first, second)) / zero
            lines.append(
                f"| {way} | {one}, {other} | {shift(first, second):.2f} | {stays.interval(moved)} | {with_readers} | "
                f"{ratio:.1f} | {share:.3f} | {changed_at_best(first, second, cuts):.3f} |"
            )
    rating, placed = (both[way, "strict", "lenient"][:, 0] for way in ("rating", "placed"))
    count = min(len(rating), len(placed))
    gain = np.abs(rating[:count]) - np.abs(placed[:count])
    facts["gain"] = np.quantile(gain, [0.025, 0.975])
    lines += [
        "",
        (
            "Strict against lenient, shift of the rating less that of the place, 95 % interval over contexts and readers: "
            f"{stays.interval(gain.tolist())}."
        ),
        "",
        "Standard deviation between the readers of a cell, in rating points (texts, rungs): "
        + "; ".join(
            f"{judge} {texts_:.2f}, {rungs:.2f}"
            for judge, (texts_, rungs) in reader_errors(cells).items()
        )
        + ".",
        "",
    ]
    return lines, facts


def summary(facts: dict[str, dict[str, Any]]) -> list[str]:
    """Return what the plan asks, as a table and sentences."""
    pair = "strict", "lenient"
    lines = [
        "## What the plan asks",
        "",
        "| sample | rating: shift, decisions | placed: shift, decisions | line: shift, decisions | ladder: shift, decisions |",
        "|---|--:|--:|--:|--:|",
    ]
    for sample, found in facts.items():
        cells = [
            f"{found[way, *pair]:.2f}, {found['decisions'][way, *pair]:.3f}"
            for way in ("rating", "placed", "line", "ladder")
        ]
        lines.append(f"| {stays.TITLES[sample]} | {' | '.join(cells)} |")
    more = [
        found["decisions"]["placed", *pair] - found["decisions"]["ladder", *pair]
        for found in facts.values()
    ]
    met = "met" if max(more) <= 0.03 else "not met"
    means = {
        way: [
            np.mean([found["decisions"][way, *each] for each in PAIRS]) for found in facts.values()
        ]
        for way in ("rating", "placed", "line")
    }
    lines += [
        "",
        "Placed less ladder, decisions that change: "
        + ", ".join(f"{each:+.4f}" for each in more)
        + f". The rule of the plan (at most .03 more in all samples) is **{met}**.",
        "",
        "Mean share of decisions over all ten pairs, by sample: "
        + "; ".join(
            f"{way} {', '.join(f'{each:.3f}' for each in shares)}" for way, shares in means.items()
        )
        + ".",
        "",
    ]
    return lines


def main() -> None:
    """Write the page of results."""
    parser = argparse.ArgumentParser(description=__doc__.split(":")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--draws", type=int, default=RESAMPLES)
    given = parser.parse_args()
    readings = lines_of(f"{ORDER}readers")
    head = [
        "# Does the number stay? Readers apart",
        "",
        (
            f"`python bench/apart.py ../shared/data`: {len(readings):,} readings by "
            f"{len({row['reader'] for row in readings})} readers of at most 20 requests; none read texts and rungs of one cell. "
            "Shifts are in standard deviations. Intervals are 95 % percentile intervals of "
            f"{given.draws:,} bootstrap samples of contexts, and of {given.draws // 5:,} of contexts and readers. `line` is the "
            "place of the first study, `ladder` its comparisons with each rung."
        ),
        "",
    ]
    facts, tables = {}, []
    for sample, dimension, file in stays.SAMPLES:
        lines, facts[sample] = section(sample, dimension, given.data / file, given.draws)
        tables += lines
    RESULTS.write_text(
        "\n".join([*head, *summary(facts), *tables]).rstrip("\n") + "\n", encoding="utf-8"
    )
    print(RESULTS)


if __name__ == "__main__":
    main()
