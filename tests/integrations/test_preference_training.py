"""The pairs of `refladder pairs` train a small model with TRL."""

from __future__ import annotations

import pytest

trl = pytest.importorskip("trl", reason="TRL is not installed")
datasets = pytest.importorskip("datasets")
transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.filterwarnings("default")  # TRL's own


@pytest.mark.parametrize("form", ["standard", "conversational"])
def test_pairs_train_a_model(command, write_jsonl, tmp_path, form):
    from tiny_models import byte_level

    rows = [
        {
            "context_id": f"c{k}",
            "context": f"Question {k}?",
            "output": f"Answer {n} of {k}.",
            "worth_score": n,
        }
        for k in range(4)
        for n in range(3)
    ]
    out = tmp_path / "pairs.jsonl"
    flag = ("--conversational",) if form == "conversational" else ()
    assert command("pairs", write_jsonl(rows), "--margin", "1", "--out", out, *flag).code == 0
    pairs = datasets.load_dataset(
        "json", data_files=str(out), split="train", cache_dir=str(tmp_path / "cache")
    )
    assert len(pairs) == 12
    assert trl.is_conversational(pairs[0]) is (form == "conversational")
    tokenizer = byte_level()
    tokenizer.pad_token = "<|endoftext|>"  # noqa: S105  a token of text
    config = transformers.GPT2Config(
        vocab_size=len(tokenizer), n_embd=16, n_layer=1, n_head=2, n_positions=256
    )
    settings = trl.DPOConfig(
        output_dir=str(tmp_path / "model"), max_steps=2, per_device_train_batch_size=2, report_to=[], use_cpu=True,
        logging_steps=1, save_strategy="no", bf16=False,
    )  # fmt: skip
    transformers.GPT2LMHeadModel(config).save_pretrained(
        tmp_path / "base"
    )  # the reference model is read from there
    model = transformers.GPT2LMHeadModel.from_pretrained(tmp_path / "base")
    trainer = trl.DPOTrainer(
        model=model, args=settings, train_dataset=pairs, processing_class=tokenizer
    )
    trained = trainer.train()
    assert trained.global_step == 2
    shown = tokenizer.decode(trainer.train_dataset[0]["prompt_ids"])
    assert "Question 0?" in shown
    assert ("<|im_start|>user" in shown) is (form == "conversational")
