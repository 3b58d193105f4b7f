"""Tables of text as Markdown, LaTeX and JSON lines.

A table has a caption of one line and a legend below it, with one line for each column or sign that needs one. What has
no value is shown as a dash, never as a number.
"""

from __future__ import annotations

import itertools
import json
from dataclasses import asdict
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from _typeshed import DataclassInstance

DASH = "—"
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
    }
)


class PlainTable(NamedTuple):
    """A table of text: its first column is the method or model, the others are figures.

    `legend` holds terms (heads or signs) and their meanings, in the order of the columns. `repeated` is the number of
    last columns that every part shows where the table is too wide for a terminal.
    """

    caption: str
    heads: list[str]
    rows: list[list[str]]
    legend: tuple[tuple[str, str], ...] = ()
    repeated: int = 0


def number(value: float | None, digits: int) -> str:
    """A number with this many decimals, or a dash."""
    # Adding 0 turns what rounds to -0 into 0.
    return DASH if value is None else f"{round(value, digits) + 0.0:.{digits}f}"


def with_interval(value: float | None, low: float | None, high: float | None, *, digits: int = 2) -> str:
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
    return "".join(json.dumps(asdict(record), ensure_ascii=False, allow_nan=False) + "\n" for record in records)


def markdown(tables: Iterable[PlainTable]) -> str:
    """Pipe tables, each under its caption and above its legend."""

    def line(cells: Iterable[str]) -> str:
        return "| " + " | ".join(cell.replace("\\", "\\\\").replace("|", "\\|") for cell in cells) + " |"

    def text(table: PlainTable) -> str:
        rule = ["---", *["---:"] * (len(table.heads) - 1)]
        legend = [f"- {term}: {meaning}" for term, meaning in table.legend]
        lines = [table.caption, "", line(table.heads), line(rule), *map(line, table.rows)]
        return "\n".join([*lines, *([""] if legend else []), *legend]) + "\n"

    return "\n".join(map(text, shared_legends(tables)))


def latex(tables: Iterable[PlainTable]) -> str:
    """`table` environments for the booktabs package, each with its legend."""
    template = Template(_TEMPLATE.read_text(encoding="utf-8"))

    def line(cells: Iterable[str]) -> str:
        return "  " + " & ".join(map(_latex_text, cells)) + " \\\\"

    def text(table: PlainTable) -> str:
        legend = [rf"  \textit{{{_latex_text(term)}}}: {_latex_text(meaning)}\par" for term, meaning in table.legend]
        return template.substitute(
            caption=_latex_text(table.caption),
            figures="r" * (len(table.heads) - 1),
            heads=line(table.heads),
            rows="".join(f"{line(row)}\n" for row in table.rows),
            legend="\n".join([r"  \par\medskip\raggedright\footnotesize", *legend, ""]) if legend else "",
        )

    return "\n".join(map(text, tables))


def _latex_text(text: str) -> str:
    """Text in which the characters that LaTeX reads as commands are escaped."""
    return text.translate(_LATEX)
