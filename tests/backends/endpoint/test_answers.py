import pytest

from refladder.backends.openai.answers import label_in, said, without_thoughts, written

LABELS = ("Better", "Worse", "Similar")


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("Better", 0),
        ("better.", 0),
        ('"Worse"', 1),
        ("**Similar**", 2),
        ("Answer: Worse", 1),
        ("Final answer is: Better", 0),
        ("WORSE - the reference is better", 1),
        ("The target summary is worse.", 1),
        ('{"verdict": "Similar"}', 2),
        ('```json\n{"answer": {"label": "better"}}\n```', 0),
        ("I would say: similar", 2),
    ],
)
def test_labels_in_every_dress(text, number):
    assert label_in(text, LABELS) == number


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Mejor", "no label in the answer"),
        ("", "no label in the answer"),
        ("Betterment", "no label in the answer"),
        ("Is it better or worse? Hard to say.", "several labels in the answer"),
        ("It is not better", "a negated label in the answer"),
        ("It isn't any better", "a negated label in the answer"),
        ('["Better", "Worse"]', "several labels in the answer"),
    ],
)
def test_what_says_no_label_says_why(text, reason):
    assert label_in(text, LABELS) == reason


def test_numbers_are_whole_words():
    labels = tuple(map(str, range(1, 11)))
    assert label_in("10", labels) == 9
    assert label_in("8/10", labels) == 7


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("<think>Worse?</think>Better", "Better"),
        ("Worse, perhaps.</think>\n\nBetter", "Better"),
        ("<think>Worse, because", ""),
        ("<|channel|>analysis<|message|>Worse?<|end|><|channel|>final<|message|>Better<|return|>", "Better"),
        ("no thoughts", "no thoughts"),
    ],
)
def test_thoughts_are_no_answer(text, left):
    assert without_thoughts(text) == left


@pytest.mark.parametrize(
    ("choice", "missing"),
    [
        (None, "empty choice"),
        ({"message": {"content": None, "refusal": "I cannot"}}, "refusal"),
        ({"message": {"content": "Bet"}, "finish_reason": "content_filter"}, "content filter"),
        ({"message": {"content": "  "}, "finish_reason": "stop"}, "empty answer"),
        ({"message": {"content": "<think>so"}, "finish_reason": "length"}, "cut while it was thinking"),
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
    assert written({"message": {"content": "Rain and"}, "finish_reason": "length"}).finish == "length"
    filtered = written({"message": {"content": "x"}, "finish_reason": "content_filter"})
    assert (filtered.text, filtered.finish, filtered.note) == ("", "error", "content filter")


def test_content_in_parts():
    assert said({"message": {"content": [{"type": "text", "text": "Bet"}, {"text": "ter"}]}}).text == "Better"
