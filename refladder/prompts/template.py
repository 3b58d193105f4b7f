"""A prompt template: a text with slots, the labels of its answers, and the contract of each role.

The structure follows arXiv 2509.05440, appendix C, and arXiv 2307.07889; the wording is original. A filled template is
one user turn. A writing prompt ends with its subject and a judging prompt with the sentence that names the answers;
neither ends with a cue such as "Answer:". A cue is an answer prefix, with which the judge's own turn begins.

A file is `TASK/ROLE.md`::

    +++
    slots = ["dimension", "description", "context", "reference", "target"]
    answer_prefix = 'Answer: "'

    [labels]
    win = "Better"
    loss = "Worse"
    tie = "Similar"
    +++
    text with {{context}} and the other slots

`[labels]` maps an outcome to the words of the answer; without it, grades are their own labels. `[claims]` (role
compare-yesno) maps an outcome to the words in the slot `claim`. `answer_prefix` is how the answer of a judge begins;
without it, the judge begins its answer itself. The text of role reward is the turn of the user, and needs no labels and
no slot.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from refladder.errors import DataError, PromptError, UnknownNameError, similar
from refladder.parsing import parse_toml
from refladder.records import DOCUMENT, LOSS, NO, OUTPUT, REWARD, TIE, WIN, YES, Prompt, digest_of

if TYPE_CHECKING:
    from refladder.records import Context, Dimension, Unwritten

# The slots of each role. A template must use all of them except those that are optional. That of a reward model may
# leave out any: it is the turn of the user, and the output follows it as that of the assistant.
_CRITERION = "context", "background", "dimension", "description"
_ANCHORED = (*_CRITERION, "reference_context", "reference_background", "examples", "target")
ROLES: dict[str, tuple[str, ...]] = {
    "worst": _CRITERION,
    "best": _CRITERION,
    "between": (*_CRITERION, "lower", "higher"),
    "compare": (*_CRITERION, "reference", "target"),
    "compare-shared": (
        *_CRITERION,
        "target",
        "reference",
        "reference_context",
        "reference_background",
    ),
    "compare-yesno": (*_CRITERION, "reference", "target", "claim"),
    "direct-5": (*_CRITERION, "target"),
    "direct-10": (*_CRITERION, "target"),
    "direct-100": (*_CRITERION, "target"),
    "stated": (*_CRITERION, "references", "target"),
    "stated-shared": (
        *_CRITERION,
        "references",
        "target",
        "reference_context",
        "reference_background",
    ),
    "rating": (*_CRITERION, "target"),
    "rating-stated": (*_CRITERION, "target"),
    "rating-together": ("context", "background", "criteria", "target"),
    "anchored": _ANCHORED,
    "anchored-stated": _ANCHORED,
    "pairwise": (*_CRITERION, "first", "second"),
    "verifier": (*_CRITERION, "first", "second", "place"),
    REWARD: (*_CRITERION, OUTPUT),
    "subject": ("target",),
}
OPTIONAL_SLOTS = frozenset({"background", "reference_background"})
# Templates of task `document` may leave these slots out.
_CONTEXT_SLOTS = frozenset({"context", "reference_context"})

# The number of grades in each role that asks for one; 1 is the worst.
ROLE_GRADES = {
    "direct-5": 5,
    "direct-10": 10,
    "direct-100": 100,
    "rating": 5,
    "anchored": 5,
    "verifier": 20,
}
# The outcomes that need a label in each judging role.
ROLE_OUTCOMES: dict[str, tuple[str, ...]] = {
    "compare": (WIN, LOSS, TIE),
    "compare-shared": (WIN, LOSS, TIE),
    "compare-yesno": (YES, NO),
    **{role: tuple(map(str, range(1, most + 1))) for role, most in ROLE_GRADES.items()},
    "pairwise": (WIN, LOSS),
    # The output is compared with a text whose reward is 0.
    REWARD: (WIN, LOSS),
}
# Outcomes for which a yes/no question is asked.
ROLE_CLAIMS: dict[str, tuple[str, ...]] = {"compare-yesno": (WIN, LOSS, TIE)}

_SLOT = re.compile(r"\{\{[ \t]*([A-Za-z_]\w*)[ \t]*\}\}")
_BRACES = re.compile(r"\{\{|\}\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """A prompt with unfilled slots: literal, slot, ..., literal; `digest` covers the whole file, line ends as LF."""

    task: str
    role: str
    digest: str
    path: Path
    line: int
    literals: tuple[str, ...]
    names: tuple[str, ...]
    labels: Mapping[str, str]
    claims: Mapping[str, str]
    prefix: str = ""
    ending: Unwritten | None = None

    @property
    def signature(self) -> str:
        """Return task/role@digest."""
        return f"{self.task}/{self.role}@{self.digest}"


def check_template(template: Template) -> None:
    """Check that a template fulfils the contract of its role.

    It uses each slot of the role at least once (backgrounds are optional, and in task `document` contexts), and nothing
    else looks like a slot. A judging role has one label per outcome, in order and all different, and names them in its
    text (for a scale, the two ends). Its answer may have a prefix. Role compare-yesno has claims.

    Raises:
        UnknownNameError: no such role.
        PromptError: one of these does not hold.
    """
    if template.role not in ROLES:
        raise UnknownNameError("prompt role", template.role, ROLES)
    _check_slots(template)
    outcomes = ROLE_OUTCOMES.get(template.role, ())
    _check_words(template, "labels", template.labels, outcomes)
    _check_words(template, "claims", template.claims, ROLE_CLAIMS.get(template.role, ()))
    # The prefix may be any TOML value.
    prefix: object = template.prefix
    lined = isinstance(prefix, str) and prefix == prefix.strip() and prefix.isprintable()
    if not lined or (prefix and not outcomes):
        needs = "is for roles with labels"
        if outcomes:
            needs = "must be one line of text without surrounding spaces"
        raise PromptError(
            f"{template.path}: answer_prefix {needs}, found {prefix!r}; correct or delete it"
        )
    # A reward model is asked for no label.
    if template.role == REWARD:
        return
    words = list(template.labels.values())
    if template.role in ROLE_GRADES:
        words = [words[0], words[-1]]
    text = "".join(template.literals)
    for word in words:
        if word not in text:
            raise PromptError(
                f"{template.path}:{template.line}: the text does not name the label {word!r}, so the judge does not "
                "know this answer; add it to the text"
            )


def fill(template: Template, slots: Mapping[str, str], claim: str | None = None) -> Prompt:
    """Fill the slots of a template; values are never searched for slots."""
    offered = ROLES[template.role]
    values = dict(slots)
    for name, value in values.items():
        if name not in offered or name == "claim":
            raise UnknownNameError(f"slot of {template.signature}", name, set(offered) - {"claim"})
        if not isinstance(value, str):
            raise PromptError(f"{template.signature}: slot {name!r} needs text, found {value!r}")
    if template.claims or claim is not None:
        values["claim"] = _claimed(template, claim)
    names = template.names
    if template.ending is not None:
        values["ending"] = template.ending
        names += ("ending",)
    if template.role == REWARD:
        names += (OUTPUT,)
    for name in names:
        if name not in values:
            raise PromptError(f"{template.signature}: slot {{{{{name}}}}} has no value")
    return Prompt(
        task=template.task,
        role=template.role,
        literals=template.literals + ("",) * (len(names) - len(template.names)),
        names=names,
        slots=values,
        labels=tuple(template.labels.values()),
        outcomes=tuple(template.labels),
        claim=claim,
        prefix=template.prefix,
    )


def _claimed(template: Template, claim: str | None) -> str:
    """Return the value of the slot `claim`, which only a template with claims has."""
    claims = template.claims
    if claim is None:
        raise PromptError(f"{template.signature}: needs a claim, one of: {', '.join(claims)}")
    if not claims:
        raise PromptError(
            f"{template.signature}: role {template.role!r} has no claims, found {claim!r}"
        )
    if claim not in claims:
        raise UnknownNameError("claim", claim, claims)
    return claims[claim]


def criterion(context: Context, dimension: Dimension) -> dict[str, str]:
    """Return the values of the slots that every template has, from the context and the dimension."""
    return {
        "context": context.text,
        "background": context.background,
        "dimension": dimension.name,
        "description": dimension.description,
    }


def with_text(template: Template, text: str) -> Template:
    """Replace the text of a template; the digest covers the new text, labels, claims and answer prefix."""
    literals, names = split_slots(text)
    words = [*template.labels.values(), *template.claims.values()]
    if template.prefix:
        words.append(template.prefix)
    digest = digest_of(text, *words, size=6)
    changed = replace(template, digest=digest, literals=literals, names=names)
    check_template(changed)
    return changed


def split_slots(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the literals of a text, and the names of the slots between them."""
    pieces = _SLOT.split(text)
    return tuple(pieces[0::2]), tuple(pieces[1::2])


