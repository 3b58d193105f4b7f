"""One small unit of work: an article, rungs, outputs, labels."""

from __future__ import annotations

from refladder.records import Prompt

LABELS = ("Better", "Worse", "Similar")
ARTICLE = (
    "A storm closed the harbour of Lerwick on Monday. Three boats broke loose and two were found the next morning "
    "on the beach. The harbour master said that it opens again on Thursday, if the wind allows it. "
)
RUNGS = (
    "Boats.",
    "A storm closed a harbour, and boats were lost in it.",
    "A storm closed Lerwick's harbour.",
)
OUTPUTS = (
    "The harbour is closed.",
    "Boats broke loose; the harbour opens on Thursday.",
    "It is Monday today.",
)


def compare(context, reference, target, labels=LABELS):
    return Prompt(
        task="summarization",
        role="compare",
        literals=("Article: ", "\nReference: ", "\nTarget: ", "\nAnswer:"),
        names=("context", "reference", "target"),
        slots={"context": context, "reference": reference, "target": target},
        labels=tuple(labels),
        outcomes=("win", "loss", "tie")[: len(labels)],
    )
