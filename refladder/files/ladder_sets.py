"""Ladder sets: folders with ladders, contexts and dimensions, shipped with refladder or built by a user.

SET/
  dimensions.jsonl   what the ladders are about
  contexts.jsonl     their contexts (absent from a set whose texts may not be redistributed)
  ladders.jsonl      one Ladder a line
  failures.jsonl     ladders that failed, if any
  run.json           the resolved configuration of `refladder build`
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from refladder.errors import DataError, UnknownNameError, UsageError
from refladder.files import hub
from refladder.files.jsonl import read_records, throw_away, to_line, write_records
from refladder.files.release import MANIFEST, Parts, ladders_of_rows, read_release, record_of
from refladder.files.tables import Row, read_rows
from refladder.records import Context, Dimension, Ladder, LadderFailure

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class LadderSet:
    """Ladders by (context id, dimension name), with their contexts and dimensions.

    `context_digests` are the digests of contexts (`Context.digest`) whose texts are not in the set.
    """

    name: str
    digest: str
    rungs: int
    dimensions: tuple[Dimension, ...]
    contexts: Mapping[str, Context]
    ladders: Mapping[tuple[str, str], Ladder]
    failures: Mapping[tuple[str, str], LadderFailure]
    context_digests: Mapping[str, str] = field(default_factory=dict)

    @property
    def task(self) -> str:
        """The task of every ladder in the set."""
        return next(iter(self.ladders.values())).task


def _root() -> Path:
    package = Path(__file__).parents[1]
    installed = package / "published_data"  # its path in a wheel
    return installed if installed.is_dir() else package.parent / "published_data"


def published_names() -> list[str]:
    """Names of the shipped ladder sets, such as `demo/story`."""
    root = _root()
    return sorted(path.parent.relative_to(root).as_posix() for path in root.glob("**/ladders.jsonl"))


def find_folder(name: str) -> Path:
    """The folder of a ladder set: a shipped name, or a path.

    Raises:
        UnknownNameError: neither.
    """
    if name in published_names():
        return _root() / name
    path = Path(name)
    if not path.is_dir():
        raise UnknownNameError("ladder set (nor is there such a folder)", name, published_names())
    return path


def new_digest() -> hashlib.blake2b:
    """An empty digest of ladders, to which the line of each is added."""
    return hashlib.blake2b(digest_size=6)


def digest_of(ladders: Iterable[Ladder]) -> str:
    """Digest (twelve hexadecimal digits) of the exact texts of ladders, in their order."""
    state = new_digest()
    for ladder in ladders:
        state.update(to_line(ladder))
    return state.hexdigest()


def ladder_set(
    name: str,
    dimensions: Sequence[Dimension],
    contexts: Iterable[Context],
    ladders: Sequence[Ladder],
    failures: Iterable[LadderFailure] = (),
) -> LadderSet:
    """Combine ladders into a set and check that they form one scale.

    Args:
        name: name of the set in signatures.
        dimensions: dimensions of the ladders.
        contexts: contexts of the ladders; empty if their texts may not be redistributed.
        ladders: one or more ladders of the same task and number of rungs.
        failures: ladders that failed.

    Raises:
        UsageError: no ladders; two for one context and dimension; different tasks or numbers of rungs; levels that are
            not 1..N; a dimension or context that is missing or repeated; an empty scale.
    """
    by_context: dict[str, Context] = {}
    for context in contexts:
        if by_context.setdefault(context.id, context) is not context:
            raise UsageError(f"{name}: context {context.id!r} appears twice")
    checks = Checks(name, dimensions, {context.id: context.task for context in by_context.values()})
    for ladder in ladders:
        checks.add(ladder)
    checks.finish()
    return LadderSet(
        name=name,
        digest=digest_of(ladders),
        rungs=checks.rungs,
        dimensions=tuple(dimensions),
        contexts=by_context,
        ladders={(ladder.context_id, ladder.dimension): ladder for ladder in ladders},
        failures={(failure.context_id, failure.dimension): failure for failure in failures},
    )


class Checks:
    """Checks that ladders, given one after another, form one scale; keeps their ids only.

    Args:
        name: name of the set, for the errors.
        dimensions: of the ladders.
        tasks: the task of each context by its id; empty for a set without texts.

    Raises:
        UsageError: a dimension is repeated, or its scale is empty.
    """

    def __init__(self, name: str, dimensions: Sequence[Dimension], tasks: Mapping[str, str]) -> None:
        _check_scales(name, dimensions)
        self.task, self.rungs = "", 0
        self._name, self._tasks = name, tasks
        self._dimensions = {dimension.name for dimension in dimensions}
        self._seen: set[tuple[str, str]] = set()

    @property
    def count(self) -> int:
        """The number of ladders so far."""
        return len(self._seen)

    def add(self, ladder: Ladder) -> None:
        """Check the next ladder.

        Raises:
            UsageError: it appears twice, has an unknown dimension or context, or is not like the first ladder.
        """
        label = f"{self._name}: the {ladder.dimension} ladder of context {ladder.context_id!r}"
        key = (ladder.context_id, ladder.dimension)
        if key in self._seen:
            raise UsageError(f"{label} appears twice")
        if ladder.dimension not in self._dimensions:
            raise UsageError(f"{label} has a dimension that is not in dimensions.jsonl: {sorted(self._dimensions)}")
        if self._tasks:
            _check_context(label, ladder, self._tasks)
        levels = [rung.level for rung in ladder.rungs]
        if not levels or levels != list(range(1, len(levels) + 1)):
            raise UsageError(f"{label} has levels {levels}; they must be 1, 2, ..., N")
        if not self._seen:
            self.task, self.rungs = ladder.task, len(levels)
        if ladder.task != self.task:
            raise UsageError(
                f"{label} has task {ladder.task!r}, the first ladder {self.task!r}; a set must have one task"
            )
        if len(levels) != self.rungs:
            raise UsageError(
                f"{label} has {len(levels)} rungs, the first ladder {self.rungs}; a set must have one number of rungs"
            )
        self._seen.add(key)

    def finish(self) -> None:
        """Check that there was a ladder.

        Raises:
            UsageError: there was none.
        """
        if not self._seen:
            raise UsageError(f"{self._name}: no ladders in it; build some with `refladder build`")


def _check_context(label: str, ladder: Ladder, tasks: Mapping[str, str]) -> None:
    task = tasks.get(ladder.context_id)
    if task is None:
        raise UsageError(f"{label} has a context that is not in contexts.jsonl")
    if task != ladder.task:
        raise UsageError(f"{label} has task {ladder.task!r}, its context {task!r}")


def _check_scales(name: str, dimensions: Sequence[Dimension]) -> None:
    seen = set()
    for dimension in dimensions:
        if dimension.name in seen:
            raise UsageError(f"{name}: dimension {dimension.name!r} appears twice")
        seen.add(dimension.name)
        if dimension.low >= dimension.high:
            raise UsageError(
                f"{name}: the scale of {dimension.name!r} goes from {dimension.low:g} to {dimension.high:g}; "
                "low must be less than high"
            )


def read_ladder_set(name: str) -> LadderSet:
    """Open a ladder set: a shipped one by name, a published one by its address, or one in a folder or a file.

    Args:
        name: one of `published_names`; `hub:ORG/NAME@REVISION`; the path of a folder that `write_ladder_set` or
            `refladder publish` wrote; or a table (JSON lines, Parquet) of the rows of a published set.

    Raises:
        UnknownNameError: no such set and no such folder.
        DataError: with path:line, a file is missing or a line does not follow its schema; or a published set cannot be
            had, see `refladder.files.hub.fetch`.
        UsageError: the ladders do not form one scale.
    """
    if not name.startswith(hub.PREFIX) and name not in published_names() and Path(name).is_file():
        return ladder_set_of_rows(read_rows(name), name=Path(name).name)
    parts = open_parts(name)
    ladders = ladder_set(parts.name, parts.dimensions, parts.contexts, list(parts.ladders), parts.failures)
    return replace(ladders, context_digests=parts.context_digests)


def open_parts(name: str) -> Parts:
    """The records of a ladder set, read as they are iterated, so that memory does not grow with the set.

    Args:
        name: as for `read_ladder_set`, except for a table.

    Raises:
        UnknownNameError, DataError: see `read_ladder_set`.
    """
    if name.startswith(hub.PREFIX):
        snapshot = hub.fetch(name, ("ladders", "contexts", "failures"))
        return read_release(snapshot.folder, str(snapshot.address))
    folder = find_folder(name)
    # The name of the folder is enough, as the digest is part of signatures; it does not depend on the parent folder.
    label = name if name in published_names() else folder.resolve().name
    if (folder / MANIFEST).is_file():
        return replace(read_release(folder, name), name=label)
    contexts, failures = folder / "contexts.jsonl", folder / "failures.jsonl"
    if not (folder / "ladders.jsonl").is_file():
        raise DataError(f"{folder / 'ladders.jsonl'}: no such file; build a ladder set with `refladder build`")
    return Parts(
        name=label,
        dimensions=tuple(read_records(Dimension, folder / "dimensions.jsonl")),
        contexts=read_records(Context, contexts) if contexts.is_file() else iter(()),
        ladders=read_records(Ladder, folder / "ladders.jsonl"),
        failures=read_records(LadderFailure, failures) if failures.is_file() else iter(()),
        context_digests={},
    )


def ladder_set_of_rows(
    rows: Iterable[Row | Mapping[str, Any]], contexts: Iterable[Mapping[str, Any]] = (), *, name: str = "rows"
) -> LadderSet:
    """A ladder set from the rows of a published one, as `datasets.load_dataset("ORG/NAME", "ladders")` gives them.

    Args:
        rows: of the config `ladders`; other columns are ignored.
        contexts: of the config `contexts`; without them the texts come from the table that is scored.
        name: name of the set in signatures.

    Raises:
        DataError: a row does not follow its schema.
        UsageError: the ladders do not form one scale.
    """
    dimensions: dict[str, Dimension] = {}
    digests: dict[str, str] = {}
    ladders = list(ladders_of_rows(_located(rows, name), dimensions, digests))
    texts = (record_of(Context, row) for row in _located(contexts, f"{name} contexts"))
    return replace(ladder_set(name, list(dimensions.values()), texts, ladders), context_digests=digests)


def _located(rows: Iterable[Row | Mapping[str, Any]], name: str) -> Iterable[Row]:
    for number, row in enumerate(rows, start=1):
        yield row if isinstance(row, Row) else Row(f"{name}:{number}", dict(row))


def write_ladder_set(
    folder: Path,
    dimensions: Sequence[Dimension],
    contexts: Sequence[Context],
    ladders: Sequence[Ladder],
    failures: Sequence[LadderFailure],
) -> None:
    """Write a ladder set; each file appears complete or not at all.

    Args:
        folder: output folder, created if necessary.
        dimensions: dimensions of the ladders.
        contexts: contexts of the ladders.
        ladders: from `refladder.synth.build_ladders`.
        failures: from `refladder.synth.build_ladders`.

    Raises:
        DataError: the folder cannot be written.
    """
    write_records(folder / "dimensions.jsonl", dimensions)
    write_records(folder / "contexts.jsonl", contexts)
    write_records(folder / "ladders.jsonl", ladders)
    if failures:
        write_records(folder / "failures.jsonl", failures)
    else:
        throw_away(folder / "failures.jsonl")


def choose_dimensions(dimensions: Sequence[Dimension], names: Sequence[str]) -> tuple[Dimension, ...]:
    """Select dimensions by name, each once, in the order of the names; all without names.

    Raises:
        UnknownNameError: there is no dimension with a name.
    """
    by_name = {dimension.name: dimension for dimension in dimensions}
    for name in names:
        if name not in by_name:
            raise UnknownNameError("dimension", name, by_name)
    return tuple(by_name[name] for name in dict.fromkeys(names)) if names else tuple(dimensions)
