"""Fused kernels: the same numbers as the plain model, and a model that is unchanged afterwards."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; pip install torch transformers")
transformers = pytest.importorskip(
    "transformers", reason="transformers is not installed; pip install torch transformers"
)

from refladder.engine.kernels import FusedKernels, decoder_layers  # noqa: E402

IDS = torch.randint(0, 300, (2, 300), generator=torch.Generator().manual_seed(0))
INDICES = torch.tensor([3, 150, 299])


def model_of(folder, dtype):
    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).eval()


def logits(model, kernels=None):
    with torch.inference_mode():
        if kernels is None:
            return model(input_ids=IDS, use_cache=False).logits[:, INDICES].double()
        with kernels.active(INDICES, IDS.shape[1]):
            return model(input_ids=IDS, use_cache=False, logits_to_keep=INDICES).logits.double()


def replaced(kernels):
    return [type(module).__name__ for module, _ in kernels._replacements]


@pytest.mark.parametrize("error", [AttributeError, NotImplementedError])
def test_a_model_whose_own_code_does_not_tell_its_decoder_keeps_its_last_layer(folder, monkeypatch, error):
    model = model_of(folder("llama"), torch.float32)
    assert len(decoder_layers(model)) == 2

    def fails(_model):
        raise error

    monkeypatch.setattr(type(model), "get_decoder", fails)
    assert decoder_layers(model) == []
    torch.testing.assert_close(logits(model, FusedKernels(model)), logits(model), atol=1e-4, rtol=0)


@pytest.mark.parametrize("name", ["llama", "qwen2", "qwen3", "gemma2", "gpt-oss", "phi3"])
def test_in_float32_the_numbers_are_those_of_the_plain_model(folder, name):
    model = model_of(folder(name), torch.float32)
    kernels = FusedKernels(model)
    assert kernels._last_feed_forward is not None
    assert not any("MLP" in kind for kind in replaced(kernels))
    assert len(replaced(kernels)) >= 5  # the norms: two a layer and one at the end, or more
    plain = logits(model)
    torch.testing.assert_close(logits(model, kernels), plain, atol=1e-5, rtol=0)
    assert torch.equal(logits(model), plain)  # nothing is left behind


@pytest.mark.parametrize("name", ["llama", "qwen2", "gemma2"])  # SiLU, with biases of queries, and GELU
def test_in_bfloat16_fused_steps_are_as_near_to_float32_as_the_plain_model(folder, name):
    model = model_of(folder(name), torch.bfloat16)
    kernels = FusedKernels(model)
    if not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        pytest.skip("this processor has no products in bfloat16")
    assert sum("MLP" in kind for kind in replaced(kernels)) == 2
    exact = logits(model_of(folder(name), torch.float32))
    error = (logits(model) - exact).square().mean().sqrt()
    assert (logits(model, kernels) - exact).square().mean().sqrt() < 1.2 * error


@torch.inference_mode()
@pytest.mark.parametrize("shape", [(3, 64), (2, 5, 64), (0, 64), (1, 0, 64)])  # an expert may be chosen for no token
def test_fused_steps_take_any_number_of_rows(folder, shape):
    kernels = FusedKernels(model_of(folder("llama"), torch.bfloat16))
    fused = [(module, forward) for module, forward in kernels._replacements if "MLP" in type(module).__name__]
    if not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        pytest.skip("this processor has no products in bfloat16")
    module, forward = fused[0]
    hidden = torch.randn(shape, generator=torch.Generator().manual_seed(0)).bfloat16()
    plain = module(hidden)
    largest = float(plain.abs().max()) if plain.numel() else 0.0  # rounding is in proportion to what is added up
    torch.testing.assert_close(forward(hidden), plain, atol=0.02 * largest, rtol=0)


@pytest.mark.parametrize("change", ["doubled", "relu", "a function", "quantised"])
def test_a_feed_forward_that_is_not_known_stays_as_it_is(folder, monkeypatch, change):
    model = model_of(folder("llama"), torch.bfloat16)
    kind = type(model.model.layers[0].mlp)
    if change == "doubled":
        forward = kind.forward
        monkeypatch.setattr(kind, "forward", lambda self, hidden: 2 * forward(self, hidden))
    for layer in model.model.layers:
        if change == "relu":
            layer.mlp.act_fn = torch.nn.ReLU()
        elif change == "a function":
            del layer.mlp.act_fn
            layer.mlp.act_fn = torch.nn.functional.silu
        elif change == "quantised":
            layer.mlp.up_proj.__class__ = type("Quantised", (torch.nn.Linear,), {})
    assert not any("MLP" in kind for kind in replaced(FusedKernels(model)))


def test_an_error_in_the_forward_leaves_the_model_plain(folder):
    model = model_of(folder("llama"), torch.bfloat16)
    plain = logits(model)
    with pytest.raises(RuntimeError, match="in between"), FusedKernels(model).active(INDICES, 300):
        raise RuntimeError("in between")
    assert torch.equal(logits(model), plain)
