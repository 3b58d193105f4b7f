"""What commands that read scored rows share: the score column, the columns of `score`, and one scale."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from refladder.errors import DataError, UsageError, option
from refladder.files.outputs import RunOptions, RunRecord, read_record, record_of
from refladder.files.scored_folders import RUN
from refladder.files.streams import is_url
from refladder.files.tables import STANDARD, InMemory, is_many, refuse_judgments
from refladder.signatures import (
    GRADE,
    OF_SCORES,
    criteria_of,
    differing_parts,
    is_older,
    is_rating,
    same_scale,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from refladder.files.tables import Row, Rows
    from refladder.records import Progress

T = TypeVar("T")
# Rows between two reports.
_PROGRESS_EVERY = 8192
# The column of the weighted score of several dimensions; the second name is used where one is called overall.
OVERALL = "overall_score", "all_dimensions_score"
OVERALL_GRADES = "overall_grade", "all_dimensions_grade"
_OVER_JUDGES = (
    "Judges share this scale, and with two models a part of the decisions changes all the same: see "
    "docs/explanation/does-it-stay.md"
)


def overall_of(stems: Collection[str]) -> str:
    """Return the column of the weighted score of criteria whose columns begin with `stems`."""
    return OVERALL["overall" in stems]


def ranked_by(tables: Sequence[tuple[str, Rows]]) -> str:
    """Return the column that tables are ranked by where none is named: the grade if all are ratings with grades.

    Otherwise it is the score. Both are the weighted ones of several dimensions, or those of the only one.
    """
    columns = []
    for source, rows in tables:
        refuse_judgments(source, rows.columns() or ())
        first = rows.first()
        signature = None if first is None else first.signature
        columns.append((source, rows.columns() or [], signature))
    grades = [grade_column(names, signature) for _, names, signature in columns]
    if grades[0] is not None and len({*grades}) == 1:
        return grades[0]
    return _score_column(*columns[0])


def grade_column(names: Sequence[str], signature: object) -> str | None:
    """Return the column of the grade of ratings that rows are ranked by; None for other scores."""
    stems = criteria_of(signature)
    if not is_rating(signature) or not stems:
        return None
    score = f"{stems[0]}_score" if len(stems) == 1 else overall_of(stems)
    grade = f"{score.removesuffix('_score')}{GRADE}"
    return grade if grade in names else None


def _score_column(source: str, columns: Sequence[str], signature: object) -> str:
    """Return the column of the weighted score of all dimensions, or of the score on the only one."""
    names = [name for name in columns if str(name).endswith("_score")]
    if stems := criteria_of(signature):
        weighted = [overall_of(stems)] if len(stems) > 1 else []
    else:
        # Only a dimension has a note; the tables of earlier versions have grades of dimensions only.
        end = "_note" if any(str(name).endswith("_note") for name in columns) else GRADE
        weighted = [
            name for name in OVERALL if f"{name.removesuffix('_score')}{end}" not in columns
        ]
    chosen = [name for name in weighted if name in names] or names
    if len(chosen) != 1:
        problem = (
            f"several score columns ({', '.join(chosen)})" if chosen else "no column NAME_score"
        )
        raise UsageError(f"{source}: {problem}; name the column with {option('by')} COLUMN")
    return chosen[0]


def mapped_columns(source: str, given: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return field to column of scored rows: `given`, and else what `score` used (the run.json of its output)."""
    return run_of(source).columns | dict(given or {})


def run_of(source: str) -> RunRecord:
    """Return the record of the run beside a table or in a folder, or what a table in memory says; else an empty one."""
    if isinstance(source, InMemory):
        return RunRecord(options=RunOptions(columns=dict(source.mapped)))
    if source == STANDARD or is_url(source):
        return RunRecord()
    return read_record(Path(source) / RUN) if is_many(source) else record_of(source)


class OneScale:
    """A check that the numbers of rows in some columns are on one scale; nothing is checked with `mix`.

    With `across_judges`, grades of ratings may be by several judges, and `notes` says so. `otherwise` is the next step
    after other scales.
    """

    def __init__(
        self,
        columns: Sequence[str],
        *,
        mix: bool = False,
        across_judges: bool = False,
        otherwise: str = "",
    ) -> None:
        self._otherwise = otherwise
        self._columns = [name for name in columns if name.endswith(OF_SCORES) and not mix]
        self._across = across_judges
        # The first signature, and the row that has it.
        self._first: tuple[object, str] | None = None
        self._another_judge: object = None

    def __call__(self, row: Row) -> None:
        """Raise DataError for a row on another scale than the first."""
        if not self._columns:
            return
        signature = row.signature
        if self._first is None:
            self._first = signature, row.where
        first, where = self._first
        if signature == first:
            return
        for column in self._columns:
            if same_scale(signature, first, column):
                continue
            if self._across and same_scale(signature, first, column, across_judges=True):
                self._another_judge = signature
                continue
            here, there = differing_parts(signature, first, column, across_judges=self._across)
            way = (
                way_on(signature, first, column)
                or self._otherwise
                or (
                    "filter each signature separately, or compare them as they are with "
                    f"{option('mix')}"
                )
            )
            raise DataError(
                f"{row.where}: the scores in column {column!r} are on different scales: {here} here, {there} in "
                f"{where}; {way}"
            )

    @property
    def notes(self) -> list[str]:
        """Say what several judges on the scale of one ladder set mean."""
        if self._first is None or self._another_judge is None:
            return []
        judges = differing_parts(self._first[0], self._another_judge, self._columns[0])
        return [f"the grades are by several judges ({'; '.join(judges)}). {_OVER_JUDGES}"]


def way_on(signature: object, other: object, column: str) -> str:
    """Say how scores with two signatures can be compared all the same; empty if nothing helps."""
    if is_older(signature, other) or is_older(other, signature):
        return (
            "an earlier version of refladder made the one whose signature names no criteria; run `refladder rescore` "
            "with its judgments, which asks no judge"
        )
    grade = f"{column.removesuffix('_score')}{GRADE}" if column.endswith("_score") else column
    if not same_scale(signature, other, grade, across_judges=True):
        return ""
    if grade == column:
        return f"both judges are on the scale of one ladder set, which {option('across-judges')} accepts"
    return f"{grade} is on the scale of the ladder set with both judges, which {option('across-judges')} accepts"


def reported(
    rows: Iterable[T], progress: Progress | None, total: int | None = None
) -> Iterator[tuple[int, T]]:
    """Yield the rows with their numbers from 0, and report some of them to `progress`."""
    for number, row in enumerate(rows):
        if progress is not None and number % _PROGRESS_EVERY == 0:
            progress(number, total)
        yield number, row
