"""One small unit of work (an article, rungs, outputs, labels), and folders of tiny models."""

from __future__ import annotations

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # read when transformers is imported

import pytest

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


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """A function from the name of a tiny model to the folder that holds it; each is built on first use."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    import tiny_models

    torch.set_num_threads(1)
    return tiny_models.saved_in(tmp_path_factory)
