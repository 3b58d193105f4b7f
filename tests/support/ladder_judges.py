"""Ladders of texts that say their quality, and a judge that compares them with known faults."""

from __future__ import annotations

import math

from doubles import Double
from simulated import quality_of, text_of

from refladder.files.ladder_sets import ladder_set
from refladder.records import Context, Dimension, LabelReading, Ladder, Recipe, Rung

DIMENSION = Dimension(name="worth", description="What a text is worth.")
RECIPE = Recipe(backend="by hand", prompts=(), sampling=None, version="1")


class Comparing(Double):
    """Log-odds of a win over a loss: the difference of qualities, and `first` for the text that is judged.

    `raised_by` holds words and what they add to the log-odds of a text that has them; the weight of a tie is 0.5.
    """

    fingerprint = "comparing/1"

    def __init__(self, *, first=0.0, unparsed=lambda _target, _reference: False, raised_by=None):
        self.first, self.unparsed = first, unparsed
        self.raised_by = raised_by or {}
        self.asked = 0

    def read_labels(self, prompts, labels):
        self.asked += len(prompts)
        return [self._read(prompt, labels) for prompt in prompts]

    def _read(self, prompt, labels):
        target, reference = prompt.slots["target"], prompt.slots["reference"]
        if self.unparsed(target, reference):
            return LabelReading(logprobs=None, mass=None, reason="no answer")
        raised = sum(amount for words, amount in self.raised_by.items() if words in target)
        half = (quality_of(target) - quality_of(reference) + self.first + raised) / 2
        weights = {"win": math.exp(half), "loss": math.exp(-half), "tie": 0.5}
        outcomes = [prompt.outcomes[prompt.labels.index(label)] for label in labels]
        shares = [weights[outcome] / sum(weights.values()) for outcome in outcomes]
        return LabelReading(logprobs=tuple(map(math.log, shares)), mass=1.0)


def set_of(qualities, name="made"):
    """A set with one ladder for each row of qualities, from the worst rung."""
    contexts = [
        Context(id=f"c{row}", task="story", text=f"Idea {row}.") for row in range(len(qualities))
    ]
    ladders = [
        Ladder(
            context_id=context.id,
            task="story",
            dimension="worth",
            rungs=tuple(
                Rung(level=level, text=text_of(value, f"{context.id} {level}"))
                for level, value in enumerate(row, 1)
            ),
            recipe=RECIPE,
        )
        for context, row in zip(contexts, qualities, strict=True)
    ]
    return ladder_set(name, [DIMENSION], contexts, ladders)