def text_of(template: Template) -> str:
    """Return the text of a template, with its slots."""
    first, *others = template.literals
    slots = zip(template.names, others, strict=True)
    return first + "".join(f"{{{{{name}}}}}{literal}" for name, literal in slots)


def _check_slots(template: Template) -> None:
    offered = tuple(name for name in ROLES[template.role] if name != OUTPUT)
    line = template.line
    for literal, name in zip(template.literals, (*template.names, None), strict=True):
        braces = _BRACES.search(literal)
        if braces is not None:
            brace_line = line + literal.count("\n", 0, braces.start())
            excerpt = literal[braces.start() :].split("\n")[0][:40]
            raise PromptError(
                f"{template.path}:{brace_line}: {excerpt!r} is not a slot; a slot is written {{{{name}}}}"
            )
        line += literal.count("\n")
        if name is not None and name not in offered:
            near = similar(name, offered)
            hint = f"; did you mean {{{{{near}}}}}?" if near else "."
            raise PromptError(
                f"{template.path}:{line}: unknown slot {{{{{name}}}}}{hint} Role {template.role!r} has: "
                f"{', '.join(offered)}"
            )
    if template.role == REWARD:
        return
    optional = set(OPTIONAL_SLOTS)
    if template.task == DOCUMENT:
        optional |= _CONTEXT_SLOTS
    for name in offered:
        if name not in (*template.names, *optional):
            raise PromptError(
                f"{template.path}: slot {{{{{name}}}}} is not in the text; role {template.role!r} needs it"
            )


