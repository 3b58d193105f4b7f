"""Rows of agreement as JSON lines, Markdown, LaTeX and terminal tables.

A table holds one benchmark, level and statistic: methods are its rows, dimensions its columns. What has no value is
shown as a dash, never as a number.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from refladder.metaeval.agreement import MEAN, PARTIAL, Agreement
from refladder.metaeval.correction import SIGNIFICANT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rich.table import Table

DASH = "—"
_COUNTS = ("contexts", "skipped", "unscored")
# Of the 100 columns of a terminal, edges, counts and a narrow column of methods leave 64 for figures, which have a
# space between them.
_FIGURES_WIDTH = 64
_NARROW = 8

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


def to_rich(rows: Iterable[Agreement]) -> list[Table]:
    """Terminal tables that fit 100 columns.

    One for each benchmark, level and statistic; one with more than six or seven dimensions is cut into several. A cell
    has the figure above its interval.
    """
    from rich import box  # noqa: PLC0415  only terminal tables need rich
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    tables = []
    for pivot in _pivots(rows):
        figures = [[_stacked(cell) for cell in cells] for cells in pivot.cells]
        width = max(_NARROW, *(len(line) for row in figures for cell in row for line in cell.splitlines()))
        widest = max(len(counts[0]) for counts in pivot.counts) - len(_COUNTS[0])
        step = max(1, (_FIGURES_WIDTH - max(0, widest)) // (width + 1))
        for start in range(0, len(pivot.dimensions), step):
            part = slice(start, start + step)
            table = Table(
                title=Text(pivot.caption),
                title_justify="left",
                box=box.SIMPLE_HEAD,
                padding=0,
                pad_edge=False,
            )
            table.add_column("method", overflow="fold", min_width=_NARROW)
            for dimension in pivot.dimensions[part]:
                table.add_column(Text(dimension), justify="right", overflow="fold", min_width=width)
            for name in _COUNTS:
                table.add_column(name, justify="right", no_wrap=True)
            for method, cells, counts in zip(pivot.methods, figures, pivot.counts, strict=True):
                table.add_row(Text(method), *cells[part], *counts)
            tables.append(table)
    return tables


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
