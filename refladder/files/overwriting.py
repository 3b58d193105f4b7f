"""One rule for every command and call: an output is none of the files that the command reads, nor another output.

The name of a parameter says what its file is for, in commands and calls alike.
"""

from __future__ import annotations

import fnmatch
import glob
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from refladder.errors import UsageError, option
from refladder.files.jsonl import is_device
from refladder.files.ladder_sets import find_folder, published_names
from refladder.files.remote import is_url
from refladder.files.scored_folders import COUNTS, JUDGMENTS
from refladder.files.table_files import form_by_name, is_many

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

TABLES = {
    "add",
    "benchmark",
    "data",
    "first",
    "judgments_from",
    "labels",
    "scores",
    "second",
    "source",
    "table",
    "to",
}
BACKENDS = {"judge", "models", "writer"}  # such as `scripted:FILE` and NAME=hf:FOLDER
OPTIONS = {"judge_option", "judge_options", "writer_option", "writer_options"}
OTHERS = {
    "config_file",
    "human",
    "ladder_set",
    "ladders",
    "link",
    "link_file",
    "prices",
    "prompt",
}
READ = (
    TABLES
    | BACKENDS
    | OPTIONS
    | OTHERS
    | {"prompt_file", "prompts", "rate", "run", "task_file", "threshold"}
)
WRITTEN = {
    "figures",
    "judgments",
    "out",
    "page",
    "path",
    "plot",
    "rejected",
    "store",
    "unscored",
    "work",
}
_READ_BY = {("link", "judgments"), ("rescore", "judgments"), ("export", "path")}
_WORDS = (
    "-",
    "keep",
    "drop",
    "",
)  # no files: standard input and output, and what else `unscored` can be
_IN_FOLDERS = {  # what refladder looks for, and writes, in folders
    f"{name}.jsonl"
    for name in (
        "build.journal",
        "context_digests",
        "contexts",
        "dimensions",
        "failures",
        "generated",
        "ladders",
    )
} | {f"{name}.jsonl" for name in ("outputs", "preferences", "ratings", "results")}
_IN_FOLDERS |= {"certificate.json", "manifest.json", "run.json", "student.json"}


def check_outputs(
    command: str, given: Mapping[str, object], labels: Mapping[str, str] | None = None
) -> None:
    """Check the files of a command or a call before it does anything."""
    labels = {name: option(name) for name in given} | dict(labels or {})
    files: dict[bool, list[tuple[str, str]]] = {True: [], False: []}  # written, and read
    for name, value in given.items():
        if name in READ | WRITTEN:
            written = name in WRITTEN and (command, name) not in _READ_BY
            paths = list(_paths(name, value))
            if (command, name) in {("score", "out"), ("review", "run")}:
                own = not (given.get("judgments") or given.get("judgments_from"))
                paths += [
                    f"{path}{end}"
                    for path in paths
                    for end in (".run.json", ".judgments.jsonl")[: 1 + own]
                ]
            if name == "plot":
                paths += [
                    str(Path(path).with_suffix(".png"))
                    for path in paths
                    if Path(path).suffix != ".png"
                ]
            files[written] += [(name, path) for path in paths]
    for number, (name, target) in enumerate(files[True]):
        for other, source in [*files[False], *files[True][:number]]:
            if not is_device(Path(target)) and {name, other} != {"figures", "work"}:
                _check(name, target, other, source, labels)


def _check(name: str, target: str, other: str, source: str, labels: Mapping[str, str]) -> None:
    mine, its = labels[name], labels[other]
    if any(_same(file, target) for file in _files(source)):
        raise UsageError(f"{target}: {its} and {mine} must be different files")
    if _is_in(other, source, target) or (other in READ and _matches(target, source)):
        raise UsageError(
            f"{target}: {mine} would be among the files of {its} the next time; choose another folder"
        )
    if _is_in(name, target, source):
        raise UsageError(
            f"{source}: {its} is among the files of {mine}; choose another folder for {mine}"
        )


def _paths(name: str, value: object) -> Iterator[str]:
    if isinstance(value, dict):
        value = list(value.values())
    for each in value if isinstance(value, list | tuple) else [value]:
        if isinstance(each, str | Path) and str(each) not in _WORDS:
            text = str(each).rpartition("::")[2].removeprefix("file://").removeprefix("local://")
            if name in OPTIONS | {"models"}:
                text = text.rpartition("=")[2]
            if name in BACKENDS:
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
    with suppress(OSError, ValueError):  # one is missing, or no path
        return os.path.realpath(one) == os.path.realpath(other) or Path(one).samefile(other)
    return False


def _matches(target: str, pattern: str) -> bool:
    many = not is_url(pattern) and is_many(pattern) and not Path(pattern).is_dir()
    return many and fnmatch.fnmatchcase(str(Path(target).absolute()), str(Path(pattern).absolute()))


def _is_in(name: str, folder: str, file: str) -> bool:
    """Whether a file is one that a command reads, or writes, in the folder of a parameter."""
    real, inside = Path(os.path.realpath(file)), Path(os.path.realpath(folder))
    if is_url(folder) or inside.is_file() or not real.is_relative_to(inside) or real == inside:
        return False
    parts = real.relative_to(inside).parts
    if len(parts) == 1 and (
        parts[0] in _IN_FOLDERS or (name in {*TABLES, "judgments"} and form_by_name(parts[0]))
    ):
        return True
    whole = (
        name in BACKENDS or parts[0] in ("data", JUDGMENTS, COUNTS) or real.suffix == ".md"
    )  # with all that is in it
    return whole and name in {*READ, "judgments"} and real.is_file()