def _check_words(template: Template, table: str, words: object, outcomes: tuple[str, ...]) -> None:
    """Check a table of the head, which may contain any TOML value."""
    if not isinstance(words, Mapping) or tuple(words) != outcomes:
        requirement = f"has no [{table}]"
        if outcomes:
            requirement = f"needs [{table}] for {', '.join(outcomes)} in this order"
        raise PromptError(f"{template.path}: role {template.role!r} {requirement}, found {words!r}")
    valid = set()
    for word in words.values():
        if isinstance(word, str) and word and word == word.strip():
            valid.add(word)
    if len(valid) != len(outcomes):
        raise PromptError(
            f"{template.path}: the {table} must be different non-empty strings without surrounding spaces, "
            f"found {list(words.values())!r}"
        )


TEMPLATES = Path(__file__).parent / "templates"

TASKS = "summarization", "dialogue", "story", "data-to-text", "open", "document"


# The name of a task is a folder name and part of "task/role@digest", so it must not contain their separators.
_TASK = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
# "summarisation" and "dialog" are similar enough to a shipped task, "history" is not.
_NEAR_TASK = 0.85
_HEAD = re.compile(r"\A\+\+\+\n(.*?)^\+\+\+\n(.*)\Z", re.DOTALL | re.MULTILINE)


def load_template(task: str, role: str, folder: Path | None = None) -> Template:
    """Read and check the template of a task and role."""
    if role not in ROLES:
        raise UnknownNameError("prompt role", role, ROLES)
    if folder is not None:
        _require_folder(folder)
    for base in filter(None, (folder, TEMPLATES)):
        path = base / task / f"{role}.md"
        if _TASK.fullmatch(task) and path.is_file():
            return _parse(path, task, role)
    entries = [] if folder is None else folder.iterdir()
    user_tasks = [entry.name for entry in entries if entry.is_dir() and _TASK.fullmatch(entry.name)]
    if task in user_tasks:
        raise PromptError(
            f"{folder}/{task}: no file {role}.md; a new task needs a file for every role that is used, so add it"
        )
    raise UnknownNameError("task", task, {*TASKS, *user_tasks})


