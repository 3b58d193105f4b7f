"""One request to a server and back: pacing, the one layer of retries, and what can go wrong, each by its name.

The openai client sends the requests with its own retries off. Only broken connections, broken bodies, 408, 409, 429 and
5xx are tried again. Nothing of a client's exception goes on to ours: its request holds the key.
"""

from __future__ import annotations

import asyncio
import logging
import random
import re
import time
from collections import Counter, OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from refladder.backends.openai.pace import LONGEST_PAUSE, Pace, pause_in
from refladder.errors import BackendUnavailableError, DataError
from refladder.parsing import parse_json

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping
    from types import TracebackType

    from openai import APIStatusError

    from refladder.backends.openai.options import Options

LOG = logging.getLogger("refladder.endpoint")

_RAW = {"X-Stainless-Raw-Response": "true"}  # the client's own way to hand out an answer as it came
_TRY_AGAIN = (408, 409, 425)
_SHOWN = 200  # characters of a server's text that go into a message
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]+")
_MOST_THROTTLED = 60  # how often one request is put off by a 429 before it fails
_CHARACTERS_A_TOKEN = 4  # of the estimate that tokens_per_minute needs before a request is sent
_LONG_ID = 24  # characters; OpenAI, vLLM, SGLang and llama-server give 32 and more
_REMEMBERED = 4096  # ids; an answer that goes astray does so at once
_BACKOFF = 0.25  # seconds before the second try; doubled each time, with a random share
_LONGEST_BACKOFF = 20.0
_FILE_TIMES = 10.0  # a file may take so many times longer than an answer
MOST_BYTES = 64_000_000  # of an unpacked answer; log-probabilities of a vocabulary of 256,000 tokens take 40 MB
MOST_FILE_BYTES = 1_000_000_000  # of an unpacked file; OpenAI's largest batch gives about 300 MB
_UNPACKED = ("", "identity", "gzip", "deflate")  # ways to pack an answer that are unpacked piece by piece


