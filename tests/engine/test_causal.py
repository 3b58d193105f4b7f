"""Log-probabilities of token ids, against a plain forward pass of transformers; no backend is involved."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from refladder.engine.causal import STRATEGIES, Causal  # noqa: E402
from refladder.engine.self_check import choose_strategy  # noqa: E402
from refladder.engine.trie import Read  # noqa: E402

IDS = np.random.default_rng(0).integers(5, 300, 250).tolist()
SEQUENCES = [IDS[:60] + IDS[first : first + 30] for first in (60, 90, 120)]
SEQUENCES += [IDS[:40], IDS[150:200]]
READS = [
    Read(number, position, 7 + position)
    for number, sequence in enumerate(SEQUENCES)
    for position in (20, len(sequence) - 1)
]


@pytest.fixture(scope="module")
def model(folder):
    kind = transformers.AutoModelForCausalLM
    return kind.from_pretrained(folder("llama"), dtype=torch.float32).eval()


@torch.inference_mode()
def plain(model):
    logits = [model(torch.tensor([ids])).logits[0].double() for ids in SEQUENCES]
    distributions = [torch.log_softmax(each, -1) for each in logits]
    return [float(distributions[read.sequence][read.position, read.token]) for read in READS]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_strategy_returns_the_log_probabilities_of_plain_forward_passes(model, strategy):
    causal = Causal(model, "float32", 2**30, forward_tokens=50)
    causal.strategy = strategy
    np.testing.assert_allclose(causal.logprobs(SEQUENCES, READS), plain(model), atol=1e-4, rtol=0)


def test_the_self_check_chooses_the_first_strategy_that_agrees(model):
    causal = Causal(model, "float32", 2**30)
    choose_strategy(causal, IDS)
    assert causal.strategy == "tree"
    assert causal.tokens_run == 0  # the tokens of the check do not count


def test_an_error_leaves_the_model_with_its_own_attention(model, monkeypatch):
    causal = Causal(model, "float32", 2**30)
    monkeypatch.setattr(causal, "_forward", lambda *_, **_named: pytest.fail("no forward pass"))
    before = model.config._attn_implementation
    with pytest.raises(pytest.fail.Exception, match="no forward pass"):
        causal.logprobs(SEQUENCES, READS)
    assert model.config._attn_implementation == before == "sdpa"
