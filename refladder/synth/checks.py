"""Check whether a generated text can be used as a rung."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from refladder.files.jsonl import is_unicode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from refladder.records import Completion

# A refusal is recognised by the task it says it cannot do, never by an apology alone: stories and dialogues apologise
# too. Patterns are matched at the start of the text, casefolded, with straight apostrophes and single spaces.
_APOLOGY = (
    r"(?:(?:i'm|i am)(?: (?:so|very|truly|really))? sorry|sorry|i apologi[sz]e(?: for [^,.!?]{0,40})?"
    r"|(?:my )?apologies|unfortunately)"
)
_CANNOT = (
    r"i(?: can't| cannot| can not| won't| will not|(?:'m| am) (?:unable to|not able to|not comfortable)"
    r"| must decline to| have to decline to)"
)
_WRITE = (
    r"(?:writ(?:e|ing)|generat(?:e|ing)|creat(?:e|ing)|produc(?:e|ing)|provid(?:e|ing)|compos(?:e|ing)"
    r"|continu(?:e|ing)|complet(?:e|ing)|summari[sz](?:e|ing)|craft(?:ing)?|draft(?:ing)?)"
)
_TEXT = (
    r"(?:an?|the|this|that|these|such|any|your)\b[^.!?]{0,60}?\b(?:summar(?:y|ies)|stor(?:y|ies)|responses?"
    r"|repl(?:y|ies)|text|article|dialogue|conversation|description|sentences?|passage|output|material|request|prompt)\b"
)
_TASK = r"(?:that|this|your|the) (?:request|task|prompt)\b"
_REFUSALS = tuple(
    re.compile(rf"(?:{_APOLOGY}[,;.:!]? (?:but |however,? )?)?(?:{pattern})")
    for pattern in (
        # "I'm sorry, but I can't assist with that." "I cannot help you with this request"
        rf"{_CANNOT} (?:help|assist)(?: you)? with (?:(?:that|this)(?:[.!,;]|$)|{_TASK})",
        # "I can't fulfill your request." "Sorry, but I cannot comply with that." "I must decline this request"
        rf"{_CANNOT} (?:comply with|(?:fulfil|fulfill|satisfy) {_TASK})",
        rf"i (?:must|have to) (?:respectfully )?decline {_TASK}",
        # "I can't write a story that ..." "I'm not comfortable writing such a summary" "I cannot create such content"
        rf"{_CANNOT} {_WRITE} (?:{_TEXT}|[^,.!?]{{0,40}}?\bcontent\b)",
        # "As an AI language model, I don't have ..."; "As an AI, I cannot write ..." (but not "As an AI, I served ...")
        rf"as an? [^,.!?]{{0,40}}\blanguage model\b[^.!?]{{0,80}}?(?:{_CANNOT}|i (?:don't|do not) have)\b",
        rf"as an? (?:ai|artificial intelligence)\b[^.!?]{{0,40}}?{_CANNOT} (?:{_WRITE}|help|assist|comply|fulfil)",
    )
)
# Characters: a refusal says so in its first sentence or two.
_REFUSAL_WINDOW = 400
# A text that announces itself is recognised by a word of revision ("Here is a suggested revised response"), by a
# courtesy and a colon ("Sure! Here's the summary:"), or by a first line that ends in a colon ("Here is a story:").
_OWN = r"(?:summary|story|response|reply|dialogue|conversation|description|passage|version|draft|answer|continuation)\b"
_HERE = r"(?:here(?:'s| is)|below is|this is|the following is) (?:an?|the|my|your|one) "
_REVISED = r"(?:revised|rewritten|reworked|suggested|improved|modified|polished|refined|sample) "
_COURTESY = r"(?:sure(?: thing)?|certainly|of course|absolutely|okay|ok)[,.!:;]? "
_ASIDES = tuple(
    re.compile(pattern)
    for pattern in (
        rf"(?:{_COURTESY})?{_HERE}(?:[\w-]+ ){{0,2}}?{_REVISED}(?:[\w-]+ ){{0,2}}?{_OWN}",
        rf"{_COURTESY}{_HERE}[^.!?:]{{0,60}}?{_OWN}[^.!?:]{{0,80}}:",
    )
)
_ASIDE_LINE = re.compile(rf"{_HERE}(?:[\w-]+ ){{0,3}}?{_OWN}[^.!?:]{{0,80}}:")


def _folded(text: str) -> str:
    return " ".join(text.split()).casefold()


def _beginning(text: str) -> str:
    return _folded(text)[:_REFUSAL_WINDOW].replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")


def _not_the_text(text: str) -> str | None:
    """Return how a text begins that is a refusal or talks about itself; None for any other."""
    opening = _beginning(text)
    first_line = _beginning(text.strip().splitlines()[0])
    if any(refusal.match(opening) for refusal in _REFUSALS):
        return f"refused: {opening[:60]}"
    if any(aside.match(opening) for aside in _ASIDES) or _ASIDE_LINE.fullmatch(first_line):
        return f"aside: the text talks about itself: {opening[:60]}"
    return None


def why_unusable(completion: Completion, existing_texts: Mapping[int, str]) -> str | None:
    """Return why a text cannot be a rung (failed, truncated, empty, refused, aside, duplicate); None if it can."""
    if completion.finish == "length":
        return "truncated: the writer reached max_tokens"
    if completion.finish != "stop":
        return f"failed: {completion.note or completion.finish}"
    if not is_unicode(completion.text):
        return "failed: the text holds half a surrogate pair, which no file can hold"
    folded = _folded(completion.text)
    if not folded:
        return "empty: nothing but white space"
    if beside := _not_the_text(completion.text):
        return beside
    same = same_text(completion.text, existing_texts)
    return None if same is None else f"duplicate: the same text as level {same}"


def same_text(text: str, existing_texts: Mapping[int, str]) -> int | None:
    """Return the lowest level with this text, after folding case and white space; None if there is none."""
    folded = _folded(text)
    return min(
        (level for level, other in existing_texts.items() if _folded(other) == folded), default=None
    )
