"""HTTP connections to a server, with one layer of retries and limits on the size of answers.

aiohttp sends the requests, and tenacity says how long to wait before the next try. Only broken connections, broken
bodies, 408, 409, 425, 429 and 5xx are tried again. Nothing of aiohttp's exceptions is shown, as their requests hold the
key.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import zlib
from contextlib import suppress
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, Self, TypeVar
from urllib.request import getproxies, proxy_bypass

import aiohttp
from tenacity import AsyncRetrying, RetryCallState, wait_random_exponential
from yarl import URL

from refladder.backends.openai.errors import (
    ANSWERED,
    LOG,
    SHOWN_CHARACTERS,
    TOO_MANY_REQUESTS,
    Refusal,
    Tally,
    TryAgain,
    at,
    error_text,
    failure_within,
    refused_field,
    shown,
)
from refladder.backends.openai.rate_limit import LONGEST_PAUSE, RateLimiter, pause_in
from refladder.errors import BackendUnavailableError, DataError, option
from refladder.parsing import parse_json
from refladder.version import __version__

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from refladder.backends.openai.options import Options

_TRY_AGAIN = 408, 409, 425, TOO_MANY_REQUESTS
_REDIRECTS = 301, 302, 303, 307, 308
# The only redirect after which a POST becomes a GET.
_SEE_OTHER = 303
_MOST_REDIRECTS = 10
# How often one request may be answered with 429 before it fails.
_MOST_THROTTLED = 60
# Used for the estimate that tokens_per_minute needs before a request is sent.
_CHARACTERS_A_TOKEN = 4
# Seconds until released connections have ended, see aiohttp, Graceful Shutdown.
_TLS_CLOSING = 0.25
# Seconds that an idle connection is kept; uvicorn and node close theirs after 5.
_KEPT_ALIVE = 4.0
# Bytes; aiohttp wants a larger body as a stream, which it sends piece by piece.
_LARGE_BODY = 2**20
# Most bytes of a decompressed answer; log-probabilities of a vocabulary of 256,000 tokens take 40 MB.
MOST_BYTES = 64_000_000
_PLAIN = "", "identity"
# The first requests use a connection each until the ids of answers prove that a mix-up is noticed.
_FIRST_REQUESTS = 16
# Compressions whose output zlib can limit.
_COMPRESSED = "gzip", "deflate"
# Window sizes for a zlib or gzip stream, and for a raw one.
_ANY_HEADER, _NO_HEADER = zlib.MAX_WBITS | 32, -zlib.MAX_WBITS
# Seconds before the next try.
_BACKOFF = wait_random_exponential(multiplier=0.25, max=20)
# `RetryCallState` needs such an object.
_RETRYING = AsyncRetrying()

Answer = TypeVar("Answer")


class Connection:
    """An open connection in one event loop; the environment names its proxies and certificates."""

    def __init__(
        self,
        options: Options,
        key: str | None,
        limiter: RateLimiter,
        tally: Tally,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self._options = options
        self._key = key
        self._headers = headers or {}
        self._limiter = limiter
        self._tally = tally
        self._reported_pause = False
        # The environment is read once for each connection.
        self._proxy = cache(_proxy)

    async def __aenter__(self) -> Self:
        named = {
            "Accept": "application/json",
            "Accept-Encoding": "gzip, deflate",
            "User-Agent": f"refladder/{__version__}",
            "Authorization": f"Bearer {self._key}" if self._key else None,
            "OpenAI-Organization": os.environ.get("OPENAI_ORG_ID"),
            "OpenAI-Project": os.environ.get("OPENAI_PROJECT_ID"),
        }
        given = {name.lower() for name in self._headers}
        headers = {}
        for name, value in named.items():
            if value and name.lower() not in given:
                headers[name] = value
        headers |= self._headers

        def session(**of_connector: Any) -> aiohttp.ClientSession:
            return aiohttp.ClientSession(
                # `RateLimiter` limits the requests in flight, so the connector does not.
                connector=aiohttp.TCPConnector(limit=0, **of_connector),
                headers=headers,
                # `_exchange` limits the time of a request with all its redirects.
                timeout=aiohttp.ClientTimeout(),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
            )

        self._session = session(keepalive_timeout=_KEPT_ALIVE)
        self._single_use = session(force_close=True)
        return self

    async def __aexit__(self, *_: object) -> None:
        closing = asyncio.gather(self._session.close(), self._single_use.close())
        try:
            await asyncio.shield(closing)
        except asyncio.CancelledError:
            # The work was over when it was cancelled, while the connections close.
            await closing
            raise
        if self._options.base_url.startswith("https:"):
            await asyncio.sleep(_TLS_CLOSING)

    async def post(self, path: str, body: Mapping[str, object]) -> dict[str, object]:
        """Return the JSON object that answers a request with the option `extra`; Refusal if it fails for good."""
        body = self._options.sent(body)
        tokens = self._estimate(body)

        async def once() -> tuple[dict[str, object], float]:
            content, headers = await self._exchange("POST", path, _JSON_TEXT(body).encode())
            pause = pause_in(headers, throttled=False)
            if pause is not None:
                self._limiter.pause(pause)
            answer = self._object(
                content, headers.get("Content-Type", ""), listed=path.endswith("/classify")
            )
            if self._tally.identities.mixed_up(
                answer.get("id"), str(body.get("messages") or body.get("prompt"))
            ):
                raise Refusal(
                    "one answer was given to two different requests, so what lies between mixes answers up",
                    ends_the_run=True,
                )
            self._count_model(answer.get("model"))
            used = self._tally.used(answer.get("usage"))
            return answer, 0.0 if used is None else tokens - used

        return await self._answered(once, tokens)

    def _count_model(self, name: object) -> None:
        """Count an answer by the model that it names, and warn of the second model."""
        if not isinstance(name, str):
            return
        models, name = self._tally.models, self.shown(name)
        models[name] += 1
        if len(models) == 2 and models[name] == 1:
            LOG.warning(
                "%s: answers named the model %s, and now %s, so the judge may have changed in mid-run. The run "
                "continues; if these are two models, run it again with one of them, without its stored answers and "
                "judgments.",
                self._options.base_url,
                *models,
            )

    async def models(self) -> list[str]:
        """Return the ids of the models that the server offers; empty if it does not say."""
        try:
            content, _ = await self._exchange("GET", "/models")
            return [str(entry["id"]) for entry in parse_json(content, "the models")["data"]]
        except (Refusal, TryAgain, DataError, LookupError, TypeError) as error:
            LOG.debug("no list of models: %s", type(error).__name__)
            return []

    def shown(self, text: str) -> str:
        """Return a server's text that is safe to show: short, on one line, without control characters, key and headers."""
        return shown(text, self._key, self._headers.values())

    async def _answered(
        self, once: Callable[[], Awaitable[tuple[Answer, float]]], tokens: float
    ) -> Answer:
        """Return the answer of `once`, which also gives its unused estimated tokens; try again while it raises TryAgain."""
        broken = put_off = 0
        while True:
            ticket = await self._limiter.enter(tokens)
            unused = 0.0
            try:
                self._tally.counts["requests"] += 1
                answer, unused = await once()
                self._limiter.succeeded()
                return answer  # noqa: TRY300  the way out
            except TryAgain as failure:
                again = failure
                self._slow_down(again, ticket)
            finally:
                self._limiter.leave(unused)
            put_off += again.throttled
            broken += not again.throttled
            if broken >= self._options.attempts or put_off >= _MOST_THROTTLED:
                times = f" ({broken} times)" if broken > 1 else ""
                raise Refusal(f"{again.reason}{times}", status=again.status)
            if self._limiter.out_of_patience:
                raise Refusal(
                    f"it put requests off for {self._options.patience:g} s, the patience of this run, and answered "
                    f"none: {again.reason}",
                    status=TOO_MANY_REQUESTS,
                    ends_the_run=True,
                )
            # After a 429, `RateLimiter` holds every request back.
            if not again.throttled:
                tries = RetryCallState(_RETRYING, None, (), {})
                tries.attempt_number = broken + put_off
                await asyncio.sleep(_BACKOFF(tries))

    def _slow_down(self, again: TryAgain, ticket: int) -> None:
        """Count a failed try, slow the requests down accordingly, and report a long pause once."""
        pause = pause_in(again.headers, throttled=again.throttled)
        if pause is not None and pause > LONGEST_PAUSE and not self._reported_pause:
            self._reported_pause = True
            LOG.warning(
                "%s asks to wait %s s; it is asked again every %g s, and the run stops when it has given no answer for "
                "%g s (the option patience)",
                self._options.base_url,
                f"{pause:,.0f}",
                LONGEST_PAUSE,
                self._options.patience,
            )
        if again.throttled:
            self._tally.counts["put off (429)"] += 1
            self._limiter.throttled(ticket, pause)
            return
        self._tally.counts["tried again"] += 1
        self._limiter.faulted()
        if pause is not None:
            self._limiter.pause(pause)

    async def _exchange(
        self, method: str, path: str, content: bytes | None = None
    ) -> tuple[bytes, Mapping[str, str]]:
        """Return the content and headers of an answer with a status of 2xx."""
        limit = self._options.timeout
        try:
            async with asyncio.timeout(limit):
                return await self._followed(method, path, content)
        except TimeoutError:
            raise TryAgain(f"no whole answer within {limit:g} s") from None
        except (aiohttp.ClientError, OSError) as error:
            raise TryAgain(f"the connection failed: {self.shown(_cause(error))}") from None

    async def _followed(
        self, method: str, path: str, content: bytes | None
    ) -> tuple[bytes, Mapping[str, str]]:
        """Return the answer to a request, after redirects within the server."""
        if not path.startswith(("http://", "https://")):
            path = self._options.address + path
        url = _address(path)
        if self._options.query:
            url = url.update_query(self._options.query)
        for _ in range(_MOST_REDIRECTS):
            async with self._connections().request(
                method,
                url,
                data=_payload(content),
                headers=None if content is None else _JSON,
                proxy=self._proxy(url),
                allow_redirects=False,
            ) as response:
                if response.status in _REDIRECTS and "Location" in response.headers:
                    url = _next_address(url, response)
                    if response.status == _SEE_OTHER:
                        method, content = "GET", None
                    continue
                answer = await _read(response)
                if 200 <= response.status < 300:
                    return answer, response.headers
                raise self._failure(response.status, answer, response.headers)
        raise Refusal(
            f"it redirects a request more than {_MOST_REDIRECTS} times", ends_the_run=True
        )

    def _connections(self) -> aiohttp.ClientSession:
        """Return the session for the next request: a new connection each time, until ids show that mix-ups are noticed."""
        first = (
            self._tally.counts["requests"] <= _FIRST_REQUESTS and not self._tally.identities.proven
        )
        return self._single_use if first else self._session

    def _object(self, content: bytes, kind: str, *, listed: bool = False) -> dict[str, object]:
        """Return the JSON object of an answer; a list, if one is expected, under the key `data`."""
        expected = "a JSON object"
        try:
            answer = parse_json(content, "the answer")
        except DataError:
            if "html" in kind or content.lstrip()[:1] == b"<":
                raise Refusal(
                    "it answered with an HTML page instead of JSON; a base URL usually ends in /v1"
                ) from None
            answer, expected = None, "JSON"
        if listed and isinstance(answer, list):
            return {"data": answer}
        if not isinstance(answer, dict):
            raise TryAgain(
                f"the answer is not {expected}: {self.shown(content.decode('utf-8', 'replace'))!r}"
            )
        if within := failure_within(answer):
            status, error = within
            if status == ANSWERED:
                raise Refusal(f"it answered with an error: {self.shown(error_text(error))}")
            raise self._failure(status, json.dumps(error).encode(), {})
        if answer.get("choices", 0) in (None, []):
            raise TryAgain("the answer holds no choices", ANSWERED)
        return answer

    def _failure(
        self, status: int, content: bytes, headers: Mapping[str, str]
    ) -> Refusal | TryAgain:
        """Return the meaning of a status other than 2xx."""
        body = None
        with suppress(DataError):
            body = parse_json(content, "the error")
        text = self.shown(error_text(body) or content.decode("utf-8", "replace"))
        inner = at(body, "error") or body
        codes = (at(inner, "code"), at(inner, "type"))
        said = error_text(body).lower()
        if status == TOO_MANY_REQUESTS and ("insufficient_quota" in codes or "quota" in said):
            return Refusal(f"the quota is used up (429: {text})", status=status, ends_the_run=True)
        if status in _TRY_AGAIN or status >= 500:
            return TryAgain(f"the server answered {status}: {text}", status, headers)
        if status in (401, 403):
            where = "it was sent no key" if self._key is None else "the key was refused"
            if self._headers:
                where = "the key or a header was refused"
            return Refusal(
                f"{where} ({status}: {text})", said=text, status=status, ends_the_run=True
            )
        return Refusal(
            f"the server answered {status}: {text}",
            status=status,
            ends_the_run=status in (402, 404),
            about=content.decode("utf-8", "replace"),
            named=refused_field(body),
        )

    def _estimate(self, body: Mapping[str, Any]) -> float:
        if self._options.tokens_per_minute is None:
            return 0.0
        prompt: Any = body.get("prompt") or [
            [*body["query"], *item] for item in body.get("items", ())
        ]
        most = float(body.get("max_tokens") or body.get("max_completion_tokens") or 0)
        if isinstance(prompt, list) and prompt:
            prompts = prompt if isinstance(prompt[0], list) else [prompt]
            return sum(map(len, prompts)) + most * len(prompts)
        return len(str(prompt or body.get("messages", ""))) / _CHARACTERS_A_TOKEN + most


