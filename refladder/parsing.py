"""JSON and TOML from files, users and servers: parsed here and nowhere else, so that no text of either is a traceback.

Whole numbers that no float can hold, and values that are nested more than DEEPEST levels, are refused here, so that
nothing that is done with a value later (a sum, a message, a digest) can fail on them.
"""

from __future__ import annotations

import json
import re
import tomllib
from typing import Any

from refladder.errors import DataError

DEEPEST = 100  # levels of lists and objects inside each other
_MOST_DIGITS = 308  # of a whole number in JSON, so that every float can hold it
_MOST_BITS = 1024  # the same limit, for TOML, which spells whole numbers in hexadecimal too
_LINE_ENDS = ("\n", "\r\n", "")
_AT_LINE = re.compile(r"at line (\d+)")
_TOO_DEEP = f"nested more than {DEEPEST} levels deep"


def _whole(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise ValueError(f"a whole number of {len(digits)} characters")
    return int(digits)


_decode = json.JSONDecoder(parse_int=_whole)


def parse_json(text: str | bytes, where: str, rule: str = "", *, whole_file: bool = False) -> Any:  # noqa: ANN401  any
    """The value of a JSON text.

    Args:
        text: the text, or its bytes in UTF-8.
        where: path:line, or whose text it is, for the error.
        rule: what a text there must be, put at the end of the error.
        whole_file: whether `where` is a path to which the error adds the line.

    Raises:
        DataError: not UTF-8, not JSON, nested more than DEEPEST levels, or a number that no float can hold.
    """
    try:
        if isinstance(text, bytes):
            text = text.decode("utf-8-sig")
        try:
            value, end = _decode.raw_decode(text)  # what `decode` does for an ordinary line, in less time
        except ValueError:
            value = _decode.decode(text)
        else:
            if text[end:] not in _LINE_ENDS:
                value = _decode.decode(text)
        if text.count("[") + text.count("{") > DEEPEST:  # counting is quick, and few texts need more
            _check(value)
    except (ValueError, RecursionError) as error:
        reason = (
            _TOO_DEEP if isinstance(error, RecursionError) else str(error)
        )  # not the error: a cycle with its frames
        if whole_file and isinstance(error, json.JSONDecodeError):
            where, reason = f"{where}:{error.lineno}", error.msg
        raise DataError(f"{where}: not JSON ({reason}){f'; {rule}' if rule else ''}") from error
    return value


def parse_toml(text: str | bytes, where: str, what: str = "not TOML") -> dict[str, Any]:
    """The table of a TOML text.

    Args:
        text: the text, or its bytes in UTF-8.
        where: the path, for the error, which adds the line where there is one.
        what: what is wrong with a text that is not TOML, for the error.

    Raises:
        DataError: not UTF-8, not TOML, nested more than DEEPEST levels, or a whole number that no float can hold.
    """
    try:
        table = tomllib.loads(text.decode("utf-8-sig") if isinstance(text, bytes) else text)
        _check(table)
    except (ValueError, RecursionError) as error:
        reason = _TOO_DEEP if isinstance(error, RecursionError) else str(error)
        line = _AT_LINE.search(reason)
        raise DataError(f"{where}{f':{line[1]}' if line else ''}: {what} ({reason})") from error
    return table


def _check(value: object) -> None:
    """Refuse what is nested too deep, and whole numbers that no float can hold."""
    level = [value]
    for _ in range(DEEPEST + 1):
        following: list[object] = []
        for item in level:
            if isinstance(item, dict):
                following += item.values()
            elif isinstance(item, list):
                following += item
            elif isinstance(item, int) and item.bit_length() > _MOST_BITS:
                raise ValueError(f"a whole number of {item.bit_length()} bits")
        if not following:
            return
        level = following
    raise ValueError(_TOO_DEEP)
