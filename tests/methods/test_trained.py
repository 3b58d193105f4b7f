"""Trained evaluators with small random models: exact, and honest where they do not fit."""

from __future__ import annotations

import json
import math
import re
import shutil
from functools import partial
from string import Formatter

import pytest
from refusals import refuses

from refladder.backends.hf.loading import CLASSIFIER, ENCODER, split_revision
from refladder.backends.hf.tokens import Tokens
from refladder.errors import BackendUnavailableError, UsageError
from refladder.methods.trained import (
    UNIEVAL_QUESTIONS,
    data_entailment,
    entailment_label,
    regression,
    sentences,
    triple_sentences,
    unieval,
    unieval_inputs,
    yes_shares,
)
from refladder.methods.without_judge import (
    CUT,
    EMPTY,
    MACHINE,
    NO_NUMBER,
    TOO_LONG,
    joined,
    open_reader,
    open_writer,
)
from refladder.records import Context

torch = pytest.importorskip("torch", reason="the local extra is not installed")
transformers = pytest.importorskip("transformers", reason="the local extra is not installed")

ARTICLE = Context(
    id="c",
    task="summarization",
    text="a storm closed the harbour until thursday",
    background="the ferry is closed",
    references=("the harbour was closed", "closed"),
)
TRIPLES = Context(
    id="t",
    task="data-to-text",
    text='Texel | isPartOf | the_island\nferry | open | "until thursday"',
)
TEXTS = ["the storm closed the harbour . the ferry is open !", "bread in ghent", ""]


def writer(path, **machine):
    return open_writer(path, "unieval", "fetch it", MACHINE | machine)


def classifier(path, **machine):
    return open_reader(path, CLASSIFIER, "nli", "fetch it", MACHINE | machine)


def test_what_unieval_reads_is_its_training_format():
    coherence = UNIEVAL_QUESTIONS["summarization", "coherence"]
    assert unieval_inputs(coherence, ARTICLE, "A storm. Bread.", "") == [
        (
            "question: Is this a coherent summary to the document?",
            "summary: A storm. Bread.",
            "document: a storm closed the harbour until thursday",
        )
    ]
    assert unieval_inputs(coherence, ARTICLE, " ", "") == []
    fluency = UNIEVAL_QUESTIONS["summarization", "fluency"]
    question = "question: Is this a fluent paragraph?"
    assert unieval_inputs(fluency, ARTICLE, "A storm. Bread.", "") == [
        (question, "paragraph: A storm."),
        (question, "paragraph: Bread."),
    ]
    engaging = UNIEVAL_QUESTIONS["dialogue", "engagingness"]
    assert unieval_inputs(engaging, ARTICLE, "Bread.", "")[0][1:] == (
        "response: Bread.",
        "dialogue history: a storm closed the harbour until thursday",
        "fact: the ferry is closed",
    )


def test_every_question_names_known_sources():
    for question in UNIEVAL_QUESTIONS.values():
        sources = {
            name for part in question.parts for _, name, _, _ in Formatter().parse(part) if name
        }
        assert {"output"} <= sources <= {"output", "context", "background", "reference"}
        assert question.sentences in {None, "mean", "sum"}


def test_sentences():
    assert sentences("One. Two! Three?") == ["One.", "Two!", "Three?"]
    assert sentences('He said "no." Then he left') == ['He said "no."', "Then he left"]
    assert [sentences(text) for text in ("no end", "3.5 km", "")] == [["no end"], ["3.5 km"], []]


