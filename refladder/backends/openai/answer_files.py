"""Answers through files: requests are written to a folder, and answers are read from the same folder.

    folder.json            the folder's id, which is part of the fingerprint
    requests-0001.jsonl    requests in the input format of OpenAI's Batch interface; `custom_id` digests the body
    requests-open.jsonl    those that the last run still waits for, written anew by each run
    answers*.jsonl         output lines of the Batch interface, or {"custom_id": ..., "text": ...}

A request that a requests file holds is not written again. Which fields the answering server refuses is read from its
answers.
"""

from __future__ import annotations

import itertools
import json
import re
import secrets
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from refladder.backends.openai.errors import (
    ANSWERED,
    LOG,
    NotYet,
    Refusal,
    at,
    error_text,
    failure_within,
    rows_at,
    shown,
)
from refladder.errors import AnswersAwaitedError, DataError, agreeing, plural
from refladder.files.jsonl import atomic, open_bytes, read_bytes, write_json
from refladder.files.locks import locked_folder
from refladder.files.streams import lines_of
from refladder.parsing import parse_json
from refladder.records import digest_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from refladder.backends.openai.errors import Tally
    from refladder.backends.openai.options import Options

# Limits of one file; OpenAI accepts 50,000 requests and 200 MB.
MOST_REQUESTS, MOST_BYTES = 50_000, 190_000_000
_PATH = "/v1/chat/completions"
_NUMBERED, _OPEN = "requests-[0-9]*.jsonl", "requests-open.jsonl"
_SCHEMA = "answer-folder/1"
_REFUSED = 400, 422
# These, and 5xx, may be answered later.
_AGAIN = 401, 402, 403, 404, 408, 409, 425, 429
# Faults of the same kind that are named.
_SHOWN = 3
# gpt-4o and gpt-4o-2024-08-06 are one model, model-4 and model-4-5 are two.
_OF_A_VERSION = re.compile(r"[-@](\d{8}|\d{4}-\d\d-\d\d)|-latest|:[\w.-]+")


def digest(body: Mapping[str, object]) -> str:
    """Return the custom_id of a request: the digest of its body."""
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    return digest_of(text, size=16)


class Placed(dict[str, object]):
    """A choice of an answer, with the line that holds it: no key, so that no server can give a place."""

    place: str


@dataclass(slots=True)
class _Found:
    """An answer: its choices, or the refusal that the provider gave; `where` is path:line."""

    where: str
    body: dict[str, object]
    refusal: Refusal | None = None
    model: str | None = None

    @property
    def content(self) -> str:
        """Return the part by which two answers to one request are compared."""
        if self.refusal is not None:
            return self.refusal.reason
        return json.dumps(
            [(at(row, "message"), at(row, "logprobs")) for row in rows_at(self.body, "choices")],
            sort_keys=True,
        )


@dataclass(slots=True)
class _Read:
    """The content of the folder's files when they were last read."""

    # custom_id: name of the file.
    requests: dict[str, str] = field(default_factory=dict)
    # The models that the requests ask.
    models: set[str] = field(default_factory=set)
    answers: dict[str, _Found] = field(default_factory=dict)
    # custom_id: why its request waits again, with path:line.
    failed: dict[str, str] = field(default_factory=dict)
    # Fields of requests that a handshake would find refused.
    refused_fields: set[str] = field(default_factory=set)


