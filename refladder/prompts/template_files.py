"""Reading templates: one Markdown file per task and role, with a TOML head.

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

import hashlib
import re
from pathlib import Path

from refladder.errors import DataError, PromptError, UnknownNameError, similar
from refladder.parsing import parse_toml
from refladder.prompts.template import ROLE_OUTCOMES, ROLES, Template, check_template, split_slots
from refladder.records import REWARD

TEMPLATES = Path(__file__).parent / "templates"

TASKS = ("summarization", "dialogue", "story", "data-to-text", "open", "document")


# The name of a task is a folder name and part of "task/role@digest", so it must not contain their separators.
_TASK = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_NEAR_TASK = 0.85  # "summarisation" and "dialog" are similar enough to a shipped task, "history" is not
_HEAD = re.compile(r"\A\+\+\+\n(.*?)^\+\+\+\n(.*)\Z", re.DOTALL | re.MULTILINE)


def load_template(task: str, role: str, folder: Path | None = None) -> Template:
    """Read and check the template of a task and role."""
    if role not in ROLES:
        raise UnknownNameError("prompt role", role, ROLES)
    if folder is not None:
        _require_folder(folder)
    bases = (TEMPLATES,) if folder is None else (folder, TEMPLATES)
    valid = _TASK.fullmatch(task) is not None
    path = next(
        (base / task / f"{role}.md" for base in bases if valid and (base / task / f"{role}.md").is_file()), None
    )
    if path is not None:
        return _parse(path, task, role)
    user_tasks = [] if folder is None else [entry.name for entry in folder.iterdir() if _is_task_folder(entry)]
    if folder is not None and task in user_tasks:
        raise PromptError(
            f"{folder / task}: no file {role}.md; a new task needs a file for every role that is used, so add it"
        )
    raise UnknownNameError("task", task, {*TASKS, *user_tasks})


def list_templates(folder: Path | None = None) -> list[Template]:
    """All templates: the shipped ones, replaced or extended by those of a user folder."""
    shipped = [(task, role) for task in TASKS for role in ROLES if (TEMPLATES / task / f"{role}.md").is_file()]
    templates = {(task, role): load_template(task, role) for task, role in shipped}
    if folder is not None:
        templates |= {(template.task, template.role): template for template in check_folder(folder)}
    return list(templates.values())


def check_folder(folder: Path) -> list[Template]:
    """Every template of a user folder, sorted; files that no prompt would use and misspelt task names are refused."""
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
        raise PromptError(f"{folder}: contains no template; a template is a file TASK/ROLE.md, e.g. story/compare.md")
    return sorted(templates, key=lambda template: (template.task, template.role))


def _require_folder(folder: Path) -> None:
    if not folder.is_dir():
        problem = "is a file" if folder.exists() else "does not exist"
        raise PromptError(f"{folder}: the folder of prompt templates {problem}; give a folder with files TASK/ROLE.md")


def _is_task_folder(entry: Path) -> bool:
    return entry.is_dir() and _TASK.fullmatch(entry.name) is not None


def _check_task_name(path: Path, task: str) -> None:
    if _TASK.fullmatch(task) is None:
        raise PromptError(f"{path}: a task name consists of letters, digits, - _ and ., found {task!r}")
    # "dialog" is a misspelt "dialogue"; "dialogue-2" is a new task.
    plain = task.casefold().replace("_", "-")
    near = similar(plain, TASKS, _NEAR_TASK)
    if near and task != near and (plain == near or near not in plain):
        raise PromptError(f"{path}: unknown task {task!r}; did you mean {near!r}? A new task needs a less similar name")


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
        head = parse_toml(
            "\n" + parts[1], str(path), "the head is not TOML"
        )  # the extra line makes line numbers those of the file
    except DataError as error:
        raise PromptError(str(error)) from error
    known = ("slots", "labels", "claims", "answer_prefix")
    unknown = sorted(set(head) - set(known))
    if unknown:
        raise PromptError(f"{path}: unknown key {unknown[0]!r} in the head; known: {', '.join(known)}")
    body = parts[2].strip()
    literals, names = split_slots(body)
    grades = ROLE_OUTCOMES[role] if role.startswith(("direct", REWARD)) else ()
    template = Template(
        task=task,
        role=role,
        digest=hashlib.blake2b(source.encode(), digest_size=6).hexdigest(),
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
