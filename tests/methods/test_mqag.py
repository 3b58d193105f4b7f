"""MQAG with small models that were taught what to write; the reader against transformers' own call."""

from __future__ import annotations

import re
from collections import Counter
from functools import partial

import numpy as np
import pytest
from refusals import refuses
from small_benchmarks import run_method, small_benchmark

from refladder.backends.hf.loading import MULTIPLE_CHOICE
from refladder.errors import BackendUnavailableError
from refladder.methods import mqag as mqag_module
from refladder.methods.mqag import (
    NO_QUESTION,
    SUGGESTION,
    UNUSABLE,
    draw_choices,
    mqag,
)
from refladder.methods.without_judge import CUT, EMPTY, MACHINE, open_reader, open_writer
from refladder.records import Context

torch = pytest.importorskip("torch", reason="the local extra is not installed")
transformers = pytest.importorskip("transformers", reason="the local extra is not installed")

ARTICLE = "a storm closed the harbour . bread is in ghent ."
CONTEXT = Context(id="c", task="summarization", text=ARTICLE)
TEXTS = ["the harbour was closed", "bread in ghent", "island"]
DRAWN = {
    TEXTS[0]: "what was closed ? <sep> the harbour",
    TEXTS[1]: "what is in ghent ? <sep> bread",
    TEXTS[2]: "what is this ?",  # no answer
}
WRONG = {
    f"what was closed ? <sep> the harbour <sep> {TEXTS[0]}": "ferry <sep> storm <sep> island <sep> bread",
    f"what is in ghent ? <sep> bread <sep> {TEXTS[1]}": "ferry <extra_id_0> bread <sep> ferry",
}
# By hand: the answer first, no option twice, three wrong ones at most.
CHOICES = {
    TEXTS[0]: ("what was closed ?", ("the harbour", "ferry", "storm", "island")),
    TEXTS[1]: ("what is in ghent ?", ("bread", "ferry")),
}


@pytest.fixture(scope="module")
def taught(models, tmp_path_factory):
    from support import small_models

    folder = tmp_path_factory.mktemp("mqag")
    return (
        str(small_models.make_taught_t5(folder / "generator", DRAWN)),
        str(small_models.make_taught_t5(folder / "distractors", WRONG)),
        models["choice"],
    )


def opened(paths):
    return (
        *(open_writer(path, "mqag", SUGGESTION, MACHINE) for path in paths[:2]),
        open_reader(paths[2], MULTIPLE_CHOICE, "mqag", SUGGESTION, MACHINE),
    )


@pytest.fixture(scope="module")
def ready(taught):
    """The models, opened once for the tests that do not change them."""
    return opened(taught)


def test_choices_are_what_the_models_were_taught(ready):
    generator, distractors, _ = ready
    problems = Counter()
    found = draw_choices(generator, distractors, TEXTS, questions=3, seed=1, problems=problems)
    assert found == [[CHOICES[TEXTS[0]]] * 3, [CHOICES[TEXTS[1]]] * 3, []]
    assert +problems == {UNUSABLE: 3}


