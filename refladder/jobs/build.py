"""build: contexts x dimensions -> a ladder set in a folder; resumable."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from refladder.errors import DataError, UsageError, option
from refladder.files.jsonl import throw_away, write_json
from refladder.files.ladder_sets import (
    load_ladders,
    of_whole_anchors,
    open_parts,
    write_certificate,
    write_ladder_set,
)
from refladder.files.locks import locked_folder
from refladder.files.tables import read_rows
from refladder.loaders.fields import row_id
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
    from refladder.records import Context, Dimension, Ladder, LadderFailure, Progress, Recipe, Sampling

log = logging.getLogger(__name__)
_HUMAN_FIELDS = {"context_id": str, "dimension": str, "level": int, "text": str}


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildReport:
    """The ladders written, the rungs that could not be, the certificate if any, and a shared set's `anchors`."""

    ladders: int
    failures: tuple[LadderFailure, ...]
    certificate: Mapping[str, Any] | None = None
    anchors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Extension:
    """A ladder set that gets a rung above the top of each ladder; `shared` is its own record, if it is shared."""

    ladders: LadderSet
    shared: Shared | None = None

    @property
    def texts(self) -> dict[tuple[str, str], dict[int, str]]:
        """The texts by level of every ladder: what `build_ladders` takes as `human`."""
        return {key: {rung.level: rung.text for rung in each.rungs} for key, each in self.ladders.ladders.items()}

    def check_judge(self, judge: Backend) -> None:
        """Check that the judge who is to certify the longer ladders is the one that certified the set, if any did."""
        its = (
            judge.fingerprint if self.ladders.certificate is None else self.ladders.certificate["judge"]["fingerprint"]
        )
        if its != judge.fingerprint:
            raise UsageError(
                f"{self.ladders.name} is certified by {its}, and the judge is {judge.fingerprint}; name the same with "
                f"{option('judge')}, or ask for the certificate of another with {option('certify')}"
            )

    def with_top(self, ladders: Sequence[Ladder]) -> list[Ladder]:
        """The ladders of the set, in their order, each with the top rung of the new ladder and how it was written."""
        tops = {(ladder.context_id, ladder.dimension): ladder for ladder in ladders}
        return [
            replace(old, rungs=(*old.rungs, top.rungs[-1]), recipe=_both(old.recipe, top.recipe))
            for key, old in self.ladders.ladders.items()
            if (top := tops.get(key)) is not None
        ]


def _both(first: Recipe, second: Recipe) -> Recipe:
    """The recipe of a ladder whose top was written by another recipe than its lower rungs."""
    same = first.backend == second.backend or first.backend.endswith(f"+{second.backend}")
    return replace(
        second,
        backend=first.backend if same else f"{first.backend}+{second.backend}",
        prompts=tuple(dict.fromkeys([*first.prompts, *second.prompts])),
        sampling=second.sampling if first.sampling == second.sampling else None,
    )


def to_extend(name: str | Path) -> Extension:
    """Open a ladder set that `build` extends, with its contexts."""
    ladders = load_ladders(name)
    if not ladders.contexts:
        raise UsageError(f"{name}: the set has no contexts.jsonl, which the writer needs; add that file")
    parts = open_parts(str(name))
    return Extension(ladders, parts.shared)


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
        else replace(seed, background=f"{min(len(seed.references[0].split()), sampling.max_tokens // 2)} words")
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
    restart: bool = False,
    config: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
    mender: Mender | None = None,
    shared: bool = False,
    extends: Extension | None = None,
) -> BuildReport:
    """Write a ladder set; every text is stored in the folder's journal at once, so an interrupted build can be resumed.

    `human` are rungs written by people: (context id, dimension) to level to text. `mender` certifies the ladders before
    they are written. With `shared`, the contexts are anchors from `draw_anchors`, and one with a failed rung is left
    out. With `extends`, contexts, dimensions and `human` are those of that set, and a failed top writes no set.
    """
    journal = folder / JOURNAL
    with locked_folder(folder):
        if restart:
            throw_away(journal)
            throw_away(folder / SUBJECTS)
        seeds = contexts
        unnamed: list[LadderFailure] = []
        if shared and extends is None:
            contexts, unnamed = name_subjects(
                backend, contexts, sampling=sampling, attempts=attempts, prompts=prompts, journal=folder / SUBJECTS
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
            above=extends is not None,
        )
        failures, certificate = [*unnamed, *failures], None
        if extends is not None:
            ladders = extends.with_top(ladders)
        if shared:
            ladders = of_whole_anchors(ladders, dimensions)
            _warn_of_other_letters(seeds, ladders)
        if mender is not None and not (failures and extends):
            mender = replace(mender, contexts=contexts, shared=shared, above=extends is not None)
            ladders, failures, certificate = mender(ladders, failures)
        if failures and extends:
            return BuildReport(ladders=0, failures=tuple(failures))
        anchors = tuple(dict.fromkeys(ladder.context_id for ladder in ladders)) if shared else ()
        of_set = Shared(anchors=anchors, seed=sampling.seed) if shared else None
        if extends is not None:
            of_set, failures = extends.shared, list(extends.ladders.failures.values())
        write_ladder_set(folder, dimensions, contexts, ladders, failures, shared=of_set)
        if certificate is not None:
            write_certificate(folder, certificate)
        if config is not None:
            write_json(folder / "run.json", dict(config))
    failed = () if extends else tuple(failures)
    return BuildReport(ladders=len(ladders), failures=failed, certificate=certificate, anchors=anchors)


def _warn_of_other_letters(seeds: Sequence[Context], ladders: Iterable[Ladder]) -> None:
    """Say which anchors have rungs in other letters than their seed: the writer has not answered in its language."""
    of_seeds = {seed.id: letters_of(" ".join((seed.text, *seed.references))) for seed in seeds}
    for ladder in ladders:
        seed, written = of_seeds[ladder.context_id], letters_of(" ".join(rung.text for rung in ladder.rungs))
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
            value = row_id(row.where, name, row.fields.get(name)) if name == "context_id" else row.fields.get(name)
            if kind is int and isinstance(value, str) and value.isascii() and value.isdecimal():  # a CSV cell
                value = int(value)
            if type(value) is not kind:
                raise DataError(f"{row.where}: column {name!r} must be {kind.__name__}, found {value!r:.60}")
            row.fields[name] = value
        levels = rungs.setdefault((row.fields["context_id"], row.fields["dimension"]), {})
        if row.fields["level"] in levels:
            raise DataError(
                f"{row.where}: level {row.fields['level']} of {row.fields['dimension']!r} for context "
                f"{row.fields['context_id']!r} appears twice; keep one"
            )
        levels[row.fields["level"]] = row.fields["text"]
    if not rungs:
        raise DataError(f"{path}: no rows; human-written rungs need the columns {', '.join(_HUMAN_FIELDS)}")
    return rungs
