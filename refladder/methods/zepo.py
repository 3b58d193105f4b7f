"""ZEPO: the judge's own fairness chooses the instruction it judges by; no labels are needed.

Source: Zhou et al. 2024, arXiv 2406.11370, algorithm 1 and appendix A: in each of 5 rounds a strong model rewords the
fairest instruction so far into 5 new ones, and the fairest is kept. Here the search begins from several rewordings, the
shipped ones or the user's, so that it does something where nothing can reword; each dimension has a search of its own.
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from refladder.errors import DataError, PromptError, UsageError
from refladder.files.jsonl import read_bytes
from refladder.methods.contract import Method, MethodResult, MethodSettings
from refladder.methods.measures import joined
from refladder.methods.pairwise import (
    Tally,
    compare_all,
    groups,
    open_pair_judge,
    plain_win_ratio,
    result_of,
    seed_of,
    template_of,
)
from refladder.prompts import Template, text_of, with_text
from refladder.ranking.bias import share_of_first
from refladder.records import Prompt
from refladder.scoring.dry_run import is_stand_in
from refladder.scoring.pairs import first_probabilities, pair_question

if TYPE_CHECKING:
    from collections.abc import Sequence

    from refladder.backends import Backend
    from refladder.methods.contract import Judge
    from refladder.records import Benchmark, Dimension

_DEFAULTS = {"pairs": "32", "instructions": "", "rewrites": "0", "rounds": "5"}
_REWRITE_TOKENS = 256  # a reworded instruction that is longer is cut, and not used

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


class _Search(NamedTuple):
    """An instruction and what its fairness is; None where no pair was read in both orders."""

    template: Template
    fairness: float | None


def zepo(
    benchmark: Benchmark, dimensions: Sequence[Dimension], judge: Judge, settings: MethodSettings, /
) -> MethodResult:
    """Win ratio with the instruction under which the judge chooses both places most equally.

    For each dimension, the same random pairs are asked with every instruction, in both orders, so that it does not
    matter which text of a pair is better. The instruction with which the first is chosen most nearly half of the time
    counts as the fairest (fairness = -|P(first) - 1/2|), the earliest where several are equal. Pairs with an order that
    could not be read are left out.

    Options: `pairs`, how many are asked of each instruction and dimension, in both orders; `instructions`, a file with
    one instruction in each paragraph, in place of the shipped ones; `rewrites`, how many the writer makes of the
    fairest so far in each of `rounds`; a search ends before where no instruction could be fairer.
    """
    own = settings.own("zepo", _DEFAULTS)
    given = ", ".join(f"zepo.{name}={own[name]}" for name in ("pairs", "rewrites", "rounds"))
    try:
        count, rewrites, rounds = int(own["pairs"]), int(own["rewrites"]), int(own["rounds"])
    except ValueError:
        raise UsageError(f"{given}: all must be whole numbers") from None
    if count < 1 or rewrites < 0 or rounds < 1:
        raise UsageError(f"{given}: at least 1 pair, no less than 0 rewrites, and at least 1 round")
    template = template_of(benchmark, settings)
    candidates = [template, *_reworded(template, own["instructions"])]
    notes: list[str] = []
    total = Tally()
    parts = []
    for dimension in dimensions:

        def tried(one: Template, dimension: Dimension = dimension) -> _Search:
            return _Search(one, _fairness(benchmark, dimension, judge, settings, one, count=count, tally=total))

        found = [tried(one) for one in candidates]
        failed: list[str] = []
        asked = 0
        for number in range(rounds if rewrites else 0):
            best = _fairest(found)
            if best.fairness == 0:
                break
            writer = (settings.writer or judge)()
            made, unusable = rewritten(writer, best.template, rewrites, settings, start=number * rewrites)
            failed += unusable
            asked += rewrites
            known = {one.template.digest for one in found}
            found += [tried(one) for one in made if one.digest not in known]
        if failed:
            notes.append(
                f"{dimension.name}: {len(failed)} of {asked} rewritten instructions cannot be used, e.g. {failed[0]}"
            )
        best = _fairest(found)
        pair_judge = open_pair_judge(benchmark, judge, settings, best.template)
        if pair_judge.backend.only_counts:
            longest = max((one.template for one in found), key=lambda one: len(text_of(one)))
            pair_judge = open_pair_judge(benchmark, judge, settings, longest)
            notes.append(f"{dimension.name}: counted with the longest instruction; the fairest is not known yet")
        elif best.fairness is None:
            notes.append(
                f"{dimension.name}: no pair was read in both orders with any instruction; the template's own is used"
            )
        else:
            listed = ", ".join("unreadable" if one.fairness is None else f"{-one.fairness:.3f}" for one in found)
            place = found.index(best)
            notes.append(f"{dimension.name}: instruction {place} of 0-{len(found) - 1}, |P(first) - 1/2| {listed}")
        comparisons, tally = compare_all(
            benchmark, [dimension], pair_judge, settings, known=not pair_judge.backend.only_counts
        )
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
    searched = f"|zepo:{count}x2of{len(candidates)}" + (f"+{rewrites}x{rounds}" if rewrites else "")
    return _joined(parts, total, notes, searched)


def _fairest(found: Sequence[_Search]) -> _Search:
    return max(found, key=lambda one: -1.0 if one.fairness is None else one.fairness)


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
        measures=joined([total.measures, *(part.measures for part in parts)]),
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
    writer: Backend, template: Template, count: int, settings: MethodSettings, *, start: int = 0
) -> tuple[list[Template], list[str]]:
    """Let the writer reword the instruction of a template.

    Args:
        writer: who rewords.
        template: whose last paragraph is the instruction.
        count: how often it is asked, each time with another seed.
        settings: sampling.
        start: added to the seeds.

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
        sampling = replace(drawn, max_tokens=min(drawn.max_tokens, _REWRITE_TOKENS), seed=drawn.seed + start + number)
        (completion,) = writer.write([asked], sampling)
        if is_stand_in(completion.text):
            made = with_text(template, f"{head}\n\n{completion.text}")
            found[made.digest] = made
            continue
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
    """How near P(first) is to 1/2 in both orders of random pairs, as -|P(first) - 1/2|; None when none was read."""
    pair_judge = open_pair_judge(benchmark, judge, settings, template)
    random = np.random.default_rng(seed_of(settings, "zepo", dimension.name))
    cells = groups(benchmark)
    questions = []
    for place in random.integers(len(cells), size=count).tolist():
        context, outputs = cells[place]
        first, second = random.choice(len(outputs), 2, replace=False).tolist()
        questions.append(pair_question(context, dimension, outputs[first], outputs[second]))
        questions.append(pair_question(context, dimension, outputs[second], outputs[first]))
    judgments = tally.ask(pair_judge, questions, "unreadable, of the search")
    both = first_probabilities(judgments).reshape(-1, 2)
    share = share_of_first(both[~np.isnan(both).any(axis=1)])
    return None if math.isnan(share) else -abs(share - 0.5)
