"""link for score columns: two tables that score the same texts -> a map of one column to the scale of the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from refladder.errors import DataError
from refladder.files.jsonl import write_record
from refladder.files.tables import number_in, read_rows
from refladder.loaders.draft import output_text_id
from refladder.loaders.input_rows import Mapped
from refladder.loaders.scored_tables import OneScale, mapped_columns
from refladder.records import COLUMN, Decisions, Link, LinkedColumn
from refladder.signatures import OF_SCORES
from refladder.statistics import column_maps
from refladder.statistics.linking import half_width
from refladder.version import __version__

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from refladder.files.tables import Row

# The least numbers of texts for a map, and for its intervals.
LEAST_TEXTS, LEAST_FOR_INTERVAL = 10, 20


class _Scored(NamedTuple):
    """The score, the context (empty if unknown) and the place of a text."""

    score: float
    context: str
    where: str


def link_columns(
    tables: tuple[str, str],
    columns: tuple[str, str],
    *,
    at: float | None = None,
    out: Path | None = None,
) -> Link:
    """Map the scores in a column of the first table to the scale of a column of the second one.

    Texts are matched by their ids, else by context and text. Decisions are counted at the cut-off `at`, else at the nine
    deciles of the target.
    """
    (first, second), (by, to_by) = tables, columns
    id_column = _shared_id(first, second)
    scored, from_signature = _read(first, by, id_column)
    others, to_signature = _read(second, to_by, id_column)
    common = [text for text in scored if text in others]
    if len(common) < LEAST_TEXTS:
        how = f"by {id_column}" if id_column else "by context and text"
        raise DataError(
            f"{first} and {second}: {len(common)} texts have a score in both (matched {how}), and at least "
            f"{LEAST_TEXTS} are needed; score the same texts twice"
        )
    one = np.array([scored[text].score for text in common])
    other = np.array([others[text].score for text in common])
    units = _units([scored[text].context for text in common])
    values = column_maps.held_out(one, other)
    residuals = {name: np.abs(each - other) for name, each in values.items()}
    best = column_maps.best_of(residuals)
    has_interval = len(common) >= LEAST_FOR_INTERVAL
    used = column_maps.map_of(residuals, one, other, units, has_interval=has_interval)
    slope, shift = column_maps.line_of(one, other)
    errors = {f"{name}_error": float(np.mean(each)) for name, each in residuals.items()}
    cuts = np.quantile(other, np.arange(1, 10) / 10, method="higher") if at is None else [at]
    decisions = []
    for cut in cuts:
        changes = column_maps.changes_at(cut, one, other, values[best])
        decisions.append(Decisions(at=float(cut), **changes._asdict()))
    record = Link(
        from_signature=from_signature,
        to_signature=to_signature,
        columns=(
            LinkedColumn(
                column=by,
                to_column=to_by,
                scores=tuple(used.scores.tolist()),
                values=tuple(used.values.tolist()),
                least=tuple(used.least.tolist()),
                most=tuple(used.most.tolist()),
                half_width=half_width(residuals[best]) if has_interval else None,
                slope=slope,
                shift=shift,
                rows=len(common),
                contexts=len(set(units.tolist())),
                map=best,
                error=errors[f"{best}_error"],
                decisions=tuple(decisions),
                **errors,
            ),
        ),
        version=__version__,
    )
    if out is not None:
        write_record(out, record)
    return record


def _shared_id(first: str, second: str) -> str:
    """Return the field of the ids that both tables have; empty for none, so that texts are compared."""
    columns: list[Collection[str]] = []
    for table in (first, second):
        mapped = mapped_columns(table)
        rows = read_rows(table)
        columns.append({*(rows.columns() or ()), *mapped})
        rows.close()
    for name in ("output_id", "id"):
        if name in columns[0] and name in columns[1]:
            return name
    return ""


def _read(table: str, column: str, id_column: str) -> tuple[dict[tuple[str, str], _Scored], str]:
    """Return the scores by id or by context and text, and the signature of the scores, `column:NAME` for none."""
    mapped = Mapped(columns=mapped_columns(table), alone=True)
    check_scale = OneScale([column])
    scored: dict[tuple[str, str], _Scored] = {}
    signature: object = None
    for row in read_rows(table):
        score = number_in(row, column)
        key = _key(row, mapped, id_column)
        if score is None or key is None:
            continue
        check_scale(row)
        if column.endswith(OF_SCORES):
            signature = row.fields.get("signature") or signature
        before = scored.setdefault(key, _Scored(score, _context(row, mapped), row.where))
        if before.score != score:
            what = f"the {id_column} {key[1]!r:.60}" if id_column else "the same context and text"
            raise DataError(
                f"{row.where}: another score of a text with {what} is in {before.where}; keep one of these rows"
            )
    return scored, str(signature or f"{COLUMN}{column}")


def _key(row: Row, mapped: Mapped, id_column: str) -> tuple[str, str] | None:
    if id_column:
        cell = row.fields.get(mapped.columns.get(id_column, id_column))
        return None if cell is None or cell == "" else ("", str(cell))
    text, _ = mapped.output_of(row)
    return None if text is None else ("", output_text_id(_context(row, mapped), text))


def _context(row: Row, mapped: Mapped) -> str:
    return mapped.context_of(row)[0] or ""


def _units(contexts: list[str]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return what is resampled: contexts where these are known and enough, else texts."""
    units = np.unique(contexts, return_inverse=True)[1].astype(np.int64)
    if "" in contexts or int(units.max()) + 1 < LEAST_TEXTS:
        return np.arange(len(contexts), dtype=np.int64)
    return units
