"""refladder show."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from refladder.cli import console
from refladder.errors import UnknownNameError

if TYPE_CHECKING:
    from refladder.files.ladder_sets import LadderSet
    from refladder.records import Dimension, Ladder

_LONG = 300  # characters of a text that a table shows


@click.command(short_help="Print the ladder of a context, with scored outputs on it.")
@click.argument("ladders", metavar="SET", shell_complete=console.names_of("ladders"))
@click.argument("context_id", required=False)
@console.DIMENSION
@click.option("--scores", metavar="FILE", help="Scored rows of `refladder score` to place on the ladder.")
@console.JSON
def command(
    *, ladders: str, context_id: str | None, dimension: tuple[str, ...], scores: str | None, as_json: bool
) -> None:
    """Print the ladder of CONTEXT_ID in SET, best rung first. Without CONTEXT_ID, list the contexts.

    Long texts are shortened; --json prints them in full.
    """
    from refladder.files.jsonl import to_json  # noqa: PLC0415  --help stays quick
    from refladder.files.ladder_sets import choose_dimensions, read_ladder_set  # noqa: PLC0415

    opened = read_ladder_set(ladders)
    dimensions = choose_dimensions(opened.dimensions, dimension)
    known = list(dict.fromkeys(context for context, _ in opened.ladders))
    if context_id is None:
        for name in known:
            text = opened.contexts[name].text if name in opened.contexts else ""
            line = {"context_id": name, "text": text}
            if as_json:
                click.echo(console.printable_json(json.dumps(line, ensure_ascii=False)))
            else:
                console.say(f"{name}  {console.short(text, 70)}")
        return
    if context_id not in known:
        raise UnknownNameError("context", context_id, known)
    for chosen in dimensions:
        ladder = opened.ladders.get((context_id, chosen.name))
        if ladder is None:
            console.say(f"no {chosen.name} ladder for {context_id}", err=True)
            continue
        placed = _placed(scores, context_id, chosen) if scores else []
        if as_json:
            click.echo(console.printable_json(to_json({**_plain(ladder), "outputs": placed}).decode()))
        else:
            _print(opened, ladder, chosen, placed)


def _plain(ladder: Ladder) -> dict[str, Any]:
    rungs = [{"level": rung.level, "text": rung.text} for rung in ladder.rungs]
    return {"context_id": ladder.context_id, "dimension": ladder.dimension, "rungs": rungs}


def _placed(path: str, context_id: str, dimension: Dimension) -> list[dict[str, Any]]:
    """Scored rows of the context, best first; those without a score last."""
    from refladder.errors import DataError  # noqa: PLC0415
    from refladder.files.tables import number_in, read_rows  # noqa: PLC0415
    from refladder.scoring.columns import column_names  # noqa: PLC0415

    score, grade, spread, _, note = column_names(dimension.name)
    found = []
    for row in read_rows(path):
        missing = [name for name in ("context_id", "output", score, grade) if name not in row.fields]
        if missing:
            raise DataError(
                f"{row.where}: no column {missing[0]!r}; needs context_id, output, {score} and {grade}, as "
                f"`refladder score` writes them. Columns there: {', '.join(map(str, row.fields)) or 'none'}"
            )
        if row.fields["context_id"] == context_id:
            name = str(row.fields.get("output_id") or row.fields.get("system") or row.where)
            found.append(
                {
                    "id": name,
                    "text": str(row.fields["output"]),
                    "score": number_in(row, score),
                    "grade": number_in(row, grade),
                    "spread": number_in(row, spread) if spread in row.fields else None,
                    "note": row.fields.get(note),
                }
            )
    return sorted(found, key=lambda entry: (entry["grade"] is None, -(entry["grade"] or 0.0)))


def _print(opened: LadderSet, ladder: Ladder, dimension: Dimension, placed: list[dict[str, Any]]) -> None:
    from rich import box  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    from refladder.scoring.columns import SPREAD_LEGEND  # noqa: PLC0415

    context = opened.contexts.get(ladder.context_id)
    out = console.console()
    if context is not None:
        out.print(Text(f"{context.id}: {console.printable(console.short(context.text, _LONG))}"))
    title = f"{dimension.name} ({dimension.low:g} to {dimension.high:g}): {dimension.description}"
    table = Table(box=box.SIMPLE_HEAD, title=Text(title), title_justify="left")
    table.add_column("grade", justify="right")
    table.add_column("spread", justify="right")
    table.add_column("score", justify="right")
    table.add_column("", no_wrap=True)
    table.add_column("text", overflow="fold")
    # Rung i of N stands at (i - 1/2)/N of the scale: where a text that equals it would (rules.expected_grades).
    lines: list[tuple[float, int, tuple[str, ...]]] = []
    for rung in ladder.rungs:
        grade = dimension.low + (dimension.high - dimension.low) * (rung.level - 0.5) / len(ladder.rungs)
        lines.append((grade, 0, (f"{grade:.2f}", "", "", f"rung {rung.level}", console.short(rung.text, _LONG))))
    for entry in placed:
        if entry["grade"] is not None and entry["score"] is not None:
            cells: tuple[str, ...] = (
                f"{entry['grade']:.2f}",
                "" if entry["spread"] is None else f"{entry['spread']:.2f}",
                f"{entry['score']:+.2f}",
                f"  {entry['id']}",
                console.short(entry["text"], _LONG),
            )
            lines.append((entry["grade"], 1, cells))
    for _, is_output, cells in sorted(lines, key=lambda line: -line[0]):
        table.add_row(*(Text(console.printable(cell), style="bold" if is_output else "") for cell in cells))
    for entry in placed:
        if entry["grade"] is None or entry["score"] is None:
            reason = console.printable(f"not scored: {entry['note'] or 'no reason given'}")
            table.add_row("—", "", "—", Text(f"  {entry['id']}"), Text(reason))
    out.print(table)
    if any(entry["spread"] is not None for entry in placed):
        click.echo(SPREAD_LEGEND)
