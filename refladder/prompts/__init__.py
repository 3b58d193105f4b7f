"""Prompt templates: one Markdown file for each task and role, with a TOML head; slots only.

A file is `TASK/ROLE.md`::

    +++
    slots = ["context", "dimension", "description", "reference", "target"]
    [labels]
    win = "Better"
    loss = "Worse"
    tie = "Similar"
    +++
    text with {{context}} and the other slots

`[labels]` maps an outcome to the word the judge is to answer with; `[claims]` (role compare-yesno) maps an outcome to
the words put in the slot `claim`. The structure follows arXiv 2509.05440, appendix C, and arXiv 2307.07889; the words
are this project's.
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Mapping  # noqa: TC003  part of a dataclass
from dataclasses import dataclass
from pathlib import Path

from refladder.errors import PromptError, UnknownNameError
from refladder.records import LOSS, TIE, WIN, Prompt

TEMPLATES = Path(__file__).parent / "templates"

TASKS = ("summarization", "dialogue", "story", "data-to-text", "open")

# What each role's template is given. Every one must be used, except `background`, which a template may leave out.
_CRITERION = ("context", "background", "dimension", "description")
ROLES: dict[str, tuple[str, ...]] = {
    "worst": _CRITERION,
    "best": _CRITERION,
    "between": (*_CRITERION, "lower", "higher"),
    "compare": (*_CRITERION, "reference", "target"),
    "compare-yesno": (*_CRITERION, "reference", "target", "claim"),
    "direct-5": (*_CRITERION, "target"),
    "direct-10": (*_CRITERION, "target"),
    "pairwise": (*_CRITERION, "first", "second"),
}
OPTIONAL_SLOTS = frozenset({"background"})

# The outcomes that each judging role must give a label for.
ROLE_OUTCOMES: dict[str, tuple[str, ...]] = {
    "compare": (WIN, LOSS, TIE),
    "compare-yesno": ("yes", "no"),
    "direct-5": tuple(str(grade) for grade in range(1, 6)),
    "direct-10": tuple(str(grade) for grade in range(1, 11)),
    "pairwise": (WIN, LOSS),
}

_SLOT = re.compile(r"\{\{\s*([A-Za-z_]\w*)\s*\}\}")
_HEAD = re.compile(r"\A\+\+\+\r?\n(.*?)^\+\+\+\r?\n(.*)\Z", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """A prompt with open slots. `digest` is over the whole file, so any edit changes every recipe that uses it."""

    task: str
    role: str
    digest: str
    literals: tuple[str, ...]
    names: tuple[str, ...]
    labels: Mapping[str, str]
    claims: Mapping[str, str]

    @property
    def signature(self) -> str:
        """task/role@digest."""
        return f"{self.task}/{self.role}@{self.digest}"


def load_template(task: str, role: str, folder: Path | None = None) -> Template:
    """Read and check the template of a task and role.

    Args:
        task: one of TASKS, or any task for which `folder` has a file.
        role: one of ROLES.
        folder: the user's own templates; a file there takes the place of the shipped one.

    Raises:
        UnknownNameError: no such role, or no such task.
        PromptError: the file has no TOML head, a slot that the role does not fill, or lacks a slot or label it needs.
    """
    if role not in ROLES:
        raise UnknownNameError("prompt role", role, ROLES)
    candidates = [base / task / f"{role}.md" for base in ((folder,) if folder else ()) + (TEMPLATES,)]
    path = next((candidate for candidate in candidates if candidate.is_file()), None)
    if path is None:
        raise UnknownNameError("task", task, TASKS)
    return _parse(path, task, role)


def _parse(path: Path, task: str, role: str) -> Template:
    raw = path.read_bytes()
    try:
        source = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise PromptError(f"{path}: not UTF-8; save the template as UTF-8") from error
    parts = _HEAD.match(source)
    if parts is None:
        raise PromptError(f"{path}:1: a template starts with a TOML head between two lines of +++")
    try:
        head = tomllib.loads(parts[1])
    except tomllib.TOMLDecodeError as error:
        raise PromptError(f"{path}: the head is not TOML: {error}") from error
    body = parts[2].strip()
    pieces = _SLOT.split(body)
    literals, names = tuple(pieces[0::2]), tuple(pieces[1::2])
    _check(path, role, head, names)
    return Template(
        task=task,
        role=role,
        digest=hashlib.blake2b(raw, digest_size=6).hexdigest(),
        literals=literals,
        names=names,
        labels=head.get("labels", {}),
        claims=head.get("claims", {}),
    )


def _check(path: Path, role: str, head: dict[str, object], names: tuple[str, ...]) -> None:
    unknown_keys = sorted(set(head) - {"slots", "labels", "claims"})
    if unknown_keys:
        raise PromptError(f"{path}: unknown key {unknown_keys[0]!r} in the head; known: slots, labels, claims")
    offered = ROLES[role]
    unknown = [name for name in names if name not in offered]
    if unknown:
        raise PromptError(f"{path}: unknown slot {{{{{unknown[0]}}}}}; role {role!r} has: {', '.join(offered)}")
    if head.get("slots") != list(dict.fromkeys(names)):
        raise PromptError(
            f"{path}: the head's slots must list the text's slots in the order of their first use: "
            f"{list(dict.fromkeys(names))!r}, found {head.get('slots')!r}"
        )
    missing = [name for name in offered if name not in names and name not in OPTIONAL_SLOTS]
    if missing:
        raise PromptError(f"{path}: slot {{{{{missing[0]}}}}} is not in the text; role {role!r} needs it")
    labels = head.get("labels", {})
    needed = ROLE_OUTCOMES.get(role, ())
    if not isinstance(labels, dict) or tuple(labels) != needed:
        raise PromptError(f"{path}: role {role!r} needs [labels] for {list(needed)} in this order, found {labels!r}")
    words = [word for word in labels.values() if isinstance(word, str) and word.strip()]
    if len(set(words)) != len(needed):
        raise PromptError(f"{path}: the labels must be different, non-empty strings, found {list(labels.values())!r}")
    claims = head.get("claims", {})
    wanted = (WIN, LOSS, TIE) if role == "compare-yesno" else ()
    if not isinstance(claims, dict) or tuple(claims) != wanted:
        raise PromptError(f"{path}: role {role!r} needs [claims] for {list(wanted)} in this order, found {claims!r}")


def fill(template: Template, slots: Mapping[str, str], claim: str | None = None) -> Prompt:
    """Put values in a template's slots; values are never read for slots.

    Args:
        template: from `load_template`.
        slots: a value for every slot of the role; values the template does not use are kept for backends that read
            slots instead of text.
        claim: for role compare-yesno, the outcome that the question is about.

    Raises:
        PromptError: a slot is left unfilled.
    """
    values = dict(slots)
    if claim is not None:
        values["claim"] = template.claims[claim]
    for name in template.names:
        if name not in values:
            raise PromptError(f"{template.signature}: slot {{{{{name}}}}} is left unfilled")
    return Prompt(
        task=template.task,
        role=template.role,
        literals=template.literals,
        names=template.names,
        slots=values,
        labels=tuple(template.labels.values()),
        outcomes=tuple(template.labels),
        claim=claim,
    )
