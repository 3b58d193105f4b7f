"""Tables of scored texts, and of a ladder with scored outputs placed on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich import box
from rich.table import Table
from rich.text import Text

from refladder.display.rendering import DASH, PlainTable, number, printable, short
from refladder.scoring.columns import column_names, overall_column
from refladder.scoring.rules import SPREAD_LEGEND

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import RenderableType

    from refladder.files.ladder_sets import LadderSet
    from refladder.jobs.show import PlacedOutput
    from refladder.records import Dimension, Ladder

# A text in a table of scores is cut to this number of characters.
_SCORED = 200
# A text on a ladder is cut to this number of characters.
_ON_LADDER = 300


def score_table(
    texts: Sequence[str], columns: Sequence[Mapping[str, Any]], dimensions: Sequence[Dimension]
) -> PlainTable:
    """Show scores, grades and spreads of texts."""
    several = len(dimensions) > 1
    heads = ["text"]
    for dimension in dimensions:
        heads += [
            f"{dimension.name}\nscore",
            f"grade\n{dimension.low:g} to {dimension.high:g}",
            "spread",
        ]
    if several:
        heads.append("overall\n0 to 1")
    rows = []
    for text, values in zip(texts, columns, strict=True):
        cells = []
        for dimension in dimensions:
            names = column_names(dimension.name)
            score, grade = values[names.score], values[names.grade]
            placed = DASH if grade is None else f"{grade:.2f}"
            spread = DASH if score is None else f"{values[names.spread]:.2f}"
            cells += [DASH] * 3 if score is None else [f"{score:.2f}", placed, spread]
        if several:
            cells.append(number(values[overall_column(dimensions)], 2))
        rows.append([printable(short(text, _SCORED)), *cells])
    return PlainTable("", heads, rows)


def ladder_view(
    ladders: LadderSet, ladder: Ladder, dimension: Dimension, outputs: Sequence[PlacedOutput]
) -> list[RenderableType]:
    """Show the context and its ladder with the outputs placed on it, best first, and explain spreads."""
    shown: list[RenderableType] = []
    context = ladders.contexts.get(ladder.context_id)
    if context is not None:
        shown.append(Text(printable(f"{context.id}: {short(context.text, _ON_LADDER)}")))
    title = f"{dimension.name} ({dimension.low:g} to {dimension.high:g}): {dimension.description}"
    table = Table(box=box.SIMPLE_HEAD, title=Text(title), title_justify="left")
    for head in ("grade", "spread", "score"):
        table.add_column(head, justify="right")
    table.add_column("", no_wrap=True)
    table.add_column("text", overflow="fold")
    # Rung i of N has the grade at (i - 1/2)/N of the scale: that of a text that equals it (rules.expected_grades).
    lines: list[tuple[float, str, tuple[str, ...]]] = []
    step = (dimension.high - dimension.low) / len(ladder.rungs)
    for rung in ladder.rungs:
        grade = dimension.low + step * (rung.level - 0.5)
        text = short(rung.text, _ON_LADDER)
        lines.append((grade, "", (f"{grade:.2f}", "", "", f"rung {rung.level}", text)))
    unscored = []
    for output in outputs:
        name = f"  {output.id}"
        spread = "" if output.spread is None else f"{output.spread:.2f}"
        if output.grade is None or output.score is None:
            reason = output.note or "no reason given"
            if output.score is None:
                spread, reason = "", f"not scored: {reason}"
            unscored.append((0.0, "", (DASH, spread, number(output.score, 2), name, reason)))
            continue
        figures = (f"{output.grade:.2f}", spread, f"{output.score:.2f}")
        text = short(output.text, _ON_LADDER)
        lines.append((output.grade, "bold", (*figures, name, text)))
    for _, style, cells in (*sorted(lines, key=lambda line: -line[0]), *unscored):
        table.add_row(*(Text(printable(cell), style=style) for cell in cells))
    shown.append(table)
    if any(output.spread is not None for output in outputs):
        shown.append(Text(SPREAD_LEGEND))
    return shown
