"""A command as a call of Python: its arguments, its tables in memory, and its configuration."""

from __future__ import annotations

import inspect
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from refladder.display.log import Log
from refladder.errors import UsageError, redacted
from refladder.files.frames import KINDS, Frame
from refladder.files.outputs import RunConfig
from refladder.files.streams import is_url
from refladder.files.tables import STANDARD, Collected, format_of
from refladder.session import Session

if TYPE_CHECKING:
    from collections.abc import Callable, Collection


Record = TypeVar("Record")


class Call(ExitStack):
    """A call of `function` under way: its arguments are `given`, but those `without`; `frame` is a table in memory."""

    def __init__(
        self,
        function: Callable[..., Any],
        values: Mapping[str, Any],
        table: str = "table",
        without: Collection[str] = (),
    ) -> None:
        super().__init__()
        self.command = function.__name__
        names = inspect.signature(function).parameters
        self.given = {name: values[name] for name in names if name not in {table, *without}}
        self.table = values.get(table)
        self.frame = None
        if not isinstance(self.table, str | Path | None):
            self.frame = Frame(self.table)
        _check_output(str(self.given.get("out")))
        if "columns" in self.given and self.frame is not None and self.command != "score":
            self.given["columns"] = self.frame.mapped | dict(self.given["columns"] or {})

    def session(self) -> Session:
        """Open the backends of the call."""
        return self.enter_context(Session(self.given["store"], events=Log()))

    def folder(self) -> Path:
        """Make a temporary folder."""
        return Path(self.enter_context(tempfile.TemporaryDirectory(prefix="refladder-")))

    def source(self, needed: Collection[str] | None = None) -> str:
        """Return the path of the table, or a table in memory, whose columns that are not `needed` are null."""
        return str(self.table) if self.frame is None else self.frame.source(needed)

    def labels(self, labels: Any, needed: Collection[str]) -> tuple[str, ...]:
        """Return the paths of tables of labels, or the table in memory; none for None."""
        if labels is None:
            return ()
        paths = [labels] if isinstance(labels, str | Path) else labels
        if are_paths(paths):
            return tuple(map(str, paths))
        return (Frame(labels).source(needed, "labels"),)

    def out(self, out: str | Path | None) -> str:
        """Return the file that the call writes; for a table in memory without one, the rows are collected."""
        if out is not None:
            return str(Path(out))
        if self.table is None:
            raise UsageError(f"a table must be {KINDS}, found None")
        if self.frame is None:
            # A text given as a table is not a file.
            format_of(str(self.table))
            raise UsageError("a table in a file is written to another file; give out=PATH")
        return Collected(self.frame.form)

    def config(self) -> RunConfig:
        """Return the configuration of the call, as a command stores it with its output."""
        from refladder.session import as_backend

        options = dict(self.given)
        if callable(options.get("judge")):
            options["judge"] = as_backend(options["judge"])
        plain = {name: _plain(value) for name, value in options.items()}
        return RunConfig(command=self.command, options=redacted(plain))


def are_paths(tables: Any) -> bool:
    """Return whether tables are a list of paths, not the rows of one."""
    # A path is a sequence of texts too.
    listed = isinstance(tables, Sequence) and not isinstance(tables, str) and bool(tables)
    return listed and all(isinstance(path, str | Path) for path in tables)


def source_of(table: Any, name: str) -> str:
    """Return the path of a table, or the table in memory that messages call `name`."""
    return str(table) if isinstance(table, str | Path) else Frame(table).source(name=name)


def record_or_path(value: str | Path | Record) -> Path | Record:
    """Return a record that a call was given, or the path of its file."""
    return Path(value) if isinstance(value, str) else value


def _check_output(out: str) -> None:
    """Refuse standard output and URLs as the file that a call writes."""
    if out == STANDARD:
        raise UsageError("out='-': a call writes no standard output; give out=PATH")
    if is_url(out):
        raise UsageError(
            f"out={out!r}: a call writes files on this machine only; give out=PATH, and copy the file"
        )


def _plain(value: object) -> object:
    """Return a value as JSON can hold it; an open object is replaced by its name."""
    from refladder.backends import Backend
    from refladder.files.ladder_sets import LadderSet

    if isinstance(value, LadderSet):
        return f"{value.name}@{value.digest}"
    if isinstance(value, Backend):
        value = value.fingerprint
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    return str(value) if isinstance(value, Path) else type(value).__name__
