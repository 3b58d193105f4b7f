"""The only parser of JSON and TOML from files, users and servers: invalid text raises DataError, never a traceback.

`parse_json` gives any JSON value, `read_strict` an object of one type.

Integers too large for a float and values nested deeper than DEEPEST levels are rejected here, so that later steps (a
sum, a message, a digest) cannot fail on them.
"""

from __future__ import annotations

import json
import re
import tomllib
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

from refladder.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic import TypeAdapter

T = TypeVar("T")

# Levels of nested lists and objects.
DEEPEST = 100
# Digits of an integer in JSON that fits a float.
_MOST_DIGITS = 308
# tomllib reads about a million characters in a second.
_LONGEST_TOML = 1 << 20
# Bits of an integer that fits a float: TOML has hexadecimal integers too.
_MOST_BITS = 1024
_LINE_ENDS = ("\n", "\r\n", "")
_AT_LINE = re.compile(r"at line (\d+)")
_TOO_DEEP = f"nested more than {DEEPEST} levels deep"
_ADAPTERS: dict[type, TypeAdapter[Any]] = {}


def _whole(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise ValueError(f"a whole number of {len(digits)} characters")
    return int(digits)


def _different(fields: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(fields)
    if len(found) < len(fields):
        names = [name for name, _ in fields]
        repeated = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"field {repeated!r} appears twice; rename one")
    return found


_decode = json.JSONDecoder(parse_int=_whole)
_decode_strictly = json.JSONDecoder(parse_int=_whole, object_pairs_hook=_different)


def parse_json(
    text: str | bytes, where: str, expected: str = "", *, whole_file: bool = False
) -> Any:
    """Parse a JSON text; the error has `where` and `expected` (what the text must be), for a whole file also the line."""
    try:
        if isinstance(text, bytes):
            text = text.decode("utf-8-sig")
        try:
            # This is `decode` for an ordinary line, but faster.
            value, end = _decode.raw_decode(text)
        except ValueError:
            value = _decode.decode(text)
        else:
            if text[end:] not in _LINE_ENDS:
                value = _decode.decode(text)
        # Counting is fast, and few texts need the full check.
        if text.count("[") + text.count("{") > DEEPEST:
            _check(value)
    except (ValueError, RecursionError) as error:
        # The text of the error, since the error itself would form a cycle with its frames.
        reason = _TOO_DEEP if isinstance(error, RecursionError) else str(error)
        if isinstance(error, json.JSONDecodeError):
            reason = error.msg
            if whole_file:
                where = f"{where}:{error.lineno}"
            elif error.lineno == 1:
                reason += f" at column {error.colno}"
        more = f"; {expected}" if expected else ""
        raise DataError(f"{where}: not JSON ({reason}){more}") from error
    return value


def chat_or_text(text: Any) -> Any:
    """Return the messages in a text that is a JSON list of objects with roles; another text as it is."""
    if isinstance(text, str) and text.lstrip().startswith("["):
        with suppress(DataError):
            read = parse_json(text, "")
            if read and all(isinstance(each, dict) and "role" in each for each in read):
                return read
    return text


def check_names(text: str, where: str) -> None:
    """Check that no object in a JSON text has two values of one name, since Python keeps only the last."""
    try:
        _decode_strictly.decode(text)
    except ValueError as error:
        raise DataError(f"{where}: {error}") from error


class Fault(NamedTuple):
    """The first thing in a JSON text that does not fit a type; `place` is the field, its field, and so on."""

    kind: str
    place: tuple[str | int, ...]
    message: str
    found: object

    @property
    def field(self) -> str:
        """Return the place as one text."""
        return ".".join(map(str, self.place))


def adapter(kind: type[T]) -> TypeAdapter[T]:
    """Make the reader and writer of a type, once."""
    if kind not in _ADAPTERS:
        from pydantic import TypeAdapter

        _ADAPTERS[kind] = TypeAdapter(kind)
    return _ADAPTERS[kind]


def read_strict(
    kind: type[T],
    text: str | bytes,
    message_of: Callable[[Fault], str],
    extra: Literal["forbid", "ignore"] = "forbid",
) -> T:
    """Read an object of a type: no field is missing, unknown (if `extra` forbids it), or converted from another type."""
    try:
        return adapter(kind).validate_json(text, strict=True, extra=extra)
    except ValueError as error:
        from pydantic import ValidationError

        if not isinstance(error, ValidationError):
            raise
        first = error.errors(include_url=False, include_context=False)[0]
        fault = Fault(first["type"], first["loc"], first["msg"], first["input"])
        raise DataError(message_of(fault)) from error


def parse_as(
    kind: type[T],
    text: str | bytes,
    where: str,
    what: str,
    step: str = "",
    *,
    extra: Literal["forbid", "ignore"] = "forbid",
) -> T:
    """Read an object strictly; the error has its place, what it should be, the field, the value and the next step."""

    def message_of(fault: Fault) -> str:
        if fault.kind == "json_invalid":
            words = f"not JSON ({fault.message.removeprefix('Invalid JSON: ')})"
        else:
            at = f" field {fault.field!r}" if fault.field else ""
            words = f"{what}{at}: {fault.message.removeprefix('Value error, ')}"
            # A `value_error` is about the record as a whole.
            if fault.kind not in {"value_error", "missing", "unexpected_keyword_argument"}:
                words += f", found {fault.found!r:.80}"
        return f"{where}: {words}; {step}" if step else f"{where}: {words}"

    return read_strict(kind, text, message_of, extra)


def parse_toml(text: str | bytes, where: str, what: str = "not TOML") -> dict[str, Any]:
    """Parse a TOML text."""
    if len(text) > _LONGEST_TOML:
        raise DataError(f"{where}: {what} (more than {_LONGEST_TOML:,} bytes)")
    try:
        table = tomllib.loads(text.decode("utf-8-sig") if isinstance(text, bytes) else text)
        _check(table)
    except (ValueError, RecursionError) as error:
        reason = _TOO_DEEP if isinstance(error, RecursionError) else str(error)
        line = _AT_LINE.search(reason)
        if line:
            where = f"{where}:{line[1]}"
        raise DataError(f"{where}: {what} ({reason})") from error
    return table


def each_leaf(value: Any, change: Callable[[Any], Any]) -> Any:
    """Change everything in a JSON value but objects and lists; a tuple is a list."""
    if isinstance(value, dict):
        return {key: each_leaf(inner, change) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [each_leaf(inner, change) for inner in value]
    return change(value)


def _check(value: object) -> None:
    """Reject values that are nested too deep, and integers too large for a float."""
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
