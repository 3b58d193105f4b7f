"""Tables for a terminal, wrapped and split to fit its width."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rich import box
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from refladder.report.rendering import PlainTable, shared_legends

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import RenderableType

_NARROW = 8
_PIECE = re.compile(
    r"[^\s/_-]*[/_-]+|[^\s/_-]+"
)  # of a name: a word with the sign behind it, where a line may end
_INTERVAL = re.compile(r"(\S+) \[(\S+), (\S+)\]")


def terminal_tables(tables: Iterable[PlainTable], width: int) -> list[RenderableType]:
    """Captions, tables and legends, to be printed one after the other."""
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
    """The parts of a table that fit a width: intervals go below figures, heads wrap, columns go to further parts."""
    names = [table.heads[0], *(row[0] for row in table.rows)]
    _, narrow = _widths(table)
    if 2 + min(_widest(names), width // 3) + sum(narrow) > width:
        table = table._replace(rows=[[row[0], *map(_stacked, row[1:])] for row in table.rows])
    shortest = min(
        max(_NARROW, _widest(piece for name in names for piece in _pieces(name))), width // 3
    )
    room = width - 2 - shortest  # an edge on both sides
    whole, narrow = _widths(table)
    widths = whole if sum(whole) <= room else narrow
    parts = _split(widths, room, table.repeated)
    used = max(sum(widths[column] for column in part) for part in parts)
    label = max(_NARROW, min(_widest(names), shortest + room - used))
    tables = []
    for part in parts:
        shown = Table(box=box.SIMPLE_HEAD, padding=0, pad_edge=False)
        shown.add_column(Text(_wrapped(table.heads[0], label)), overflow="fold", min_width=label)
        for column in part:
            head = Text(_wrapped(table.heads[column + 1], widths[column] - 1))
            shown.add_column(
                head,
                justify="right",
                overflow="fold",
                min_width=max(1, min(widths[column], room) - 1),
            )
        for row in table.rows:
            shown.add_row(
                Text(_wrapped(row[0], label)), *(Text(row[column + 1]) for column in part)
            )
        tables.append(shown)
    return tables


def _widths(table: PlainTable) -> tuple[list[int], list[int]]:
    """The width of each column of figures with the space before it: with its head as it is, and with a wrapped one."""
    columns = [[row[column] for row in table.rows] for column in range(1, len(table.heads))]
    whole = [
        1 + _widest([head, *cells]) for head, cells in zip(table.heads[1:], columns, strict=True)
    ]
    narrow = [
        1 + _widest([*_pieces(head), *cells])
        for head, cells in zip(table.heads[1:], columns, strict=True)
    ]
    return whole, narrow


def _split(widths: Sequence[int], room: int, repeated: int) -> list[list[int]]:
    """The columns of figures of each part, by number, so that their widths add up to no more than the room."""
    last = list(range(len(widths) - repeated, len(widths)))
    if sum(widths[column] for column in last) + max(widths, default=0) > room:
        last = []
    left = room - sum(widths[column] for column in last)
    parts: list[list[int]] = [[]]
    for column in range(len(widths) - len(last)):
        if parts[-1] and sum(widths[other] for other in parts[-1]) + widths[column] > left:
            parts.append([])
        parts[-1].append(column)
    return [[*part, *last] for part in parts]


def _stacked(cell: str) -> str:
    """A figure above its interval, without the zeros before the points, to keep columns narrow."""
    match = _INTERVAL.fullmatch(cell)
    if match is None:
        return cell
    ends = (
        end.replace("0.", ".") if end.lstrip("-").startswith("0.") else end
        for end in match.groups()[1:]
    )
    return f"{match[1]}\n{' '.join(ends)}"


def _widest(texts: Iterable[str]) -> int:
    return max((cell_len(line) for text in texts for line in text.splitlines()), default=0)


def _pieces(text: str) -> list[str]:
    return [piece for word in text.split() for piece in _PIECE.findall(word)]


def _wrapped(text: str, width: int) -> str:
    """Lines no wider than this, cut at spaces and behind signs; a longer piece has a line to itself."""
    lines = []
    for part in text.splitlines() or [""]:
        lines.append("")
        for word in part.split():
            for piece_number, piece in enumerate(_PIECE.findall(word)):
                joined = (
                    f"{lines[-1]} {piece}" if piece_number == 0 and lines[-1] else lines[-1] + piece
                )
                if lines[-1] and _widest([joined]) > width:
                    lines.append(piece)
                else:
                    lines[-1] = joined
    return "\n".join(lines)
