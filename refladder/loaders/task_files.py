"""Task files: a task and its dimensions in TOML, of a user and of each benchmark that refladder reads."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from refladder.errors import DataError, did_you_mean
from refladder.files.jsonl import read_bytes
from refladder.loaders.sources import decode
from refladder.parsing import parse_toml
from refladder.records import Dimension, names_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# The task files of the benchmarks.
TASKS = Path(__file__).with_name("tasks")
# The columns of a user's table beside those of the ratings, which no dimension may have as its name.
FIELDS = (
    "context_id",
    "context",
    "background",
    "system",
    "output",
    "output_id",
    "references",
    "rater",
)


def read_task(path: Path) -> tuple[str, tuple[Dimension, ...]]:
    """Read a task file: `task`, and a table `[[dimensions]]` with name, description, low (1) and high (5) of each."""
    head = parse_toml(decode(path, read_bytes(path)), str(path))
    _check_keys(f"{path}", head, required=("task", "dimensions"))
    task = head["task"]
    if not isinstance(task, str) or not task.strip():
        raise DataError(f"{path}: task must be a name such as 'summarization', found {task!r}")
    tables = head["dimensions"]
    if not isinstance(tables, list) or not tables:
        raise DataError(
            f"{path}: dimensions must be one or more tables [[dimensions]], found {tables!r:.80}"
        )
    dimensions = []
    for number, table in enumerate(tables, start=1):
        dimensions.append(_read_dimension(f"{path}: dimension {number}", table))
    names = names_of(dimensions)
    for name in names:
        if names.count(name) > 1 or name in FIELDS:
            reason = "appears twice" if names.count(name) > 1 else "is the name of another field"
            raise DataError(f"{path}: dimension {name!r} {reason}; choose another name")
    return task, tuple(dimensions)


def _read_dimension(where: str, table: object) -> Dimension:
    if not isinstance(table, dict):
        raise DataError(f"{where}: expected a table [[dimensions]], found {table!r:.80}")
    _check_keys(where, table, required=("name", "description"), optional=("low", "high"))
    for key in ("name", "description"):
        if not isinstance(table[key], str) or not table[key].strip():
            raise DataError(f"{where}: {key} must be text, found {table[key]!r}")
    low, high = table.get("low", 1.0), table.get("high", 5.0)
    for key, value in (("low", low), ("high", high)):
        if type(value) not in (int, float) or not math.isfinite(value):
            raise DataError(f"{where}: {key} must be a finite number, found {value!r}")
    if not low < high:
        raise DataError(f"{where}: low must be below high, found {low} and {high}")
    name, description = table["name"], table["description"]
    return Dimension(name=name, description=description, low=float(low), high=float(high))


def _check_keys(
    where: str,
    table: Mapping[str, object],
    *,
    required: Sequence[str],
    optional: Sequence[str] = (),
) -> None:
    keys = [*required, *optional]
    for key in table:
        if key not in keys:
            raise DataError(
                f"{where}: unknown key {key!r}{did_you_mean(key, keys)} Known: {', '.join(keys)}"
            )
    for key in required:
        if key not in table:
            raise DataError(f"{where}: no key {key!r}; it needs {', '.join(required)}")
