"""A ladder set as a release in a folder: Parquet shards and their manifest, without anything of this machine."""

from __future__ import annotations

import re
from array import array
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from refladder.errors import UsageError, agreeing, option, plural
from refladder.files.certificate import json_of, sealed
from refladder.files.jsonl import to_json, to_line
from refladder.files.ladder_sets import Checks, certificate_of, new_digest, open_parts
from refladder.files.release import WHOLE_CERTIFICATE, Check, LadderRow, Manifest, write_shards
from refladder.records import Revision, by_name
from refladder.statistics.surface import length_rise, right_by_length
from refladder.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from refladder.files.certificate import Certificate
    from refladder.files.release import Parts
    from refladder.records import Context, LadderFailure, Progress, Recipe
    from refladder.settings import Publishing

# Prefix of the fingerprint of the writer whose ladders are a baseline.
BUILTIN = "builtin"
_LOCAL_MODEL = re.compile(
    r"(?<=hf:)(?:[/~]|\.{1,2}[/\\]|[A-Za-z]:[/\\])[^@|]*?([^@|/\\]+)[/\\]?(?=@|$)"
)
_NOT_DETAILS = ("schema", "verdict", "dimension", "context_id", "level")


def without_model_path(text: str) -> str:
    """Return a fingerprint or a signature in which a local model has its last name only."""
    return _LOCAL_MODEL.sub(r"\1", text)


def without_paths(text: str) -> str:
    """Remove paths of this machine from a note: the current folder becomes `.`, the home folder `~`."""
    text = without_model_path(text)
    for folder, sign in ((str(Path.cwd()), "."), (str(Path.home()), "~")):
        text = text.replace(f"{folder.rstrip('/')}/", f"{sign}/") if len(folder) > 1 else text
    return text


