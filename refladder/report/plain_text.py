"""Text from data that is safe to print."""

from __future__ import annotations

import re

from refladder.errors import redacted

# C1 controls, line ends of Unicode, all characters with the property Bidi_Control, half surrogate pairs
_UNSAFE = r"\x7f-\x9f\u2028\u2029\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff"
_CONTROL = re.compile(rf"[\x00-\x08\x0b-\x1f{_UNSAFE}]")
_JSON_CONTROL = re.compile(f"[{_UNSAFE}]")  # JSON escapes those below U+0020 itself


def printable(text: str) -> str:
    """Hide secrets, and replace by U+FFFD all that could move a cursor, break or reorder a line, or not be encoded."""
    return redacted(_CONTROL.sub("\ufffd", text))


def printable_json(text: str) -> str:
    """Replace control characters in JSON text by their escapes, so that its meaning stays the same."""
    return _JSON_CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def short(text: str, width: int) -> str:
    """A text on one line, cut at `width` characters."""
    flat = " ".join(text.split())
    return flat if len(flat) <= width else flat[: width - 1] + "…"
