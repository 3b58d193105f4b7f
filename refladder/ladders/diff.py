"""What changed between two ladder sets; memory holds digests of their texts only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from refladder.files.ladder_sets import Checks, open_parts
from refladder.records import digest_of

if TYPE_CHECKING:
    from collections.abc import Mapping

# Most changes of one kind that are shown.
_SHOWN = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What is only in the first set, only in the second, in both but changed, and in both unchanged."""

    removed: tuple[str, ...]
    added: tuple[str, ...]
    changed: Mapping[str, tuple[str, ...]]
    same: int

    @property
    def any(self) -> bool:
        """Return whether something changed."""
        return bool(self.removed or self.added or self.changed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """What changed between two ladder sets.

    Attributes:
        names: of the two sets; of a published one with its commit.
        digests: of their ladders (`LadderSet.digest`).
        ladders: by `CONTEXT DIMENSION`; changed ones with the parts that changed: `rung 1`, ..., `recipe`.
        recipes: by signature; none is `changed`.
        contexts: by id; text and background together, by their digest.
        dimensions: by name; changed ones with `description`, `low` or `high`.
        uncompared: contexts that could not be compared, as one set has neither texts nor digests of them.
    """

    names: tuple[str, str]
    digests: tuple[str, str]
    ladders: Changes
    recipes: Changes
    contexts: Changes
    dimensions: Changes
    uncompared: int

    @property
    def same(self) -> bool:
        """Return whether both are the same scale: nothing changed that a score depends on."""
        return not (self.ladders.any or self.contexts.any or self.dimensions.any)

    @property
    def reordered(self) -> bool:
        """Return whether the same ladders are in another order, which changes the digest and no score."""
        return not self.ladders.any and self.digests[0] != self.digests[1]

    def lines(self) -> list[str]:
        """Return what changed, as a dry run of `publish` prints it."""
        lines = []
        for sign, name, digest in zip("-+", self.names, self.digests, strict=True):
            lines.append(f"{sign} {name} (digest {digest})")
        for kind in ("ladders", "recipes", "contexts", "dimensions"):
            if kind == "contexts" and self.uncompared:
                lines.append(
                    f"contexts: {self.uncompared:,} not compared, as one set has neither texts nor digests"
                )
            else:
                lines += _lines(kind, getattr(self, kind))
        if self.reordered:
            verdict = "The ladders are the same in another order: scores are comparable, but signatures differ."
        elif self.same:
            verdict = "The sets are the same scale."
        else:
            verdict = "The sets are different scales: do not compare their scores."
        return [*lines, verdict]


def _lines(kind: str, changes: Changes) -> list[str]:
    """Return the counts of one kind of part, and the first changes."""
    counts = f"{kind}: {changes.same:,} the same"
    for word in ("changed", "removed", "added"):
        if count := len(getattr(changes, word)):
            counts += f", {count:,} {word}"
    lines = [f"  ~ {name}: {', '.join(parts)}" for name, parts in changes.changed.items()]
    lines += [f"  - {name}" for name in changes.removed]
    lines += [f"  + {name}" for name in changes.added]
    if len(lines) > _SHOWN:
        lines[_SHOWN:] = [f"  and {len(lines) - _SHOWN:,} more"]
    return [counts, *lines]


# What is in a set: by kind and name, each part of it as a short text or a digest.
_Contents = dict[str, dict[str, dict[str, str]]]


def compare_sets(first: str, second: str) -> Difference:
    """Compare two ladder sets."""
    (name, digest, before), (other_name, other_digest, after) = _contents(first), _contents(second)
    contexts = before["contexts"], after["contexts"]
    uncompared = 0 if all(contexts) else max(map(len, contexts))
    if uncompared:
        before["contexts"], after["contexts"] = {}, {}
    changes = {kind: _changes(before[kind], after[kind]) for kind in before}
    return Difference(
        names=(name, other_name), digests=(digest, other_digest), uncompared=uncompared, **changes
    )


def _contents(given: str) -> tuple[str, str, _Contents]:
    """Name, digest and contents of a set."""
    parts = open_parts(given)
    checks = Checks(parts.name, parts.dimensions, {})
    contents: _Contents = {"ladders": {}, "recipes": {}, "contexts": {}, "dimensions": {}}
    for ladder in checks.passed(parts.ladders):
        contents["recipes"][ladder.recipe.signature] = {}
        its_parts = {f"rung {rung.level}": digest_of(rung.text) for rung in ladder.rungs}
        its_parts["recipe"] = ladder.recipe.digest
        contents["ladders"][f"{ladder.context_id} {ladder.dimension}"] = its_parts
    for context_id, digest in parts.context_digests.items():
        contents["contexts"][context_id] = {"text": digest}
    for context in parts.contexts:
        contents["contexts"][context.id] = {"text": context.digest}
    for each in parts.dimensions:
        words = {"description": each.description, "low": f"{each.low:g}", "high": f"{each.high:g}"}
        contents["dimensions"][each.name] = words
    return parts.name, checks.digest, contents


def _changes(
    before: Mapping[str, Mapping[str, str]], after: Mapping[str, Mapping[str, str]]
) -> Changes:
    removed, changed = [], {}
    for name, parts in before.items():
        if name not in after:
            removed.append(name)
        elif parts != after[name]:
            every = {**parts, **after[name]}
            changed[name] = tuple(
                [part for part in every if parts.get(part) != after[name].get(part)]
            )
    return Changes(
        removed=tuple(removed),
        added=tuple([name for name in after if name not in before]),
        changed=changed,
        same=len(before) - len(removed) - len(changed),
    )
