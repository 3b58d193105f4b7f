"""Trained evaluators with small random models: exact, and honest where they do not fit."""

from __future__ import annotations

import json
import math
import re
import shutil
from string import Formatter

import pytest

from refladder.backends.hf.loading import CLASSIFIER, ENCODER, split_revision
from refladder.backends.hf.tokens import Tokens
from refladder.errors import BackendUnavailableError, UsageError
from refladder.methods import trained
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
    split_checkpoints,
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
    fluency = UNIEVAL_QUESTIONS["summarization", "fluency"]
    assert unieval_inputs(fluency, ARTICLE, "A storm. Bread.", "") == [
        ("question: Is this a fluent paragraph?", "paragraph: A storm."),
        ("question: Is this a fluent paragraph?", "paragraph: Bread."),
    ]
    engaging = UNIEVAL_QUESTIONS["dialogue", "engagingness"]
    assert unieval_inputs(engaging, ARTICLE, "Bread.", "")[0][1:] == (
        "response: Bread.",
        "dialogue history: a storm closed the harbour until thursday",
        "fact: the ferry is closed",
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
        logits = (
            model(**tokenizer(text, return_tensors="pt"), labels=torch.tensor([[5]]))
            .logits[0, 0]
            .double()
        )
    shares = torch.softmax(logits, 0)
    yes, no = (shares[tokenizer(word)["input_ids"][0]].item() for word in ("Yes", "No"))
    return yes / (yes + no)


INPUTS = [
    ("question: is the harbour open ?", "summary: the ferry is closed"),
    (
        "question: this is a much longer question : is the ferry in Texel ?",
        "claim: no",
        "document: a storm",
    ),
]


def test_unieval_is_the_share_of_yes(models):
    shares, cut = yes_shares(writer(models["t5"]), INPUTS * 5)
    expected = [plain_yes_share(models["t5"], " </s> ".join(parts)) for parts in INPUTS]
    assert shares.tolist() == pytest.approx(expected * 5, abs=1e-6)
    assert cut == 0
    assert abs(expected[0] - expected[1]) > 1e-4  # the model does tell them apart


def test_joined_parts_are_what_t5_makes_of_the_joined_text():
    words = [
        "question",
        ":",
        "is",
        "this",
        "a",
        "storm",
        "?",
        "summary",
        "the",
        "harbour",
        "closed",
        "e",
        "r",
        "n",
        "o",
    ]
    pieces = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("\u2581", -2.0)]
    pieces += [(start + word, -3.0) for word in words for start in ("\u2581", "")]
    tokenizer = transformers.T5Tokenizer(vocab=list(dict(pieces).items()))
    parts = ("question: is this a storm?", "summary: the harbour  closed no one ", "")
    ids, cut = joined(
        Tokens(tokenizer, "t5", encoder_decoder=True), parts, tokenizer.eos_token_id, 1000
    )
    assert ids == tokenizer(" </s> ".join(parts))["input_ids"]
    assert not cut
    ids, cut = joined(
        Tokens(tokenizer, "t5", encoder_decoder=True), parts, tokenizer.eos_token_id, 12
    )
    assert ids == tokenizer(" </s> ".join(parts), truncation=True, max_length=12)["input_ids"]
    assert cut


def test_a_text_that_spells_the_separator_is_no_separator(models):
    spelt = yes_shares(writer(models["t5"]), [("a storm </s> closed",)])[0][0]
    parts = yes_shares(writer(models["t5"]), [("a storm", "closed")])[0][0]
    assert abs(spelt - parts) > 1e-6


def test_what_is_longer_than_unieval_reads_is_cut_at_its_end(models):
    shares, cut = yes_shares(writer(models["t5"]), [("storm " * 2000,), ("storm " * 1023,)])
    assert cut == 1
    assert shares[0] == pytest.approx(
        shares[1], abs=1e-7
    )  # 1,023 words and the token that ends a text


