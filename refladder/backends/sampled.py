"""Label probabilities from answers that a judge writes, instead of label log-probabilities."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from refladder.backends.estimate import NOT_ASKED
from refladder.backends.labels import label_in, reading_from_counts
from refladder.backends.protocol import Wrapper, whole
from refladder.errors import UsageError
from refladder.records import Unwritten

if TYPE_CHECKING:
    from collections.abc import Sequence

    from refladder.backends.protocol import Backend
    from refladder.records import LabelReading, Prompt, Sampling

ANSWER_TOKENS = 16  # a label, or a short sentence that names it
_SHOWN = 60  # characters of an unparsed answer in a message


class Sampled(Wrapper):
    """A backend whose labels are read from several answers that it writes (see `labels.reading_from_counts`).

    The answers to a prompt have the seeds `sampling.seed`, + 1, ...
    """

    def __init__(self, backend: Backend, *, answers: int, sampling: Sampling) -> None:
        if answers < 1:
            raise UsageError(f"at least 1 answer must be sampled, found {answers}")
        super().__init__(backend)
        self._samplings = [replace(sampling, seed=sampling.seed + number) for number in range(answers)]

    @property
    def fingerprint(self) -> str:
        """The writer's, with the number of answers and their sampling."""
        first = self._samplings[0]
        drawn = f"max{first.max_tokens},t{first.temperature:g},p{first.top_p:g},seed{first.seed}"
        return f"{self.backend.fingerprint} answers:{len(self._samplings)},{drawn}"

    @property
    def label_tokens(self) -> int:
        """The most tokens of all answers to one prompt."""
        return sum(sampling.max_tokens for sampling in self._samplings)

    def count_label_tokens(self, prompt: Prompt, labels: Sequence[str]) -> list[int] | None:
        """None: a whole text cannot be read as a label."""
        del prompt, labels
        return None

    def read_labels(self, prompts: Sequence[Prompt], labels: Sequence[str]) -> list[LabelReading]:
        """For each prompt, the shares of the labels among its answers; no reading where no answer names a label."""
        counts = [[0] * len(labels) for _ in prompts]
        unparsed: list[Counter[str]] = [Counter() for _ in prompts]
        examples = [""] * len(prompts)
        cut: list[str | None] = [None] * len(prompts)  # how the context was cut
        unwritten: set[int] = set()
        for sampling in self._samplings:
            completions = whole(self.backend, prompts, self.backend.write(prompts, sampling))
            for row, completion in enumerate(completions):
                if isinstance(completion.text, Unwritten):
                    unwritten.add(row)
                    continue
                if completion.cut:
                    cut[row] = completion.note or "the context was cut"
                if completion.finish == "error":
                    unparsed[row][completion.note or "no answer"] += 1
                    continue
                label = label_in(completion.text, labels, ended=completion.finish != "length")
                if isinstance(label, int):
                    counts[row][label] += 1
                else:
                    unparsed[row][label] += 1
                    examples[row] = examples[row] or completion.text[:_SHOWN]
        return [
            NOT_ASKED
            if row in unwritten
            else reading_from_counts(
                counts[row],
                len(self._samplings),
                unparsed[row],
                example=examples[row],
                cut=cut[row] is not None,
                note=cut[row],
            )
            for row in range(len(prompts))
        ]
