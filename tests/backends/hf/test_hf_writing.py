"""Texts: the same for a row whatever is asked with it, within the limits asked for, ended where the model ends them."""

import json
import logging
import shutil
from dataclasses import replace

import numpy as np
import pytest

from refladder.backends import connect
from refladder.engine.batches import cache_name
from refladder.engine.sampling import BLOCK
from refladder.errors import BackendError
from refladder.records import Sampling
from refladder.testing import check_backend

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

SAMPLING = Sampling(max_tokens=12, temperature=0.8, top_p=0.95, seed=5)


@pytest.mark.parametrize("name", ["llama", "gemma4-images", "bloom", "lfm2", "mamba2", "t5"])
def test_a_text_depends_on_its_prompt_and_seed_alone(name, opened, prompts):
    backend = opened(name)
    together = backend.write(prompts, SAMPLING)
    for place in (0, 4, 8):  # each rung and each output once
        assert backend.write([prompts[place]], SAMPLING) == [together[place]]
    assert together == backend.write(prompts[::-1], SAMPLING)[::-1]
    assert together != backend.write(prompts, replace(SAMPLING, seed=6))


@pytest.mark.parametrize("name", ["llama", "t5"])
def test_the_contract_of_backends_holds(name, opened):
    check_backend(opened(name), tolerance=1e-4)


@pytest.fixture(scope="module")
def long_prompts():
    """Token ids that share nothing, 200 or 590 tokens, and some a little shorter than a block, as long, or longer."""
    draw = np.random.default_rng(1)
    shared = draw.integers(10, 250, 590).tolist()
    lengths = [(0, 40), (200, 3), (200, 150), (590, 1), (590, 9), (590, 400)]
    lengths += [(0, BLOCK - 1), (0, BLOCK), (0, BLOCK + 1)]
    return [shared[:both] + draw.integers(10, 250, own).tolist() for both, own in lengths]


@pytest.mark.parametrize("name", ["llama", "gemma3", "t5"])
def test_in_bfloat16_too_a_text_does_not_depend_on_its_batch(name, folder, long_prompts):
    backend = connect(f"hf:{folder(name)}", dtype="bfloat16", memory="2G")
    together = backend.write_ids(long_prompts, SAMPLING)
    assert together == [backend.write_ids([prompt], SAMPLING)[0] for prompt in long_prompts]
    assert together[:5] == backend.write_ids(long_prompts[4::-1], SAMPLING)[::-1]


ONE_OF_EACH = ("llama", "gemma3", "gemma4", "mistral3", "qwen3-vl", "mistral-short-window", "gpt2")


@torch.inference_mode()
@pytest.mark.parametrize("name", [*ONE_OF_EACH, "t5", "t5gemma", "phi3-longrope"])
def test_a_long_prompt_is_continued_as_by_plain_generate(name, opened, long_prompts):
    if name == "phi3-longrope":  # its rotations change when a text gets longer than 400 tokens
        long_prompts = [prompt for prompt in long_prompts if len(prompt) > 400]
    model = opened(name).opened.model
    found = opened(name).write_ids(long_prompts, Sampling(max_tokens=12, temperature=0))
    for prompt, written in zip(long_prompts, found, strict=True):
        ids = torch.tensor([prompt])
        out = model.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=12, do_sample=False
        )
        plain = out[0, 1 if name.startswith("t5") else len(prompt) :].tolist()
        assert written.ids == plain[: len(written.ids)]
        assert len(plain) == len(written.ids) + written.ended


def test_a_prompt_is_read_in_the_same_pieces_whatever_it_shares(opened, long_prompts):
    backend = opened("llama")
    backend.load()
    run = []

    def note(_model, _arguments, named):
        run.append(
            (
                named[cache_name(backend.opened.model)].get_seq_length(),
                named["input_ids"][0].tolist(),
            )
        )

    def pieces(prompts):
        run.clear()
        with backend.opened.model.base_model.register_forward_pre_hook(note, with_kwargs=True):
            backend.write_ids(prompts, Sampling(max_tokens=1))
        return run[:-1]  # the last one is of the batch

    alone = [pieces([prompt]) for prompt in long_prompts]
    for prompt, found in zip(long_prompts, alone, strict=True):
        starts = range(0, len(prompt), 256)
        assert found == [(first, prompt[first : first + 256]) for first in starts]
    together = pieces(long_prompts)
    assert all(any(piece in one for one in alone) for piece in together)
    # less the first two pieces of the 590 tokens that three share
    assert len(together) == sum(map(len, alone)) - 2 * 2


@pytest.mark.parametrize("name", ["llama", "t5"])
def test_a_batch_has_rows_of_the_same_bits_and_whole_blocks(
    name, opened, long_prompts, monkeypatch
):
    monkeypatch.setitem(opened(name).__dict__, "_batch_sizes", [4, 16, 32])
    model = opened(name).opened.model
    real, masks = model.generate, []

    def generate(**arguments):
        masks.append(arguments["attention_mask"])
        assert arguments["input_ids"].shape == masks[-1].shape
        return real(**arguments)

    monkeypatch.setattr(model, "generate", generate)
    for prompts in (long_prompts, long_prompts[:1], long_prompts[-2:-1]):
        opened(name).write_ids(prompts, Sampling(max_tokens=1))
    # all, and 40 and 512 tokens alone
    assert [mask.shape for mask in masks] == [(16, 1024), (4, BLOCK), (4, 2 * BLOCK)]
    assert not any(mask.all(dim=1).any() for mask in masks)


