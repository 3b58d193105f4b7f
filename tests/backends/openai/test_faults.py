"""Rows against a server with seeded faults and runs that are cut off: none lost, none invented, none asked again."""

import asyncio
import math
import os
import signal
import sqlite3
import threading
import time
from contextlib import closing
from dataclasses import replace

import pytest
import stored_client
from asked import LABELS, questions, unavailable
from fault_server import MODEL, FaultServer, probabilities
from faulty_rows import HARSH, QUIET, ask, check
from stored_client import stored_rows
from waiting import HANG, until

from refladder.backends import connect
from refladder.errors import BackendUnavailableError


def test_no_row_is_lost_invented_or_asked_twice():
    with FaultServer(HARSH) as server:
        backend, found = ask(server)
        check(found)
        assert server.late == 0
        kinds = ("server_error", "reset", "half", "no_json", "drip", "twice")
        assert min(server.kinds[kind] for kind in kinds) > 0
        assert backend.counts["tried again"] > 50


class Stormy(FaultServer):
    """A storm after each 100 rows, however long they take; it lasts 0.1 s from its first refusal."""

    storms, over = 0, None

    def _storm_left(self):
        if self.over is None and len(self.answered) >= 100 * (self.storms + 1):
            self.storms += 1
            self.over = time.monotonic() + 0.1
        left = 0 if self.over is None else self.over - time.monotonic()
        if left <= 0:
            self.over = None
        return max(0, left)


def test_storms_of_429_are_waited_out():
    with Stormy(QUIET) as server:
        backend, found = ask(server, 250, max_concurrency="20")
        check(found, 250)
        assert server.late == 0
        assert server.storms == 2
        # those in flight are turned away at each storm, and then nobody knocks before its end
        assert 2 <= backend.counts["put off (429)"] == server.kinds["429"] <= 2 * 20


def test_out_of_order_answers_find_their_rows():
    with FaultServer(QUIET) as server:
        answer = server._answer

        async def late(*sent):
            reply = await answer(*sent)
            while b"text number 0" in sent[-1] and len(server.answered) < 100:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
            return reply

        server._answer = late
        _, found = ask(server, 200, max_concurrency="10")
        check(found, 200)
        # Of the 99 other answers, those of the 9 other requests in flight may come after it.
        assert [place for place, _ in found].index(0) >= 90


def test_a_row_that_always_fails_is_unreadable_with_its_reason_and_the_rest_is_not_touched():
    with FaultServer(QUIET) as server:
        reply = server._reply

        def fail(row, sent, kind):
            return reply(row, sent, "server_error" if row == 7 else kind)

        server._reply = fail
        backend = connect(f"openai:{MODEL}", base_url=server.url, mode="top", attempts="2")
        readings = backend.read_labels(questions(50), LABELS)
    assert [place for place, reading in enumerate(readings) if reading.logprobs is None] == [7]
    assert readings[7].reason == "request failed: the server answered 502: overloaded (2 times)"


MIXED_UP = "one answer was given to two different requests, so what lies between mixes answers up"


def ask_until_mixed_up(server, found):
    """Collect the answers as they come, each of which must be its own."""
    backend = connect(f"openai:{MODEL}", base_url=server.url, mode="top", max_concurrency="2")
    for place, reading in backend.read_labels_each(questions(200), LABELS):
        found.append(place)
        own = [math.exp(value) for value in reading.logprobs]
        assert own == pytest.approx(probabilities(place))


def test_answers_that_are_mixed_up_on_the_way_end_the_run():
    with FaultServer(QUIET) as server:
        reply = server._reply

        def mix_up(row, sent, kind):  # as a bad proxy does
            return reply(40 if row == 42 else row, sent, kind)

        server._reply = mix_up
        found = []
        with unavailable(MIXED_UP):
            ask_until_mixed_up(server, found)
        assert 40 <= len(found) < 60


def test_an_answer_that_is_sent_twice_goes_to_no_other_row():
    # the second is left on the connection, which is closed; where the next request was faster, the run ends
    with FaultServer(QUIET) as server:
        reply = server._reply

        def repeat(row, sent, kind):
            return reply(row, sent, "repeat" if row % 40 == 0 else kind)

        server._reply = repeat
        found = []
        try:
            ask_until_mixed_up(server, found)
        except BackendUnavailableError as error:
            assert MIXED_UP in str(error)  # noqa: PT017  it may not be raised
        else:
            assert len(found) == 200


def test_closing_the_iterator_ends_the_run():
    with FaultServer(QUIET) as server:
        server.most = 8  # the run would wait for the rest
        backend = connect(f"openai:{MODEL}", base_url=server.url, mode="top", max_concurrency="4")
        rows = backend.read_labels_each(questions(500), LABELS)
        next(rows)
        rows.close()
        assert sum(server.asked.values()) <= 8 + 4
        # nobody asks for more
        assert "refladder-endpoint" not in {thread.name for thread in threading.enumerate()}


def test_stalls_are_given_up_and_tried_again():
    with FaultServer(replace(QUIET, stall=0.1, stall_time=HANG)) as server:
        backend, found = ask(server, 80, timeout="1.5")
        check(found, 80)
        # a busy machine may be too slow for other requests too
        assert backend.counts["tried again"] >= server.kinds["stall"] > 2


def finish(server, path, rows):
    """Run again to the end and check: rows that the store had are not asked, and all are right."""
    before = stored_rows(server.url, path, rows)
    server.asked.clear()
    assert stored_client.ask(server.url, path, rows) == (rows - len(before), 0)
    assert server.asked.keys() == set(range(rows)) - before
    assert stored_rows(server.url, path, rows) == set(range(rows))
    return before


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no kill -9")
def test_kill_9_in_mid_run(tmp_path):
    path, rows = tmp_path / "r.sqlite", 300

    def stored():
        with closing(sqlite3.connect(path)) as database:
            try:
                return database.execute("SELECT count(*) FROM answers").fetchone()[0]
            except sqlite3.OperationalError:  # it is being made
                return 0

    with FaultServer(replace(HARSH, service=0.02)) as server:
        server.most = 150
        client = stored_client.start(server.url, path, rows)
        # The first answer is stored at once. Those that follow it fast are held back until another one comes.
        until(stored, client)
        os.kill(client.pid, signal.SIGKILL)
        client.communicate()
        server.most = None
        assert 0 < len(finish(server, path, rows)) <= 150


def test_a_full_disk_in_mid_run(tmp_path):
    pytest.importorskip("resource", reason="this system has no limits on files")
    path, rows = tmp_path / "r.sqlite", 1000  # more answers than fit, however they are stored
    with FaultServer(QUIET) as server:
        client = stored_client.start(server.url, path, rows, 150_000)
        output, _ = client.communicate(timeout=HANG)
        assert output.startswith(f"refladder: {path}: ")
        assert "check the disk and run the same command again to resume" in output
        assert 0 < len(finish(server, path, rows)) < rows
