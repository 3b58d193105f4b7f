"""Tables for a terminal, wrapped and split to fit its width."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rich import box
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from refladder.display.rendering import PlainTable, shared_legends

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import RenderableType

_NARROW = 8
# A piece of a name: a word with the sign after it, where a line may end.
_PIECE = re.compile(r"[^\s/_-]*[/_-]+|[^\s/_-]+")
_INTERVAL = re.compile(r"(\S+) \[(\S+), (\S+)\]")


def terminal_tables(tables: Iterable[PlainTable], width: int) -> list[RenderableType]:
    """Lay out captions, tables and legends, to be printed in this order."""
    shown: list[RenderableType] = []
    for table in shared_legends(tables):
        for part_number, part in enumerate(fitted(table, width)):
            caption = table.caption
            if part_number:
                caption = f"{caption.partition(': ')[0]}, continued." if caption else "continued."
            if caption:
                shown.append(Text(caption))
            shown.append(part)
        if table.legend:
            legend = Table.grid(padding=(0, 2, 0, 0))
            legend.add_column(no_wrap=True)
            legend.add_column(overflow="fold")
            for term, meaning in table.legend:
                legend.add_row(Text(f" {term}"), Text(meaning))
            shown += [legend, Text("")]
    return shown


def fitted(table: PlainTable, width: int) -> list[Table]:
    """Fit a table to a width: intervals go below figures, heads wrap, and columns go to further parts."""
    names = [table.heads[0], *(row[0] for row in table.rows)]
    _, narrow = _widths(table)
    if 2 + min(_widest(names), width // 3) + sum(narrow) > width:
        table = table._replace(rows=[[row[0], *map(_stacked, row[1:])] for row in table.rows])
    longest_piece = _widest(_pieces(" ".join(names)))
    shortest = min(max(_NARROW, longest_piece), width // 3)
    # The edges of a table take one column on both sides.
    room = width - 2 - shortest
    whole, narrow = _widths(table)
    widths = whole if sum(whole) <= room else narrow
    parts = _split(widths, room, table.repeated)
    used = max(_total(widths, part) for part in parts)
    label = max(_NARROW, min(_widest(names), shortest + room - used))
    tables = []
    for part in parts:
        shown = Table(box=box.SIMPLE_HEAD, padding=0, pad_edge=False)
        shown.add_column(Text(_wrapped(table.heads[0], label)), overflow="fold", min_width=label)
        for column in part:
            head = Text(_wrapped(table.heads[column + 1], widths[column] - 1))
            least = max(1, min(widths[column], room) - 1)
            shown.add_column(head, justify="right", overflow="fold", min_width=least)
        for row in table.rows:
            cells = [_wrapped(row[0], label), *(row[column + 1] for column in part)]
            shown.add_row(*map(Text, cells))
        tables.append(shown)
    return tables


def _widths(table: PlainTable) -> tuple[list[int], list[int]]:
    """Measure each column of figures with the space before it: with its head unwrapped, and wrapped."""
    whole = []
    narrow = []
    for column, head in enumerate(table.heads[1:], start=1):
        widest = _widest(row[column] for row in table.rows)
        whole.append(1 + max(widest, _widest([head])))
        narrow.append(1 + max(widest, _widest(_pieces(head))))
    return whole, narrow


def _split(widths: Sequence[int], room: int, repeated: int) -> list[list[int]]:
    """Split the columns of figures, by number, into parts whose widths add up to no more than the room."""
    last = list(range(len(widths) - repeated, len(widths)))
    if _total(widths, last) + max(widths, default=0) > room:
        last = []
    left = room - _total(widths, last)
    parts: list[list[int]] = [[]]
    for column in range(len(widths) - len(last)):
        if parts[-1] and _total(widths, [*parts[-1], column]) > left:
            parts.append([])
        parts[-1].append(column)
    return [[*part, *last] for part in parts]


def _total(widths: Sequence[int], columns: Iterable[int]) -> int:
    return sum(widths[column] for column in columns)


def _stacked(cell: str) -> str:
    """Put a figure above its interval, without the zeros before the points, to keep columns narrow."""
    match = _INTERVAL.fullmatch(cell)
    if match is None:
        return cell
    ends = [re.sub(r"^(-?)0\.", r"\1.", end) for end in match.groups()[1:]]
    return f"{match[1]}\n{' '.join(ends)}"


def _widest(texts: Iterable[str]) -> int:
    return max(map(cell_len, "\n".join(texts).splitlines()), default=0)


def _pieces(text: str) -> list[str]:
    return _PIECE.findall(text)


def _wrapped(text: str, width: int) -> str:
    """Wrap text to lines of this width, cut at spaces and after signs; a longer piece has a line of its own."""
    lines = []
    for part in text.splitlines() or [""]:
        lines.append("")
        for word in part.split():
            for piece_number, piece in enumerate(_pieces(word)):
                gap = " " if piece_number == 0 and lines[-1] else ""
                joined = lines[-1] + gap + piece
                if lines[-1] and _widest([joined]) > width:
                    lines.append(piece)
                else:
                    lines[-1] = joined
    return "\n".join(lines)