def test_unieval_puts_sentences_and_references_together(models):
    opened = writer(models["t5"])
    for key, put_together in (
        (("summarization", "fluency"), lambda shares: sum(shares) / len(shares)),
        (("dialogue", "engagingness"), sum),
        (("summarization", "coherence"), lambda shares: shares[0]),
    ):
        question = UNIEVAL_QUESTIONS[key]
        found = unieval(opened, question, ARTICLE, TEXTS)
        for text, value in zip(TEXTS[:2], found.values[:2], strict=True):
            inputs = unieval_inputs(question, ARTICLE, text, "")
            shares = [plain_yes_share(models["t5"], " </s> ".join(one)) for one in inputs]
            assert value == pytest.approx(put_together(shares), abs=1e-6)
        assert found.values[2] is None
        assert +found.problems == {EMPTY: 1}
    question = UNIEVAL_QUESTIONS["summarization", "relevance"]
    found = unieval(opened, question, ARTICLE, TEXTS)
    for text, value in zip(TEXTS[:2], found.values[:2], strict=True):
        shares = [
            plain_yes_share(
                models["t5"], " </s> ".join(unieval_inputs(question, ARTICLE, text, reference)[0])
            )
            for reference in ARTICLE.references
        ]
        assert value == pytest.approx(max(shares), abs=1e-6)
        assert max(shares) > min(shares)
    assert found.values[2] is None
    assert unieval(opened, question, ARTICLE, ["", ""]).values == [None, None]


def test_what_is_not_a_number_is_no_score(models):
    opened = writer(models["t5"])
    model, bread = opened.opened.model, opened.tokens.plain("bread")[0]
    model.lm_head.weight = torch.nn.Parameter(
        model.shared.weight.clone()
    )  # else the answer `bread` were NaN as well
    model.shared.weight.data[bread] = float("nan")
    found = unieval(opened, UNIEVAL_QUESTIONS["summarization", "fluency"], ARTICLE, TEXTS)
    assert found.values[0] is not None
    assert found.values[1:] == [None, None]
    assert +found.problems == {NO_NUMBER: 1, EMPTY: 1}
    reader = classifier(models["regressor"])
    reader.opened.model.get_input_embeddings().weight.data[reader.tokens.plain("bread")[0]] = float(
        "nan"
    )
    found = regression(reader, ARTICLE, TEXTS)
    assert found.values[0] is not None
    assert found.values[1:] == [None, None]
    assert +found.problems == {NO_NUMBER: 1, EMPTY: 1}


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
    with pytest.raises(
        UsageError,
        match=r"nli reads triples 'subject \| relation \| object', one per line, found 'a b'",
    ):
        triple_sentences("a b")


def test_entailment_both_ways(models):
    reader = classifier(models["nli"])
    found = data_entailment(reader, TRIPLES, TEXTS)
    facts = triple_sentences(TRIPLES.text)
    for text, value in zip(TEXTS[:2], found.values[:2], strict=True):
        one_way = plain_entailment(models["nli"], " ".join(facts), text)
        others = [plain_entailment(models["nli"], text, fact) for fact in facts]
        assert value == pytest.approx(min(one_way, *others), abs=1e-5)
    assert found.values[2] is None
    assert +found.problems == {EMPTY: 1}
    assert data_entailment(reader, TRIPLES, [""]).values == [None]


def test_a_classifier_of_topics_entails_nothing(models):
    with pytest.raises(
        BackendUnavailableError,
        match="has the classes sports, news and none called entailment; fetch",
    ):
        entailment_label(classifier(models["topics"]))


def test_the_regressor_is_the_models_output(models):
    reader = classifier(models["regressor"])
    found = regression(reader, ARTICLE, TEXTS)
    expected = [plain_logits(models["regressor"], ARTICLE.text, text)[0] for text in TEXTS[:2]]
    assert found.values[:2] == pytest.approx(expected, abs=1e-5)
    assert found.values[2] is None
    assert +found.problems == {EMPTY: 1}
    assert regression(reader, ARTICLE, [" "]).values == [None]


