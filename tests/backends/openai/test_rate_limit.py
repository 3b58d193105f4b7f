import asyncio

import pytest
from waiting import HANG

from refladder.backends.openai.rate_limit import RateLimiter, pause_in, seconds_in


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def entered(limiter, number, tokens=0):
    async def enter():
        return [await asyncio.wait_for(limiter.enter(tokens), HANG) for _ in range(number)]

    return asyncio.run(enter())


def test_durations_in_headers():
    times = {"2": 2.0, "0.25": 0.25, "6m0s": 360.0, "20ms": 0.02, "1h2m": 3720.0}
    times["Wed, 21 Oct 2015 07:28:00 GMT"] = 0  # long past
    assert {header: seconds_in(header) for header in times} == times
    wrong = ["soon", "", "-1", "nan", "inf", ",,,", "9" * 400 + "h"]
    wrong += [f"Wed, 21 Oct {rest} GMT" for rest in ("9" * 20 + " 07:28:00", "2015 99:28:00")]
    assert [header for header in wrong if seconds_in(header) is not None] == []


def remaining(what, number, reset):
    return {f"x-ratelimit-remaining-{what}": number, f"x-ratelimit-reset-{what}": reset}


@pytest.mark.parametrize(
    ("headers", "throttled", "seconds"),
    [
        ({"retry-after-ms": "250", "retry-after": "1"}, True, 0.25),
        (remaining("requests", "0", "3s"), False, 3),
        (remaining("requests", "9", "3s"), False, None),
        (remaining("tokens", "0", "2s"), True, 2),
        ({}, True, None),
    ],
)
def test_headers_that_ask_for_a_pause(headers, throttled, seconds):
    assert pause_in(headers, throttled=throttled) == seconds


def test_a_full_round_of_answers_adds_one():
    limiter = RateLimiter(most=30, clock=Clock())
    entered(limiter, 20)
    for _ in range(20):
        limiter.succeeded()  # 20 in flight all the time
    assert int(limiter.limit) == 20  # 20 + sum of 1/20, 1/20.05, ... is a little under 21
    limiter.succeeded()
    assert int(limiter.limit) == 21


def test_a_storm_halves_once_for_all_that_were_in_flight():
    limiter = RateLimiter(most=40, clock=Clock())
    tickets = entered(limiter, 20)
    for ticket in tickets:
        limiter.throttled(ticket, 0.0)
    assert limiter.limit == 10
    for _ in tickets:
        limiter.in_flight -= 1
    (late,) = entered(limiter, 1)
    limiter.throttled(late, 0.0)
    assert limiter.limit == 5


def test_a_row_that_is_cancelled_gives_its_place_back():
    async def run():
        limiter = RateLimiter(most=1)
        await limiter.enter(0)
        waiting = asyncio.create_task(limiter.enter(0))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        limiter.leave()
        await asyncio.wait_for(limiter.enter(0), HANG)
        return limiter.in_flight

    assert asyncio.run(run()) == 1


def test_requests_a_minute_are_kept():
    clock = Clock()
    limiter = RateLimiter(requests_per_minute=60 * 50, clock=clock)  # 50 a second, 50 at once
    for _ in range(50):
        assert limiter._delay() == 0
        entered(limiter, 1)
        limiter.leave()
    assert limiter._delay() == pytest.approx(1 / 50)
    clock.now += 0.021
    assert limiter._delay() == 0


def test_patience_ends_only_when_nothing_was_answered_for_so_long():
    clock = Clock()
    limiter = RateLimiter(patience=100, clock=clock)
    (ticket,) = entered(limiter, 1)
    limiter.throttled(ticket, 86_400)
    assert (limiter._delay(), limiter.out_of_patience) == (60, False)
    clock.now += 60
    limiter.throttled(ticket, 86_400)
    assert limiter._delay() == 40  # what is left of 100
    clock.now += 40
    assert limiter.out_of_patience
    limiter.succeeded()
    assert not limiter.out_of_patience
    clock.now += 500  # work without a pause takes no patience
    assert not limiter.out_of_patience


def test_pauses_that_the_server_does_not_name_double_until_an_answer_comes():
    clock = Clock()
    limiter = RateLimiter(most=40, clock=clock)
    seen = []
    for _ in range(4):
        (ticket,) = entered(limiter, 1)
        limiter.throttled(ticket, None)
        limiter.leave()
        seen.append(limiter._delay())
        clock.now += seen[-1]
    assert seen == pytest.approx([0.5, 1, 2, 4])
    limiter.succeeded()
    (ticket,) = entered(limiter, 1)
    limiter.throttled(ticket, None)
    assert limiter._delay() == pytest.approx(0.5)


def test_tokens_a_minute_are_taken_and_given_back():
    limiter = RateLimiter(tokens_per_minute=60, clock=Clock())  # one a second, one at once
    entered(limiter, 1, tokens=11)
    assert limiter._delay() == pytest.approx(11)  # level 1 - 11 = -10, and 1 is needed
    limiter.leave(6)  # of which 6 were not used
    assert limiter._delay() == pytest.approx(5)
