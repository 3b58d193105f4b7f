import pytest

from refladder.backends.openai.responses import said, written


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
    assert said(choice).missing == missing


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
        said({"message": {"content": [{"type": "text", "text": "Bet"}, {"text": "ter"}]}}).text
        == "Better"
    )
