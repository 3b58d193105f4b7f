"""BERTScore and embedding:PATH against plain loops, and against the reference package where it is installed."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from small_benchmarks import run_method

import refladder
from refladder.backends.hf.readers import longest_text
from refladder.errors import BackendUnavailableError, UsageError
from refladder.evaluation.evaluate import agreement
from refladder.methods.bert_score import bert_score, greedy_f1
from refladder.methods.contract import Method
from refladder.methods.surface import BEST, surface_methods
from refladder.methods.without_judge import CUT
from refladder.statistics.agreement import human_means

torch = pytest.importorskip("torch", reason="the local extra is not installed")
transformers = pytest.importorskip("transformers", reason="the local extra is not installed")

TEXTS = [
    "the storm closed the harbour",
    "bread in ghent",
    "the ferry is open . is the ferry open ?",
]
REFERENCES = ("a storm closed the harbour until thursday .", "the harbour was closed")
STORY = refladder.load_benchmark("demo/story")


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


def cosine(one, other):
    def product(left, right):
        return math.fsum(a * b for a, b in zip(left, right, strict=True))

    return product(one, other) / math.sqrt(product(one, one) * product(other, other))


@torch.inference_mode()
def plain_states(path, text, layer=-1):
    """The hidden states of a text that is read alone, in float64."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(path)
    model = transformers.AutoModel.from_pretrained(path, dtype=torch.float32).eval()
    longest = model.config.max_position_embeddings
    ids = tokenizer(text, truncation=True, max_length=longest, return_tensors="pt")
    return model(**ids, output_hidden_states=True).hidden_states[layer][0].double().tolist()


def plain_f1(path, layer, text, reference):
    mine, others = plain_states(path, text, layer), plain_states(path, reference, layer)
    # the ends are [CLS] and [SEP]
    precision = [max(cosine(one, other) for other in others) for one in mine[1:-1]]
    recall = [max(cosine(one, other) for one in mine) for other in others[1:-1]]
    p, r = sum(precision) / len(precision), sum(recall) / len(recall)
    return 2 * p * r / (p + r)


@pytest.mark.parametrize("layer", [1, 2, None])
def test_it_is_the_plain_double_loop(models, layer):
    path = models["encoder"]
    metric, problems = bert_score(path, layer)
    depth = 3 if layer is None else layer
    expected = [max(plain_f1(path, depth, text, one) for one in REFERENCES) for text in TEXTS]
    assert metric.score(TEXTS, REFERENCES) == pytest.approx(expected, abs=1e-6)
    assert problems[CUT] == 0
    assert f"|layer:{depth}/3|idf:no|rescaled:no" in metric.signature
    assert metric.signature.startswith("bertscore|nrefs:best|f1|model:encoder@")


def test_it_is_the_reference_package(models):
    package = pytest.importorskip("bert_score", reason="the package bert-score is not installed")
    scorer = package.BERTScorer(model_type=models["encoder"], num_layers=2, idf=False, device="cpu")
    _, _, f1 = scorer.score(TEXTS, [list(REFERENCES)] * len(TEXTS))
    found = bert_score(models["encoder"], 2)[0].score(TEXTS, REFERENCES)
    assert found == pytest.approx(f1.tolist(), abs=1e-6)


def test_texts_alone_empty_equal_and_long(models):
    metric, problems = bert_score(models["encoder"])
    alone = [metric.score([text], REFERENCES)[0] for text in TEXTS]
    assert metric.score(TEXTS, REFERENCES) == pytest.approx(alone, abs=1e-6)
    ends = metric.score(["", "  ", REFERENCES[1]], REFERENCES)
    assert ends == pytest.approx([0.0, 0.0, 1.0], abs=1e-6)
    assert problems[CUT] == 0
    assert 0 < metric.score(["storm " * 100], REFERENCES)[0] < 1
    assert problems[CUT] == 1


