"""A judge of known faults over texts that say their quality, and benchmarks of such texts."""

from __future__ import annotations

import hashlib
import math

import numpy as np
from doubles import Double

from refladder.records import (
    Benchmark,
    Completion,
    Context,
    Dimension,
    LabelReading,
    Output,
    Rating,
)

DIMENSION = Dimension(name="worth", description="What a text is worth.")


def text_of(quality, number=0):
    return f"quality {quality:.3f} text {number}"


def quality_of(text):
    return float(text.split()[1])


def benchmark_of(qualities, task="story"):
    """One context a row, one system a column; people rate by the true quality."""
    contexts = tuple(
        Context(id=f"c{row}", task=task, text=f"Idea {row}.") for row in range(len(qualities))
    )
    outputs = tuple(
        Output(
            id=f"c{row}/s{column}",
            context_id=f"c{row}",
            system=f"s{column}",
            text=text_of(value, column),
        )
        for row, line in enumerate(qualities)
        for column, value in enumerate(line)
    )
    ratings = tuple(
        Rating(output_id=output.id, dimension="worth", value=quality_of(output.text), rater="r")
        for output in outputs
    )
    return Benchmark(
        name="made", revision="1", licence="none", dimensions=(DIMENSION,), contexts=contexts, outputs=outputs,
        ratings=ratings,
    )  # fmt: skip


class Simulated(Double):
    """Log-odds that the first is better: the difference of qualities, a preference for the first, noise by the texts.

    `bias_of` gives the preference for the first by the prompt's text; `unparsed` says of two texts whether they
    cannot be read.
    """

    fingerprint = "simulated/1"

    def __init__(
        self,
        *,
        first=0.0,
        noise=0.0,
        sharpness=1.0,
        unparsed=lambda _first, _second: False,
        bias_of=None,
    ):
        self.first, self.noise, self.sharpness = first, noise, sharpness
        self.unparsed, self.bias_of = unparsed, bias_of
        self.asked = 0

    def _gap(self, prompt):
        first, second = prompt.slots["first"], prompt.slots["second"]
        bias = self.first if self.bias_of is None else self.bias_of(prompt.text)
        texts = f"{prompt.slots['context']}{first}|{second}"
        digest = hashlib.blake2b(texts.encode(), digest_size=8).digest()
        noise = self.noise * np.random.default_rng(int.from_bytes(digest, "big")).standard_normal()
        return self.sharpness * (quality_of(first) - quality_of(second)) + bias + noise

    def read_labels(self, prompts, _labels):
        self.asked += len(prompts)
        return [self._read(prompt) for prompt in prompts]

    def _read(self, prompt):
        if self.unparsed(prompt.slots["first"], prompt.slots["second"]):
            return LabelReading(logprobs=None, mass=None, reason="no answer")
        gap = self._gap(prompt)
        logprobs = -math.log1p(math.exp(-gap)), -math.log1p(math.exp(gap))
        return LabelReading(logprobs=logprobs, mass=1.0)

    def write(self, prompts, _sampling):
        self.asked += len(prompts)
        return [Completion(text=prompt.labels[self._gap(prompt) < 0]) for prompt in prompts]
