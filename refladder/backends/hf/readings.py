"""From labels to the tokens that a model is asked for, and from the tokens' log-probabilities to one number a label."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from refladder.engine.trie import Read
from refladder.records import LabelReading

if TYPE_CHECKING:
    from collections.abc import Sequence

    from refladder.backends.hf.tokens import Question

NOT_NUMBERS = "the model gave no finite number for this prompt ({}); load it with dtype=bfloat16 or dtype=float32"
_SMALLEST = -math.log(np.finfo(np.float32).max)  # nats: what is left of a label that always goes on to a longer one


def sequences_of(questions: Sequence[Question]) -> tuple[list[list[int]], list[Read]]:
    """What a model is to run for some questions, a sequence for each label, and what is read of it."""
    sequences: list[list[int]] = []
    reads: list[Read] = []
    for question in questions:
        for label in question.labels:
            first = len(question.prompt) - 1
            reads += [Read(len(sequences), first + place, token) for place, token in enumerate(label)]
            sequences.append([*question.prompt, *label[:-1]])
    return sequences, reads


def reading_of(
    labels: Sequence[Sequence[int]], values: Sequence[Sequence[float]], spellings: Sequence[int], note: str | None
) -> LabelReading:
    """One row: token log-probabilities of every spelling of every label, to one number a label."""
    if not all(math.isfinite(value) for tokens in values for value in tokens):
        found = next(value for tokens in values for value in tokens if not math.isfinite(value))
        return LabelReading(logprobs=None, mass=None, note=NOT_NUMBERS.format(found))
    distinct: dict[tuple[int, ...], float] = {}
    for ids, tokens in zip(labels, values, strict=True):
        distinct[tuple(ids)] = _alone(tuple(ids), math.fsum(tokens), labels, values)
    logprobs = []
    first = 0
    for count in spellings:
        group = {tuple(ids): None for ids in labels[first : first + count]}
        logprobs.append(float(np.logaddexp.reduce([distinct[ids] for ids in group])))
        first += count
    mass = math.fsum(math.exp(value) for value in distinct.values())
    return LabelReading(logprobs=tuple(logprobs), mass=min(1.0, mass), note=note)


def _alone(
    ids: tuple[int, ...], logprob: float, labels: Sequence[Sequence[int]], values: Sequence[Sequence[float]]
) -> float:
    """The log-probability of a label without the answers that go on to a longer label: p * (1 - p(rest | label))."""
    longer = {
        tuple(other): math.fsum(tokens[len(ids) :])
        for other, tokens in zip(labels, values, strict=True)
        if len(other) > len(ids) and tuple(other[: len(ids)]) == ids
    }
    nearest = [
        value
        for other, value in longer.items()
        if not any(len(one) < len(other) and other[: len(one)] == one for one in longer)
    ]
    left = -math.expm1(float(np.logaddexp.reduce(nearest))) if nearest else 1.0
    return logprob + (math.log(left) if left > 0 else _SMALLEST)
