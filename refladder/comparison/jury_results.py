"""The result of a jury: its rows, and how each member is in step with the others."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from refladder.display.rendering import DASH, PlainTable, number, table_of
from refladder.display.results import Shown
from refladder.errors import plural

_LEGEND = (
    ("mean", "mean grade of the member"),
    ("shift", "its mean less the jury's, in standard deviations of the jury's grades"),
    (
        "within, pooled",
        "rank correlation with the mean of the others: within contexts, over all texts",
    ),
    ("changed", "decisions of the jury that change without it, at cut-offs that decide something"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A member on one dimension, over the rows that all members graded; see `statistics.jury.InStep`."""

    table: str
    judge: str
    dimension: str
    mean: float | None
    shift: float | None
    within: float | None
    pooled: float | None
    changed: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JuryReport(Shown):
    """Rows of a jury, those with all grades, and its members.

    `fits_least` is the table of the member whose order fits the others least, and `kept` are the columns of the first table
    that the rows have.
    """

    rows: int
    graded: int
    members: tuple[Member, ...]
    fits_least: str | None
    signature: str
    kept: tuple[str, ...]

    def summary(self) -> dict[str, Any]:
        """Return the result as JSON values."""
        values = asdict(self) | {"members": [*map(asdict, self.members)]}
        del values["kept"]
        return values

    def lines(self) -> list[str]:
        """Return the counts, and who is least in step."""
        lacking = self.rows - self.graded
        lines = [f"{plural(self.rows, 'row')}, {lacking:,} without a grade on some criterion"]
        if self.fits_least is not None:
            lines.append(f"least in step with the others: {self.fits_least}")
        return lines

    def member_lines(self) -> list[str]:
        """Return a line for each member and dimension, for a log."""
        return [
            f"{member.dimension}, {member.table} ({member.judge}): mean {number(member.mean, 2)}, shift "
            f"{number(member.shift, 2)}, rank correlation within contexts {number(member.within, 2)}, pooled "
            f"{number(member.pooled, 2)}; decisions that change without it {number(member.changed, 3)}"
            for member in self.members
        ]

    def tables(self) -> list[PlainTable]:
        """Return a table for each dimension."""
        tables = []
        for dimension in dict.fromkeys(member.dimension for member in self.members):
            cells = [
                {
                    "member": member.table,
                    "judge": member.judge,
                    "mean": number(member.mean, 2),
                    "shift": number(member.shift, 2),
                    "within": number(member.within, 2),
                    "pooled": number(member.pooled, 2),
                    "changed": DASH if member.changed is None else f"{member.changed:.1%}",
                }
                for member in self.members
                if member.dimension == dimension
            ]
            tables.append(table_of(f"{dimension}, rows that all members graded", cells, _LEGEND))
        return tables
