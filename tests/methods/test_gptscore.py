"""GPTScore: whole texts read as labels, divided by their tokens."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from doubles import Double

from refladder.backends import connect
from refladder.errors import BackendError, LabelsUnavailableError
from refladder.methods.contract import MethodSettings
from refladder.methods.gptscore import check_reads_texts, mean_logprobs, read_texts
from refladder.methods.method_runs import run_methods
from refladder.prompts import criterion, fill, load_template
from refladder.records import Benchmark, Context, Dimension, LabelReading, Output
from refladder.scoring.grades import grade_question

CONTEXT = Context(id="c", task="story", text="A lighthouse keeper finds a letter.")
DIMENSION = Dimension(name="surprise", description="The end surprises.")
TEMPLATE = load_template("story", "best")
PROMPT = fill(TEMPLATE, criterion(CONTEXT, DIMENSION))


class Words(Double):
    """Every word of a text has probability 1/4, a long word (over four letters) 1/16; a word is a token."""

    fingerprint = "words/1"

    def read_labels(self, prompts, labels):
        assert not any(one != other and other.startswith(one) for one in labels for other in labels)
        assert CONTEXT.text in prompts[0].text
        found = tuple(
            sum(math.log(1 / 16 if len(word) > 4 else 1 / 4) for word in text.split())
            for text in labels
        )
        return [LabelReading(logprobs=found, mass=min(1.0, sum(map(math.exp, found))))]

    def count_label_tokens(self, _prompt, labels):
        return [len(text.split()) for text in labels]


def ask(texts, backend):
    outputs = [
        Output(id=f"o{place}", context_id="c", system=str(place), text=text)
        for place, text in enumerate(texts)
    ]
    asked = [grade_question(output, CONTEXT, DIMENSION) for output in outputs]
    return asked, read_texts(backend, TEMPLATE, "recipe", asked)


def test_the_mean_over_tokens_by_hand():
    asked, judgments = ask(
        ["the sea", "lighthouse keeper", "the lighthouse", "the sea", ""], Words()
    )
    values = mean_logprobs(Words(), TEMPLATE, asked, judgments)
    quarter, sixteenth = math.log(1 / 4), math.log(1 / 16)
    # two short words; two long ones; one of each; the first once more; nothing
    expected = [quarter, sixteenth, (quarter + sixteenth) / 2, quarter]
    assert values[:4] == pytest.approx(expected)
    assert values[4] is None
    assert judgments[4].note == "the text is empty"
    assert judgments[0].logprobs == pytest.approx((2 * quarter,))
    assert judgments[0].mass is None


def test_a_text_that_begins_another_is_asked_alone():
    # `Words` refuses to be asked for both at once.
    asked, judgments = ask(["the", "the sea", "the sea is"], Words())
    assert mean_logprobs(Words(), TEMPLATE, asked, judgments) == pytest.approx(
        [math.log(1 / 4)] * 3
    )


def test_a_reading_that_failed_is_no_number():
    class Deaf(Words):
        def read_labels(self, _prompts, _labels):
            return [LabelReading(logprobs=None, mass=None, reason="too long for the model")]

    asked, judgments = ask(["the sea"], Deaf())
    assert judgments[0].note == "too long for the model"
    assert mean_logprobs(Deaf(), TEMPLATE, asked, judgments) == [None]


def test_a_backend_that_cannot_count_is_not_asked():
    with pytest.raises(
        LabelsUnavailableError,
        match=r"judge 'builtin/1' cannot read .*a whole text .*--judge hf:PATH",
    ):
        check_reads_texts(connect("builtin"), PROMPT)
    check_reads_texts(Words(), PROMPT)


def test_a_backend_that_breaks_its_word_is_refused():
    class Short(Words):
        def read_labels(self, _prompts, _labels):
            return [LabelReading(logprobs=(-1.0,), mass=0.3)]

        def count_label_tokens(self, _prompt, labels):
            return [0] * len(labels)

    with pytest.raises(BackendError, match="asked for 2 texts after 1 prompt, answered otherwise"):
        ask(["the sea", "a letter"], Short())
    asked, judgments = ask(["the sea"], Short())
    with pytest.raises(
        BackendError, match="the judge read the text 'the sea' and counts 0 tokens in it"
    ):
        mean_logprobs(Short(), TEMPLATE, asked, judgments)


def test_the_characters_are_those_of_all_prompts_after_a_kill_too(tmp_path):
    texts = [
        "the sea",
        "lighthouse keeper",
        "the lighthouse",
        "the",
    ]  # the last begins others, so it is asked alone
    outputs = [
        Output(id=f"o{place}", context_id="c", system=str(place), text=text)
        for place, text in enumerate(texts)
    ]
    made = Benchmark(
        name="made",
        revision="1",
        licence="none",
        dimensions=(DIMENSION, replace(DIMENSION, name="charm")),
        contexts=(CONTEXT,),
        outputs=tuple(outputs),
        ratings=(),
    )

    def ran():
        return run_methods(
            ["gptscore"], made, made.dimensions, Words, MethodSettings(work=tmp_path)
        )[0]

    whole = ran()
    assert whole.result.characters == whole.characters > 0
    path = tmp_path / "gptscore.judgments.jsonl"
    path.write_bytes(
        b"".join(path.read_bytes().splitlines(keepends=True)[:5])
    )  # the run and one dimension of two
    resumed = ran()
    assert 0 < resumed.characters < whole.characters
    assert resumed.result.characters == whole.characters
