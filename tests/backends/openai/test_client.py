"""Which choice answers which prompt: by an index that each has once."""

import pytest

from refladder.backends.openai.client import _check_number, _choices, in_order_of_index
from refladder.backends.openai.errors import Refusal


def with_indices(indices):
    return [{"index": index, "text": str(place)} for place, index in enumerate(indices)]


def test_choices_are_in_the_order_of_their_indices():
    found = in_order_of_index(with_indices([1, 0]), 2, "choices")
    assert [each["text"] for each in found] == ["1", "0"]
    assert in_order_of_index([{"text": "one"}], 1, "choices") == [{"text": "one"}]


UNKNOWN = [[0, 0], [0], [0, 2], [0, [1]], [0, {}], [0, None], [True, 0]]


@pytest.mark.parametrize(
    ("indices", "count"), [*((each, 2) for each in UNKNOWN), ([0, 1], 1), ([1], 1), ([], 1)]
)
def test_choices_that_answer_nobody_knows_what_are_refused(indices, count):
    message = rf"{len(indices)} choices with the indices .* for {count} text"
    with pytest.raises(Refusal, match=message):
        in_order_of_index(with_indices(indices), count, "choices")


def test_a_choice_that_is_sent_twice_is_one_choice():
    once = {"index": 0, "text": "a"}
    assert _choices({"choices": [once, dict(once)]}) == [once]
    # two answers, of a server without indices
    assert len(_choices({"choices": [{"text": "a"}, {"text": "a"}]})) == 2


@pytest.mark.parametrize("indices", [[0, 1, 2], [0, 0], [[0], 1], [{}]])
def test_more_answers_than_asked_for_and_doubled_indices_are_refused(indices):
    with pytest.raises(Refusal, match=r"choices with the indices .*, where 2 were asked for"):
        _check_number(with_indices(indices), 2)
    _check_number([{"text": "a"}, {"text": "b"}], 2)
