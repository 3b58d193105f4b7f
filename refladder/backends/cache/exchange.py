"""Stored answers as JSON lines, for inspection and for another store.

A line: `{"schema":"response/1","key":"<32 hexadecimal digits>","fingerprint":"...","kind":"labels","time":1760000000,
"answer":{"logprobs":[...],"mass":0.9,"note":null}}`; kind `write` has an answer with text, finish and note. An answer
may have `cut` (true) and, for labels, `exactness` (`bounded` or `sampled`); without them it was not cut and is exact.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from refladder.backends.cache.cached import KEY_BYTES, dump
from refladder.backends.cache.store import Answer
from refladder.errors import DataError
from refladder.files.jsonl import is_unicode, read_lines
from refladder.parsing import parse_json, read_strict
from refladder.records import Completion, LabelReading, impossible, upgraded

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path


SCHEMA = "response/1"
_KINDS: dict[str, type[Completion | LabelReading]] = {"write": Completion, "labels": LabelReading}
_FIELDS = {"key": str, "fingerprint": str, "kind": str, "time": int, "answer": dict}


def to_lines(answers: Iterable[Answer]) -> Iterator[bytes]:
    """Each answer as one JSON line."""
    for answer in answers:
        head = {"schema": SCHEMA, "key": answer.key.hex(), "fingerprint": answer.fingerprint, "kind": answer.kind}
        text = json.dumps({**head, "time": answer.time}, separators=(",", ":"))
        yield text[:-1].encode() + b',"answer":' + answer.answer + b"}\n"


def from_lines(path: Path) -> Iterator[Answer]:
    """The answers of a file that `to_lines` wrote, strictly checked.

    Raises:
        DataError: with path:line, a line is not such an answer.
    """
    for number, line in read_lines(path):
        where = f"{path}:{number}"
        fields = parse_json(line, where)
        if not isinstance(fields, dict) or fields.pop("schema", None) != SCHEMA:
            raise DataError(
                f'{where}: expected a line with "schema": "{SCHEMA}", as `refladder store export` writes it'
            )
        wrong = next((name for name, kind in _FIELDS.items() if type(fields.get(name)) is not kind), None)
        extra = next((name for name in fields if name not in _FIELDS), None)
        if wrong or extra or fields["kind"] not in _KINDS:
            raise DataError(f"{where}: field {extra or wrong or 'kind'!r} is missing, unknown or of the wrong type")
        if not is_unicode(fields["fingerprint"]) or not 0 <= fields["time"] < 2**62:
            raise DataError(f"{where}: a fingerprint is Unicode, and a time is seconds since 1970; mend the line")
        yield Answer(
            _key(fields["key"], where),
            fields["fingerprint"],
            fields["kind"],
            fields["time"],
            _checked(_KINDS[fields["kind"]], fields["answer"], where),
        )


def _key(text: str, where: str) -> bytes:
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise DataError(f"{where}: field 'key' must be {2 * KEY_BYTES} hexadecimal digits, found {text!r:.60}")
    return key


def _checked(kind: type[Completion | LabelReading], answer: object, where: str) -> bytes:
    """The answer's JSON text, once it is certain that a store holds such answers."""
    read = read_strict(
        kind,
        json.dumps(answer),
        lambda fault: f"{where}: field {'.'.join(map(str, ('answer', *fault.place)))!r}: {fault.message}",
    )
    checked = upgraded(read)
    if isinstance(checked, LabelReading) and checked.logprobs and (wrong := impossible(checked.logprobs, checked.mass)):
        raise DataError(f"{where}: field 'answer': {wrong}; correct or delete the line")
    text = dump(checked)
    if text is None:
        raise DataError(f"{where}: field 'answer' is a failure, and a store holds only answers")
    return text.encode()
