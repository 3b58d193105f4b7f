"""The letters that a text, and a language, is written in."""

from __future__ import annotations

import unicodedata
from collections import Counter

# Letters, as `letters_of` names them, and languages (ISO 639-1) that are written in them.
_LANGUAGES = {
    "Latin": "af az bs ca cs cy da de en es et eu fi fr ga gl hr hu id is it lt lv ms nl no pl pt ro sk sl sq sr sv sw tr vi",
    "Cyrillic": "be bg kk ky mk mn ru sr tg uk",
    "Greek": "el",
    "Arabic": "ar fa ps ur",
    "Hebrew": "he yi",
    "Devanagari": "hi mr ne",
    "Bengali": "as bn",
    "Tamil": "ta",
    "CJK": "ja zh",
    "Hangul": "ko",
    "Thai": "th",
    "Georgian": "ka",
    "Armenian": "hy",
    "Ethiopic": "am ti",
}


def letters_of(text: str) -> str | None:
    """Return the script of most letters of a text, as Unicode names it (Latin, Cyrillic, Arabic); None without letters.

    Chinese and Japanese are both CJK, as they share characters.
    """
    letters = filter(str.isalpha, text)
    kinds = Counter(unicodedata.name(letter, "").partition(" ")[0] for letter in letters)
    if not kinds:
        return None
    [(kind, _)] = kinds.most_common(1)
    return "CJK" if kind in {"CJK", "HIRAGANA", "KATAKANA"} else kind.title()


def letters_of_language(language: str) -> set[str]:
    """Return the letters that a language (`de`, `de-AT`) is written in, as `letters_of` names them; none if it is unknown."""
    code = language.partition("-")[0]
    return {letters for letters, languages in _LANGUAGES.items() if code in languages.split()}
