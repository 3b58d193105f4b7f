"""Write what the data say into the cards of shipped sets: `python bench/sets/cards.py`; no model is asked.

The card of a general set gets its table, its second reader and its first rungs; that of a benchmark set gets words by level
and what surface tells. Numbers are of the set, of its certificate, of a second reader (bench/readings/certificates-again.jsonl),
and of the texts that were placed on it: bench/readings/placed-*.
"""

from __future__ import annotations

import gzip
import itertools
import json
import re
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import spearmanr

from refladder.files.ladder_sets import find_folder, load_ladders, published_names
from refladder.ladders.certify import lengths_of
from refladder.records import Context, Output
from refladder.scoring.question import ladder_questions
from refladder.statistics.surface import length_deviation, surface_accuracy, surface_counts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from refladder.files.ladder_sets import LadderSet
    from refladder.records import Dimension, Ladder

READINGS = Path(__file__).parent.parent / "readings"
FIRST = 10
# Who answered for a set, each a conversation of its own.
ANEW = "what was written anew had further writers and readers"
READERS = {
    "general/reply": "4 writers, 13 readers for the certificate, 12 for placed texts",
    "general/reply-de": "2 writers, 6 readers for the certificate, 6 for replies in two languages",
    "general/summary": f"4 writers, 12 readers for the certificate, 12 for placed texts; {ANEW}",
    "general/grounded": f"3 writers, 9 readers for the certificate, 9 for placed texts; {ANEW}",
    "general/story": f"4 writers, 12 readers for the certificate, 12 for placed texts; {ANEW}",
    "general/document": f"4 writers, 12 readers for the certificate, 12 for placed texts; {ANEW}",
}
LEVELS = """Level 5 is what a careful person or a good current model writes at its best, and level 4 is what they write on most
days. Level 3 is usable, with a flaw on the criterion. Level 2 falls clearly short, as hurried writers do. Level 1 is a
failure that is really found."""
GRADES = """Grades are medians (lowest to highest) of 24 ordinary and 24 careless texts by writers who saw no rung. They are
places on the rungs, by probabilities that readers state."""
NOBODY = "No ordinary and careless texts are placed on this set yet."
FIGURES = """Steps in order, and the mean probability that the upper rung is better, are those of the certificate. A level of one
anchor beats the level below of another in {0.in_order} of {0.of} comparisons. The rule on 12 counts is linear, trained on the
other anchors, and orders neighbouring rungs."""
LENGTH = """A rule of length alone (characters) distinguishes the best rung from the worst on: {}. Where it is right on nearly
all, the judge check does not show that a judge reads more than length."""
AGAIN = """A third of the requests of these criteria got a second reader, who saw nothing of the first. Differences are
in points of their percentages.

| criterion | rank correlation | mean difference | root mean square | same side of 50 |
|---|--:|--:|--:|--:|"""
HALF = 50
NOT_PLACED = "not placed yet"
KINDS = {"plain": "ordinary", "careless": "careless"}
# Least and greatest median grade of texts of a kind, and the greatest share beyond the ladder, set before any was placed.
GOALS = {"plain": (3.5, 4.6), "careless": (1.8, 3.2)}
MOST_BEYOND = 0.15
MISSED = """Goals that were set before are medians of 3.5 to 4.6 and of 1.8 to 3.2, and at most 15 % of the texts beyond the
ladder. These miss them: {}."""
# A table of a card: it ends at the first empty line.
TABLE = re.compile(r"^\| (?:level|criterion) \|.*?\n\n", re.MULTILINE | re.DOTALL)
# Percentages of a text, by its id: for each scoring anchor those against levels 1 to 5.
Placed = dict[str, list[list[float]]]


