"""What a signature says, and which scores are on one scale.

A signature is `key:value` parts joined by bars. It holds what was asked of whom, and no reading of a judge. Some parts
are recorded and compared by no one: the name of the ladder set, its certificate, the version of refladder, the port of a
server on this machine, and how labels are read where the judge writes its answers.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

# Endings of columns that are comparable within one scale only.
OF_SCORES = "_score", "_grade", "_spread"
GRADE = "_grade"
# How a rating gets its place among the ratings of rungs.
BEATEN = "place:beaten"
# Shipped sets that had another name.
RENAMED = {
    "general/reply-2": "general/reply",
    "general/reply-2-de": "general/reply-de",
    "general/summary-2": "general/summary",
}
_OLD_NAME = re.compile(rf"({'|'.join(RENAMED)})(?=@)")
# Digests of sets of three anchors, and the names that they had before the shipped sets of today got these.
_EARLIER = {
    "e7e433826895": "reply",
    "5c9d8061c895": "summary",
    "ca95c4e8f728": "story",
    "7b281ada02af": "document",
}
# Parts that change no scale.
_NOT_OF_SCALE = re.compile(r"\|(certificate|earlier):[^|]*")
_RECORDED = {"certificate", "earlier", "refladder"}
# All that another judge may change where grades are on the ladder's scale.
_LADDER = {"ladders", "rungs", "anchors", "criteria", "weights"}
_OF_THE_LADDER = {*_LADDER, "place", "jury"}
_LOOPBACK = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:\d+)?([/?]\S*)?|file:\S*")
_READING = re.compile(r" prefix:\S+( \S+)?( answer\d+)?")


@dataclass(frozen=True)
class _Recipe:
    """A signature as scales are compared: `parts` by key, beside the texts that say them."""

    ladders: str
    earlier: frozenset[str]
    parts: dict[str, object]
    shown: dict[str, str]


def scale_of(signature: object) -> str | None:
    """Return a signature as runs are compared: without certificate and earlier revisions of the ladders.

    A shipped set has its name of today.
    """
    if signature is None:
        return None
    return _OLD_NAME.sub(lambda old: RENAMED[old[1]], _NOT_OF_SCALE.sub("", str(signature)))


def with_earlier_sets(text: object) -> str:
    """Return a text that names digests, and say of a set that it had the name of a shipped set of today."""

    def said(digest: re.Match[str]) -> str:
        name = _EARLIER[digest[0]]
        return (
            f"{digest[0]} (another set that was called general/{name} before: bench/readings/three-anchors/{name} in the "
            "repository)"
        )

    return re.sub("|".join(_EARLIER), said, str(text))


def same_run(first: object, second: object) -> bool:
    """Return whether scores are of one run: signatures are equal, or of two revisions of one ladder set."""
    if scale_of(first) == scale_of(second):
        return True
    revised = is_revised(first, second) or is_revised(second, first)
    return revised and _without_ladders(first) == _without_ladders(second)


def same_scale(
    first: object, second: object, column: str = "", *, across_judges: bool = False
) -> bool:
    """Return whether scores in a column are on one scale; without a column, all scores of a run.

    With `across_judges`, grades of ratings are on the scale of their ladders, whoever judged them; scores are not.
    """
    if first == second:
        return True
    if first is None or second is None:
        return False
    return _same(str(first), str(second), column, across_judges=across_judges)


def is_revised(signature: object, earlier: object) -> bool:
    """Return whether a signature is of a later revision of a ladder set, to which contexts were added."""
    # A damaged table may hold a list, which the cache cannot take.
    return _recipe(str(earlier), "").ladders in _recipe(str(signature), "").earlier


def differing_parts(
    first: object, second: object, column: str = "", *, across_judges: bool = False
) -> tuple[str, str]:
    """Return the parts of two signatures that keep their scores from one scale."""
    if first is None or second is None:
        return _shown(first), _shown(second)
    one, other = _recipe(str(first), column), _recipe(str(second), column)
    keys = _differing(one, other, across_judges=across_judges and column.endswith(GRADE))
    return _listed(one, keys), _listed(other, keys)


def differing_ladders(first: object, second: object) -> tuple[str, str] | None:
    """Return the parts that keep grades from being places on one ladder, whoever judged and how; None if nothing does."""
    one, other = _recipe(str(first), ""), _recipe(str(second), "")
    keys = _differing(one, other, across_judges=False) & _LADDER
    return (_listed(one, keys), _listed(other, keys)) if keys else None


def is_placed(signature: object) -> bool:
    """Return whether grades are places among rungs: of ratings, of comparisons, or of a jury of such grades."""
    shown = _recipe(str(signature), "").shown
    return BEATEN in shown.values() or "rule" in shown or "jury" in shown


def judged_by(signature: object) -> str:
    """Return what makes a grade beside its ladders and criteria, as scales are compared: judge, prompts and mode."""
    parts = _recipe(str(signature), "").parts
    return "|".join(f"{key}={parts[key]}" for key in sorted({*parts} - _LADDER))


def jury_signature(members: Sequence[str], jury: str) -> str:
    """Return the signature of the grades of a `jury`, whose members have grades on one ladder set or revisions of it."""
    latest = members[0]
    for signature in members[1:]:
        latest = signature if is_revised(signature, latest) else latest
    shown = _recipe(latest, "").shown
    keys = "ladders", "earlier", "anchors", "criteria", "weights"
    return "|".join([*(shown[key] for key in keys if key in shown), f"jury:{jury}"])


def judge_of(signature: object) -> str:
    """Return the judge that a signature names, with its mode, for people."""
    shown = _recipe(str(signature), "").shown
    if "jury" in shown:
        return shown["jury"]
    backend = shown.get("backend", "backend:unknown").removeprefix("backend:")
    return f"{backend}, {shown.get('answers', 'answers:0').removeprefix('answers:')}"


def is_rating(signature: object) -> bool:
    """Return whether scores are ratings with grades, or grades of a jury."""
    return not {"place", "example", "jury"}.isdisjoint(_recipe(str(signature), "").parts)


def criteria_of(signature: object) -> list[str]:
    """Return the beginnings of the columns of each criterion that a signature names."""
    return list(_digests(_recipe(str(signature), "").shown.get("criteria", "")))


def is_older(signature: object, other: object) -> bool:
    """Return whether an earlier version of refladder made a signature: it names no criteria, as the other one does."""
    names_ladders = str(signature).startswith("ladders:")
    return names_ladders and not criteria_of(signature) and bool(criteria_of(other))


def is_shared(signature: object) -> bool:
    """Return whether scores with a signature are of rows that need no context: against a shared set, or without a set."""
    return any(mark in str(signature) for mark in ("-shared@", "|anchors:", "ladders:criteria:"))


def column_stem(name: str) -> str:
    """Return what the columns of a criterion begin with."""
    return re.sub(r"\W+", "_", name)


def _shown(signature: object) -> str:
    return "no signature" if signature is None else with_earlier_sets(scale_of(signature))


def _listed(recipe: _Recipe, keys: Collection[str]) -> str:
    """Return some parts of a signature, as it says them."""
    listed = "|".join(recipe.shown[key] for key in recipe.shown if key in keys)
    return with_earlier_sets(listed) or "nothing in its place"


def _without_ladders(signature: object) -> str:
    return str(scale_of(signature)).partition("|")[2]


@functools.lru_cache(maxsize=4096)
def _same(first: str, second: str, column: str, *, across_judges: bool) -> bool:
    one, other = _recipe(first, column), _recipe(second, column)
    return not _differing(one, other, across_judges=across_judges and column.endswith(GRADE))


def _differing(one: _Recipe, other: _Recipe, *, across_judges: bool) -> set[str]:
    """Return the keys of the parts that keep scores from one scale."""
    keys = {*one.parts, *other.parts}
    differing = {key for key in keys if one.parts.get(key) != other.parts.get(key)}
    if one.ladders in other.earlier or other.ladders in one.earlier:
        differing.discard("ladders")
    if across_judges:
        differing &= _OF_THE_LADDER
        # Only a place among rungs is one on the ladder's scale.
        if BEATEN not in one.shown.values() or BEATEN not in other.shown.values():
            differing |= {"place", "example", "answers"}
    return differing


@functools.lru_cache(maxsize=4096)
def _recipe(signature: str, column: str) -> _Recipe:
    shown: dict[str, str] = {}
    for part in signature.split("|"):
        # A part without a key is a name of its own.
        shown.setdefault(part.partition(":")[0], part)
    digests = _digests(shown.get("criteria", ""))
    stem = next((column.removesuffix(end) for end in OF_SCORES if column.endswith(end)), "")
    parts: dict[str, object] = {}
    # Written answers have no label mass; shares of sampled labels have one.
    states = "sampling" in shown and not re.fullmatch(r"answers:\d+", shown.get("answers", ""))
    unused = _RECORDED | {"least-mass"} if states else _RECORDED
    for key, part in shown.items():
        value: object = part
        if key == "ladders":
            value = part.rpartition("@")[2]
        elif key == "anchors":
            value = frozenset(part.removeprefix("anchors:").split(","))
        elif key == "criteria":
            value = digests[stem] if stem in digests else sorted(digests.items())
        elif key == "backend":
            value = _judge(part, writes="sampling" in shown)
        if key in unused or (key == "weights" and stem in digests):
            continue
        parts[key] = value
    earlier = shown.get("earlier", "").removeprefix("earlier:").split(",")
    return _Recipe(
        ladders=str(parts.get("ladders", "")),
        earlier=frozenset(filter(None, earlier)),
        parts=parts,
        shown=shown,
    )


def _digests(criteria: str) -> dict[str, str]:
    """Return the digest of each criterion by its column."""
    named = criteria.removeprefix("criteria:").split(",")
    return {name: digest for name, at, digest in (each.rpartition("@") for each in named) if at}


def _judge(backend: str, *, writes: bool) -> str:
    """Return the judge of a fingerprint: model and public host, and how labels are read where it `writes` nothing."""
    name, at, rest = backend.partition("@")
    place, space, rest = rest.partition(" ")
    # The name of a model may hold the sign.
    more, _, host = place.rpartition("@")
    if _LOOPBACK.fullmatch(host):
        at, place = ("@", more) if more else ("", "")
    rest = _READING.sub("" if writes else r"\1\2", f"{space}{rest}")
    return re.sub(r",prefix:[^,]*", "", f"{name}{at}{place}{rest}")