def plain_yes_share(path, parts):
    """As UniEval does it: the model is given a target of one token, and its logits there are read."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(path)
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(path).eval()
    given = tokenizer(" </s> ".join(parts), return_tensors="pt")
    with torch.inference_mode():
        logits = model(**given, labels=torch.tensor([[5]])).logits[0, 0].double()
    shares = torch.softmax(logits, 0)
    yes, no = (shares[tokenizer(word)["input_ids"][0]].item() for word in ("Yes", "No"))
    return yes / (yes + no)


INPUTS = [
    ("question: is the harbour open ?", "summary: the ferry is closed"),
    ("question: this is a longer question : is the ferry in Texel ?", "claim: no", "document: a"),
]


def test_unieval_is_the_share_of_yes(models):
    shares, cut = yes_shares(writer(models["t5"]), INPUTS * 5)
    expected = [plain_yes_share(models["t5"], parts) for parts in INPUTS]
    assert shares.tolist() == pytest.approx(expected * 5, abs=1e-6)
    assert cut == 0
    assert abs(expected[0] - expected[1]) > 1e-4  # the model does tell them apart


def test_joined_parts_are_what_t5_makes_of_the_joined_text():
    sentence = "question : is this a storm ? summary the harbour closed e r n o"
    pieces = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("\u2581", -2.0)]
    pieces += [(start + word, -3.0) for word in sentence.split() for start in ("\u2581", "")]
    tokenizer = transformers.T5Tokenizer(vocab=list(dict(pieces).items()))
    tokens = Tokens(tokenizer, "t5", encoder_decoder=True)
    parts = ("question: is this a storm?", "summary: the harbour  closed no one ", "")
    text = " </s> ".join(parts)
    ids, cut = joined(tokens, parts, tokenizer.eos_token_id, 1000)
    assert (ids, cut) == (tokenizer(text)["input_ids"], False)
    ids, cut = joined(tokens, parts, tokenizer.eos_token_id, 12)
    assert (ids, cut) == (tokenizer(text, truncation=True, max_length=12)["input_ids"], True)


def test_a_text_that_spells_the_separator_is_no_separator(models):
    opened = writer(models["t5"])
    (spelt, parts), _ = yes_shares(opened, [("a storm </s> closed",), ("a storm", "closed")])
    assert abs(spelt - parts) > 1e-6


def test_what_is_longer_than_unieval_reads_is_cut_at_its_end(models):
    # 1,023 words and the token that ends a text. How rows are batched depends on the free memory, and moves last digits.
    shares, cut = yes_shares(writer(models["t5"]), [("storm " * 2000,), ("storm " * 1023,)])
    assert cut == 1
    assert shares[0] == pytest.approx(shares[1], abs=1e-5)


def mean(shares):
    return sum(shares) / len(shares)


@pytest.mark.parametrize(
    ("task", "dimension", "put_together"),
    [
        ("summarization", "fluency", mean),
        ("dialogue", "engagingness", sum),
        ("summarization", "coherence", max),  # one input
        ("summarization", "relevance", max),  # of the two references
    ],
)
def test_unieval_puts_sentences_and_references_together(models, task, dimension, put_together):
    question = UNIEVAL_QUESTIONS[task, dimension]
    references = ARTICLE.references if question.needs_reference else ("",)
    found = unieval(writer(models["t5"]), question, ARTICLE, TEXTS)
    for text, value in zip(TEXTS[:2], found.values[:2], strict=True):
        inputs = [
            parts
            for reference in references
            for parts in unieval_inputs(question, ARTICLE, text, reference)
        ]
        shares = [plain_yes_share(models["t5"], parts) for parts in inputs]
        assert value == pytest.approx(put_together(shares), abs=1e-6)
    assert found.values[2] is None
    assert +found.problems == {EMPTY: 1}
    assert unieval(writer(models["t5"]), question, ARTICLE, ["", ""]).values == [None, None]


def test_what_is_not_a_number_is_no_score(models):
    opened = writer(models["t5"])
    model, bread = opened.opened.model, opened.tokens.plain("bread")[0]
    # else the answer `bread` were NaN as well
    model.lm_head.weight = torch.nn.Parameter(model.shared.weight.clone())
    model.shared.weight.data[bread] = float("nan")
    reader = classifier(models["regressor"])
    words = reader.opened.model.get_input_embeddings().weight.data
    words[reader.tokens.plain("bread")[0]] = float("nan")
    fluency = UNIEVAL_QUESTIONS["summarization", "fluency"]
    for found in (unieval(opened, fluency, ARTICLE, TEXTS), regression(reader, ARTICLE, TEXTS)):
        assert found.values[0] is not None
        assert found.values[1:] == [None, None]
        assert +found.problems == {NO_NUMBER: 1, EMPTY: 1}


def plain_logits(path, first, second, **cut):
    """What the classifier itself says of a pair; `cut` is the tokenizer's own way to shorten it."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(path)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(path).eval()
    with torch.inference_mode():
        return model(**tokenizer(first, second, return_tensors="pt", **cut)).logits[0].tolist()


