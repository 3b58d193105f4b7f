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


def tops(**tokens):
    return sorted(
        (Choice(text=text, id=None, logprob=math.log(value)) for text, value in tokens.items()),
        key=lambda choice: -choice.logprob,
    )


def probabilities(reading):
    return [math.exp(value) for value in reading.logprobs]


@pytest.mark.parametrize("mark", ["\u200b", "\u200d", "\u2060", "\ufeff", " \u200b"])
def test_an_invisible_character_around_a_label_changes_nothing(mark):
    choices = [
        Choice("Better", 1, -1.0),
        Choice(f"{mark}Better", 2, -1.5),
        Choice("Worse", 3, -1.2),
        Choice("Similar", 4, -3.0),
    ]
    better = from_top(choices, ("Better", "Worse", "Similar")).logs[0]
    assert better == pytest.approx(math.log(math.exp(-1.0) + math.exp(-1.5)))


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
    ("tokens", "total"),
    [
        ({"Better": 1.0, "Worse": 1.0, "Similar": 1.0}, "3.00"),
        ({"Better": 0.7, " better": 0.6, "BETTER": 0.2, "Worse": 0.1, "Similar": 0.1}, "1.70"),
        (
            {"The": 0.9, "Better": 0.2, "Worse": 0.1, "Similar": 0.1},
            "1.30",
        ),  # the labels alone are possible
    ],
)
def test_most_probable_tokens_that_add_to_more_than_one_are_unparsed(tokens, total):
    reading = complete(from_top(tops(**tokens), LABELS), LABELS)
    assert (reading.logprobs, reading.mass) == (None, None)
    assert reading.reason == (
        f"the returned probabilities add to {total}, more than 1; they cannot be trusted"
    )


def test_rounding_above_one_is_read():
    reading = complete(from_top(tops(Better=0.8, Worse=0.105, Similar=0.1), LABELS), LABELS)
    assert probabilities(reading) == pytest.approx([0.8, 0.105, 0.1])
    assert reading.mass == 1.0


def test_completed_labels_that_add_to_more_than_one_are_unparsed():
    partial = from_top(tops(Better=0.6, W=0.3, Similar=0.05), LABELS)
    reading = complete(partial, LABELS, [math.log(0.9)])  # p(Worse) cannot be more than p(W)
    assert (reading.logprobs, reading.mass) == (None, None)
    assert "add to 1.55, more than 1" in reading.reason


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


def test_ways_to_write_one_label_add_up():
    partial = from_top(
        tops(
            Better=0.4,
            better=0.1,
            **{" Better": 0.2, '"Better': 0.05, "Worse": 0.1, "Similar": 0.1},
        ),
        LABELS,
    )
    assert probabilities(complete(partial, LABELS)) == pytest.approx([0.75, 0.1, 0.1])


def test_a_label_outside_the_list_has_a_bound_and_no_number():
    partial = from_top(tops(Better=0.8, Similar=0.1, The=0.003), LABELS)
    reading = complete(partial, LABELS)
    assert reading.logprobs is None
    assert reading.reason == "label 'Worse' outside the top 3: p <= 0.003"


def test_the_bound_is_what_is_left_when_that_is_less_than_the_last_token():
    partial = from_top(tops(Better=0.7, Similar=0.29), LABELS)  # 0.01 is left, the last has 0.29
    assert complete(partial, LABELS).reason == "label 'Worse' outside the top 2: p <= 0.01"


def test_a_bound_that_cannot_matter_is_used_and_told():
    partial = from_top(tops(Better=0.8, Similar=0.1, The=0.00001), LABELS)
    reading = complete(partial, LABELS)
    assert probabilities(reading) == pytest.approx([0.8, 1e-5, 0.1])
    assert reading.note == "label 'Worse' outside the top 3: p <= 1e-05"
    assert (reading.exactness, reading.reason) == ("bounded", None)


