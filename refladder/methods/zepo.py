"""ZEPO: choose the judge's instruction by its fairness; no labels are needed.

Source: Zhou et al. 2024, arXiv 2406.11370, algorithm 1 and appendix A: in each of 5 rounds a strong model rewords the
fairest instruction so far into 5 new ones, and the fairest is kept. Here the search begins from several rewordings, the
shipped ones or the user's, so that it does something where nothing can reword; each dimension has a search of its own.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from refladder.errors import DataError, PromptError, UsageError
from refladder.files.jsonl import read_bytes
from refladder.methods.contract import EvaluationMethod, Method, MethodResult, MethodSettings
from refladder.methods.measures import Tally, total
from refladder.methods.pairwise import (
    cells_of,
    choose_pairs,
    compare_all,
    measures_of,
    open_pair_judge,
    questions_of,
    scores_of,
    seed_of,
    signature_of,
    template_of,
    win_ratios,
)
from refladder.prompts import Template, fill, text_of, with_text
from refladder.records import Prompt, Unwritten
from refladder.scoring.verdicts import first_probabilities
from refladder.statistics.bias import share_of_first

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from refladder.backends import Backend
    from refladder.methods.contract import Comparisons, Judge
    from refladder.records import Benchmark, Dimension, Judgment
    from refladder.scoring.question import Question

_NUMBERS = ("pairs", "rewrites", "rounds")
_DEFAULTS = {"pairs": "32", "instructions": "", "rewrites": "0", "rounds": "5"}
# A reworded instruction that is longer is cut, and not used.
_REWRITE_TOKENS = 256

# WIN and LOSS are placeholders for the names of the two texts in the template.
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


class _Candidate(NamedTuple):
    """An instruction and its fairness; None if no pair was parsed in both orders."""

    template: Template
    fairness: float | None

    @property
    def distance(self) -> str:
        """Return the distance of P(first) from 1/2."""
        return "unparsed" if self.fairness is None else f"{-self.fairness:.3f}"


@dataclass(slots=True)
class _Search:
    """The search for the fairest instruction on one dimension: its questions, and the rewritings that failed."""

    judge: Judge
    settings: MethodSettings
    questions: Sequence[Question]
    tally: Tally
    failed: list[str] = field(default_factory=list)
    asked: int = 0

    def candidates(
        self, initial: Iterable[Template], rewrites: int, rounds: int
    ) -> list[_Candidate]:
        """Try instructions, and rewordings of the fairest one in each round."""
        candidates = list(map(self._tried, initial))
        for _ in range(rounds if rewrites else 0):
            best = _fairest(candidates)
            if best.fairness == 0:
                break
            writer = (self.settings.writer or self.judge)()
            reworded, unusable = rewritten(
                writer, best.template, rewrites, self.settings, start=self.asked
            )
            self.failed += unusable
            self.asked += rewrites
            digests = {candidate.template.digest for candidate in candidates}
            candidates += [self._tried(each) for each in reworded if each.digest not in digests]
        return candidates

    def _tried(self, template: Template) -> _Candidate:
        pair_judge = open_pair_judge(self.judge, self.settings, template)
        judgments = self.tally.ask(pair_judge, self.questions, "unparsed, in the search")
        return _Candidate(template, _fairness(judgments))


def _numbers(options: Mapping[str, str]) -> tuple[int, int, int]:
    """Return the number of pairs, rewrites and rounds that the options ask for."""
    shown = ", ".join(f"zepo.{name}={options[name]}" for name in _NUMBERS)
    try:
        pairs, rewrites, rounds = (int(options[name]) for name in _NUMBERS)
    except ValueError:
        raise UsageError(f"{shown}: all must be whole numbers") from None
    if pairs < 1 or rewrites < 0 or rounds < 1:
        raise UsageError(f"{shown}: at least 1 pair, no less than 0 rewrites, and at least 1 round")
    return pairs, rewrites, rounds


def _run(
    benchmark: Benchmark, dimensions: Sequence[Dimension], judge: Judge, settings: MethodSettings, /
) -> MethodResult:
    """Compute win ratios with the instruction under which the judge chooses both positions most equally.

    For each dimension, the same random pairs are asked with every instruction, in both orders. The instruction with
    which the first is chosen most nearly half of the time counts as the fairest (-|P(first) - 1/2|), the earliest where
    several are equal. A search ends before `rounds` where no instruction could be fairer.
    """
    options = settings.own("zepo", _DEFAULTS)
    pairs, rewrites, rounds = _numbers(options)
    template = template_of(benchmark, settings)
    if judge().rewards:
        return MethodResult(
            method=None,
            skipped="the judge is a reward model, which follows no instruction; leave it out",
        )
    initial = [template, *_reworded(template, options["instructions"])]
    searched = Tally()
    tallies = [searched]
    notes: list[str] = []
    signatures: list[str] = []
    comparisons: list[Comparisons] = []
    scores: dict[tuple[str, str], float | None] = {}
    for dimension in dimensions:
        questions = _search_questions(benchmark, dimension, settings, pairs)
        search = _Search(judge, settings, questions, searched)
        candidates = search.candidates(initial, rewrites, rounds)
        if settings.dry_run:
            templates = [candidate.template for candidate in candidates]
            _count_longest(benchmark, dimension, judge, settings, templates)
            notes.append(
                f"{dimension.name}: counted with the longest instruction; the fairest is not known yet"
            )
            continue
        if search.failed:
            notes.append(
                f"{dimension.name}: {len(search.failed)} of {search.asked} rewritten instructions cannot be used, e.g. "
                f"{search.failed[0]}"
            )
        best = _fairest(candidates)
        notes.append(f"{dimension.name}: {_outcome(candidates, best)}")
        pair_judge = open_pair_judge(judge, settings, best.template)
        compared, tally = compare_all(benchmark, [dimension], pair_judge, settings)
        scores |= scores_of(benchmark, [dimension], compared, win_ratios, tally)
        comparisons += compared
        tallies.append(tally)
        signatures.append(f"zepo|{signature_of(pair_judge, settings)}")
    if settings.dry_run:
        return MethodResult(method=None, notes=tuple(notes))
    signature = f"{'+'.join(dict.fromkeys(signatures))}|zepo:{pairs}x2of{len(initial)}"
    if rewrites:
        signature += f"+{rewrites}x{rounds}"
    result = MethodResult(
        method=Method(name="zepo", signature=signature, scores=scores),
        comparisons=comparisons,
        notes=(*notes, *itertools.chain.from_iterable(map(Tally.notes, tallies))),
    )
    return result.counted(total(tallies), measures_of(comparisons))


def _outcome(candidates: Sequence[_Candidate], best: _Candidate) -> str:
    if best.fairness is None:
        return "no pair was read in both orders with any instruction; the template's own is used"
    listed = ", ".join(candidate.distance for candidate in candidates)
    return f"instruction {candidates.index(best)} of 0-{len(candidates) - 1}, |P(first) - 1/2| {listed}"


def _count_longest(
    benchmark: Benchmark,
    dimension: Dimension,
    judge: Judge,
    settings: MethodSettings,
    templates: Sequence[Template],
) -> None:
    """Count the comparisons in a dry run, with the longest instruction: the fairest is not known yet."""
    chosen = choose_pairs(benchmark, [dimension], settings)
    questions = questions_of(chosen)

    def length(template: Template) -> int:
        """Count tokens, with an unwritten instruction at its limit; characters if tokens are unknown."""
        tokens = judge().count_tokens([fill(replace(template, ending=None), questions[0].slots)])
        if tokens is None:
            return len(text_of(template))
        return tokens[0] + (template.ending.tokens if template.ending else 0)

    open_pair_judge(judge, settings, max(templates, key=length)).count(questions, len(questions))


zepo = EvaluationMethod(run=_run)


def _fairest(candidates: Sequence[_Candidate]) -> _Candidate:
    def fairness(candidate: _Candidate) -> float:
        return -1.0 if candidate.fairness is None else candidate.fairness

    return max(candidates, key=fairness)


def _head_and_instruction(template: Template) -> tuple[str, str]:
    head, gap, instruction = text_of(template).rpartition("\n\n")
    if not gap or "{{first}}" in instruction or "{{second}}" in instruction:
        raise PromptError(
            f"{template.path}: zepo rewords the last paragraph of the template, and here it holds a text to compare; "
            "put the instruction into a paragraph of its own at the end"
        )
    return head, instruction


def _with_instruction(template: Template, head: str, words: str) -> Template:
    """Replace the last paragraph of a template; the new one must name the criterion and both answers."""
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
    templates = []
    for number, words in enumerate(map(str.strip, text.split("\n\n")), start=1):
        try:
            if words:
                templates.append(_with_instruction(template, head, words))
        except PromptError as error:
            raise PromptError(
                f"{path}: instruction {number} cannot take the place of the template's: {error}"
            ) from error
    if not templates:
        raise DataError(f"{path}: no instructions in this file; write one in each paragraph")
    return templates


def rewritten(
    writer: Backend, template: Template, count: int, settings: MethodSettings, *, start: int = 0
) -> tuple[list[Template], list[str]]:
    """Let the writer reword the instruction `count` times.

    Return the distinct templates and why others cannot be used.
    """
    head, instruction = _head_and_instruction(template)
    names = " and ".join(f'"{label}"' for label in template.labels.values())
    words = (_REWRITE.format(names=names) + instruction,)
    prompt = Prompt(task=template.task, role="rewrite", literals=words, names=(), slots={})
    sampling = settings.sampling
    sampling = replace(sampling, max_tokens=min(sampling.max_tokens, _REWRITE_TOKENS))
    first_seed = sampling.seed + start
    templates: dict[str, Template] = {}
    failed = []
    for seed in range(first_seed, first_seed + count):
        completion = writer.write([prompt], replace(sampling, seed=seed))[0]
        if isinstance(completion.text, Unwritten):
            templates[completion.text] = replace(
                with_text(template, f"{head}\n\n"), digest=completion.text, ending=completion.text
            )
            continue
        if completion.finish != "stop":
            failed.append(completion.note or "the text was cut")
            continue
        try:
            made = _with_instruction(template, head, completion.text.strip())
        except PromptError as error:
            failed.append(str(error))
        else:
            templates[made.digest] = made
    return list(templates.values()), failed


def _search_questions(
    benchmark: Benchmark, dimension: Dimension, settings: MethodSettings, count: int
) -> list[Question]:
    """Draw random pairs in both orders; the swapped pair follows each."""
    random = np.random.default_rng(seed_of(settings, "zepo", dimension.name))
    cells = cells_of(benchmark, [dimension])
    questions = []
    for number in random.integers(len(cells), size=count).tolist():
        first, second = random.choice(len(cells[number].outputs), 2, replace=False).tolist()
        questions += cells[number].questions([(first, second), (second, first)])
    return questions


def _fairness(judgments: Sequence[Judgment]) -> float | None:
    """Return -|P(first) - 1/2| over the pairs that were parsed in both orders; None if there are none."""
    both = first_probabilities(judgments).reshape(-1, 2)
    share = share_of_first(both[~np.isnan(both).any(axis=1)])
    return None if math.isnan(share) else -abs(share - 0.5)
