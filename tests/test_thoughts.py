"""Marked thoughts of models, and what is the answer behind them."""

from __future__ import annotations

import pytest

from refladder.thoughts import (
    after_thoughts,
    answer_part,
    has_thoughts,
    without_thoughts,
)

MARKED = [
    "<think>\nA plan.\n</think>\n\n{}",
    "<THINKING>A plan.</THINKING>{}",
    "<thought>A plan.</thought>{}",
    "<reason>A plan.</reason>\n<answer>\n{}\n</answer>",
    "<reasoning>A plan.</reasoning><think>Another.</think> {}",
    "A plan, as the template opened it.</think>\n\n{}",
    "[THINK]A plan.[/THINK]{}",
    "◁think▷A plan.◁/think▷{}",
    "<seed:think>A plan.</seed:think>{}",
    "<|begin_of_thought|>A plan.<|end_of_thought|>{}",
    "<|START_THINKING|>A plan.<|END_THINKING|>{}",
    "<|channel>thought\nA plan.<channel|>{}",
    "<|channel|>analysis<|message|>A plan.<|end|><|start|>assistant<|channel|>final<|message|>{}<|return|>",
]
TEXT = "Ember sneezed at gold, so she guarded opals in peace."


@pytest.mark.parametrize("marked", MARKED)
def test_the_answer_follows_marked_thoughts(marked):
    whole = marked.format(TEXT)
    assert after_thoughts(whole) == TEXT
    assert answer_part(whole, ended=True) == TEXT
    assert has_thoughts(whole)


@pytest.mark.parametrize(
    "text",
    [
        TEXT,
        f"{TEXT}\nThen she said: <think>gold</think>",
        f"  {TEXT}\n",
        f"<notes>gold</notes>\n{TEXT}",
        f"<answer>{TEXT}</answer>",
    ],
)
def test_a_text_that_begins_with_no_thought_is_as_it_was(text):
    assert after_thoughts(text) == text


@pytest.mark.parametrize(
    "text",
    ["<think>\nA plan, then", "[THINK]A plan", "<|channel>thought\nA plan", "<think></think>"],
)
def test_thoughts_alone_leave_nothing(text):
    assert after_thoughts(text) == without_thoughts(text) == ""


CHANNELS = "<|channel|>analysis<|message|>Worse?<|end|><|channel|>final<|message|>Better<|return|>"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("<think>Worse?</think>Better", "Better"),
        ("Worse, perhaps.</think>\n\nBetter", "Better"),
        ("<think>Worse, because", ""),
        (CHANNELS, "Better"),
        ("no thoughts", "no thoughts"),
    ],
)
def test_thoughts_are_no_answer(text, left):
    assert without_thoughts(text) == left


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("<notes>Worse?</notes>\nBetter", "Better"),
        ("Well.\n<notes>Worse?</notes>\nBetter", "Well.\n\nBetter"),
        ("<notes>Worse?</notes><plan>It is short.</plan>Better", "Better"),
        # nothing else is said
        ("<notes>Better</notes>", "Better"),
        ("<notes>\nBetter\n", "<notes>\nBetter"),
        ("A <b>fine</b> text: <85 of 100>", "A fine text: <85 of 100>"),
        ("<answer>Worse</answer>No.<answer>Better</answer> Yes.", "Better Yes."),
        ("Better</s>", "Better"),
        ("<|start|>assistant\nBetter<|im_end|>", "assistant\nBetter"),
        ("\ufeff1：\u00a0９５％ ½", "1: 95% ½"),  # noqa: RUF001
    ],
)
def test_what_is_in_front_of_an_answer_is_cut(text, left):
    assert answer_part(text, ended=True) == left


def test_what_a_cut_answer_says_after_an_unclosed_tag_is_a_thought():
    assert answer_part("Well.\n<notes>\nBetter\nThe", ended=False) == "Well."


@pytest.mark.parametrize(
    "piece",
    [
        "<think>",
        "</think>",
        "[THINK]",
        "<a>",
        "</a>",
        "<a></a>",
        "<answer>",
        "<|channel|>",
        "<|",
        "< ",
        "\uff11",
    ],
)
def test_long_texts_take_no_time(piece):
    text = piece * 30_000
    assert len(answer_part(text, ended=False)) <= len(text)
    assert len(after_thoughts(text)) <= len(text)


def test_many_tags_take_no_time():
    names = range(3_000)
    text = "".join(f"</a{name}>" for name in names) + "".join(f"<a{name}>" for name in names)
    assert answer_part(text, ended=False) == text[: text.index("<a0>")]
