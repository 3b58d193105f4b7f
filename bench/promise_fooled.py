"""Whole contexts labelled, where a few contexts mislead the judge as a whole: `calibrate` beside `--strict`.

`python bench/promise_fooled.py` writes its section of bench/results/promise.md anew, in about 1 minute.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from refladder.calibration.promise import Promise
from refladder.calibration.threshold import candidates, strictly_precise
from refladder.display.rendering import PlainTable, markdown

RESULTS = Path(__file__).resolve().parent / "results" / "promise.md"
SECTION = "## Contexts that mislead the judge as a whole"
DRAWS, SURE, CONTEXTS = 200, 0.9, 1000
SHAPES = ((12, 12), (20, 12), (40, 12), (40, 40))
FOOLED, PRECISIONS = (0.0, 0.02, 0.06), (0.8, 0.9)


def cell(labelled: int, size: int, fooled: float, precision: float) -> list[str]:
    """Return the shares of broken promises and of rows kept: as by default, and strict."""
    drawn = np.random.default_rng([labelled, size, int(100 * fooled), int(100 * precision)])
    # A good judge: AUC .97 where it is not misled, and half of the rows good.
    good = drawn.random((CONTEXTS, size)) < 0.5
    scores = drawn.normal(size=good.shape) + 2.66 * good
    misled = drawn.random(CONTEXTS) < fooled
    good[misled] = False
    scores[misled] = drawn.normal(size=(int(misled.sum()), size)) + 2.66
    path = candidates(scores.ravel(), labelled * size)
    levels, none = path.levels(scores), len(path.cutoffs)
    true = np.cumsum(np.bincount(levels[good], minlength=none + 1)[:none]) / path.rows
    kept = path.counts(levels)
    bad = path.counts(np.where(good, none, levels))
    most = kept.max(axis=0)
    promise = Promise(kind="precision", share=precision, sure=SURE)
    units = np.repeat(np.arange(labelled), size)
    found = []
    for draw in range(DRAWS):
        chosen = drawn.integers(0, CONTEXTS, labelled)
        sums = promise.sums(path, levels[chosen].ravel(), good[chosen].ravel(), units)
        usual = promise.chosen(sums)
        strict = strictly_precise(
            kept[chosen] * 1.0,
            bad[chosen] * 1.0,
            most,
            precision,
            promise.certainty(1),
            seed=draw,
        )
        found.append([int(usual), strict])
    shown = []
    for picked in np.array(found).T:
        made = picked >= 0
        broken = made & (true[np.maximum(picked, 0)] < precision)
        rows = np.where(made, path.rows[np.maximum(picked, 0)], 0) / path.total
        shown.append(f"{broken.mean():.3f} {rows.mean():.2f}")
    return shown


def main() -> None:
    """Write the section."""
    rows = [
        [
            f"{labelled} x {size}",
            f"{fooled:.0%}",
            f"{precision:g}",
            *cell(labelled, size, fooled, precision),
        ]
        for labelled, size in SHAPES
        for fooled in FOOLED
        for precision in PRECISIONS
    ]
    heads = ["contexts x rows", "misled", "precision", "calibrate", "--strict"]
    table = PlainTable(
        "Share of broken promises (0.1 allowed), and share of rows kept", heads, rows
    )
    text = f"""{SECTION}
`python bench/promise_fooled.py`, {DRAWS} draws a cell. In the contexts that mislead the judge, all rows are bad and score as
good ones do. Elsewhere half of the rows are good, and the AUC is .97. Labels that hold no such context cannot show it, so
`calibrate` does not cover it; `--strict` does.

{markdown([table])}"""
    before, _, after = RESULTS.read_text(encoding="utf-8").partition(f"{SECTION}\n")
    _, following, rest = after.partition("\n## ")
    if not after:
        before += "\n"
    RESULTS.write_text(before + text + (following + rest if following else ""), encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
