"""Failures and counts of requests, and the error that ends a run."""

from __future__ import annotations

import logging
import re
from collections import Counter, OrderedDict
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any

from refladder.errors import BackendUnavailableError, option

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

LOG = logging.getLogger("refladder.endpoint")

TOO_MANY_REQUESTS = 429
# The server answered; the answer of this row alone cannot be used.
ANSWERED = 200
# Most characters of a server's text in a message.
SHOWN_CHARACTERS = 200
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]+")
# Models that an error names, and characters of a name.
_SHOWN, _LONGEST_NAME = 20, 80
# Characters of a key, or of a header's value, that may be a secret.
_LONG_WORD = 8
# Characters; OpenAI, vLLM, SGLang and llama-server give 32 and more.
_LONG_ID = 24
# Ids; an answer that goes astray does so at once.
_REMEMBERED = 4096


@dataclass(eq=False)
class Refusal(Exception):  # noqa: N818  never leaves this package: a row's reason, or the end of the run
    """A request that failed for good, with one clause for people, without the key.

    `status` is None when no answer came; `said` is the server's own text; `ends_the_run` if all others must fail too;
    `changed` if the server is not what the handshake found. `about` is the server's own text with nothing hidden, for this
    package alone, and `named` the field of the request that it names beside its text.
    """

    reason: str
    _: KW_ONLY
    status: int | None = 200
    ends_the_run: bool = False
    said: str = ""
    changed: bool = False
    about: str = field(default="", repr=False)
    named: str = ""

    @property
    def of_the_server(self) -> bool:
        """Return whether the server failed, and not only this request: no whole answer, too many requests, or a 5xx."""
        return self.status is None or self.status >= 500 or self.status == TOO_MANY_REQUESTS


def changed(reason: str) -> Refusal:
    """Return the refusal that ends a run because the server is not what the handshake found."""
    return Refusal(reason, ends_the_run=True, changed=True)


@dataclass(eq=False)
class TryAgain(Exception):  # noqa: N818  control flow of `server`
    """A request that failed in a way that may pass; the headers of its answer may ask for a pause."""

    reason: str
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def throttled(self) -> bool:
        """Return whether the server limits the rate of requests."""
        return self.status == TOO_MANY_REQUESTS


class NotYet(Exception):  # noqa: N818  control flow of answers through files
    """A request has no answer yet."""


class Identities:
    """Detect a server that gives one answer, by its id, to two different requests; short ids may repeat."""

    def __init__(self) -> None:
        self._seen: OrderedDict[str, int] = OrderedDict()
        self._mean_something = True

    @property
    def proven(self) -> bool:
        """Return whether two answers had different ids, so that a repeated answer is noticed."""
        return len(self._seen) > 1

    def mixed_up(self, name: object, request: str) -> bool:
        """Return whether an answer with this id went to another request before."""
        if not isinstance(name, str) or len(name) < _LONG_ID or not self._mean_something:
            return False
        digest = hash(request)
        # A cache may answer one request twice.
        if self._seen.setdefault(name, digest) == digest:
            if len(self._seen) > _REMEMBERED:
                self._seen.popitem(last=False)
            return False
        self._mean_something = len(self._seen) > 1
        return self._mean_something


@dataclass(slots=True)
class Tally:
    """Counts of requests and answers over the life of a backend; `models` are answers by the model that they name."""

    counts: Counter[str] = field(default_factory=Counter)
    models: Counter[str] = field(default_factory=Counter)
    identities: Identities = field(default_factory=Identities)

    def used(self, usage: Any) -> int | None:
        """Count a `usage` block; returns its tokens, or None when there is none to trust."""
        if not isinstance(usage, dict):
            return None
        prompt = _count(usage.get("prompt_tokens"))
        answer = _count(usage.get("completion_tokens"))
        self.counts["prompt tokens"] += prompt
        self.counts["answer tokens"] += answer
        cached = at(usage, "prompt_tokens_details", "cached_tokens")
        if isinstance(cached, int) and 0 <= cached <= prompt:
            self.counts["cached prompt tokens"] += cached
        else:
            self.counts["prompt tokens of unknown cache"] += prompt
        return prompt + answer


def _count(reported: Any) -> int:
    """Return a number of tokens; 0 if what was reported is none."""
    return reported if isinstance(reported, int) and reported >= 0 else 0


def at(value: Any, *path: str | int) -> Any:
    """Return the value at a path of keys and positions in a server's JSON; None if the path ends early."""
    for step in path:
        if isinstance(step, str):
            value = value.get(step) if isinstance(value, dict) else None
        else:
            value = value[step] if isinstance(value, list) and len(value) > step else None
    return value


