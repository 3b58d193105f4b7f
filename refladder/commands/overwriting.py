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
from refladder.files.remote import is_url
from refladder.files.scored_folders import COUNTS, JUDGMENTS
from refladder.files.table_files import form_by_name, is_many

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from refladder.options import Option

JUDGMENTS_END = ".judgments.jsonl"
# Values that are no files: standard input and output, and words of --unscored.
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
    given = list(given)
    paths = [_Path(each.option, path, each.label) for each in given for path in _paths(each, given)]
    read = [each for each in paths if not each.option.writes]
    written = [each for each in paths if each.option.writes]
    for number, target in enumerate(written):
        for other in (*read, *written[:number]):
            are_folders = target.option.writes == other.option.writes == "folder"
            if not are_folders and not is_device(Path(target.path)):
                _check(target, other)


def _check(target: _Path, other: _Path) -> None:
    if any(_same(file, target.path) for file in _files(other.path)):
        raise UsageError(f"{target.path}: {other.label} and {target.label} must be different files")
    if _is_in(other, target.path) or (other.option.reads and _matches(target.path, other.path)):
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
    option = named.option
    if not option.reads and not option.writes:
        return
    judgments = any(
        each.value for each in given if each.option.name in ("judgments", "judgments_from")
    )
    for path in _named_paths(option, named.value):
        yield path
        for end in option.beside:
            if not (judgments and end == JUDGMENTS_END):
                yield f"{path}{end}"


def _named_paths(option: Option, value: object) -> Iterator[str]:
    if isinstance(value, dict):
        value = list(value.values())
    for each in value if isinstance(value, list | tuple) else [value]:
        if isinstance(each, str | Path) and str(each) not in _WORDS:
            text = str(each).rpartition("::")[2].removeprefix("file://").removeprefix("local://")
            if option.pairs:
                text = text.rpartition("=")[2]
            if option.reads == "backend":
                text = text.partition(":")[2]
            if text:
                yield str(find_folder(text)) if text in published_names() else text


def _files(source: str) -> list[str]:
    return (
        [source]
        if is_url(source) or Path(source).exists()
        else [source, *glob.glob(source, recursive=True)]  # noqa: PTH207
    )


def _same(one: str, other: str) -> bool:
    # One of them may be missing, or no path.
    with suppress(OSError, ValueError):
        return os.path.realpath(one) == os.path.realpath(other) or Path(one).samefile(other)
    return False


def _matches(target: str, pattern: str) -> bool:
    many = not is_url(pattern) and is_many(pattern) and not Path(pattern).is_dir()
    return many and fnmatch.fnmatchcase(str(Path(target).absolute()), str(Path(pattern).absolute()))


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
