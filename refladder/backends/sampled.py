"""Label probabilities from answers that a judge writes, instead of label log-probabilities."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from refladder.backends.dry_run import NOT_ASKED
from refladder.backends.labels import label_in, reading_from_verdicts
from refladder.backends.protocol import Wrapper, whole
from refladder.errors import AnswersAwaitedError, UsageError
from refladder.records import Unwritten

if TYPE_CHECKING:
    from collections.abc import Sequence

    from refladder.backends.protocol import Backend
    from refladder.records import Completion, LabelReading, Prompt, Sampling

# A label, or a short sentence that names it.
ANSWER_TOKENS = 16


class Sampled(Wrapper):
    """A backend whose labels are read from several answers that it writes, with the seeds `sampling.seed`, + 1, ..."""

    def __init__(self, backend: Backend, *, answers: int, sampling: Sampling) -> None:
        if answers < 1:
            raise UsageError(f"at least 1 answer must be sampled, found {answers}")
        super().__init__(backend)
        # Without the defaults of a model as a writer: answers are drawn at temperature 1 and top-p 1.
        sampling = sampling.filled()
        seeds = range(sampling.seed, sampling.seed + answers)
        self._samplings = [replace(sampling, seed=seed) for seed in seeds]

    @property
    def fingerprint(self) -> str:
        """Return the fingerprint of the writer, with the number of answers and their sampling."""
        first = self._samplings[0]
        drawn = f"max{first.max_tokens},t{first.temperature:g},p{first.top_p:g},seed{first.seed}"
        return f"{self.backend.fingerprint} answers:{len(self._samplings)},{drawn}"

    @property
    def label_tokens(self) -> int:
        """Return the most tokens of all answers to one prompt."""
        return sum(sampling.max_tokens for sampling in self._samplings)

    def count_label_tokens(self, prompt: Prompt, labels: Sequence[str]) -> list[int] | None:
        """Return None: a whole text cannot be read as a label."""
        return None

    def read_labels(self, prompts: Sequence[Prompt], labels: Sequence[str]) -> list[LabelReading]:
        """Return for each prompt the shares of the labels among its answers; no reading if no answer names a label."""
        drawn, awaited = [], None
        for sampling in self._samplings:
            try:
                drawn.append(whole(self.backend, prompts, self.backend.write(prompts, sampling)))
            except AnswersAwaitedError as error:
                # The requests of all samplings are written before their answers come.
                awaited = error
        if awaited is not None:
            raise awaited
        for sampling, answers in zip(self._samplings, drawn, strict=True):
            unparsed = []
            for prompt, answer in zip(prompts, answers, strict=True):
                if isinstance(verdict_of(answer, labels), str):
                    unparsed.append(prompt)
            self.backend.forget(unparsed, sampling)
        return [reading_of(answers, labels) for answers in zip(*drawn, strict=True)]


def reading_of(answers: Sequence[Completion], labels: Sequence[str]) -> LabelReading:
    """Return the reading of one prompt from all its answers."""
    if any(isinstance(answer.text, Unwritten) for answer in answers):
        return NOT_ASKED
    cuts = [answer.note or "the context was cut" for answer in answers if answer.cut]
    verdicts = []
    for answer in answers:
        shown = "" if answer.finish == "error" else answer.text
        verdicts.append((verdict_of(answer, labels), shown))
    return reading_from_verdicts(
        verdicts,
        len(labels),
        cut=bool(cuts),
        note=cuts[-1] if cuts else None,
        places=[answer.place for answer in answers],
    )


def verdict_of(answer: Completion, labels: Sequence[str]) -> int | str:
    """Return the number of the label that an answer names, or why it names none."""
    if answer.finish == "error":
        return answer.note or "no answer"
    return label_in(answer.text, labels, ended=answer.finish != "length")
