"""The length of answers that a dry run expects."""

import json
from dataclasses import replace
from pathlib import Path
from statistics import mean

import pytest
from asked import question

from refladder.backends.dry_run import ANSWER_TOKENS, expected_tokens

RECORDED = Path(__file__).parents[2] / "docs/examples/replies-answers/answers.jsonl"


@pytest.mark.parametrize(("role", "first"), [("rating-stated", "1:"), ("stated-shared", "A:")])
def test_expected_lengths_are_those_of_recorded_answers(role, first):
    texts = [json.loads(line)["text"] for line in RECORDED.read_text("utf-8").splitlines()]
    # A tokenizer that splits digits makes a token of each character of such an answer, and one of its end.
    lengths = [len(text) + 1 for text in texts if text.startswith(first) and text.count("\n") == 4]
    assert len(lengths) > 20
    assert ANSWER_TOKENS[role] == pytest.approx(mean(lengths), rel=0.1)


@pytest.mark.parametrize(
    ("role", "criteria", "most", "expected"),
    [
        ("rating-stated", None, 300, 28),
        ("rating-together", "a: x\nb: y\nc: z\nd: w", 300, 128),  # measured: 129
        ("rating-together", "a: x", 300, 32),  # measured: 31
        ("stated", None, 20, 20),
        # A model that thinks may take all of them, and so may a text of another role.
        ("stated", None, 4096, 4096),
        ("rung", None, 512, 512),
    ],
)
def test_expected_tokens_of_an_answer(role, criteria, most, expected):
    slots = {"target": "x"} if criteria is None else {"target": "x", "criteria": criteria}
    prompt = replace(question("x"), role=role, slots=slots)
    assert expected_tokens(prompt, most) == expected