def plain_shares(path, text, question, options):
    """As the authors' program asks their reader: all options of a question in one call."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(path)
    model = transformers.AutoModelForMultipleChoice.from_pretrained(path).eval()
    asked = [f"{text} {tokenizer.bos_token} {question}"] * len(options)
    given = tokenizer(asked, list(options), padding=True, return_tensors="pt")
    with torch.inference_mode():
        logits = model(**{name: values[None] for name, values in given.items()}).logits[0]
    return torch.softmax(logits.double(), 0).tolist()


def test_it_is_the_plain_chain(taught, ready):
    found = mqag(*ready, CONTEXT, [TEXTS[0], "", TEXTS[1], TEXTS[2]], questions=2)
    assert found.values[1] is None
    assert found.values[3] is None
    assert +found.problems == {UNUSABLE: 2, NO_QUESTION: 1, EMPTY: 1}
    for text, value in zip(TEXTS, found.values[::2], strict=False):
        question, options = CHOICES[text]
        own, others = (
            plain_shares(taught[2], source, question, options) for source in (text, ARTICLE)
        )
        expected = 1 - sum(abs(one - other) for one, other in zip(own, others, strict=True)) / 2
        assert value == pytest.approx(expected, abs=1e-5)
        assert value < 0.999  # the two texts do differ to the reader


def test_on_a_benchmark_draws_follow_the_seed_of_the_run(taught, ready):
    name = f"mqag:{'+'.join(taught)}"
    made = small_benchmark([CONTEXT], TEXTS)
    result = run_method(name, made, options={"mqag.questions": "2"}, seed=3).result
    expected = mqag(*ready, CONTEXT, TEXTS, questions=2, seed=3).values
    assert list(result.method.scores.values()) == expected
    assert [value is None for value in expected] == [False, False, True]
    assert result.method.name == name
    assert result.notes == (
        "questions left out (no answer, no wrong option, cut off, or not answerable): 2",
        "outputs about which no question could be parsed, without a score: 1",
    )
    models = r"generator@\w+,float32\+distractors@\w+,float32\+choice@\w+,float32"
    words = rf"mqag\|models:{models}\|questions:2\|seed:3\|distance:total-variation\|refladder:"
    assert re.match(words, result.method.signature)


@pytest.fixture
def few_tokens(monkeypatch):
    """Random models hardly ever end: they write a few tokens only."""
    monkeypatch.setattr(mqag_module, "_TOKENS", 12)


@pytest.mark.usefixtures("few_tokens")
def test_draws_follow_the_seed_and_nothing_else(models):
    generator, distractors, _ = opened((models["t5"], models["t5"], models["choice"]))
    write_ids = generator.write_ids

    def drawn(texts, seed):
        seen = []

        def write(ids, sampling):
            written = write_ids(ids, sampling)
            seen.append([each.ids for each in written])
            return written

        generator.write_ids = write
        draw_choices(generator, distractors, texts, questions=2, seed=seed, problems=Counter())
        return seen

    first, second = drawn(TEXTS, 7)
    assert first != second  # two draws are not one
    assert drawn(TEXTS, 7) == [first, second]
    assert drawn(TEXTS, 8) != [first, second]
    assert drawn(TEXTS[1:], 7) == [first[1:], second[1:]]


@pytest.mark.usefixtures("few_tokens")
def test_a_random_generator_has_nothing_to_ask(models, taught):
    found = mqag(*opened((models["t5"], *taught[1:])), CONTEXT, TEXTS[:2], questions=2)
    assert found.values == [None, None]
    assert +found.problems == {UNUSABLE: 4, NO_QUESTION: 2}


def left_out(models, context=CONTEXT):
    """Neither of two questions about a text can be used."""
    found = mqag(*models, context, TEXTS[:1], questions=2)
    return found.values == [None] and +found.problems == {UNUSABLE: 2, NO_QUESTION: 1}


def test_a_distractor_generator_that_only_knows_the_answer(taught, tmp_path):
    from support import small_models

    lessons = dict.fromkeys(WRONG, "the harbour <sep>")
    same = str(small_models.make_taught_t5(tmp_path / "same", lessons))
    assert left_out(opened((taught[0], same, taught[2])))


def test_what_is_not_a_number_or_does_not_fit_is_left_out(taught, monkeypatch):
    *writers, reader = opened(taught)
    monkeypatch.setattr(reader.opened.tokenizer, "model_max_length", 9)
    assert left_out([*writers, reader])
    *writers, reader = opened(taught)
    reader.opened.model.get_input_embeddings().weight.data[:] = np.nan
    assert left_out([*writers, reader])


def test_a_long_context_is_cut_and_its_question_stays(ready):
    models = ready
    long = Context(id="l", task="summarization", text="storm " * 200)
    found = mqag(*models, long, TEXTS[1:2], questions=1)
    assert +found.problems == {CUT: 2}  # once for each option
    reader = models[2]
    row = reader.pair(reader.tokens.plain(long.text), [11], tail=[7, 8, 9])
    tokenizer = reader.opened.tokenizer
    (storm,) = tokenizer.encode(" storm", add_special_tokens=False)
    end = tokenizer.sep_token_id
    assert row.ids[-8:] == [storm, 7, 8, 9, end, end, 11, end]
    assert (len(row.ids), row.cut) == (64, True)
    assert 0 < found.values[0] < 1


@pytest.mark.parametrize("frame", ["choice", "bert-choice"])
def test_a_pair_is_framed_as_the_tokenizer_frames_it(models, frame):
    reader = open_reader(models[frame], MULTIPLE_CHOICE, "mqag", SUGGESTION, MACHINE)
    for first, second in ((ARTICLE, "bread"), ("a", "a a"), ("ghent", "the harbour .")):
        row = reader.pair(reader.tokens.plain(first), reader.tokens.plain(second))
        expected = reader.opened.tokenizer(first, second)
        assert row.ids == expected["input_ids"]
        assert row.types == expected.get("token_type_ids")
        assert not row.cut


def test_models_that_do_not_fit(models, taught):
    refused = partial(refuses, BackendUnavailableError)

    generator, distractors, reader = opened(taught)
    generator.opened.tokenizer.sep_token = None
    words = "the tokenizer of generator has no sep_token, which its inputs need; fetch potsa"
    refused(words, mqag, generator, distractors, reader, CONTEXT, TEXTS)
    words = "the tokenizer of bert-choice has no bos_token, which its inputs"
    refused(words, mqag, *opened((*taught[:2], models["bert-choice"])), CONTEXT, TEXTS[:1])
    words = r"^mqag:/.* weights are missing from its files \(2, .*; fetch potsawee/t5"
    refused(words, open_reader, models["encoder"], MULTIPLE_CHOICE, "mqag", SUGGESTION, MACHINE)