def plain_entailment(path, first, second):
    weights = [math.exp(value) for value in plain_logits(path, first, second)]
    return weights[2] / sum(weights)


def test_triples_become_sentences():
    assert triple_sentences(TRIPLES.text) == [
        "The is part of of Texel is the island.",
        "The open of ferry is until thursday.",
    ]
    message = r"nli reads triples 'subject \| relation \| object', one per line, found 'a b'"
    with pytest.raises(UsageError, match=message):
        triple_sentences("a b")


def test_entailment_both_ways(models):
    found = data_entailment(classifier(models["nli"]), TRIPLES, TEXTS)
    facts = triple_sentences(TRIPLES.text)
    for text, value in zip(TEXTS[:2], found.values[:2], strict=True):
        shares = [plain_entailment(models["nli"], text, fact) for fact in facts]
        shares.append(plain_entailment(models["nli"], " ".join(facts), text))
        assert value == pytest.approx(min(shares), abs=1e-5)
    assert found.values[2] is None
    assert +found.problems == {EMPTY: 1}


def test_the_regressor_is_the_models_output(models):
    found = regression(classifier(models["regressor"]), ARTICLE, TEXTS)
    expected = [plain_logits(models["regressor"], ARTICLE.text, text)[0] for text in TEXTS[:2]]
    assert found.values[:2] == pytest.approx(expected, abs=1e-5)
    assert found.values[2] is None
    assert +found.problems == {EMPTY: 1}


def test_a_long_context_is_cut_and_a_text_that_leaves_no_room_has_no_score(models):
    reader = classifier(models["regressor"])
    long = Context(id="l", task="summarization", text="storm " * 200)
    found = regression(reader, long, TEXTS[:2])
    assert +found.problems == {CUT: 2}
    for text, value in zip(TEXTS[:2], found.values, strict=True):
        cut = {"truncation": "only_first", "max_length": 64}
        (expected,) = plain_logits(models["regressor"], long.text, text, **cut)
        assert value == pytest.approx(expected, abs=1e-5)
    # [CLS] and two [SEP] take 3 of 64 tokens
    found = regression(reader, ARTICLE, ["storm " * 61, "storm " * 60, "bread"])
    assert [value is None for value in found.values] == [True, False, False]
    assert +found.problems == {TOO_LONG: 1, CUT: 1}
    # an empty context needs none of them
    empty = Context(id="e", task="summarization", text="")
    fits, too_long = regression(reader, empty, ["storm " * 61, "storm " * 62]).values
    (expected,) = plain_logits(models["regressor"], "", "storm " * 61)
    assert fits == pytest.approx(expected, abs=1e-5)
    assert too_long is None


def test_memory_and_number_format(models):
    everything = regression(classifier(models["regressor"]), ARTICLE, TEXTS[:2]).values
    small = regression(classifier(models["regressor"], memory="1M"), ARTICLE, TEXTS[:2]).values
    assert small == pytest.approx(everything, abs=1e-5)
    rough = classifier(models["regressor"], dtype="bfloat16", device="cpu")
    assert str(rough.opened.model.dtype) == "torch.bfloat16"
    assert rough.opened.fingerprint.endswith(",bfloat16")
    values = regression(rough, ARTICLE, TEXTS[:2]).values
    assert values == pytest.approx(everything, abs=1)
    assert values != pytest.approx(everything, abs=1e-4)
    message = "dtype=float8: must be one of auto, float32, bfloat16, float16"
    with pytest.raises(UsageError, match=message):
        classifier(models["regressor"], dtype="float8")


def test_memory_that_is_short_is_halved(models, monkeypatch):
    reader = classifier(models["regressor"])
    expected = regression(reader, ARTICLE, TEXTS[:2] * 3).values
    forward, sizes = reader.opened.model.forward, []

    def short(*arguments, **named):
        sizes.append(len(named["input_ids"]))
        if sizes[-1] > 1:
            raise RuntimeError("CUDA out of memory")
        return forward(*arguments, **named)

    monkeypatch.setattr(reader.opened.model, "forward", short)
    assert regression(reader, ARTICLE, TEXTS[:2] * 3).values == pytest.approx(expected, abs=1e-5)
    assert (sizes[0], sizes[-6:]) == (6, [1] * 6)


