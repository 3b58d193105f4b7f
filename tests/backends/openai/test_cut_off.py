"""Runs cut off by kill -9, a full disk or stalls: nothing is lost, invented, or asked again once it was stored."""

import os
import signal
import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest
from fault_server import FaultServer
from faulty_rows import HARSH, QUIET, ask, check
from stored_client import start, stored_rows
from waiting import HANG, until

ROWS = 400


def finish(server, path, rows=ROWS):
    """Run a client to its end and check: rows that the store had were not asked, and all are right."""
    before = stored_rows(server.url, path, rows)
    server.asked.clear()
    output, _ = start(server.url, path, rows).communicate(timeout=HANG)
    assert output == f"asked {rows - len(before)}, wrong 0\n"
    assert server.asked.keys() == set(range(rows)) - before
    assert stored_rows(server.url, path, rows) == set(range(rows))
    return before


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no kill -9")
def test_kill_9_in_mid_run(tmp_path):
    path = tmp_path / "r.sqlite"

    def stored():
        with closing(sqlite3.connect(path)) as database:
            try:
                return database.execute("SELECT count(*) FROM answers").fetchone()[0]
            except sqlite3.OperationalError:  # it is being made
                return 0

    with FaultServer(replace(HARSH, service=0.02)) as server:
        for part in (1, 2):  # and once more while it goes on
            server.most = part * ROWS // 3
            client = start(server.url, path, ROWS)
            until(lambda part=part: stored() >= part * ROWS // 4, client)
            os.kill(client.pid, signal.SIGKILL)
            client.communicate()
        server.most = None
        assert ROWS // 2 <= len(finish(server, path)) <= 2 * ROWS // 3


def test_a_full_disk_in_mid_run(tmp_path):
    pytest.importorskip("resource", reason="this system has no limits on files")
    path = tmp_path / "r.sqlite"
    with FaultServer(QUIET) as server:
        rows = 1000  # whose answers do not fit, also if all but the first are stored together
        output, _ = start(server.url, path, rows, 150_000).communicate(timeout=HANG)
        assert output.startswith(f"refladder: {path}: ")
        assert "check the disk and run the same command again to resume" in output
        assert 0 < len(finish(server, path, rows)) < rows


def test_stalls_are_given_up_and_tried_again():
    with FaultServer(replace(QUIET, stall=0.1, stall_time=HANG)) as server:
        backend, found = ask(server, 150, timeout="1.5")
        check(found, 150)
        # a busy machine may be too slow for other requests too
        assert backend.counts["tried again"] >= server.kinds["stall"] > 5