def test_the_beginning_of_a_label_is_an_upper_bound_and_told():
    partial = from_top(tops(Better=0.6, W=0.3, Similar=0.05), LABELS)
    reading = complete(partial, LABELS)
    assert probabilities(reading) == pytest.approx([0.6, 0.3, 0.05])
    assert reading.note == "label 'Worse' read from its beginning 'W', an upper bound"
    assert (reading.exactness, reading.reason) == ("bounded", None)


def test_a_label_that_was_hardly_spelt_is_read_from_its_beginning():
    # Many tokens are in the list, so the spelling `worse` is there too, with next to nothing.
    partial = from_top(tops(Better=0.6, W=0.3, Similar=0.05, worse=0.001), LABELS)
    reading = complete(partial, LABELS)
    assert probabilities(reading) == pytest.approx([0.6, 0.301, 0.05])
    assert reading.note == "label 'Worse' read from its beginning 'W', an upper bound"


def test_a_label_that_is_as_likely_spelt_as_begun_is_unparsed():
    partial = from_top(tops(Better=0.5, W=0.2, Worse=0.2, Similar=0.05), LABELS)
    reading = complete(partial, LABELS)
    assert reading.logprobs is None
    assert reading.reason == "label 'Worse' was only begun: p <= 0.4"


def test_beginnings_that_were_completed_but_for_a_little():
    # Si goes on to Similar in 9 of 10 cases; what S goes on to is not known, and is little: .004 < .05 * .18
    partial = from_top(tops(Better=0.5, Worse=0.2, Si=0.2, S=0.004), LABELS)
    reading = complete(partial, LABELS, [math.log(0.18), None])
    assert probabilities(reading) == pytest.approx([0.5, 0.2, 0.18])
    assert reading.exactness == "exact"
    much = from_top(tops(Better=0.5, Worse=0.2, Si=0.15, S=0.1), LABELS)
    reading = complete(much, LABELS, [math.log(0.13), None])  # .1 > .05 * .13
    assert probabilities(reading) == pytest.approx([0.5, 0.2, 0.25])  # all that begins so: .15 + .1
    assert reading.note == "label 'Similar' read from its beginning 'Si', an upper bound"


def test_a_beginning_that_was_completed_is_exact():
    partial = from_top(tops(Better=0.6, W=0.3, Similar=0.05), LABELS)
    reading = complete(partial, LABELS, [math.log(0.3 * 0.9)])
    assert probabilities(reading) == pytest.approx([0.6, 0.27, 0.05])
    assert reading.exactness == "exact"
    assert reading.note is None


def test_one_is_not_ten_when_digits_are_tokens():
    labels = ("1", "2", "10")
    partial = from_top(tops(**{"1": 0.5, "2": 0.4}), labels)
    reading = complete(partial, labels)
    assert reading.logprobs is None
    assert "label '10' was only begun: p <= 0.5" in reading.reason
    completed = complete(partial, labels, [math.log(0.2)])
    assert probabilities(completed) == pytest.approx([0.3, 0.4, 0.2])  # .5 - .2 is left for 1


def test_no_label_at_all():
    reading = complete(from_top(tops(Mejor=0.9, El=0.05), LABELS), LABELS)
    assert reading.reason == "no label among the top 2 tokens; the first is 'Mejor'"


def test_minus_9999_is_not_a_number():
    rows = [
        {"token": "Better", "logprob": -0.1},
        {"token": "Worse", "logprob": -9999.0},
        {"token": "x", "logprob": None},
    ]
    choice = {"logprobs": {"content": [{"token": "Better", "logprob": -0.1, "top_logprobs": rows}]}}
    assert [(found.text, found.logprob) for found in first_choices(choice)] == [("Better", -0.1)]


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
    good = {"token": "Better", "logprob": -0.5}
    choice = {"logprobs": {"content": [{**good, "top_logprobs": [good, entry]}]}}
    with pytest.raises(
        Refusal, match=r"^an invalid entry among the log-probabilities: token .* with "
    ):
        checked_choices(choice)
    chosen = {
        "logprobs": {
            "content": [{**(entry if isinstance(entry, dict) else {}), "top_logprobs": [good]}]
        }
    }
    with pytest.raises(Refusal, match="an invalid entry"):
        checked_choices(chosen)


