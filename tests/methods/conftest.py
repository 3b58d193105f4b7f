from __future__ import annotations

from dataclasses import replace

import pytest

from refladder.loaders import load_benchmark


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    """Folders of small random models: encoder, nli, topics, regressor, t5, choice (Longformer), bert-choice."""
    pytest.importorskip("torch", reason="the local extra is not installed")
    pytest.importorskip("transformers", reason="the local extra is not installed")
    from support import small_models

    folder = tmp_path_factory.mktemp("models")
    return {
        "encoder": str(small_models.make_encoder(folder / "encoder")),
        "nli": str(
            small_models.make_classifier(folder / "nli", ["CONTRADICTION", "NEUTRAL", "ENTAILMENT"])
        ),
        "topics": str(small_models.make_classifier(folder / "topics", ["sports", "news"])),
        "regressor": str(small_models.make_classifier(folder / "regressor", ["LABEL_0"])),
        "t5": str(small_models.make_t5(folder / "t5")),
        "choice": str(small_models.make_longformer_choice(folder / "choice")),
        "bert-choice": str(small_models.make_bert_choice(folder / "bert-choice")),
    }


@pytest.fixture(scope="session")
def dialogues():
    """Three contexts of demo/dialogue with six outputs each, and no ratings."""
    whole = load_benchmark("demo/dialogue")
    contexts = whole.contexts[:3]
    kept = {context.id for context in contexts}
    outputs = tuple(output for output in whole.outputs if output.context_id in kept)
    return replace(whole, contexts=contexts, outputs=outputs, ratings=())
