"""Rows of agreement as JSON lines, Markdown, LaTeX and terminal tables.

A table holds one benchmark, level and statistic: methods are its rows, dimensions its columns. What has no value is
shown as a dash, never as a number.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from refladder.metaeval.agreement import MEAN, PARTIAL, Agreement
from refladder.metaeval.correction import SIGNIFICANT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rich.table import Table

DASH = "—"
_COUNTS = ("contexts", "skipped", "unscored")
_NARROW = 8
_PIECE = re.compile(r"[^\s/_-]*[/_-]+|[^\s/_-]+")  # of a name: a word with the sign behind it, where a line may end

_LEVEL_WORDS = {
    "within_context": "{} with the ratings, mean over contexts",
    "pooled": "{} with the ratings, all outputs together",
    "between_systems": "{} with the ratings, means of systems",
}
_STATISTIC_WORDS = {
    "spearman": "Spearman",
    "kendall": "Kendall tau-b",
    "pearson": "Pearson",
    PARTIAL: "partial Spearman (length held constant)",
}
_CONSTANT_WORDS = {
    "skip": "constant contexts are skipped",
    "zero": "constant ratings are skipped, a constant prediction counts 0",
    "one": "constant ratings count 1, a constant prediction 0",
}
_LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "&": r"\&",
        "%": r"\%",
        "$": r"\$",
        "#": r"\#",
        "_": r"\_",
        "{": r"\{",
        "}": r"\}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "|": r"\textbar{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        DASH: "---",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pivot:
    """One table: a row of `cells` (None where nothing is known) and a row of `counts` for each method."""

    caption: str
    methods: tuple[str, ...]
    dimensions: tuple[str, ...]
    cells: tuple[tuple[Agreement | None, ...], ...]
    counts: tuple[tuple[str, ...], ...]


class PlainTable(NamedTuple):
    """A table of text: its first column is the method or model, the others are figures."""

    caption: str
    heads: list[str]
    rows: list[list[str]]


def _latex_text(text: str) -> str:
    """Text with the characters that LaTeX would read as commands written out."""
    return text.translate(_LATEX)


def to_json_lines(rows: Iterable[Agreement]) -> str:
    """One JSON object a line; what has no value is null.

    Raises:
        ValueError: a number is not finite.
    """
    return "".join(json.dumps(asdict(row), ensure_ascii=False, allow_nan=False) + "\n" for row in rows)


def plain_tables(rows: Iterable[Agreement]) -> list[PlainTable]:
    """One for each benchmark, level and statistic."""
    return [
        PlainTable(
            pivot.caption,
            ["method", *pivot.dimensions, *_COUNTS],
            [
                [method, *map(_in_line, cells), *counts]
                for method, cells, counts in zip(pivot.methods, pivot.cells, pivot.counts, strict=True)
            ],
        )
        for pivot in _pivots(rows)
    ]


def to_markdown(rows: Iterable[Agreement]) -> str:
    """Pipe tables, one for each benchmark, level and statistic, each under its caption."""
    return markdown(plain_tables(rows))


def to_latex(rows: Iterable[Agreement]) -> str:
    """`table` environments for the booktabs package, one for each benchmark, level and statistic."""
    return latex(plain_tables(rows))


def markdown(tables: Iterable[PlainTable]) -> str:
    """Pipe tables, each under its caption."""

    def line(cells: Iterable[str]) -> str:
        return "| " + " | ".join(cell.replace("\\", "\\\\").replace("|", "\\|") for cell in cells) + " |"

    return "\n".join(
        "\n".join([table.caption, "", line(table.heads), line(rule), *map(line, table.rows)]) + "\n"
        for table in tables
        for rule in [["---", *["---:"] * (len(table.heads) - 1)]]
    )


def latex(tables: Iterable[PlainTable]) -> str:
    """`table` environments for the booktabs package."""

    def line(cells: Iterable[str]) -> str:
        return "  " + " & ".join(map(_latex_text, cells)) + r" \\"

    return "\n".join(
        "\n".join(
            [
                r"\begin{table}",
                r"  \centering",
                rf"  \caption{{{_latex_text(table.caption)}}}",
                rf"  \begin{{tabular}}{{l{'r' * (len(table.heads) - 1)}}}",
                r"  \toprule",
                line(table.heads),
                r"  \midrule",
                *map(line, table.rows),
                r"  \bottomrule",
                r"  \end{tabular}",
                r"\end{table}",
                "",
            ]
        )
        for table in tables
    )


def to_rich(rows: Iterable[Agreement], width: int = 100) -> list[Table]:
    """Terminal tables that fit a width.

    One for each benchmark, level and statistic, or several where the dimensions do not fit. A cell has the figure above
    its interval.

    Args:
        rows: of agreement.
        width: of the terminal, in columns.
    """
    return [
        part
        for pivot in _pivots(rows)
        for part in fitted(
            PlainTable(
                pivot.caption,
                ["method", *pivot.dimensions, *_COUNTS],
                [
                    [method, *map(_stacked, cells), *counts]
                    for method, cells, counts in zip(pivot.methods, pivot.cells, pivot.counts, strict=True)
                ],
            ),
            width,
            len(_COUNTS),
        )
    ]


def fitted(table: PlainTable, width: int, repeated: int = 0) -> list[Table]:
    """Terminal tables that together show a table; each fits a width, and no head is broken inside a word.

    Heads and names of rows are wrapped at spaces and behind `-`, `_` and `/`. Columns that do not fit stand in further
    tables with the same names of rows. Only a word that is wider than the terminal is folded.

    Args:
        table: a cell may have several lines.
        width: of the terminal, in columns.
        repeated: how many of the last columns each of the tables has, where that leaves room for others.
    """
    from rich import box  # noqa: PLC0415  only terminal tables need rich
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    names = [table.heads[0], *(row[0] for row in table.rows)]
    shortest = min(max(_NARROW, _widest(piece for name in names for piece in _pieces(name))), width // 3)
    room = width - 2 - shortest  # an edge on both sides
    columns = [[row[place] for row in table.rows] for place in range(1, len(table.heads))]
    # A space goes before every column of figures. Heads are wrapped where they do not fit as they are.
    whole = [1 + _widest([head, *cells]) for head, cells in zip(table.heads[1:], columns, strict=True)]
    narrow = [1 + _widest([*_pieces(head), *cells]) for head, cells in zip(table.heads[1:], columns, strict=True)]
    widths = whole if sum(whole) <= room else narrow
    parts = _cut(widths, room, repeated)
    used = max(sum(widths[place] for place in part) for part in parts)
    label = max(_NARROW, min(_widest(names), shortest + room - used))
    tables = []
    for number, part in enumerate(parts):
        caption = table.caption
        if number > 0:
            caption = f"{caption.partition(': ')[0]}, continued." if caption else "continued."
        shown = Table(title=Text(caption), title_justify="left", box=box.SIMPLE_HEAD, padding=0, pad_edge=False)
        shown.add_column(Text(_wrapped(table.heads[0], label)), overflow="fold", min_width=label)
        for place in part:
            head = Text(_wrapped(table.heads[place + 1], widths[place] - 1))
            shown.add_column(head, justify="right", overflow="fold", min_width=max(1, min(widths[place], room) - 1))
        for row in table.rows:
            shown.add_row(Text(_wrapped(row[0], label)), *(Text(row[place + 1]) for place in part))
        tables.append(shown)
    return tables


def _cut(widths: Sequence[int], room: int, repeated: int) -> list[list[int]]:
    """The columns of figures of each table, by number, so that their widths add up to no more than the room."""
    last = list(range(len(widths) - repeated, len(widths)))
    if sum(widths[place] for place in last) + max(widths, default=0) > room:
        last = []
    left = room - sum(widths[place] for place in last)
    parts: list[list[int]] = [[]]
    for place in range(len(widths) - len(last)):
        if parts[-1] and sum(widths[other] for other in parts[-1]) + widths[place] > left:
            parts.append([])
        parts[-1].append(place)
    return [[*part, *last] for part in parts]


def _widest(texts: Iterable[str]) -> int:
    from rich.cells import cell_len  # noqa: PLC0415  only terminal tables need rich

    return max((cell_len(line) for text in texts for line in text.splitlines()), default=0)


def _pieces(text: str) -> list[str]:
    return [piece for word in text.split() for piece in _PIECE.findall(word)]


def _wrapped(text: str, width: int) -> str:
    """Lines no wider than this, cut at spaces and behind signs; a longer piece keeps a line of its own."""
    lines = []
    for part in text.splitlines() or [""]:
        lines.append("")
        for word in part.split():
            for place, piece in enumerate(_PIECE.findall(word)):
                joined = f"{lines[-1]} {piece}" if place == 0 and lines[-1] else lines[-1] + piece
                if lines[-1] and _widest([joined]) > width:
                    lines.append(piece)
                else:
                    lines[-1] = joined
    return "\n".join(lines)


def _pivots(rows: Iterable[Agreement]) -> list[_Pivot]:
    groups: dict[tuple[str, str, str, str], list[Agreement]] = {}
    for row in rows:
        groups.setdefault((row.benchmark, row.level, row.statistic, row.constant), []).append(row)
    return [_pivot(group) for group in groups.values()]


def _pivot(rows: Sequence[Agreement]) -> _Pivot:
    caption = _caption(rows)
    if any(row.p_adjusted is not None for row in rows):
        # In a table whose tests are corrected, a test outside the correction gets no mark.
        rows = [row if row.p_adjusted is not None else replace(row, p_value=None) for row in rows]
    found = {(row.method, row.dimension): row for row in rows}
    methods = tuple(dict.fromkeys(row.method for row in rows))
    dimensions = tuple(dict.fromkeys(row.dimension for row in rows))
    # One dimension is its own mean.
    parts = [name for name in dimensions if name != MEAN]
    if len(parts) == 1:
        dimensions = (parts[0],)
    return _Pivot(
        caption=caption,
        methods=methods,
        dimensions=dimensions,
        cells=tuple(tuple(found.get((method, name)) for name in dimensions) for method in methods),
        counts=tuple(_counts([row for row in rows if row.method == method]) for method in methods),
    )


def _counts(rows: Sequence[Agreement]) -> tuple[str, ...]:
    """Contexts, skipped and unscored of one method: the range over dimensions, and the sum of the unscored."""
    parts = [row for row in rows if row.dimension != MEAN] or rows

    def span(number: Callable[[Agreement], int]) -> str:
        low, high = min(map(number, parts)), max(map(number, parts))
        return str(low) if low == high else f"{low}-{high}"

    contexts = span(lambda row: row.contexts)
    if any(map(_narrowed, rows)):
        contexts += f" of {span(lambda row: row.contexts if row.correlated is None else row.correlated)}"
    return (
        contexts,
        span(lambda row: row.skipped),
        str(sum(row.unscored for row in parts)),
    )


def _caption(rows: Sequence[Agreement]) -> str:
    first = rows[0]
    words = [f"{first.benchmark}, {first.level}: {_LEVEL_WORDS[first.level].format(_STATISTIC_WORDS[first.statistic])}"]
    if first.level == "between_systems":
        words.append("no intervals, because the few systems are a sample too")
    elif any(row.low is not None for row in rows):
        words.append(f"{first.confidence * 100:g} % intervals")
    if first.level == "within_context" and (first.constant != "skip" or any(row.skipped for row in rows)):
        words.append(_CONSTANT_WORDS[first.constant])
    if first.level == "within_context" and all(row.contexts == 0 for row in rows):
        words.append(
            "no context has two outputs with different ratings and different scores, so there is nothing to correlate "
            "within contexts"
        )
    if any(map(_narrowed, rows)):
        words.append(
            "all methods are compared on the contexts in which each has a correlation, of those in which the row's "
            "method has one"
        )
    tests = sum(row.p_adjusted is not None for row in rows)
    holm = f", Holm's correction over {tests} {'test' if tests == 1 else 'tests'}" if tests else ""
    if tests and len({row.dimension for row in rows if row.dimension != MEAN}) > 1:
        holm += ", means are not tested"
    references = list(dict.fromkeys(row.reference for row in rows if row.reference is not None))
    if references:
        words.append(f"* p < {SIGNIFICANT:g} against {', '.join(references)}, paired permutation test{holm}")
    if any(row.value is None for row in rows):
        words.append(f"{DASH} no value")
    return "; ".join(words) + "."


def _narrowed(row: Agreement) -> bool:
    return row.correlated is not None and row.correlated > row.contexts


def _value(row: Agreement) -> str:
    tested = row.p_value if row.p_adjusted is None else row.p_adjusted
    mark = "*" if tested is not None and tested < SIGNIFICANT else ""
    return DASH if row.value is None else f"{_number(row.value, 3)}{mark}"


def _number(value: float, digits: int) -> str:
    # Adding 0 turns what rounds to -0 into 0.
    return f"{round(value, digits) + 0.0:.{digits}f}"


def _in_line(row: Agreement | None) -> str:
    if row is None:
        return DASH
    if row.low is None or row.high is None:
        return _value(row)
    return f"{_value(row)} [{_number(row.low, 2)}, {_number(row.high, 2)}]"


def _stacked(row: Agreement | None) -> str:
    if row is None:
        return DASH
    if row.low is None or row.high is None:
        return _value(row)
    # Without the zeros, ".31 .42", to keep columns narrow.
    ends = (_number(end, 2).replace("0.", ".") for end in (row.low, row.high))
    return f"{_value(row)}\n{' '.join(ends)}"
