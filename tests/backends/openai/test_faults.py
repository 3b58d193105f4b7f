"""Rows against a server with seeded faults: none lost, none invented, none asked again once it was answered."""

import asyncio
import math
import threading
import time
from dataclasses import replace

import pytest
from asked import LABELS, questions
from fault_server import MODEL, Faults, FaultServer, probabilities
from faulty_rows import HARSH, QUIET, ask, check

from refladder.backends import connect
from refladder.errors import BackendUnavailableError


@pytest.mark.parametrize("seed", [1, 2])
def test_no_row_is_lost_invented_or_asked_twice(seed):
    with FaultServer(replace(HARSH, seed=seed)) as server:
        backend, found = ask(server)
        check(found)
        assert server.late == 0
        assert (
            min(
                server.kinds[kind]
                for kind in ("server_error", "reset", "half", "no_json", "drip", "twice")
            )
            > 0
        )
        assert backend.counts["tried again"] > 50


class Stormy(FaultServer):
    """A storm after each 150 rows, however long they take; it lasts 0.2 s from its first refusal."""

    storms, over = 0, None

    def _storm_left(self):
        if self.over is None and len(self.answered) >= 150 * (self.storms + 1):
            self.storms += 1
            self.over = time.monotonic() + 0.2
        left = 0 if self.over is None else self.over - time.monotonic()
        if left <= 0:
            self.over = None
        return max(0, left)


def test_storms_of_429_are_waited_out():
    with Stormy(Faults(stall=0)) as server:
        backend, found = ask(server, max_concurrency="20")
        check(found)
        assert server.late == 0
        assert server.storms == 3
        # those in flight are turned away at each storm, and then nobody knocks before its end
        assert 3 <= backend.counts["put off (429)"] == server.kinds["429"] <= 3 * 20


def test_out_of_order_answers_find_their_rows():
    with FaultServer(QUIET) as server:
        answer = server._answer

        async def late(*sent):
            reply = await answer(*sent)
            while b"text number 0" in sent[-1] and len(server.answered) < 100:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
            return reply

        server._answer = late
        _, found = ask(server, 200)
        check(found, 200)
        assert [place for place, _ in found].index(0) >= 90  # up to ten may come together with it


def test_a_row_that_always_fails_is_unreadable_with_its_reason_and_the_rest_is_not_touched():
    with FaultServer(
        Faults(server_error=0, reset=0, half=0, no_json=0, drip=0, stall=0, twice=0)
    ) as server:
        reply = server._reply
        server._reply = lambda row, sent, kind: reply(
            row, sent, "server_error" if row == 7 else kind
        )
        backend = connect(f"openai:{MODEL}", base_url=server.url, mode="top", attempts="2")
        readings = backend.read_labels(questions(50), LABELS)
        assert [place for place, reading in enumerate(readings) if reading.logprobs is None] == [7]
        assert readings[7].reason == "request failed: the server answered 502: overloaded (2 times)"


MIXED_UP = "one answer was given to two different requests, so what lies between mixes answers up"


def ask_until_mixed_up(server, found):
    backend = connect(f"openai:{MODEL}", base_url=server.url, mode="top", max_concurrency="2")
    found.extend(
        pair for pair in backend.read_labels_each(questions(200), LABELS) if found.append(pair)
    )


def all_are_their_own(found):
    for place, reading in found:
        assert [math.exp(value) for value in reading.logprobs] == pytest.approx(
            probabilities(place)
        )


def test_answers_that_are_mixed_up_on_the_way_end_the_run():
    with FaultServer(QUIET) as server:
        reply = server._reply
        server._reply = lambda row, sent, kind: reply(
            40 if row == 42 else row, sent, kind
        )  # as a bad proxy does
        found = []
        with pytest.raises(BackendUnavailableError, match=MIXED_UP):
            ask_until_mixed_up(server, found)
        assert 40 <= len(found) < 60
        all_are_their_own(found)


def test_an_answer_that_is_sent_twice_goes_to_no_other_row():
    # the second is left on the connection, which is closed; where the next request was faster, the run ends
    with FaultServer(QUIET) as server:
        reply = server._reply
        server._reply = lambda row, sent, kind: reply(
            row, sent, "repeat" if row % 40 == 0 else kind
        )
        found, message = [], MIXED_UP
        try:
            ask_until_mixed_up(server, found)
        except BackendUnavailableError as error:
            message = str(error)
        assert MIXED_UP in message
        assert len(found) == 200 or message != MIXED_UP
        all_are_their_own(found)


def test_closing_the_iterator_ends_the_run():
    with FaultServer(QUIET) as server:
        server.most = 8  # the run would wait for the rest
        backend = connect(f"openai:{MODEL}", base_url=server.url, mode="top", max_concurrency="4")
        rows = backend.read_labels_each(questions(500), LABELS)
        next(rows)
        rows.close()
        assert sum(server.asked.values()) <= 8 + 4
        assert "refladder-endpoint" not in {
            thread.name for thread in threading.enumerate()
        }  # nobody asks for more
