"""Reads one answer of a chat: which label it says, or why it says none; and the text a writer wrote.

Answers are data. A label counts when the answer begins with it, is JSON that holds it, or names it and no other label.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from refladder.errors import DataError
from refladder.parsing import parse_json
from refladder.records import Completion

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_THOUGHTS = re.compile(r"<(think|thinking|thought|reasoning)>.*?</\1>", re.DOTALL | re.IGNORECASE)
_OPENED = re.compile(r"<(think|thinking|thought|reasoning)>", re.IGNORECASE)
_CLOSED = re.compile(r"^.*</(think|thinking|thought|reasoning)>", re.DOTALL | re.IGNORECASE)
_CHANNEL = re.compile(r"<\|channel\|>final<\|message\|>(.*?)(?:<\|return\|>|<\|end\|>|$)", re.DOTALL)
_FENCE = re.compile(r"^```\w*\s*(.*?)\s*```$", re.DOTALL)
_NEGATION = re.compile(r"(?:\bnot|\bnever|\bneither|n't|n\u2019t)\s+(?:\w+\s+)?$", re.IGNORECASE)
_LEAD = re.compile(r"^(?:(?:final\s+)?(?:answer|verdict|label|judge?ment)\s*(?:is)?\s*[:=\-]?\s*)", re.IGNORECASE)
_MARKS = " \t\r\n\"'`*_#([{<“”‘’«»"  # noqa: RUF001  what may stand before an answer's first word


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """The text of a choice without its thoughts, or `missing`: why there is none."""

    text: str
    finish: str
    missing: str | None = None
    thought: bool = False


def said(choice: Any) -> Said:  # noqa: ANN401  a server's JSON
    """What a choice of a chat answer says, thoughts taken out."""
    if not isinstance(choice, dict):
        return Said(text="", finish="", missing="empty choice")
    finish = str(choice.get("finish_reason") or "")
    message = choice.get("message")
    message = message if isinstance(message, dict) else {}
    thoughts = message.get("reasoning_content") or message.get("reasoning")
    content = message.get("content")
    if isinstance(content, list):  # parts, as some servers send them
        content = "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    text = content if isinstance(content, str) else ""
    thought = bool(thoughts) or _OPENED.search(text) is not None or _CLOSED.search(text) is not None
    if finish == "content_filter":
        return Said(text="", finish=finish, missing="content filter", thought=thought)
    if isinstance(message.get("refusal"), str) and message["refusal"]:
        return Said(text="", finish=finish, missing="refusal", thought=thought)
    text = without_thoughts(text)
    if not text.strip():
        cut = finish == "length" and thought
        missing = "cut while it was thinking" if cut else "empty answer"
        return Said(text="", finish=finish, missing=missing, thought=thought)
    return Said(text=text, finish=finish, thought=thought)


def without_thoughts(text: str) -> str:
    """A text without its thinking blocks, closed or not."""
    final = _CHANNEL.search(text)
    if final is not None:
        return final.group(1)
    text = _THOUGHTS.sub("", text)
    text = _CLOSED.sub("", text)  # opened by the chat template, so that only its end is in the answer
    opened = _OPENED.search(text)
    return (text if opened is None else text[: opened.start()]).strip()


def label_in(text: str, labels: Sequence[str]) -> int | str:
    """The number of the label that an answer says, or why it says none."""
    stripped = text.strip()
    fence = _FENCE.match(stripped)
    if fence is not None:
        stripped = fence.group(1)
    if stripped.startswith(("{", "[")):
        inside = _json_label(stripped, labels)
        if inside is not None:
            return inside
    found = _words(labels)
    start = _LEAD.sub("", stripped.lstrip(_MARKS)).lstrip(_MARKS)
    at_start = found.match(start)
    names = [label.casefold() for label in labels]
    if at_start is not None:
        return names.index(at_start.group().casefold())
    matches = list(found.finditer(stripped))
    distinct = {match.group().casefold() for match in matches}
    if not distinct:
        return "no label in the answer"
    if len(distinct) > 1:
        return "several labels in the answer"
    if any(_NEGATION.search(stripped[: match.start()]) for match in matches):
        return "a negated label in the answer"
    return names.index(distinct.pop())


def _words(labels: Sequence[str]) -> re.Pattern[str]:
    longest_first = sorted(labels, key=len, reverse=True)
    return re.compile(r"(?<!\w)(?:" + "|".join(map(re.escape, longest_first)) + r")(?!\w)", re.IGNORECASE)


def _json_label(text: str, labels: Sequence[str]) -> int | str | None:
    """The label in an answer that is JSON; None when it is no JSON after all."""
    try:
        value = parse_json(text, "the answer")
    except DataError:
        return None
    names = [label.casefold() for label in labels]
    distinct = {leaf.strip().casefold() for leaf in _leaves(value)} & set(names)
    if len(distinct) > 1:
        return "several labels in the answer"
    return names.index(distinct.pop()) if distinct else None


def _leaves(value: Any) -> Iterator[str]:  # noqa: ANN401  a model's JSON
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            pending += item.values()
        elif isinstance(item, list):
            pending += item
        elif isinstance(item, str | int) and not isinstance(item, bool):
            yield str(item)


def written(choice: Any) -> Completion:  # noqa: ANN401  a server's JSON
    """A writer's answer as a completion; what it did not write is an error with the reason."""
    answer = said(choice)
    if answer.missing is not None:
        return Completion(text="", finish="error", note=answer.missing)
    finish = "length" if answer.finish == "length" else "stop"
    return Completion(text=answer.text.strip(), finish=finish)