def test_padding_is_not_taken_for_a_text_that_is_too_long(folder, tmp_path, monkeypatch):
    """transformers reminds of a model's longest text, here 600 tokens, when a row with its padding is longer."""
    config = shutil.copytree(folder("llama"), tmp_path / "short") / "config.json"
    settings = json.loads(config.read_text("utf-8")) | {"max_position_embeddings": 600}
    config.write_text(json.dumps(settings), "utf-8")
    backend = connect(f"hf:{config.parent}", dtype="float32")
    told = []
    monkeypatch.setattr(logging.getLogger("transformers"), "handlers", [logging.Handler()])
    monkeypatch.setattr(logging.Handler, "emit", lambda _, record: told.append(record.getMessage()))
    assert len(backend.write_ids([list(range(10, 60)) * 11], Sampling(max_tokens=20))[0].ids) > 1
    assert not told


def test_tokens_that_are_run_are_counted_where_prompts_begin_alike(folder, monkeypatch):
    backend = connect(f"hf:{folder('llama')}", dtype="float32", memory="2G")
    # 512 of 600 tokens are whole pieces
    prompts = [[*range(10, 60)] * 12 + [number] * 30 for number in range(3)]
    read = []
    embedding = backend.scorer.model.get_input_embeddings()
    embedding.register_forward_hook(lambda _module, given, _out: read.append(given[0]))

    def run():
        before = backend.tokens_run
        backend.write_ids(prompts, Sampling(max_tokens=2, temperature=0.0))
        return backend.tokens_run - before

    assert run() == 3 * 630 - 2 * 512
    assert (
        sum(ids.numel() for ids in read if len(ids) == 1 and ids.shape[1] > 1) == 3 * 630 - 2 * 512
    )
    # then all are read, in one padded batch
    monkeypatch.setattr(type(backend.scorer), "reads_in_chunks", False)
    assert run() == 3 * 630


def test_a_text_stops_at_the_end_of_its_turn_or_at_the_limit(opened, prompts, monkeypatch):
    backend = opened("llama")
    found = backend.write(prompts, replace(SAMPLING, max_tokens=3))
    assert {one.finish for one in found} == {"length"}
    first = backend.tokens.prompts([prompts[0].text])[0]
    logits = backend.scorer.model(input_ids=torch.tensor([first])).logits[0, -1]
    monkeypatch.setattr(backend.tokens, "end_ids", lambda _model: [int(logits.argmax())])
    ended = backend.write(prompts[:1], Sampling(max_tokens=3, temperature=0))[0]
    assert (ended.text, ended.finish) == ("", "stop")


def test_settings_of_the_model_do_not_change_the_draw(folder, opened, prompts, tmp_path):
    """A repetition penalty or a top_k in generation_config.json would not be in the fingerprint's sampling."""
    changed = shutil.copytree(folder("llama"), tmp_path / "changed")
    given = {"repetition_penalty": 1.9, "top_k": 2, "do_sample": True, "temperature": 0.1}
    transformers.GenerationConfig(**given).save_pretrained(changed)
    backend = connect(f"hf:{changed}", dtype="float32", memory="2G")
    assert backend.write(prompts[:2], SAMPLING) == opened("llama").write(prompts[:2], SAMPLING)


def test_a_prompt_that_leaves_no_room_for_the_text_is_refused_by_row(opened, prompts):
    found = opened("llama").write(prompts[:1], Sampling(max_tokens=2000))
    assert found[0].finish == "error"
    assert "takes 48;" in found[0].note


def test_memory_that_is_short_halves_the_batch(opened, prompts, monkeypatch):
    from refladder.backends.hf import backend as hf

    sizes = []

    def scarce(model, batch, ends, *, rows, **settings):
        sizes.append((len(batch), rows))
        if rows > 2:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        return real(model, batch, ends, rows=rows, **settings)

    monkeypatch.setitem(opened("llama").__dict__, "_batch_sizes", [32])
    real = hf.generate_batch
    expected = opened("llama").write(prompts, SAMPLING)
    monkeypatch.setattr(hf, "generate_batch", scarce)
    assert opened("llama").write(prompts, SAMPLING) == expected
    assert sizes == [(9, 32), (9, 16), (8, 8), (4, 4), (2, 2), (2, 2), (2, 2), (2, 2), (1, 2)]

    def exhausted(*_arguments, **_options):
        raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory")

    monkeypatch.setattr(hf, "generate_batch", exhausted)
    message = "writing: out of memory even with 1 at a time; use a smaller model"
    with pytest.raises(BackendError, match=message):
        opened("llama").write(prompts, SAMPLING)


def test_a_writer_that_never_ends_its_texts_is_reported_once(folder, prompts, caplog):
    backend = connect(f"hf:{folder('llama')}", dtype="float32")
    for _ in range(2):
        backend.write(prompts, Sampling(max_tokens=2, seed=1))
    assert caplog.text.count("none of the first 9 texts ended within 2 tokens.") == 1
