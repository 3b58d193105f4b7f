"""Texts and chats that a training loop scores: the answer behind thoughts is judged."""

from __future__ import annotations

import logging

import pytest

import refladder
from refladder.errors import UsageError
from refladder.integrations.trl import reward

TEXT = "Ember sneezed at gold, so she guarded opals in peace."
THOUGHT = f"<think>\nA dragon, and opals.\n</think>\n\n{TEXT}"
STORY = {"ladders": "demo/story", "dimensions": ["coherence"]}


def chat(*messages):
    return [{"role": role, "content": content} for role, content in messages]


FORMS = [
    TEXT,
    THOUGHT,
    f"<reasoning>A dragon.</reasoning>\n<answer>\n{TEXT}\n</answer>",
    chat(("assistant", TEXT)),
    chat(("assistant", THOUGHT)),
    chat(("assistant", "Wait."), ("tool", "42"), ("assistant", TEXT)),
]
NONE = {
    "the output is a thought without an answer": "<think>A dragon",
    "the chat ends in a tool's message": chat(("assistant", TEXT), ("tool", "42")),
    "the chat has no message of an assistant": chat(("user", TEXT)),
}


def test_forms_of_one_text_have_one_score_and_others_none_with_the_reason(caplog):
    with refladder.Scorer(**STORY) as scorer, caplog.at_level(logging.WARNING):
        first, *others = scorer.score([*FORMS, *NONE.values()], context_id="story-04")
    same, none = others[: len(FORMS) - 1], others[len(FORMS) - 1 :]
    assert {score.value for score in same} == {first.value}
    assert [score.reason for score in none] == list(NONE)
    assert {score.value for score in none} == {None}
    told = "thoughts are in front of texts: what follows them is judged; text_of='whole' judges the whole texts"
    assert told in caplog.text
    given = reward(**STORY)(completions=[*FORMS, *NONE.values()], context_id=["story-04"] * 9)
    assert given == [first.value] * len(FORMS) + [None] * len(NONE)


def test_whole_texts_are_judged():
    with refladder.Scorer(**STORY, text_of="whole") as scorer:
        plain, thought = scorer.score([TEXT, THOUGHT], context_id="story-04")
    assert None not in {plain.value, thought.value}
    assert plain.value != thought.value
    with pytest.raises(UsageError, match=r"^text_of must be 'answer' or 'whole', found 'half'"):
        refladder.Scorer(**STORY, text_of="half")
