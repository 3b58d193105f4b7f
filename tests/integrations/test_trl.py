"""The reward function in a real run of TRL's GRPO, with a random model made on the spot."""

from __future__ import annotations

import asyncio
import math
import threading

import pytest

pytest.importorskip("trl", reason="trl is not installed; run make test-integrations")

import tiny_models
import transformers
from datasets import Dataset
from story_texts import CONTEXT_IDS, TEXTS
from trl import GRPOConfig, GRPOTrainer

import refladder
from refladder.backends.builtin import Builtin
from refladder.errors import JudgeRefusedError, UnknownNameError, UsageError
from refladder.integrations.trl import reward


@pytest.fixture(scope="module")
def policy(tmp_path_factory):
    folder = tiny_models.save("llama", tmp_path_factory.mktemp("policy"))
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, pad_token="<|endoftext|>")  # noqa: S106
    return transformers.AutoModelForCausalLM.from_pretrained(folder), tokenizer


def settings(folder, batch, *, steps):
    return GRPOConfig(
        output_dir=str(folder),
        per_device_train_batch_size=batch,
        num_generations=2,
        max_completion_length=8,
        max_steps=steps,
        logging_steps=1,
        use_cpu=True,
        report_to="none",
        save_strategy="no",
        disable_tqdm=True,
    )


def test_two_steps_of_grpo(policy, tmp_path):
    calls = []
    scored = reward(ladders="demo/story", dimensions=["coherence"])

    def recorded(**columns):
        calls.append((columns["completions"], columns["context_id"], scored(**columns)))
        return calls[-1][2]

    model, tokenizer = policy
    rows = [{"prompt": "A storm closed the harbour.", "context_id": name} for name in CONTEXT_IDS]
    trainer = GRPOTrainer(
        model=model,
        reward_funcs=recorded,
        args=settings(tmp_path, 6, steps=2),
        train_dataset=Dataset.from_list(rows),
        processing_class=tokenizer,
    )
    before = [parameter.detach().clone() for parameter in model.parameters()]
    trainer.train()
    assert any((old != new).any() for old, new in zip(before, model.parameters(), strict=True))
    assert len(calls) == 2
    for (completions, names, rewards), logged in zip(
        calls, trainer.state.log_history, strict=False
    ):
        assert len(completions) == 6
        assert [value is None for value in rewards] == [name == "story-99" for name in names]
        # A reward of None is left out: the mean is that of the four others.
        numbers = [value for value in rewards if value is not None]
        assert logged["reward"] == pytest.approx(sum(numbers) / 4, rel=1e-5)
        assert logged["refladder/unscored"] == pytest.approx(2 / 6)
        assert math.isfinite(logged["loss"])
        assert all(-15 <= number <= 15 for number in numbers)


def test_training_stops_at_a_judge_that_always_says_a(policy, tmp_path):
    asked = []

    def always_a(questions):
        asked.extend(questions)
        return [{"win": 1.0, "loss": 0.0, "tie": 0.0}] * len(questions)

    always_a.fingerprint = "always-a/1"
    model, tokenizer = policy
    rows = [{"prompt": "A storm closed the harbour.", "context_id": name} for name in CONTEXT_IDS]
    trainer = GRPOTrainer(
        model=model,
        reward_funcs=reward(ladders="demo/story", judge=always_a, dimensions=["coherence"]),
        args=settings(tmp_path, 6, steps=2),
        train_dataset=Dataset.from_list(rows),
        processing_class=tokenizer,
    )
    before = [parameter.detach().clone() for parameter in model.parameters()]
    with pytest.raises(JudgeRefusedError, match=r"coherence 6 of 12 ladders"):
        trainer.train()
    # It is right in one of the two questions about each ladder. No completion was judged, and nothing was learnt.
    assert len(asked) == 2 * 12
    assert trainer.state.global_step == 0
    assert all((old == new).all() for old, new in zip(before, model.parameters(), strict=True))


@pytest.fixture
def shared(tmp_path):
    """A shared set of two stories of the demo."""
    both = refladder.load_ladders("demo/story")
    task = [each for each in both.dimensions if each.name == "coherence"]
    rows = [
        {"context_id": name, "context": both.contexts[name].text}
        for name in ("story-01", "story-02", "story-03")
    ]
    return refladder.build(
        rows, task="story", dimensions=task, shared=2, writer="builtin", out=tmp_path / "shared"
    )


