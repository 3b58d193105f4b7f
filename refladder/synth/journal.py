"""The journal of a build: every text a writer gave, in the order it was asked for, so that a killed build goes on.

The first line says which build it is; each further line is one `Entry`. A build asks in a fixed order, so what was
answered before the kill is the beginning of what will be asked again.
"""

from __future__ import annotations

import json
import os
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Self

from refladder.errors import DataError
from refladder.files.jsonl import cannot_write
from refladder.files.locks import locked
from refladder.parsing import parse_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from pydantic import TypeAdapter

JOURNAL = "build.journal.jsonl"  # its name in the folder of a build
SCHEMA = "ladder-journal/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What the writer gave for one rung at one attempt (from 0); `unusable` is why it was not taken, None if it was."""

    context_id: str
    dimension: str
    level: int
    attempt: int
    text: str
    finish: str
    note: str | None
    unusable: str | None


@cache
def _entries() -> TypeAdapter[Entry]:
    from pydantic import TypeAdapter  # noqa: PLC0415  50 ms that `import refladder` does not need

    return TypeAdapter(Entry)


class Journal:
    """An open journal: first gives back what it holds, then takes what is new. Use it in a `with`.

    Args:
        path: the file; made, with its folders, when it is not there.
        build: all that determines the texts, as JSON values; a journal with another one is refused.

    Raises:
        UsageError: another process has it open.
        DataError: it cannot be written, is no journal, or belongs to another build.
    """

    def __init__(self, path: Path, build: Mapping[str, Any]) -> None:
        self._path = path
        self._lock = ExitStack()
        self._lock.enter_context(locked(path))
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0), 0o666)
        except OSError as error:
            self._lock.close()
            raise cannot_write(path, error) from error
        try:
            self._lines = self._read_whole_lines()
            if self._lines:
                self._check_header(build)
            else:
                self._append(json.dumps({"schema": SCHEMA, **build}).encode() + b"\n")
        except BaseException:
            os.close(self._descriptor)
            self._lock.close()
            raise
        self._next = 1  # line 0 is the header

    def __enter__(self) -> Self:
        """The open journal."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file; all that was recorded is on the disk already."""
        os.close(self._descriptor)
        self._lock.close()

    def _read_whole_lines(self) -> list[bytes]:
        """All lines that end in a newline; a torn one, left by a kill in the middle of a write, is cut off the file."""
        try:
            raw = self._path.read_bytes()
            whole = raw.rfind(b"\n") + 1
            if whole < len(raw):
                os.truncate(self._descriptor, whole)
        except OSError as error:
            raise cannot_write(self._path, error) from error
        return raw[:whole].split(b"\n")[:-1]

    def _check_header(self, build: Mapping[str, Any]) -> None:
        try:
            header = parse_json(self._lines[0], f"{self._path}:1")
        except DataError:
            header = None
        if not isinstance(header, dict) or header.pop("schema", None) != SCHEMA:
            raise DataError(f'{self._path}:1: not a journal of ladders: expected a line with "schema": "{SCHEMA}"')
        # JSON has no tuples: what is compared has been through it on both sides
        wanted = json.loads(json.dumps(build))
        other = sorted(key for key in {*header, *wanted} if header.get(key) != wanted.get(key))
        if other:
            raise DataError(
                f"{self._path}:1: this journal was begun by another build (other {', '.join(other)}); "
                "begin anew with --restart or choose another folder"
            )

    def replay(self, context_id: str, dimension: str, level: int, attempt: int) -> Entry | None:
        """What the journal holds for the next question of the build; None when all it holds has been given back.

        Raises:
            DataError: the line is not an entry, or is the answer to another question.
        """
        if self._next >= len(self._lines):
            return None
        from pydantic import ValidationError  # noqa: PLC0415  as above

        line, where = self._lines[self._next], f"{self._path}:{self._next + 1}"
        try:
            entry = _entries().validate_json(line, strict=True, extra="forbid")
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False)[0]
            place = ".".join(str(part) for part in first["loc"])
            raise DataError(
                f"{where}: not an entry of a journal: {place or 'line'}: {first['msg']}; begin anew with --restart"
            ) from error
        found = (entry.context_id, entry.dimension, entry.level, entry.attempt)
        if found != (context_id, dimension, level, attempt):
            raise DataError(
                f"{where}: expected context {context_id!r}, dimension {dimension!r}, level {level}, attempt {attempt}, "
                f"found {found}: the journal was changed; begin anew with --restart"
            )
        self._next += 1
        return entry

    def record(self, entries: Iterable[Entry]) -> None:
        """Append entries; they are on the disk when this returns.

        Raises:
            DataError: the disk is full or the file cannot be written.
        """
        self._append(b"".join(_entries().dump_json(entry) + b"\n" for entry in entries))

    def _append(self, lines: bytes) -> None:
        rest = memoryview(lines)
        try:
            while rest:  # a write may take only a part
                rest = rest[os.write(self._descriptor, rest) :]
            os.fsync(self._descriptor)
        except OSError as error:
            raise cannot_write(self._path, error) from error
