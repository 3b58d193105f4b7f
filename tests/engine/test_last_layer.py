"""A shortened last layer: the same numbers as the plain model, and a model that is unchanged afterwards."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; pip install torch transformers")
transformers = pytest.importorskip(
    "transformers", reason="transformers is not installed; pip install torch transformers"
)

from refladder.engine.last_layer import decoder_layers, shortened  # noqa: E402

IDS = torch.randint(0, 300, (2, 300), generator=torch.Generator().manual_seed(0))
INDICES = torch.tensor([3, 150, 299])


def model_of(folder, dtype):
    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).eval()


def logits(model, *, short=False):
    with torch.inference_mode():
        if not short:
            return model(input_ids=IDS, use_cache=False).logits[:, INDICES].double()
        with shortened(model, INDICES, IDS.shape[1]):
            return model(input_ids=IDS, use_cache=False, logits_to_keep=INDICES).logits.double()


@pytest.mark.parametrize("error", [AttributeError, NotImplementedError])
def test_a_model_whose_own_code_does_not_tell_its_decoder_keeps_its_last_layer(folder, monkeypatch, error):
    model = model_of(folder("llama"), torch.float32)
    assert len(decoder_layers(model)) == 2

    def fails(_model):
        raise error

    monkeypatch.setattr(type(model), "get_decoder", fails)
    assert decoder_layers(model) == []
    torch.testing.assert_close(logits(model, short=True), logits(model), atol=1e-4, rtol=0)


@pytest.mark.parametrize("name", ["llama", "qwen2", "qwen3", "gemma2", "gpt-oss", "phi3"])
def test_the_numbers_are_those_of_the_plain_model(folder, name):
    model = model_of(folder(name), torch.float32)
    lengths = []
    last = decoder_layers(model)[-1].mlp
    plain = logits(model)
    with shortened(model, INDICES, IDS.shape[1]):
        hook = last.register_forward_hook(lambda _module, inputs, _output: lengths.append(inputs[0].shape[1]))
        torch.testing.assert_close(logits(model), plain, atol=1e-5, rtol=0)
        hook.remove()
    assert lengths == [3]  # of 300 tokens
    torch.testing.assert_close(logits(model, short=True), plain, atol=1e-5, rtol=0)
    assert torch.equal(logits(model), plain)  # nothing is left behind


def test_an_error_in_the_forward_leaves_the_model_plain(folder):
    model = model_of(folder("llama"), torch.bfloat16)
    plain = logits(model)
    with pytest.raises(RuntimeError, match="in between"), shortened(model, INDICES, 300):
        raise RuntimeError("in between")
    assert torch.equal(logits(model), plain)
