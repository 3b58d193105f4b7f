"""Texts: the same for a row whatever is asked with it, within the limits asked for, ended where the model ends them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from refladder.backends.local.writing import _common, _sampled, stream_of
from refladder.errors import BackendError
from refladder.records import Sampling
from refladder.testing import check_backend

torch = pytest.importorskip("torch", reason="torch is not installed; pip install 'refladder[local]'")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")

SAMPLING = Sampling(max_tokens=24, temperature=0.8, top_p=0.95, seed=5)


@pytest.mark.parametrize("name", ["llama", "qwen3", "gemma3", "gpt2", "bloom", "lfm2", "mamba2", "t5"])
def test_a_text_depends_on_its_prompt_and_seed_alone(name, opened, prompts):
    backend = opened(name)
    together = backend.write(prompts, SAMPLING)
    assert together == [backend.write([prompt], SAMPLING)[0] for prompt in prompts]
    assert together == backend.write(prompts[::-1], SAMPLING)[::-1]
    assert together != backend.write(prompts, replace(SAMPLING, seed=6))


@pytest.mark.parametrize("name", ["llama", "bloom", "t5"])
def test_the_contract_of_backends_holds(name, opened):
    check_backend(opened(name), tolerance=1e-4)


@torch.inference_mode()
def test_greedy_text_is_that_of_plain_generate(folder, opened, prompts):
    path = folder("qwen2")
    tokenizer = transformers.AutoTokenizer.from_pretrained(path)
    model = transformers.AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)
    for prompt, found in zip(
        prompts[:3], opened("qwen2").write(prompts, Sampling(max_tokens=12, temperature=0))[:3], strict=True
    ):
        text = tokenizer.apply_chat_template(prompt.messages, tokenize=False, add_generation_prompt=True)
        ids = tokenizer(text, add_special_tokens=False, return_tensors="pt")["input_ids"]
        out = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=12, do_sample=False)
        assert found.text == tokenizer.decode(out[0, ids.shape[1] :], skip_special_tokens=True).strip()


def test_a_text_stops_at_the_end_of_its_turn_or_at_the_limit(opened, prompts, monkeypatch):
    found = opened("llama").write(prompts, replace(SAMPLING, max_tokens=3))
    assert {one.finish for one in found} == {"length"}
    backend = opened("llama")
    first = backend.tokens.prompt(prompts[0].text)
    logits = backend.scorer.model(input_ids=torch.tensor([first])).logits[0, -1]
    monkeypatch.setattr(backend.tokens, "ends", lambda _model: [int(logits.argmax())])
    ended = backend.write(prompts[:1], Sampling(max_tokens=3, temperature=0))[0]
    assert (ended.text, ended.finish) == ("", "stop")


def test_settings_of_the_model_do_not_change_the_draw(folder, prompts, tmp_path):
    """A repetition penalty or a top_k in generation_config.json would not be in the fingerprint's sampling."""
    import shutil  # noqa: PLC0415

    from refladder.backends import connect  # noqa: PLC0415

    changed = tmp_path / "changed"
    shutil.copytree(folder("llama"), changed)
    settings = transformers.GenerationConfig.from_pretrained(changed)
    settings.repetition_penalty, settings.top_k, settings.do_sample, settings.temperature = 1.9, 2, True, 0.1
    settings.save_pretrained(changed)
    texts = [connect(f"hf:{path}", dtype="float32").write(prompts[:2], SAMPLING) for path in (folder("llama"), changed)]
    assert texts[0] == texts[1]


def test_draws_follow_the_probabilities_and_top_p():
    # p = .5 .3 .2: u below .5 is token 0, below .8 token 1, else token 2; top_p .7 leaves 0 and 1, as .625 and .375.
    scores = torch.log(torch.tensor([[0.5, 0.3, 0.2]])).repeat(6, 1)
    drawn = torch.tensor([0.0, 0.49, 0.51, 0.79, 0.81, 0.999], dtype=torch.float64)
    assert _sampled(scores, Sampling(), drawn).tolist() == [0, 0, 1, 1, 2, 2]
    assert _sampled(scores, Sampling(top_p=0.7), drawn).tolist() == [0, 0, 0, 1, 1, 1]
    # Temperature .5 squares them: .25 .09 .04 of .38, so the bounds are .658 and .895.
    assert _sampled(scores, Sampling(temperature=0.5), drawn).tolist() == [0, 0, 0, 1, 1, 2]
    assert _sampled(scores, Sampling(top_p=0.0), drawn).tolist() == [0] * 6


def test_streams_differ_by_prompt_and_by_seed():
    draws = {stream_of(prompt, seed).random() for prompt in ([1, 2], [1, 2, 0], [2, 1]) for seed in (0, 1, -1)}
    assert len(draws) == 9
    assert stream_of([1, 2], 0).random() == stream_of(np.array([1, 2]), 0).random()


def test_what_prompts_share_leaves_a_token_of_each():
    assert _common([[1, 2, 3], [1, 2, 4, 5]]) == 2
    assert _common([[1, 2], [1, 2]]) == 1
    assert _common([[1, 2, 3], [1, 2]]) == 1


def test_a_prompt_that_leaves_no_room_for_the_text_is_refused_by_row(opened, prompts):
    found = opened("llama").write(prompts[:1], Sampling(max_tokens=2000))
    assert found[0].finish == "error"
    assert "takes 48;" in found[0].note


def test_memory_that_is_short_halves_the_batch(opened, prompts, monkeypatch):
    from refladder.backends import local  # noqa: PLC0415

    sizes = []

    def scarce(model, batch, *arguments, **options):
        sizes.append(len(batch))
        if len(batch) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        return real(model, batch, *arguments, **options)

    real = local.write_batch
    expected = opened("llama").write(prompts, SAMPLING)
    monkeypatch.setattr(local, "write_batch", scarce)
    assert opened("llama").write(prompts, SAMPLING) == expected
    assert sizes[:3] == [9, 4, 2]

    def exhausted(*_arguments, **_options):
        raise RuntimeError("[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory")

    monkeypatch.setattr(local, "write_batch", exhausted)
    with pytest.raises(BackendError, match=r"writing: out of memory even with 1 at a time; use a smaller model"):
        opened("llama").write(prompts, SAMPLING)
