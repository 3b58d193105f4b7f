"""ZEPO: the judge's own fairness chooses the instruction it judges by; no labels are needed.

Source: Zhou et al. 2024, arXiv 2406.11370. Its prompts were searched over several rounds by a strong model; here one
round is done, over rewordings that are shipped, the user's, or the writer's.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from refladder.artifacts import read_bytes
from refladder.errors import DataError, PromptError, UsageError
from refladder.jobs.evaluate import Method
from refladder.jobs.methods import MethodResult, MethodSettings
from refladder.jobs.pairwise import (
    Tally,
    compare_all,
    groups,
    open_pair_judge,
    plain_win_ratio,
    result_of,
    seed_of,
    template_of,
)
from refladder.prompts import text_of, with_text
from refladder.records import Prompt, Sampling
from refladder.scoring.pairwise import first_probabilities, pair_question

if TYPE_CHECKING:
    from collections.abc import Sequence

    from refladder.backends import Backend
    from refladder.jobs.methods import Judge
    from refladder.prompts import Template
    from refladder.records import Benchmark, Dimension

_DEFAULTS = {"pairs": "64", "instructions": "", "rewrites": "0"}

# WIN and LOSS stand for the names of the two texts in the template.
INSTRUCTIONS = (
    """\
Consider {{dimension}} and nothing else. Which of the two is better, WIN or LOSS?
Reply with the name alone: "WIN" or "LOSS".""",
    """\
Weigh WIN and LOSS against each other on {{dimension}}, whichever of them comes first.
Name the better one, with no other words: "WIN" or "LOSS".""",
    """\
You judge {{dimension}}. One of WIN and LOSS is stronger in it; the place and the length of a text do not count.
Write its name only, "WIN" or "LOSS".""",
    """\
