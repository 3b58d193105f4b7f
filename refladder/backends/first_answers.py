"""Checks of a model's first answers, which warn early of a run that would be useless."""

from __future__ import annotations

import statistics
from contextlib import closing
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence
    from logging import Logger

    from refladder.records import Completion, LabelReading

# Answers of a server, which come one by one.
FIRST = 20
# With fewer, all can be alike by chance.
_FEWEST = 4
# Median label mass: a model that follows the prompt gives its labels nearly all.
_LOW_MASS = 0.05
_UNREAD = (
    "%s: %d of the first %d judgments could not be read. The first: %s. The run continues. Stop it, and "
    "deal with this reason; a model that does not answer with a label must be replaced by an instruct model with its "
    "chat template."
)
_IGNORED = (
    "%s gave %s a median probability of %.2g in its first %d prompts, so it does not follow the prompt. The run "
    "continues. Stop it, and use an instruct model with its chat template."
)
_UNWRITTEN = (
    "%s: none of the first %d texts could be written. The first: %s. The run continues. Stop it, and deal "
    "with this reason; a model that ends its texts at once must be replaced by an instruct model with its chat template."
)
_ENDLESS = (
    "%s: none of the first %d texts ended within %d tokens. The run continues. Stop it, and use an instruct "
    "model with its chat template, or a larger --max-tokens."
)

Answer = TypeVar("Answer")


class FirstAnswers:
    """Warn once about a judge, and once about a writer, if the first answers are useless."""

    def __init__(self, log: Logger, name: str) -> None:
        self._log = log
        self._name = name
        self._readings: list[LabelReading] = []
        self._texts: list[Completion] = []
        self._readings_told = self._texts_told = False

    def readings(self, labels: Sequence[str], readings: Sequence[LabelReading]) -> None:
        """Check a judge's first readings. A single label is a whole text, whose probability says nothing."""
        if self._readings_told or len(labels) < 2 or len(readings) < _FEWEST:
            return
        self._readings_told = True
        reasons = [reading.reason for reading in readings if reading.logprobs is None]
        masses = [reading.mass for reading in readings if reading.mass is not None]
        if len(reasons) > len(readings) / 2:
            self._log.warning(_UNREAD, self._name, len(reasons), len(readings), reasons[0])
        elif masses and (median := statistics.median(masses)) < _LOW_MASS:
            self._log.warning(_IGNORED, self._name, ", ".join(labels), median, len(masses))

    def texts(self, texts: Sequence[Completion], max_tokens: int) -> None:
        """Check a writer's first texts."""
        if self._texts_told or len(texts) < _FEWEST:
            return
        self._texts_told = True
        if all(text.finish == "error" for text in texts):
            self._log.warning(_UNWRITTEN, self._name, len(texts), texts[0].note)
        elif all(text.finish == "length" for text in texts):
            self._log.warning(_ENDLESS, self._name, len(texts), max_tokens)

    def watched_readings(
        self, labels: Sequence[str], answers: Generator[tuple[int, LabelReading]]
    ) -> Iterator[tuple[int, LabelReading]]:
        """Yield the readings, and check the first ones as soon as they are known."""
        return _watched(answers, self._readings, lambda seen: self.readings(labels, seen))

    def watched_texts(
        self, max_tokens: int, answers: Generator[tuple[int, Completion]]
    ) -> Iterator[tuple[int, Completion]]:
        """Yield the texts, and check the first ones as soon as they are known."""
        return _watched(answers, self._texts, lambda seen: self.texts(seen, max_tokens))


def _watched(
    answers: Generator[tuple[int, Answer]],
    seen: list[Answer],
    check: Callable[[list[Answer]], None],
) -> Iterator[tuple[int, Answer]]:
    with closing(answers):
        for row, answer in answers:
            if len(seen) < FIRST:
                seen.append(answer)
                if len(seen) == FIRST:
                    check(seen)
            yield row, answer
    check(seen)