def rows_at(value: Any, *path: str | int) -> list[dict[str, object]]:
    """Return the objects of the list at a path."""
    found = at(value, *path)
    rows = found if isinstance(found, list) else []
    return [row for row in rows if isinstance(row, dict)]


def error_text(body: Any) -> str:
    """Return a server's text about an error, as far as it can be found."""
    inner = at(body, "error") or body
    for name in ("message", "detail", "code"):
        inner = at(inner, name) or inner
    return str(inner) if inner and isinstance(body, dict | str) else ""


def refused_field(body: Any) -> str:
    """Return the field of a request that an error names: OpenAI's `param`, or the first `loc` of pydantic."""
    inner = at(body, "error") or body
    for found in (
        at(inner, "param"),
        at(inner, "detail", 0, "loc"),
        at(inner, "message", "detail", 0, "loc"),
    ):
        path = [str(step) for step in found if step != "body"] if isinstance(found, list) else found
        if name := path[0] if isinstance(path, list) and path else path:
            return str(name).partition("[")[0]
    return ""


# Words for errors without a number, in what servers name code, type or status.
_STATUS_OF = (
    ("rate_limit|too_many|resource_exhausted|throttl", TOO_MANY_REQUESTS),
    ("overloaded|unavailable|server_error|internal|timeout|upstream", 503),
)


def failure_within(body: Any) -> tuple[int, Any] | None:
    """Return status and body of a failure that came with HTTP 200: an error of the answer or of a choice, or no choices.

    Without a number, the status is 200, which fails this request alone. None if the answer is none of these.
    """
    error = at(body, "error")
    if not isinstance(error, dict | str) or not error:
        choices = at(body, "choices")
        error = at(choices, 0, "error") if isinstance(choices, list) else None
        if not error and at(choices, 0, "finish_reason") == "error":
            error = {"message": "the answer ended with an error", "code": 502}
        blocked = at(body, "promptFeedback", "blockReason")
        if not error and not choices and blocked:
            error = {"message": f"content filter: {blocked}"}
    elif at(body, "choices"):
        return None
    if not isinstance(error, dict | str) or not error:
        return None
    words = [str(at(error, name)) for name in ("code", "status", "type")]
    numbers = [int(word) for word in words if word.isdecimal()]
    status = next((number for number in numbers if 400 <= number < 600), ANSWERED)
    if status == ANSWERED:
        for form, known in _STATUS_OF:
            if re.search(form, " ".join(words), re.IGNORECASE):
                status = known
                break
    return status, {"error": error}


def shown(text: str, key: str | None, headers: Collection[str] = ()) -> str:
    """Return a server's text that is safe to show: short, on one line, without control characters, key and headers."""
    parts = {
        word for value in headers for word in (value, *value.split()) if len(word) >= _LONG_WORD
    }
    # A short key, such as x, is not a secret, and would be found in every word.
    if key and len(key) >= _LONG_WORD:
        text = text.replace(key, "[key]")
    for part in sorted(parts, key=len, reverse=True):
        text = text.replace(part, "[header]")
    text = _CONTROL.sub(" ", text).strip()
    return text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "…"


_KEY_STEP = "set REFLADDER_API_KEY or OPENAI_API_KEY to a key of this server, or name a file with api_key_file"


def _few(models: list[str]) -> str:
    """Return the first names of a list, shortened, and how many more there are."""
    names = []
    for model in models[:_SHOWN]:
        names.append(f"{model[:_LONGEST_NAME]}..." if len(model) > _LONGEST_NAME else model)
    if len(models) > _SHOWN:
        names.append(f"and {len(models) - _SHOWN:,} more")
    return ", ".join(names)


def unavailable(
    url: str, model: str, refusal: Refusal, models: list[str]
) -> BackendUnavailableError:
    """Return the error that ends a run, from its refusal; `models` are those of the server, for a 404."""
    if models and model not in models:
        return BackendUnavailableError(
            f"{url}: model {model!r} is not served; it serves: {_few(models)}"
        )
    steps = {
        401: _KEY_STEP,
        403: _KEY_STEP,
        404: f"check the model's name and {option('base-url')}, which usually ends in /v1",
        TOO_MANY_REQUESTS: "run the same command again later; what was answered is kept",
        None: f"start the server, or check {option('base-url')}",
    }
    if refusal.changed:
        return BackendUnavailableError(
            f"{url}: {refusal.reason}, so no more rows are read; run the same command again to test what it can do now"
        )
    step = steps.get(refusal.status, f"check {option('base-url')} and the server's own log")
    return BackendUnavailableError(f"{url}: {refusal.reason}; {step}")
