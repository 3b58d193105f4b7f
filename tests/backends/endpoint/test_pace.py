import asyncio

import pytest
from waiting import HANG

from refladder.backends.openai.pace import Bucket, Pace, pause_in, seconds_in


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


class TimelessLoop(asyncio.SelectorEventLoop):
    """A loop that does not wait: its time moves on at once to when the next thing is due."""

    now = 100.0

    def __init__(self):
        super().__init__()
        select = self._selector.select

        def skip(timeout):
            events = select(0)
            self.now += max(timeout or 0, 1e-6)  # a clock never stands still
            return events

        self._selector.select = skip

    def time(self):
        return self.now


def timeless(work):
    """Run a coroutine function with the clock of its loop; gives its result and the seconds that passed in the loop."""

    async def timed():
        loop = asyncio.get_running_loop()
        before = loop.time()
        return await work(loop.time), loop.time() - before

    with asyncio.Runner(loop_factory=TimelessLoop) as runner:
        return runner.run(timed())


def entered(pace, number, tokens=0):
    async def enter():
        return [await asyncio.wait_for(pace.enter(tokens), HANG) for _ in range(number)]

    return asyncio.run(enter())


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("2", 2.0),
        ("0.25", 0.25),
        ("6m0s", 360.0),
        ("20ms", 0.02),
        ("1h2m", 3720.0),
        ("soon", None),
        ("", None),
        ("-1", None),
    ],
)
def test_durations_in_headers(header, seconds):
    assert seconds_in(header) == seconds


def test_a_date_in_retry_after():
    assert seconds_in("Wed, 21 Oct 2015 07:28:00 GMT") == 0  # long past