def placed_on(opened: LadderSet, dimension: Dimension) -> Placed:
    """Return the readings of the texts that were placed on a criterion, if its ladders are still those that were shown."""
    name = opened.name.removeprefix("general/")
    path = READINGS / f"placed-{name}.jsonl"
    if not path.is_file():
        return {}
    found: dict[tuple[str, str], tuple[str, float]] = {}
    for file in READINGS.glob(f"placed-{name}-*.jsonl.gz"):
        for line in gzip.decompress(file.read_bytes()).splitlines()[1:]:
            judgment = json.loads(line)
            if judgment["dimension"] == dimension.name:
                [percent] = judgment["stated"]
                found[judgment["subject"], judgment["against"]] = judgment["key"], percent
    placed: Placed = {}
    for row in map(json.loads, path.read_text("utf-8").splitlines()):
        context = Context(
            id=row.get("context_id", ""),
            task=opened.task,
            text=row.get("context", ""),
            background=row.get("background", ""),
        )
        output = Output(
            id=row["output_id"], context_id=context.id, system=row["system"], text=row["output"]
        )
        for anchor in opened.scoring_anchors:
            ladder = opened.ladders[anchor, dimension.name]
            asked = ladder_questions(
                output, context, dimension, ladder, orders=1, anchor=opened.contexts[anchor]
            )
            percents = []
            for question in asked:
                comparison = question.comparison
                key, percent = found.get((comparison.subject, comparison.against), ("", 0.0))
                if key != question.key:
                    return {}
                percents.append(percent)
            placed.setdefault(output.id, []).append(percents)
    return placed


def grades_of(placed: Placed, kind: str) -> list[float]:
    """Return the grades of the texts of a kind: 1 plus 4 times the share of the rungs that are beaten."""
    return [
        1 + 4 * float(np.mean(each)) / 100 for name, each in placed.items() if f"/{kind}" in name
    ]


def grades(placed: Placed, kind: str) -> str:
    """Return the median grade of the texts of a kind, with the lowest and the highest."""
    found = grades_of(placed, kind)
    return f"{np.median(found):.2f} ({min(found):.2f} to {max(found):.2f})" if found else NOT_PLACED


def ends(placed: Placed) -> tuple[int, int]:
    """Return how many texts beat the top rung, and how many the lowest rung beats."""
    means = np.array([np.mean(each, axis=0) for each in placed.values()])
    return int(np.sum(means[:, -1] > 50)), int(np.sum(means[:, 0] < 50))


def beyond(placed: Placed) -> str:
    """Return how many texts beat the top rung, and how many the lowest rung beats, in words."""
    return "{} and {} of {}".format(*ends(placed), len(placed)) if placed else NOT_PLACED


def missed(placed: dict[str, Placed]) -> str:
    """Return the goals of placed texts that criteria miss."""
    parts = []
    for name, each in placed.items():
        wrong = []
        for kind, (low, high) in GOALS.items() if each else ():
            median = np.median(grades_of(each, kind))
            if not low <= median <= high:
                wrong.append(f"median of {KINDS[kind]} texts {median:.2f}")
        share = sum(ends(each)) / len(each) if each else 0
        if share > MOST_BEYOND:
            wrong.append(f"{100 * share:.0f} % beyond the ladder")
        if wrong:
            parts.append(f"{name} ({', '.join(wrong)})")
    return "; ".join(parts) or "none"


def ladders_on(opened: LadderSet, dimension: Dimension) -> list[Ladder]:
    """Return the ladders of a criterion."""
    return [each for each in opened.ladders.values() if each.dimension == dimension.name]


def median_words(opened: LadderSet, dimension: Dimension) -> str:
    """Return the median number of words of each level."""
    counts = [
        [len(rung.text.split()) for rung in each.rungs] for each in ladders_on(opened, dimension)
    ]
    return ", ".join(f"{count:g}" for count in np.median(counts, axis=0))


def linear_rule(opened: LadderSet, dimension: Dimension) -> str:
    """Return the neighbouring rungs that a rule on twelve counts puts in order."""
    ladders = ladders_on(opened, dimension)
    counts = [[surface_counts(rung.text) for rung in each.rungs] for each in ladders]
    steps = len(ladders) * (opened.rungs - 1)
    return f"{surface_accuracy(np.array(counts, dtype=np.float64)) * steps:.0f} of {steps}"


