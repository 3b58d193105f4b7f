"""Readings from token log-probabilities, and the text of an answer: against hand work."""

import asyncio
import math

import pytest

from refladder.backends.openai.chat_modes import read_top
from refladder.backends.openai.client import Capabilities, Client
from refladder.backends.openai.errors import Refusal, Tally
from refladder.backends.openai.options import Options
from refladder.backends.openai.responses import (
    Choice,
    checked_choices,
    complete,
    first_choices,
    from_tokens,
    from_top,
    next_tokens,
    parse_answer,
    written,
)

LABELS = ("Better", "Worse", "Similar")
DIGITS = ("1", "2", "10")


def tops(**tokens):
    choices = [Choice(text, None, math.log(value)) for text, value in tokens.items()]
    return sorted(choices, key=lambda choice: -choice.logprob)


def read(tokens, labels=LABELS, ends=()):
    """The reading of the most probable tokens; `ends` has probabilities of completed beginnings."""
    ends = [value and math.log(value) for value in ends]
    return complete(from_top(tops(**tokens), labels), labels, ends)


def probabilities(reading):
    return [math.exp(value) for value in reading.logprobs]


OUTSIDE = "label 'Worse' outside the top {}: p <= {}"
BEGUN = "label {!r} read from its beginning {!r}, an upper bound"
WORSE, SIMILAR = BEGUN.format("Worse", "W"), BEGUN.format("Similar", "Si")


@pytest.mark.parametrize(
    ("tokens", "ends", "expected", "note"),
    [
        # all ways to write a label add up, also with an invisible character
        ({"Better": 0.4, " BETTER": 0.2, "W": 0.1, "Similar": 0.1}, (0.1,), [0.6, 0.1, 0.1], None),
        (
            {'"Better': 0.3, "\u200bbetter": 0.3, "Worse": 0.2, "Similar": 0.1},
            (),
            [0.6, 0.2, 0.1],
            None,
        ),
        # a bound that cannot matter
        (
            {"Better": 0.8, "Similar": 0.1, "The": 1e-5},
            (),
            [0.8, 1e-5, 0.1],
            OUTSIDE.format(3, 1e-5),
        ),
        # a beginning alone, beside a spelling with next to nothing, and completed
        ({"Better": 0.6, "W": 0.3, "Similar": 0.05}, (), [0.6, 0.3, 0.05], WORSE),
        ({"Better": 0.6, "W": 0.3, "Similar": 0.05, "worse": 1e-3}, (), [0.6, 0.301, 0.05], WORSE),
        ({"Better": 0.6, "W": 0.3, "Similar": 0.05}, (0.27,), [0.6, 0.27, 0.05], None),
        # Si goes on to Similar; what S goes on to is not known, and is little: .004 < .05 * .18
        ({"Better": 0.5, "Worse": 0.2, "Si": 0.2, "S": 4e-3}, (0.18, None), [0.5, 0.2, 0.18], None),
        # .1 > .05 * .13: all that begins so, .15 + .1
        (
            {"Better": 0.5, "Worse": 0.2, "Si": 0.15, "S": 0.1},
            (0.13, None),
            [0.5, 0.2, 0.25],
            SIMILAR,
        ),
    ],
)
def test_labels_among_the_most_probable_tokens(tokens, ends, expected, note):
    reading = read(tokens, ends=ends)
    assert probabilities(reading) == pytest.approx(expected)
    assert (reading.note, reading.reason) == (note, None)
    assert reading.exactness == ("bounded" if note else "exact")


TOO_MUCH = "the returned probabilities add to {}, more than 1; they cannot be trusted"
ONLY_BEGUN = "label {!r} was only begun: p <= {}"


