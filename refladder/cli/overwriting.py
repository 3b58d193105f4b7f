"""One rule for every command and call: an output is none of the files that the command reads, nor another output.

The declaration of an option says what its file is for, in commands and calls alike.
"""

from __future__ import annotations

import fnmatch
import glob
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from refladder.errors import UsageError
from refladder.files.jsonl import is_device
from refladder.files.ladder_sets import find_folder, published_names
from refladder.files.scored_folders import COUNTS, JUDGMENTS
from refladder.files.streams import is_url
from refladder.files.tables import form_by_name, is_many

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from refladder.options import Option

JUDGMENTS_END = ".judgments.jsonl"
# Values that are not files: standard input and output, and words of --unscored.
_WORDS = ("-", "keep", "drop", "")
# Files that refladder reads and writes in folders.
_LINES = (
    *("build.journal", "context_digests", "contexts", "dimensions", "failures", "generated"),
    *("ladders", "outputs", "preferences", "ratings", "results"),
)
_RECORDS = ("certificate", "manifest", "run", "student")
_IN_FOLDERS = {*(f"{name}.jsonl" for name in _LINES), *(f"{name}.json" for name in _RECORDS)}


class Named(NamedTuple):
    """The value of an option or a parameter, and what the user calls it."""

    option: Option
    value: object
    label: str


class _Path(NamedTuple):
    """A path that a command reads or writes."""

    option: Option
    path: str
    label: str


def check_outputs(given: Iterable[Named]) -> None:
    """Check the files of a command or a call before it does anything."""
    given = [each for each in given if each.option.reads or each.option.writes]
    paths = [_Path(each.option, path, each.label) for each in given for path in _paths(each, given)]
    read = [each for each in paths if not each.option.writes]
    written = [each for each in paths if each.option.writes]
    for number, target in enumerate(written):
        if is_device(Path(target.path)):
            continue
        for other in (*read, *written[:number]):
            if not target.option.writes == other.option.writes == "folder":
                _check(target, other)


def _check(target: _Path, other: _Path) -> None:
    if _is_one_of(other.path, target.path):
        raise UsageError(f"{target.path}: {other.label} and {target.label} must be different files")
    is_pattern = not is_url(other.path) and is_many(other.path) and not Path(other.path).is_dir()
    matches = is_pattern and fnmatch.fnmatchcase(
        str(Path(target.path).absolute()), str(Path(other.path).absolute())
    )
    if _is_in(other, target.path) or (other.option.reads and matches):
        raise UsageError(
            f"{target.path}: {target.label} would be among the files of {other.label} the next time; choose another "
            "folder"
        )
    if _is_in(target, other.path):
        raise UsageError(
            f"{other.path}: {other.label} is among the files of {target.label}; choose another folder for "
            f"{target.label}"
        )


def _paths(named: Named, given: Sequence[Named]) -> Iterator[str]:
    """Yield the paths in the value of an option, and those of the files beside them."""
    option, value = named.option, named.value
    judgments = any(
        each.value for each in given if each.option.name in ("judgments", "judgments_from")
    )
    if isinstance(value, dict):
        value = list(value.values())
    for each in value if isinstance(value, list | tuple) else [value]:
        if not isinstance(each, str | Path) or str(each) in _WORDS:
            continue
        path = str(each).rpartition("::")[2].removeprefix("file://").removeprefix("local://")
        if option.pairs:
            path = path.rpartition("=")[2]
        if option.reads == "backend":
            path = path.partition(":")[2]
        if not path:
            continue
        if path in published_names():
            path = str(find_folder(path))
        yield path
        for end in option.beside:
            if not (judgments and end == JUDGMENTS_END):
                yield f"{path}{end}"


def _is_one_of(source: str, target: str) -> bool:
    """Return whether a path is that of a source, or of a file that the source matches as a glob."""
    files = [source]
    if not is_url(source) and not Path(source).exists():
        files += glob.glob(source, recursive=True)  # noqa: PTH207
    for file in files:
        # One of them may be missing, or no path.
        with suppress(OSError, ValueError):
            if os.path.realpath(file) == os.path.realpath(target) or Path(file).samefile(target):
                return True
    return False


def _is_in(folder: _Path, file: str) -> bool:
    """Return whether a file is one that a command reads, or writes, in the folder of an option."""
    real, inside = Path(os.path.realpath(file)), Path(os.path.realpath(folder.path))
    if is_url(folder.path) or inside.is_file() or not real.is_relative_to(inside) or real == inside:
        return False
    parts, reads = real.relative_to(inside).parts, folder.option.reads
    if len(parts) == 1 and (
        parts[0] in _IN_FOLDERS or (reads == "table" and form_by_name(parts[0]))
    ):
        return True
    # A folder of this kind is read with all that is in it.
    whole = reads == "backend" or parts[0] in ("data", JUDGMENTS, COUNTS) or real.suffix == ".md"
    return bool(reads) and whole and real.is_file()
