"""How often the gate of `refladder compare --fail-if-worse A` fails, where rows of A, or of both systems, have no score.

python bench/gates.py            # about 2 minutes; writes bench/results/gates.md
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

import refladder
from refladder.statistics.bootstrap import mean_difference

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    FloatArray = NDArray[np.float64]
    Scores = tuple[FloatArray, FloatArray]

DRAWS = 500
HEAD = """# The gate of `refladder compare --fail-if-worse A`

`python bench/gates.py`: {draws} draws a row, two systems A and B that write for the same contexts. A score is the context
plus the system's own noise, both normal with standard deviation 1, and is lost as the row says. Equal systems should
rarely fail, and systems whose worst rows have no score should never pass. A share has a standard error of about .01.
"skip": `--unscored skip`,
which compares the contexts that both score. The conditions are those that the reason names: worse on the contexts that
both score (1), worse if rows without a score count as the lowest score (2), fewer scores or too few contexts (3).

| systems | contexts | rows each | skip fails | gate fails | by 1 | by 2 | by 3 |
|---|--:|--:|--:|--:|--:|--:|--:|
"""
CONDITIONS = ("contexts that both score", "if rows without a score", "")


class Case(NamedTuple):
    """Two systems: how scores of (contexts, rows) are drawn and lost; B may have other `rows`."""

    name: str
    lose: Callable[[Scores, np.random.Generator], Scores]
    contexts: tuple[int, ...] = (30, 100)
    rows: tuple[int, int] = (1, 1)
    gain: float = 0.0
    heavy: bool = False


def at_random(share: float, other: float | None = None) -> Callable[..., Scores]:
    """Lose a share of the rows of A, and of B (None: the same)."""

    def lose(scores: Scores, rng: np.random.Generator) -> Scores:
        shares = (share, share if other is None else other)
        first, second = (
            np.where(rng.random(values.shape) < lost, np.nan, values)
            for values, lost in zip(scores, shares, strict=True)
        )
        return first, second

    return lose


def worst_rows(share: float) -> Callable[..., Scores]:
    """Lose the lowest scores of A."""

    def lose(scores: Scores, _rng: np.random.Generator) -> Scores:
        first, second = scores
        return np.where(first < np.quantile(first, share), np.nan, first), second

    return lose


CASES = (
    Case("equal, nothing lost", at_random(0.0)),
    Case("equal, 5 % lost at random", at_random(0.05)),
    Case("equal, 10 % lost at random", at_random(0.10)),
    Case("equal, 10 % lost, more rows of B", at_random(0.10), rows=(1, 4)),
    Case("equal, 10 % lost, more rows of A", at_random(0.10), rows=(4, 1)),
    Case("equal, 10 % lost, outliers", at_random(0.10), heavy=True),
    Case("equal, only A loses 5 %", at_random(0.05, 0.0)),
    Case("A better by 0.5, its worst 20 % lost", worst_rows(0.2), gain=0.5),
    Case("A worse by 1, its worst 30 % lost", worst_rows(0.3), gain=-1.0),
    Case("A worse by 1, its worst 30 % lost, outliers", worst_rows(0.3), gain=-1.0, heavy=True),
    Case("A worse by 1, its worst 30 % lost, four rows", worst_rows(0.3), rows=(4, 4), gain=-1.0),
    Case("A worse by 1, nothing lost", at_random(0.0), gain=-1.0),
    Case("both lost everything", at_random(1.0), contexts=(30,)),
    Case("both lost 90 %", at_random(0.9), contexts=(30,)),
    Case("equal, too few contexts", at_random(0.0), contexts=(1, 3, 5, 6)),
)


def drawn(case: Case, contexts: int, rng: np.random.Generator) -> list[dict[str, object]]:
    """Draw the rows of both systems."""
    level = rng.normal(size=(contexts, 1))
    noise = [
        rng.standard_t(2, (contexts, rows)) if case.heavy else rng.normal(size=(contexts, rows))
        for rows in case.rows
    ]
    scores = case.lose((level + case.gain + noise[0], level + noise[1]), rng)
    return [
        {
            "context_id": str(context),
            "system": system,
            "q_score": None if np.isnan(value) else float(value),
        }
        for system, values in zip("AB", scores, strict=True)
        for context, row in enumerate(values)
        for value in row
    ]


def main() -> None:
    """Measure every case."""
    started = time.perf_counter()
    # The gate uses no interval, and p-values near .05 need no 10,000 permutations.
    mean_difference.__kwdefaults__ |= {"permutations": 2000, "resamples": 50}
    lines = []
    for case in CASES:
        for contexts in case.contexts:
            rng = np.random.default_rng(contexts)
            skipped, reasons = 0, []
            for _ in range(DRAWS):
                found = refladder.compare(drawn(case, contexts, rng), fail_if_worse="A")
                [pair] = found["pairs"]
                # What `--unscored skip` decides.
                skipped += pair["p"] is not None and pair["p"] < 0.05 and pair["difference"] < 0
                if found["gate"]["worse"]:
                    reasons.append(
                        next(
                            n
                            for n, words in enumerate(CONDITIONS)
                            if words in found["gate"]["reason"]
                        )
                    )
            shares = [skipped, len(reasons), *(reasons.count(number) for number in range(3))]
            rows = " and ".join(map(str, dict.fromkeys(case.rows)))
            cells = [case.name, str(contexts), rows, *(f"{count / DRAWS:.3f}" for count in shares)]
            lines.append(f"| {' | '.join(cells)} |")
            print(lines[-1], flush=True)
    text = HEAD.format(draws=DRAWS) + "\n".join(lines) + "\n"
    text += f"\n({time.perf_counter() - started:.0f} s)\n"
    (Path(__file__).parent / "results" / "gates.md").write_text(text, "utf-8")


if __name__ == "__main__":
    main()