def length_rule(opened: LadderSet) -> str:
    """Return on how many ladders of each criterion the best rung is the longer one, or the shorter one if these are more."""
    parts = []
    for dimension in opened.dimensions:
        ends = [
            (len(each.rungs[0].text), len(each.rungs[-1].text))
            for each in ladders_on(opened, dimension)
        ]
        longer, shorter = (
            sum(low < high for low, high in ends),
            sum(low > high for low, high in ends),
        )
        parts.append(f"{dimension.name} {max(longer, shorter)} of {len(ends)}")
    return ", ".join(parts)


def table_of(name: str) -> str:
    """Return what the data say of a general set: a column for each criterion, and lines about the set."""
    opened = load_ladders(name)
    certificate = opened.certificate
    if certificate is None or certificate.sharing is None:
        raise ValueError(f"{name} has no certificate")
    checked = {each.dimension: each for each in certificate.dimensions}
    placed = {each.name: placed_on(opened, each) for each in opened.dimensions}
    rows: dict[str, Callable[[Dimension], str]] = {
        "what it is": lambda each: each.description.partition(". ")[0],
        "level 1 and level 5": lambda each: each.description.partition(". ")[2],
        "median words, levels 1 to 5": lambda each: median_words(opened, each),
        "grade of ordinary texts": lambda each: grades(placed[each.name], "plain"),
        "grade of careless texts": lambda each: grades(placed[each.name], "careless"),
        "above level 5 and below level 1": lambda each: beyond(placed[each.name]),
        "steps in order": lambda each: "{in_order} of {of}".format(**checked[each.name].adjacent),
        "p(upper rung is better), steps 1-2 to 4-5": lambda each: ", ".join(
            f"{step.w:.2f}" for step in checked[each.name].steps
        ),
        "mean words of a level deviate by": lambda each: (
            f"{100 * (checked[each.name].length_deviation or 0):.0f} %"
        ),
        "a rule on 12 counts is right on": lambda each: linear_rule(opened, each),
    }
    shown = [["", *(each.name for each in opened.dimensions)]]
    shown += [[label, *map(cell, opened.dimensions)] for label, cell in rows.items()]
    lines = [f"| {' | '.join(cells)} |" for cells in shown]
    lines.insert(1, f"|{'---|' * len(shown[0])}")
    about = json.loads((find_folder(name) / "set.json").read_bytes())
    words = [len(rung.text.split()) for each in opened.ladders.values() for rung in each.rungs]
    span = f"The rungs have {min(words)} to {max(words)} words."
    figures = FIGURES.format(certificate.sharing)
    who = (
        f"Digest of the ladders, which scores name in their signature: `{opened.digest}`. Version {about['version']}, "
        f"licence {about['licence']}, language {about['language']}. Readers: {READERS[name]}."
    )
    prose = [
        f"{LEVELS} {span} {GRADES if any(placed.values()) else NOBODY} {figures}",
        LENGTH.format(length_rule(opened)),
        who,
    ]
    if any(placed.values()):
        prose.insert(1, MISSED.format(missed(placed)))
    return "\n\n".join(("\n".join(lines), *map(wrapped, prose)))


def wrapped(text: str) -> str:
    """Break a paragraph into lines of a card."""
    return textwrap.fill(" ".join(text.split()), 120, break_on_hyphens=False)


def readings_again(name: str) -> dict[str, np.ndarray]:
    """Return the percentages of the first and of the second reader of a certificate, by criterion."""
    kept = gzip.decompress((find_folder(name) / "certificate.judgments.jsonl.gz").read_bytes())
    first = {}
    for judgment in map(json.loads, kept.splitlines()[1:]):
        key = judgment["dimension"], judgment["subject"], judgment["against"]
        [first[key]] = judgment["stated"]
    found: dict[str, list[tuple[float, float]]] = {}
    path = READINGS / "certificates-again.jsonl"
    for row in map(json.loads, path.read_text("utf-8").splitlines()):
        if row["set"] == name:
            key = row["dimension"], row["subject"], row["against"]
            found.setdefault(row["dimension"], []).append((first[key], row["percent"]))
    return {dimension: np.array(pairs).T for dimension, pairs in found.items()}


