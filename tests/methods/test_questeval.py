"""QuestEval with small models that were taught what to write, against a plain chain of transformers' own calls."""

from __future__ import annotations

import numpy as np
import pytest
from small_benchmarks import run_method, small_benchmark

from refladder.errors import BackendUnavailableError
from refladder.methods.questeval import (
    NO_QUESTION,
    SUGGESTION,
    UNUSABLE,
    questeval,
    spans,
    token_f1,
)
from refladder.methods.without_judge import CUT, EMPTY, MACHINE, open_writer
from refladder.records import Context

torch = pytest.importorskip("torch", reason="the local extra is not installed")
transformers = pytest.importorskip("transformers", reason="the local extra is not installed")

BREAD = "bread is in ghent ."
ARTICLE = f"a storm closed the harbour . {BREAD}"
TEXTS = ["the harbour was closed", "bread in ghent"]
CONTEXT = Context(id="c", task="summarization", text=ARTICLE)
# By hand, sentence by sentence: what is left when `a the . is in was` are taken away.
SPANS = {
    "a storm closed the harbour .": ["storm closed", "harbour"],
    BREAD: ["bread", "ghent"],
    TEXTS[0]: ["harbour", "closed"],
    TEXTS[1]: ["bread", "ghent"],
}
QUESTIONS = {
    "storm closed": "what closed ?",
    "harbour": "what was closed ?",
    "bread": "what is in ghent ?",
    "ghent": "when is bread ?",
    "closed": "is the harbour open ?",
}
READ = {(question, text): "unanswerable" for question in QUESTIONS.values() for text in TEXTS} | {
    ("what was closed ?", TEXTS[0]): "the harbour",
    ("what is in ghent ?", TEXTS[1]): "bread",
    ("when is bread ?", TEXTS[1]): "ghent",
    ("what was closed ?", BREAD): "unanswerable",
    ("is the harbour open ?", BREAD): "unanswerable",
    ("what was closed ?", ARTICLE): "the harbour",
    ("is the harbour open ?", ARTICLE): "no",
    ("what is in ghent ?", ARTICLE): "bread",
    ("when is bread ?", ARTICLE): "ghent island",
}


@pytest.fixture(scope="module")
def taught(tmp_path_factory):
    from support import small_models

    folder = tmp_path_factory.mktemp("questeval")
    written = {
        f"sv1 </s> {span} </s> {sentence}": QUESTIONS[span]
        for sentence, found in SPANS.items()
        for span in found
    }
    read = {f"{question} </s> {text}": answer for (question, text), answer in READ.items()}
    return (
        str(small_models.make_taught_t5(folder / "generator", written)),
        str(small_models.make_taught_t5(folder / "reader", read)),
    )


def opened(path):
    return open_writer(path, "questeval", SUGGESTION, MACHINE)


@pytest.fixture(scope="module")
def ready(taught):
    """Generator and reader, opened once for the tests that do not change them."""
    return [opened(path) for path in taught]


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        *SPANS.items(),
        (
            "On 14 May 2020 the old harbour of Lerwick closed.",
            ["14 May 2020", "old harbour", "Lerwick", "closed"],
        ),
        ("Students, bakers and Anna's dog came.", ["Students", "bakers", "Anna's", "dog came"]),
        ("It was them.", []),
        ("ghent and ghent", ["ghent"]),
        ("", []),
    ],
)
def test_spans_are_those_found_by_hand(sentence, expected):
    assert spans(sentence) == expected


@pytest.mark.parametrize(
    ("answer", "expected", "value"),
    [
        ("The old harbour!", "harbour", 2 / 3),  # 1 of 2 words, 1 of 1: 2 (1/2)(1) / (3/2)
        ("a harbour", "the harbour", 1.0),
        ("ghent ghent", "ghent", 2 / 3),  # one of two is matched
        ("unanswerable", "harbour", 0.0),
        ("", "harbour", 0.0),
        ("the", "a", 0.0),
    ],
)
def test_token_f1_by_hand(answer, expected, value):
    assert token_f1(answer, expected) == pytest.approx(value)


