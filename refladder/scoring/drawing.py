"""Label probabilities from answers that a judge writes: sampling n answers instead of reading log-probabilities."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from refladder.backends import whole
from refladder.records import LabelReading

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from refladder.backends import Backend
    from refladder.records import Prompt, Sampling

ANSWER_TOKENS = 16  # a label, or a short sentence that names it
NEVER = -50.0  # natural logarithm that stands for a probability of 0, which has none: 2e-22


def answered_label(text: str, labels: Sequence[str]) -> int | str:
    """The number of the label that an answer names, or why it names none."""
    from refladder.backends.openai.answers import label_in, without_thoughts  # noqa: PLC0415  half a second to import

    verdict = label_in(without_thoughts(text), labels)
    return f"{verdict}: {text[:60]!r}" if isinstance(verdict, str) else verdict


def draw_labels(
    backend: Backend,
    prompts: Sequence[Prompt],
    labels: Sequence[str],
    *,
    answers: int,
    sampling: Sampling,
    label_of: Callable[[str, Sequence[str]], int | str] = answered_label,
) -> list[LabelReading]:
    """Let a backend write several answers to every prompt, and take the shares of the labels that they name.

    p(label) = answers that name it / answers that name one; a label that none names has the logarithm `NEVER`.

    Source: arXiv 2509.05440, Table 2 ("Sample"); arXiv 2307.07889, equation 5.

    Args:
        backend: only `write` is used.
        prompts: what is asked.
        labels: what may be answered.
        answers: how often each prompt is asked, with seeds `sampling.seed`, + 1, ...
        sampling: how answers are drawn.
        label_of: the number of the label that a text names, or why it names none.

    Returns:
        One reading a prompt; its mass is the share of the answers that name a label. None, with a note, where no answer
        does.

    Raises:
        BackendError: the backend failed as a whole, or broke its contract.
    """
    counts = np.zeros((len(prompts), len(labels)), dtype=np.int64)
    reasons: list[str | None] = [None] * len(prompts)
    for number in range(answers):
        drawn = backend.write(prompts, replace(sampling, seed=sampling.seed + number))
        for row, completion in enumerate(whole(backend, prompts, drawn)):
            failed = completion.finish == "error"
            verdict = completion.note or "no answer" if failed else label_of(completion.text, labels)
            if isinstance(verdict, str):
                reasons[row] = reasons[row] or verdict
            else:
                counts[row, verdict] += 1
    readings = []
    for named, reason in zip(counts.tolist(), reasons, strict=True):
        parsed = sum(named)
        note = None if reason is None else f"{answers - parsed} of {answers} answers unparsed, e.g. {reason}"
        logprobs = tuple(math.log(count / parsed) if count else NEVER for count in named) if parsed else None
        readings.append(LabelReading(logprobs=logprobs, mass=parsed / answers if parsed else None, note=note))
    return readings