def test_grpo_awaits_rewards_of_single_contexts_and_of_a_shared_set_together(
    policy, tmp_path, shared
):
    asked, given, in_threads = [], {}, set()

    def judge(questions):
        asked.extend(questions)
        in_threads.add(threading.current_thread().name.partition("_")[0])
        chances = [
            len(each.output) / (len(each.output) + len(each.reference)) for each in questions
        ]
        return [{"win": chance, "loss": 1 - chance, "tie": 0.0} for chance in chances]

    judge.fingerprint = "length/1"

    of_one = reward(ladders="demo/story", dimensions=["coherence"], asynchronous=True)
    of_all = reward(ladders=shared, judge=judge, asynchronous=True)
    assert (of_one.__name__, of_all.__name__) == ("reward_coherence", "reward_coherence")

    async def recorded(**columns):
        given.update(completions=columns["completions"], rewards=await of_all(**columns))
        return given["rewards"]

    model, tokenizer = policy
    rows = [
        {"prompt": "A storm closed the harbour.", "context_id": name}
        for name in ("story-01", "story-02")
    ]
    trainer = GRPOTrainer(
        model=model,
        reward_funcs=[of_one, recorded],
        args=settings(tmp_path, 4, steps=1),
        train_dataset=Dataset.from_list(rows),
        processing_class=tokenizer,
    )
    trainer.train()
    logged = trainer.state.log_history[0]
    assert in_threads == {"refladder"}
    # The judge check asks about the best and the worst rung of 2 anchors; then 4 completions meet 2 anchors of 5 rungs.
    assert len(asked) == 2 * 2 + 4 * 2 * 5
    plain = reward(ladders=shared, judge=judge)
    assert given["rewards"] == plain(completions=given["completions"])
    assert logged["rewards/recorded/mean"] == pytest.approx(sum(given["rewards"]) / 4, rel=1e-5)
    assert -15 <= logged["rewards/reward_coherence/mean"] <= 15
    assert logged["refladder/unscored"] == 0


def test_an_awaited_reward_is_that_of_the_plain_function_and_uses_a_store(expected, tmp_path):
    one = reward(
        ladders="demo/story",
        dimensions=["coherence"],
        store=tmp_path / "store.sqlite",
        asynchronous=True,
    )
    shares = []
    columns = {
        "context_id": CONTEXT_IDS,
        "log_metric": lambda name, share: shares.append((name, share)),
    }
    values = asyncio.run(one(completions=TEXTS, **columns))
    assert values == [*(row["coherence_score"] for row in expected), None]
    assert shares == [("refladder/unscored", pytest.approx(1 / 3))]


def test_the_completions_of_a_call_are_one_batch(shared):
    batches = []

    class Recording(Builtin):
        def read_labels(self, prompts, labels):
            batches.append(len(prompts))
            return super().read_labels(prompts, labels)

    group = [f"The storm closed the harbour {number} times." for number in range(4)]
    reward(ladders="demo/story", judge=Recording(), dimensions=["coherence"])(
        completions=group, context_id=["story-01"] * 4
    )
    # The judge check comes first: two questions about each of 12 ladders, and of 2 anchors.
    assert batches == [2 * 12, 4 * 5]
    reward(ladders=shared, judge=Recording())(completions=group)
    assert batches[2:] == [2 * 2, 4 * 2 * 5]


@pytest.mark.parametrize(
    ("dimensions", "column"), [(["coherence"], "coherence_score"), ([], "overall_score")]
)
def test_the_reward_is_the_score_of_the_command_line(expected, dimensions, column):
    values = reward(ladders="demo/story", dimensions=dimensions)(
        completions=TEXTS, context_id=CONTEXT_IDS
    )
    assert values == [*(row[column] for row in expected), None]


def test_a_conversation_is_scored_by_its_last_message(expected):
    scored = reward(ladders="demo/story", dimensions=["coherence"])
    completions = [[{"role": "assistant", "content": text}] for text in TEXTS[:2]]
    completions += [[{"role": "assistant", "content": None}], []]
    values = scored(completions=completions, context_id=[*CONTEXT_IDS[:2], "story-01", "story-01"])
    assert values == [*(row["coherence_score"] for row in expected), None, None]


def test_bad_input():
    with pytest.raises(
        UnknownNameError, match=r"unknown ladder set .* 'demo/stori'; did you mean 'demo/story'"
    ):
        reward(ladders="demo/stori")
    with pytest.raises(UnknownNameError, match="unknown dimension 'wit'"):
        reward(ladders="demo/story", dimensions=["wit"])
    message = r"needs a field context_id \(of the ladder set\) or context; fields: prompts$"
    with pytest.raises(UsageError, match=message):
        reward(ladders="demo/story")(completions=["a"], prompts=["b"])
