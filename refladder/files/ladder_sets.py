"""Ladder sets: folders with ladders, contexts and dimensions, shipped with refladder or built by a user.

SET/
  dimensions.jsonl   what the ladders are about
  contexts.jsonl     their contexts (absent from a set whose texts may not be redistributed)
  context_digests.jsonl  a digest of each context's text (absent from sets of refladder 0.1.0 and before)
  ladders.jsonl      one Ladder a line
  failures.jsonl     ladders that failed, if any
  run.json           the resolved configuration of `refladder build`
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from refladder.errors import DataError, UnknownNameError, UsageError
from refladder.files.jsonl import read_records, throw_away, to_line, write_records
from refladder.records import Context, ContextDigest, Dimension, Ladder, LadderFailure, text_id

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class LadderSet:
    """Ladders by (context id, dimension name), with their contexts and dimensions.

    `contexts` is empty where the texts may not be redistributed. `digests` has the `text_id` of each context by id, so
    that texts from elsewhere can be checked; it is empty only where the set has neither texts nor digests.
    """

    name: str
    digest: str
    rungs: int
    dimensions: tuple[Dimension, ...]
    contexts: Mapping[str, Context]
    ladders: Mapping[tuple[str, str], Ladder]
    failures: Mapping[tuple[str, str], LadderFailure]
    digests: Mapping[str, str] = field(default_factory=dict)

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


def digest_of(ladders: Iterable[Ladder]) -> str:
    """Digest (twelve hexadecimal digits) of the exact texts of ladders, in their order."""
    state = hashlib.blake2b(digest_size=6)
    for ladder in ladders:
        state.update(to_line(ladder))
    return state.hexdigest()


def ladder_set(
    name: str,
    dimensions: Sequence[Dimension],
    contexts: Iterable[Context],
    ladders: Sequence[Ladder],
    failures: Iterable[LadderFailure] = (),
    *,
    digests: Iterable[ContextDigest] = (),
) -> LadderSet:
    """Combine ladders into a set and check that they form one scale.

    Args:
        name: name of the set in signatures.
        dimensions: dimensions of the ladders.
        contexts: contexts of the ladders; empty if their texts may not be redistributed.
        ladders: one or more ladders of the same task and number of rungs.
        failures: ladders that failed.
        digests: of the contexts' texts, as they were when the ladders were written; empty if unknown.

    Raises:
        UsageError: no ladders; two for one context and dimension; different tasks or numbers of rungs; levels that are
            not 1..N; a dimension or context that is missing or repeated; an empty scale; a context that does not have
            its digest.
    """
    if not ladders:
        raise UsageError(f"{name}: no ladders in it; build some with `refladder build`")
    by_context: dict[str, Context] = {}
    for context in contexts:
        if by_context.setdefault(context.id, context) is not context:
            raise UsageError(f"{name}: context {context.id!r} appears twice")
    by_id = {context.id: text_id(context.text, context.background) for context in by_context.values()}
    for digest in digests:
        if by_id.setdefault(digest.context_id, digest.digest) != digest.digest:
            raise UsageError(
                f"{name}: the text or background of context {digest.context_id!r} is not the one that the ladders were "
                "written for (context_digests.jsonl); restore contexts.jsonl, or build the ladders again"
            )
    _check_scales(name, dimensions)
    names = {dimension.name for dimension in dimensions}
    first = ladders[0]
    by_key: dict[tuple[str, str], Ladder] = {}
    for ladder in ladders:
        label = f"{name}: the {ladder.dimension} ladder of context {ladder.context_id!r}"
        if by_key.setdefault((ladder.context_id, ladder.dimension), ladder) is not ladder:
            raise UsageError(f"{label} appears twice")
        if ladder.dimension not in names:
            raise UsageError(f"{label} has a dimension that is not in dimensions.jsonl: {sorted(names)}")
        _check_context(label, ladder, by_context)
        if ladder.task != first.task:
            raise UsageError(
                f"{label} has task {ladder.task!r}, the first ladder {first.task!r}; a set must have one task"
            )
        _check_levels(label, ladder, first)
    return LadderSet(
        name=name,
        digest=digest_of(ladders),
        rungs=len(first.rungs),
        dimensions=tuple(dimensions),
        contexts=by_context,
        ladders=by_key,
        failures={(failure.context_id, failure.dimension): failure for failure in failures},
        digests=by_id,
    )


def _check_context(label: str, ladder: Ladder, contexts: Mapping[str, Context]) -> None:
    if not contexts:
        return
    context = contexts.get(ladder.context_id)
    if context is None:
        raise UsageError(f"{label} has a context that is not in contexts.jsonl")
    if context.task != ladder.task:
        raise UsageError(f"{label} has task {ladder.task!r}, its context {context.task!r}")


def _check_levels(label: str, ladder: Ladder, first: Ladder) -> None:
    levels = [rung.level for rung in ladder.rungs]
    if not levels or levels != list(range(1, len(levels) + 1)):
        raise UsageError(f"{label} has levels {levels}; they must be 1, 2, ..., N")
    if len(levels) != len(first.rungs):
        raise UsageError(
            f"{label} has {len(levels)} rungs, the first ladder {len(first.rungs)}; a set must have one number of rungs"
        )


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


def load_ladders(name: str | Path) -> LadderSet:
    """Open a shipped ladder set by name, or one in a folder.

    Args:
        name: one of `published_names`, or the path of a folder written by `write_ladder_set`.

    Raises:
        UnknownNameError: no such set and no such folder.
        DataError: with path:line, a file is missing or a line does not follow its schema.
        UsageError: the ladders do not form one scale.
    """
    name = str(name)
    folder = find_folder(name)
    contexts, failures, digests = (folder / f"{kind}.jsonl" for kind in ("contexts", "failures", "context_digests"))
    if not (folder / "ladders.jsonl").is_file():
        raise DataError(f"{folder / 'ladders.jsonl'}: no such file; build a ladder set with `refladder build`")
    ladders = ladder_set(
        name,
        list(read_records(Dimension, folder / "dimensions.jsonl")),
        read_records(Context, contexts) if contexts.is_file() else (),
        list(read_records(Ladder, folder / "ladders.jsonl")),
        read_records(LadderFailure, failures) if failures.is_file() else (),
        digests=read_records(ContextDigest, digests) if digests.is_file() else (),
    )
    # The name of the folder is enough, as the digest is part of signatures; it does not depend on the parent folder.
    return ladders if name in published_names() else replace(ladders, name=folder.resolve().name)


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
    write_records(
        folder / "context_digests.jsonl",
        [ContextDigest(context_id=each.id, digest=text_id(each.text, each.background)) for each in contexts],
    )
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
