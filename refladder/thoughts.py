"""Which part of a written text is the answer: thoughts, tags around an answer, and other forms of its characters.

Models mark their thoughts in many ways, and every reader of answers removes them here.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

# What of an output is judged: what follows its thoughts, or all of it.
ANSWER, WHOLE = TEXTS_OF = ("answer", "whole")
# Characters of an answer that are read; no form of answer that a prompt asks for needs a tenth of them.
LONGEST = 100_000
CUT = f"only the first {LONGEST:,} characters of the answer were read"

# No pattern here may take the square of the length of an answer.
_TAGS = r"(?:seed:)?(?:think(?:ing)?|thoughts?|reason(?:ing)?)"
# Other marks at the beginning of thoughts, and those at their end.
_MARKS = {
    "[think]": "[/think]",
    "◁think▷": "◁/think▷",
    "<|channel>thought": "<channel|>",
    "<|channel|>analysis<|message|>": "<|end|>",
    "<|channel|>commentary<|message|>": "<|end|>",
    "<|begin_of_thought|>": "<|end_of_thought|>",
    "<|start_thinking|>": "<|end_thinking|>",
}
_OPENED = re.compile(f"<({_TAGS})>|" + "|".join(map(re.escape, _MARKS)), re.IGNORECASE)
_BEGINS = re.compile(rf"\s*+(?:{_OPENED.pattern})", re.IGNORECASE)
# The end of a message of a channel says nothing by itself.
_ENDS = "|".join(map(re.escape, sorted(set(_MARKS.values()) - {"<|end|>"})))
_CLOSED = re.compile(f"</(?:{_TAGS})>|{_ENDS}", re.IGNORECASE)
_CHANNEL = re.compile(
    r"<\|channel\|>final<\|message\|>(.*?)(?:<\|return\|>|<\|end\|>|$)", re.DOTALL
)
_IN_ANSWER = re.compile(r"\s*<answer>(.*)</answer>\s*", re.DOTALL | re.IGNORECASE)

# Tags that name an answer, and those that format a word; all others hold what comes before an answer.
_ANSWERS = (
    r"(?:final[_-]?)?(?:answer|output|results?|response|ratings?|scores?|verdict|label|judge?ment|grade|choice|decision"
    r"|probabilities|percentages)|final|solution"
)
_FORMATS = r"b|i|u|em|strong|code|mark|span|small|p|br|pre|div"
_ANSWER = re.compile(f"<(?:{_ANSWERS})>", re.IGNORECASE)
_WORD_TAG = re.compile(rf"</?(?:{_FORMATS}|{_ANSWERS})(?:\s[^<>]*)?/?>", re.IGNORECASE)
_ELEMENT = re.compile(r"<([a-z][\w:.-]*)>", re.IGNORECASE)
# Tokens that end a text or a turn.
_TOKENS = re.compile(r"<\|[a-z_0-9]{1,40}\|>|</?s>|<eos>|<(?:start|end)_of_turn>", re.IGNORECASE)
_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u2060\ufeff]")
_OTHER_FORMS = str.maketrans({"：": ":", "％": "%", "٪": "%", "\u00a0": " ", "\u202f": " "})  # noqa: RUF001
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")


def without_thoughts(text: str) -> str:
    """Return a text without its marked thoughts, closed or not."""
    final = _CHANNEL.search(text)
    if final is not None:
        return final.group(1)
    blocks, _ = _blocks(text, _OPENED, _end_of_thought)
    text = _without(text, blocks)
    # If the chat template opened the block, only its end is in the answer.
    text = text[max((closed.end() for closed in _CLOSED.finditer(text)), default=0) :]
    opened = _OPENED.search(text)
    if opened is not None:
        text = text[: opened.start()]
    return text.strip()


def has_thoughts(text: str) -> bool:
    """Return whether a text has a marked thought, closed or not."""
    return _OPENED.search(text) is not None or _CLOSED.search(text) is not None


def after_thoughts(text: str) -> str:
    """Return what a text says after the marked thoughts that it begins with, empty if they do not end.

    Marks within a text belong to it. A text that begins with no thought is returned as it is.
    """
    begins = text.lstrip().casefold()
    final = _CHANNEL.search(text) if begins.startswith("<|channel|>") else None
    if final is not None:
        return final.group(1).strip()
    position = 0
    while (opened := _BEGINS.match(text, position)) is not None:
        closed = re.compile(_end_of_thought(opened), re.IGNORECASE).search(text, opened.end())
        if closed is None:
            return ""
        position = closed.end()
    if not position:
        # If the chat template opened the thought, only its end is in the text.
        closed = _CLOSED.search(text)
        if closed is None or _OPENED.search(text, 0, closed.start()) is not None:
            return text
        position = closed.end()
    said = text[position:]
    inside = _IN_ANSWER.fullmatch(said)
    return (said if inside is None else inside[1]).strip()


def answer_part(text: str, *, ended: bool) -> str:
    """Return the part of a judge's text that can answer, in plain characters.

    What is inside other tags, and followed by something, counts as thoughts; so does what comes after an unclosed tag,
    unless the text `ended`. Of several `<answer>`, the last one counts, and what follows it.
    """
    text = _TOKENS.sub("\n", without_thoughts(text))
    if not text.isascii():
        text = _NOT_ASCII.sub(_plain, _INVISIBLE.sub("", text))
    start = max((answer.end() for answer in _ANSWER.finditer(text)), default=0)
    text = _WORD_TAG.sub("", text[start:])
    blocks, unclosed = _blocks(text, _ELEMENT, lambda opened: f"</{re.escape(opened[1])}>")
    if unclosed is not None and not ended:
        text = text[:unclosed]
        blocks = [block for block in blocks if block.stop <= unclosed]
    if blocks and not text[blocks[-1].stop :].strip():
        *blocks, whole = blocks
        text = text[: whole.start] + text[whole.inside]
    return _without(text, blocks).strip()


class _Block(NamedTuple):
    start: int
    inside: slice
    stop: int


def _blocks(
    text: str, opening: re.Pattern[str], closing: Callable[[re.Match[str]], str]
) -> tuple[list[_Block], int | None]:
    """Return the closed blocks of a text, and where the first unclosed one begins."""
    blocks: list[_Block] = []
    end = 0
    unclosed: dict[str, int] = {}
    ends: dict[str, re.Pattern[str]] = {}
    for opened in opening.finditer(text):
        mark = opened[0].casefold()
        if opened.start() < end or mark in unclosed:
            continue
        if mark not in ends:
            ends[mark] = re.compile(closing(opened), re.IGNORECASE)
        closed = ends[mark].search(text, opened.end())
        if closed is None:
            # No later block of this name is closed either.
            unclosed[mark] = opened.start()
            continue
        end = closed.end()
        blocks.append(_Block(opened.start(), slice(opened.end(), closed.start()), end))
    return blocks, min(unclosed.values(), default=None)


def _without(text: str, blocks: Iterable[_Block]) -> str:
    kept = []
    end = 0
    for block in blocks:
        kept.append(text[end : block.start])
        end = block.stop
    return "".join([*kept, text[end:]])


def _end_of_thought(opened: re.Match[str]) -> str:
    """Return the pattern of the end of a thought."""
    tag = opened[1]
    return re.escape(f"</{tag}>" if tag else _MARKS[opened[0].strip().casefold()])


def _plain(character: re.Match[str]) -> str:
    """Return a digit of another script, a full-width colon or a space as ASCII, and other characters as they are."""
    found = character[0].translate(_OTHER_FORMS)
    return str(unicodedata.decimal(found, found))
