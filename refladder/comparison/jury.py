"""jury: tables of several judges that score the same texts -> one grade for each text, and how judges are in step."""

from __future__ import annotations

from array import array
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from refladder.arrays import known
from refladder.comparison.jury_results import JuryReport, Member
from refladder.comparison.jury_statistics import combined, in_step, least_in_step, spreads
from refladder.comparison.same_texts import (
    TextNumbers,
    fields_of,
    matching,
    other_texts,
    said_in,
    shared_id,
    text_key,
)
from refladder.errors import DataError, UsageError, option, plural
from refladder.files.tables import (
    Row,
    format_of,
    number_in,
    open_sink,
    read_rows,
    read_twice,
    refuse_judgments,
    source_name,
    standard_form,
)
from refladder.loaders.input_rows import Mapped
from refladder.loaders.scored_tables import OneScale, overall_of, reported, run_of
from refladder.records import digest_of
from refladder.signatures import (
    GRADE,
    criteria_of,
    differing_ladders,
    is_placed,
    judge_of,
    judged_by,
    jury_signature,
    same_scale,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from refladder.arrays import FloatArray, IntArray
    from refladder.events import Events
    from refladder.records import Progress

# Endings of the columns of a criterion that `score` and `jury` add.
_ENDINGS = (
    *("score", "grade", "spread", "mass", "note", "anchor_spread", "score_low", "score_high"),
    *("judges", "linked"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JurySettings:
    """How grades become one: by mean or `median`, of at least this number of members; None for half, rounded up.

    With `same_judge`, several members may be one judge. `columns` maps fields to columns of the tables that have these.
    """

    median: bool = False
    least: int | None = None
    same_judge: bool = False
    columns: Mapping[str, str] | None = None


class _Source(NamedTuple):
    """A table that is read twice: what it is called, its path and format, its columns, and the columns of its fields."""

    name: str
    path: str
    form: str
    head: list[str]
    fields: dict[str, str]


class _Member(NamedTuple):
    """The grades in a table."""

    name: str
    signature: str
    grades: TextNumbers


def jury(tables: Sequence[str], out: str, asked: JurySettings, events: Events) -> JuryReport:
    """Write a row for each text with the jury's grades, and compare each member with the others.

    Rows are in the order of the first table, then those that only later tables have. They have the columns of the first
    table without those of its scores.
    """
    least = _least(asked.least, len(tables))
    with ExitStack() as stack:
        sources = _sources(tables, asked.columns or {}, stack)
        id_field = shared_id([each.head for each in sources], [each.fields for each in sources])
        with events.progress("reading") as progress:
            members = [_read(each, id_field, progress) for each in sources]
        _check(members, same_judge=asked.same_judge)
        texts = _Texts(members, id_field)
        if texts.differing:
            names = ", ".join(member.name for member in members)
            events.notice(other_texts(names, texts.differing, id_field), warns=True)
        stems = criteria_of(members[0].signature)
        signature = _signature(members, "median" if asked.median else "mean")
        described = _described(members, texts, stems, median=asked.median)
        pooled = [
            [each.pooled for each in described[n :: len(members)]] for n in range(len(members))
        ]
        least_fitting = least_in_step(pooled)
        dropped = _columns_of_scores(stems)
        kept = [name for name in sources[0].head if name not in dropped]
        record = {
            "command": "jury",
            "signature": signature,
            "options": {"columns": sources[0].fields},
            "scales": _scales(tables, stems),
        }
        form = standard_form(out, sources[0].form)
        write = stack.enter_context(open_sink(out, form, _added(stems), kept, record=record))
        values = _Values(texts.grades, stems, least, signature, median=asked.median)
        rows = graded = 0
        with events.progress("writing") as progress:
            for _, (row, place) in reported(_rows(sources, kept, texts), progress):
                cells = values.of(place)
                write(row, cells)
                rows += 1
                graded += all(cells[column] is not None for column in _grades(stems))
    return JuryReport(
        rows=rows,
        graded=graded,
        members=tuple(described),
        fits_least=None if least_fitting is None else members[least_fitting].name,
        signature=signature,
        kept=tuple(kept),
    )


def _least(given: int | None, members: int) -> int:
    if members < 2:
        raise UsageError(
            f"{plural(members, 'table')}: a jury needs two or more, each with the grades of one judge"
        )
    least = -(-members // 2) if given is None else given
    if not 1 <= least <= members:
        raise UsageError(
            f"{option('least')} {least}: give 1 to {members}, which is the number of members"
        )
    return least


def _sources(tables: Sequence[str], given: Mapping[str, str], stack: ExitStack) -> list[_Source]:
    """Open each table so that it can be read twice."""
    paths, heads = [], []
    for table in tables:
        form = format_of(table)
        path = stack.enter_context(read_twice(table, form))
        rows = read_rows(path, form)
        stack.callback(rows.close)
        head = rows.columns() or []
        refuse_judgments(source_name(table), head)
        paths.append((path, form))
        heads.append(head)
    fields = fields_of(tables, heads, given)
    return [
        _Source(source_name(table), path, form, head, of)
        for table, (path, form), head, of in zip(tables, paths, heads, fields, strict=True)
    ]


def _read(source: _Source, id_field: str, progress: Progress | None) -> _Member:
    """Read the grades of a table; a text that is there twice has the same grades."""
    signature: object = None
    columns: list[str] = []
    grades = TextNumbers(0)
    check_scale = OneScale(())
    mapped = Mapped(columns=source.fields, alone=True)
    for _, row in reported(read_rows(source.path, source.form), progress):
        if signature is None:
            signature = row.signature
            columns = _grades(_criteria(source.name, signature))
            grades = TextNumbers(len(columns))
            check_scale = OneScale(columns)
        numbers = [number_in(row, column) for column in columns]
        if any(number is not None for number in numbers):
            check_scale(row)
        key = _key(row, mapped, id_field)
        before, same = grades.add(key, numbers, row.where, said_in(row, mapped)) or ("", True)
        if before and id_field:
            raise DataError(
                f"{row.where}: the {id_field} {key[1]!r:.60} is in {before} too; ids must be unique in a context"
            )
        if not same:
            raise DataError(
                f"{row.where}: another grade of the same context and text is in {before}; keep one of these rows"
            )
    if np.isnan(grades.numbers).all():
        raise DataError(
            f"{source.name}: no row has a grade, and a jury needs grades of `refladder score` on a ladder set"
        )
    return _Member(source.name, str(signature), grades)


def _criteria(name: str, signature: object) -> list[str]:
    """Return the criteria that a signature names; refuse grades that are no places on a ladder."""
    stems = criteria_of(signature)
    if not stems:
        raise DataError(
            f"{name}: the signature {str(signature or 'is missing')!r:.80} names no criteria, so it is of no ladder set, or "
            "of an earlier version of refladder; score these texts, or run `refladder rescore` with their judgments"
        )
    if not is_placed(signature):
        raise DataError(
            f"{name}: the grades of {judge_of(signature)} are no places among rungs that the judge has read, and a jury "
            "needs these; score with a ladder set, by comparisons or with a rating alone"
        )
    return stems


def _key(row: Row, mapped: Mapped, id_field: str) -> tuple[str, str]:
    """Return what a row is matched by; a row that has neither id nor text is one of its own."""
    return text_key(row, mapped, id_field) or ("", f"\0{row.where}")


def _check(members: Sequence[_Member], *, same_judge: bool) -> None:
    """Check that the grades are on one ladder, and that each member is another judge."""
    for other in members[1:]:
        if apart := differing_ladders(members[0].signature, other.signature):
            raise DataError(
                f"{members[0].name} and {other.name} have grades on different scales: {apart[0]} and {apart[1]}; score both "
                "with the same ladder set, anchors and criteria"
            )
    for one, other in combinations(members, 2):
        if not same_judge and same_scale(one.signature, other.signature):
            raise UsageError(
                f"{one.name} and {other.name} are of the same judge ({judge_of(one.signature)}), and one judge twice is no "
                f"jury; leave one out, or give {option('same-judge')}"
            )


class _Texts:
    """All texts: `grades`, shape (members, texts, columns), and `contexts`; empty where one is not known."""

    def __init__(self, members: Sequence[_Member], id_field: str) -> None:
        self.id_field = id_field
        self._by_context, matched = matching([each.grades for each in members], id_field)
        self._places: dict[object, int] = {}
        self.contexts: list[str] = []
        # How many texts have other words in a later table than in the first that has them.
        self.differing = 0
        said = array("q")
        at: list[IntArray] = []
        for member in members:
            places = []
            for key, words in zip(member.grades.texts, member.grades.said, strict=True):
                place = self._places.setdefault(self._of(key), len(self._places))
                if place == len(self.contexts):
                    self.contexts.append(key[0])
                    said.append(words)
                self.differing += len({said[place], words} - {0}) > 1
                places.append(place)
            at.append(np.array(places, dtype=np.int64))
        if not np.any(np.bincount(np.concatenate(at)) > 1):
            names = ", ".join(member.name for member in members)
            raise DataError(
                f"{names}: no row is in two of these tables (matched by {matched}); score the same texts with each judge"
            )
        columns = members[0].grades.numbers.shape[1]
        self.grades = np.full((len(members), len(self.contexts), columns), np.nan)
        for number, (member, places_of) in enumerate(zip(members, at, strict=True)):
            self.grades[number, places_of] = member.grades.numbers

    def _of(self, key: tuple[str, str]) -> object:
        return key if self._by_context else key[1]

    def place(self, row: Row, mapped: Mapped) -> int:
        """Return the place of a row that was read before."""
        return self._places[self._of(_key(row, mapped, self.id_field))]


def _signature(members: Sequence[_Member], how: str) -> str:
    """Return the signature of the grades; the digest does not depend on the order of the members."""
    signatures = [member.signature for member in members]
    digest = digest_of(*sorted(map(judged_by, signatures)), size=6)
    return jury_signature(signatures, f"{how}@{digest}")


def _described(
    members: Sequence[_Member], texts: _Texts, stems: Sequence[str], *, median: bool
) -> list[Member]:
    """Compare each member with the others, criterion by criterion."""
    described = []
    for number, stem in enumerate(stems):
        steps = in_step(texts.grades[:, :, number], texts.contexts, median=median)
        for member, step in zip(members, steps, strict=True):
            judge = judge_of(member.signature)
            described.append(
                Member(table=member.name, judge=judge, dimension=stem, **step._asdict())
            )
    return described


class _Values:
    """The cells of a text: its grades, or why it has none."""

    def __init__(
        self,
        grades: FloatArray,
        stems: Sequence[str],
        least: int,
        signature: str,
        *,
        median: bool,
    ) -> None:
        self._stems, self._least, self._signature = stems, least, signature
        self._members = len(grades)
        self._counts = (~np.isnan(grades)).sum(axis=0)
        enough = self._counts >= least
        self._grades = np.where(enough, combined(grades, median=median), np.nan)
        self._spreads = np.where(enough, spreads(grades), np.nan)

    def of(self, place: int) -> dict[str, object]:
        """Return the cells of a text."""
        cells: dict[str, object] = {}
        for number, stem in enumerate(self._stems):
            judges = int(self._counts[place, number])
            note = None
            if judges < self._members:
                note = f"{judges} of {self._members} judges gave a grade"
                note += f"; {self._least} are needed" if judges < self._least else ""
            cells[f"{stem}{GRADE}"] = known(self._grades[place, number])
            cells[f"{stem}_spread"] = known(self._spreads[place, number])
            cells[f"{stem}_judges"] = judges
            cells[f"{stem}_note"] = note
        if len(self._stems) > 1:
            cells[_grades(self._stems)[-1]] = known(self._grades[place, -1])
        cells["signature"] = self._signature
        return cells


def _grades(stems: Collection[str]) -> list[str]:
    """Return the columns of grades, those of criteria first."""
    weighted = [f"{overall_of(stems).removesuffix('_score')}{GRADE}"] if len(stems) > 1 else []
    return [*(f"{stem}{GRADE}" for stem in stems), *weighted]


def _added(stems: Sequence[str]) -> dict[str, type]:
    """Return the added columns with their types."""
    added: dict[str, type] = {}
    for stem in stems:
        added |= {f"{stem}{GRADE}": float, f"{stem}_spread": float, f"{stem}_judges": float}
        added[f"{stem}_note"] = str
    return added | dict.fromkeys(_grades(stems)[len(stems) :], float) | {"signature": str}


def jury_columns(signature: object) -> dict[str, type]:
    """Return the columns that a jury adds to rows with such grades, with their types."""
    return _added(criteria_of(signature))


def _columns_of_scores(stems: Collection[str]) -> set[str]:
    """Return the columns of one judge's scores, which are not a jury's."""
    weighted = overall_of(stems).removesuffix("_score") if len(stems) > 1 else ""
    of_stems = {f"{stem}_{ending}" for stem in stems for ending in _ENDINGS}
    return {*of_stems, f"{weighted}_score", f"{weighted}{GRADE}", "signature"}


def _scales(tables: Sequence[str], stems: Collection[str]) -> dict[str, tuple[float, float]]:
    """Return the ends of the columns of grades, as far as a table's run.json has them."""
    scales: dict[str, tuple[float, float]] = {}
    for table in reversed(tables):
        known_scales = run_of(table).scales or {}
        scales |= {name: known_scales[name] for name in _grades(stems) if name in known_scales}
    return scales


def _rows(
    sources: Sequence[_Source], kept: Sequence[str], texts: _Texts
) -> Iterator[tuple[Row, int]]:
    """Yield the rows of the first table, and those of others that no earlier one has, with the place of their text."""
    field_of = {column: field for field, column in sources[0].fields.items()}
    written: set[int] = set()
    for source in sources:
        mapped = Mapped(columns=source.fields, alone=True)
        names = [field_of.get(name, name) for name in kept]
        cells = [source.fields.get(name, name) for name in names]
        if source is sources[0]:
            cells = list(kept)
        for row in read_rows(source.path, source.form):
            place = texts.place(row, mapped)
            if source is not sources[0] and place in written:
                continue
            written.add(place)
            fields = {name: row.fields.get(cell) for name, cell in zip(kept, cells, strict=True)}
            yield Row(row.where, fields), place
