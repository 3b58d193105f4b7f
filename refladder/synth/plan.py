"""The order in which the rungs of a ladder are written: the ends first, then bisection. A rung above the top is alone.

Source: arXiv 2509.05440, section 2.1, carried from N = 5 to any N.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from refladder.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One rung to write: its level, the role of its prompt, and the two levels around it (None at an end)."""

    level: int
    role: str
    between: tuple[int, int] | None = None


def plan(rungs: int, *, above: bool = False) -> tuple[tuple[Step, ...], ...]:
    """The bisection order of a ladder: ceil(log2(N - 1)) + 1 waves of independent steps, in rising order of levels.

    Wave 0 is the worst (level 1) and the best (level `rungs`). Each later wave writes the middle level, rounded down,
    between every two neighbours that exist and have a gap. With `above`, only the top is written, from the rung below.
    """
    if rungs < 2:  # noqa: PLR2004  a worst and a best
        raise UsageError(f"a ladder has at least 2 rungs, a worst and a best, found {rungs}")
    if above:
        return ((Step(level=rungs, role="above"),),)
    waves: list[tuple[Step, ...]] = [(Step(level=1, role="worst"), Step(level=rungs, role="best"))]
    levels = [1, rungs]
    while len(levels) < rungs:
        gaps = [(low, high) for low, high in pairwise(levels) if high - low > 1]
        waves.append(tuple(Step(level=sum(gap) // 2, role="between", between=gap) for gap in gaps))
        levels = sorted([*levels, *(step.level for step in waves[-1])])
    return tuple(waves)