def test_headers_that_ask_for_a_pause():
    assert pause_in({"retry-after-ms": "250", "retry-after": "1"}, throttled=True) == 0.25
    assert (
        pause_in(
            {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "3s"},
            throttled=False,
        )
        == 3
    )
    assert (
        pause_in(
            {"x-ratelimit-remaining-requests": "9", "x-ratelimit-reset-requests": "3s"},
            throttled=False,
        )
        is None
    )
    assert (
        pause_in(
            {"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "2s"}, throttled=True
        )
        == 2
    )
    assert pause_in({}, throttled=True) is None


def test_a_full_round_of_answers_adds_one():
    pace = Pace(most=30, clock=Clock())
    entered(pace, 20)
    for _ in range(20):
        pace.succeeded()  # 20 in flight all the time
    assert int(pace.limit) == 20  # 20 + sum of 1/20, 1/20.05, ... is a little under 21
    pace.succeeded()
    assert int(pace.limit) == 21


def test_it_does_not_grow_while_fewer_are_in_flight_than_may_be():
    pace = Pace(most=30, clock=Clock())
    entered(pace, 5)
    for _ in range(50):
        pace.succeeded()
    assert pace.limit == 20


def test_a_storm_halves_once_for_all_that_were_in_flight():
    pace = Pace(most=40, clock=Clock())
    tickets = entered(pace, 20)
    for ticket in tickets:
        pace.throttled(ticket, 0.0)
    assert pace.limit == 10
    for _ in tickets:
        pace.in_flight -= 1
    (late,) = entered(pace, 1)
    pace.throttled(late, 0.0)
    assert pace.limit == 5


def test_many_server_errors_stop_the_growth_and_nothing_else():
    pace = Pace(most=30, clock=Clock())
    entered(pace, 20)
    for _ in range(3):
        pace.faulted()  # 1 - .95 ** 3 = .14 of the latest answers
    for _ in range(6):
        pace.succeeded()  # .14 * .95 ** 6 = .105
    assert pace.limit == 20
    pace.succeeded()  # .0996
    assert pace.limit > 20


def test_nothing_starts_while_the_server_asks_for_a_pause():
    async def wait(clock):
        pace = Pace(clock=clock)
        pace.pause(15)
        await asyncio.gather(*(pace.enter(0) for _ in range(3)))

    assert timeless(wait) == (None, pytest.approx(15, abs=0.001))


def test_no_more_in_flight_than_allowed():
    async def run():
        pace = Pace(most=4)
        most = 0

        async def one():
            nonlocal most
            await pace.enter(0)
            most = max(most, pace.in_flight)
            await asyncio.sleep(0.001)
            pace.leave()

        await asyncio.gather(*(one() for _ in range(50)))
        return most, pace.in_flight

    assert asyncio.run(run()) == (4, 0)


def test_a_row_that_is_cancelled_gives_its_place_back():
    async def run():
        pace = Pace(most=1)
        await pace.enter(0)
        waiting = asyncio.create_task(pace.enter(0))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        pace.leave()
        await asyncio.wait_for(pace.enter(0), HANG)
        return pace.in_flight

    assert asyncio.run(run()) == 1


def test_a_bucket_fills_evenly_and_may_owe():
    bucket = Bucket(120, now=0.0)  # two a second
    assert bucket.wait(0.0) == 0
    bucket.take(2)
    assert bucket.wait(0.0) == pytest.approx(0.5)  # (1 - 0) / 2
    assert bucket.wait(0.5) == 0
    bucket.take(9)  # more than a second's worth: level 1 - 9 = -8
    assert bucket.wait(0.5) == pytest.approx(4.5)  # (1 + 8) / 2
    bucket.take(-8)
    assert bucket.wait(0.5) == pytest.approx(0.5)


def test_requests_a_minute_are_kept():
    async def run(clock):
        pace = Pace(requests_per_minute=60 * 50, clock=clock)  # 50 a second, 50 at once
        for _ in range(60):
            await pace.enter(0)
            pace.leave()

    assert timeless(run) == (None, pytest.approx(10 / 50, abs=0.001))  # for the 60 - 50 more


def test_a_server_that_asks_for_a_day_is_asked_again_after_a_minute():
    clock = Clock()
    pace = Pace(clock=clock)
    pace.pause(86_400)
    assert pace._delay() == 60
    clock.now += 59.9
    assert not pace._may_start()
    clock.now += 0.2
    assert pace._may_start()


def test_patience_ends_only_when_nothing_was_answered_for_so_long():
    clock = Clock()
    pace = Pace(patience=100, clock=clock)
    (ticket,) = entered(pace, 1)
    pace.throttled(ticket, 86_400)
    assert (pace._delay(), pace.out_of_patience) == (60, False)
    clock.now += 60
    pace.throttled(ticket, 86_400)
    assert pace._delay() == 40  # what is left of 100
    clock.now += 40
    assert pace.out_of_patience
    pace.succeeded()
    assert not pace.out_of_patience
    clock.now += 500  # work without a pause takes no patience
    assert not pace.out_of_patience


@pytest.mark.parametrize(
    "header",
    [
        "9" * 400 + "h",
        "Wed, 21 Oct 99999999999999999999 07:28:00 GMT",
        "Wed, 21 Oct 2015 99:28:00 GMT",
        ",,,",
        "nan",
        "inf",
    ],
)
def test_headers_that_name_no_time(header):
    assert seconds_in(header) is None


def test_pauses_that_the_server_does_not_name_double_until_an_answer_comes():
    clock = Clock()
    pace = Pace(most=40, clock=clock)
    seen = []
    for _ in range(4):
        (ticket,) = entered(pace, 1)
        pace.throttled(ticket, None)
        pace.leave()
        seen.append(pace._delay())
        clock.now += seen[-1]
    assert seen == pytest.approx([0.5, 1, 2, 4])
    pace.succeeded()
    (ticket,) = entered(pace, 1)
    pace.throttled(ticket, None)
    assert pace._delay() == pytest.approx(0.5)


def test_the_limit_stays_between_one_and_the_most():
    pace = Pace(most=21, clock=Clock())
    entered(pace, 20)
    for _ in range(100):
        pace.succeeded()
    assert pace.limit == 21
    for _ in range(9):
        pace._started += 1  # each of them after the decrease before
        pace.throttled(pace._started, 0.0)
    assert pace.limit == 1


def test_a_shorter_pause_does_not_end_a_longer_one():
    pace = Pace(clock=Clock())
    pace.pause(30)
    pace.pause(1)
    assert pace._delay() == 30


def test_tokens_a_minute_are_taken_and_given_back():
    pace = Pace(tokens_per_minute=60, clock=Clock())  # one a second, one at once
    entered(pace, 1, tokens=11)
    assert pace._delay() == pytest.approx(11)  # level 1 - 11 = -10, and 1 is needed
    pace.leave(6)  # of which 6 were not used
    assert pace._delay() == pytest.approx(5)