@pytest.mark.parametrize("completion", ["", "prefill", "grammar"])
def test_a_row_with_an_invalid_entry_is_refused_and_the_run_is_not(completion):
    rows = [
        {"token": "Better", "logprob": -0.5},
        {"token": "W", "logprob": -1.5},
        {"token": "x", "logprob": math.nan},
    ]

    class Server:
        """Its first answer is right, and those about the beginning `W` are not."""

        def __init__(self):
            self.answers = 0

        async def post(self, _path, _body):
            self.answers += 1
            valid = rows[:2] if self.answers == 1 and completion else rows
            return {
                "choices": [
                    {"logprobs": {"content": [{**rows[0], "top_logprobs": valid}, rows[2]]}}
                ]
            }

    client = Client(server=Server(), model="toy", options=Options(), tally=Tally())
    with pytest.raises(Refusal, match="an invalid ") as caught:
        asyncio.run(
            read_top(
                client,
                Capabilities(mode="top", top=20, completion=completion),
                [{"role": "user", "content": "x"}],
                LABELS,
            )
        )
    assert not caught.value.of_the_server
    assert not caught.value.ends_the_run


def test_a_token_of_no_probability_is_valid_and_left_out():
    rows = [{"token": "Better", "logprob": -0.1}, {"token": "Worse", "logprob": -9999.0}]
    rows.append({"token": "x", "logprob": -math.inf})
    choice = {"logprobs": {"content": [{**rows[0], "top_logprobs": rows}]}}
    assert [found.text for found in checked_choices(choice)] == ["Better"]
    assert checked_choices({"logprobs": None}) == []


def test_the_completions_shape_with_ids_for_names():
    choice = {"logprobs": {"top_logprobs": [{"token_id:17": -1.0, "token_id:4": -0.5}]}}
    assert [(found.id, found.text) for found in first_choices(choice)] == [(4, None), (17, None)]


@pytest.mark.parametrize(
    "choice",
    [
        None,
        {},
        {"logprobs": None},
        {"logprobs": {"content": []}},
        {"logprobs": {"top_logprobs": [None]}},
    ],
)
def test_no_log_probabilities(choice):
    assert first_choices(choice) == []


@pytest.mark.parametrize(
    ("choice", "missing"),
    [
        (None, "empty choice"),
        ({"message": {"content": None, "refusal": "I cannot"}}, "refusal"),
        ({"message": {"content": "Bet"}, "finish_reason": "content_filter"}, "content filter"),
        ({"message": {"content": "  "}, "finish_reason": "stop"}, "empty answer"),
        (
            {"message": {"content": "<think>so"}, "finish_reason": "length"},
            "cut while it was thinking",
        ),
        (
            {"message": {"content": "", "reasoning_content": "so"}, "finish_reason": "length"},
            "cut while it was thinking",
        ),
    ],
)
def test_answers_that_are_missing(choice, missing):
    assert parse_answer(choice).missing == missing


def test_a_writers_answer():
    done = written({"message": {"content": "<think>hm</think> Rain. "}, "finish_reason": "stop"})
    assert (done.text, done.finish, done.note) == ("Rain.", "stop", None)
    assert (
        written({"message": {"content": "Rain and"}, "finish_reason": "length"}).finish == "length"
    )
    filtered = written({"message": {"content": "x"}, "finish_reason": "content_filter"})
    assert (filtered.text, filtered.finish, filtered.note) == ("", "error", "content filter")


def test_content_in_parts():
    assert (
        parse_answer(
            {"message": {"content": [{"type": "text", "text": "Bet"}, {"text": "ter"}]}}
        ).text
        == "Better"
    )