class Refusal(Exception):  # noqa: N818  never leaves this package: a row's reason, or the end of the run
    """A request that failed for good.

    Args:
        reason: one clause for people, without the key.
        status: of the answer, None when none came.
        ends_the_run: whether every other request must fail in the same way (key, model, quota, address).
    """

    def __init__(self, reason: str, *, status: int | None = 200, ends_the_run: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.status = status
        self.ends_the_run = ends_the_run

    @property
    def of_the_server(self) -> bool:
        """Whether the server failed, and not this request only: no whole answer, too many requests, or a 5xx."""
        return self.status is None or self.status >= 500 or self.status == 429  # noqa: PLR2004


class Identities:
    """Notices when a server gives one answer, by its id, to two different requests: then answers are mixed up.

    Only long ids count: some servers draw theirs from a thousand numbers, or give every answer the same.
    """

    def __init__(self) -> None:
        self._seen: OrderedDict[str, int] = OrderedDict()
        self._mean_something = True

    def mixed_up(self, name: object, request: str) -> bool:
        """Whether an answer with this id went to another request before."""
        if not isinstance(name, str) or len(name) < _LONG_ID or not self._mean_something:
            return False
        digest = hash(request)
        if self._seen.setdefault(name, digest) == digest:  # a cache may answer one request twice
            if len(self._seen) > _REMEMBERED:
                self._seen.popitem(last=False)
            return False
        self._mean_something = len(self._seen) > 1
        return self._mean_something


@dataclass(slots=True)
class Tally:
    """What was sent and what came back, over the life of an endpoint."""

    counts: Counter[str] = field(default_factory=Counter)
    identities: Identities = field(default_factory=Identities)

    def used(self, usage: Any) -> int | None:  # noqa: ANN401  a server's JSON
        """Count a `usage` block; returns its tokens, or None when there is none to trust.

        Of the prompt's tokens those are `cached` that the server says it had read before, where it says so.
        """
        if not isinstance(usage, dict):
            return None
        found = [usage.get(name) for name in ("prompt_tokens", "completion_tokens")]
        numbers = [number if isinstance(number, int) and number >= 0 else 0 for number in found]
        self.counts["prompt tokens"] += numbers[0]
        self.counts["answer tokens"] += numbers[1]
        details = usage.get("prompt_tokens_details")
        cached = details.get("cached_tokens") if isinstance(details, dict) else None
        if isinstance(cached, int) and 0 <= cached <= numbers[0]:
            self.counts["cached prompt tokens"] += cached
        else:
            self.counts["prompt tokens of unknown cache"] += numbers[0]
        return sum(numbers)


class Server:
    """An open connection to a server; use it in `async with`, inside one event loop.

    Args:
        options: where it is, and how often and how long it is tried.
        key: None for a server that needs none.
        pace: when requests may start.
        tally: where they are counted.
    """

    def __init__(self, options: Options, key: str | None, pace: Pace, tally: Tally) -> None:
        from openai import AsyncOpenAI, DefaultAsyncHttpxClient  # noqa: PLC0415  half a second only this backend needs

        self._options = options
        self._key = key
        self._pace = pace
        self._tally = tally
        self._random = random.Random(0)  # noqa: S311  spreads retries out; no secret
        self._client = AsyncOpenAI(
            api_key=key or "none",
            base_url=options.base_url,
            max_retries=0,
            timeout=options.timeout,
            http_client=DefaultAsyncHttpxClient(event_hooks={"response": [_take_in]}),
            default_headers={"Accept-Encoding": "gzip, deflate"},
        )
        self._told_pause = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.close()

    async def post(self, path: str, body: Mapping[str, Any], *, attempts: int | None = None) -> dict[str, Any]:
        """Send one request until it is answered or fails for good.

        Args:
            path: under the base URL (`/chat/completions`), or a whole URL.
            body: sent as JSON, with the option `extra` put over it.
            attempts: instead of the option of this name.

        Returns:
            The JSON object of the answer.

        Raises:
            Refusal: why it failed.
        """
        body = {**body, **self._options.extra}
        tokens = self._estimate(body)
        tries = throttled = 0
        while True:
            ticket = await self._pace.enter(tokens)
            unused = 0.0
            try:
                self._tally.counts["requests"] += 1
                answer = await self._once(path, body)
                if self._tally.identities.mixed_up(answer.get("id"), str(body.get("messages") or body.get("prompt"))):
                    raise Refusal(
                        "one answer was given to two different requests, so what lies between mixes answers up",
                        ends_the_run=True,
                    )
                used = self._tally.used(answer.get("usage"))
                unused = 0.0 if used is None else tokens - used
                self._pace.succeeded()
                return answer  # noqa: TRY300  the way out of the loop
            except _Again as again:
                pause = pause_in(again.headers, throttled=again.status == 429)  # noqa: PLR2004  Too Many Requests
                self._tell(pause)
                if again.status == 429:  # noqa: PLR2004
                    throttled += 1
                    self._tally.counts["put off (429)"] += 1
                    self._pace.throttled(ticket, pause)
                    wait = 0.0
                else:
                    tries += 1
                    self._tally.counts["tried again"] += 1
                    self._pace.faulted()
                    if pause is not None:
                        self._pace.pause(pause)
                    wait = self._backoff(tries)
                most = attempts or self._options.attempts
                if tries >= most or throttled >= _MOST_THROTTLED:
                    times = f" ({tries} times)" if tries > 1 else ""
                    raise Refusal(f"{again.reason}{times}", status=again.status) from None
                if self._pace.out_of_patience:
                    raise self._no_patience(again) from None
            finally:
                self._pace.leave(unused)
            if wait:
                await asyncio.sleep(wait)

    async def fetch(self, method: str, path: str, *, attempts: int | None = None, **request: Any) -> bytes:  # noqa: ANN401
        """Send one request about files or batches; tried again as `post` does, but outside its pacing.

        Args:
            method: GET or POST.
            path: under the base URL.
            attempts: instead of the option of this name.
            request: what the client's `get` or `post` takes: `body`, `files`, `options`.

        Raises:
            Refusal: why it failed.
        """
        options = request.pop("options", {})
        options = {**options, "headers": {**options.get("headers", {}), **_RAW}}
        tries = 0
        begun = time.monotonic()
        while True:
            self._tally.counts["requests"] += 1
            try:
                send: Any = self._client.get if method == "GET" else self._client.post
                raw = await self._sent(send(path, cast_to=object, options=options, **request), _FILE_TIMES)
            except _Again as again:
                tries += 1
                if tries >= (attempts or self._options.attempts):
                    raise Refusal(again.reason, status=again.status) from None
                pause = pause_in(again.headers, throttled=again.status == 429)  # noqa: PLR2004
                self._tell(pause)
                left = begun + self._options.patience - time.monotonic()
                if pause is not None and left <= 0:
                    raise self._no_patience(again) from None
                await asyncio.sleep(max(self._backoff(tries), min(pause or 0.0, LONGEST_PAUSE, left)))
            else:
                return bytes(raw.content)

    def _tell(self, pause: float | None) -> None:
        """Say once that the server asks for a long pause, and what is done about it."""
        if pause is not None and pause > LONGEST_PAUSE and not self._told_pause:
            self._told_pause = True
            LOG.warning(
                "%s asks to wait %s s; it is asked again every %g s, and the run stops when it has given no answer for "
                "%g s (the option patience)",
                self._options.base_url,
                f"{pause:,.0f}",
                LONGEST_PAUSE,
                self._options.patience,
            )

    def _no_patience(self, again: _Again) -> Refusal:
        return Refusal(
            f"it put requests off for {self._options.patience:g} s, the patience of this run, and answered none: "
            f"{again.reason}",
            status=429,
            ends_the_run=True,
        )

    def _backoff(self, tries: int) -> float:
        return float(min(_LONGEST_BACKOFF, _BACKOFF * 2 ** (tries - 1))) * (0.5 + self._random.random() / 2)

    async def models(self) -> list[str]:
        """The ids of the models the server offers; empty when it does not say."""
        try:
            async with asyncio.timeout(self._options.timeout):
                raw = await self._client.get("/models", cast_to=object, options={"headers": _RAW})
            data = parse_json(raw.http_response.content, "the models")["data"]  # type: ignore[attr-defined]
            return [str(entry["id"]) for entry in data][:20]
        except Exception as error:  # noqa: BLE001  only makes another message more helpful
            LOG.debug("no list of models: %s", type(error).__name__)
            return []

    async def _once(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        sent = self._client.post(path, cast_to=object, body=body, options={"headers": _RAW})
        response = await self._sent(sent)
        pause = pause_in(response.headers, throttled=False)
        if pause is not None:
            self._pace.pause(pause)
        return self._object(response.content, response.headers.get("content-type", ""))

    async def _sent(self, request: Awaitable[Any], times: float = 1.0) -> Any:  # noqa: ANN401  an HTTP response
        """The response to a request of the client, `times` as long being waited for as for an answer."""
        import openai  # noqa: PLC0415

        limit = self._options.timeout * times
        try:
            async with asyncio.timeout(limit):
                raw = await request
        except (openai.APITimeoutError, TimeoutError):
            raise _Again(f"no whole answer within {limit:g} s") from None
        except openai.APIStatusError as error:
            raise self._judged(error) from None
        except openai.APIConnectionError as error:
            if isinstance(error.__cause__, Refusal):  # of `_take_in`
                raise error.__cause__ from None
            raise _Again(f"the connection failed: {self.shown(_cause(error))}") from None
        return raw.http_response

    def _object(self, content: bytes, kind: str) -> dict[str, Any]:
        try:
            found = parse_json(content, "the answer")
        except DataError:
            if "html" in kind or content.lstrip()[:1] == b"<":
                raise Refusal(
                    "it answered with an HTML page instead of JSON; a base URL usually ends in /v1", status=200
                ) from None
            raise _Again(f"the answer is not JSON: {self.shown(content.decode('utf-8', 'replace'))!r}") from None
        if not isinstance(found, dict):
            raise _Again(f"the answer is not a JSON object: {self.shown(content.decode('utf-8', 'replace'))!r}")
        if isinstance(found.get("error"), dict | str) and "choices" not in found:  # an error under HTTP 200
            raise Refusal(f"it answered with an error: {self.shown(_error_text(found))}", status=200)
        return found

    def _judged(self, error: APIStatusError) -> Refusal | _Again:
        """What a status other than 2xx means."""
        status = error.status_code
        text = self.shown(_error_text(error.body) or error.response.text)
        lower = text.lower()
        if status == 429 and ("insufficient_quota" in _error_code(error.body) or "quota" in lower):  # noqa: PLR2004
            return Refusal(f"the quota is used up (429: {text})", status=status, ends_the_run=True)
        if status in (429, *_TRY_AGAIN) or status >= 500:  # noqa: PLR2004
            return _Again(f"the server answered {status}: {text}", status, error.response.headers)
        if status in (401, 403):
            where = "it was sent no key" if self._key is None else "the key was refused"
            return Refusal(f"{where} ({status}: {text})", status=status, ends_the_run=True)
        return Refusal(f"the server answered {status}: {text}", status=status, ends_the_run=status in (402, 404))

    def shown(self, text: str) -> str:
        """A server's text as it may be shown: short, on one line, without control characters and without the key."""
        if self._key:
            text = text.replace(self._key, "[key]")
        text = _CONTROL.sub(" ", text).strip()
        return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"

    def _estimate(self, body: Mapping[str, Any]) -> float:
        if self._options.tokens_per_minute is None:
            return 0.0
        prompt = body.get("prompt")
        length = len(prompt) if isinstance(prompt, list) else len(str(prompt or body.get("messages", "")))
        each = 1 if isinstance(prompt, list) else _CHARACTERS_A_TOKEN
        return length / each + float(body.get("max_tokens") or body.get("max_completion_tokens") or 0)


async def _take_in(response: Any) -> None:  # noqa: ANN401  an httpx response, of whichever httpx the client has
    """Read a response, as the client does, but no more of it than is allowed, and follow none to another server.

    Raises:
        Refusal: it is too large, packed in a way that cannot be limited, or leads elsewhere.
    """
    url = response.request.url
    if response.has_redirect_location:
        try:
            target = url.join(response.headers["location"])
        except Exception:  # noqa: BLE001  of whichever httpx it is
            raise Refusal("it sends requests on to an address that is none", ends_the_run=True) from None
        safer = (url.scheme, target.scheme) == ("http", "https")
        if target.host != url.host or ((target.scheme, target.port) != (url.scheme, url.port) and not safer):
            raise Refusal(
                f"it sends requests on to another server, {target.netloc.decode('ascii', 'replace')[:_SHOWN]!r},"
                " and prompts go to the one that was named only; name that one with --base-url if it is meant",
                status=response.status_code,
                ends_the_run=True,
            )
    packed = response.headers.get("content-encoding", "").strip().lower()
    if packed not in _UNPACKED:
        raise Refusal(f"the answer is packed as {packed[:40]!r}, and only gzip and deflate are read")
    most = MOST_FILE_BYTES if "/files/" in url.path else MOST_BYTES
    parts, size = [], 0
    async for part in response.aiter_bytes():
        size += len(part)
        if size > most:
            raise Refusal(f"the answer is larger than {most:,} bytes; it was not read to its end")
        parts.append(part)
    response._content = b"".join(parts)  # noqa: SLF001  what the client's own `aread` sets, and then does not read again


class _Again(Exception):  # noqa: N818  control flow of `post`
    def __init__(self, reason: str, status: int | None = None, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.status = status
        self.headers: Mapping[str, str] = {} if headers is None else headers


def _cause(error: BaseException) -> str:
    """The innermost reason of a connection error that says anything."""
    texts = [str(error)]
    while error.__cause__ is not None or error.__context__ is not None:
        following = error.__cause__ or error.__context__
        if following is None:
            break
        error = following
        if str(error):
            texts.append(str(error))
    return texts[-1]


def _error_text(body: Any) -> str:  # noqa: ANN401  a server's JSON
    if isinstance(body, dict):
        inner = body.get("error", body)
        if isinstance(inner, dict):
            inner = inner.get("message") or inner.get("detail") or inner
        return str(inner)
    return body if isinstance(body, str) else ""


def _error_code(body: Any) -> str:  # noqa: ANN401  a server's JSON
    return f"{body.get('code')} {body.get('type')}" if isinstance(body, dict) else ""


def unavailable(url: str, model: str, refusal: Refusal, models: list[str]) -> BackendUnavailableError:
    """The error that ends a run, from the refusal that ended it."""
    status = refusal.status
    if status in (401, 403):
        step = "set REFLADDER_API_KEY or OPENAI_API_KEY to a key of this server, or name a file with api_key_file"
    elif status == 404 and models and model not in models:  # noqa: PLR2004  Not Found
        return BackendUnavailableError(f"{url}: model {model!r} is not served; it serves: {', '.join(models)}")
    elif status == 404:  # noqa: PLR2004
        step = "check the model's name and --base-url, which usually ends in /v1"
    elif status == 429:  # noqa: PLR2004  Too Many Requests
        step = "run the same command again later; what was answered is kept"
    elif status is None:
        step = "start the server, or check --base-url"
    else:
        step = "check --base-url and the server's own log"
    return BackendUnavailableError(f"{url}: {refusal.reason}; {step}")
