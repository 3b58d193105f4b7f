"""The runs and folders that the review server may read: those that were named at its start, and no others."""

from __future__ import annotations

import os
import threading
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from refladder.contest.runs import read_run
from refladder.errors import DataError, UsageError
from refladder.evaluation.results import RESULTS
from refladder.files.jsonl import is_unicode
from refladder.files.tables import FORMATS, read_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from refladder.contest.review_data import ReviewData

# Folders are read to this depth below a named one.
_DEPTH = 3
# At most this number of files is listed.
_MOST = 2000
# A preview has this number of rows.
_PREVIEW = 5
# A cell of a preview is cut to this number of characters.
_LONGEST = 300
# Names of files that refladder writes beside a table end so.
_PARTS = (".judgments.jsonl", ".ratings.jsonl", ".preferences.jsonl", ".journal.jsonl")


class Preview(TypedDict):
    """The columns of a table, its first rows as text, and the number of its rows."""

    columns: list[str]
    rows: list[list[str]]
    count: int


class Workspace:
    """The run to open first, if any, and the tables and runs under the folders that were named at the start."""

    def __init__(
        self, run: Path | None, folders: Sequence[Path], columns: Mapping[str, str] | None = None
    ) -> None:
        self._columns = columns
        self.folders = [Path(os.path.realpath(folder)) for folder in folders]
        self.first = None if run is None else str(run)
        self._opened: dict[str, tuple[float, ReviewData]] = {}
        self._lock = threading.Lock()

    def review_data(self, name: str) -> ReviewData:
        """Open a run by its name in `runs`; an empty name is the run that was named at the start."""
        if not name and self.first is None:
            raise UsageError("no run was named at the start; open one from the list of runs")
        named = name in {"", self.first}
        path = Path(self.first or "") if named else self.allowed(name)
        source = path / RESULTS if path.is_dir() else path
        changed = source.stat().st_mtime if source.exists() else 0.0
        with self._lock:
            stored = self._opened.get(str(path))
            if stored is None or stored[0] != changed:
                allowed, columns = (None, self._columns) if named else (self.allowed, None)
                stored = (changed, read_run(path, allowed, columns))
                self._opened[str(path)] = stored
        return stored[1]

    def allowed(self, name: str) -> Path:
        """Resolve a path, with symbolic links, and check that it is under a named folder."""
        if "\0" not in name and is_unicode(name):
            for folder in self.folders:
                path = Path(os.path.realpath(folder / name))
                if path.is_relative_to(folder):
                    return path
        named = ", ".join(map(str, self.folders)) or "none"
        raise UsageError(
            f"{name!r:.200} is not under a folder that was named at the start ({named}); start with --folder"
        )

    def file(self, name: str) -> Path:
        """Check that a name is a file under a named folder; a folder or a pattern could lead elsewhere."""
        path = self.allowed(name)
        if not path.is_file():
            raise UsageError(
                f"{name!r:.200}: no such file under a folder that was named at the start"
            )
        return path

    def runs(self) -> list[str]:
        """List the names of runs: the one named at the start, and those under the named folders."""
        listed = []
        first = None
        if self.first is not None:
            listed.append(self.first)
            first = Path(os.path.realpath(self.first))
        for folder, path in self._files():
            if path.name == RESULTS and path.parent not in {folder, first}:
                listed.append(path.parent.relative_to(folder).as_posix())
        return list(dict.fromkeys(listed))

    def tables(self) -> list[str]:
        """List the names of tables under the named folders."""
        endings = tuple(f".{form}" for form in FORMATS)
        tables = []
        for folder, path in self._files():
            is_table = path.name.removesuffix(".gz").endswith(endings)
            if is_table and not path.name.endswith(_PARTS) and not (path.parent / RESULTS).exists():
                tables.append(path.relative_to(folder).as_posix())
        return tables

    def _files(self) -> Iterator[tuple[Path, Path]]:
        """Return the files under the named folders, with their folder; hidden ones and those after `_MOST` are left out."""
        return islice(self._all_files(), _MOST)

    def _all_files(self) -> Iterator[tuple[Path, Path]]:
        for folder in self.folders:
            for path in _walk(folder, _DEPTH):
                if path.resolve().is_relative_to(folder):
                    yield folder, path

    def preview(self, name: str) -> Preview:
        """Return the first rows of a table."""
        rows = read_rows(str(self.file(name)))
        first = list(islice(rows, _PREVIEW))
        if not first:
            raise DataError(f"{name}: no rows; the table needs a row for each instance of the task")
        columns = list(map(str, first[0].fields))
        shown = [[_cell(row.fields.get(column)) for column in columns] for row in first]
        return {"columns": columns, "rows": shown, "count": len(first) + sum(1 for _ in rows)}


def _cell(value: object) -> str:
    text = "" if value is None else str(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _walk(folder: Path, depth: int) -> Iterator[Path]:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        if entry.name.startswith("."):
            continue
        if entry.is_file():
            yield Path(entry.path)
        elif depth and entry.is_dir(follow_symlinks=False):
            yield from _walk(Path(entry.path), depth - 1)
