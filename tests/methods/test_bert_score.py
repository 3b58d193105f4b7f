"""BERTScore against a plain double loop, and against the reference package where it is installed."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest

from refladder.errors import BackendUnavailableError, UsageError
from refladder.methods.bert_score import bert_score, greedy_f1
from refladder.methods.without_judge import CUT

torch = pytest.importorskip("torch", reason="the local extra is not installed")
transformers = pytest.importorskip("transformers", reason="the local extra is not installed")

TEXTS = [
    "the storm closed the harbour",
    "bread in ghent",
    "the ferry is open . is the ferry open ?",
]
REFERENCES = ("a storm closed the harbour until thursday .", "the harbour was closed")


def test_of_an_encoder_and_a_decoder_with_configurations_of_their_own_the_encoder_is_used(tmp_path):
    import tiny_models

    folder = tiny_models.save("t5gemma", tmp_path)
    metric, _ = bert_score(str(folder))
    assert "|layer:2/2|" in metric.signature
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    encoder = transformers.AutoModel.from_pretrained(folder).eval().get_encoder()
    ids = [tokenizer(text, return_tensors="pt")["input_ids"] for text in (TEXTS[0], REFERENCES[0])]
    with torch.inference_mode():
        states = [encoder(input_ids=each).last_hidden_state[0].double().numpy() for each in ids]
    text, reference = (each / np.linalg.norm(each, axis=1, keepdims=True) for each in states)
    special = {tokenizer.cls_token_id, tokenizer.sep_token_id}
    inner = [np.array([float(token not in special) for token in each[0].tolist()]) for each in ids]
    expected = greedy_f1(text, reference, *inner)
    assert metric.score([TEXTS[0]], [REFERENCES[0]]) == [pytest.approx(expected, abs=1e-5)]


@pytest.mark.parametrize(("kind", "most"), [("mpnet", 512), ("bert", 514)])
def test_positions_that_start_after_the_padding_leave_room_for_fewer_tokens(kind, most):
    from refladder.backends.hf.readers import longest_text

    config = SimpleNamespace(model_type=kind, max_position_embeddings=514, pad_token_id=1)
    assert longest_text(SimpleNamespace(model_max_length=10**9), config) == most


def test_greedy_matching_by_hand():
    text = np.array([[1.0, 0.0], [0.0, 1.0]])
    reference = np.array([[1.0, 0.0], [0.6, 0.8], [0.0, -1.0]])
    # precision: (1 + .8) / 2 = .9; recall: (1 + .8 + 0) / 3 = .6; F1 = 2 * .9 * .6 / 1.5 = .72
    assert greedy_f1(text, reference, np.ones(2), np.ones(3)) == pytest.approx(0.72)
    # the third token of the reference is special: recall (1 + .8) / 2 = .9, F1 = .9
    assert greedy_f1(text, reference, np.ones(2), np.array([1.0, 1.0, 0.0])) == pytest.approx(0.9)
    # a special token can still be matched: precision of the second token is 1 through the special [0, 1]
    both = np.array([[1.0, 0.0], [0.0, 1.0]])
    assert greedy_f1(text, both, np.ones(2), np.array([1.0, 0.0])) == pytest.approx(1.0)
    assert greedy_f1(text, both, np.zeros(2), np.ones(2)) == 0.0


def plain(path, layer, text, reference):
    """Double loops in float64 over the hidden states of each text alone."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(path)
    model = transformers.AutoModel.from_pretrained(path).eval()

    def states(one):
        with torch.inference_mode():
            found = model(
                **tokenizer(one, return_tensors="pt"), output_hidden_states=True
            ).hidden_states[layer][0]
        return found.double().tolist()

    def product(one, other):
        return math.fsum(left * right for left, right in zip(one, other, strict=True))

    def cosine(one, other):
        return product(one, other) / math.sqrt(product(one, one) * product(other, other))

    mine, others = states(text), states(reference)
    precision = [
        max(cosine(one, other) for other in others) for one in mine[1:-1]
    ]  # the ends are [CLS] and [SEP]
    recall = [max(cosine(one, other) for one in mine) for other in others[1:-1]]
    p, r = sum(precision) / len(precision), sum(recall) / len(recall)
    return 2 * p * r / (p + r)


@pytest.mark.parametrize("layer", [1, 2, None])
def test_it_is_the_plain_double_loop(models, layer):
    metric, problems = bert_score(models["encoder"], layer)
    depth = 3 if layer is None else layer
    expected = [
        max(plain(models["encoder"], depth, text, one) for one in REFERENCES) for text in TEXTS
    ]
    assert metric.score(TEXTS, REFERENCES) == pytest.approx(expected, abs=1e-6)
    assert problems[CUT] == 0
    assert f"|layer:{depth}/3|idf:no|rescaled:no" in metric.signature
    assert metric.signature.startswith("bertscore|nrefs:best|f1|model:encoder@")


def test_it_is_the_reference_package(models):
    package = pytest.importorskip("bert_score", reason="the package bert-score is not installed")
    scorer = package.BERTScorer(model_type=models["encoder"], num_layers=2, idf=False, device="cpu")
    _, _, f1 = scorer.score(TEXTS, [list(REFERENCES)] * len(TEXTS))
    assert bert_score(models["encoder"], 2)[0].score(TEXTS, REFERENCES) == pytest.approx(
        f1.tolist(), abs=1e-6
    )


def test_texts_alone_empty_and_equal(models):
    metric, _ = bert_score(models["encoder"])
    together = metric.score(TEXTS, REFERENCES)
    assert [metric.score([text], REFERENCES)[0] for text in TEXTS] == pytest.approx(
        together, abs=1e-6
    )
    assert metric.score(["", "  ", REFERENCES[1]], REFERENCES) == pytest.approx(
        [0.0, 0.0, 1.0], abs=1e-6
    )


def test_long_texts_are_cut_and_counted(models):
    metric, problems = bert_score(models["encoder"])
    assert 0 < metric.score(["storm " * 100], REFERENCES)[0] < 1
    assert problems[CUT] == 1


def test_errors(models, tmp_path):
    with pytest.raises(UsageError, match=r"bertscore\.layer=4: .*encoder has the layers 0 to 3"):
        bert_score(models["encoder"], 4)
    with pytest.raises(
        BackendUnavailableError,
        match=r"^bertscore:/.*: .*; fetch an encoder such as bert-base-uncased",
    ):
        bert_score(str(tmp_path))
