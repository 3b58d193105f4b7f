"""The text of one choice of a chat answer, without its thoughts, or why there is none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from refladder.backends.labels import has_thoughts, without_thoughts
from refladder.backends.openai.transport import at
from refladder.records import Completion

EMPTY = "empty answer"
ENDED = "the model ended its answer at once, before a first word"


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """The text of a choice without its thoughts, or `missing`: why there is none."""

    text: str = ""
    finish: str = ""
    missing: str | None = None
    thought: bool = False

    @property
    def ended_at_once(self) -> bool:
        """Whether the model said nothing and was not cut off: its most probable first token ended the answer."""
        return self.missing == EMPTY and self.finish != "length" and not self.thought

    @property
    def cut_before_a_word(self) -> bool:
        """Whether the answer's tokens were used up before a word was seen: thoughts that the server does not show."""
        return self.missing is not None and self.finish == "length"


def said(choice: Any) -> Said:  # noqa: ANN401  a server's JSON
    """The text of a choice of a chat answer, without thoughts."""
    if not isinstance(choice, dict):
        return Said(missing="empty choice")
    content = at(choice, "message", "content")
    if isinstance(content, list):  # parts, as some servers send them
        content = "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    whole = content if isinstance(content, str) else ""
    hidden = at(choice, "message", "reasoning_content") or at(choice, "message", "reasoning")
    thought = bool(hidden) or has_thoughts(whole)
    finish = str(choice.get("finish_reason") or "")
    refusal = at(choice, "message", "refusal")
    text = without_thoughts(whole)
    missing = None
    if finish == "content_filter":
        missing = "content filter"
    elif isinstance(refusal, str) and refusal:
        missing = "refusal"
    elif not text.strip():
        missing = "cut while it was thinking" if finish == "length" and thought else EMPTY
    return Said(text="" if missing else text, finish=finish, missing=missing, thought=thought)


def written(choice: Any) -> Completion:  # noqa: ANN401  a server's JSON
    """A writer's answer as a completion; an answer without a text is an error with the reason."""
    answer = said(choice)
    if answer.missing is not None:
        return Completion(text="", finish="error", note=answer.missing)
    return Completion(text=answer.text.strip(), finish="length" if answer.finish == "length" else "stop")
