"""The letters of texts and languages."""

from __future__ import annotations

import pytest

from refladder.loaders.letters import letters_of, letters_of_language


@pytest.mark.parametrize(
    ("text", "letters"),
    [
        ("Die Welle, 3 mal.", "Latin"),
        ("Волна (wave) переносит энергию", "Cyrillic"),
        ("ねこがすき", "CJK"),
        ("猫在睡觉", "CJK"),
        ("물결", "Hangul"),
        ("1, 2, 3!", None),
    ],
)
def test_the_letters_of_a_text_are_those_of_most_of_it(text, letters):
    assert letters_of(text) == letters


@pytest.mark.parametrize(
    ("language", "letters"),
    [
        ("en", {"Latin"}),
        ("de-AT", {"Latin"}),
        ("uk", {"Cyrillic"}),
        # Serbian is written in both.
        ("sr", {"Cyrillic", "Latin"}),
        ("ja", {"CJK"}),
        ("", set()),
        ("tlh", set()),
    ],
)
def test_the_letters_of_a_language(language, letters):
    assert letters_of_language(language) == letters


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("en", "Hello"), ("ru", "Привет"), ("el", "Γειά"), ("ar", "مرحبا"), ("he", "שלום"), ("hi", "नमस्ते"), ("zh", "你好"),
        ("ja", "こんにちは"), ("ko", "안녕하세요"), ("th", "สวัสดี"), ("bn", "নমস্কার"), ("ta", "வணக்கம்"), ("ka", "გამარჯობა"),
        ("hy", "Բարեւ"), ("am", "ሰላም"),
    ],
)  # fmt: skip
def test_a_greeting_is_in_the_letters_of_its_language(language, text):
    assert letters_of_language(language) == {letters_of(text)}
