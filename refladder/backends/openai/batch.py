"""Provider batches, at half the price: upload requests as a file, and collect the answers hours later.

The state is in one folder, written before each request to the provider:

    handshake.json              how labels are read, so that later requests are the same
    batch-0001.requests.jsonl   what is uploaded; `custom_id` is the digest of the request
    batch-0001.json             its ids at the provider, and its status
    batch-0001.answers.jsonl    the provider's lines, unchanged

A request that has an answer is not sent again. If a run was interrupted between upload and batch id, the batch is
looked up at the provider, so that it is not paid for twice.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from refladder.backends.openai.transport import NotYet, Refusal, at, error_text, rows_at
from refladder.errors import BackendError, BackendUnavailableError, DataError, UsageError, plural
from refladder.files.jsonl import atomic, read_bytes, throw_away, write_json
from refladder.files.locks import locked_folder
from refladder.parsing import parse_as, parse_json

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping

    from refladder.backends.openai.options import Options
    from refladder.backends.openai.server import Server
    from refladder.backends.openai.transport import Tally

SCHEMA = "endpoint-batch/1"
ENDED = ("completed", "failed", "expired", "cancelled")  # any other status means that it is running
MOST_REQUESTS, MOST_BYTES = 50_000, 190_000_000  # of one batch; OpenAI takes 50,000 and 200 MB
_MENDABLE = (401, 402, 403, 404, 408, 409, 425, 429)  # and 5xx: the request may succeed later
_GONE = (404, 405, 501)


class BatchUnderWayError(BackendError):
    """The provider is still working on a batch; the same command collects its answers later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A batch as in its file in the folder; `file` and `batch` are the provider's ids."""

    schema: str = SCHEMA
    base_url: str
    requests: int
    file: str | None = None
    batch: str | None = None
    status: str = "not submitted"
    collected: bool = False


def digest(body: Mapping[str, Any]) -> str:
    """The custom_id of a request: the digest of its body."""
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


