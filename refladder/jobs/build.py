"""build: contexts x dimensions -> a ladder set in a folder; resumable."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from refladder.errors import DataError, UsageError, option
from refladder.files.jsonl import write_json
from refladder.files.ladder_sets import (
    CERTIFICATE,
    REVISIONS,
    append_ladders,
    load_ladders,
    of_whole_anchors,
    write_certificate,
    write_ladder_set,
)
from refladder.files.locks import locked_folder
from refladder.files.tables import read_rows
from refladder.loaders.fields import row_id
from refladder.prompts import load_template
from refladder.records import DOCUMENT, Shared, digest_of
from refladder.synth import build_ladders, name_subjects
from refladder.synth.checks import letters_of
from refladder.synth.journal import JOURNAL, SUBJECTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from refladder.backends import Backend
    from refladder.files.ladder_sets import LadderSet
    from refladder.jobs.mend import Mender
    from refladder.records import Context, Dimension, Ladder, LadderFailure, Progress, Sampling

log = logging.getLogger(__name__)
_HUMAN_FIELDS = {"context_id": str, "dimension": str, "level": int, "text": str}


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildReport:
    """The ladders written, the rungs that could not be, the certificate if any, and a shared set's `anchors`.

    `uncertified` says that a certificate was removed, because it is of fewer ladders than the set has now.
    """

    ladders: int
    failures: tuple[LadderFailure, ...]
    certificate: Mapping[str, Any] | None = None
    anchors: tuple[str, ...] = ()
    uncertified: bool = False


def open_to_add(folder: Path) -> LadderSet:
    """Open the set in a folder, to which ladders for more contexts are to be added."""
    if not (folder / "ladders.jsonl").is_file():
        raise UsageError(
            f"{folder}: no ladder set to add to; name a folder of `refladder build` with {option('out')}"
        )
    ladders = load_ladders(folder.resolve(), certified=False)
    if ladders.anchors:
        raise UsageError(
            f"{folder}: the set is shared, so it scores rows of any context already, and more ladders would change "
            "every score; there is nothing to add"
        )
    if not ladders.contexts:
        raise UsageError(
            f"{folder}: the set has no contexts.jsonl, beside which new contexts go; add that file"
        )
    recipes = {
        (each.recipe.backend, each.recipe.prompts, each.recipe.sampling)
        for each in ladders.ladders.values()
    }
    if len(recipes) > 1:
        raise UsageError(
            f"{folder}: its ladders have {len(recipes)} recipes, so none can be followed; build a new set"
        )
    return ladders


def without_ladders(ladders: LadderSet, contexts: Sequence[Context]) -> list[Context]:
    """The contexts that have no ladder in a set yet; one that has other texts there is refused."""
    have = {context_id for context_id, _ in ladders.ladders}
    for context in contexts:
        if ladders.digests.get(context.id, context.digest) != context.digest:
            raise DataError(
                f"context {context.id!r} has another text or background in the table than in {ladders.name}; give it "
                "another id"
            )
    return [context for context in contexts if context.id not in have]


def check_recipe(ladders: LadderSet, writer: Backend, prompts: Path | None) -> None:
    """Check that new ladders get the recipe of those of a set, before the writer is asked."""
    recipe = next(iter(ladders.ladders.values())).recipe
    if writer.fingerprint != recipe.backend:
        raise UsageError(
            f"{ladders.name}: its ladders are written by {recipe.backend}, and this writer is {writer.fingerprint}; "
            f"name the same one with {option('writer')}, or build a new set"
        )
    signatures = {
        load_template(ladders.task, each.partition("@")[0].rpartition("/")[2], prompts).signature
        for each in recipe.prompts
    }
    if signatures != set(recipe.prompts):
        raise UsageError(
            f"{ladders.name}: its ladders are written with other prompts than these; give the same "
            f"{option('prompts')}, or build a new set"
        )


def add(
    writer: Backend,
    contexts: Sequence[Context],
    ladders: LadderSet,
    folder: Path,
    *,
    sampling: Sampling,
    attempts: int,
    prompts: Path | None = None,
    human: Mapping[tuple[str, str], Mapping[int, str]] | None = None,
    progress: Progress | None = None,
) -> BuildReport:
    """Add ladders for contexts to a set from `open_to_add`; the ladders that it has, and their scores, stay."""
    check_recipe(ladders, writer, prompts)
    journal = folder / add_journal(ladders)
    with locked_folder(folder):
        new, failures = build_ladders(
            writer,
            contexts,
            ladders.dimensions,
            rungs=ladders.rungs,
            sampling=sampling,
            attempts=attempts,
            prompts=prompts,
            journal=journal,
            human=human,
            progress=progress,
        )
        certified = (folder / CERTIFICATE).is_file() and bool(new)
        append_ladders(folder, ladders, contexts, new, failures)
    return BuildReport(ladders=len(new), failures=tuple(failures), uncertified=certified)


def add_journal(ladders: LadderSet) -> str:
    """The name of the journal of the texts that are added to a set as it is now."""
    return f"add-{ladders.digest}.journal.jsonl"


def draw_anchors(seeds: Sequence[Context], count: int, sampling: Sampling) -> list[Context]:
    """The anchors of a shared set: `count` seeds, drawn by `sampling.seed` from their ids, whatever their order."""
    if len(seeds) < count:
        raise UsageError(
            f"{option('shared')} {count} needs {count} seeds, and the table has {len(seeds)}; add rows, or ask for "
            "fewer anchors"
        )
    chosen = sorted(seeds, key=lambda seed: digest_of(str(sampling.seed), seed.id, size=64))[:count]
    return [
        seed
        if seed.task != DOCUMENT
        else replace(
            seed,
            background=f"{min(len(seed.references[0].split()), sampling.max_tokens // 2)} words",
        )
        for seed in chosen
    ]


def build(
    backend: Backend,
    contexts: Sequence[Context],
    dimensions: Sequence[Dimension],
    folder: Path,
    *,
    rungs: int,
    sampling: Sampling,
    attempts: int,
    prompts: Path | None = None,
    human: Mapping[tuple[str, str], Mapping[int, str]] | None = None,
    config: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
    mender: Mender | None = None,
    shared: bool = False,
) -> BuildReport:
    """Write a ladder set; every text is stored in the folder's journal at once, so an interrupted build can be resumed.

    `human` are rungs written by people: (context id, dimension) to level to text. `mender` certifies the ladders before
    they are written. With `shared`, the contexts are anchors from `draw_anchors`, and one with a failed rung is left
    out.
    """
    journal = folder / JOURNAL
    if (folder / REVISIONS).is_file():
        raise UsageError(
            f"{folder}: ladders were added to this set, and this build would drop them; choose another {option('out')}"
        )
    with locked_folder(folder):
        seeds = contexts
        unnamed: list[LadderFailure] = []
        if shared:
            contexts, unnamed = name_subjects(
                backend,
                contexts,
                sampling=sampling,
                attempts=attempts,
                prompts=prompts,
                journal=folder / SUBJECTS,
            )
        ladders, failures = build_ladders(
            backend,
            contexts,
            dimensions,
            rungs=rungs,
            sampling=sampling,
            attempts=attempts,
            prompts=prompts,
            journal=journal,
            human=human,
            progress=progress,
        )
        failures, certificate = [*unnamed, *failures], None
        if shared:
            ladders = of_whole_anchors(ladders, dimensions)
            _warn_of_other_letters(seeds, ladders)
        if mender is not None:
            mender = replace(mender, contexts=contexts, shared=shared)
            ladders, failures, certificate = mender(ladders, failures)
        anchors = tuple(dict.fromkeys(ladder.context_id for ladder in ladders)) if shared else ()
        of_set = Shared(anchors=anchors, seed=sampling.seed) if shared else None
        write_ladder_set(folder, dimensions, contexts, ladders, failures, shared=of_set)
        if certificate is not None:
            write_certificate(folder, certificate)
        if config is not None:
            write_json(folder / "run.json", dict(config))
    return BuildReport(
        ladders=len(ladders), failures=tuple(failures), certificate=certificate, anchors=anchors
    )


def _warn_of_other_letters(seeds: Sequence[Context], ladders: Iterable[Ladder]) -> None:
    """Say which anchors have rungs in other letters than their seed: the writer has not answered in its language."""
    of_seeds = {seed.id: letters_of(" ".join((seed.text, *seed.references))) for seed in seeds}
    for ladder in ladders:
        seed, written = (
            of_seeds[ladder.context_id],
            letters_of(" ".join(rung.text for rung in ladder.rungs)),
        )
        if seed and written and written != seed:
            log.warning(
                "anchor %s, %s: its seed is in %s letters and its rungs in %s; name the language in the description of "
                "the dimension, or use another writer",
                ladder.context_id,
                ladder.dimension,
                seed,
                written,
            )


def read_human_rungs(path: str) -> dict[tuple[str, str], dict[int, str]]:
    """Rungs written by people, from a table with columns context_id, dimension, level and text."""
    rungs: dict[tuple[str, str], dict[int, str]] = {}
    for row in read_rows(path):
        for name, kind in _HUMAN_FIELDS.items():
            value = (
                row_id(row.where, name, row.fields.get(name))
                if name == "context_id"
                else row.fields.get(name)
            )
            if (
                kind is int and isinstance(value, str) and value.isascii() and value.isdecimal()
            ):  # a CSV cell
                value = int(value)
            if type(value) is not kind:
                raise DataError(
                    f"{row.where}: column {name!r} must be {kind.__name__}, found {value!r:.60}"
                )
            row.fields[name] = value
        levels = rungs.setdefault((row.fields["context_id"], row.fields["dimension"]), {})
        if row.fields["level"] in levels:
            raise DataError(
                f"{row.where}: level {row.fields['level']} of {row.fields['dimension']!r} for context "
                f"{row.fields['context_id']!r} appears twice; keep one"
            )
        levels[row.fields["level"]] = row.fields["text"]
    if not rungs:
        raise DataError(
            f"{path}: no rows; human-written rungs need the columns {', '.join(_HUMAN_FIELDS)}"
        )
    return rungs
