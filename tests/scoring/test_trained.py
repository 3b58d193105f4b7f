"""Trained evaluators with small random models: exact, and honest where they do not fit."""

from __future__ import annotations

import math

import pytest

from refladder.errors import BackendUnavailableError, UsageError
from refladder.records import Context
from refladder.scoring import trained
from refladder.scoring.checkpoints import open_checkpoint
from refladder.scoring.trained import (
    UNIEVAL_QUESTIONS,
    data_entailment,
    entailment,
    regression,
    sentences,
    triple_sentences,
    unieval,
    unieval_inputs,
    yes_shares,
)

torch = pytest.importorskip("torch", reason="the local extra is not installed")
transformers = pytest.importorskip("transformers", reason="the local extra is not installed")

ARTICLE = Context(
    id="c",
    task="summarization",
    text="a storm closed the harbour until thursday",
    background="the ferry is closed",
    references=("the harbour was closed", "closed"),
)
TRIPLES = Context(id="t", task="data-to-text", text='Texel | isPartOf | the_island\nferry | open | "until thursday"')
TEXTS = ["the storm closed the harbour . the ferry is open !", "bread in ghent", ""]
SEQ2SEQ, CLASSIFIER = "AutoModelForSeq2SeqLM", "AutoModelForSequenceClassification"


def test_what_unieval_reads_is_its_training_format():
    coherence = UNIEVAL_QUESTIONS["summarization", "coherence"]
    assert unieval_inputs(coherence, ARTICLE, "A storm. Bread.", "") == [
        (
            "question: Is this a coherent summary to the document? </s> summary: A storm. Bread. </s> "
            "document: a storm closed the harbour until thursday"
        )
    ]
    fluency = UNIEVAL_QUESTIONS["summarization", "fluency"]
    assert unieval_inputs(fluency, ARTICLE, "A storm. Bread.", "") == [
        "question: Is this a fluent paragraph? </s> paragraph: A storm.",
        "question: Is this a fluent paragraph? </s> paragraph: Bread.",
    ]
    engaging = UNIEVAL_QUESTIONS["dialogue", "engagingness"]
    assert unieval_inputs(engaging, ARTICLE, "Bread.", "")[0].endswith(
        "fact? </s> response: Bread. </s> dialogue history: a storm closed the harbour until thursday </s> "
        "fact: the ferry is closed"
    )
    assert unieval_inputs(coherence, ARTICLE, " ", "") == []


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("One. Two! Three?", ["One.", "Two!", "Three?"]),
        ('He said "no." Then he left', ['He said "no."', "Then he left"]),
        ("no end", ["no end"]),
        ("3.5 km", ["3.5 km"]),
        ("", []),
    ],
)
def test_sentences(text, parts):
    assert sentences(text) == parts


