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
from refladder.records import names_of
from refladder.scoring.rules import RULES

if TYPE_CHECKING:
    from pathlib import Path

    from refladder.files.ladder_sets import LadderSet

SHIPPED = {
    "demo/dialogue": "written for this project: 14 conversations, 6 systems, engagingness",
    "demo/story": "written for this project: 12 story ideas, 6 systems, coherence and complexity",
    "demo/summarization": "written for this project: 12 articles, 6 systems, relevance and fluency",
}


def _whose(ladders: LadderSet) -> str:
    if ladders.anchors:
        return " for any text"
    return "" if ladders.contexts else " for the texts of the benchmark, which the set lacks"


def inventory(kind: str, prompts: Path | None = None) -> list[dict[str, str]]:
    """List the names of one kind (benchmarks, ladders, backends, methods, rules or prompts), with descriptions."""
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
        named = {"benchmarks": BENCHMARKS, "backends": BACKENDS, "methods": METHODS, "rules": RULES}
        described = registry.describe(kind.removesuffix("s"), named[kind])
    if kind == "benchmarks":
        described |= {name: SHIPPED[name] for name in rated_names()}
    return [{"name": name, "about": about} for name, about in described.items()]
