"""The journal of a build: every text of the writer, in the order of the prompts, so that a killed build can continue.

The first line identifies the build; every other line is one `JournalEntry`. A build asks in a fixed order, so the
answers from before the kill are the first ones that the same build needs again.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from refladder.errors import DataError
from refladder.files.jsonl import append_lines, read_appended
from refladder.files.locks import locked
from refladder.parsing import adapter, parse_json, read_strict

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path


# The file name in the folder of a build.
JOURNAL = "build.journal.jsonl"
# The journal of the subjects that a build of shared ladders names.
SUBJECTS = "subjects.journal.jsonl"
SCHEMA = "ladder-journal/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEntry:
    """The text for one rung at one attempt (from 0); `unusable` is why it was refused, None if it was accepted."""

    context_id: str
    dimension: str
    level: int
    attempt: int
    text: str
    finish: str
    note: str | None
    unusable: str | None


@contextmanager
def open_journal(path: Path, build: Mapping[str, object]) -> Iterator[Journal]:
    """Open the journal of a build, whose file no other process has until the end."""
    with locked(path):
        yield Journal(path, build)


class Journal:
    """An open journal, which first replays its entries and then records new ones."""

    def __init__(self, path: Path, build: Mapping[str, object]) -> None:
        self._path = path
        self._lines = read_appended(path)
        if self._lines:
            self._check_header(build)
        header = json.dumps({"schema": SCHEMA, **build}).encode() + b"\n"
        # Without lines to add, this repairs the end that an interrupted build left.
        append_lines(path, [] if self._lines else [header])
        # Line 0 is the header.
        self._next = 1

    @property
    def _all(self) -> str:
        """Return the journals of the build, which belong together."""
        return ", ".join(
            sorted({str(self._path), *map(str, self._path.parent.glob("*.journal.jsonl"))})
        )

    def _check_header(self, build: Mapping[str, object]) -> None:
        where, line = self._lines[0]
        try:
            header = parse_json(line, where)
        except DataError:
            header = None
        if not isinstance(header, dict) or header.pop("schema", None) != SCHEMA:
            raise DataError(
                f'{where}: not a journal of ladders: expected a line with "schema": "{SCHEMA}"'
            )
        # JSON has no tuples, so both sides are compared after a round trip.
        wanted = json.loads(json.dumps(build))
        other = sorted(key for key in {*header, *wanted} if header.get(key) != wanted.get(key))
        if other:
            raise DataError(
                f"{where}: this journal was begun by another build (other {', '.join(other)}); "
                f"choose another folder, or delete {self._all}"
            )

    def replay(
        self, context_id: str, dimension: str, level: int, attempt: int
    ) -> JournalEntry | None:
        """Return the entry for the next prompt of the build; None when all entries have been replayed."""
        if self._next >= len(self._lines):
            return None
        where, line = self._lines[self._next]
        entry = read_strict(
            JournalEntry,
            line,
            lambda fault: (
                f"{where}: not an entry of a journal: {fault.field or 'line'}: {fault.message}; delete {self._all}"
            ),
        )
        identity = entry.context_id, entry.dimension, entry.level, entry.attempt
        if identity != (context_id, dimension, level, attempt):
            raise DataError(
                f"{where}: expected context {context_id!r}, dimension {dimension!r}, level {level}, attempt {attempt}, "
                f"found {identity}: the journal was changed; delete {self._all}"
            )
        self._next += 1
        return entry

    def record(self, entries: Iterable[JournalEntry]) -> None:
        """Append entries; they are on the disk when this returns."""
        append_lines(
            self._path, (adapter(JournalEntry).dump_json(entry) + b"\n" for entry in entries)
        )
