"""The proof on a small copy, planted faults, and models trained until they are sharp, in half precision."""

import dataclasses
import logging
from functools import partial

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from tiny_models import ONE_CACHE  # noqa: E402  imports torch

from refladder.engine import attention, causal, reduced_model, self_check  # noqa: E402
from refladder.engine.causal import Causal  # noqa: E402
from refladder.engine.self_check import choose_strategy, prove  # noqa: E402

WINDOWS = ("mistral-short-window", "gemma2", "gemma3", "gemma3n", "gemma4", "gpt-oss")
TREE = ("llama", "qwen3", *WINDOWS, "gemma3-images", "gemma4-images", "phi3-longrope", "gpt2")


@pytest.fixture(autouse=True)
def _no_proof_is_remembered(monkeypatch):
    monkeypatch.setattr(self_check, "_proofs", {})


def warnings_of(caplog):
    return [record for record in caplog.records if record.name.startswith("refladder")]


@pytest.fixture(scope="module")
def model(folder):
    torch.set_num_threads(1)
    return lambda name: transformers.AutoModelForCausalLM.from_pretrained(
        folder(name), dtype=torch.float32
    ).eval()


# Others are in tests/backends/hf/test_backend.py.
@pytest.mark.parametrize(
    ("name", "fastest"),
    [
        ("phi3-longrope", "tree"),
        ("gpt2", "tree"),
        ("bloom", "copied"),
        ("mamba2", "copied" if ONE_CACHE else "batches"),
    ],
)
def test_the_proof_finds_the_fastest_strategy_of_an_architecture(name, fastest, model, caplog):
    assert prove(model(name)) == fastest
    assert not warnings_of(caplog)


@pytest.mark.parametrize("error", [AttributeError, NotImplementedError])
def test_a_model_whose_own_code_does_not_tell_its_decoder_has_no_kinds_of_layers(
    model, monkeypatch, error
):
    llama = model("llama")
    assert len(reduced_model.layer_kinds(llama)) == 2

    def fails(_model):
        raise error

    monkeypatch.setattr(type(llama), "get_decoder", fails)
    assert reduced_model.layer_kinds(llama) == []


def test_the_copy_of_a_large_configuration_has_a_layer_of_each_kind():
    config = transformers.Gemma3TextConfig(
        num_hidden_layers=18, sliding_window=512, vocab_size=262_144
    )
    small = reduced_model.reduced_configuration(config)
    assert small.layer_types == ["sliding_attention", "full_attention"]
    sizes = (small.num_hidden_layers, small.vocab_size, small.head_dim, small.sliding_window)
    assert sizes == (2, 211, 16, 100)
    assert config.num_hidden_layers == 18  # the model's own configuration is as before


def test_the_copy_of_layers_that_differ_keeps_the_differences():
    kind = getattr(transformers, "Gemma4TextConfig", None)
    if kind is None:
        pytest.skip("this version of transformers has no Gemma 4")
    # every sixth layer is full attention, of width 512
    config = kind(num_hidden_layers=30, num_kv_shared_layers=12)
    small = reduced_model.reduced_configuration(config)
    assert small.layer_types == ["sliding_attention", "full_attention"] * 2
    assert [layer.head_dim for layer in small.per_layer_config] == [16, 32, 16, 32]
    assert (small.num_kv_shared_layers, small.vocab_size_per_layer_input) == (2, 211)
    assert [layer.head_dim for layer in config.per_layer_config][4:6] == [256, 512]


# Architectures with parts that a copy must shrink in their own way: groups of experts, latent attention, Mamba heads of
# each naming, rotations of a part of a head, patterns of layers that the configuration does not list.
GRANITE = (["mamba"] * 5 + ["attention"] + ["mamba"] * 4) * 3 + ["mamba"] * 2
OTHERS = {
    "DeepseekV3": "masked",
    "GraniteMoeHybrid": "copied",
    "GraniteMoeShared": "tree",
    "FalconH1": "copied",
    "NemotronH": "copied",
    "Jamba": "batches",
    "Qwen3_5Text": "copied",
    "GPTJ": "tree" if ONE_CACHE else "masked",
    "CodeGen": "tree" if ONE_CACHE else "masked",
    "SmolLM3": "tree",
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_large_configuration_is_proved_on_its_copy(name, monkeypatch):
    kind = getattr(transformers, f"{name}Config", None)
    if kind is None:
        pytest.skip(f"transformers {transformers.__version__} has no {name}")
    config = kind(layer_types=GRANITE) if name == "GraniteMoeHybrid" else kind()
    with torch.device("meta"):  # the whole model, without memory
        whole = transformers.AutoModelForCausalLM.from_config(config)
    monkeypatch.setattr(type(whole), "device", torch.device("cpu"))
    assert prove(whole) == OTHERS[name]


def test_random_numbers_of_the_caller_do_not_change(model):
    llama = model("llama")
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    prove(llama)
    torch.testing.assert_close(torch.rand(3), expected)


def ignore_windows(monkeypatch):
    original = attention.parts_of
    monkeypatch.setattr(
        attention, "parts_of", lambda segment, dtype, _window=None: original(segment, dtype)
    )


def shift_positions(monkeypatch):
    original = Causal._run

    def shifted(self, segment, logprobs, **arguments):
        # every sixteenth rotation is skipped
        positions = segment.positions + segment.positions // 16
        original(self, dataclasses.replace(segment, positions=positions), logprobs, **arguments)

    monkeypatch.setattr(Causal, "_run", shifted)


def show_other_branches(monkeypatch):
    original = attention.parts_of

    def blind(segment, *arguments, **named):
        every = np.full(segment.tokens.size, segment.tokens.size)
        return original(dataclasses.replace(segment, ends=every), *arguments, **named)

    monkeypatch.setattr(attention, "parts_of", blind)


def keep_what_is_popped(monkeypatch):
    original = causal.plan

    def without_pops(*given):
        return (step for step in original(*given) if hasattr(step, "segment"))

    # a Pop would be taken for a segment, and fail
    monkeypatch.setattr(causal, "Pop", type("NoPop", (), {}))
    monkeypatch.setattr(causal, "plan", without_pops)


def drop(part, monkeypatch):
    original = attention.attend

    def without(*given, **named):
        return original(*given, **{**named, part: None})

    monkeypatch.setattr(attention, "attend", without)


drop_sinks, drop_the_cap = partial(drop, "s_aux"), partial(drop, "softcap")


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        *((name, ignore_windows) for name in WINDOWS),
        *((name, shift_positions) for name in TREE),
        *((name, show_other_branches) for name in ("llama", "gemma3", "gpt2")),
        *((name, keep_what_is_popped) for name in ("llama", "gemma3", "gpt2")),
        ("gpt-oss", drop_sinks),
        ("gemma2", drop_the_cap),
    ],
)
def test_a_planted_fault_is_found_and_named(name, fault, model, monkeypatch, caplog):
    tested = model(name)
    fault(monkeypatch)
    with caplog.at_level(logging.WARNING):
        assert prove(tested) != "tree"
    assert "Prefix-tree inference" in caplog.text
    assert "Falling back to a slower strategy." in caplog.text


