"""Prompt templates: one Markdown file for each task and role, with a TOML head; slots only.

A file is `TASK/ROLE.md`::

    +++
    slots = ["dimension", "description", "context", "reference", "target"]

    [labels]
    win = "Better"
    loss = "Worse"
    tie = "Similar"
    +++
    text with {{context}} and the other slots

`[labels]` maps an outcome to the words the judge is to answer with; `[claims]` (role compare-yesno) maps an outcome to
the words put in the slot `claim`. The structure follows arXiv 2509.05440, appendix C, and arXiv 2307.07889; the words
are this project's. A filled template is one turn of the user: a writing prompt ends with what is to be written about,
a judging prompt with the sentence that names the answers, and neither ends with a cue such as "Answer:".
"""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from refladder.errors import DataError, PromptError, UnknownNameError
from refladder.parsing import parse_toml
from refladder.records import LOSS, TIE, WIN, Context, Dimension, Prompt

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
# The outcomes that a yes/no question is asked about.
ROLE_CLAIMS: dict[str, tuple[str, ...]] = {"compare-yesno": (WIN, LOSS, TIE)}

# A task's name is a folder's name and a part of "task/role@digest", so it holds no separator of either.
_TASK = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_NEAR_TASK = 0.85  # "summarisation" and "dialog" are this near to a shipped task, "history" is not
_SLOT = re.compile(r"\{\{[ \t]*([A-Za-z_]\w*)[ \t]*\}\}")
_BRACES = re.compile(r"\{\{|\}\}")
_HEAD = re.compile(r"\A\+\+\+\n(.*?)^\+\+\+\n(.*)\Z", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """A prompt with open slots.

    `digest` is over the whole file (line ends as LF), so any edit changes every recipe that uses it. `path` is the
    file and `line` the line on which the prompt's text begins. `literals` has one more entry than `names`: the text is
    literal, slot, literal, ..., literal.
    """

    task: str
    role: str
    digest: str
    path: Path
    line: int
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
        PromptError: the folder does not exist, its task lacks the role, or the file is not a template (see
            `check_template`).
    """
    if role not in ROLES:
        raise UnknownNameError("prompt role", role, ROLES)
    if folder is not None:
        _require_folder(folder)
    bases = (TEMPLATES,) if folder is None else (folder, TEMPLATES)
    named = _TASK.fullmatch(task) is not None
    path = next(
        (base / task / f"{role}.md" for base in bases if named and (base / task / f"{role}.md").is_file()), None
    )
    if path is not None:
        return _parse(path, task, role)
    own_tasks = [] if folder is None else [entry.name for entry in folder.iterdir() if _is_task_folder(entry)]
    if folder is not None and task in own_tasks:
        raise PromptError(
            f"{folder / task}: no file {role}.md; a task of your own needs one for every role that is used, so add it"
        )
    raise UnknownNameError("task", task, {*TASKS, *own_tasks})


def list_templates(folder: Path | None = None) -> list[Template]:
    """Every template that can be loaded: the shipped ones, with those of a user's folder in their place or added.

    Raises:
        PromptError: see `check_folder`.
    """
    templates = {(task, role): load_template(task, role) for task in TASKS for role in ROLES}
    if folder is not None:
        templates |= {(template.task, template.role): template for template in check_folder(folder)}
    return list(templates.values())


def check_folder(folder: Path) -> list[Template]:
    """Read every template of a user's folder, and refuse files that no task and role would ever use.

    A folder holds TASK/ROLE.md, README.md and hidden files. A task may be new, but its name must not look like a
    misspelt shipped one.

    Returns:
        The folder's templates, sorted by task and role.

    Raises:
        PromptError: no such folder, no template in it, a file that is not TASK/ROLE.md, a misspelt task or role, or a
            file that is not a template (see `check_template`).
    """
    _require_folder(folder)
    files = [
        path.relative_to(folder)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    ]
    templates = []
    for file in files:
        if file.name == "README.md":
            continue
        if len(file.parts) != len(("task", "role")) or file.suffix != ".md":
            raise PromptError(f"{folder / file}: not named TASK/ROLE.md, so no prompt would use it; move or rename it")
        task = file.parts[0]
        _check_task_name(folder / task, task)
        try:
            templates.append(load_template(task, file.stem, folder))
        except UnknownNameError as error:
            raise PromptError(f"{folder / file}: {error}") from error
    if not templates:
        raise PromptError(f"{folder}: holds no template; a template is a file TASK/ROLE.md, e.g. story/compare.md")
    return sorted(templates, key=lambda template: (template.task, template.role))


def check_template(template: Template) -> None:
    """Check that a template gives its role all it needs: the contract of every prompt file.

    Its slots are the role's, each used at least once (`background` may be left out); nothing else looks like a slot;
    a judging role has one label for each outcome, in order and each different, and names them in its text (of a
    scale, the two ends); role compare-yesno has claims.

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
    words = list(template.labels.values())
    text = "".join(template.literals)
    for word in (words[0], words[-1]) if template.role.startswith("direct") else words:
        if word not in text:
            raise PromptError(
                f"{template.path}:{template.line}: the text never names the label {word!r}, so the judge cannot know "
                "that it is an answer; write it into the text"
            )


def fill(template: Template, slots: Mapping[str, str], claim: str | None = None) -> Prompt:
    """Put values in a template's slots; values are never read for slots.

    Args:
        template: from `load_template`.
        slots: a value for every slot of the role but `claim`; values the template does not use are kept for backends
            that read slots instead of text.
        claim: for role compare-yesno, and only there, the outcome that the question is about.

    Raises:
        UnknownNameError: the role has no such slot, or the template no such claim.
        PromptError: a slot is left unfilled or its value is not a text; a claim is missing or not asked for.
    """
    offered = ROLES[template.role]
    values = dict(slots)
    for name, value in values.items():
        if name not in offered or name == "claim":
            raise UnknownNameError(f"slot of {template.signature}", name, set(offered) - {"claim"})
        if not isinstance(value, str):
            raise PromptError(f"{template.signature}: slot {name!r} takes a text, found {value!r}")
    if claim is not None and not template.claims:
        raise PromptError(f"{template.signature}: role {template.role!r} asks about no claim, found {claim!r}")
    if claim is None and template.claims:
        raise PromptError(f"{template.signature}: needs a claim to ask about, one of: {', '.join(template.claims)}")
    if claim is not None:
        if claim not in template.claims:
            raise UnknownNameError("claim", claim, template.claims)
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


def criterion(context: Context, dimension: Dimension) -> dict[str, str]:
    """The slots that every template has: what the texts are about, and the quality in question."""
    return {
        "context": context.text,
        "background": context.background,
        "dimension": dimension.name,
        "description": dimension.description,
    }


def with_text(template: Template, text: str) -> Template:
    """The template with another text; its digest is that of the new text and labels.

    Args:
        template: whose task, role, labels and claims stay.
        text: with slots as a file's text has them.

    Raises:
        PromptError: see `check_template`.
    """
    pieces = _SLOT.split(text)
    words = "\0".join([text, *template.labels.values(), *template.claims.values()])
    made = replace(
        template,
        digest=hashlib.blake2b(words.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest(),
        literals=tuple(pieces[0::2]),
        names=tuple(pieces[1::2]),
    )
    check_template(made)
    return made


def text_of(template: Template) -> str:
    """The text of a template, with its slots."""
    slots = [f"{{{{{name}}}}}" for name in template.names]
    return "".join(piece for pair in zip(template.literals, [*slots, ""], strict=True) for piece in pair)


def _require_folder(folder: Path) -> None:
    if not folder.is_dir():
        found = "is a file" if folder.exists() else "does not exist"
        raise PromptError(f"{folder}: the folder of prompt templates {found}; name a folder that holds TASK/ROLE.md")


def _is_task_folder(entry: Path) -> bool:
    return entry.is_dir() and _TASK.fullmatch(entry.name) is not None


def _check_task_name(path: Path, task: str) -> None:
    if _TASK.fullmatch(task) is None:
        raise PromptError(f"{path}: a task's name is made of letters, digits, - _ and ., found {task!r}")
    # "dialog" is a slip for "dialogue"; "dialogue-2" is a task of the user's own.
    plain = task.casefold().replace("_", "-")
    near = difflib.get_close_matches(plain, TASKS, n=1, cutoff=_NEAR_TASK)
    if near and task != near[0] and (plain == near[0] or near[0] not in plain):
        raise PromptError(
            f"{path}: unknown task {task!r}; did you mean {near[0]!r}? A task of your own needs a name less like it"
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
        head = parse_toml("\n" + parts[1], str(path), "the head is not TOML")  # one line more: errors count the file's
    except DataError as error:
        raise PromptError(str(error)) from error
    unknown = sorted(set(head) - {"slots", "labels", "claims"})
    if unknown:
        raise PromptError(f"{path}: unknown key {unknown[0]!r} in the head; known: slots, labels, claims")
    body = parts[2].strip()
    pieces = _SLOT.split(body)
    template = Template(
        task=task,
        role=role,
        digest=hashlib.blake2b(source.encode(), digest_size=6).hexdigest(),
        path=path,
        line=source.count("\n", 0, parts.end(2) - len(parts[2].lstrip())) + 1,
        literals=tuple(pieces[0::2]),
        names=tuple(pieces[1::2]),
        labels=head.get("labels", {}),
        claims=head.get("claims", {}),
    )
    check_template(template)
    used = list(dict.fromkeys(template.names))
    if head.get("slots") != used:
        raise PromptError(
            f"{path}: the head's slots must list the text's slots in the order of their first use: {used!r}, "
            f"found {head.get('slots')!r}"
        )
    return template


def _check_slots(template: Template) -> None:
    offered = ROLES[template.role]
    line = template.line
    for literal, name in zip(template.literals, (*template.names, None), strict=True):
        braces = _BRACES.search(literal)
        if braces is not None:
            at = line + literal.count("\n", 0, braces.start())
            found = literal[braces.start() :].split("\n")[0][:40]
            raise PromptError(f"{template.path}:{at}: {found!r} is not a slot; a slot is written {{{{name}}}}")
        line += literal.count("\n")
        if name is not None and name not in offered:
            near = difflib.get_close_matches(name, offered, n=1, cutoff=0.5)
            hint = f"; did you mean {{{{{near[0]}}}}}?" if near else ";"
            raise PromptError(
                f"{template.path}:{line}: unknown slot {{{{{name}}}}}{hint} Role {template.role!r} has: "
                f"{', '.join(offered)}"
            )
    missing = [name for name in offered if name not in template.names and name not in OPTIONAL_SLOTS]
    if missing:
        raise PromptError(
            f"{template.path}: slot {{{{{missing[0]}}}}} is not in the text; role {template.role!r} needs it"
        )


def _check_words(template: Template, table: str, words: object, outcomes: tuple[str, ...]) -> None:
    """Check one table of the head; a user wrote it, so it may hold anything that TOML can."""
    if not isinstance(words, Mapping) or tuple(words) != outcomes:
        needs = f"needs [{table}] for {', '.join(outcomes)} in this order" if outcomes else f"takes no [{table}]"
        raise PromptError(f"{template.path}: role {template.role!r} {needs}, found {words!r}")
    fit = {word for word in words.values() if isinstance(word, str) and word and word == word.strip()}
    if len(fit) != len(outcomes):
        raise PromptError(
            f"{template.path}: the {table} must be different strings, not empty and without spaces around them, "
            f"found {list(words.values())!r}"
        )
