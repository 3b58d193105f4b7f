"""The table of a link between two judges."""

from __future__ import annotations

from typing import TYPE_CHECKING

from refladder.report.rendering import PlainTable, number

if TYPE_CHECKING:
    from refladder.records import Link

LEGEND = (
    ("slope, shift", "of the log-odds of a win: second judge = slope * first judge + shift"),
    ("map", "the map that the link uses: the one with the least error"),
    (
        "line",
        "mean absolute error of scores linked by slope and shift, on contexts that were held out",
    ),
    ("unlinked", "the same error of the scores as they are"),
    ("equipercentile", "the same error where scores of equal rank are taken as equal"),
    ("one text", "half of the 95 % interval for the score of a single text"),
)
_NAMES = {"identity": "unlinked"}


def link_table(link: Link) -> PlainTable:
    """Each linked column with its map, its line and the errors of all maps."""
    heads = [
        "column",
        "rows",
        "contexts",
        "slope",
        "shift",
        "map",
        "line",
        "unlinked",
        "equipercentile",
        "one text",
    ]
    rows = [
        [
            column.column,
            f"{column.rows:,}",
            f"{column.contexts:,}",
            number(column.slope, 2),
            number(column.shift, 2),
            _NAMES.get(column.map, column.map),
            number(column.line_error, 2),
            number(column.identity_error, 2),
            number(column.equipercentile_error, 2),
            number(column.half_width, 2),
        ]
        for column in link.columns
    ]
    return PlainTable("", heads, rows, LEGEND)


def link_warnings(link: Link) -> list[str]:
    """A warning about columns whose scores stay as they are, or none."""
    same = [column.column for column in link.columns if column.map == "identity"]
    return (
        [f"Left as they are, since no map did better on held-out contexts: {', '.join(same)}."]
        if same
        else []
    )
