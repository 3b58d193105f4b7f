"""show: the ladders of a context, with scored outputs on them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from refladder.errors import DataError, UnknownNameError
from refladder.files.ladder_sets import choose_dimensions
from refladder.files.outputs import record_of
from refladder.files.tables import number_in, read_rows
from refladder.loaders.fields import without_number
from refladder.loaders.linker import open_link
from refladder.loaders.scored_tables import run_of
from refladder.records import names_of
from refladder.scoring.columns import column_names
from refladder.scoring.judge_check import check_lines

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from refladder.files.ladder_sets import LadderSet
    from refladder.files.tables import Row
    from refladder.records import Dimension, Ladder, Link


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedOutput:
    """An output with a place on a ladder; numbers are None where it has no score, and the note says why."""

    id: str
    text: str
    score: float | None
    grade: float | None
    spread: float | None
    note: str | None


class Shown(NamedTuple):
    """A dimension of a context, its ladder (None where the set has none), and the outputs on it, best first."""

    dimension: Dimension
    ladder: Ladder | None
    outputs: list[PlacedOutput]


def contexts_in(ladders: LadderSet, dimensions: Sequence[str] = ()) -> list[dict[str, str]]:
    """Return the contexts that have ladders of these dimensions, with their texts: empty for a set without texts."""
    chosen = names_of(choose_dimensions(ladders.dimensions, dimensions))
    texts = {}
    for context_id, name in ladders.ladders:
        if name in chosen:
            context = ladders.contexts.get(context_id)
            texts[context_id] = "" if context is None else context.text
    return [{"context_id": context_id, "text": text} for context_id, text in texts.items()]


def ladders_of(
    ladders: LadderSet,
    context_id: str,
    dimensions: Sequence[str],
    scores: str | None = None,
    link: Path | Link | None = None,
) -> list[Shown]:
    """Return the ladders of a context."""
    chosen = choose_dimensions(ladders.dimensions, dimensions)
    if context_id not in ladders.context_ids:
        raise UnknownNameError("context", context_id, ladders.context_ids)
    shown = []
    for dimension in chosen:
        ladder = ladders.ladders.get((context_id, dimension.name))
        outputs: list[PlacedOutput] = []
        if scores and ladder is not None:
            outputs = _placed(scores, context_id, dimension, link)
        shown.append(Shown(dimension, ladder, outputs))
    return shown


def check_of_scores(path: str) -> list[str]:
    """Say what the check of the judge found that scored rows of a file, as far as its record says."""
    shown, warnings = check_lines(record_of(path).judge_check or [])
    return shown + warnings


def ladder_json(ladder: Ladder, outputs: Sequence[PlacedOutput]) -> dict[str, Any]:
    """Return a ladder and the outputs on it as JSON values."""
    rungs = [{"level": rung.level, "text": rung.text} for rung in ladder.rungs]
    return {
        "context_id": ladder.context_id,
        "dimension": ladder.dimension,
        "rungs": rungs,
        "outputs": list(map(asdict, outputs)),
    }


def _placed(
    path: str, context_id: str, dimension: Dimension, link: Path | Link | None
) -> list[PlacedOutput]:
    """Return scored rows of the context, best first; those without a score last."""
    names = column_names(dimension.name)
    linker = open_link(link)

    def linked(row: Row, column: str) -> float | None:
        number = number_in(row, column)
        if number is None or linker is None:
            return number
        if not linker.maps(row.signature, row.where):
            return number
        if column not in linker.columns:
            # A link of one column has no place for the other.
            return None
        return linker.value(column, number, row.where)[0]

    record, entries = run_of(path), []
    fields = ("context_id", "output", "output_id", "system")
    context, text, *named = [record.columns.get(field, field) for field in fields]
    for row in read_rows(path):
        ids = [context] if record.context_id is None else []
        needed = [*ids, text, names.score, names.grade]
        missing = [name for name in needed if name not in row.fields]
        if missing:
            raise DataError(
                f"{row.where}: no column {missing[0]!r}; needs {', '.join(needed[:-1])} and {names.grade}, as `refladder "
                f"score` writes them. Columns there: {', '.join(map(str, row.fields)) or 'none'}"
            )
        if (record.context_id or without_number(row.fields[context])) == context_id:
            name = next(filter(None, map(row.fields.get, named)), row.where)
            entries.append(
                PlacedOutput(
                    id=str(name),
                    text=str(row.fields[text]),
                    score=linked(row, names.score),
                    grade=linked(row, names.grade),
                    spread=number_in(row, names.spread) if names.spread in row.fields else None,
                    note=row.fields.get(names.note),
                )
            )
    by_score = linker is not None and names.grade not in linker.columns
    ranked_by = attrgetter("score" if by_score else "grade")
    return sorted(entries, key=lambda entry: (ranked_by(entry) is None, -(ranked_by(entry) or 0.0)))
