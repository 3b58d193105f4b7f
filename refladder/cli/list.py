"""refladder list."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from refladder import registry
from refladder.cli import console
from refladder.errors import UnknownNameError

if TYPE_CHECKING:
    from pathlib import Path

KINDS = ("benchmarks", "ladders", "backends", "methods", "rules", "prompts")


@click.command(short_help="List what there is, by name.")
@click.argument("kind", required=False, metavar=f"[{'|'.join(KINDS)}]")
@console.PROMPTS
@console.JSON
def command(*, kind: str | None, prompts: Path | None, as_json: bool) -> None:
    """List benchmarks, ladder sets, backends, methods, rules and prompts: the names that other commands take."""
    from rich import box  # noqa: PLC0415  --help stays quick
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    if kind is not None and kind not in KINDS:
        raise UnknownNameError("kind of thing", kind, KINDS)
    for chosen in (kind,) if kind else KINDS:
        entries = inventory(chosen, prompts)
        if as_json:
            for entry in entries:
                click.echo(json.dumps({"kind": chosen, **entry}, ensure_ascii=False))
            continue
        table = Table(box=box.SIMPLE_HEAD, title=chosen, title_justify="left")
        table.add_column("name", no_wrap=True)
        table.add_column("what it is", overflow="fold")
        for entry in entries:
            table.add_row(Text(entry["name"]), Text(entry["about"]))
        console.console().print(table)


def inventory(kind: str, prompts: Path | None = None) -> list[dict[str, str]]:
    """The names of one kind, each with a line about it."""
    from refladder.files.ladder_sets import published_names, read_ladder_set  # noqa: PLC0415

    if kind == "ladders":
        entries = []
        for name in published_names():
            opened = read_ladder_set(name)
            words = ", ".join(dimension.name for dimension in opened.dimensions)
            about = f"{len(opened.ladders)} ladders of {opened.rungs} rungs, {opened.task}: {words}"
            entries.append({"name": name, "about": about})
        return entries
    if kind == "prompts":
        from refladder.prompts import list_templates  # noqa: PLC0415

        found = list_templates(prompts)
        return [{"name": f"{one.task}/{one.role}", "about": f"digest {one.digest}"} for one in found]
    if kind == "benchmarks":
        from refladder.loaders import BENCHMARKS as TABLE  # noqa: PLC0415

        names = [*registry.known("benchmark", TABLE), *published_names()]
    elif kind == "backends":
        from refladder.backends import BACKENDS as TABLE  # noqa: PLC0415

        names = registry.known("backend", TABLE)
    elif kind == "methods":
        from refladder.methods.contract import METHODS as TABLE  # noqa: PLC0415

        names = registry.known("method", TABLE)
    else:
        from refladder.scoring.rules import RULES as TABLE  # noqa: PLC0415

        names = registry.known("rule", TABLE)
    return [{"name": name, "about": ABOUT.get(name, "registered by another package")} for name in names]


ABOUT = {
    "builtin": "surface features, no model, no network: the baseline, and the default",
    "hf": "hf:ORG/MODEL or hf:FOLDER, a model of transformers on this machine; pip install torch transformers",
    "openai": "openai:MODEL on any OpenAI-compatible server, with --base-url; pip install openai",
    "scripted": "scripted:FILE answers by the rules in a file; a stand-in for tests",
    "ladder": "compares each output with the rungs of a ladder, arXiv 2509.05440",
    "win-ratio": "share of comparisons with the other outputs that are won, arXiv 2307.07889",
    "win-ratio-debiased": "win ratio, a preference for the first place taken out by a threshold",
    "mean-probability": "mean probability of winning a comparison",
    "mean-probability-debiased": "mean probability, a preference for the first place taken out by a weight",
    "bradley-terry": "Bradley-Terry strengths from soft wins",
    "poe": "product of Gaussian experts, arXiv 2405.05894",
    "likelihood": "the ranking that makes the comparisons most likely, arXiv 2307.07889, appendix B",
    "pairs-greedy": "PairS: merge sort by comparisons, arXiv 2403.16950",
    "pairs-beam": "PairS: merge sort with a beam and uncertainty pruning",
    "zepo": "win ratio with the instruction that favours no place, arXiv 2406.11370",
    "direct-5": "the most probable grade of 1 to 5",
    "direct-10": "the most probable grade of 1 to 10, arXiv 2307.07889",
    "g-eval-5": "the expected grade of 1 to 5, arXiv 2303.16634",
    "g-eval-10": "the expected grade of 1 to 10",
    "gptscore": "mean log-probability of the output's tokens, with a judge hf:PATH, arXiv 2302.04166",
    "bleu": "sentence BLEU of sacrebleu against the references; pip install sacrebleu",
    "chrf": "sentence chrF2 of sacrebleu against the references",
    "rouge-1": "ROUGE-1 F1 of rouge-score, the best of the references; pip install rouge-score",
    "rouge-2": "ROUGE-2 F1, likewise",
    "rouge-l": "ROUGE-L F1, likewise",
    "meteor": "METEOR of nltk, with synonyms where WordNet is installed; the best of the references; pip install nltk",
    "bertscore": "bertscore:PATH, BERTScore F1 with an encoder, the best of the references",
    "unieval": "unieval:PATH, UniEval's yes/no questions to a T5, arXiv 2210.07197",
    "nli": "nli:PATH, entailment both ways between data and text",
    "regressor": "regressor:PATH, the output of a trained sequence classifier",
    "questeval": "questeval:GENERATOR+READER, questions answered from the other text, arXiv 2103.12693",
    "mqag": "mqag:GENERATOR+DISTRACTORS+READER, multiple-choice questions, arXiv 2301.12307",
    "ladder-sum": "sum over rungs i of i * (p(win) - p(loss)), arXiv 2509.05440",
    "mean-difference": "mean over rungs of p(win) - p(loss), -1 to 1",
    "expected-grade": "rungs beaten and half the ties, on the dimension's human scale",
    "hard-votes": "ladder-sum of the most probable verdicts only",
    "hanna": "stories: 96 prompts, 10 systems and the human story, 6 dimensions, 3 raters; "
    "--option human=true takes the human story as one more system",
    "newsroom": "news summaries: 60 articles, 7 systems, 4 dimensions, 3 raters",
    "own": "your own table: --source TABLE --task-file TASK.toml",
    "podcast": "podcast summaries: 179 episodes, 20 systems, overall quality",
    "summeval": "news summaries: 100 articles, 16 systems, 4 dimensions, 3 experts; "
    "--option raters=crowd reads the crowd's ratings, raters=all both",
    "topicalchat": "dialogue responses (USR): 60 contexts, 6 systems, 6 dimensions, 3 raters",
    "webnlg": "data to text (2017): 223 triple sets, 9 systems, 3 dimensions; "
    "--option systems=NAME,... reads these alone",
    "demo/dialogue": "written for this project: 14 conversations, 6 systems, engagingness",
    "demo/story": "written for this project: 12 story ideas, 6 systems, coherence and complexity",
    "demo/summarization": "written for this project: 12 articles, 6 systems, relevance and fluency",
}
