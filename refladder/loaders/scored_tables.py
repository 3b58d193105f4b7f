"""What commands that read scored rows share: the score column, the columns of `score`, and one scale."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from refladder.errors import DataError, UsageError, option
from refladder.files.outputs import RunOptions, RunRecord, read_record, record_of
from refladder.files.scored_folders import RUN
from refladder.files.streams import is_url
from refladder.files.tables import STANDARD, InMemory, is_many
from refladder.records import is_revised, same_scale, scale_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from refladder.files.tables import Row
    from refladder.records import Progress

T = TypeVar("T")
# Rows between two reports.
_PROGRESS_EVERY = 8192
# The column of the weighted score of several dimensions; the second name is used where one is called overall.
OVERALL = "overall_score", "all_dimensions_score"
# Endings of columns that are comparable within one signature only.
OF_SCORES = "_score", "_grade", "_spread"


def score_column(source: str, columns: Sequence[str] | None) -> str:
    """Return the column that `score` would rank rows by: the weighted score of all dimensions, or that of the only one."""
    names = [name for name in columns or () if str(name).endswith("_score")]
    grades = {
        f"{str(name).removesuffix('_grade')}_score"
        for name in columns or ()
        if str(name).endswith("_grade")
    }
    weighted = [name for name in OVERALL if name in names and name not in grades]
    chosen = weighted or names
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


def one_scale(columns: Sequence[str], *, mix: bool) -> Callable[[Row], None]:
    """Return a check of rows that all have one signature; it checks nothing with `mix`, or if no column holds scores."""
    column = next((name for name in columns if name.endswith(OF_SCORES)), None)
    # The first signature, and the row that has it.
    seen: list[tuple[object, str]] = []

    def check(row: Row) -> None:
        signature = row.signature
        if not seen:
            seen.append((signature, row.where))
        first, where = seen[0]
        if not same_scale(signature, first):
            parts, first_parts = differing_parts(signature, first)
            raise DataError(
                f"{row.where}: the scores in column {column!r} are on different scales: {parts} here, "
                f"{first_parts} in {where}; filter each signature separately, or compare them as they are "
                f"with {option('mix')}"
            )

    return check if column is not None and not mix else lambda _row: None


def check_signature(signature: object, wanted: str | None, where: str) -> bool:
    """Refuse scores on another scale than a threshold's; return whether they are of a later revision of its ladders."""
    if not same_scale(signature, wanted):
        here, there = differing_parts(signature, wanted)
        raise DataError(
            f"{where}: the threshold was made for scores with another signature: {here} here, {there} in the "
            "threshold file; run `refladder calibrate` with labels of these scores"
        )
    return is_revised(signature, wanted)


def differing_parts(first: object, second: object) -> tuple[str, str]:
    """Return the parts of two signatures that are not in both."""
    return _not_in(first, second), _not_in(second, first)


def _not_in(signature: object, other: object) -> str:
    if signature is None:
        return "no signature"
    others = (scale_of(other) or "").split("|")
    parts = [part for part in str(scale_of(signature)).split("|") if part not in others]
    return "|".join(parts) or "nothing in its place"


def reported(
    rows: Iterable[T], progress: Progress | None, total: int | None = None
) -> Iterator[tuple[int, T]]:
    """Yield the rows with their numbers from 0, and report some of them to `progress`."""
    for number, row in enumerate(rows):
        if progress is not None and number % _PROGRESS_EVERY == 0:
            progress(number, total)
        yield number, row
