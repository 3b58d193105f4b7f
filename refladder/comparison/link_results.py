"""A link as its command shows it."""

from __future__ import annotations

from refladder.display.rendering import PlainTable, number, table_of
from refladder.display.results import ShownRecord
from refladder.records import Link

LINK_LEGEND = (
    ("slope, shift", "of the line: to = slope * from + shift"),
    (
        "map",
        "the map that the link uses: the one with the least error, unlinked if none is clearly better",
    ),
    ("unlinked", "mean absolute error of the scores as they are"),
    ("by shift", "the same error with equal means, of texts that were held out"),
    ("line", "the same error with equal means and standard deviations"),
    ("equipercentile", "the same error where scores of equal rank are taken as equal"),
    ("one text", "half of the 95 % interval for the score of a single text, from 20 texts on"),
)
_NAMES = {"identity": "unlinked"}


class ShownLink(ShownRecord, Link):
    """A link that is shown as the table of its command."""

    __slots__ = ()

    def lines(self) -> list[str]:
        """Return the decisions that change, and a warning about columns whose scores stay unchanged."""
        return [*decision_lines(self), *link_warnings(self)]

    def tables(self) -> list[PlainTable]:
        """Return the table of its columns."""
        return [link_table(self)]


def link_table(link: Link) -> PlainTable:
    """Show each linked column with its map, its line and the errors of all maps."""
    names = [(column.column, column.to_column) for column in link.columns]
    rows = [
        {
            **({} if len(names) == 1 else {"column": column.column}),
            "texts": f"{column.rows:,}",
            "slope": number(column.slope, 2),
            "shift": number(column.shift, 2),
            "map": _NAMES.get(column.map, column.map),
            "unlinked": number(column.identity_error, 2),
            "by shift": number(column.shift_error, 2),
            "line": number(column.line_error, 2),
            "equipercentile": number(column.equipercentile_error, 2),
            "one text": number(column.half_width, 2),
        }
        for column in link.columns
    ]
    title = "{} on the scale of {}".format(*names[0]) if len(names) == 1 else ""
    return table_of(title, rows, LINK_LEGEND)


def decision_lines(link: Link) -> list[str]:
    """Say for each linked column how many decisions change, and why."""
    lines = []
    for column in link.columns:
        cuts = column.decisions
        if not cuts:
            lines.append(
                f"no decision on {column.to_column} can change: all texts have the same score there"
            )
        else:
            total = column.rows * len(cuts)
            unlinked = sum(cut.unlinked for cut in cuts) / total
            linked = sum(cut.linked for cut in cuts) / total
            best = sum(cut.best for cut in cuts) / total
            where = f"{cuts[0].at:g}" if len(cuts) == 1 else f"{len(cuts)} cut-offs"
            # A cut-off that is chosen from few texts can be worse than the map.
            order = min(unlinked, linked, best)
            lines.append(
                f"decisions at {where} of {column.to_column} that change: {unlinked:.1%} as they are, {linked:.1%} after "
                f"the map, {best:.1%} with the best cut-off"
            )
            lines.append(
                f"of the decisions, {unlinked - order:.1%} change by the scale, and {order:.1%} by the order of the "
                "texts, which no map changes"
            )
        if column.rows < column.common:
            lines.append(
                f"{column.rows:,} of {column.common:,} common texts, drawn with seed 0, make the map"
            )
        if not column.least:
            lines.append(
                f"{column.rows} texts are too few for an interval of the map; 50 are needed"
            )
    return lines


def link_warnings(link: Link) -> list[str]:
    """Warn about columns whose scores stay unchanged; nothing otherwise."""
    same = [column.column for column in link.columns if column.map == "identity"]
    if not same:
        return []
    return [
        f"Left as they are, since no map did clearly better on held-out texts: {', '.join(same)}."
    ]
