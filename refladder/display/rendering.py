"""Tables of text as Markdown, LaTeX and JSON lines, and text that is safe to print.

A missing value is shown as a dash, never as a number.
"""

from __future__ import annotations

import csv
import io
import itertools
import json
import re
from dataclasses import asdict
from html import escape
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, NamedTuple

from refladder.errors import redacted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from _typeshed import DataclassInstance

DASH = "—"
# Legends explain intervals under this sign.
INTERVALS = "[ ]"
# A LaTeX table with more columns spans all columns of a page.
_COLUMN = 7
_TEMPLATE = Path(__file__).with_name("templates") / "table.tex"

# These are C1 controls, line ends of Unicode, characters with the property Bidi_Control, and half surrogate pairs.
_UNSAFE = r"\x7f-\x9f\u2028\u2029\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff"
_CONTROL = re.compile(rf"[\x00-\x08\x0b-\x1f{_UNSAFE}]")
# The module json escapes the characters below U+0020.
_JSON_CONTROL = re.compile(f"[{_UNSAFE}]")

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


def table_of(
    caption: str, rows: Sequence[Mapping[str, str]], legend: tuple[tuple[str, str], ...]
) -> PlainTable:
    """Return the table of rows whose cells are under their heads."""
    return PlainTable(caption, [*rows[0]], [[*row.values()] for row in rows], legend)


def number(value: float | None, digits: int) -> str:
    """Format a number with this many decimals, or a dash."""
    # Adding 0 turns what rounds to -0 into 0.
    return DASH if value is None else f"{round(value, digits) + 0.0:.{digits}f}"


def with_interval(
    value: float | None, low: float | None, high: float | None, *, digits: int = 2
) -> str:
    """Format a number with three decimals (None: a dash), and its interval, if it has one, with `digits` decimals."""
    if value is None:
        return DASH
    if low is None or high is None:
        return number(value, 3)
    return f"{number(value, 3)} [{number(low, digits)}, {number(high, digits)}]"


def shared_legends(tables: Iterable[PlainTable]) -> list[PlainTable]:
    """Keep only the last of equal legends of consecutive tables."""
    shown = list(tables)
    for number, (table, after) in enumerate(itertools.pairwise(shown)):
        if table.legend == after.legend:
            shown[number] = table._replace(legend=())
    return shown


def html_terms(table: PlainTable) -> str:
    """Write the terms and meanings of a legend as the items of a list in HTML."""
    items = [f"<dt>{escape(term)}</dt><dd>{escape(meaning)}</dd>" for term, meaning in table.legend]
    return "".join(items)


def json_lines(records: Iterable[DataclassInstance]) -> str:
    """Write one JSON object a line for each record; a missing value is null."""
    return "".join(
        json.dumps(asdict(record), ensure_ascii=False, allow_nan=False) + "\n" for record in records
    )


def csv_text(records: Sequence[Mapping[str, object]]) -> str:
    """Write records with equal keys as CSV with a header; a missing value is an empty cell, a formula becomes text."""
    from refladder.files.tables import escaped

    stream = io.StringIO(newline="")
    writer = csv.DictWriter(stream, list(records[0]), lineterminator="\n")
    writer.writeheader()
    for record in records:
        writer.writerow({name: escaped(value) for name, value in record.items()})
    return stream.getvalue()


def markdown(tables: Iterable[PlainTable]) -> str:
    """Write pipe tables, each under its caption and above its legend."""

    def line(cells: Iterable[str]) -> str:
        flat = (" ".join(cell.splitlines()) for cell in cells)
        quoted = [cell.replace("\\", "\\\\").replace("|", "\\|") for cell in flat]
        return f"| {' | '.join(quoted)} |"

    def text(table: PlainTable) -> str:
        rule = ["---", *["---:"] * (len(table.heads) - 1)]
        lines = [table.caption, "", line(table.heads), line(rule), *map(line, table.rows)]
        if table.legend:
            lines.append("")
        lines += [f"- {term}: {meaning}" for term, meaning in table.legend]
        return "\n".join(lines) + "\n"

    return "\n".join(map(text, shared_legends(tables)))


def latex(tables: Iterable[PlainTable], intervals: str = "full") -> str:
    """Write `table` environments for booktabs and graphicx, scaled if too wide, with `intervals` of INTERVAL_SIZES."""
    template = Template(_TEMPLATE.read_text(encoding="utf-8"))

    def line(cells: Iterable[str]) -> str:
        return "  " + " & ".join(cells) + " \\\\"

    def row(table: PlainTable, number: int) -> str:
        name, *cells = table.rows[number]
        figures = [
            _figure(cell, (number, column), table, intervals)
            for column, cell in enumerate(cells, start=1)
        ]
        return f"{line([_latex_text(name), *figures])}\n"

    def heads(table: PlainTable) -> str:
        shown = list(table.heads)
        over = [""]
        rules = []
        column = 1
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
        legend = []
        for term, meaning in table.legend:
            if intervals != "none" or term != INTERVALS:
                shown = rf"\textit{{{_latex_text(term)}}}: {_latex_text(meaning)}"
                legend.append(rf"  {shown}\par")
        if legend:
            legend = [r"  \par\medskip\raggedright\footnotesize", *legend, ""]
        label = (table.label or table.caption.partition(":")[0]).lower()
        return template.substitute(
            star="*" if len(table.heads) > _COLUMN else "",
            caption=_latex_text(table.caption),
            label=re.sub(r"[^a-z0-9]+", "-", label).strip("-"),
            figures="r" * (len(table.heads) - 1),
            heads=heads(table),
            rows="".join(row(table, number) for number in range(len(table.rows))),
            legend="\n".join(legend),
        )

    return "\n".join(map(text, tables))


def _figure(cell: str, at: tuple[int, int], table: PlainTable, intervals: str) -> str:
    """Write a figure for LaTeX, marked and with its interval."""
    value, opening, interval = cell.partition(" [")
    shown = _latex_text(value)
    if at in table.best:
        shown = rf"\textbf{{{shown}}}"
    elif at in table.equal:
        shown = rf"\underline{{{shown}}}"
    if not opening or intervals == "none":
        return shown
    ends = _latex_text(f"[{interval}")
    return f"{shown} {ends}" if intervals == "full" else rf"{shown} {{\scriptsize {ends}}}"


def _latex_text(text: str) -> str:
    """Escape the characters that LaTeX reads as commands, and keep `--` from becoming a dash."""
    return text.replace("--", "-\u200b-").translate(_LATEX)


def printable(text: str, *, hide: bool = True) -> str:
    """Replace by U+FFFD what could move a cursor, break or reorder a line, or fail to be encoded.

    Secrets are hidden, unless `hide` is false: a table of names that a user gave has none.
    """
    safe = _CONTROL.sub("\ufffd", text)
    return redacted(safe) if hide else safe


def printable_json(text: str) -> str:
    """Replace control characters in JSON text by their escapes, so that its meaning stays the same."""
    return _JSON_CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def short(text: str, width: int) -> str:
    """Put a text on one line and cut it at `width` characters."""
    flat = " ".join(text.split())
    return flat if len(flat) <= width else flat[: width - 1] + "…"