def trained(tested, ids):
    """The model after a little training on a few sentences, so that its predictions are sharp."""
    text = torch.tensor(ids)
    torch.manual_seed(0)
    optimiser = torch.optim.AdamW(tested.parameters(), lr=4e-3)
    for _ in range(60):
        starts = torch.randint(0, max(1, len(text) - 49), (8,)).tolist()
        batch = torch.stack([text[start : start + 48] for start in starts])
        loss = tested(input_ids=batch, labels=batch).loss
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        if loss.item() < 0.2:  # nats a token
            break
    assert loss.item() < 0.5
    return tested.eval().requires_grad_(requires_grad=False)


SHARP = ("llama", "qwen3", "mistral-short-window", "gemma2", "gemma3", "gemma4", "gpt-oss")
SHARP += ("qwen3-next",)


@pytest.mark.parametrize("name", SHARP)
def test_the_fast_strategy_is_kept_on_sharp_weights_in_half_precision(name, model, folder, caplog):
    import tiny_models

    tokenizer = transformers.AutoTokenizer.from_pretrained(folder(name))
    ids = tokenizer(" ".join(tiny_models.TEXT[:4] * 2))["input_ids"]
    sharp = trained(model(name), ids)
    for dtype in ("bfloat16", "float16"):
        half = Causal(sharp.to(getattr(torch, dtype)), dtype, 2**30)
        choose_strategy(half, ids * (200 // len(ids) + 1))
        assert half.strategy == ("copied" if name == "qwen3-next" else "tree")
        assert not warnings_of(caplog)


def test_a_fault_on_the_real_weights_alone_is_found_in_half_precision(model, monkeypatch, caplog):
    half = Causal(model("llama").to(torch.bfloat16), "bfloat16", 2**30)
    original = Causal._with_tree_attention

    def wrong(self, *given):
        return original(self, *given) + (2.0 if self is half else 0.0)

    monkeypatch.setattr(Causal, "_with_tree_attention", wrong)
    with caplog.at_level(logging.WARNING):
        choose_strategy(half, list(range(10, 240)))
    assert half.strategy == "masked"
    assert "llama: Prefix-tree inference differs from float32 by 2" in caplog.text
    assert "nats, and plain inference by 0." in caplog.text


@pytest.mark.parametrize(
    ("dtype", "memory"), [("float32", 2**30), ("bfloat16", 2**30), ("bfloat16", 2**10)]
)
def test_without_a_copy_the_strategies_are_compared_on_the_real_weights(
    dtype, memory, model, monkeypatch, caplog
):
    monkeypatch.setattr(self_check, "reduced_model", lambda _model: None)
    tested = Causal(model("gemma3").to(getattr(torch, dtype)), dtype, 2**30)
    tested.memory = memory
    choose_strategy(tested, list(range(10, 240)))
    assert tested.strategy == "tree"
    assert not warnings_of(caplog)
    ignore_windows(monkeypatch)
    with caplog.at_level(logging.WARNING):
        choose_strategy(tested, list(range(10, 240)))
    assert tested.strategy == "masked"
    assert "disagrees with plain inference by" in caplog.text


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_in_float32_a_half_precision_model_gives_the_numbers_of_its_float32_twin(dtype, model):
    half = model("gpt-oss").to(dtype)
    twin = model("gpt-oss").to(dtype).to(torch.float32)
    ids = torch.arange(10, 60)[None]
    with torch.inference_mode():
        expected = twin(ids).logits
        before = half(ids).logits
        with reduced_model.in_float32(half):
            torch.testing.assert_close(half(ids).logits, expected, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(half(ids).logits, before, atol=0, rtol=0)
    assert {parameter.dtype for parameter in half.parameters()} == {dtype}
