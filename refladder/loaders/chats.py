"""Chats in the cell of a row: the last message of the assistant is the output, and all before it the context.

A chat is a list of messages with `role` and `content` (text, or parts with a text), or with `from` and `value`; or a list
of texts, of which the last one is the assistant's.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from refladder.errors import DataError
from refladder.files.jsonl import is_unicode
from refladder.parsing import parse_json

if TYPE_CHECKING:
    from collections.abc import Sequence

_ASSISTANT = "Assistant"
_TOOL = "Tool"
# Names in the rendered context, by role.
_NAMES = {
    **dict.fromkeys(("assistant", "gpt", "chatgpt", "model", "bot", "ai"), _ASSISTANT),
    **dict.fromkeys(("user", "human"), "User"),
    **dict.fromkeys(("system", "developer"), "System"),
    **dict.fromkeys(("tool", "function", "ipython", "observation", "environment"), _TOOL),
}
_FORMS = "a text or a chat (messages with role and content, or from and value, or a list of texts)"


class Message(NamedTuple):
    """A message of a chat: who says it, and its text; None if it has none, such as a call of a tool."""

    name: str
    text: str | None


def is_chat(value: object) -> bool:
    """Return whether a value has the form of a chat."""
    if not isinstance(value, list) or not value:
        return False
    return all(isinstance(each, str) for each in value) or all(map(_is_message, value))


def chat_in(where: str, column: str, cell: Any) -> Any:
    """Return the cell of a column that is context and output in one: a chat, or one as a text of JSON, as CSV has it."""
    if not isinstance(cell, str) or not cell.strip():
        return cell
    with suppress(DataError):
        if isinstance(chat := parse_json(cell, ""), list):
            return chat
    raise DataError(
        f"{where}: column {column!r} is the context and the output, so it must be a chat, found the text {cell!r:.60}; "
        "correct the JSON of the chat, or name a column of each"
    )


def messages_in(where: str, column: str, value: Sequence[Any]) -> list[Message]:
    """Return the messages of a chat; a list of another form is a DataError that says which."""
    if all(isinstance(each, str) for each in value):
        last = len(value) - 1
        read = [
            Message("User" if (last - n) % 2 else _ASSISTANT, each) for n, each in enumerate(value)
        ]
    else:
        read = [_message(where, column, each) for each in value]
    for message in read:
        if message.text is not None and not is_unicode(message.text):
            raise DataError(
                f"{where}: column {column!r}: half a surrogate pair, which is not valid Unicode; correct the text"
            )
    return read


def output_in(messages: Sequence[Message]) -> tuple[str | None, str | None]:
    """Return the text of the assistant's last message, or None and the reason why there is none."""
    if messages and messages[-1].name == _TOOL:
        return None, "the chat ends in a tool's message"
    said = [message for message in messages if message.name == _ASSISTANT]
    if not said:
        return None, "the chat has no message of an assistant"
    text = said[-1].text
    return text, "the assistant's last message has no text" if text is None else None


def before_output(messages: Sequence[Message]) -> list[Message]:
    """Return the messages before the assistant's last one; all, if there is none."""
    for position in range(len(messages) - 1, -1, -1):
        if messages[position].name == _ASSISTANT:
            return list(messages[:position])
    return list(messages)


def is_answered(messages: Sequence[Message]) -> bool:
    """Return whether a chat ends with the assistant's message."""
    return bool(messages) and messages[-1].name == _ASSISTANT


def rendered(messages: Sequence[Message]) -> str:
    """Return messages as one text, each after the name of its role; a single message of the user as it is."""
    said = [message for message in messages if message.text is not None]
    if len(said) == 1 and said[0].name == "User":
        return said[0].text or ""
    return "\n\n".join(f"{message.name}: {message.text}" for message in said)


def _is_message(value: object) -> bool:
    return isinstance(value, dict) and ("role" in value or "from" in value)


def _message(where: str, column: str, value: Any) -> Message:
    if not _is_message(value):
        raise _wrong(where, column, f"a list with {value!r:.60}")
    role = value.get("role", value.get("from"))
    content = value["content"] if "content" in value else value.get("value")
    if isinstance(content, list):
        # Parts of another type are thoughts, images and calls of tools.
        parts = [
            part
            for part in content
            if isinstance(part, dict) and part.get("type", "text") in {"text", "output_text"}
        ]
        texts = [part.get("text") for part in parts]
        content = "".join(text for text in texts if isinstance(text, str)) if parts else None
    if not isinstance(role, str) or not (content is None or isinstance(content, str)):
        raise _wrong(where, column, f"the message {value!r:.60}")
    return Message(_NAMES.get(role.casefold(), role.capitalize()), content)


def _wrong(where: str, column: str, found: str) -> DataError:
    return DataError(f"{where}: column {column!r}: expected {_FORMS}, found {found}")