def _public(recipe: Recipe) -> Recipe:
    return replace(recipe, backend=without_model_path(recipe.backend))


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A release in a folder, what its card says of it, and what the publisher should know.

    Attributes:
        folder: it has the shards of the manifest.
        manifest: what is in the release.
        recipes: number of ladders of each recipe.
        lengths: shortest, median and longest text of each level, in characters.
        by_length: how many ladders of each dimension a rule of length alone gets right, and of how many.
        baseline: whether fixed rules wrote the texts.
        certificate: the checks of the whole set, of each dimension and of its levels.
        notices: sentences for the publisher.
    """

    folder: Path
    manifest: Manifest
    recipes: Mapping[Recipe, int]
    lengths: Sequence[tuple[int, float, int]]
    by_length: Mapping[str, tuple[int, int]]
    baseline: bool
    certificate: Sequence[Check]
    notices: tuple[str, ...]


class _Tally:
    """Prepares the ladders one after another, checks them, and counts what the card says of them."""

    def __init__(self, parts: Parts, contexts: Mapping[str, tuple[str, str]]) -> None:
        self.recipes: Counter[Recipe] = Counter()
        self.checks = Checks(
            parts.name,
            parts.dimensions,
            {context_id: task for context_id, (task, _) in contexts.items()},
        )
        self.lengths: dict[int, array[int]] = {}
        # How many best rungs of a dimension are longer than the worst ones (1), and shorter (-1).
        self.rises: defaultdict[str, Counter[int]] = defaultdict(Counter)
        # Digest of the published ladders; `checks` has the digest of the local ones.
        self.public = new_digest()
        # The earlier revisions, with the digests of the published ladders.
        self.earlier: list[Revision] = []
        self._dimensions = by_name(parts.dimensions)
        self._parts = parts
        self._contexts = contexts

    def rows(self, progress: Progress | None) -> Iterator[LadderRow]:
        """Yield the rows of the config `ladders`."""
        counts = [each.ladders for each in self._parts.earlier]
        for ladder in self.checks.passed(self._parts.ladders, self._parts.earlier):
            public = replace(ladder, recipe=_public(ladder.recipe))
            # This ladder is the first after an earlier revision.
            if self.checks.count - 1 in counts:
                self.earlier.append(
                    Revision(ladders=self.checks.count - 1, digest=self.public.hexdigest())
                )
            self.public.update(to_line(public))
            self.recipes[public.recipe] += 1
            for rung in ladder.rungs:
                self.lengths.setdefault(rung.level, array("q")).append(len(rung.text))
            rise = length_rise(ladder.rungs[0].text, ladder.rungs[-1].text)
            self.rises[ladder.dimension][rise] += 1
            # Only a set without texts has digests of contexts.
            earlier = self._parts.context_digests.get(ladder.context_id)
            _, digest = self._contexts.get(ladder.context_id, ("", earlier))
            if progress is not None and self.checks.count % 1000 == 0:
                progress(self.checks.count, None)
            dimension = self._dimensions[ladder.dimension]
            yield LadderRow(
                context_id=public.context_id,
                task=public.task,
                dimension=public.dimension,
                dimension_description=dimension.description,
                low=dimension.low,
                high=dimension.high,
                rungs=public.rungs,
                recipe=public.recipe,
                context_digest=digest,
                shared=self._parts.shared is not None,
            )

    @property
    def spans(self) -> list[tuple[int, float, int]]:
        """Return the shortest, median and longest text of each level, in characters."""
        spans = []
        for _, values in sorted(self.lengths.items()):
            spans.append((min(values), median(values), max(values)))
        return spans

    @property
    def by_length(self) -> dict[str, tuple[int, int]]:
        """Return how many ladders of each dimension a rule of length alone gets right, and of how many."""
        return {name: (right_by_length(each), each.total()) for name, each in self.rises.items()}


def _as_released(parts: Parts) -> Parts:
    """Leave out what a set that is not shared says of itself: a release has these keys for shared sets only."""
    if parts.shared is None or parts.shared.shared:
        return parts
    return replace(parts, shared=None)


def stage(folder: Path, asked: Publishing, progress: Progress | None) -> Release:
    """Write the release into a folder."""
    ladders, without_contexts = asked.ladders, asked.without_contexts
    parts = _as_released(open_parts(ladders))
    if parts.shared is not None and without_contexts:
        raise UsageError(
            f"{ladders}: the set is shared, and a judge has to see the context of each rung; leave out "
            f"{option('without-contexts')}, or share ladders of contexts that may be distributed"
        )
    contexts: dict[str, tuple[str, str]] = {}

    def checked_contexts() -> Iterator[Context]:
        for context in parts.contexts:
            if context.id in contexts:
                raise UsageError(f"{parts.name}: context {context.id!r} appears twice")
            contexts[context.id] = (context.task, context.digest)
            yield context

    texts = write_shards(folder, "contexts", () if without_contexts else checked_contexts())
    if without_contexts:
        # Digests of texts are published.
        for _ in checked_contexts():
            pass
    tally = _Tally(parts, contexts)
    rows = write_shards(folder, "ladders", tally.rows(progress))
    _check_writer(ladders, tally.recipes, baseline=asked.baseline)
    failures = write_shards(folder, "failures", map(_public_failure, parts.failures))
    certificate = certificate_of(ladders, parts, tally.checks.digest)
    checks = []
    if certificate is not None:
        checks = certificate_checks(public_certificate(certificate, tally.public.hexdigest()))
    shards = [*rows, *texts, *failures, *write_shards(folder, "certificate", checks)]
    manifest = Manifest(
        refladder=__version__,
        name=parts.name,
        digest=tally.public.hexdigest(),
        task=tally.checks.task,
        rungs=tally.checks.rungs,
        ladders=tally.checks.count,
        contexts=len(contexts) if texts else None,
        failures=sum(shard.rows for shard in failures),
        dimensions=parts.dimensions,
        files=tuple(shards),
        shared=parts.shared,
        earlier=tuple(tally.earlier),
    )
    notices = []
    if tally.checks.digest != manifest.digest:
        notices.append(
            "paths of this machine are left out of the recipes, which changes the digest of the ladders"
        )
    for before in manifest.earlier[-1:]:
        added = manifest.ladders - before.ladders
        was = agreeing(added, "was", "were")
        notices.append(
            f"{plural(added, 'ladder')} {was} added to the {before.ladders:,} of revision {before.digest}"
        )
    return Release(
        folder=folder,
        manifest=manifest,
        recipes=tally.recipes,
        lengths=tally.spans,
        by_length=tally.by_length,
        baseline=asked.baseline,
        # The card does not show the checks of single ladders.
        certificate=[check for check in checks if not check.context_id],
        notices=tuple(notices),
    )


def _check_writer(ladders: str, recipes: Iterable[Recipe], *, baseline: bool) -> None:
    built_in = any(recipe.backend.startswith(BUILTIN) for recipe in recipes)
    if built_in and not baseline:
        raise UsageError(
            f"{ladders}: its ladders are of the built-in writer, which uses fixed rules and no model; build them with "
            f"--writer, or add {option('baseline')} if they are meant as a baseline"
        )
    if baseline and not built_in:
        raise UsageError(
            f"{ladders}: its ladders are not of the built-in writer; leave out {option('baseline')}"
        )


def public_certificate(certificate: Certificate, ladders: str) -> Certificate:
    """Return a certificate without paths of this machine, for the ladders as they are published."""
    return sealed(replace(certificate, ladders=ladders), _public_leaf)


def _public_leaf(leaf: object) -> object:
    return without_paths(leaf) if isinstance(leaf, str) else leaf


def _public_failure(failure: LadderFailure) -> LadderFailure:
    reasons = tuple(map(without_paths, failure.reasons))
    return replace(failure, reasons=reasons, recipe=_public(failure.recipe))


def certificate_checks(certificate: Certificate) -> list[Check]:
    """Return the rows of the config `certificate`: the whole, each dimension and its levels, and each ladder."""
    whole = json_of(certificate)
    checks = [_check(WHOLE_CERTIFICATE, whole, f"judge {certificate.judge.fingerprint}")]
    if certificate.sharing is not None:
        checks.append(_check("sharing", whole["sharing"]))
    for part in whole["dimensions"]:
        name = part["dimension"]
        checks.append(_check(name, part))
        checks += [_check(f"{name} level {level['level']}", level) for level in part["levels"]]
    return checks + [_check(part["dimension"], part) for part in whole["of_ladders"]]


def _check(name: str, part: Mapping[str, Any], *details: str) -> Check:
    """Return the row of a part of a certificate; its texts and numbers are its details."""
    shown = list(details)
    for key, value in part.items():
        if key not in _NOT_DETAILS and isinstance(value, str | int | float):
            rounded = f"{value:.4g}" if isinstance(value, float) else value
            shown.append(f"{key} {rounded}")
    return Check(
        context_id=part.get("context_id", ""),
        name=name,
        verdict=part["verdict"],
        details=", ".join(shown),
        json=to_json(part).decode("utf-8", "backslashreplace"),
    )
