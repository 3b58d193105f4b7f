"""Which choice answers which prompt: by an index that each has once."""

import pytest

from refladder.backends.openai.client import _check_number, _choices, in_order_of_index
from refladder.backends.openai.errors import Refusal


def test_choices_are_in_the_order_of_their_indices():
    assert (
        in_order_of_index([{"index": 1, "a": "x"}, {"index": 0, "a": "y"}], 2, "choices")[0]["a"]
        == "y"
    )
    assert in_order_of_index([{"text": "one"}], 1, "choices") == [{"text": "one"}]


@pytest.mark.parametrize(
    ("indices", "count"), [([0, 0], 2), ([0, 1], 1), ([0], 2), ([0, 2], 2), ([0, [1]], 2), ([0, {}], 2), ([0, None], 2),
                           ([True, 0], 2), ([1], 1), ([], 1)]
)  # fmt: skip
def test_choices_that_answer_nobody_knows_what_are_refused(indices, count):
    entries = [{"index": index, "text": str(place)} for place, index in enumerate(indices)]
    with pytest.raises(
        Refusal, match=rf"{len(indices)} choices with the indices .* for {count} text"
    ):
        in_order_of_index(entries, count, "choices")


def test_a_choice_that_is_sent_twice_is_one_choice():
    answer = {"choices": [{"index": 0, "text": "a"}, {"index": 0, "text": "a"}]}
    assert _choices(answer) == [{"index": 0, "text": "a"}]
    equal = {"choices": [{"text": "a"}, {"text": "a"}]}  # two answers, of a server without indices
    assert len(_choices(equal)) == 2


@pytest.mark.parametrize("indices", [[0, 1, 2], [0, 0], [[0], 1], [{}]])
def test_more_answers_than_asked_for_and_doubled_indices_are_refused(indices):
    with pytest.raises(Refusal, match=r"choices with the indices .*, where 2 were asked for"):
        _check_number(
            [{"index": index, "text": str(place)} for place, index in enumerate(indices)], 2
        )
    _check_number([{"text": "a"}, {"text": "b"}], 2)