def agreement(one: np.ndarray, two: np.ndarray) -> str:
    """Return the cells of a table that say how well two readers agree."""
    apart = np.abs(one - two)
    same = np.sum((one > HALF) == (two > HALF))
    rank = spearmanr(one, two).statistic
    return (
        f"{rank:.3f} | {apart.mean():.1f} | {np.sqrt(np.mean(apart**2)):.1f} | {same} of {len(one)}"
    )


def second_reader(name: str) -> str:
    """Return for each criterion how well a second reader of the certificate's requests agrees with the first."""
    again = readings_again(name)
    if len(again) > 1:
        again["all"] = np.hstack(list(again.values()))
    rows = [f"| {dimension} | {agreement(*pairs)} |" for dimension, pairs in again.items()]
    before, _, head = AGAIN.partition("\n\n")
    return "\n".join((wrapped(before), "", head, *rows)) if rows else ""


def first_rungs(name: str) -> str:
    """Return the first rungs of a set."""
    rungs = (
        f"- {each.context_id}, {each.dimension}, level {rung.level}: {' '.join(rung.text.split())}"
        for each in load_ladders(name).ladders.values()
        for rung in each.rungs
    )
    return "In the order of the file; they were not selected.\n\n" + "\n".join(
        itertools.islice(rungs, FIRST)
    )


def with_section(card: str, heading: str, text: str) -> str:
    """Return a card with another text under a heading."""
    before, mark, after = card.partition(f"\n## {heading}\n")
    if not mark:
        raise ValueError(f"no heading {heading!r} in the card")
    _, end, rest = after.partition("\n## ")
    return f"{before}{mark}{text.rstrip()}\n{end}{rest}"


def words_table(opened: LadderSet) -> str:
    """Return for each criterion of a benchmark set mean words by level, and what surface tells of the order."""
    levels: Sequence[int] = range(1, opened.rungs + 1)
    shown = " | ".join(f"words, level {level}" for level in levels)
    lines = [
        f"| criterion | {shown} | greatest deviation | neighbouring rungs that a rule on 12 counts puts in order |",
        "|---|" + "--:|" * (opened.rungs + 2),
    ]
    for dimension in opened.dimensions:
        ladders = ladders_on(opened, dimension)
        lengths = np.stack([lengths_of(ladder) for ladder in ladders])
        counts = [[surface_counts(rung.text) for rung in ladder.rungs] for ladder in ladders]
        accuracy = surface_accuracy(np.array(counts, dtype=np.float64))
        cells = " | ".join(f"{count:.0f}" for count in lengths.mean(axis=0))
        lines.append(
            f"| {dimension.name} | {cells} | {100 * length_deviation(lengths):.0f} % | {100 * accuracy:.0f} % |"
        )
    return "\n".join(lines) + "\n\n"


def card_of(name: str) -> str:
    """Return the card of a set with what the data say."""
    card = (find_folder(name) / "README.md").read_text("utf-8")
    if name in READERS:
        card = with_section(card, "The set", table_of(name))
        again = second_reader(name)
        card = with_section(card, "The second reader", again) if again else card
        return with_section(card, "The first rungs", first_rungs(name))
    before, _, after = card.partition(TABLE.findall(card)[0])
    return before + words_table(load_ladders(name)) + after


def main() -> None:
    """Write all cards anew."""
    for name in published_names():
        if not name.startswith("demo/"):
            (find_folder(name) / "README.md").write_text(card_of(name), "utf-8")


if __name__ == "__main__":
    main()