def test_checkpoints_of_another_kind(models, tmp_path):
    refused = partial(refuses, BackendUnavailableError)

    topics = classifier(models["topics"])
    words = "has the classes sports, news and none called entailment; fetch"
    refused(words, entailment_label, topics)
    words = "has 2 outputs, a regressor has one; train a sequence classifier"
    refused(words, regression, topics, ARTICLE, TEXTS)
    words = r"^nli:/.*: weights are missing from its files \(2, such as classifier.bias\), so .*; fetch it$"
    refused(words, classifier, models["encoder"])
    refused(r"^nli:/.*: this folder has no config.json.*; fetch it$", classifier, str(tmp_path))
    words = r"^nli:/none: no such folder; pass nli:FOLDER or nli:ORG/MODEL;"
    refused(words, classifier, "/none")
    words = r"^unieval:/.*is not an encoder-decoder \(T5, BART\); name one"
    refused(words, writer, models["encoder"])


def test_a_revision_belongs_to_a_name_on_the_hub(tmp_path):
    assert split_revision("org/model") == ("org/model", None)
    assert split_revision("org/model@abc123") == ("org/model", "abc123")
    odd = tmp_path / "model@home"
    odd.mkdir()
    assert split_revision(str(odd)) == (str(odd), None)
    message = r"a folder has no revision 'abc'; name it without, or pass ORG/MODEL@REVISION"
    with pytest.raises(UsageError, match=message):
        split_revision(f"{tmp_path}@abc")


def test_the_revision_is_asked_of_the_hub(monkeypatch):
    asked = {}

    def refuse(name, **named):
        asked[name] = named
        raise OSError("offline")

    monkeypatch.setattr(transformers.AutoConfig, "from_pretrained", refuse)
    message = r"the Hub did not return it: offline; .*; fetch it$"
    with pytest.raises(BackendUnavailableError, match=message):
        classifier("org/model@abc123")
    assert asked == {"org/model": {"revision": "abc123", "trust_remote_code": False}}


def test_an_encoder_may_lack_its_pooler_and_nothing_else(models, tmp_path):
    files = pytest.importorskip("safetensors.torch")
    shutil.copytree(models["encoder"], tmp_path / "part")
    path = tmp_path / "part" / "model.safetensors"
    weights = files.load_file(path)
    kept = {name: values for name, values in weights.items() if not name.startswith("pooler.")}
    assert len(kept) == len(weights) - 2
    files.save_file(kept, path, metadata={"format": "pt"})
    open_reader(str(tmp_path / "part"), ENCODER, "bertscore", "fetch it", MACHINE)
    del kept["embeddings.word_embeddings.weight"]
    files.save_file(kept, path, metadata={"format": "pt"})
    message = r"weights are missing from its files \(1, such as embeddings.word_"
    with pytest.raises(BackendUnavailableError, match=message):
        open_reader(str(tmp_path / "part"), ENCODER, "bertscore", "fetch it", MACHINE)


def test_code_that_comes_with_a_model_is_not_run(models, tmp_path):
    folder = tmp_path / "own"
    shutil.copytree(models["nli"], folder)
    config = json.loads((folder / "config.json").read_text())
    config["model_type"] = "own"
    config["auto_map"] = {"AutoConfig": "own.Own", "AutoModelForSequenceClassification": "own.M"}
    (folder / "config.json").write_text(json.dumps(config))
    code = f"import pathlib\npathlib.Path({str(tmp_path / 'ran')!r}).touch()\n"
    (folder / "own.py").write_text(code)
    message = r"^nli:.*Python files of its own to be run, which is not allowed here; use another"
    with pytest.raises(BackendUnavailableError, match=message):
        classifier(str(folder))
    assert not (tmp_path / "ran").exists()


def test_the_fingerprint_follows_the_weights(models):
    first, again, other = (
        classifier(models[name]).opened.fingerprint for name in ("nli", "nli", "regressor")
    )
    assert first == again
    assert re.fullmatch(r"nli@[0-9a-f]{12},float32", first)
    assert first.partition("@")[2] != other.partition("@")[2]
