"""Scores from a few written answers about a text and a ladder, with an interval of what all probabilities would give.

`sequential` samples one answer for each rung, then one at a time where the interval is widest, until each rung is
settled or the answers are spent. `placement` asks for the place of the text among the shuffled rungs, several times.
"""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from refladder.backends import whole
from refladder.backends.estimate import Unanswered
from refladder.backends.labels import NEVER
from refladder.backends.sampled import reading_of, verdict_of
from refladder.errors import UsageError, option
from refladder.prompts import criterion, fill
from refladder.records import LOSS, TIE, WIN, Unwritten
from refladder.scoring.judging import verdict_logprobs
from refladder.scoring.rules import probabilities_from

if TYPE_CHECKING:
    from collections.abc import Sequence

    from refladder.arrays import FloatArray
    from refladder.prompts import Template
    from refladder.records import Completion, Judgment, LabelReading, Prompt, Run, Sampling
    from refladder.scoring.asker import Asker
    from refladder.scoring.question import Question

MOST = 10  # sequential answers about a text and a ladder, unless it has more questions
SHUFFLES = 8  # placements of a text
SETTLED = 3  # equal answers; with a uniform prior, the label then has more than half with a probability of .94
NONE = "none"  # the outcome of a text that is behind every rung
LETTERS = "BCDEFGHJKLMNOPQRSTUVWXYZ"  # of the rungs; "a" and "I" are words, so an answer may hold them
_NORMAL = 1.959964  # 97.5 % of the normal distribution
_PSEUDO = 0.5  # an answer, in the variance of placements: without it, equal answers would have none
_NEVER_READ = 1e9  # priority of a question without a readable answer


def most_answers(mode: str, rungs: int, orders: int) -> int:
    """The most answers about a text and a ladder."""
    if mode == "placement":
        if rungs > len(LETTERS):
            raise UsageError(
                f"{option('answers')} placement names rungs by {len(LETTERS)} letters, and the ladders have {rungs} "
                "rungs; use sequential"
            )
        return SHUFFLES
    return max(MOST, rungs * orders)


