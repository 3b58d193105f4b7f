"""Ratings of people: one line for each grade or preference, in two files beside the run.

`ratings.jsonl` holds grades: `output_id`, `context_id`, `system`, `dimension`, `value`, `rater`, and for each criterion
a column of its name that holds the value or null, so that the file is a table of labels for `refladder calibrate`.
`preferences.jsonl` holds pairs: `context_id`, `dimension`, `first`, `second` (output ids), `winner` (first, second or
tie) and `rater`.
"""

from __future__ import annotations

import math
import threading
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from refladder.errors import DataError, UsageError
from refladder.files.jsonl import append_lines, atomic, read_appended, to_json, within
from refladder.files.locks import locked
from refladder.parsing import parse_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from refladder.contest.review_data import ReviewData

FIRST, SECOND, TIE = "first", "second", "tie"
# Another server that writes the same file is awaited for these seconds.
_PATIENCE = 5.0
# The name of a rater has at most this number of characters.
_LONGEST = 80
# Every grade has these columns.
_COLUMNS = ("output_id", "context_id", "system", "dimension", "value", "rater")
# A rating has some of these fields beside its texts and criterion.
_GIVEN = ("value", "winner", "rater")
_guard = threading.Lock()


def add_rating(data: ReviewData, rating: object) -> None:
    """Store a rating of texts by their numbers in the pool; it is on the disk when this returns."""
    path, line = _line(data, rating)
    with _writing(path):
        append_lines(path, [to_json(line) + b"\n"])


def remove_rating(data: ReviewData, rating: object) -> bool:
    """Remove the last stored rating that equals this one; return whether there was one."""
    path, line = _line(data, rating)
    wanted = to_json(line).decode()
    with _writing(path):
        lines = [text for _, text in read_appended(path)]
        if wanted not in lines:
            return False
        del lines[len(lines) - 1 - lines[::-1].index(wanted)]
        with atomic(path) as stream:
            stream.write("".join(f"{text}\n" for text in lines).encode("utf-8"))
    return True


def ratings_of(data: ReviewData) -> list[dict[str, object]]:
    """Read the stored ratings of a run, with numbers of the pool; those of other texts or criteria are left out."""
    ratings = []
    for path in (data.grades, data.pairs):
        for where, line in read_appended(path):
            fields = parse_json(line, where)
            try:
                keys = {FIRST: FIRST, SECOND: SECOND} if FIRST in fields else {"text": "output_id"}
                numbers = {key: data.numbers.get(fields[name]) for key, name in keys.items()}
                criterion = data.criteria.get(fields["dimension"])
                given = {name: fields[name] for name in _GIVEN if name in fields}
            except (KeyError, TypeError) as error:
                raise DataError(
                    f"{where}: not a rating; correct the line, or move the file away"
                ) from error
            if criterion is not None and None not in numbers.values():
                ratings.append({**numbers, "criterion": criterion, **given})
    return ratings


def _line(data: ReviewData, rating: object) -> tuple[Path, dict[str, object]]:
    """Return the file of a rating, and its line."""
    if not isinstance(rating, dict):
        raise DataError("a rating is a JSON object")
    criterion = _number_of(rating, "criterion", len(data.criteria))
    scale = data.scales[criterion]
    dimension = scale.name
    rater: Any = rating.get("rater")
    named = isinstance(rater, str) and rater.strip() and rater.isprintable()
    if not named or len(rater) > _LONGEST:
        raise DataError(f"a rating needs the name of its rater, of 1 to {_LONGEST} characters")
    if "text" in rating:
        text = data.texts[_number_of(rating, "text", len(data.texts))]
        value: Any = rating.get("value")
        if type(value) not in (int, float) or not math.isfinite(value):
            raise DataError(f"a grade must be a number, found {value!r:.60}")
        if not scale.low <= value <= scale.high:
            raise DataError(f"grade {value:g} is outside {scale.low:g} to {scale.high:g}")
        columns = (text.id, data.rows[text.row], text.system, dimension, value, rater)
        grade = dict(zip(_COLUMNS, columns, strict=True))
        for name in data.criteria:
            grade.setdefault(name, value if name == dimension else None)
        return data.grades, grade
    first = data.texts[_number_of(rating, FIRST, len(data.texts))]
    second = data.texts[_number_of(rating, SECOND, len(data.texts))]
    if first.row != second.row or first.id == second.id:
        raise DataError("a preference is between two texts of one row")
    if rating.get("winner") not in (FIRST, SECOND, TIE):
        raise DataError(
            f"the winner must be {FIRST}, {SECOND} or {TIE}, found {rating.get('winner')!r:.60}"
        )
    return data.pairs, {
        "context_id": data.rows[first.row],
        "dimension": dimension,
        "first": first.id,
        "second": second.id,
        "winner": rating["winner"],
        "rater": rater,
    }


def _number_of(rating: Mapping[str, object], name: str, count: int) -> int:
    value = rating.get(name)
    if type(value) is not int or not 0 <= value < count:
        raise DataError(f"{name} must be a number from 0 to {count - 1}, found {value!r:.60}")
    return value


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Write alone: threads of this process wait for each other, and for another process for a few seconds."""
    with _guard, ExitStack() as stack:
        within(path)
        ends = time.monotonic() + _PATIENCE
        while True:
            try:
                stack.enter_context(locked(path))
                break
            except UsageError:
                if time.monotonic() > ends:
                    raise
                time.sleep(0.02)
        yield
