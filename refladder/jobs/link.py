"""link: two tables that score the same texts -> maps of columns of one to the scale of the other."""

from __future__ import annotations

import math
from array import array
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from refladder.errors import DataError, UsageError, either, option
from refladder.files.jsonl import read_record, write_record
from refladder.files.tables import number_in, read_rows
from refladder.jobs.same_texts import columns_of, fields_of, shared_id, text_key
from refladder.loaders.input_rows import Mapped
from refladder.loaders.scored_tables import OneScale, reported
from refladder.records import COLUMN, Decisions, Link, LinkedColumn
from refladder.signatures import OF_SCORES, is_older, is_revised, same_scale, with_earlier_sets
from refladder.statistics import column_maps
from refladder.statistics.decisions import deciding_cutoffs
from refladder.version import __version__

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

    from refladder.arrays import FloatArray, IntArray
    from refladder.events import Events
    from refladder.files.tables import Row
    from refladder.records import Progress

# The least numbers of texts for a map, for the interval of a single text, and for that of the map.
LEAST_TEXTS, LEAST_FOR_TEXT, LEAST_FOR_MAP = 10, 20, 50
# A map of 10,000 texts, drawn with seed 0, is exact enough; one of a million would take minutes.
MOST_TEXTS = 10_000


class _Table(NamedTuple):
    """The scores of a table: the columns that are linked, and their signature.

    `texts` are the places of context and id of each text (or of a digest of both) in `scores`, shape (texts, columns),
    where NaN is none.
    """

    name: str
    columns: list[str]
    signature: str
    texts: dict[tuple[str, str], int]
    scores: FloatArray

    @property
    def recurs(self) -> bool:
        """Return whether an id is in several contexts."""
        return len({text_id for _, text_id in self.texts}) < len(self.texts)


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
    matched, by_context = id_column or "context and text", True
    if id_column:
        by_context = first.recurs or second.recurs
        matched += " and context" if by_context else ""
    one, other, contexts = _common(first, second, by_context=by_context)
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
    texts: dict[tuple[str, str], int] = {}
    places: list[str] = []
    scores = [array("d") for _ in columns]
    for _, row in reported(read_rows(table), progress):
        numbers = [number_in(row, column) for column in columns]
        text = text_key(row, mapped, id_column)
        if text is None or all(number is None for number in numbers):
            continue
        if row.signature != signature:
            check_scale(row)
            signature = row.signature
        place = texts.setdefault(text, len(texts))
        known = [math.nan if number is None else number for number in numbers]
        if place == len(places):
            places.append(row.where)
            for column, number in zip(scores, known, strict=True):
                column.append(number)
        elif not np.array_equal([column[place] for column in scores], known, equal_nan=True):
            what = f"the {id_column} {text[1]!r:.60}" if id_column else "the same context and text"
            raise DataError(
                f"{row.where}: another score of a text with {what} is in {places[place]}; keep one of these rows"
            )
    named = signature if of_scores else None
    return _Table(
        table,
        columns,
        str(named or f"{COLUMN}{', '.join(columns)}"),
        texts,
        np.array(scores, dtype=np.float64).T,
    )


def _common(
    first: _Table, second: _Table, *, by_context: bool
) -> tuple[FloatArray, FloatArray, list[str]]:
    """Return the scores of the texts that both tables have, shape (texts, columns), and the contexts of these texts."""
    others: Mapping[Any, int] = second.texts
    if not by_context:
        others = {text_id: place for (_, text_id), place in others.items()}
    contexts, places = [], []
    for text, place in first.texts.items():
        other = others.get(text if by_context else text[1])
        if other is not None:
            contexts.append(text[0])
            places.append((place, other))
    one, two = np.array(places, dtype=np.int64).reshape(-1, 2).T
    return first.scores[one], second.scores[two], contexts


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


def open_link(link: Path | Link | None) -> Linker | None:
    """Return a link, or the link in a file, ready to map numbers of rows; None for None."""
    if link is None:
        return None
    if isinstance(link, Link):
        return Linker(link, "the link")
    return Linker(read_record(Link, link), f"the link {link}")


class Linker:
    """Numbers of rows on the scale that a link maps to.

    `target_signature` is that of a threshold for this scale, None for the scale of a column. `revised` says whether a
    row has a later revision of the ladders. `columns` are the maps, by the column that they read.
    """

    def __init__(self, record: Link, name: str) -> None:
        self.target = record.to_signature
        self._from = record.from_signature
        self.target_signature = None if self.target.startswith(COLUMN) else self.target
        self.revised = False
        self.columns: Mapping[str, LinkedColumn] = {
            column.column: column for column in record.columns
        }
        self._name = name

    @property
    def has_intervals(self) -> bool:
        """Return whether its maps have an interval."""
        return all(column.least for column in self.columns.values())

    def rename(self, column: str) -> None:
        """Map a column of another name; only a link of one column can."""
        if len(self.columns) > 1:
            raise UsageError(
                f"{option('by')}: {self._name} maps several columns ({', '.join(self.columns)}) by their names; leave "
                f"{option('by')} out"
            )
        self.columns = dict(zip([column], self.columns.values(), strict=True))

    def maps(self, signature: object, where: str) -> bool:
        """Return whether scores with a signature are to be mapped: not if they are on the scale of the link already."""
        if self._from.startswith(COLUMN):
            # The rows have no signature, and the name of the column says what is mapped.
            return True
        for known in (self._from, self.target):
            self.revised |= is_revised(signature, known)
        mapped = same_scale(signature, self._from)
        if is_older(self._from, signature):
            raise DataError(
                f"{where}: an earlier version of refladder made {self._name}, and its signatures name no criteria; make "
                "it again with `refladder link`"
            )
        if not mapped and not same_scale(signature, self.target):
            raise DataError(
                f"{where}: {self._name} maps scores with the signature {self._from} to {self.target}, and "
                f"this row has {with_earlier_sets(signature or 'no signature')}; link this table with `refladder link`"
            )
        return mapped

    def added(self, columns: Collection[str]) -> dict[str, type]:
        """Return the columns that `values` adds to rows with these columns, and their type."""
        return {f"{name}_linked": float for name in self.columns if name in columns}

    def values(self, row: Row, added: Collection[str]) -> dict[str, float | None]:
        """Return the added columns of a row: its scores on the scale of the link, None without a score."""
        values: dict[str, float | None] = {}
        for name in added:
            column = name.removesuffix("_linked")
            score = number_in(row, column)
            if score is not None and self.maps(row.signature, row.where):
                score = self.value(column, score, row.where)[0]
            values[name] = score
        return values

    def value(self, column: str, number: float, where: str) -> list[float]:
        """Return a number of a column on the scale of the link, and the ends of its 95 % interval if the map has one."""
        linked = self.columns.get(column)
        if linked is None:
            raise DataError(
                f"{where}: {self._name} has no column {column!r}, only {', '.join(self.columns)}; filter by "
                "one of them"
            )
        lines = [line for line in (linked.values, linked.least, linked.most) if line]
        return [float(np.interp(number, linked.scores, line)) for line in lines]
