"""The text of one choice of a chat answer, without its thoughts, or why there is none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from refladder.backends.labels import has_thoughts, without_thoughts
from refladder.records import Completion

EMPTY = "empty answer"
ENDED = "the model ended its answer at once, before a first word"


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """The text of a choice without its thoughts, or `missing`: why there is none."""

    text: str
    finish: str
    missing: str | None = None
    thought: bool = False


def said(choice: Any) -> Said:  # noqa: ANN401  a server's JSON
    """The text of a choice of a chat answer, without thoughts."""
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
    thought = bool(thoughts) or has_thoughts(text)
    if finish == "content_filter":
        return Said(text="", finish=finish, missing="content filter", thought=thought)
    if isinstance(message.get("refusal"), str) and message["refusal"]:
        return Said(text="", finish=finish, missing="refusal", thought=thought)
    text = without_thoughts(text)
    if not text.strip():
        cut = finish == "length" and thought
        missing = "cut while it was thinking" if cut else EMPTY
        return Said(text="", finish=finish, missing=missing, thought=thought)
    return Said(text=text, finish=finish, thought=thought)


def ended_at_once(choice: Any) -> bool:  # noqa: ANN401  a server's JSON
    """Whether the model said nothing and was not cut off: its most probable first token was the end of the answer."""
    answer = said(choice)
    return answer.missing == EMPTY and answer.finish != "length" and not answer.thought


def cut_before_a_word(choice: Any) -> bool:  # noqa: ANN401  a server's JSON
    """Whether the answer's tokens were used up before a word was seen: thoughts that the server does not show."""
    answer = said(choice)
    return answer.missing is not None and answer.finish == "length"


def written(choice: Any) -> Completion:  # noqa: ANN401  a server's JSON
    """A writer's answer as a completion; an answer without a text is an error with the reason."""
    answer = said(choice)
    if answer.missing is not None:
        return Completion(text="", finish="error", note=answer.missing)
    finish = "length" if answer.finish == "length" else "stop"
    return Completion(text=answer.text.strip(), finish=finish)
