"""list: the names that commands take, by kind, each with its description."""

from __future__ import annotations

from typing import TYPE_CHECKING

from refladder import registry
from refladder.backends import BACKENDS
from refladder.errors import plural
from refladder.files.ladder_sets import load_ladders, published_names, rated_names
from refladder.loaders import BENCHMARKS
from refladder.methods.contract import METHODS
from refladder.prompts import list_templates
from refladder.records import DOCUMENT, names_of
from refladder.scoring.modes import MODES
from refladder.scoring.rules import RULES

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from refladder.files.ladder_sets import LadderSet

SHIPPED = {
    "demo/dialogue": "written for this project: 14 conversations, 6 systems, engagingness",
    "demo/story": "written for this project: 12 story ideas, 6 systems, coherence and complexity",
    "demo/summarization": "written for this project: 12 articles, 6 systems, relevance and fluency",
}


# What a row of a table has that a shared set can score, by the task of the set.
_ROWS = {
    DOCUMENT: "a text",
    "open": "a request and a reply",
    "dialogue": "a conversation and a response",
    "summarization": "a document and a summary",
    "story": "an idea and a story",
    "data-to-text": "data and a text",
}
_WITH_PASSAGES = "a question, passages (the background) and an answer"


def _whose(ladders: LadderSet) -> str:
    if ladders.anchors:
        return f" for {_row_of(ladders)}"
    return "" if ladders.contexts else " for the texts of the benchmark, which the set lacks"


def _row_of(ladders: LadderSet) -> str:
    """Return what a row has that a shared set can score, and its language where that is not English."""
    row = _WITH_PASSAGES if _has_passages(ladders) else _ROWS.get(ladders.task, "a text")
    return row if ladders.language in {None, "en"} else f"{row} in the language {ladders.language}"


def _has_passages(ladders: LadderSet) -> bool:
    anchors = [ladders.contexts[anchor] for anchor in ladders.anchors]
    return ladders.task != DOCUMENT and all(anchor.background for anchor in anchors)


def sets_for(fields: Collection[str] | None) -> str:
    """Name the shipped shared sets, each with what it scores: those for rows with these fields, all if they are unknown.

    A field is `context` or `background`.
    """
    fitting = []
    for name in published_names():
        opened = load_ladders(name)
        if not opened.anchors:
            continue
        needed = set() if opened.task == DOCUMENT else {"context"}
        if _has_passages(opened):
            needed.add("background")
        if fields is None or needed == set(fields):
            fitting.append(f"{name} ({_row_of(opened)})")
    return ", ".join(fitting)


def inventory(kind: str, prompts: Path | None = None) -> list[dict[str, str]]:
    """List the names of one kind (benchmarks, ladders, backends, methods, modes, rules or prompts), with descriptions."""
    described: dict[str, str] = {}
    if kind == "ladders":
        for name in published_names():
            opened = load_ladders(name)
            dimensions = ", ".join(names_of(opened.dimensions))
            size = f"{plural(len(opened.ladders), 'ladder')} of {opened.rungs} rungs"
            described[name] = f"{size}{_whose(opened)}, {' or '.join(opened.tasks)}: {dimensions}"
    elif kind == "prompts":
        for template in list_templates(prompts):
            described[f"{template.task}/{template.role}"] = f"digest {template.digest}"
    else:
        named = {
            "benchmarks": BENCHMARKS,
            "backends": BACKENDS,
            "methods": METHODS,
            "modes": MODES,
            "rules": RULES,
        }
        described = registry.describe(kind.removesuffix("s"), named[kind])
    if kind == "benchmarks":
        described |= {name: SHIPPED[name] for name in rated_names()}
    return [{"name": name, "about": about} for name, about in described.items()]