Which has the higher {{dimension}}: WIN or LOSS?
Answer "WIN" or "LOSS" and nothing more.""",
)

_REWRITE = (
    "Below is the instruction at the end of a prompt that asks to compare two texts. Put it in other words that mean "
    "the same and do not favour either text. Keep every part in double braces and the names {names} exactly as they "
    "are. Write only the new instruction.\n\n"
)


def zepo(
    benchmark: Benchmark, dimensions: Sequence[Dimension], judge: Judge, settings: MethodSettings, /
) -> MethodResult:
    """Win ratio with the instruction under which the judge chooses both places most equally.

    For each dimension, the same random pairs are asked with every instruction, each pair in an order drawn by lot; the
    instruction whose mean probability of the first is nearest to 1/2 is chosen (fairness = -|mean p - 1/2|), the
    template's own where several are equal.

    Options: `pairs`, how many are asked of each instruction and dimension; `instructions`, a file with one instruction
    in each paragraph, in place of the shipped ones; `rewrites`, how many the writer makes of the template's own.
    """
    own = settings.own("zepo", _DEFAULTS)
    try:
        count, rewrites = int(own["pairs"]), int(own["rewrites"])
    except ValueError:
        raise UsageError(
            f"zepo.pairs={own['pairs']}, zepo.rewrites={own['rewrites']}: both must be whole numbers"
        ) from None
    if count < 1 or rewrites < 0:
        raise UsageError(f"zepo.pairs={count}, zepo.rewrites={rewrites}: at least 1 pair and no less than 0 rewrites")
    template = template_of(benchmark, settings)
    notes: list[str] = []
    candidates = [template, *_reworded(template, own["instructions"])]
    if rewrites:
        writer = (settings.writer or judge)()
        made, failed = rewritten(writer, template, rewrites, settings)
        candidates += made
        if failed:
            notes.append(f"{len(failed)} of {rewrites} rewritten instructions cannot be used, e.g. {failed[0]}")
    total = Tally()
    parts = []
    for dimension in dimensions:
        fairness = [
            _fairness(benchmark, dimension, judge, settings, one, count=count, tally=total) for one in candidates
        ]
        known = [value for value in fairness if value is not None]
        if not known:
            notes.append(f"{dimension.name}: no answer could be read with any instruction; the template's own is used")
        best = fairness.index(max(known)) if known else 0
        chosen = candidates[best]
        listed = ", ".join("unreadable" if value is None else f"{-value:.3f}" for value in fairness)
        notes.append(f"{dimension.name}: instruction {best} of 0-{len(candidates) - 1}, |P(first) - 1/2| {listed}")
        pair_judge = open_pair_judge(benchmark, judge, settings, chosen)
        comparisons, tally = compare_all(benchmark, [dimension], pair_judge, settings)
        parts.append(
            result_of(
                benchmark,
                [dimension],
                pair_judge,
                settings,
                name="zepo",
                estimator=plain_win_ratio,
                comparisons=comparisons,
                tally=tally,
            )
        )
    return _joined(parts, total, notes, f"|zepo:{count}of{len(candidates)}")


def _joined(parts: Sequence[MethodResult], total: Tally, notes: Sequence[str], signature: str) -> MethodResult:

    methods = [part.method for part in parts if part.method is not None]
    return MethodResult(
        method=Method(
            name="zepo",
            signature="+".join(dict.fromkeys(method.signature for method in methods)) + signature,
            scores={key: value for method in methods for key, value in method.scores.items()},
        ),
        judgments=total.judgments + sum(part.judgments for part in parts),
        reused=total.reused + sum(part.reused for part in parts),
        unreadable=total.unreadable + sum(part.unreadable for part in parts),
        characters=total.characters + sum(part.characters or 0 for part in parts),
        measures={key: share for part in parts for key, share in part.measures.items()},
        comparisons=[one for part in parts for one in part.comparisons],
        notes=(*notes, *total.notes(), *(note for part in parts for note in part.notes)),
    )


def _head_and_instruction(template: Template) -> tuple[str, str]:
    head, gap, instruction = text_of(template).rpartition("\n\n")
    if not gap or "{{first}}" in instruction or "{{second}}" in instruction:
        raise PromptError(
            f"{template.path}: zepo rewords the last paragraph of the template, and here it holds a text to compare; "
            "put the instruction into a paragraph of its own at the end"
        )
    return head, instruction


def _with_instruction(template: Template, head: str, words: str) -> Template:
    """The template with another last paragraph, which must itself name the criterion and both answers."""
    for part in ("{{dimension}}", *template.labels.values()):
        if part not in words:
            raise PromptError(f"the instruction never says {part!r}: {words[:60]!r}")
    return with_text(template, f"{head}\n\n{words}")


def _reworded(template: Template, path: str) -> list[Template]:
    head, _ = _head_and_instruction(template)
    if not path:
        win, loss = template.labels.values()
        named = [words.replace("WIN", win).replace("LOSS", loss) for words in INSTRUCTIONS]
        return [_with_instruction(template, head, words) for words in named]
    try:
        text = read_bytes(Path(path)).decode().replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8; save the instructions as UTF-8") from error
    found = []
    for number, words in enumerate((part.strip() for part in text.split("\n\n")), 1):
        try:
            if words:
                found.append(_with_instruction(template, head, words))
        except PromptError as error:
            raise PromptError(
                f"{path}: instruction {number} cannot take the place of the template's: {error}"
            ) from error
    if not found:
        raise DataError(f"{path}: no instructions in this file; write one in each paragraph")
    return found


def rewritten(
    writer: Backend, template: Template, count: int, settings: MethodSettings
) -> tuple[list[Template], list[str]]:
    """Let the writer reword the instruction of a template.

    Returns:
        (templates with a new instruction, each once; why others cannot be used).

    Raises:
        BackendError: the writer failed as a whole.
        PromptError: the template has no instruction of its own.
    """
    head, instruction = _head_and_instruction(template)
    names = " and ".join(f'"{label}"' for label in template.labels.values())
    asked = Prompt(
        task=template.task,
        role="rewrite",
        literals=(_REWRITE.format(names=names) + instruction,),
        names=(),
        slots={},
    )
    found: dict[str, Template] = {}
    failed = []
    for number in range(count):
        drawn = settings.sampling
        sampling = Sampling(
            max_tokens=drawn.max_tokens, temperature=drawn.temperature, top_p=drawn.top_p, seed=drawn.seed + number
        )
        (completion,) = writer.write([asked], sampling)
        if completion.finish != "stop":
            failed.append(completion.note or "the text was cut")
            continue
        try:
            made = _with_instruction(template, head, completion.text.strip())
        except PromptError as error:
            failed.append(str(error))
        else:
            found[made.digest] = made
    return list(found.values()), failed


def _fairness(
    benchmark: Benchmark,
    dimension: Dimension,
    judge: Judge,
    settings: MethodSettings,
    template: Template,
    *,
    count: int,
    tally: Tally,
) -> float | None:
    """How near to 1/2 the mean probability of the first is, over random pairs; None when none could be read."""
    pair_judge = open_pair_judge(benchmark, judge, settings, template)
    random = np.random.default_rng(seed_of(settings, "zepo", dimension.name))
    cells = groups(benchmark)
    questions = []
    for place in random.integers(len(cells), size=count).tolist():
        context, outputs = cells[place]
        first, second = random.choice(len(outputs), 2, replace=False).tolist()
        questions.append(pair_question(context, dimension, outputs[first], outputs[second]))
    tally.judgments += len(questions)
    tally.reused += sum(question.key in pair_judge.kept for question in questions)
    tally.characters += sum(map(pair_judge.characters, questions))
    found = first_probabilities(pair_judge.ask(questions))
    read = found[~np.isnan(found)]
    tally.unreadable += len(found) - len(read)
    return -abs(float(read.mean()) - 0.5) if read.size else None
