"""The table of a link between two judges."""

from __future__ import annotations

from typing import TYPE_CHECKING

from refladder.report.rendering import PlainTable, number

if TYPE_CHECKING:
    from refladder.records import Link

LEGEND = (
    ("slope, shift", "of the log-odds of a win: second judge = slope * first judge + shift"),
    ("error", "mean absolute error of linked scores, on contexts that were held out"),
    ("unlinked", "the same error of the scores as they are"),
    ("equipercentile", "the same error where scores of equal rank are taken as equal"),
    ("one text", "half of the 95 % interval for the score of a single text"),
)


def link_table(link: Link) -> PlainTable:
    """Each linked column with its line and its errors."""
    heads = ["column", "rows", "contexts", "slope", "shift", "error", "unlinked", "equipercentile", "one text"]
    rows = [
        [
            column.column,
            f"{column.rows:,}",
            f"{column.contexts:,}",
            number(column.slope, 2),
            number(column.shift, 2),
            number(column.error, 2),
            number(column.identity_error, 2),
            number(column.equipercentile_error, 2),
            number(column.half_width, 2),
        ]
        for column in link.columns
    ]
    return PlainTable("", heads, rows, LEGEND)


def link_warnings(link: Link) -> list[str]:
    """A warning about columns for which the link is of no use, or none."""
    worse = [column.column for column in link.columns if column.error >= column.identity_error]
    return [f"No better than unlinked scores on held-out contexts: {', '.join(worse)}."] if worse else []
