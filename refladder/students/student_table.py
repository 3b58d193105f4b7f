"""The agreement table of a student, and its card in Markdown."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from refladder.errors import plural
from refladder.report.rendering import PlainTable, markdown, number

if TYPE_CHECKING:
    from refladder.records import Distilled

_CARD = Path(__file__).with_name("templates") / "student_card.md"
LEGEND = (
    ("agrees with", "teacher: the scores it learned from; people: the column of labels"),
    ("within", "mean over contexts of the correlation of their rows"),
    ("error", "mean absolute error, in units of the scores"),
    ("surface", "the surface measure that agreed best in the other rows"),
)


def student_table(record: Distilled) -> PlainTable:
    """Agreement on held-out rows."""
    heads = ["method", "agrees with", "rows", "contexts", "Pearson", "Spearman", "within: Pearson", "within: Spearman"]
    measures = ("pearson", "spearman", "within_pearson", "within_spearman")
    rows = [
        [row.method, row.target, f"{row.rows:,}", f"{row.contexts:,}"]
        + [number(getattr(row, measure), 3) for measure in measures]
        + [number(row.error, 2)]
        for row in record.held_out
    ]
    return PlainTable("", [*heads, "error"], rows, LEGEND)


def student_lines(record: Distilled, folder: str) -> list[str]:
    """What was learned, how far an estimate can be off, and the surface measure where it is no worse."""
    what = "hashed n-grams" if record.kind == "ngrams" else record.model
    read = "the output and its context" if record.reads_context else "the output only"
    rows = record.held_out[0].rows
    others = "whole contexts" if record.held_out_by == "context" else "texts"
    half = f"{record.half_width:.2f}"
    of = f" of {plural(record.contexts, 'context')}" if record.held_out_by == "context" else ""
    learned = f"{plural(record.rows, 'row')}{of} ({what}; reads {read})"
    band = (
        f": for a threshold T, give `score --cascade distilled:{folder}` the band from T - {half} to T + {half} with "
        "--between"
    )
    lines = [
        f"learned {record.column} from {learned}; {plural(rows, 'row')} held out ({others})",
        f"90 % of the held-out estimates are within {half} of the score{band if record.teacher else ''}",
    ]
    return lines + [f"Warning: {line}" for line in surface_lines(record)]


def surface_lines(record: Distilled) -> list[str]:
    """Whom a surface measure agrees with as well as the student does; none for a student that is better."""
    lines = []
    for target in ("teacher", "people"):
        of_target = {row.method.partition(":")[0]: row.spearman for row in record.held_out if row.target == target}
        student, surface = of_target.get("student"), of_target.get("surface")
        if student is not None and surface is not None and student <= surface:
            lines.append(f"a surface measure agrees with the {target} as well as the student does.")
    return lines


def student_card(record: Distilled) -> str:
    """The card: what the student is, how far it agrees, and how it is used."""
    what = (
        "Ridge regression over hashed n-grams and surface measures of a text."
        if record.kind == "ngrams"
        else f"The encoder {record.model}, trained with one output."
    )
    read = "The output and the text of its context." if record.reads_context else "The output only."
    return _CARD.read_text(encoding="utf-8").format(
        record=record,
        what=what,
        teacher=record.teacher or "none",
        read=read,
        settings=", ".join(f"{name} {value:g}" for name, value in record.settings.items()),
        held_out="Whole contexts" if record.held_out_by == "context" else "Texts (all rows have one context, or none)",
        agreement=markdown([student_table(record)]).strip(),
    )