@pytest.mark.parametrize(
    ("tokens", "labels", "ends", "reason"),
    [
        ({"Better": 1.0, "Worse": 1.0, "Similar": 1.0}, LABELS, (), TOO_MUCH.format("3.00")),
        # the labels alone are possible
        ({"The": 0.9, "Better": 0.3, "Worse": 0.1}, LABELS[:2], (), TOO_MUCH.format("1.30")),
        # p(Worse) cannot be more than p(W)
        ({"Better": 0.6, "W": 0.3, "Similar": 0.05}, LABELS, (0.9,), TOO_MUCH.format("1.55")),
        ({"Better": 0.8, "Similar": 0.1, "The": 0.003}, LABELS, (), OUTSIDE.format(3, 0.003)),
        # 0.01 is left, and the last token has 0.29
        ({"Better": 0.7, "Similar": 0.29}, LABELS, (), OUTSIDE.format(2, 0.01)),
        ({"Better": 0.5, "W": 0.2, "Worse": 0.2}, LABELS[:2], (), ONLY_BEGUN.format("Worse", 0.4)),
        ({"1": 0.5, "2": 0.4}, DIGITS, (), ONLY_BEGUN.format("10", 0.5)),
        ({"Ja": 0.9, "El": 0.05}, LABELS, (), "no label among the top 2 tokens; the first is 'Ja'"),
    ],
)
def test_the_most_probable_tokens_without_a_reading(tokens, labels, ends, reason):
    reading = read(tokens, labels, ends)
    assert (reading.logprobs, reading.mass, reading.reason) == (None, None, reason)


def test_one_is_not_ten_when_digits_are_tokens():
    reading = read({"1": 0.5, "2": 0.4}, DIGITS, [0.2])
    assert probabilities(reading) == pytest.approx([0.3, 0.4, 0.2])  # .5 - .2 is left for 1


def test_rounding_above_one_is_read():
    reading = read({"Better": 0.8, "Worse": 0.105, "Similar": 0.1})
    assert probabilities(reading) == pytest.approx([0.8, 0.105, 0.1])
    assert reading.mass == 1.0


def test_a_label_is_the_sum_over_its_own_tokens():
    values = {(): {1: math.log(0.5), 2: math.log(0.2), 4: math.log(0.1)}, (2,): {3: math.log(0.9)}}
    reading = from_tokens([[(1,)], [(2, 3)], [(4,)]], values)
    assert probabilities(reading) == pytest.approx([0.5, 0.18, 0.1])  # 0.2 * 0.9
    assert reading.mass == pytest.approx(0.78)


def test_a_label_that_begins_another_is_the_answer_only_when_the_other_does_not_follow():
    # 1 then 0 is the label 10: p(10) = .4 * .25 = .1, p(1) = .4 - .1
    values = {(): {1: math.log(0.4)}, (1,): {0: math.log(0.25)}}
    assert probabilities(from_tokens([[(1,)], [(1, 0)]], values)) == pytest.approx([0.3, 0.1])


@pytest.mark.parametrize(
    ("first", "second"),
    [((1.0, 1.0, 1.0), (1.0, 0.0001)), ((0.9, 0.05, 0.01), (0.9, 0.9))],
    ids=["labels", "tokens after a beginning"],
)
def test_exact_tokens_that_add_to_more_than_one_are_unparsed(first, second):
    values = {
        (): dict(zip((1, 2, 4), map(math.log, first), strict=True)),
        (2,): dict(zip((3, 5), map(math.log, second), strict=True)),
    }
    reading = from_tokens([[(1,)], [(2, 3)], [(2, 5)], [(4,)]], values)
    assert (reading.logprobs, reading.mass) == (None, None)
    assert "more than 1; they cannot be trusted" in reading.reason


def test_the_fewest_beginnings_that_read_every_label():
    assert next_tokens([(1,), (2, 3), (2, 5)]) == {(): [1, 2], (2,): [3, 5]}


GOOD = {"token": "Better", "logprob": -0.5}


def answer(first, *rows):
    """A choice with the most probable tokens of its first position."""
    return {"logprobs": {"content": [{**first, "top_logprobs": list(rows)}]}}


@pytest.mark.parametrize(
    "entry",
    [
        {"token": "Worse", "logprob": math.nan},
        {"token": "Worse", "logprob": math.inf},
        {"token": "Worse", "logprob": 0.5},
        {"token": "Worse", "logprob": None},
        {"token": "Worse", "logprob": "-0.5"},
        {"token": "Worse", "logprob": True},
        {"token": "Worse"},
        {"logprob": -0.5},
        {"token": None, "id": 7, "logprob": -0.5},
        {"token": 7, "logprob": -0.5},
        "Worse",
        None,
    ],
)
def test_an_invalid_entry_beside_a_label_is_no_improbable_token(entry):
    invalid = pytest.raises(
        Refusal, match=r"^an invalid entry among the log-probabilities: token .* with "
    )
    with invalid:
        checked_choices(answer(GOOD, GOOD, entry))
    with invalid:
        checked_choices(answer(entry if isinstance(entry, dict) else {}, GOOD))