def list_templates(folder: Path | None = None) -> list[Template]:
    """Return all templates: the shipped ones, replaced or extended by the templates of a user folder."""
    templates = {}
    for task, role in itertools.product(TASKS, ROLES):
        if (TEMPLATES / task / f"{role}.md").is_file():
            templates[task, role] = load_template(task, role)
    for template in check_folder(folder):
        templates[template.task, template.role] = template
    return list(templates.values())


def check_folder(folder: str | Path | None) -> list[Template]:
    """Return the templates of a user folder, sorted; refuse files that no prompt would use and misspelt task names."""
    if folder is None:
        return []
    folder = Path(folder)
    _require_folder(folder)
    templates = []
    for path in sorted(folder.rglob("*")):
        file = path.relative_to(folder)
        hidden = any(part.startswith(".") for part in file.parts)
        if hidden or not path.is_file() or file.name == "README.md":
            continue
        if len(file.parts) != 2 or file.suffix != ".md":
            raise PromptError(
                f"{path}: not named TASK/ROLE.md, so no prompt would use it; move or rename it"
            )
        task = file.parts[0]
        _check_task_name(folder / task, task)
        try:
            templates.append(load_template(task, file.stem, folder))
        except UnknownNameError as error:
            raise PromptError(f"{path}: {error}") from error
    if not templates:
        raise PromptError(
            f"{folder}: contains no template; a template is a file TASK/ROLE.md, e.g. story/compare.md"
        )
    return sorted(templates, key=lambda template: (template.task, template.role))


def _require_folder(folder: Path) -> None:
    if not folder.is_dir():
        problem = "is a file" if folder.exists() else "does not exist"
        raise PromptError(
            f"{folder}: the folder of prompt templates {problem}; give a folder with files TASK/ROLE.md"
        )


def _check_task_name(path: Path, task: str) -> None:
    if _TASK.fullmatch(task) is None:
        raise PromptError(
            f"{path}: a task name consists of letters, digits, - _ and ., found {task!r}"
        )
    # "dialog" is a misspelt "dialogue"; "dialogue-2" is a new task.
    plain = task.casefold().replace("_", "-")
    near = similar(plain, TASKS, _NEAR_TASK)
    if near and task != near and (plain == near or near not in plain):
        raise PromptError(
            f"{path}: unknown task {task!r}; did you mean {near!r}? A new task needs a less similar name"
        )


def _parse(path: Path, task: str, role: str) -> Template:
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise PromptError(f"{path}: cannot be read: {error.strerror}") from error
    try:
        source = raw.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise PromptError(f"{path}:{line}: not UTF-8; save the template as UTF-8") from error
    parts = _HEAD.match(source)
    if parts is None:
        raise PromptError(f"{path}:1: a template starts with a TOML head between two lines of +++")
    try:
        # The extra line makes line numbers those of the file.
        head = parse_toml("\n" + parts[1], str(path), "the head is not TOML")
    except DataError as error:
        raise PromptError(str(error)) from error
    known = "slots", "labels", "claims", "answer_prefix"
    for key in head:
        if key not in known:
            raise PromptError(f"{path}: unknown key {key!r} in the head; known: {', '.join(known)}")
    body = parts[2].strip()
    literals, names = split_slots(body)
    # A verifier's grades are letters.
    grades = ROLE_OUTCOMES[role] if role in {*ROLE_GRADES, REWARD} - {"verifier"} else ()
    template = Template(
        task=task,
        role=role,
        digest=digest_of(source, size=6),
        path=path,
        line=source.count("\n", 0, parts.end(2) - len(parts[2].lstrip())) + 1,
        literals=literals,
        names=names,
        labels=head.get("labels", {grade: grade for grade in grades}),
        claims=head.get("claims", {}),
        prefix=head.get("answer_prefix", ""),
    )
    check_template(template)
    used = list(dict.fromkeys(template.names))
    if head.get("slots") != used:
        raise PromptError(
            f"{path}: slots in the head must list the slots of the text in the order of their first use: {used!r}, "
            f"found {head.get('slots')!r}"
        )
    return template
