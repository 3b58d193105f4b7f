"""Write words by level and what surface tells into the cards of benchmark sets: `python bench/sets/words.py NAME ...`."""

from __future__ import annotations

import re
import sys

import numpy as np

from refladder.files.ladder_sets import find_folder, load_ladders
from refladder.ladders.certify import lengths_of
from refladder.statistics.surface import length_deviation, surface_accuracy, surface_counts

TABLE = re.compile(r"^\| (?:level|criterion) \|.*?\n\n", re.MULTILINE | re.DOTALL)


def table_of(name: str) -> str:
    """Return the table of a set: for each criterion, mean words by level and what surface tells of the order."""
    ladders = load_ladders(name)
    levels = range(1, ladders.rungs + 1)
    shown = " | ".join(f"words, level {level}" for level in levels)
    lines = [
        f"| criterion | {shown} | greatest deviation | neighbouring rungs that a rule on 12 counts puts in order |",
        "|---|" + "--:|" * (ladders.rungs + 2),
    ]
    for dimension in ladders.dimensions:
        of_dimension = [
            ladder for ladder in ladders.ladders.values() if ladder.dimension == dimension.name
        ]
        lengths = np.stack([lengths_of(ladder) for ladder in of_dimension])
        counts = [[surface_counts(rung.text) for rung in ladder.rungs] for ladder in of_dimension]
        accuracy = surface_accuracy(np.array(counts, dtype=np.float64))
        cells = " | ".join(f"{count:.0f}" for count in lengths.mean(axis=0))
        ordered = f"{100 * accuracy:.0f} %"
        lines.append(
            f"| {dimension.name} | {cells} | {100 * length_deviation(lengths):.0f} % | {ordered} |"
        )
    return "\n".join(lines) + "\n\n"


def main() -> None:
    """Replace the table of words in each card."""
    for name in sys.argv[1:]:
        card = find_folder(name) / "README.md"
        text = card.read_text("utf-8")
        before, _, after = text.partition(TABLE.findall(text)[0])
        card.write_text(before + table_of(name) + after, "utf-8")


if __name__ == "__main__":
    main()