def test_a_long_context_is_cut_and_counted(models):
    reader = classifier(models["regressor"])
    long = Context(id="l", task="summarization", text="storm " * 200)
    found = regression(reader, long, TEXTS[:2])
    assert +found.problems == {CUT: 2}
    # the tokenizer's own way to cut the first text of a pair
    tokenizer = transformers.AutoTokenizer.from_pretrained(models["regressor"])
    model = transformers.AutoModelForSequenceClassification.from_pretrained(
        models["regressor"]
    ).eval()
    for text, value in zip(TEXTS[:2], found.values, strict=True):
        given = tokenizer(
            long.text, text, truncation="only_first", max_length=64, return_tensors="pt"
        )
        with torch.inference_mode():
            assert value == pytest.approx(model(**given).logits.item(), abs=1e-5)


def test_a_text_that_leaves_no_room_has_no_score(models):
    found = regression(
        classifier(models["regressor"]), ARTICLE, ["storm " * 61, "storm " * 60, "bread"]
    )
    assert found.values[0] is None  # [CLS] and two [SEP] take 3 of 64 tokens
    assert None not in found.values[1:]
    assert +found.problems == {TOO_LONG: 1, CUT: 1}


def test_an_empty_context_and_a_text_that_is_too_long(models):
    reader = classifier(models["regressor"])
    empty = Context(id="e", task="summarization", text="")
    found = regression(reader, empty, ["storm " * 61, "storm " * 62])
    assert found.values[0] == pytest.approx(
        plain_logits(models["regressor"], "", "storm " * 61)[0], abs=1e-5
    )
    assert found.values[1] is None
    assert +found.problems == {TOO_LONG: 1}


def test_memory_and_number_format(models):
    everything = regression(classifier(models["regressor"]), ARTICLE, TEXTS[:2]).values
    assert regression(
        classifier(models["regressor"], memory="1M"), ARTICLE, TEXTS[:2]
    ).values == pytest.approx(everything, abs=1e-5)
    rough = classifier(models["regressor"], dtype="bfloat16", device="cpu")
    assert str(rough.opened.model.dtype) == "torch.bfloat16"
    assert regression(rough, ARTICLE, TEXTS[:2]).values == pytest.approx(everything, abs=1)
    assert regression(rough, ARTICLE, TEXTS[:2]).values != pytest.approx(everything, abs=1e-4)
    assert rough.opened.fingerprint.endswith(",bfloat16")
    with pytest.raises(
        UsageError, match="dtype=float8: must be one of auto, float32, bfloat16, float16"
    ):
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
    assert sizes[0] == 6
    assert sizes[-6:] == [1] * 6


def test_a_model_with_two_outputs_is_no_regressor(models):
    with pytest.raises(
        BackendUnavailableError,
        match="has 2 outputs, a regressor has one; train a sequence classifier",
    ):
        regression(classifier(models["topics"]), ARTICLE, TEXTS)


def test_what_cannot_be_opened(models, tmp_path):
    with pytest.raises(
        BackendUnavailableError,
        match=r"^nli:/.*: weights are missing from its files \(2, such as classifier.bias\), so .*; fetch it$",
    ):
        classifier(models["encoder"])
    with pytest.raises(
        BackendUnavailableError, match=r"^nli:/.*: this folder has no config.json.*; fetch it$"
    ):
        classifier(str(tmp_path))
    with pytest.raises(
        BackendUnavailableError,
        match=r"^nli:/none: no such folder; pass nli:FOLDER or nli:ORG/MODEL;",
    ):
        classifier("/none")
    with pytest.raises(
        BackendUnavailableError,
        match=r"^unieval:/.*is not an encoder-decoder \(T5, BART\); name one",
    ):
        writer(models["encoder"])


def test_a_revision_belongs_to_a_name_on_the_hub(tmp_path):
    assert split_revision("org/model") == ("org/model", None)
    assert split_revision("org/model@abc123") == ("org/model", "abc123")
    odd = tmp_path / "model@home"
    odd.mkdir()
    assert split_revision(str(odd)) == (str(odd), None)
    with pytest.raises(
        UsageError,
        match=r"a folder has no revision 'abc'; name it without, or pass ORG/MODEL@REVISION",
    ):
        split_revision(f"{tmp_path}@abc")