def plain_questeval(paths, text):
    """The chain as one would write it with `generate`, one input at a time; F1 is checked by hand above."""
    tokenizers = [transformers.AutoTokenizer.from_pretrained(path) for path in paths]
    models = [transformers.AutoModelForSeq2SeqLM.from_pretrained(path).eval() for path in paths]

    @torch.inference_mode()
    def write(which, given):
        ids = tokenizers[which](given, return_tensors="pt")["input_ids"]
        how = {"do_sample": False, "num_beams": 1, "max_new_tokens": 30}
        out = models[which].generate(input_ids=ids, **how)
        return tokenizers[which].decode(out[0], skip_special_tokens=True)

    @torch.inference_mode()
    def doubt(given):
        ids = tokenizers[1](given, return_tensors="pt")["input_ids"]
        logits = models[1](input_ids=ids, decoder_input_ids=torch.tensor([[0]])).logits[0, 0]
        shares = torch.softmax(logits.double(), 0)
        return shares[tokenizers[1].convert_tokens_to_ids("unanswerable")].item()

    def asked(sentence):
        return {span: write(0, f"sv1 </s> {span} </s> {sentence}") for span in SPANS[sentence]}

    answers = {
        span: write(1, f"{question} </s> {ARTICLE}") for span, question in asked(text).items()
    }
    matches = [token_f1(answer, span) for span, answer in answers.items()]
    article = ("a storm closed the harbour .", BREAD)
    questions = [question for sentence in article for question in asked(sentence).values()]
    known = [1 - doubt(f"{question} </s> {text}") for question in questions]
    precision, recall = sum(matches) / len(matches), sum(known) / len(known)
    return precision, recall, 2 * precision * recall / (precision + recall)


def test_it_is_the_plain_chain_and_hand_work(taught, ready):
    found = questeval(*ready, CONTEXT, TEXTS)
    assert +found.problems == {}
    # The models do what they were taught, nearly surely.
    by_hand = [
        # harbour right, `closed` answered with `no`; one of four questions can be answered
        (1 / 2, 1 / 4),
        # bread right, `ghent island` for `ghent` 2/3; two of four can be answered
        ((1 + 2 / 3) / 2, 2 / 4),
    ]
    for text, value, (precision, recall) in zip(TEXTS, found.values, by_hand, strict=True):
        *parts, score = plain_questeval(taught, text)
        assert value == pytest.approx(score, abs=1e-6)
        assert parts == pytest.approx([precision, recall], abs=0.01)
    alone = [questeval(*ready, CONTEXT, [text]).values[0] for text in TEXTS]
    assert alone == pytest.approx(found.values, abs=1e-6)


def test_on_a_benchmark(taught, ready):
    name = f"questeval:{'+'.join(taught)}"
    result = run_method(name, small_benchmark([CONTEXT], [*TEXTS, ""])).result
    expected = questeval(*ready, CONTEXT, TEXTS).values
    *values, empty = result.method.scores.values()
    assert values == pytest.approx(expected)
    assert empty is None
    assert (result.method.name, len(result.notes)) == (name, 1)


def test_an_output_about_something_else_scores_zero(taught):
    generator, reader = map(opened, taught)
    # what the model is nearly sure of becomes sure
    reader.opened.model.decoder.final_layer_norm.weight.data *= 100
    bread = Context(id="b", task="summarization", text=BREAD)
    assert questeval(generator, reader, bread, TEXTS[:1]).values == [0.0]


def test_outputs_without_a_question_have_no_score(ready):
    found = questeval(*ready, CONTEXT, ["", "it was .", TEXTS[0]])
    assert found.values[:2] == [None, None]
    assert found.values[2] is not None
    assert +found.problems == {EMPTY: 1, NO_QUESTION: 1}
    nothing = Context(id="n", task="summarization", text="it is")
    assert questeval(*ready, nothing, TEXTS).values == [None, None]


def test_questions_that_do_not_end_are_left_out(models, taught):
    # a random model hardly ever ends
    found = questeval(opened(models["t5"]), opened(taught[1]), CONTEXT, TEXTS[:1])
    assert found.values == [None]
    # of 4 spans of the article and 2 of the text
    assert +found.problems == {UNUSABLE: 6, NO_QUESTION: 1}


def test_long_texts_are_cut_and_counted(ready):
    long = Context(id="l", task="summarization", text=ARTICLE + " ." * 600)
    found = questeval(*ready, long, TEXTS[1:])
    assert found.values[0] is not None
    assert found.problems[CUT] == 2  # both questions about the text are asked of the long article


def test_what_is_not_a_number_is_left_out(taught):
    generator, reader = map(opened, taught)
    reader.opened.model.shared.weight.data[:] = np.nan
    found = questeval(generator, reader, CONTEXT, TEXTS[:1])
    assert found.values == [None]
    assert +found.problems == {UNUSABLE: 6, NO_QUESTION: 1}


def test_a_tokenizer_without_an_end(taught):
    generator, reader = map(opened, taught)
    generator.opened.tokenizer.eos_token = None
    message = "the tokenizer of generator has no eos_token, which its inputs need; fetch Thoma"
    with pytest.raises(BackendUnavailableError, match=message):
        questeval(generator, reader, CONTEXT, TEXTS)