class Batches:
    """The batches of a folder, used like a server: `post` returns a collected answer, or records the request."""

    def __init__(self, server: Server, options: Options, tally: Tally) -> None:
        self._folder = Path(str(options.batch))
        self._server = server
        self._url = options.base_url
        self._extra = options.extra
        self._tally = tally
        self._batches: dict[str, Batch] = {}
        self._progress: dict[str, str] = {}
        self._answers: dict[str, dict[str, Any]] = {}
        self._lost: dict[str, str] = {}  # requests that a batch has just ended without answering, and the reason
        self._missing: dict[str, dict[str, Any]] = {}

    @asynccontextmanager
    async def collected(self) -> AsyncIterator[None]:
        """Collect the answers for `post`, then submit the requests that the block recorded; locks the folder."""
        with locked_folder(self._folder):
            for path in sorted(self._folder.glob("batch-*[0-9].json")):
                batch = self._batches[path.stem] = _read(path)
                if batch.base_url != self._url:
                    raise UsageError(
                        f"{self._folder}: holds batches of {batch.base_url}; name another folder for {self._url}"
                    )
                if batch.collected:
                    self._take(self._lines(path.stem, "answers"))
            for name, batch in list(self._batches.items()):
                if not batch.collected:
                    await self._look(name, batch)
            yield
            if self._missing:
                await self._go_on()

    async def post(self, _path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to a request, if it was collected; else NotYet."""
        body = {**body, **self._extra}
        name = digest(body)
        if name not in self._answers:
            self._missing[name] = body
            raise NotYet
        response = self._answers[name]["response"]
        status, answer = response.get("status_code"), response.get("body")
        if status != 200 or not isinstance(answer, dict) or (answer.get("error") and "choices" not in answer):  # noqa: PLR2004
            raise Refusal(f"the server answered {status}: {self.shown(error_text(answer))}", status=200)
        return answer

    def shown(self, text: str) -> str:
        """As `Server.shown`."""
        return self._server.shown(text)

    async def _look(self, name: str, batch: Batch) -> None:
        """Ask for the status of a batch, and collect it if it has ended."""
        number = batch.batch or await self._number_of(batch)
        if number is None:  # never submitted: its requests go into a new one
            del self._batches[name]
            throw_away(self._folder / f"{name}.json")
            return
        status = await self._ask("GET", f"/batches/{_part(number)}", number)
        current = replace(batch, batch=number, status=str(status.get("status")))
        if current.status in ENDED:
            await self._collect(name, status)
            current = replace(current, collected=True)
        self._record(name, current)
        counts = status.get("request_counts")
        if isinstance(counts, dict):
            self._progress[name] = f", {counts.get('completed', 0)} of {plural(batch.requests, 'request')} done"

    async def _go_on(self) -> None:
        """Submit the missing requests, and report the batches to wait for."""
        told = []
        waiting: set[str] = set()
        for name, batch in self._batches.items():
            if not batch.collected and (unanswered := self._asked(name) & self._missing.keys()):
                waiting |= unanswered
                told.append(f"batch {batch.batch} is {self.shown(batch.status)}{self._progress.get(name, '')}")
        lost = self._lost.keys() & self._missing.keys()
        fresh = {name: body for name, body in self._missing.items() if name not in waiting | lost}
        for part in _parts(fresh):
            number = await self._submit(part)
            told.append(f"submitted batch {number} with {plural(len(part), 'request')}")
        told += sorted({self._lost[name] for name in lost})
        step = "run the same command again to collect"
        if lost:
            step = f"answers are kept; run the same command again to resubmit the other {len(lost):,}"
        raise BatchUnderWayError(f"{'; '.join(told)} ({self._folder}); {step}")

    async def _submit(self, lines: list[bytes]) -> str:
        name = f"batch-{1 + max((int(name[6:]) for name in self._batches), default=0):04}"
        requests = self._folder / f"{name}.requests.jsonl"
        content = b"".join(lines)
        with atomic(requests) as stream:
            stream.write(content)
        batch = self._record(name, Batch(base_url=self._url, requests=len(lines)))
        file = _id(await self._ask("POST", "/files", content=(requests.name, content)))
        batch = self._record(name, replace(batch, file=file))
        order = {"input_file_id": file, "endpoint": "/v1/chat/completions", "completion_window": "24h"}
        created = await self._ask("POST", "/batches", content=json.dumps(order).encode(), attempts=1)
        number = _id(created)
        self._record(name, replace(batch, batch=number, status=str(created.get("status"))))
        return number

    async def _number_of(self, batch: Batch) -> str | None:
        """The id of a batch whose submission was interrupted before the id was stored; None if it was not submitted."""
        after = ""
        while batch.file is not None:
            page = await self._ask("GET", f"/batches?limit=100{after}")
            entries = rows_at(page, "data")
            for entry in entries:
                if entry.get("input_file_id") == batch.file:
                    return _id(entry)
            if not page.get("has_more") or not entries:
                break
            after = f"&after={_part(_id(entries[-1]))}"
        return None

    async def _collect(self, name: str, status: Mapping[str, Any]) -> None:
        """Fetch and store the answers of a batch that has ended."""
        content = b""
        for key in ("output_file_id", "error_file_id"):
            if isinstance(file := status.get(key), str) and file:
                part = await self._fetch("GET", f"/files/{_part(file)}/content", file)
                content += part if part.endswith(b"\n") or not part else part + b"\n"
        before = len(self._answers)
        lines = list(_parsed(content, f"{self._url}: the answers of {name}"))
        with atomic(self._folder / f"{name}.answers.jsonl") as stream:
            stream.write(content)
        reasons = [*self._take(lines, tally=self._tally), *map(error_text, rows_at(status, "errors", "data"))]
        open_ = self._asked(name) - self._answers.keys()
        reason = (
            f"batch {status.get('id')} {status.get('status')} with {plural(len(self._answers) - before, 'answer')}, "
            f"{plural(len(open_), 'request')} without one{f': {self.shown(reasons[0])}' if reasons else ''}"
        )
        self._lost.update(dict.fromkeys(open_, self.shown(reason)))

    def _take(self, lines: list[dict[str, Any]], tally: Tally | None = None) -> list[str]:
        """Keep the first line that answers a request, and count its tokens; returns why other lines do not answer."""
        reasons = []
        for line in lines:
            status, body = at(line, "response", "status_code"), at(line, "response", "body")
            if line.get("error") or not isinstance(status, int) or status in _MENDABLE or status >= 500:  # noqa: PLR2004
                reasons.append(error_text(line.get("error") or body) or "no answer")
            elif self._answers.setdefault(str(line.get("custom_id")), line) is line and tally is not None:
                tally.used(at(body, "usage"))
        return reasons

    def _asked(self, name: str) -> set[str]:
        return {str(line.get("custom_id")) for line in self._lines(name, "requests")}

    def _lines(self, name: str, kind: str) -> list[dict[str, Any]]:
        path = self._folder / f"{name}.{kind}.jsonl"
        return list(_parsed(read_bytes(path), str(path)))

    def _record(self, name: str, batch: Batch) -> Batch:
        self._batches[name] = batch
        write_json(self._folder / f"{name}.json", asdict(batch))
        return batch

    async def _fetch(self, method: str, path: str, what: str | None = None, **request: Any) -> bytes:  # noqa: ANN401
        """The bytes at a path; `what` is the id in it."""
        try:
            return await self._server.fetch(method, path, **request)
        except Refusal as refusal:
            if refusal.status in _GONE and what is not None:
                step = f"check that the key is that of the same account; to give {what!r} up, delete its file"
            elif refusal.status in _GONE:
                step = "this server has no batches; leave the option batch out"
            else:
                step = f"what was answered is kept in {self._folder}; run the same command again"
            raise BackendUnavailableError(f"{self._url}{path}: {refusal.reason}; {step}") from None

    async def _ask(self, method: str, path: str, what: str | None = None, **request: Any) -> dict[str, Any]:  # noqa: ANN401
        content = await self._fetch(method, path, what, **request)
        answer = _object(content)
        if answer is None:
            shown = self.shown(content.decode("utf-8", "replace"))
            raise BackendUnavailableError(
                f"{self._url}{path}: the answer is not a JSON object: {shown!r}; check the URL"
            )
        return answer


def _parts(bodies: Mapping[str, Mapping[str, Any]]) -> Iterator[list[bytes]]:
    """Request lines by batch, each within the limits of the provider."""
    part: list[bytes] = []
    size = 0
    for name, body in bodies.items():
        request = {"custom_id": name, "method": "POST", "url": "/v1/chat/completions", "body": body}
        line = json.dumps(request).encode() + b"\n"
        if part and (len(part) >= MOST_REQUESTS or size + len(line) > MOST_BYTES):
            yield part
            part, size = [], 0
        part.append(line)
        size += len(line)
    if part:
        yield part


def _read(path: Path) -> Batch:
    step = "name another folder"
    batch = parse_as(Batch, read_bytes(path), str(path), SCHEMA, step)
    if batch.schema != SCHEMA:
        raise DataError(f"{path}: schema {batch.schema!r}, and this refladder reads {SCHEMA}; {step}")
    return batch


def _parsed(content: bytes, where: str) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(content.split(b"\n"), 1):
        if not line.strip():
            continue
        answer = _object(line)
        if answer is None:
            raise DataError(f"{where}:{number}: not a JSON object; run the same command again, or name another folder")
        yield answer


def _object(text: bytes) -> dict[str, Any] | None:
    with suppress(DataError):
        if isinstance(value := parse_json(text, "the answer"), dict):
            return value
    return None


def _id(answer: Mapping[str, Any]) -> str:
    name = answer.get("id")
    if not isinstance(name, str) or not name:
        raise BackendUnavailableError("the provider gave no id for a batch or its file; run the same command again")
    return name


def _part(name: str) -> str:
    """An id as a part of a URL, quoted: it came from a server and must not change the path."""
    return quote(name, safe="")