def plain_yes_share(path, text):
    """As UniEval does it: the model is given a target of one token, and its logits there are read."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(path)
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(path).eval()
    with torch.inference_mode():
        logits = model(**tokenizer(text, return_tensors="pt"), labels=torch.tensor([[5]])).logits[0, 0].double()
    shares = torch.softmax(logits, 0)
    yes, no = (shares[tokenizer(word)["input_ids"][0]].item() for word in ("Yes", "No"))
    return yes / (yes + no)


def test_unieval_is_the_share_of_yes(models):
    checkpoint = open_checkpoint(models["t5"], SEQ2SEQ, "")
    inputs = ["question: is the harbour open ?", "question: this is a much longer question : is the ferry in Texel ?"]
    shares, cut = yes_shares(checkpoint, inputs * 5)
    expected = [plain_yes_share(models["t5"], text) for text in inputs]
    assert shares.tolist() == pytest.approx(expected * 5, abs=1e-6)
    assert cut == 0
    assert abs(expected[0] - expected[1]) > 1e-4  # the model does tell them apart


def test_unieval_puts_sentences_together(models):
    checkpoint = open_checkpoint(models["t5"], SEQ2SEQ, "")
    for key, put_together in (
        (("summarization", "fluency"), lambda shares: sum(shares) / len(shares)),
        (("dialogue", "engagingness"), sum),
        (("summarization", "relevance"), lambda shares: shares[0]),
    ):
        question = UNIEVAL_QUESTIONS[key]
        values, _ = unieval(checkpoint, question, ARTICLE, TEXTS)
        for text, value in zip(TEXTS[:2], values[:2], strict=True):
            inputs = unieval_inputs(question, ARTICLE, text, ARTICLE.references[0])
            assert value == pytest.approx(
                put_together([plain_yes_share(models["t5"], one) for one in inputs]), abs=1e-6
            )
        assert values[2] is None


def plain_logits(path, first, second):
    tokenizer = transformers.AutoTokenizer.from_pretrained(path)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(path).eval()
    with torch.inference_mode():
        return model(**tokenizer(first, second, return_tensors="pt")).logits[0].tolist()


def plain_entailment(path, first, second):
    weights = [math.exp(value) for value in plain_logits(path, first, second)]
    return weights[2] / sum(weights)


def test_triples_become_sentences():
    assert triple_sentences(TRIPLES.text) == [
        "The is part of of Texel is the island.",
        "The open of ferry is until thursday.",
    ]
    with pytest.raises(UsageError, match=r"nli reads triples 'subject \| relation \| object', one a line, found 'a b'"):
        triple_sentences("a b")


def test_entailment_both_ways(models):
    checkpoint = open_checkpoint(models["nli"], CLASSIFIER, "")
    values, cut = data_entailment(checkpoint, TRIPLES, TEXTS)
    facts = triple_sentences(TRIPLES.text)
    for text, value in zip(TEXTS[:2], values[:2], strict=True):
        one_way = plain_entailment(models["nli"], " ".join(facts), text)
        others = [plain_entailment(models["nli"], text, fact) for fact in facts]
        assert value == pytest.approx(min(one_way, *others), abs=1e-6)
    assert values[2] is None
    assert cut == 0
    assert data_entailment(checkpoint, TRIPLES, [""]) == ([None], 0)


def test_a_classifier_of_topics_entails_nothing(models):
    checkpoint = open_checkpoint(models["topics"], CLASSIFIER, "")
    with pytest.raises(BackendUnavailableError, match="has the classes sports, news and none called entailment; fetch"):
        entailment(checkpoint, ["a"], ["b"])


def test_the_regressor_is_the_models_output(models):
    checkpoint = open_checkpoint(models["regressor"], CLASSIFIER, "")
    values, cut = regression(checkpoint, ARTICLE, TEXTS)
    expected = [plain_logits(models["regressor"], ARTICLE.text, text)[0] for text in TEXTS[:2]]
    assert values[:2] == pytest.approx(expected, abs=1e-5)
    assert values[2] is None
    assert cut == 0
    assert regression(checkpoint, ARTICLE, [" "]) == ([None], 0)


def test_a_long_context_is_cut_and_counted(models):
    checkpoint = open_checkpoint(models["regressor"], CLASSIFIER, "")
    long = Context(id="l", task="summarization", text="storm " * 200)
    values, cut = regression(checkpoint, long, TEXTS[:2])
    assert cut == 2
    assert None not in values


def test_a_model_with_two_outputs_is_no_regressor(models):
    with pytest.raises(
        BackendUnavailableError, match="has 2 outputs, a regressor has one; train a sequence classifier"
    ):
        regression(open_checkpoint(models["topics"], CLASSIFIER, ""), ARTICLE, TEXTS)


def test_random_heads_and_absent_weights_are_refused(models, tmp_path):
    with pytest.raises(
        BackendUnavailableError, match=r"has no weights for classifier.bias and 1 more, so they would be"
    ):
        open_checkpoint(models["encoder"], CLASSIFIER, "fetch a classifier")
    with pytest.raises(BackendUnavailableError, match=r"cannot be opened \(.*\); fetch it"):
        open_checkpoint(str(tmp_path), CLASSIFIER, "fetch it")
    with pytest.raises(UsageError, match="no checkpoint was named; fetch it"):
        open_checkpoint("", CLASSIFIER, "fetch it")


def test_weights_that_are_not_safetensors_are_refused(models, tmp_path):
    model = transformers.AutoModel.from_pretrained(models["encoder"])
    model.config.save_pretrained(tmp_path)
    transformers.AutoTokenizer.from_pretrained(models["encoder"]).save_pretrained(tmp_path)
    torch.save(model.state_dict(), tmp_path / "pytorch_model.bin")
    with pytest.raises(BackendUnavailableError, match="cannot be opened"):
        open_checkpoint(str(tmp_path), "AutoModel", "fetch it")


def test_the_fingerprint_follows_the_weights(models):
    one = open_checkpoint(models["nli"], CLASSIFIER, "").fingerprint
    again = open_checkpoint(models["nli"], CLASSIFIER, "").fingerprint
    assert one == again
    assert one.startswith("nli@")
    assert one != open_checkpoint(models["regressor"], CLASSIFIER, "").fingerprint


def test_every_question_names_known_sources():
    for question in trained.UNIEVAL_QUESTIONS.values():
        assert {source for _, source in question.parts} <= {"output", "context", "background", "reference"}
        assert question.sentences in {None, "mean", "sum"}
