"""From labels to the tokens that the engine reads, and from their log-probabilities to one number per label."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

from refladder.backends.labels import reading_from_sequences
from refladder.engine.trie import Read
from refladder.records import LabelReading

if TYPE_CHECKING:
    from collections.abc import Sequence

    from refladder.backends.hf.tokens import Question

NOT_FINITE = "the model returned no finite number for this prompt ({}); load it with dtype=bfloat16 or dtype=float32"


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
    labels: Sequence[Sequence[int]],
    values: Sequence[Sequence[float]],
    spellings: Sequence[int],
    note: str | None,
) -> LabelReading:
    """Combine the token log-probabilities of a prompt into one number per label; `note` says how it was cut, if so."""
    cut = note is not None
    if not all(math.isfinite(value) for tokens in values for value in tokens):
        wrong = next(value for tokens in values for value in tokens if not math.isfinite(value))
        return LabelReading(logprobs=None, mass=None, reason=NOT_FINITE.format(wrong), cut=cut)
    sequences = [tuple(ids) for ids in labels]
    logprobs = {ids: math.fsum(tokens) for ids, tokens in zip(sequences, values, strict=True)}
    rest = iter(sequences)
    groups = [list(itertools.islice(rest, count)) for count in spellings]
    return reading_from_sequences(groups, logprobs, cut=cut, note=note)