class AnswerFiles:
    """A folder of requests and answers, used like a server: `post` returns an answer, or records the request."""

    def __init__(self, folder: Path, model: str, options: Options, tally: Tally) -> None:
        self._folder = folder
        self._model = model
        self._options = options
        self._tally = tally
        self._id: str | None = None
        self._read = _Read()
        # Size and time of the files that were read.
        self._stamps: dict[Path, tuple[int, int]] | None = None
        self._told: set[str] = set()
        self._counted: set[str] = set()
        self._missing: dict[str, dict[str, object]] = {}

    @property
    def id(self) -> str:
        """Return the folder's id; before `keep_id`, only this process may know it."""
        if self._id is None:
            path = self._folder / "folder.json"
            if path.exists():
                found = parse_json(read_bytes(path), str(path))
                if at(found, "schema") != _SCHEMA or not isinstance(at(found, "id"), str):
                    raise DataError(
                        f"{path}: not the record of a folder of answers ({_SCHEMA}); name another folder"
                    )
                self._id = found["id"]
            else:
                self._id = secrets.token_hex(4)
        return self._id

    def keep_id(self) -> None:
        """Make the folder and store its id, once."""
        path = self._folder / "folder.json"
        if not path.exists():
            with locked_folder(self._folder):
                if not path.exists():
                    write_json(path, {"schema": _SCHEMA, "id": self.id})
        # Another process may have made the folder since.
        self._id = None
        _ = self.id

    def refused_fields(self) -> frozenset[str]:
        """Return the fields of requests that the answering server has refused so far."""
        self._look()
        return frozenset(self._read.refused_fields)

    @asynccontextmanager
    async def exchange(self) -> AsyncIterator[None]:
        """Read the answers for `post`, then write the requests that the block recorded; locks the folder."""
        self.keep_id()
        with locked_folder(self._folder):
            self._missing = {}
            self._look()
            yield
            if self._missing:
                self._write()
            if (self._folder / _OPEN).exists():
                (self._folder / _OPEN).unlink()

    async def post(self, _path: str, body: Mapping[str, object]) -> dict[str, object]:
        """Return the answer to a request, if there is one; else raise NotYet."""
        body = {**body, **self._options.extra}
        name = digest(body)
        found = self._read.answers.get(name)
        if found is None or not self._fits(found, str(body["model"])):
            self._missing[name] = body
            raise NotYet
        if name not in self._counted:
            self._counted.add(name)
            self._tally.counts["requests"] += 1
            self._tally.used(at(found.body, "usage"))
        place = f"custom_id {name!r}, {found.where!r}"
        if found.refusal is not None:
            raise Refusal(f"{found.refusal.reason} ({place})", status=found.refusal.status)
        choices = found.body["choices"]
        if isinstance(choices, list):
            choices = [_placed(choice, place) for choice in choices]
        return {**found.body, "choices": choices}

    def shown(self, text: str) -> str:
        """Return a text of the answers that is safe to show."""
        return shown(text, None)

    def _fits(self, found: _Found, asked: str) -> bool:
        """Return whether an answer is from the model that was asked, as far as the answer says."""
        if found.model is not None and not _same_model(found.model, asked):
            self._tell(
                f"{found.where}: an answer of the model {self.shown(found.model)!r}, and {asked!r} was asked, so its "
                "request still waits; if both are the same model, remove the field model from these lines"
            )
            return False
        return True

    def _tell(self, message: str) -> None:
        if message not in self._told:
            self._told.add(message)
            LOG.warning("%s", message)

    # Reading.

    def _look(self) -> None:
        """Read the files of the folder again if one of them has changed."""
        patterns = (_NUMBERED, "answers*.jsonl", "answers*.jsonl.gz")
        paths = sorted(itertools.chain(*map(self._folder.glob, patterns)))
        stamps = {path: _stamp(path) for path in paths}
        if stamps == self._stamps:
            return
        self._stamps = stamps
        self._read = _Read()
        for path in paths:
            if path.name.startswith("requests"):
                for _, line in self._lines(path):
                    self._read.requests.setdefault(str(line.get("custom_id")), path.name)
                    self._read.models.add(str(at(line, "body", "model")))
        for path in paths:
            if path.name.startswith("answers"):
                self._take(path)
        for name in self._read.answers.keys() & self._read.failed.keys():
            del self._read.failed[name]

    def _lines(self, path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
        broken = []
        for number, text in enumerate(lines_of(open_bytes(path), str(path)), 1):
            if not text.strip():
                continue
            value = None
            with suppress(DataError):
                value = parse_json(text, "")
            if isinstance(value, dict) and isinstance(value.get("custom_id"), str):
                yield number, value
            else:
                broken.append(number)
        self._tell_of(broken, path, "not a JSON object with a custom_id, so it is left out")

    def _take(self, path: Path) -> None:
        """Take the answers of a file; the first answer to a request counts."""
        unknown, others, known = [], [], 0
        for number, line in self._lines(path):
            name, where = line["custom_id"], f"{path}:{number}"
            if name not in self._read.requests:
                unknown.append(number)
            else:
                known += 1
            found = _answer(line, where)
            if isinstance(found, str):
                self._read.failed.setdefault(name, f"{where}: {self.shown(found)}")
                continue
            if found.refusal is not None:
                self._learn(found.refusal)
            first = self._read.answers.setdefault(name, found)
            if first is not found and first.content != found.content:
                others.append(number)
        if not self._read.requests:
            # Answers that were there first, such as shipped ones; they are used when they are asked for.
            return
        if unknown and not known:
            self._tell(
                f"{path}: answers none of the requests in {self._folder}; if it belongs to another run, put it into "
                "the folder of that run"
            )
        else:
            self._tell_of(unknown, path, f"answers no request in {self._folder}")
        self._tell_of(
            others, path, "a second, different answer to a request; the first one is used"
        )

    def _tell_of(self, numbers: list[int], path: Path, what: str) -> None:
        if numbers:
            first, *others = numbers
            more = f" (and {plural(len(others), 'more line')} of the file)" if others else ""
            self._tell(f"{path}:{first}: {what}{more}")

    def _learn(self, refusal: Refusal) -> None:
        if refusal.status in _REFUSED and "max_completion_tokens" in refusal.reason:
            self._read.refused_fields.add("max_tokens")
        elif refusal.status in _REFUSED and "temperature" in refusal.reason.lower():
            self._read.refused_fields.add("temperature")

    # Writing.

    def _write(self) -> None:
        """Write the missing requests that no file holds, and raise AnswersAwaitedError."""
        self._tell_of_others()
        lines = {}
        for name, body in self._missing.items():
            lines[name] = _line(name, self._options.sent(body))
        fresh = [name for name in lines if name not in self._read.requests]
        endings = [path.stem.removeprefix("requests-") for path in self._folder.glob(_NUMBERED)]
        numbers = [int(ending) for ending in endings if ending.isdecimal()]
        written = []
        parts = _parts(lines[name] for name in fresh)
        for number, part in enumerate(parts, 1 + max(numbers, default=0)):
            written.append(f"requests-{number:04}.jsonl")
            _save(self._folder / written[-1], part)
        _save(self._folder / _OPEN, lines.values())
        self._stamps = None
        older = {self._read.requests[name] for name in lines.keys() - set(fresh)}
        files = [*sorted(older), *written]
        names = ", ".join(files)
        if len(files) > _SHOWN:
            names = f"{files[0]} to {files[-1]}"
        failed = [self._read.failed[name] for name in self._missing if name in self._read.failed]
        again = ""
        if failed:
            waits = agreeing(len(failed), "waits", "wait")
            again = f"; {plural(len(failed), 'request')} failed and {waits} again, the first at {failed[0]}"
        whole = self._read.requests.keys() | lines.keys()
        answered = (self._read.answers.keys() & whole) - lines.keys()
        count = f"{len(fresh):,} new"
        if len(fresh) < len(whole):
            count += f"; {len(answered):,} of {len(whole):,} answered"
        if model := self._other_model(fresh):
            again += f"; the answers there are for {model!r}, and this run asks {self._model!r}"
        places = (self._folder / f"answers-{number:04}.jsonl" for number in itertools.count(1))
        free = next(path for path in places if not path.exists())
        waiting = len(self._missing)
        wait = agreeing(waiting, "request waits", "requests wait")
        them = agreeing(waiting, "it", "them")
        raise AnswersAwaitedError(
            f"{waiting:,} {wait} for an answer in {self._folder} ({names}; {count}){again}; have {them} "
            f"answered, as by `vllm run-batch --model {self._model} -i {self._folder / _OPEN} -o {free}` or a "
            "provider's batch page, put the answers into the folder as answers*.jsonl, and run the same command again"
        )

    def _other_model(self, fresh: Sequence[str]) -> str | None:
        """Return the model to which the folder has an answer that this run lacks only because of the model's name."""
        for model in sorted(self._read.models - {self._model}):
            for name in fresh:
                if digest({**self._missing[name], "model": model}) in self._read.answers:
                    return self.shown(model)
        return None

    def _tell_of_others(self) -> None:
        """Name a file that may hold answers and has a name under which none are read."""
        names = []
        for path in sorted(self._folder.glob("[!.]*")):
            own = (
                path.name == "folder.json"
                or path in (self._stamps or ())
                or path.name.startswith("requests")
            )
            if not own and (
                "answer" in path.name.lower() or path.suffix in {".json", ".jsonl", ".gz"}
            ):
                names.append(path)
        if names:
            more = f" (and {plural(len(names) - 1, 'more file')})" if names[1:] else ""
            self._tell(
                f"{names[0]}: not read{more}; answers are read from files named answers*.jsonl, so rename it if it holds "
                "answers"
            )


def _stamp(path: Path) -> tuple[int, int]:
    """Return size and time of a file; refuse a pipe, which would wait for ever, and a link to nothing."""
    try:
        state = path.stat()
    except OSError as error:
        raise DataError(
            f"{path}: cannot be read ({error.strerror}); remove it, or put the file there"
        ) from error
    if not path.is_file():
        raise DataError(f"{path}: not a regular file; put a file of answers there, or remove it")
    return state.st_size, state.st_mtime_ns


def _answer(line: Mapping[str, object], where: str) -> _Found | str:
    """Return the answer that a line holds, or why its request has to wait."""
    if "text" in line and "response" not in line:
        texts = line["text"]
        if not isinstance(texts, list):
            texts = [texts]
        if not texts or not all(isinstance(text, str) for text in texts):
            return "text must be a text or a list of texts"
        choices = []
        for index, text in enumerate(texts):
            message = {"role": "assistant", "content": text}
            choices.append({"index": index, "message": message, "finish_reason": "stop"})
        return _Found(where, {"choices": choices})
    status = at(line, "response", "status_code")
    body = at(line, "response", "body")
    if status == ANSWERED and (within := failure_within(body)):
        status, body = within
    reason = error_text(line.get("error")) or error_text(body)
    if not isinstance(status, int):
        return reason or "it holds no answer"
    reason = shown(f"the server answered {status}: {reason}", None)
    if status in _AGAIN or status >= 500:
        return reason
    if status != 200 or not isinstance(body, dict) or "choices" not in body:
        return _Found(where, {}, Refusal(reason, status=status))
    model = body.get("model")
    return _Found(where, body, model=model if isinstance(model, str) else None)


def _placed(choice: Any, place: str) -> Any:
    if not isinstance(choice, dict):
        return choice
    placed = Placed(choice)
    placed.place = place
    return placed


def _same_model(answered: str, asked: str) -> bool:
    """Return whether two names are of one model: they may differ before a `/`, and in a version."""
    names = [name.rstrip("/").rpartition("/")[2].casefold() for name in (answered, asked)]
    short, long = sorted(names, key=len)
    base = short.removesuffix("-latest")
    if short == long:
        return True
    return long.startswith(base) and _OF_A_VERSION.fullmatch(long[len(base) :]) is not None


def _save(path: Path, lines: Iterable[bytes]) -> None:
    with atomic(path, private=True) as stream:
        for line in lines:
            stream.write(line)


def _line(name: str, body: Mapping[str, object]) -> bytes:
    request = {"custom_id": name, "method": "POST", "url": _PATH, "body": body}
    return json.dumps(request).encode() + b"\n"


def _parts(lines: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Divide requests into files, each within the limits of a provider."""
    part: list[bytes] = []
    size = 0
    for line in lines:
        if part and (len(part) >= MOST_REQUESTS or size + len(line) > MOST_BYTES):
            yield part
            part, size = [], 0
        part.append(line)
        size += len(line)
    if part:
        yield part