def test_errors(models, tmp_path):
    with pytest.raises(UsageError, match=r"bertscore\.layer=4: .*encoder has the layers 0 to 3"):
        bert_score(models["encoder"], 4)
    message = r"^bertscore:/.*: .*; fetch an encoder such as bert-base-uncased"
    with pytest.raises(BackendUnavailableError, match=message):
        bert_score(str(tmp_path))


def stories(*texts):
    """The first context of demo/story with its outputs, or with these texts."""
    (context, *_) = STORY.contexts
    outputs = tuple(output for output in STORY.outputs if output.context_id == context.id)
    more = tuple(replace(outputs[0], id=text, system=text, text=text) for text in texts)
    return replace(STORY, contexts=(context,), outputs=(*outputs, *more), ratings=())


def test_the_cosine_of_an_embedding_is_that_of_a_plain_loop(models):
    data = stories("the storm.", " \n")
    result = run_method(f"embedding:{models['encoder']}", data).result

    def mean(text):
        return np.mean(plain_states(models["encoder"], text), axis=0)

    about = mean(data.contexts[0].text)
    for output in data.outputs[:-1]:
        expected = pytest.approx(cosine(about, mean(output.text)), abs=1e-6)
        for dimension in data.dimensions:
            assert result.method.scores[output.id, dimension.name] == expected
    assert result.method.scores[" \n", "coherence"] is None
    assert "empty outputs, without a score: 1" in result.notes
    assert result.method.signature.startswith("embedding|cosine|pooling:mean|model:encoder@")


def test_an_embedding_is_among_the_baselines_where_it_is_asked_for(models, command):
    asked = f"embedding:{models['encoder']}"
    given = ["evaluate", "demo/story", "--json", "--resamples", "5", "--methods"]
    rows = [row for row in command(*given, asked).rows if row.get("kind") != "card"]
    name = f"best of the surface measures and {asked}"
    assert list(dict.fromkeys(row["method"] for row in rows)) == [asked, name]
    plain = command(*given, "direct-5").rows
    assert {row["method"] for row in plain} == {"direct-5", BEST}


def test_the_best_takes_the_scores_of_a_better_baseline():
    # A baseline that gives the ratings, so that every context chooses it; one output has no score.
    scores = dict(human_means(STORY.ratings))
    lost = STORY.outputs[0].id
    scores |= {(lost, dimension.name): None for dimension in STORY.dimensions}
    perfect = Method(name="embedding:x", signature="made", scores=scores, baseline=True)
    (best,) = surface_methods(STORY, STORY.dimensions, {BEST}, [perfect])
    words = "surface:best(coherence=embedding:x*12,complexity=embedding:x*12)|made|refladder:"
    assert best.signature.startswith(words)
    protocol = refladder.Protocol(resamples=5, reference=BEST)
    rows = agreement(STORY, STORY.dimensions, [perfect], protocol)
    row = next(row for row in rows if row.method == f"{BEST} and embedding:x")
    # the output without a score has none here either
    assert (row.value, row.unscored) == (1.0, 1)
    assert rows[0].reference == f"{BEST} and embedding:x"


def test_a_baseline_without_a_score_changes_nothing():
    reason = "unavailable:no such folder"
    none = Method(name="embedding:x", signature=reason, scores={}, baseline=True)
    rows = agreement(STORY, STORY.dimensions, [none], refladder.Protocol(resamples=5))
    assert {row.method for row in rows} == {"embedding:x", BEST}


def test_a_long_text_is_cut_and_counted_without_a_warning_of_transformers(models, capsys, caplog):
    transformers.logging.enable_propagation()
    try:
        data = stories("word " * 600)
        data = replace(data, outputs=data.outputs[-1:])
        result = run_method(f"embedding:{models['encoder']}", data).result
    finally:
        transformers.logging.disable_propagation()
    assert "inputs truncated to the length that the model accepts: 1" in result.notes
    assert "longer than the specified maximum" not in caplog.text + capsys.readouterr().err
