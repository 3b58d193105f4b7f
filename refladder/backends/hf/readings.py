"""From labels to the tokens that the engine reads, and from their log-probabilities to one number per label."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from refladder.engine.trie import Read
from refladder.records import LabelReading

if TYPE_CHECKING:
    from collections.abc import Sequence

    from refladder.backends.hf.tokens import Question

NOT_FINITE = "the model returned no finite number for this prompt ({}); load it with dtype=bfloat16 or dtype=float32"
_SMALLEST = -math.log(np.finfo(np.float32).max)  # nats: for a label that always continues to a longer one


def sequences_of(questions: Sequence[Question]) -> tuple[list[list[int]], list[Read]]:
    """The sequences that the engine runs for questions, one for each label, and the reads of each label's tokens."""
    sequences: list[list[int]] = []
    reads: list[Read] = []
    for question in questions:
        for label in question.labels:
            first = len(question.prompt) - 1
            reads += [Read(len(sequences), first + offset, token) for offset, token in enumerate(label)]
            sequences.append([*question.prompt, *label[:-1]])
    return sequences, reads


def label_reading(
    labels: Sequence[Sequence[int]], values: Sequence[Sequence[float]], spellings: Sequence[int], note: str | None
) -> LabelReading:
    """Combine the token log-probabilities of a prompt into one number per label.

    Args:
        labels: the token ids of every spelling of every label.
        values: the natural-log probabilities of these tokens.
        spellings: the number of spellings of each label.
        note: of the reading.
    """
    if not all(math.isfinite(value) for tokens in values for value in tokens):
        wrong = next(value for tokens in values for value in tokens if not math.isfinite(value))
        return LabelReading(logprobs=None, mass=None, note=NOT_FINITE.format(wrong))
    distinct: dict[tuple[int, ...], float] = {}
    for ids, tokens in zip(labels, values, strict=True):
        distinct[tuple(ids)] = _without_longer(tuple(ids), math.fsum(tokens), labels, values)
    logprobs = []
    first = 0
    for count in spellings:
        group = {tuple(ids): None for ids in labels[first : first + count]}
        logprobs.append(float(np.logaddexp.reduce([distinct[ids] for ids in group])))
        first += count
    mass = math.fsum(math.exp(value) for value in distinct.values())
    return LabelReading(logprobs=tuple(logprobs), mass=min(1.0, mass), note=note)


def _without_longer(
    ids: tuple[int, ...], logprob: float, labels: Sequence[Sequence[int]], values: Sequence[Sequence[float]]
) -> float:
    """The log-probability of a label minus the answers that continue to a longer label: p * (1 - p(rest | label))."""
    longer = {
        tuple(other): math.fsum(tokens[len(ids) :])
        for other, tokens in zip(labels, values, strict=True)
        if len(other) > len(ids) and tuple(other[: len(ids)]) == ids
    }
    nearest = [
        value
        for other, value in longer.items()
        if not any(len(prefix) < len(other) and other[: len(prefix)] == prefix for prefix in longer)
    ]
    share = -math.expm1(float(np.logaddexp.reduce(nearest))) if nearest else 1.0
    return logprob + (math.log(share) if share > 0 else _SMALLEST)