def test_the_revision_is_asked_of_the_hub(monkeypatch):
    asked = {}

    def refuse(name, **named):
        asked[name] = named
        raise OSError("offline")

    monkeypatch.setattr(transformers.AutoConfig, "from_pretrained", refuse)
    with pytest.raises(
        BackendUnavailableError, match=r"the Hub did not return it: offline; .*; fetch it$"
    ):
        classifier("org/model@abc123")
    assert asked == {"org/model": {"revision": "abc123", "trust_remote_code": False}}


def test_several_checkpoints_stand_with_plus_between_them():
    assert split_checkpoints("a/b@1+/c d", ("x", "y"), "questeval", "fetch") == ["a/b@1", "/c d"]
    for wrong in ("a", "a+b+c", "a+"):
        with pytest.raises(
            UsageError,
            match=r"questeval takes 2 checkpoints with \+ between them \(x, y\), found 'a.*; fetch",
        ):
            split_checkpoints(wrong, ("x", "y"), "questeval", "fetch")


def test_an_encoder_may_lack_its_pooler_and_nothing_else(models, tmp_path):
    load = pytest.importorskip("safetensors.torch")
    shutil.copytree(models["encoder"], tmp_path / "part")
    weights = load.load_file(tmp_path / "part/model.safetensors")
    kept = {name: values for name, values in weights.items() if not name.startswith("pooler.")}
    assert len(kept) == len(weights) - 2
    load.save_file(kept, tmp_path / "part/model.safetensors", metadata={"format": "pt"})
    open_reader(str(tmp_path / "part"), ENCODER, "bertscore", "fetch it", MACHINE)
    del kept["embeddings.word_embeddings.weight"]
    load.save_file(kept, tmp_path / "part/model.safetensors", metadata={"format": "pt"})
    with pytest.raises(
        BackendUnavailableError,
        match=r"weights are missing from its files \(1, such as embeddings.word_",
    ):
        open_reader(str(tmp_path / "part"), ENCODER, "bertscore", "fetch it", MACHINE)


@pytest.mark.parametrize("kind", [CLASSIFIER, ENCODER])
def test_weights_that_are_pickled_are_refused(models, tmp_path, kind):
    model = transformers.AutoModelForSequenceClassification.from_pretrained(models["nli"])
    model.config.save_pretrained(tmp_path)
    transformers.AutoTokenizer.from_pretrained(models["nli"]).save_pretrained(tmp_path)
    torch.save(model.state_dict(), tmp_path / "pytorch_model.bin")
    with pytest.raises(
        BackendUnavailableError,
        match=r"this folder has no .safetensors file, and other formats are not load",
    ):
        open_reader(str(tmp_path), kind, "nli", "fetch it", MACHINE)


def test_code_that_comes_with_a_model_is_not_run(models, tmp_path):
    shutil.copytree(models["nli"], tmp_path / "own")
    config = json.loads((tmp_path / "own/config.json").read_text())
    config |= {
        "model_type": "own",
        "auto_map": {"AutoConfig": "own.Own", "AutoModelForSequenceClassification": "own.M"},
    }
    (tmp_path / "own/config.json").write_text(json.dumps(config))
    (tmp_path / "own/own.py").write_text(
        f"import pathlib\npathlib.Path({str(tmp_path / 'ran')!r}).touch()\n"
    )
    with pytest.raises(
        BackendUnavailableError,
        match=r"^nli:.*Python files of its own to be run, which is not allowed here; use another",
    ):
        classifier(str(tmp_path / "own"))
    assert not (tmp_path / "ran").exists()


def test_the_fingerprint_follows_the_weights(models):
    one = classifier(models["nli"]).opened.fingerprint
    assert one == classifier(models["nli"]).opened.fingerprint
    assert re.fullmatch(r"nli@[0-9a-f]{12},float32", one)
    assert (
        one.partition("@")[2]
        != classifier(models["regressor"]).opened.fingerprint.partition("@")[2]
    )


def test_every_question_names_known_sources():
    for question in trained.UNIEVAL_QUESTIONS.values():
        sources = {
            name for part in question.parts for _, name, _, _ in Formatter().parse(part) if name
        }
        assert {"output"} <= sources <= {"output", "context", "background", "reference"}
        assert question.sentences in {None, "mean", "sum"}
