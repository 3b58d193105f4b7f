"""Stored answers as JSON lines, for inspection and for another store.

A line: `{"schema":"response/1","key":"<32 hexadecimal digits>","fingerprint":"...","kind":"labels","time":1760000000,
"answer":{"logprobs":[...],"mass":0.9,"note":null}}`; kind `write` has an answer with text, finish and note. An answer
may have `cut` (true) and, for labels, `exactness` (`bounded` or `sampled`); without them it was not cut and is exact.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from refladder.backends.cache.cached import KEY_BYTES, dump
from refladder.backends.cache.store import Answer
from refladder.errors import DataError
from refladder.files.jsonl import read_lines
from refladder.parsing import parse_as, parse_json
from refladder.records import Completion, LabelReading, impossible

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

SCHEMA = "response/1"
_KINDS: dict[str, type[Completion | LabelReading]] = {"write": Completion, "labels": LabelReading}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    key: str
    fingerprint: str
    kind: Literal["write", "labels"]
    time: int
    answer: dict[str, Any]


def to_lines(answers: Iterable[Answer]) -> Iterator[bytes]:
    """Each answer as one JSON line."""
    for answer in answers:
        head = {"schema": SCHEMA, "key": answer.key.hex(), "fingerprint": answer.fingerprint, "kind": answer.kind}
        text = json.dumps({**head, "time": answer.time}, separators=(",", ":"))
        yield text[:-1].encode() + b',"answer":' + answer.answer + b"}\n"


def from_lines(path: Path) -> Iterator[Answer]:
    """The answers of a file that `to_lines` wrote, strictly checked; DataError with path:line."""
    for number, text in read_lines(path):
        where = f"{path}:{number}"
        fields = parse_json(text, where)
        if not isinstance(fields, dict) or fields.pop("schema", None) != SCHEMA:
            raise DataError(
                f'{where}: expected a line with "schema": "{SCHEMA}", as `refladder store export` writes it'
            )
        line = parse_as(_Line, json.dumps(fields), where, SCHEMA)
        if not 0 <= line.time < 2**62:
            raise DataError(f"{where}: {SCHEMA} field 'time': seconds since 1970, found {line.time}")
        yield Answer(_key(line.key, where), line.fingerprint, line.kind, line.time, _checked(line, where))


def _key(text: str, where: str) -> bytes:
    with suppress(ValueError):
        if len(key := bytes.fromhex(text)) == KEY_BYTES:
            return key
    raise DataError(f"{where}: field 'key' must be {2 * KEY_BYTES} hexadecimal digits, found {text!r:.60}")


def _checked(line: _Line, where: str) -> bytes:
    """The answer's JSON text, once it is certain that a store holds such answers."""
    answer = parse_as(_KINDS[line.kind], json.dumps(line.answer), where, "answer")
    if isinstance(answer, LabelReading) and answer.logprobs and (wrong := impossible(answer.logprobs, answer.mass)):
        raise DataError(f"{where}: field 'answer': {wrong}; correct or delete the line")
    text = dump(answer)
    if text is None:
        raise DataError(f"{where}: field 'answer' is a failure, not an answer; delete the line")
    return text.encode()