_JSON = {"Content-Type": "application/json"}
# json.dumps would make an encoder for each call.
_JSON_TEXT = json.JSONEncoder(separators=(",", ":")).encode


def _payload(content: bytes | None) -> bytes | io.BytesIO | None:
    """Return a body; a large one as a stream, which can be sent only once."""
    return content if content is None or len(content) < _LARGE_BODY else io.BytesIO(content)


@lru_cache(maxsize=64)
def _address(text: str) -> URL:
    try:
        return URL(text)
    except ValueError:
        raise Refusal(f"{text[:SHOWN_CHARACTERS]!r} is not a URL", ends_the_run=True) from None


def _next_address(url: URL, response: aiohttp.ClientResponse) -> URL:
    """Return the target of a redirect."""
    try:
        target = url.join(URL(response.headers["Location"]))
    except ValueError:
        raise Refusal(
            "it sends requests on to an address that is none", ends_the_run=True
        ) from None
    upgraded = (url.scheme, target.scheme) == ("http", "https")
    if target.host != url.host or (
        (target.scheme, target.port) != (url.scheme, url.port) and not upgraded
    ):
        raise Refusal(
            f"it sends requests on to another server, {target.authority[:SHOWN_CHARACTERS]!r},"
            f" and prompts go to the one that was named only; name that one with {option('base-url')} if it is meant",
            status=response.status,
            ends_the_run=True,
        )
    return target


