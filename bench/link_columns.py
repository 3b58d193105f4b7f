"""Links between two columns of scores: coverage of their intervals, and decisions that change.

python bench/link_columns.py            # 2 to 4 minutes; writes bench/results/link_columns.md
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from refladder.comparison.column_maps import (
    MAPS,
    best_of,
    changes_at,
    half_width,
    held_out,
    map_of,
    mapped,
)
from refladder.comparison.decisions import deciding_cutoffs
from refladder.comparison.link import LEAST_FOR_MAP, LEAST_FOR_TEXT

if TYPE_CHECKING:
    from numpy.typing import NDArray

    FloatArray = NDArray[np.float64]

DRAWS, OTHERS, POPULATION = 100, 500, 20_000
TEXTS = (10, 20, 50, 100)
HEAD = """# Links between two columns of scores

`python bench/link_columns.py`: {draws} draws a row. Two columns score the same texts, whose quality is normal; the columns
differ as the row says, and each has noise of its own. "map": how often the 95 % interval of the map holds the map of the
same kind that {population:,} texts give, at quantiles .05 to .95 (draws in which a map was made; the scores as they are
have none to estimate). "text": how often the interval of a single text holds its score in the second column, for other
texts; from 20 texts on, and that of the map from 50. Decisions: shares that change, the mean over the cut-offs at the
deciles that decide something, of the texts of the link (held out). A coverage has a standard error of about .015.

| columns | texts | map | text | as they are | after the map | best cut-off |
|---|--:|--:|--:|--:|--:|--:|
"""


def drawn(kind: str, texts: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Draw the scores of texts in both columns."""
    quality, first, second = rng.normal(size=(3, texts))
    if kind == "0 to 100 and a rating":
        return 50 + 20 * quality + 4 * first, 3 + quality + 0.3 * second
    if kind == "shifted by 1.5":
        return quality + 0.4 * first, quality + 1.5 + 0.4 * second
    if kind == "curved":
        return np.exp(quality) + 0.1 * first, quality + 0.3 * second
    if kind == "one scale":
        return quality + 0.4 * first, quality + 0.4 * second
    # Whole ratings by a strict and by a lenient judge.
    ratings = 3 + quality + 0.5 * first, 3.6 + 0.8 * quality + 0.5 * second
    whole = [np.clip(np.round(each), 1, 5) for each in ratings]
    return whole[0], whole[1]


def main() -> None:
    """Measure every kind of columns."""
    started = time.perf_counter()
    lines, of_maps, of_texts = [], [], []
    for kind in ("one scale", "shifted by 1.5", "0 to 100 and a rating", "curved", "whole ratings"):
        for texts in TEXTS:
            rng = np.random.default_rng(texts)
            whole = drawn(kind, POPULATION, rng)
            at = np.quantile(whole[0], np.linspace(0.05, 0.95, 19))
            truths = {name: mapped(name, at, *whole) for name in MAPS}
            in_map, in_text, changed = [], [], []
            for _ in range(DRAWS):
                first, second = drawn(kind, texts, rng)
                values = held_out(first, second)
                residuals = {name: np.abs(each - second) for name, each in values.items()}
                best = best_of(residuals)
                cuts = deciding_cutoffs(second)
                changed.append(
                    np.mean([changes_at(cut, first, second, values[best]) for cut in cuts], axis=0)
                )
                half = half_width(residuals[best])
                if texts < LEAST_FOR_TEXT or half is None:
                    continue
                has_interval = texts >= LEAST_FOR_MAP
                used = map_of(residuals, first, second, np.arange(texts), has_interval=has_interval)
                if best != "identity" and has_interval:
                    least, most = (np.interp(at, used.scores, end) for end in used[2:])
                    in_map.append(np.mean((least <= truths[best]) & (truths[best] <= most)))
                others = drawn(kind, OTHERS, rng)
                wrong = np.abs(np.interp(others[0], used.scores, used.values) - others[1])
                in_text.append(np.mean(wrong <= half))
            coverages = [f"{np.mean(each):.3f}" if each else "-" for each in (in_map, in_text)]
            of_maps += [float(np.mean(in_map))] if in_map else []
            of_texts += [float(np.mean(in_text))] if in_text else []
            shares = [f"{share:.3f}" for share in np.mean(changed, axis=0) / texts]
            lines.append(f"| {' | '.join([kind, str(texts), *coverages, *shares])} |")
            print(lines[-1], flush=True)
    ends = [
        f"{min(each):.3f} to {max(each):.3f}, mean {np.mean(each):.3f}"
        for each in (of_maps, of_texts)
    ]
    text = HEAD.format(draws=DRAWS, population=POPULATION) + "\n".join(lines)
    text += f"\n\nCoverage of a map: {ends[0]}. Of a text: {ends[1]}.\n\n({time.perf_counter() - started:.0f} s)\n"
    (Path(__file__).parent / "results" / "link_columns.md").write_text(text, "utf-8")


if __name__ == "__main__":
    main()
