"""An instruction of the user that a model reads before every question, as the system message."""

from __future__ import annotations

from pathlib import Path

from refladder.errors import UsageError
from refladder.records import digest_of

# Bytes, as of a task file.
_LONGEST = 1 << 20


def read_instruction(path: str) -> str:
    """Return the text of the file that the option `system` names, without white space at its ends."""
    try:
        with Path(path).expanduser().open("rb") as file:
            content = file.read(_LONGEST + 1)
        text = content.decode("utf-8-sig").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8"
        raise UsageError(
            f"system={path}: cannot be read ({reason}); name a UTF-8 text file with the instruction"
        ) from error
    if len(content) > _LONGEST:
        raise UsageError(
            f"system={path}: more than {_LONGEST:,} bytes; name a text file with the instruction"
        )
    if not text:
        raise UsageError(f"system={path}: the file is empty; write the instruction into it")
    return text


def instruction_digest(text: str) -> str:
    """Return the digest of an instruction, as fingerprints show it."""
    return digest_of(text, size=6)
