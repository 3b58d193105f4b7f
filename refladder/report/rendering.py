"""Tables of text as Markdown, LaTeX and JSON lines; what has no value is shown as a dash, never as a number."""

from __future__ import annotations

import csv
import io
import itertools
import json
import re
from dataclasses import asdict
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from _typeshed import DataclassInstance

DASH = "—"
INTERVALS = "[ ]"  # their sign in a legend
_COLUMN = (
    7  # most columns of a LaTeX table that stays in one column of a page; a wider one spans all
)
_TEMPLATE = Path(__file__).with_name("templates") / "table.tex"

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
        "\u200b": "{}",
    }
)


class PlainTable(NamedTuple):
    """A table of text: its first column is the method or model, the others are figures.

    `legend` has terms and meanings. Parts of a wide table repeat the last `repeated` columns. For LaTeX are `label`
    (empty: of the caption), (row, column) of `best` (bold) and `equal` (underlined) figures, and `groups` of columns.
    """

    caption: str
    heads: list[str]
    rows: list[list[str]]
    legend: tuple[tuple[str, str], ...] = ()
    repeated: int = 0
    label: str = ""
    best: frozenset[tuple[int, int]] = frozenset()
    equal: frozenset[tuple[int, int]] = frozenset()
    groups: tuple[tuple[str, int], ...] = ()


def number(value: float | None, digits: int) -> str:
    """A number with this many decimals, or a dash."""
    # Adding 0 turns what rounds to -0 into 0.
    return DASH if value is None else f"{round(value, digits) + 0.0:.{digits}f}"


def with_interval(
    value: float | None, low: float | None, high: float | None, *, digits: int = 2
) -> str:
    """A number with three decimals (None: a dash), and its interval where it has one, with `digits` decimals."""
    if value is None:
        return DASH
    if low is None or high is None:
        return number(value, 3)
    return f"{number(value, 3)} [{number(low, digits)}, {number(high, digits)}]"


def shared_legends(tables: Iterable[PlainTable]) -> list[PlainTable]:
    """The tables, where a legend that several tables in a row share is left to the last of them."""
    shown = list(tables)
    return [
        table._replace(legend=()) if after is not None and after.legend == table.legend else table
        for table, after in itertools.zip_longest(shown, shown[1:])
    ]


def json_lines(records: Iterable[DataclassInstance]) -> str:
    """One JSON object a line for each record; what has no value is null."""
    return "".join(
        json.dumps(asdict(record), ensure_ascii=False, allow_nan=False) + "\n" for record in records
    )


def csv_text(records: Sequence[Mapping[str, object]]) -> str:
    """Records with the same keys as CSV with a header; what has no value is an empty cell."""
    stream = io.StringIO(newline="")
    writer = csv.DictWriter(stream, list(records[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return stream.getvalue()


def markdown(tables: Iterable[PlainTable]) -> str:
    """Pipe tables, each under its caption and above its legend."""

    def line(cells: Iterable[str]) -> str:
        return (
            "| "
            + " | ".join(cell.replace("\\", "\\\\").replace("|", "\\|") for cell in cells)
            + " |"
        )

    def text(table: PlainTable) -> str:
        rule = ["---", *["---:"] * (len(table.heads) - 1)]
        legend = [f"- {term}: {meaning}" for term, meaning in table.legend]
        lines = [table.caption, "", line(table.heads), line(rule), *map(line, table.rows)]
        return "\n".join([*lines, *([""] if legend else []), *legend]) + "\n"

    return "\n".join(map(text, shared_legends(tables)))


def latex(tables: Iterable[PlainTable], intervals: str = "full") -> str:
    """`table` environments for booktabs and graphicx, scaled where too wide, with `intervals` of INTERVAL_SIZES."""
    template = Template(_TEMPLATE.read_text(encoding="utf-8"))

    def line(cells: Iterable[str]) -> str:
        return "  " + " & ".join(cells) + " \\\\"

    def figure(table: PlainTable, row: int, column: int) -> str:
        value, opening, interval = table.rows[row][column].partition(" [")
        shown = _latex_text(value)
        if (row, column) in table.best:
            shown = rf"\textbf{{{shown}}}"
        elif (row, column) in table.equal:
            shown = rf"\underline{{{shown}}}"
        if not opening or intervals == "none":
            return shown
        ends = _latex_text(f"[{interval}")
        return f"{shown} {ends}" if intervals == "full" else rf"{shown} {{\scriptsize {ends}}}"

    def heads(table: PlainTable) -> str:
        shown, over, rules, column = list(table.heads), [""], [], 1
        for name, width in table.groups:
            end = column + width
            shown[column:end] = [head.removeprefix(f"{name} ") for head in shown[column:end]]
            over.append(rf"\multicolumn{{{width}}}{{c}}{{{_latex_text(name)}}}")
            rules.append(rf"\cmidrule(lr){{{column + 1}-{end}}}")
            column = end
        over += [""] * (len(shown) - column)
        above = f"{line(over)}\n  {' '.join(rules)}\n" if rules else ""
        return above + line(map(_latex_text, shown))

    def text(table: PlainTable) -> str:
        terms = [line for line in table.legend if intervals != "none" or line[0] != INTERVALS]
        legend = [
            rf"  \textit{{{_latex_text(term)}}}: {_latex_text(meaning)}\par"
            for term, meaning in terms
        ]
        rows = [
            line(
                [
                    _latex_text(cells[0]),
                    *(figure(table, row, column) for column in range(1, len(cells))),
                ]
            )
            for row, cells in enumerate(table.rows)
        ]
        return template.substitute(
            star="*" if len(table.heads) > _COLUMN else "",
            caption=_latex_text(table.caption),
            label=re.sub(
                r"[^a-z0-9]+", "-", (table.label or table.caption.partition(":")[0]).lower()
            ).strip("-"),
            figures="r" * (len(table.heads) - 1),
            heads=heads(table),
            rows="".join(f"{row}\n" for row in rows),
            legend="\n".join([r"  \par\medskip\raggedright\footnotesize", *legend, ""])
            if legend
            else "",
        )

    return "\n".join(map(text, tables))


def _latex_text(text: str) -> str:
    """Text in which the characters that LaTeX reads as commands are escaped, and `--` is no dash."""
    return text.replace("--", "-\u200b-").translate(_LATEX)