class FewAnswers(NamedTuple):
    """A judge that is asked by the mode of its run. `steps` are the weights of the rungs in the score."""

    asker: Asker
    steps: FloatArray

    @property
    def run(self) -> Run:
        """That of the judgments."""
        return self.asker.log.run

    def judge(self, blocks: Sequence[Sequence[Question]]) -> list[list[Judgment]]:
        """Judgments of the questions of each block: those about one text and a whole ladder, in the canonical order."""
        sampling = self.run.recipe.sampling
        if sampling is None or not blocks:
            return [[] for _ in blocks]
        return (self._placed if self.run.mode == "placement" else self._in_turns)(blocks, sampling)

    def _write(self, prompts: Sequence[Prompt], sampling: Sampling, number: int) -> Sequence[Completion]:
        """The answer of that number to each prompt; the seeds are those of `Sampled`."""
        drawn = replace(sampling, seed=sampling.seed + number)
        return whole(self.asker.backend, prompts, self.asker.backend.write(prompts, drawn))

    def _in_turns(self, blocks: Sequence[Sequence[Question]], sampling: Sampling) -> list[list[Judgment]]:
        labels = tuple(self.asker.template.labels.values())
        each = len(blocks[0])
        prompts = [fill(self.asker.template, question.slots) for block in blocks for question in block]
        answers: list[list[Completion]] = [[] for _ in prompts]
        counts = np.zeros((len(prompts), len(labels)))
        weights = np.repeat(self.steps, self.run.orders)
        shares = np.array([{WIN: 1.0, LOSS: 0.0, TIE: 0.5}[outcome] for outcome in self.asker.template.labels])
        turn = list(range(len(prompts)))
        while turn:
            of_number = defaultdict(list)
            for position in turn:
                of_number[len(answers[position])].append(position)
            for number, positions in sorted(of_number.items()):
                chosen = [prompts[position] for position in positions]
                if number and isinstance(self.asker.backend, Unanswered):  # which rungs get another answer is not known
                    certain = sum(len(answers[position]) < SETTLED for position in positions)
                    with self.asker.backend.at_most(len(chosen), certain):
                        written = self._write(chosen, sampling, number)
                else:
                    written = self._write(chosen, sampling, number)
                for position, answer in zip(positions, written, strict=True):
                    answers[position].append(answer)
                    verdict = "" if isinstance(answer.text, Unwritten) else verdict_of(answer, labels)
                    if isinstance(verdict, int):
                        counts[position, verdict] += 1
            asked = np.array([len(given) for given in answers]).reshape(-1, each)
            turn = _next_turn(counts.reshape(-1, each, len(labels)), asked, shares, weights, self.run.answers)
        readings = iter([reading_of(given, labels) for given in answers])
        read = iter(counts.sum(axis=1).astype(int).tolist())
        outcomes = tuple(self.asker.template.labels)
        return [
            [self.asker.judged(question, next(readings), outcomes, next(read)) for question in block]
            for block in blocks
        ]

    def _placed(self, blocks: Sequence[Sequence[Question]], sampling: Sampling) -> list[list[Judgment]]:
        letters = LETTERS[: self.run.rungs]  # of the rungs in their order, once an answer is read
        places: list[list[Completion]] = [[] for _ in blocks]
        for number in range(self.run.answers):
            prompts = [placement_prompt(self.asker.template, block, number) for block in blocks]
            answers = self._write(prompts, sampling, number)
            for given, prompt, answer in zip(places, prompts, answers, strict=True):
                verdict = "" if isinstance(answer.text, Unwritten) else verdict_of(answer, prompt.labels)
                level = prompt.outcomes[verdict] if isinstance(verdict, int) else NONE
                read = answer if level == NONE else replace(answer, text=letters[int(level) - 1], finish="stop")
                given.append(read)
        labels = (*letters, self.asker.template.labels[NONE])
        return [
            self._placements(block, reading_of(given, labels), labels)
            for block, given in zip(blocks, places, strict=True)
        ]

    def _placements(self, block: Sequence[Question], reading: LabelReading, labels: Sequence[str]) -> list[Judgment]:
        """The judgments of a text that was placed: p(win) of a rung is the share of places at it or above."""
        if reading.logprobs is None:
            return [self.asker.judged(question, reading, (WIN, LOSS, TIE), 0) for question in block]
        read = round((reading.mass or 0.0) * self.run.answers)
        places = np.rint(np.exp(reading.logprobs) * read)[: len(labels) - 1]  # answers that name each rung
        wins = np.cumsum(places[::-1])[::-1] / read
        with np.errstate(divide="ignore"):
            logs = np.maximum(np.log(np.stack([wins, 1 - wins, np.zeros_like(wins)], axis=1)), NEVER)
        return [
            self.asker.judged(question, replace(reading, logprobs=tuple(row)), (WIN, LOSS, TIE), read)
            for question, row in zip(block, logs.tolist(), strict=True)
        ]


def placement_prompt(template: Template, block: Sequence[Question], number: int) -> Prompt:
    """The prompt that places a text among the rungs, in another order for each number and text."""
    order = random.Random(f"{block[0].key}:{number}").sample(range(len(block)), len(block))  # noqa: S311
    listed = [f"{letter}:\n{block[rung].texts['reference']}" for letter, rung in zip(LETTERS, order, strict=False)]
    first = block[0]
    slots = {"references": "\n\n".join(listed), "target": first.texts["target"]}
    prompt = fill(template, criterion(first.context, first.dimension) | slots)
    return replace(
        prompt,
        labels=(*LETTERS[: len(block)], template.labels[NONE]),
        outcomes=(*(str(rung + 1) for rung in order), NONE),
    )


