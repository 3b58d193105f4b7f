"""Written answers as label probabilities."""

from __future__ import annotations

import math

import pytest

from refladder.backends.scripted import Rule, Scripted
from refladder.prompts import fill, load_template
from refladder.records import Sampling
from refladder.scoring.drawing import NEVER, draw_labels

LABELS = ("Better", "Worse", "Similar")


def drawn(texts, answers):
    template = load_template("story", "compare")
    prompt = fill(template, dict.fromkeys(template.names, "x"))
    backend = Scripted([Rule(texts=tuple(texts)) if texts else Rule(error="HTTP 503")])
    (reading,) = draw_labels(backend, [prompt], LABELS, answers=answers, sampling=Sampling(seed=0))
    return reading


def test_the_shares_of_the_answers_by_hand():
    # seeds 0 to 4: Better, Worse, Better, an answer without a label, Better; 4 of 5 are read: 3/4, 1/4, 0
    reading = drawn(["Better", "**Worse**", "Better.", "I cannot say", "It is better"], 5)
    assert reading.logprobs == pytest.approx((math.log(3 / 4), math.log(1 / 4), NEVER))
    assert reading.mass == pytest.approx(4 / 5)
    assert reading.note == "1 of 5 answers unparsed, e.g. no label in the answer: 'I cannot say'"


def test_a_negated_label_and_two_labels_are_no_answer():
    reading = drawn(["It is not better", "Between better and worse", "<think>Worse?</think>Similar"], 3)
    assert [round(math.exp(value), 6) for value in reading.logprobs] == [0, 0, 1]
    assert reading.mass == pytest.approx(1 / 3)


def test_no_answer_that_can_be_read_is_unparsed():
    reading = drawn([], 2)
    assert (reading.logprobs, reading.mass) == (None, None)
    assert reading.note == "2 of 2 answers unparsed, e.g. HTTP 503"
