"""Rows against a server with seeded faults: none lost, none invented, none asked again once it was answered."""

import math
from collections import Counter
from dataclasses import replace

import pytest
from asked import LABELS, questions
from fault_server import MODEL, Faults, FaultServer, probabilities

from refladder.backends import connect
from refladder.errors import BackendUnavailableError

ROWS = 600
HARSH = Faults(
    server_error=0.05, reset=0.03, half=0.02, no_json=0.02, drip=0.02, stall=0.003, stall_time=30.0, twice=0.01
)


def ask(server, number=ROWS, **options):
    settings = {"base_url": server.url, "mode": "top", "attempts": "10", "timeout": "3", **options}
    backend = connect(f"openai:{MODEL}", **settings)
    _ = backend.fingerprint
    server.start_clock()
    return backend, list(backend.read_labels_each(questions(number), LABELS))


def check(server, found, number=ROWS):
    """Every row once, with its own answer; no row asked again after a full answer to it."""
    assert Counter(place for place, _ in found) == Counter(range(number))
    for place, reading in found:
        assert reading.logprobs is not None, reading.reason
        assert [math.exp(value) for value in reading.logprobs] == pytest.approx(probabilities(place))
    assert server.late == 0


@pytest.mark.parametrize("seed", [1, 2])
def test_no_row_is_lost_invented_or_asked_twice(seed):
    with FaultServer(replace(HARSH, seed=seed)) as server:
        backend, found = ask(server)
        check(server, found)
        assert min(server.kinds[kind] for kind in ("server_error", "reset", "half", "no_json", "drip", "twice")) > 0
        assert backend.counts["tried again"] > 50


def test_storms_of_429_are_waited_out():
    with FaultServer(Faults(storm_every=0.5, storm_time=0.2, stall=0)) as server:
        backend, found = ask(server, max_concurrency="20")
        check(server, found)
        assert backend.counts["put off (429)"] == server.kinds["429"] > 0
        # one generation in flight is turned away at each storm, and then nobody knocks before its end
        assert server.kinds["429"] < 200


def test_out_of_order_answers_find_their_rows():
    with FaultServer(
        Faults(service=0.01, server_error=0, reset=0, half=0, no_json=0, drip=0, stall=0, twice=0)
    ) as server:
        _, found = ask(server, 200)
        check(server, found, 200)
        assert [place for place, _ in found] != list(range(200))


def test_a_row_that_always_fails_is_unreadable_with_its_reason_and_the_rest_is_not_touched():
    with FaultServer(Faults(server_error=0, reset=0, half=0, no_json=0, drip=0, stall=0, twice=0)) as server:
        reply = server._reply
        server._reply = lambda row, sent, kind: reply(row, sent, "server_error" if row == 7 else kind)
        backend = connect(f"openai:{MODEL}", base_url=server.url, mode="top", attempts="2")
        readings = backend.read_labels(questions(50), LABELS)
        assert [place for place, reading in enumerate(readings) if reading.logprobs is None] == [7]
        assert readings[7].reason == "request failed: the server answered 502: overloaded (2 times)"


MIXED_UP = "one answer was given to two different requests, so what lies between mixes answers up"
QUIET = Faults(service=0.001, server_error=0, reset=0, half=0, no_json=0, drip=0, stall=0, twice=0)


def ask_until_mixed_up(server, found):
    backend = connect(f"openai:{MODEL}", base_url=server.url, mode="top", max_concurrency="2")
    found.extend(pair for pair in backend.read_labels_each(questions(200), LABELS) if found.append(pair))


def all_are_their_own(found):
    for place, reading in found:
        assert [math.exp(value) for value in reading.logprobs] == pytest.approx(probabilities(place))


def test_answers_that_are_mixed_up_on_the_way_end_the_run():
    with FaultServer(QUIET) as server:
        reply = server._reply
        server._reply = lambda row, sent, kind: reply(40 if row == 42 else row, sent, kind)  # as a bad proxy does
        found = []
        with pytest.raises(BackendUnavailableError, match=MIXED_UP):
            ask_until_mixed_up(server, found)
        assert 40 <= len(found) < 60
        all_are_their_own(found)


def test_an_answer_that_is_sent_twice_goes_to_no_other_row():
    # the second is left on the connection, which is closed; where the next request was faster, the run ends
    with FaultServer(QUIET) as server:
        reply = server._reply
        server._reply = lambda row, sent, kind: reply(row, sent, "repeat" if row % 40 == 0 else kind)
        found, message = [], MIXED_UP
        try:
            ask_until_mixed_up(server, found)
        except BackendUnavailableError as error:
            message = str(error)
        assert MIXED_UP in message
        assert len(found) == 200 or message != MIXED_UP
        all_are_their_own(found)


def test_closing_the_iterator_ends_the_run():
    with FaultServer(Faults(service=0.02, stall=0)) as server:
        backend = connect(f"openai:{MODEL}", base_url=server.url, mode="top", max_concurrency="4")
        rows = backend.read_labels_each(questions(500), LABELS)
        next(rows)
        rows.close()
        assert sum(server.asked.values()) < 20
