"""MQAG with small models that were taught what to write; the reader against transformers' own call."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from refladder.backends.hf.loading import MULTIPLE_CHOICE
from refladder.errors import BackendUnavailableError
from refladder.methods.mqag import (
    NO_QUESTION,
    SUGGESTION,
    UNUSABLE,
    draw_choices,
    mqag,
    total_variation,
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


def test_total_variation_by_hand():
    # |.7 - .1| + |.2 - .2| + |.1 - .7| = 1.2, half of it
    assert total_variation(np.array([0.7, 0.2, 0.1]), np.array([0.1, 0.2, 0.7])) == pytest.approx(
        0.6
    )
    assert total_variation(np.array([1.0, 0.0]), np.array([0.0, 1.0])) == 1.0


def test_choices_are_what_the_models_were_taught(taught):
    generator, distractors, _ = opened(taught)
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


def test_it_is_the_plain_chain(taught):
    found = mqag(*opened(taught), CONTEXT, [TEXTS[0], "", TEXTS[1], TEXTS[2]], questions=2)
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


def test_an_output_that_is_its_context_has_the_best_score(taught):
    own = Context(id="o", task="summarization", text=TEXTS[0])
    assert mqag(*opened(taught), own, TEXTS[:1], questions=2).values == pytest.approx([1.0])


def test_draws_follow_the_seed_and_nothing_else(models):
    loose = opened((models["t5"], models["t5"], models["choice"]))

    def drawn(texts, seed):
        written = loose[0].write_ids
        seen = []
        loose[0].write_ids = lambda ids, sampling: (
            seen.append(found := written(ids, sampling)) or found
        )
        draw_choices(*loose[:2], texts, questions=2, seed=seed, problems=Counter())
        loose[0].write_ids = written
        return [[one.ids for one in found] for found in seen]

    first, second = drawn(TEXTS, 7)
    assert first != second  # two draws are not one
    assert drawn(TEXTS, 7) == [first, second]
    assert drawn(TEXTS, 8) != [first, second]
    assert drawn(TEXTS[1:], 7) == [first[1:], second[1:]]


def test_a_random_generator_has_nothing_to_ask(models, taught):
    generator, distractors, reader = opened((models["t5"], *taught[1:]))
    found = mqag(generator, distractors, reader, CONTEXT, TEXTS[:2], questions=2)
    assert found.values == [None, None]
    assert +found.problems == {UNUSABLE: 4, NO_QUESTION: 2}


def test_a_distractor_generator_that_only_knows_the_answer(taught, tmp_path):
    from support import small_models

    same = str(
        small_models.make_taught_t5(tmp_path / "same", dict.fromkeys(WRONG, "the harbour <sep>"))
    )
    generator, distractors, reader = opened((taught[0], same, taught[2]))
    found = mqag(generator, distractors, reader, CONTEXT, TEXTS[:1], questions=2)
    assert found.values == [None]
    assert +found.problems == {UNUSABLE: 2, NO_QUESTION: 1}


def test_a_long_context_is_cut_and_its_question_stays(taught):
    models = opened(taught)
    long = Context(id="l", task="summarization", text="storm " * 200)
    found = mqag(*models, long, TEXTS[1:2], questions=1)
    assert +found.problems == {CUT: 2}  # once for each option
    reader = models[2]
    row = reader.pair(reader.tokens.plain(long.text), [11], tail=[7, 8, 9])
    assert len(row.ids) == 64
    tokenizer = reader.opened.tokenizer
    assert row.ids[-8:] == [
        *tokenizer.encode(" storm", add_special_tokens=False),
        *[7, 8, 9],
        *[tokenizer.sep_token_id] * 2,
        11,
        tokenizer.sep_token_id,
    ]
    assert row.cut
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


def test_what_is_not_a_number_or_does_not_fit_is_left_out(taught, monkeypatch):
    models = opened(taught)
    monkeypatch.setattr(models[2].opened.tokenizer, "model_max_length", 9)
    found = mqag(*models, CONTEXT, TEXTS[:1], questions=2)
    assert found.values == [None]
    assert +found.problems == {UNUSABLE: 2, NO_QUESTION: 1}
    models = opened(taught)
    models[2].opened.model.get_input_embeddings().weight.data[:] = np.nan
    found = mqag(*models, CONTEXT, TEXTS[:1], questions=2)
    assert found.values == [None]
    assert +found.problems == {UNUSABLE: 2, NO_QUESTION: 1}


def test_tokenizers_without_their_separators(models, taught):
    generator, distractors, reader = opened(taught)
    generator.opened.tokenizer.sep_token = None
    with pytest.raises(
        BackendUnavailableError,
        match="the tokenizer of generator has no sep_token, which its inputs need; fetch potsa",
    ):
        mqag(generator, distractors, reader, CONTEXT, TEXTS)
    with pytest.raises(
        BackendUnavailableError,
        match="the tokenizer of bert-choice has no bos_token, which its inputs",
    ):
        mqag(*opened((*taught[:2], models["bert-choice"])), CONTEXT, TEXTS[:1], questions=1)


def test_a_model_of_another_kind_is_no_reader(models):
    with pytest.raises(
        BackendUnavailableError,
        match=r"^mqag:/.* weights are missing from its files \(2, .*; fetch potsawee/t5",
    ):
        open_reader(models["encoder"], MULTIPLE_CHOICE, "mqag", SUGGESTION, MACHINE)