@pytest.mark.parametrize("completion", ["", "prefill", "grammar"])
def test_a_row_with_an_invalid_entry_is_refused_and_the_run_is_not(completion):
    begun, invalid = {"token": "W", "logprob": -1.5}, {"token": "x", "logprob": math.nan}

    class Server:
        """Its first answer is right, and those about the beginning `W` are not."""

        answers = 0

        async def post(self, _path, _body):
            self.answers += 1
            right = self.answers == 1 and completion
            choice = answer(GOOD, GOOD, begun, *(() if right else (invalid,)))
            choice["logprobs"]["content"].append(invalid)
            return {"choices": [choice]}

    client = Client(server=Server(), model="toy", options=Options(), tally=Tally())
    capabilities = Capabilities(mode="top", top=20, completion=completion)
    with pytest.raises(Refusal, match="an invalid ") as caught:
        asyncio.run(read_top(client, capabilities, [{"role": "user", "content": "x"}], LABELS))
    assert not caught.value.of_the_server
    assert not caught.value.ends_the_run


def test_a_token_of_no_probability_is_valid_and_left_out():
    never = [{"token": "Worse", "logprob": -9999.0}, {"token": "x", "logprob": -math.inf}]
    found = checked_choices(answer(GOOD, GOOD, *never))
    assert [(choice.text, choice.logprob) for choice in found] == [("Better", -0.5)]
    # where nothing is checked, entries without a number are left out too
    assert first_choices(answer(GOOD, GOOD, *never, {"token": "y", "logprob": None})) == found


@pytest.mark.parametrize("rows", ["Better", 7, {"Better": 0}, None])
def test_a_list_of_tokens_that_is_none_leaves_the_chosen_token(rows):
    choice = {"logprobs": {"content": [{**GOOD, "top_logprobs": rows}]}}
    assert [found.text for found in checked_choices(choice)] == ["Better"]


def test_the_completions_shape_with_ids_for_names():
    choice = {"logprobs": {"top_logprobs": [{"token_id:17": -1.0, "token_id:4": -0.5}]}}
    assert [(found.id, found.text) for found in first_choices(choice)] == [(4, None), (17, None)]


@pytest.mark.parametrize("logprobs", [None, {"content": []}, {"top_logprobs": [None]}])
def test_no_log_probabilities(logprobs):
    assert first_choices({"logprobs": logprobs}) == checked_choices({"logprobs": logprobs}) == []
    assert first_choices(None) == []


def said(content, finish="stop", **more):
    return {"message": {"content": content, **more}, "finish_reason": finish}


@pytest.mark.parametrize(
    ("choice", "missing"),
    [
        (None, "empty choice"),
        (said(None, refusal="I cannot"), "refusal"),
        (said("Bet", "content_filter"), "content filter"),
        (said("  "), "empty answer"),
        (said("<think>so", "length"), "cut while it was thinking"),
        (said("", "length", reasoning_content="so"), "cut while it was thinking"),
    ],
)
def test_answers_that_are_missing(choice, missing):
    assert parse_answer(choice).missing == missing


def test_a_writers_answer():
    done = written(said("<think>hm</think> Rain. "))
    assert (done.text, done.finish, done.note) == ("Rain.", "stop", None)
    assert written(said("Rain and", "length")).finish == "length"
    filtered = written(said("x", "content_filter"))
    assert (filtered.text, filtered.finish, filtered.note) == ("", "error", "content filter")


def test_content_in_parts():
    parts = [{"type": "text", "text": "Bet"}, {"text": "ter"}]
    assert parse_answer(said(parts)).text == "Better"


@pytest.mark.parametrize(("last", "counts"), [(7.9e-5, True), (8.1e-5, False)])
def test_a_label_outside_the_list_may_have_a_ten_thousandth_of_the_mass(last, counts):
    # The mass is .8, and a token outside the list has at most the probability of the last one.
    reading = read({"Better": 0.6, "Similar": 0.2, "The": last})
    assert (reading.logprobs is not None) == counts
