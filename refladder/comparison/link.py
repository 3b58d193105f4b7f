"""link: two tables that score the same texts -> maps of columns of one to the scale of the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from refladder.comparison import column_maps
from refladder.comparison.decisions import deciding_cutoffs
from refladder.comparison.same_texts import (
    TextNumbers,
    columns_of,
    fields_of,
    matching,
    other_texts,
    said_in,
    shared_id,
    text_key,
)
from refladder.errors import DataError, UsageError, either
from refladder.files.jsonl import write_record
from refladder.files.tables import number_in, read_rows
from refladder.loaders.input_rows import Mapped
from refladder.loaders.scored_tables import OneScale, reported
from refladder.records import COLUMN, Decisions, Link, LinkedColumn
from refladder.signatures import OF_SCORES, same_scale
from refladder.version import __version__

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

    from refladder.arrays import FloatArray, IntArray
    from refladder.events import Events
    from refladder.records import Progress

# The least numbers of texts for a map, for the interval of a single text, and for that of the map.
LEAST_TEXTS, LEAST_FOR_TEXT, LEAST_FOR_MAP = 10, 20, 50
# A map of 10,000 texts, drawn with seed 0, is exact enough; one of a million would take minutes.
MOST_TEXTS = 10_000


class _Table(NamedTuple):
    """The scores of a table: the columns that are linked, and their signature."""

    name: str
    columns: list[str]
    signature: str
    scores: TextNumbers


def link(
    tables: tuple[str, str],
    columns: tuple[str, str] | None,
    events: Events,
    *,
    at: float | None = None,
    given: Mapping[str, str] | None = None,
    out: Path | None = None,
) -> Link:
    """Map the scores in columns of the first table to the scale of the second one.

    Without `columns`, each NAME_score and NAME_grade that both tables have is mapped. Texts are matched by their ids,
    and by their contexts too where an id is in several; else by context and text. Decisions are counted at the cut-off
    `at`, else at those that decide something. `given` maps fields to columns of the tables that have these.
    """
    heads = [columns_of(table) for table in tables]
    chosen = _in_both(tables, heads) if columns is None else [[name] for name in columns]
    fields = fields_of(tables, heads, given or {})
    id_column = shared_id(heads, fields)
    with events.progress("reading") as progress:
        first, second = (
            _read(table, its, of, id_column, progress)
            for table, its, of in zip(tables, chosen, fields, strict=True)
        )
    both = f"{first.name} and {second.name}"
    signed = not first.signature.startswith(COLUMN)
    if columns is None and signed and same_scale(first.signature, second.signature):
        raise UsageError(
            f"{both} have the same signature, so their scores are on one scale already"
        )
    by_context, matched = matching((first.scores, second.scores), id_column)
    one, other, contexts, differing = _common(first.scores, second.scores, by_context=by_context)
    if differing:
        events.notice(other_texts(both, differing, id_column), warns=True)
    linked, lacking = [], []
    with events.progress("linking") as progress:
        names = zip(first.columns, second.columns, strict=True)
        for number, pair in enumerate(names):
            if progress is not None:
                progress(number, len(first.columns))
            texts = np.flatnonzero(~np.isnan(one[:, number] + other[:, number]))
            if len(texts) < LEAST_TEXTS:
                lacking.append(
                    f"{both}: {len(texts)} texts have a score in {pair[0]} and {pair[1]} (matched by {matched}), and at "
                    f"least {LEAST_TEXTS} are needed"
                )
            else:
                scores = one[texts, number], other[texts, number]
                linked.append(
                    _linked(pair, scores, [contexts[text] for text in texts.tolist()], at)
                )
    if not linked:
        raise DataError(f"{lacking[0]}; score the same texts twice")
    for line in lacking:
        events.notice(f"{line}; it is not in the link", warns=True)
    record = Link(
        from_signature=first.signature,
        to_signature=second.signature,
        columns=tuple(linked),
        version=__version__,
    )
    if out is not None:
        write_record(out, record)
    return record


def _in_both(tables: Sequence[str], heads: Sequence[Collection[str]]) -> list[list[str]]:
    """Return the columns NAME_score and NAME_grade that both tables have."""
    endings = "_score", "_grade"
    names = [name for name in heads[0] if name in heads[1] and str(name).endswith(endings)]
    if not names:
        both = f"{either('--from-by', 'by')} and {either('--to-by', 'to_by')}"
        raise UsageError(
            f"{' and '.join(tables)}: no column NAME_score or NAME_grade is in both; name scored tables, or a column of "
            f"each with {both}"
        )
    return [names, names]


def _read(
    table: str,
    columns: list[str],
    fields: dict[str, str],
    id_column: str,
    progress: Progress | None,
) -> _Table:
    """Read the scores by context and id, or by context and text; the signature is `column:NAME` where there is none."""
    mapped = Mapped(columns=fields, alone=True)
    of_scores = [name for name in columns if name.endswith(OF_SCORES)]
    check_scale = OneScale(of_scores)
    signature: object = ""
    scores = TextNumbers(len(columns))
    for _, row in reported(read_rows(table), progress):
        numbers = [number_in(row, column) for column in columns]
        text = text_key(row, mapped, id_column)
        if text is None or all(number is None for number in numbers):
            continue
        if row.signature != signature:
            check_scale(row)
            signature = row.signature
        before, same = scores.add(text, numbers, row.where, said_in(row, mapped)) or ("", True)
        if not same:
            what = f"the {id_column} {text[1]!r:.60}" if id_column else "the same context and text"
            raise DataError(
                f"{row.where}: another score of a text with {what} is in {before}; keep one of these rows"
            )
    named = signature if of_scores else None
    return _Table(table, columns, str(named or f"{COLUMN}{', '.join(columns)}"), scores)


def _common(
    first: TextNumbers, second: TextNumbers, *, by_context: bool
) -> tuple[FloatArray, FloatArray, list[str], int]:
    """Return the scores of the texts that both tables have, shape (texts, columns), their contexts, and how many differ."""
    others: Mapping[Any, int] = second.texts
    if not by_context:
        others = {text_id: place for (_, text_id), place in others.items()}
    contexts, places, differing = [], [], 0
    for text, place in first.texts.items():
        other = others.get(text if by_context else text[1])
        if other is not None:
            contexts.append(text[0])
            places.append((place, other))
            said = {first.said[place], second.said[other]}
            differing += len(said - {0}) > 1
    one, two = np.array(places, dtype=np.int64).reshape(-1, 2).T
    return first.numbers[one], second.numbers[two], contexts, differing


def _linked(
    columns: tuple[str, str],
    scores: tuple[FloatArray, FloatArray],
    contexts: Sequence[str],
    at: float | None,
) -> LinkedColumn:
    """Map one column to the scale of another."""
    drawn = np.arange(len(contexts))
    if len(drawn) > MOST_TEXTS:
        drawn = np.sort(np.random.default_rng(0).choice(len(drawn), MOST_TEXTS, replace=False))
    one, other = (each[drawn] for each in scores)
    units = _units([contexts[place] for place in drawn.tolist()])
    values = column_maps.held_out(one, other)
    residuals = {name: np.abs(each - other) for name, each in values.items()}
    best = column_maps.best_of(residuals)
    used = column_maps.map_of(
        residuals, one, other, units, has_interval=len(units) >= LEAST_FOR_MAP
    )
    slope, shift = column_maps.line_of(one, other)
    errors = {f"{name}_error": float(np.mean(each)) for name, each in residuals.items()}
    decisions = []
    for cut in (deciding_cutoffs(other) if at is None else np.array([at])).tolist():
        changes = column_maps.changes_at(cut, one, other, values[best])
        decisions.append(Decisions(at=cut, **changes._asdict()))
    return LinkedColumn(
        column=columns[0],
        to_column=columns[1],
        scores=tuple(used.scores.tolist()),
        values=tuple(used.values.tolist()),
        least=tuple(used.least.tolist()),
        most=tuple(used.most.tolist()),
        half_width=(
            column_maps.half_width(residuals[best]) if len(units) >= LEAST_FOR_TEXT else None
        ),
        slope=slope,
        shift=shift,
        rows=len(units),
        common=len(contexts),
        contexts=len(set(units.tolist())),
        map=best,
        error=errors[f"{best}_error"],
        decisions=tuple(decisions),
        **errors,
    )


def _units(contexts: Sequence[str]) -> IntArray:
    """Return what is resampled: contexts where these are known and enough, else texts."""
    units = np.unique(contexts, return_inverse=True)[1].astype(np.int64)
    if "" in contexts or int(units.max()) + 1 < LEAST_TEXTS:
        return np.arange(len(contexts), dtype=np.int64)
    return units
