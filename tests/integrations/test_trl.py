"""The reward function in a real run of TRL's GRPO, with a random model made on the spot."""

from __future__ import annotations

import math

import pytest

pytest.importorskip("trl", reason="trl is not installed; run make test-integrations")

import tiny_models
import transformers
from datasets import Dataset
from story_texts import CONTEXT_IDS, TEXTS
from trl import GRPOConfig, GRPOTrainer

from refladder.errors import UnknownNameError, UsageError
from refladder.integrations.trl import reward


@pytest.fixture(scope="module")
def policy(tmp_path_factory):
    folder = tiny_models.save("llama", tmp_path_factory.mktemp("policy"))
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, pad_token="<|endoftext|>")  # noqa: S106
    return transformers.AutoModelForCausalLM.from_pretrained(folder), tokenizer


def test_two_steps_of_grpo(policy, tmp_path):
    calls = []
    scored = reward(ladders="demo/story", dimensions=["coherence"])

    def recorded(**columns):
        calls.append((columns["completions"], columns["context_id"], scored(**columns)))
        return calls[-1][2]

    model, tokenizer = policy
    rows = [{"prompt": "A storm closed the harbour.", "context_id": name} for name in CONTEXT_IDS]
    settings = GRPOConfig(
        output_dir=str(tmp_path),
        per_device_train_batch_size=6,
        num_generations=2,
        max_completion_length=8,
        max_steps=2,
        logging_steps=1,
        use_cpu=True,
        report_to="none",
        save_strategy="no",
        disable_tqdm=True,
    )
    trainer = GRPOTrainer(
        model=model,
        reward_funcs=recorded,
        args=settings,
        train_dataset=Dataset.from_list(rows),
        processing_class=tokenizer,
    )
    before = [parameter.detach().clone() for parameter in model.parameters()]
    trainer.train()
    assert any((old != new).any() for old, new in zip(before, model.parameters(), strict=True))
    assert len(calls) == 2
    for (completions, names, rewards), logged in zip(calls, trainer.state.log_history, strict=False):
        assert len(completions) == 6
        assert [value is None for value in rewards] == [name == "story-99" for name in names]
        # A reward of None is left out: the mean is that of the four others.
        numbers = [value for value in rewards if value is not None]
        assert logged["reward"] == pytest.approx(sum(numbers) / 4, rel=1e-5)
        assert logged["refladder/unscored"] == pytest.approx(2 / 6)
        assert math.isfinite(logged["loss"])
        assert all(-15 <= number <= 15 for number in numbers)


def test_the_reward_is_the_score_of_the_command_line(expected):
    one = reward(ladders="demo/story", dimensions=["coherence"])
    assert one(completions=TEXTS, context_id=CONTEXT_IDS) == [*(row["coherence_score"] for row in expected), None]
    both = reward(ladders="demo/story")
    assert both(completions=TEXTS, context_id=CONTEXT_IDS) == [*(row["overall_score"] for row in expected), None]


def test_a_conversation_is_scored_by_its_last_message(expected):
    scored = reward(ladders="demo/story", dimensions=["coherence"])
    completions = [[{"role": "assistant", "content": text}] for text in TEXTS[:2]]
    completions += [[{"role": "assistant", "content": None}], []]
    values = scored(completions=completions, context_id=[*CONTEXT_IDS[:2], "story-01", "story-01"])
    assert values == [*(row["coherence_score"] for row in expected), None, None]


def test_bad_input():
    with pytest.raises(UnknownNameError, match=r"unknown ladder set .* 'demo/stori'; did you mean 'demo/story'"):
        reward(ladders="demo/stori")
    with pytest.raises(UnknownNameError, match="unknown dimension 'wit'"):
        reward(ladders="demo/story", dimensions=["wit"])
    message = r"needs a field context_id \(of the ladder set\) or context; fields: prompts$"
    with pytest.raises(UsageError, match=message):
        reward(ladders="demo/story")(completions=["a"], prompts=["b"])
