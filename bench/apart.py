"""Compute the second study on judges of different temperament from its readings; no model is asked.

python bench/apart.py ../shared/data     # 5 to 10 minutes; writes bench/results/apart.md
python bench/apart.py ../shared/data --figure docs/explanation/stays.svg

In this study no reader read texts and rungs: sections 2 and 3 of bench/stays/plan.md. The readings are
bench/readings/apart-*.jsonl and order1-apart-*.jsonl; those of the first study stand beside them.
"""

from __future__ import annotations

import argparse
import itertools
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import stays
from figures import Point, intervals
from judges import LEVELS, on_line
from stays import (
    TITLES,
    changed,
    changed_at_best,
    deciding_cutoffs,
    expected_rating,
    interval,
    moved,
    of_contexts,
    redrawn,
    shift,
)

import refladder
from refladder.scoring.rung_scale import rungs_beaten

if TYPE_CHECKING:
    from stays import Floats

# The files of a sample and a judge, and of who read what.
FIRST_STUDY, FIRST_ORDER, TODAY = "first study", "first order", "today's order"
STUDIES = {
    FIRST_STUDY: ("stays-{}-rating-{}", None),
    FIRST_ORDER: ("order1-apart-{}-{}", "order1-readers"),
    TODAY: ("apart-{}-{}", "readers"),
}
RESULTS = Path(__file__).parent / "results" / "apart.md"
ENDS = 1.0, 5.0
RESAMPLES = 10_000
# The anchors that place the replies, as in the product; all twelve are rated.
SCORING = 3
# The rules of the plan.
MORE, FAR = 0.03, 0.2
WAYS = "rating", "placed", "line"
LABEL_DRAWS = 300
GOOD = {"ordinary or thorough": 2, "thorough": 3}
# Strict against lenient comes first, then the zero line.
EXTREME, ZERO, CROWD = ("strict", "lenient"), ("neutral1", "neutral2"), ("neutral1", "crowd")
PAIRS = sorted(
    itertools.combinations(stays.JUDGES, 2), key=lambda pair: (pair != EXTREME, pair != ZERO)
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


def cells_of(sample: str, study: str) -> tuple[list[str], dict[str, Read]]:
    """Return the ids of the texts that every judge could read, and the ratings of each judge."""
    files, readers = STUDIES[study]
    reader = {row["request"]: row["reader"] for row in stays.lines_of(readers)} if readers else {}
    of_judges = {judge: stays.lines_of(files.format(sample, judge)) for judge in stays.JUDGES}
    read = [
        {row["output_id"] for row in rows if "output_id" in row and row["percent"] is not None}
        for rows in of_judges.values()
    ]
    texts = sorted(set.intersection(*read))
    cells = {}
    for judge, rows in of_judges.items():
        by_id = {row["output_id"]: row for row in rows if "output_id" in row}
        rated = sorted((row for row in rows if "level" in row), key=_rung_of)
        cells[judge] = Read(
            texts=np.array([rating_of(by_id[text]) for text in texts]),
            text_readers=np.array([reader.get(by_id[text].get("request")) or 0 for text in texts]),
            rungs=np.array([rating_of(row) for row in rated]),
            levels=np.array([row["level"] for row in rated]),
            rung_readers=np.array([reader.get(row.get("request")) or 0 for row in rated]),
            rung_ids=[_rung_of(row) for row in rated],
        )
    return texts, cells


def _rung_of(row: dict[str, Any]) -> tuple[str, int]:
    return row["context_id"], row["level"]


def scoring_rungs(sample: str, cell: Read) -> Floats:
    """Return which rungs place texts: of the replies those of the scoring anchors, else all."""
    if sample != "replies":
        return np.ones(len(cell.rungs), dtype=bool)
    anchors = refladder.load_ladders("general/reply").anchors[:SCORING]
    return np.array([anchor in anchors for anchor, _ in cell.rung_ids])


def ways_of(cell: Read, counts: Floats) -> dict[str, Floats]:
    """Return the numbers of the texts in each way; `counts` says how often each rung counts.

    `line` is the place of the first study, on the line through the mean ratings of the levels.
    """
    rungs, levels = np.repeat(cell.rungs, counts), np.repeat(cell.levels, counts)
    means = [np.nanmean(rungs[levels == level]) for level in np.unique(levels)]
    line = on_line(cell.texts, np.array(means)) if len(means) == LEVELS else None
    return {
        "rating": cell.texts,
        "placed": rungs_beaten(cell.texts, rungs, levels.tolist(), ENDS),
        "line": np.full(cell.texts.shape, np.nan) if line is None else line,
    }


class Drawn(NamedTuple):
    """Bootstrap samples of contexts and readers: how often a text counts, and its numbers, shape (draws, texts)."""

    contexts: Floats
    readers: dict[Any, Floats]
    numbers: dict[Any, dict[str, Floats]]

    def moved(self, way: str, one: Any, other: Any, cuts: Floats) -> tuple[Floats, Floats]:
        """Return shift and share of two cells in each sample."""
        weights = self.contexts * self.readers[one] * self.readers[other]
        return moved(self.numbers[one][way], self.numbers[other][way], cuts, weights)


def drawn(cells: dict[Any, Read], used: Floats, contexts: Floats, draws: int) -> Drawn:
    """Draw contexts, and the readers of the texts and of the rungs of each cell, seed 0."""
    random = np.random.default_rng(0)
    chosen, readers, numbers = [], {name: [] for name in cells}, {name: [] for name in cells}
    for _ in range(draws):
        chosen.append(redrawn(contexts, random))
        for name, cell in cells.items():
            readers[name].append(redrawn(cell.text_readers, random))
            numbers[name].append(ways_of(cell, used * redrawn(cell.rung_readers, random)))
    return Drawn(
        np.array(chosen),
        {name: np.array(weights) for name, weights in readers.items()},
        {
            name: {way: np.array([each[way] for each in found]) for way in WAYS}
            for name, found in numbers.items()
        },
    )


class Pair(NamedTuple):
    """Two judges in one way: shift and decisions, and both in the bootstrap samples."""

    shift: float
    decisions: float
    least: float
    over: tuple[Floats, Floats]
    with_readers: tuple[Floats, Floats] | None


class Found(NamedTuple):
    """A sample in one study: its readings, the numbers of each judge and way, and all pairs."""

    texts: list[str]
    contexts: Floats
    people: Floats
    cells: dict[str, Read]
    ways: dict[str, dict[str, Floats]]
    pairs: dict[tuple[str, str, str], Pair]


def measured(
    sample: str, study: str, of_people: tuple[dict[str, str], dict[str, list[float]]], draws: int
) -> Found:
    """Measure all pairs of judges; the ladder is of the first study, which has no readers."""
    texts, cells = cells_of(sample, study)
    owner, ratings = of_people
    contexts = np.array([owner[text] for text in texts])
    people = np.array([round(float(np.mean(ratings[text])), 9) for text in texts])
    used = scoring_rungs(sample, cells["neutral1"])
    first_texts, first = stays.cells_of(sample)
    kept = [first_texts.index(text) for text in texts]
    ways = {
        judge: {
            **ways_of(cell, used.astype(int)),
            "ladder": first["stated", judge].scores[kept],
        }
        for judge, cell in cells.items()
    }
    weights = of_contexts(contexts, draws)
    both = None if study == FIRST_STUDY else drawn(cells, used, contexts, draws // 5)
    pairs = {}
    for way in (*WAYS, "ladder"):
        cuts = deciding_cutoffs(ways["neutral1"][way])
        for one, other in PAIRS:
            values = ways[one][way], ways[other][way]
            readers = both.moved(way, one, other, cuts) if both and way in WAYS else None
            pairs[way, one, other] = Pair(
                shift(*values),
                changed(*values, cuts),
                changed_at_best(*values, cuts),
                moved(*values, cuts, weights),
                readers,
            )
    return Found(texts, contexts, people, cells, ways, pairs)


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


def section(sample: str, study: str, found: Found) -> list[str]:
    """Return the table of all pairs of a sample as lines."""
    unread = sum(int(np.isnan(cell.rungs).sum()) for cell in found.cells.values())
    lines = [
        f"## {TITLES[sample]}, {study}",
        "",
        f"{len(found.texts)} texts of {len(set(found.contexts.tolist()))} contexts; {unread} rungs could not be read.",
        "",
        (
            "| way | judges | shift | over contexts | over contexts and readers | times the zero line | "
            "decisions that change | beyond the best cut-off |"
        ),
        "|---|---|--:|---|---|--:|--:|--:|",
    ]
    for way in (*WAYS, "ladder") if study == TODAY else WAYS:
        zero = abs(found.pairs[way, *ZERO].shift)
        for one, other in PAIRS:
            pair = found.pairs[way, one, other]
            over = "-" if pair.with_readers is None else interval(pair.with_readers[0])
            lines.append(
                f"| {way} | {one}, {other} | {pair.shift:.2f} | {interval(pair.over[0])} | {over} | "
                f"{abs(pair.shift) / zero:.1f} | {pair.decisions:.3f} | {pair.least:.3f} |"
            )
    errors = "; ".join(
        f"{judge} {texts:.2f}, {rungs:.2f}"
        for judge, (texts, rungs) in reader_errors(found.cells).items()
    )
    numbers = {
        (way, judge): stays.Cell(values[way])
        for judge, values in found.ways.items()
        for way in WAYS[:2]
    }
    lines += stays.with_people(numbers, list(WAYS[:2]), found.people, found.contexts)
    return [
        *lines,
        "",
        f"Standard deviation between the readers of a cell, in rating points (texts, rungs): {errors}.",
        "",
    ]


def readings(every: dict[tuple[str, str], Found]) -> list[str]:
    """Return the table of the three sets of readings."""
    lines = [
        "## Three sets of readings",
        "",
        (
            "Shift and decisions that change of strict against lenient, with intervals over contexts; of the two neutral "
            "readings, and of the crowd judge against the first; the mean share of decisions over all ten pairs; and the share "
            "of texts at an end of the scale, lowest to highest of the five judges. The ladder was read in the first study."
        ),
        "",
        (
            "| sample | readings | way | shift | interval | decisions | interval | neutral: shift, decisions | "
            "crowd: shift, decisions | ten pairs | interval | at an end |"
        ),
        "|---|---|---|--:|---|--:|---|---|---|--:|---|---|",
    ]
    for (sample, study), found in every.items():
        for way in (*WAYS, "ladder") if study == FIRST_STUDY else WAYS:
            pair, *others = (found.pairs[way, *each] for each in (EXTREME, ZERO, CROWD))
            short = " | ".join(f"{each.shift:.2f}, {each.decisions:.3f}" for each in others)
            rows = [found.pairs[way, *each] for each in PAIRS]
            mean = np.mean([each.over[1] for each in rows], axis=0)
            ends = "-"
            if way in {"placed", "line"}:
                numbers = [found.ways[judge][way].round(9) for judge in stays.JUDGES]
                shares = [np.isin(each, (0, 1)).mean() for each in numbers]
                ends = f"{min(shares):.2f} to {max(shares):.2f}"
            lines.append(
                f"| {TITLES[sample]} | {study} | {way} | {pair.shift:.2f} | {interval(pair.over[0])} | "
                f"{pair.decisions:.3f} | {interval(pair.over[1], 3)} | {short} | "
                f"{np.mean([each.decisions for each in rows]):.3f} | {interval(mean, 3)} | {ends} |"
            )
    return [*lines, ""]


def rules(every: dict[tuple[str, str], Found]) -> list[str]:
    """Return what the rules of section 2 say of each order, as lines."""
    lines = ["## The rules of the plan", ""]
    for study in (TODAY, FIRST_ORDER):
        more, less, gains = [], [], []
        for sample in TITLES:
            pairs = every[sample, study].pairs
            rating, placed, ladder = (
                pairs[way, *EXTREME] for way in ("rating", "placed", "ladder")
            )
            more.append(placed.decisions - ladder.decisions)
            less.append(
                abs(placed.shift) < abs(rating.shift) and placed.decisions < rating.decisions
            )
            gains.append(abs(rating.with_readers[0]) - abs(placed.with_readers[0]))
        against = not all(less) or sum(np.nanquantile(gain, 0.025) <= 0 for gain in gains) > 1
        lines.append(
            f"- {study.capitalize()}: placed shifts less than the rating and changes fewer decisions in {sum(less)} of "
            f"{len(less)} samples. Shift of the rating less that of the place, interval over contexts and readers: "
            f"{', '.join(map(interval, gains))}. So the result {'counts' if against else 'does not count'} against placing. "
            f"Placed less ladder, decisions that change: {', '.join(f'{each:+.4f}' for each in more)}. The rule (at most "
            f"{MORE:g} more in all samples) is **{'met' if max(more) <= MORE else 'not met'}**."
        )
    return [*lines, ""]


def orders(every: dict[tuple[str, str], Found], draws: int) -> list[str]:
    """Return whether the order of the prompt moves scores, as a table, by the rule of section 3."""
    lines = [
        "## Does the order of the prompt move scores?",
        "",
        (
            "Today's order less the first, the same judge and text. Shift and decisions that change are means over the five "
            "judges, the interval is over contexts and readers. Noise: of the two neutral readings of one order, mean of both "
            "orders, shifts without sign. Spearman: pooled, and within contexts. By the rule of the plan the order moves the "
            f"level if the interval excludes 0, which matters beyond {FAR:g} in size, and changes decisions if these are more "
            f"than the noise by over {MORE:g}."
        ),
        "",
        (
            "| sample | number | shift | interval | by judge | noise | level | decisions | noise | changed | Spearman | "
            "neutral readings |"
        ),
        "|---|---|--:|---|---|--:|---|--:|--:|---|--:|--:|",
    ]
    for sample, title in TITLES.items():
        first, second = (every[sample, study] for study in (FIRST_ORDER, TODAY))
        used = scoring_rungs(sample, first.cells["neutral1"])
        texts = {
            (order, judge): cell
            for order, found in enumerate((first, second))
            for judge, cell in found.cells.items()
        }
        rungs = {
            key: cell._replace(texts=cell.rungs, text_readers=cell.rung_readers)
            for key, cell in texts.items()
        }
        anchors = np.array([anchor for anchor, _ in first.cells["neutral1"].rung_ids])
        for kind, cells, contexts, ways in (
            ("", texts, first.contexts, ("rating", "placed")),
            (" of the rungs", rungs, anchors, ("rating",)),
        ):
            sampled = drawn(cells, used, contexts, draws // 5)
            numbers = {key: ways_of(cell, used.astype(int)) for key, cell in cells.items()}
            for way in ways:
                cuts = [deciding_cutoffs(numbers[order, "neutral1"][way]) for order in (0, 1)]
                pairs = [[numbers[order, judge][way] for order in (0, 1)] for judge in stays.JUDGES]
                zero = [[numbers[order, judge][way] for judge in ZERO] for order in (0, 1)]
                over = [
                    sampled.moved(way, (0, judge), (1, judge), cuts[0])[0] for judge in stays.JUDGES
                ]
                shifts = [shift(*pair) for pair in pairs]
                share = np.mean([changed(*pair, cuts[0]) for pair in pairs])
                noise = np.mean([changed(*pair, cut) for pair, cut in zip(zero, cuts, strict=True)])
                agreed, same = (
                    np.mean([stays.agreement(*pair, contexts)[::-1] for pair in each], axis=0)
                    for each in (pairs, zero)
                )
                low, high = np.nanquantile(np.mean(over, axis=0), [0.025, 0.975])
                level = "moves" if low > 0 or high < 0 else "no"
                if level == "moves" and abs(np.mean(shifts)) > FAR:
                    level = "matters"
                lines.append(
                    f"| {title} | {way}{kind} | {np.mean(shifts):.2f} | [{low:.2f}, {high:.2f}] | "
                    f"{', '.join(f'{each:.2f}' for each in shifts)} | {np.mean([abs(shift(*pair)) for pair in zero]):.2f} | "
                    f"{level} | {share:.3f} | {noise:.3f} | {'yes' if share - noise > MORE else 'no'} | "
                    f"{agreed[0]:.2f}, {agreed[1]:.2f} | {same[0]:.2f}, {same[1]:.2f} |"
                )
    return [*lines, ""]


def cutoffs(found: Found, draws: int) -> list[str]:
    """Return in how many draws of labels of the replies a cut-off exists, as lines."""
    levels = found.people
    lines = [
        "## Cut-offs for the replies",
        "",
        (
            f"Today's order; {draws} draws of {stays.LABELS} of the {len(levels)} replies with their labels: what the writer was "
            f"told to be. Share of draws in which a cut-off has a precision of {stays.PRECISION:g} on the labels, lowest to "
            "highest of the five judges, and in which `calibrate` promises it (first neutral reading, requests as units). "
            "Placed ratings have the order of the plain ones."
        ),
        "",
        "| good means | way | precise on the labels | promised |",
        "|---|---|--:|--:|",
    ]
    random = np.random.default_rng(0)
    kept = [random.permutation(len(levels))[: stays.LABELS] for _ in range(draws)]
    for (name, least), way in itertools.product(GOOD.items(), ("placed", "ladder")):
        good = levels >= least
        numbers = {judge: found.ways[judge][way] for judge in stays.JUDGES}
        precise = [
            np.mean([_precise(scores[rows], good[rows]) for rows in kept])
            for scores in numbers.values()
        ]
        promised = []
        for rows in kept:
            table = [
                {
                    "output_id": found.texts[row],
                    "context_id": found.contexts[row],
                    "grade": float(numbers["neutral1"][row]),
                    "label": int(good[row]),
                }
                for row in rows
            ]
            result = refladder.calibrate(
                table, label="label", good="=1", by="grade", precision=stays.PRECISION
            )
            promised.append(not result.refused)
        lines.append(
            f"| {name} | {way} | {min(precise):.2f} to {max(precise):.2f} | {np.mean(promised):.2f} |"
        )
    return [*lines, ""]


def _precise(scores: Floats, good: Floats) -> bool:
    return any(good[scores >= cut].mean() >= stays.PRECISION for cut in np.unique(scores))


def draw(every: dict[tuple[str, str], Found], path: Path) -> None:
    """Draw the shift between a strict and a lenient judge by way and sample, with intervals, and the zero line."""
    panels: dict[str, dict[str, list[Point]]] = {}
    for sample, title in TITLES.items():
        panels[title] = {"plain rating": [], "placed": [], "ladder": []}
        for name, points in panels[title].items():
            for judges, colour, legend in (
                (EXTREME, "#1f5fa8", "strict to lenient judge"),
                (ZERO, "#8a8a8a", "two neutral readings"),
            ):
                pair = every[sample, TODAY].pairs[name.removeprefix("plain "), *judges]
                low, high = np.nanquantile((pair.with_readers or pair.over)[0], [0.025, 0.975])
                points.append(Point(pair.shift, low, high, colour, legend))
    intervals(path, panels, "shift in standard deviations")


def main() -> None:
    """Write the page of results, and the figure."""
    parser = argparse.ArgumentParser(description=__doc__.split(":")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--figure", type=Path)
    parser.add_argument("--draws", type=int, default=RESAMPLES)
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    every = {}
    for sample, dimension, file in stays.SAMPLES:
        people = stays.people_of(sample, dimension, given.data / file)
        for study in STUDIES:
            every[sample, study] = measured(sample, study, people, given.draws)
    read = stays.lines_of("readers")
    lines = [
        "# Does the number stay? Readers apart",
        "",
        (
            f"`python bench/apart.py ../shared/data`: {len(read):,} readings by "
            f"{len({row['reader'] for row in read})} readers of at most 20 requests in each of two orders of the prompt; "
            "none read texts and rungs of one cell. First order: criterion, scale and steps after the text. Today's order: "
            "scale and steps, then the text, then the criterion. Shifts are in standard deviations. Intervals are 95 % "
            f"percentile intervals of {given.draws:,} bootstrap samples of contexts, and of {given.draws // 5:,} of contexts and "
            "readers. `placed` is by rungs beaten, `line` the place of the first study, `ladder` its comparisons with each "
            "rung. The plan is `bench/stays/plan.md`."
        ),
        "",
        *readings(every),
        *rules(every),
        *orders(every, given.draws),
    ]
    for study in (TODAY, FIRST_ORDER):
        for sample in TITLES:
            lines += section(sample, study, every[sample, study])
    lines += cutoffs(every["replies", TODAY], min(LABEL_DRAWS, given.draws))
    given.out.write_text("\n".join(lines).rstrip("\n") + "\n", encoding="utf-8")
    if given.figure:
        draw(every, given.figure)


if __name__ == "__main__":
    # Each draw of labels without a cut-off would say so. Not in `main`, which a test calls.
    logging.disable(logging.WARNING)
    main()
