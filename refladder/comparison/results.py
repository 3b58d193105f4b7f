"""The comparison of systems by their scores, and its tables."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from refladder.display.rendering import PlainTable, number, with_interval
from refladder.display.results import Shown
from refladder.errors import option
from refladder.statistics.bootstrap import LEAST_CONTEXTS


@dataclass(frozen=True, slots=True, kw_only=True)
class WorstCase:
    """The comparison of two systems if each row without a score counts as the low end of the scale.

    A context in which one of them has no row counts as such a row. `p_holm` is corrected over the pairs of the gate's
    system, and None for other pairs; without a gate it is corrected over all pairs.
    """

    difference: float | None
    low: float | None
    high: float | None
    p: float | None
    p_holm: float | None
    unscored_first: int
    unscored_second: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two systems on the contexts that both have: `difference` is the mean of first minus second.

    `win_rate` is the share of contexts in which the first is higher; equal contexts count half.
    """

    first: str
    second: str
    difference: float | None
    low: float | None
    high: float | None
    p: float | None
    p_holm: float | None
    win_rate: float | None
    contexts: int
    worst_case: WorstCase | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """Whether a system is worse than another one or cannot be compared, and the sentence that says why.

    `compared` are the other systems, and `beaten` those of them that are significantly worse than this one.
    """

    system: str
    worse: bool
    reason: str | None
    compared: tuple[str, ...]
    beaten: tuple[str, ...]

    def lines(self) -> list[str]:
        """Return the verdict, and a warning where another system is worse: the wrong one may be tested."""
        lines = [f"gate: failed: {self.reason}"]
        if not self.worse:
            lines = [f"gate: {self.system} is not worse than {', '.join(self.compared)}: passed"]
        for other in self.beaten:
            lines.append(
                f"{other} is significantly worse than {self.system}; the gate tests the system that is named, so if "
                f"{other} is the candidate, give {option('fail-if-worse')} {other}"
            )
        return lines


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """A system: its rows, those without a score, its contexts, and the mean over these of its mean score in each."""

    system: str
    rows: int
    unscored: int
    contexts: int
    mean: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison(Shown):
    """Systems and their pairs, compared by the column `by`."""

    by: str
    systems: tuple[System, ...]
    pairs: tuple[Pair, ...]
    gate: Gate | None

    def summary(self) -> dict[str, Any]:
        """Return the comparison as JSON values."""
        systems, pairs = list(map(asdict, self.systems)), list(map(asdict, self.pairs))
        gate = self.gate and asdict(self.gate)
        if gate:
            gate |= {name: list(gate[name]) for name in ("compared", "beaten")}
        return {"by": self.by, "systems": systems, "pairs": pairs, "gate": gate}

    def records(self) -> list[dict[str, Any]]:
        """Return each pair with its worst case as columns of their own."""
        rows = []
        for pair in map(asdict, self.pairs):
            worst = pair.pop("worst_case") or {}
            rows.append(pair | {f"worst_case_{name}": value for name, value in worst.items()})
        return rows

    def tables(self) -> list[PlainTable]:
        """Return the systems and the pairs as tables."""
        of_systems = []
        for system in self.systems:
            counts = (system.contexts, system.rows, system.unscored)
            numbers = [number(system.mean, 3), *map("{:,}".format, counts)]
            of_systems.append([system.system, *numbers])
        systems = PlainTable(
            caption=f"Systems by {self.by}",
            heads=["system", "mean", "contexts", "rows", "unscored"],
            rows=of_systems,
        )
        of_pairs = []
        for pair in self.pairs:
            row = [
                f"{pair.first} - {pair.second}",
                with_interval(pair.difference, pair.low, pair.high),
                number(pair.p, 4),
                number(pair.p_holm, 4),
                number(pair.win_rate, 3),
                f"{pair.contexts:,}",
            ]
            of_pairs.append(row)
        pairs = PlainTable(
            caption=f"Differences of the means of {self.by}",
            heads=["pair", "difference", "p", "p (Holm)", "win rate", "contexts"],
            rows=of_pairs,
            legend=(
                (
                    "difference",
                    f"mean of first minus second over common contexts; 95 % interval from {LEAST_CONTEXTS} contexts on",
                ),
                ("p", "paired permutation test over contexts; Holm's correction is over the pairs"),
                (
                    "win rate",
                    "share of contexts in which the first is higher; equal ones count half",
                ),
            ),
        )
        return [systems, pairs]
