"""The reader of stated probabilities: what is unambiguous is read, and everything else has a reason."""

from __future__ import annotations

import pytest

from refladder.scoring.modes.stated_answer import stated_numbers

NUMBERS = [85.0, 60.0, 5.0]
READ = [
    "A: 85\nB: 60\nC: 5",
    "A: 85\r\nB: 60\r\nC: 5\r\n",
    "A: 85%\nB: 60 %\nC: 5 percent",
    "**A:** 85\n**B**: 60%\n*C:* `5`",
    "A = 85\nB=60\n  C  =  5",
    "A) 85%\nB) 60%\nC) 5%",
    "(A): 85\n(B) 60\n[C]: 5",
    "- A: 85\n- B: 60\n- C: 5",
    "1. A: 85\n2. B: 60\n3. C: 5",
    "A - 85\nB \u2013 60\nC \u2014 5",
    "A -> 85\nB → 60\nC => 5",
    "| A | 85 |\n| B | 60 |\n| C | 5 |",
    "a: 85\nb: 60\nc: 5",
    "Reference response A: 85\nReference B: 60\nthe reference summary C: 5",
    "A: 85.\nB: 60.0\nC: +5",
    "A: 85/100\nB: 60 out of 100\nC: 5",
    "A: 85 (clearly better)\nB: 60, since it is dull\nC: 5 - much worse",
    "A: 85, B: 60; C: 5",
    "A: 85\n\nThe next one is better.\n\nB: 60\nC: 5",
    "C: 5\nA: 85\nB: 60",
    '{"A": 85, "B": 60, "C": 5}',
    '```json\n{\n  "A": 85,\n  "B": "60%",\n  "C": 5.0\n}\n```',
    'Here it is: \n{"probabilities": {"A": 85,\n "B": 60,\n "C": 5}}',
    "The target has 3 faults.\nA: it names 2 of 4 points, so 40 or 50.\n\nA: 85\nB: 60\nC: 5",
    "A: 10\nB: 20\nC: 30\nOn a second look:\nA: 85\nB: 60\nC: 5",
    "<think>A: 1\nB: 2\nC: 3</think>\nA: 85\nB: 60\nC: 5",
    "A: 1\nB: 2\nC: 3</think>A: 85\nB: 60\nC: 5",
    "A: 85\nB: 60\nC: 5\n\nI am fairly sure.",
]
UNREAD = [
    ("", "no number for A, B, C"),
    ("I cannot tell.", "no number for A, B, C"),
    ("85\n60\n5", "no single number in '85'"),
    ("A: 85\nC: 5", "no number for B"),
    ("A: 85\nB: high\nC: 5", "no single number in 'B: high'"),
    ("A: 85\nA: 70\nB: 60\nC: 5", "A has two numbers, 85 and 70"),
    ("A: 85\n\nA: 70\n\nB: 60\n\nC: 5", "A has two numbers, 85 and 70"),
    ("A: 85\nB: 60\nC: 5\nA: 85", "no number for B, C"),
    ("A: 85\nB: 60\nC: 5\nA: 80", "no number for B, C"),
    ('{"A": 85, "B": 60, "B": 61, "C": 5}', "B has two numbers, 60 and 61"),
    ("A: 85\nB: 60\nC: 5\nD: 4", "D names no reference"),
    ("A: 101\nB: 60\nC: 5", "above 100 in 'A: 101'"),
    ("A: 85\nB: -1\nC: 5", "below 0 in 'B: -1'"),
    ("A: 80-90\nB: 60\nC: 5", "no single number in 'A: 80-90'"),
    ("A: 80 \u2013 90\nB: 60\nC: 5", "no single number in 'A: 80 \u2013 90'"),
    ("A: 80 to 90\nB: 60\nC: 5", "no single number in 'A: 80 to 90'"),
    ("A: 8e1\nB: 60\nC: 5", "no single number in 'A: 8e1'"),
    ("A: <85\nB: 60\nC: 5", "no single number in 'A: <85'"),
    ("A: about 85\nB: 60\nC: 5", "no single number in 'A: about 85'"),
    ("A: 85 B: 60 C: 5", "no single number in 'A: 85 B: 60 C: 5'"),
    ("A: 0.85\nB: 0.6\nC: 0.05", "shares of 1 and no numbers from 0 to 100"),
    ("<think>A: 85\nB: 60\nC: 5", "no number for A, B, C"),
]


@pytest.mark.parametrize("answer", READ)
def test_unambiguous_answers_are_read(answer):
    assert stated_numbers(answer, "ABC") == NUMBERS


@pytest.mark.parametrize(("answer", "reason"), UNREAD)
def test_other_answers_have_a_reason(answer, reason):
    assert stated_numbers(answer, "ABC") == reason


def test_small_percentages_are_no_shares_of_1():
    assert stated_numbers("A: 1\nB: 0\nC: 0", "ABC") == [1, 0, 0]
    assert stated_numbers("A: 0.5%\nB: 0.1%\nC: 0%", "ABC") == [0.5, 0.1, 0]
    assert stated_numbers("A: 0.5\nB: 0.1\nC: 2", "ABC") == [0.5, 0.1, 2]


def test_the_last_line_of_a_cut_answer_is_not_read():
    # "5" may have become "55".
    assert stated_numbers("A: 85\nB: 60\nC: 5", "ABC", ended=False) == (
        "no number for C (the answer was cut at the limit)"
    )
    assert stated_numbers("A: 85\nB: 60\nC: 5\nThe rea", "ABC", ended=False) == NUMBERS
    assert stated_numbers("A: 85\nB: 60\nC: 5\n", "ABC", ended=False) == NUMBERS


def test_long_answers_take_no_time():
    for piece in ("A", "A: ", ", ", " ", "A:1,", "{", "1", "- ", "A - ", "\n"):
        assert isinstance(stated_numbers(piece * 30_000, "ABC"), str)
