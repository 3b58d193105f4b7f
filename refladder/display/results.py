"""What calls return: values that print as the tables of their command, and that a notebook shows as HTML."""

from __future__ import annotations

import io
from dataclasses import fields, is_dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from refladder.display.rendering import html_terms, printable, shared_legends

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Self

    from refladder.display.rendering import PlainTable

# A result as text is cut after this number of characters.
LONGEST = 3900
# Its tables have this width in columns.
WIDTH = 100
# Cells hold bars and numbers that are aligned by their characters.
_EVEN = "white-space:pre;font-family:monospace"


class Shown:
    """A result that is shown as lines and tables."""

    __slots__ = ()

    def lines(self) -> Sequence[str]:
        """Return what comes before the tables."""
        return ()

    def tables(self) -> Sequence[PlainTable]:
        """Return the tables that the command prints."""
        return ()

    def text(self) -> str:
        """Return the lines and tables as text."""
        from rich.console import Console

        from refladder.display.terminal import terminal_tables

        stream = io.StringIO()
        console = Console(file=stream, width=WIDTH, highlight=False, color_system=None)
        for part in terminal_tables(self.tables(), WIDTH):
            console.print(part)
        lines = [*self.lines(), *stream.getvalue().splitlines()]
        return printable("\n".join(line.rstrip() for line in lines).strip())

    def __str__(self) -> str:
        """Return the lines and tables as text, cut where they are long."""
        text = self.text()
        if len(text) <= LONGEST:
            return text
        return f"{text[:LONGEST].rpartition(chr(10))[0]}\n(cut: the whole result is longer)"

    def _repr_html_(self) -> str:
        """Return the lines and tables for a notebook."""
        lines = "".join(
            f'<p style="white-space:pre-wrap">{escape(line)}</p>' for line in self.lines()
        )
        return lines + "".join(map(_html, shared_legends(self.tables())))


class ShownRecord(Shown):
    """A base of a record that is shown as tables; it is equal to the record that its file holds."""

    __slots__ = ()

    @classmethod
    def of(cls, record: Any) -> Self:
        """Return a record, to be shown."""
        return cls(**{each.name: getattr(record, each.name) for each in fields(record)})

    def __eq__(self, other: object) -> bool:
        same_kind = is_dataclass(other) and type(other) in type(self).__mro__
        return same_kind and _values(self) == _values(other)

    def __hash__(self) -> int:
        return hash(_values(self))


def _values(record: Any) -> tuple[object, ...]:
    return tuple(getattr(record, each.name) for each in fields(record))


class ShownDict(Shown, dict[str, Any]):
    """A dict of JSON values that is shown as tables."""

    def __init__(
        self, values: dict[str, Any], tables: Iterable[PlainTable], lines: Iterable[str] = ()
    ) -> None:
        super().__init__(values)
        self._tables, self._lines = list(tables), list(lines)

    def lines(self) -> list[str]:
        """Return what comes before the tables."""
        return self._lines

    def tables(self) -> list[PlainTable]:
        """Return the tables that the command prints."""
        return self._tables


class ShownList(Shown, list[dict[str, Any]]):
    """A list of dicts of JSON values that is shown as tables."""

    def __init__(self, values: list[dict[str, Any]], tables: Iterable[PlainTable]) -> None:
        super().__init__(values)
        self._tables = list(tables)

    def tables(self) -> list[PlainTable]:
        """Return the tables that the command prints."""
        return self._tables


def _html(table: PlainTable) -> str:
    heads = _row("th", table.heads)
    rows = "".join(_row("td", row) for row in table.rows)
    legend = f"<dl>{html_terms(table)}</dl>" if table.legend else ""
    return (
        f"<table><caption>{escape(table.caption)}</caption><thead>{heads}</thead>"
        f"<tbody>{rows}</tbody></table>{legend}"
    )


def _row(tag: str, cells: Sequence[str]) -> str:
    """Return a row as the terminal has it: the first cell on the left, the others on the right, no space lost."""
    sides, tags = ("left", *["right"] * len(cells)), ("th", *[tag] * len(cells))
    shown = (
        f'<{name} style="{_EVEN};text-align:{side}">{escape(cell)}</{name}>'
        for name, side, cell in zip(tags, sides, cells, strict=False)
    )
    return f"<tr>{''.join(shown)}</tr>"
