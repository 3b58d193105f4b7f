"""The review page on this machine: the page itself, the data of runs, ratings, and runs that are built in the browser.

Everything but the page needs the token of this start. Requests for another host or from another origin are refused, so
that no other page in the browser can reach the server, not even by a name that points to this machine.
"""

from __future__ import annotations

import errno
import hmac
import json
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.responses import HTMLResponse, JSONResponse
from starlette.routing import Route

from refladder.contest.html import policy, review_page
from refladder.contest.ratings import add_rating, ratings_of, remove_rating
from refladder.errors import RefladderError
from refladder.files.jsonl import is_unicode
from refladder.parsing import parse_json

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from starlette.middleware.base import RequestResponseEndpoint
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp

    from refladder.contest.building import Builder
    from refladder.contest.workspace import Workspace

# A request has at most this number of bytes.
_LARGEST = 1 << 20


class _RefusedError(Exception):
    """A request that is answered with a status and a sentence."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


def review_app(
    workspace: Workspace, builder: Builder, *, token: str, hosts: frozenset[str]
) -> ASGIApp:
    """Make the server as an ASGI application: data need the `token`, and the header Host must be one of `hosts`."""

    async def page(_request: Request) -> Response:
        return HTMLResponse(await run_in_threadpool(review_page))

    routes = [Route("/", page)]
    routes += [
        Route(f"/api/{name}", _get(answer)) for name, answer in _readers(workspace, builder).items()
    ]
    routes += [
        Route(f"/api/{name}", _post(answer), methods=["POST"])
        for name, answer in _writers(workspace, builder).items()
    ]
    handlers = {RefladderError: _refused, _RefusedError: _refused, OSError: _too_long}
    app = Starlette(routes=routes, exception_handlers=handlers)
    return _guarded(app, token, hosts)


def _readers(
    workspace: Workspace, builder: Builder
) -> dict[str, Callable[[Mapping[str, str]], object]]:
    """Return what can be read, by name; each function gets the query of the request."""

    def key(query: Mapping[str, str]) -> object:
        data = workspace.review_data(query.get("run", ""))
        return {"key": data.key, "ratings": ratings_of(data)}

    def mine(query: Mapping[str, str]) -> object:
        ratings = ratings_of(workspace.review_data(query.get("run", "")))
        return {"ratings": [rating for rating in ratings if rating["rater"] == query.get("rater")]}

    return {
        "start": lambda _query: {"run": workspace.first, **builder.choices()},
        "pool": lambda query: {"pool": workspace.review_data(query.get("run", "")).pool},
        "key": key,
        "mine": mine,
        "runs": lambda _query: {"runs": workspace.runs()},
        "table": lambda query: workspace.preview(query.get("table", "")),
        "progress": lambda _query: builder.progress(),
    }


def _writers(
    workspace: Workspace, builder: Builder
) -> dict[str, Callable[[Mapping[str, str], object], object]]:
    """Return what can be done, by name; each function gets the query of the request and its JSON."""

    def rate(query: Mapping[str, str], body: object) -> object:
        add_rating(workspace.review_data(query.get("run", "")), body)
        return {"stored": True}

    return {
        "ratings": rate,
        "undo": lambda query, body: {
            "removed": remove_rating(workspace.review_data(query.get("run", "")), body)
        },
        "fill": lambda _query, body: builder.fill(body),
        "plan": lambda _query, body: builder.plan(body),
        "run": lambda _query, body: builder.start(body),
        "stop": lambda _query, _body: builder.stop(),
    }


def _get(answer: Callable[[Mapping[str, str]], object]) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        return JSONResponse(await run_in_threadpool(answer, request.query_params))

    return endpoint


def _post(
    answer: Callable[[Mapping[str, str], object], object],
) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        body = await _body(request)
        return JSONResponse(await run_in_threadpool(answer, request.query_params, body))

    return endpoint


def _error(status: int, sentence: str) -> Response:
    return JSONResponse({"error": sentence}, status_code=status)


async def _refused(_request: Request, error: Exception) -> Response:
    return _error(error.status if isinstance(error, _RefusedError) else 400, str(error))


async def _too_long(_request: Request, error: Exception) -> Response:
    if not isinstance(error, OSError) or error.errno not in (errno.ENAMETOOLONG, errno.E2BIG):
        raise error
    words = f"a name or a text in the request is too long ({error.strerror}); shorten it"
    return _error(400, words)


async def _body(request: Request) -> Any:
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type != "application/json":
        raise _RefusedError(415, "send JSON, with Content-Type: application/json")
    data = b""
    async for part in request.stream():
        data += part
        if len(data) > _LARGEST:
            raise _RefusedError(413, f"the request is larger than {_LARGEST:,} bytes")
    value = parse_json(data, "request", whole_file=True)
    if not is_unicode(json.dumps(value, ensure_ascii=False)):
        raise _RefusedError(
            400, "the request holds half of a surrogate pair, which no file can hold; take it out"
        )
    return value


def _host_of(origin: str) -> str | None:
    """Return the host and port of an origin in small letters; None if it is no URL."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return None


def _guarded(app: ASGIApp, token: str, hosts: frozenset[str]) -> ASGIApp:
    """Refuse foreign hosts, foreign origins and requests without the token; add the headers that every answer has."""
    added = {
        "content-security-policy": f"{policy(served=True)}; frame-ancestors 'none'",
        "x-content-type-options": "nosniff",
        "x-frame-options": "DENY",
        "referrer-policy": "no-referrer",
        "cross-origin-resource-policy": "same-origin",
        "cache-control": "no-store",
    }

    def refusal(request: Request) -> Response | None:
        if request.headers.get("host", "").lower() not in hosts:
            return _error(421, "this server answers only under the address that it printed")
        origin = request.headers.get("origin")
        if origin is not None and _host_of(origin) not in hosts:
            return _error(403, "requests from other pages are refused")
        given = request.headers.get("authorization", "").removeprefix("Bearer ").encode("latin-1")
        if request.scope["path"] == "/" or hmac.compare_digest(given, token.encode()):
            return None
        return _error(
            401,
            "the key of this page is missing or old; open the address that `refladder review` printed last",
        )

    async def guarded(request: Request, call_next: RequestResponseEndpoint) -> Response:
        response = refusal(request) or await call_next(request)
        response.headers.update(added)
        return response

    return BaseHTTPMiddleware(app, dispatch=guarded)