async def _read(response: aiohttp.ClientResponse) -> bytes:
    """Return the decompressed content of an answer, counted while it comes in."""
    packed = response.headers.get("Content-Encoding", "").strip().lower()
    if packed not in _PLAIN and packed not in _COMPRESSED:
        raise Refusal(
            f"the answer is packed as {packed[:40]!r}, and only gzip and deflate are read"
        )
    announced = response.content_length if "Transfer-Encoding" not in response.headers else None
    if packed in _PLAIN and announced is not None and announced <= MOST_BYTES:
        # This is the usual answer. aiohttp reads no more than was announced, in less time.
        return await response.read()
    unpack = None
    parts: list[bytes] = []
    size = 0
    async for received in response.content.iter_any():
        part = received
        if packed in _COMPRESSED and part:
            if unpack is None:
                # Some servers leave out the zlib header.
                raw = packed == "deflate" and part[0] & 0x0F != zlib.DEFLATED
                unpack = zlib.decompressobj(_NO_HEADER if raw else _ANY_HEADER)
            try:
                part = unpack.decompress(part, MOST_BYTES - size + 1)
            except zlib.error:
                raise TryAgain(
                    f"the answer cannot be decompressed, though it is packed as {packed!r}"
                ) from None
        size += len(part)
        if size > MOST_BYTES:
            raise Refusal(
                f"the answer is larger than {MOST_BYTES:,} bytes; it was not read to its end"
            )
        parts.append(part)
    return b"".join(parts)


def _proxy(url: URL) -> str | None:
    """Return the proxy that the environment names for a URL."""
    if proxy_bypass(url.host or ""):
        return None
    proxies = getproxies()
    proxy = proxies.get(url.scheme) or proxies.get("all")
    if not proxy:
        return None
    if "://" not in proxy:
        proxy = f"http://{proxy}"
    if not proxy.startswith(("http://", "https://")):
        kind = proxy.partition("://")[0]
        raise BackendUnavailableError(
            f"the environment names a {kind} proxy for {url.scheme}, and only http and https proxies can be used; "
            f"set {url.scheme.upper()}_PROXY to one of those, or NO_PROXY={url.host}"
        )
    return proxy


def _cause(error: BaseException) -> str:
    """Return the innermost reason of a connection error that has a text."""
    texts = [str(error)]
    while (inner := error.__cause__ or error.__context__) is not None:
        error = inner
        if str(error):
            texts.append(str(error))
    return texts[-1] or type(error).__name__
