"""Rate limits: adaptive concurrency, pauses that the server asks for, requests and tokens a minute.

Additive increase, multiplicative decrease: the limit starts at 20 requests in flight, grows by one for each full round
of answers, and is halved by a 429, once for all requests that were in flight together. `Retry-After` and the rate-limit
headers pause everything until the time they name, for a minute at most. Then a single request is sent, again and again
until patience is used up. 5xx and broken connections only stop the growth, as long as they are more than a tenth of the
answers.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import deque
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

# Requests in flight at first.
START = 20
# Share of the latest answers that are faults, above which nothing grows.
_MANY_FAULTS = 0.1
# Weight of the latest answer in that share.
_MEMORY = 0.05
# Seconds of pause after a 429 that names none; doubled with each further one.
_FIRST_PAUSE = 0.5
# Seconds; even if the server names a longer one.
LONGEST_PAUSE = 60.0
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def seconds_in(value: str | None) -> float | None:
    """Return the seconds of a `Retry-After` or `x-ratelimit-reset-*` header: `2`, `0.5`, `6m0s`, `20ms`, or a date."""
    # Most answers have no such header.
    if not value:
        return None
    text = value.strip()
    parts = _DURATION.findall(text)
    try:
        if parts and "".join(map("".join, parts)) == text:
            seconds: float | None = sum(float(number) * _SECONDS[unit] for number, unit in parts)
        else:
            seconds = float(text)
    except ValueError:
        seconds = _until(text)
    return seconds if seconds is not None and 0 <= seconds < float("inf") else None


def _until(text: str) -> float | None:
    try:
        moment = parsedate_to_datetime(text)
    except (
        ValueError,
        TypeError,
        IndexError,
        OverflowError,
    ):
        # Python raises one of these for an invalid date.
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())


def pause_in(headers: Mapping[str, str], *, throttled: bool) -> float | None:
    """Return the seconds that a server asks its clients to wait, or None.

    The reset headers count only if nothing remains.
    """
    milliseconds = seconds_in(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    asked = seconds_in(headers.get("retry-after"))
    if asked is not None:
        return asked
    seconds = []
    for what in ("requests", "tokens"):
        if headers.get(f"x-ratelimit-remaining-{what}", "").strip() == "0":
            # A lack of tokens holds the next request back only if the last one was refused.
            throttled = throttled or what == "requests"
            reset = seconds_in(headers.get(f"x-ratelimit-reset-{what}"))
            if reset is not None:
                seconds.append(reset)
    return max(seconds, default=None) if throttled else None


class Bucket:
    """A rate limit: `a_minute` units flow in evenly, at most one second's worth is saved, and debts are allowed."""

    def __init__(self, a_minute: float, now: float) -> None:
        self._rate = a_minute / 60
        self._room = max(1.0, self._rate)
        self._level = self._room
        self._then = now

    def wait(self, now: float) -> float:
        """Return the seconds until something may be taken; 0 if nothing has to wait."""
        self._level = min(self._room, self._level + (now - self._then) * self._rate)
        self._then = now
        return 0.0 if self._level >= 1 else (1 - self._level) / self._rate

    def take(self, units: float) -> None:
        """Take units, even into debt; negative units give back what was taken too much."""
        self._level = min(self._room, self._level - units)


class RateLimiter:
    """Decide when the next request may start. A backend has one limiter, used from one event loop at a time."""

    def __init__(
        self,
        *,
        most: int = 100,
        requests_per_minute: float | None = None,
        tokens_per_minute: float | None = None,
        patience: float = float("inf"),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._most = most
        self._clock = clock
        self._patience = patience
        # Time of the first refusal since the last answer.
        self._put_off_at: float | None = None
        self.limit = float(min(START, most))
        self.in_flight = 0
        self._paused_until = 0.0
        # Share of the latest answers.
        self._faults = 0.0
        # Number of requests so far; a decrease covers all that started before it.
        self._started = 0
        self._decreased_at = 0
        # Decreases in a row without a success between.
        self._storms = 0
        self._waiting: deque[tuple[asyncio.Future[None], float]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        now = clock()
        self._requests = Bucket(requests_per_minute, now) if requests_per_minute else None
        self._tokens = Bucket(tokens_per_minute, now) if tokens_per_minute else None

    async def enter(self, tokens: float) -> int:
        """Wait until a request of about `tokens` tokens may start, and return its ticket for `throttled`."""
        if self._waiting or not self._may_start():
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((future, tokens))
            self._wake()
            try:
                await future
            except asyncio.CancelledError:
                if future.done() and not future.cancelled():
                    self.in_flight -= 1
                raise
        else:
            self._start(tokens)
        return self._started

    def leave(self, tokens_too_many: float = 0.0) -> None:
        """Record the end of a request; `tokens_too_many` of the estimate were not used."""
        self.in_flight -= 1
        if self._tokens is not None and tokens_too_many:
            self._tokens.take(-tokens_too_many)
        self._wake()

    def succeeded(self) -> None:
        """Record an answer: the limit grows by one for each full round of answers."""
        self._storms = 0
        self._put_off_at = None
        self._faults *= 1 - _MEMORY
        if (
            self.limit < self._most
            and self._faults < _MANY_FAULTS
            and self.in_flight + 1 >= int(self.limit)
        ):
            self.limit = min(float(self._most), self.limit + 1 / self.limit)

    def throttled(self, ticket: int, pause: float | None) -> None:
        """Record a 429: halve the limit, once for all requests that were in flight together, and pause."""
        if ticket > self._decreased_at:
            self._decreased_at = self._started
            self.limit = max(1.0, self.limit / 2)
            self._storms += 1
            if pause is None:
                pause = _FIRST_PAUSE * 2 ** min(self._storms - 1, 7)
        if pause is not None:
            self.pause(pause)

    @property
    def out_of_patience(self) -> bool:
        """Return whether the server has refused every request for as long as patience lasts."""
        return self._put_off_at is not None and self._clock() - self._put_off_at >= self._patience

    def faulted(self) -> None:
        """Record a 5xx or a broken connection: the limit does not grow while there are many."""
        self._faults += _MEMORY * (1 - self._faults)

    def pause(self, seconds: float) -> None:
        """Start no request for that time, at most LONGEST_PAUSE and the patience that is left."""
        if self._put_off_at is None:
            self._put_off_at = self._clock()
        left = self._put_off_at + self._patience - self._clock()
        self._paused_until = max(
            self._paused_until, self._clock() + min(seconds, LONGEST_PAUSE, max(0.0, left))
        )

    def _delay(self) -> float:
        now = self._clock()
        delay = self._paused_until - now
        for bucket in (self._requests, self._tokens):
            if bucket is not None:
                delay = max(delay, bucket.wait(now))
        return delay

    def _may_start(self) -> bool:
        return self.in_flight < int(self.limit) and self._delay() <= 0

    def _start(self, tokens: float) -> None:
        self.in_flight += 1
        self._started += 1
        if self._requests is not None:
            self._requests.take(1)
        if self._tokens is not None:
            self._tokens.take(tokens)

    def _wake(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._waiting:
            future, tokens = self._waiting[0]
            # The request was cancelled.
            if future.done():
                self._waiting.popleft()
                continue
            if self.in_flight >= int(self.limit):
                return
            delay = self._delay()
            if delay > 0:
                self._timer = asyncio.get_running_loop().call_later(delay, self._wake)
                return
            self._waiting.popleft()
            self._start(tokens)
            future.set_result(None)