def _next_turn(counts: FloatArray, asked: FloatArray, shares: FloatArray, weights: FloatArray, most: int) -> list[int]:
    """The question of each block that gets the next answer, as a position among all: of the widest part of the score.

    A question without a readable answer comes first; a settled one gets none. Shapes: `counts` (blocks, questions,
    labels), `asked` (blocks, questions), `shares` (labels,): 1 for a win, 1/2 for a tie; `weights` (questions,).
    """
    read = counts.sum(axis=-1)
    ends = wilson(counts @ shares / np.maximum(read, 1), read)
    widths = weights * (ends[..., 1] - ends[..., 0])
    widths = np.where(read == 0, _NEVER_READ / (1 + asked), widths)
    settled = (counts.max(axis=-1) == read) & (read >= SETTLED)
    widths[settled] = 0.0
    is_open = (widths.max(axis=1) > 0) & (asked.sum(axis=1) < most)
    chosen = widths.argmax(axis=1) + np.arange(len(counts)) * counts.shape[1]
    return cast("list[int]", chosen[is_open].tolist())


def wilson(share: FloatArray, number: FloatArray) -> FloatArray:
    """95 % intervals, shape (..., 2), of the mean of values between 0 and 1, from `number` with the mean `share`.

    The interval of Wilson 1927 (J. Amer. Statist. Assoc. 22) for shares, which have the largest variance of all such
    values; without a value, 0 to 1.
    """
    square = _NORMAL**2
    number = np.asarray(number, dtype=np.float64)
    middle = (share * number + square / 2) / (number + square)
    half = _NORMAL * np.sqrt(share * (1 - share) * number + square / 4) / (number + square)
    return cast("FloatArray", np.clip(np.stack([middle - half, middle + half], axis=-1), 0.0, 1.0))


def score_intervals(judgments: Sequence[Judgment], run: Run, low: float, steps: FloatArray) -> FloatArray:
    """95 % intervals of the scores that all probabilities of the judge would give, shape (texts, 2); NaN if unparsed.

    The score is `low` + sum over questions of step * share, where the share is p(win) + p(tie) / 2.

    - sequential: shares of different questions are independent, and their Wilson intervals are combined by the squares
      of their distances to the shares (MOVER: Zou and Donner 2008, Statistics in Medicine 27, equation 5).
    - placement: one answer decides all shares. The interval is that of Wilson for the mean of answers, their
      number divided by the ratio of their variance to that of a share with this mean.
    """
    probabilities = probabilities_from(verdict_logprobs(judgments)).reshape(-1, run.rungs * run.orders, 3)
    shares = probabilities[..., 0] + probabilities[..., 2] / 2
    numbers = np.array([judgment.answers for judgment in judgments], dtype=np.float64).reshape(shares.shape)
    weights = np.repeat(steps, run.orders) / run.orders
    score = low + (shares * weights).sum(axis=1)
    if run.mode == "sequential":
        ends = wilson(shares, numbers)
        distances = np.sqrt((((ends - shares[..., None]) * weights[:, None]) ** 2).sum(axis=1))
        return cast("FloatArray", score[:, None] + distances * np.array([-1.0, 1.0]))
    whole_range = steps.sum()
    values = np.concatenate([[0.0], np.cumsum(steps)]) / whole_range  # of each place
    padded = np.pad(shares, ((0, 0), (1, 1)), constant_values=((0, 0), (1, 0)))
    number = numbers[:, 0]
    counts = np.maximum(padded[:, :-1] - padded[:, 1:], 0.0) * number[:, None]
    mean = (score - low) / whole_range
    squares = (counts * (values - mean[:, None]) ** 2).sum(axis=1)
    ratio = np.minimum((squares + _PSEUDO) / (number * mean * (1 - mean) + _PSEUDO), 1.0)
    return cast("FloatArray", low + wilson(mean, number / ratio) * whole_range)
