"""A judge that differs from the built-in one by a known line: half of its log-odds."""

from __future__ import annotations

import numpy as np

from refladder.backends.builtin import Builtin
from refladder.records import LabelReading

READ = Builtin.read_labels


class Milder(Builtin):
    """The built-in judge with half of its log-probabilities, so with half of its log-odds."""

    fingerprint = "milder/1"

    def read_labels(self, prompts, labels):
        halves = [np.array(each.logprobs) / 2 for each in READ(self, prompts, labels)]
        return [
            LabelReading(logprobs=tuple((each - np.logaddexp.reduce(each)).tolist()), mass=1.0)
            for each in halves
        ]
