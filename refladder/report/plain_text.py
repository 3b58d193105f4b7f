"""Text from data that is safe to print."""

from __future__ import annotations

import re

from refladder.errors import redacted

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_JSON_CONTROL = re.compile(r"[\x7f-\x9f\u2028\u2029\ud800-\udfff]")  # JSON escapes those below U+0020 itself


def printable(text: str) -> str:
    """Replace by U+FFFD all that could move a terminal's cursor, break a line or not be encoded; hide secrets."""
    return redacted(_CONTROL.sub("\ufffd", text))


def printable_json(text: str) -> str:
    """Replace control characters in JSON text by their escapes, so that its meaning stays the same."""
    return _JSON_CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def short(text: str, width: int) -> str:
    """A text on one line, cut at `width` characters."""
    flat = " ".join(text.split())
    return flat if len(flat) <= width else flat[: width - 1] + "…"
