"""Files on Ray actors of this machine: no row is lost or doubled, whatever is killed."""

from __future__ import annotations

import json
import os
import signal

import pytest

pytest.importorskip("ray", reason="ray is not installed; run make test-integrations")

from scored_folders import leftovers, scored, split, worker_of
from slow_judge import installed
from waiting import HANG, until

from refladder.files.locks import has_ended


@pytest.fixture
def start(process, tmp_path, rows):
    """Start a run of 6 files on two actors, which wait at their second call while `hold` exists."""
    environment, hold = installed(tmp_path / "installed")
    source, out = split(rows(1200), tmp_path / "in", 200), tmp_path / "out"
    started = []

    def go():
        line = [
            "score",
            source,
            "--ladders",
            "demo/story",
            "--dimension",
            "coherence",
            "--judge",
            "slow",
            "--out",
            out,
        ]
        started.append(process(*line, "--engine", "ray", "--workers", "2", env=environment))
        return started[-1], out, hold

    hold.touch()
    yield go
    for run in started:
        run.kill()
        run.communicate()


def check_rows(command, out, tmp_path):
    whole = tmp_path / "whole.jsonl"
    arguments = ["--ladders", "demo/story", "--dimension", "coherence", "--out", whole]
    assert command("score", tmp_path / "in", *arguments).code == 0
    expected = [json.loads(line) for line in whole.read_bytes().splitlines()]
    rows = [json.loads(line) for line in scored(out).splitlines()]
    assert [(row["output_id"], row["coherence_score"]) for row in rows] == [
        (row["output_id"], row["coherence_score"]) for row in expected
    ]
    assert leftovers(out) == []


def test_a_killed_actor_costs_no_row(start, command, tmp_path):
    run, out, hold = start()
    os.kill(worker_of(out, "00.jsonl"), signal.SIGKILL)
    hold.unlink()
    _, err = run.communicate(timeout=HANG)
    assert run.returncode == 0, err
    check_rows(command, out, tmp_path)


def test_a_killed_driver_takes_its_actors_along_and_the_next_one_continues(
    start, command, tmp_path
):
    run, out, hold = start()
    actors = [worker_of(out, "00.jsonl"), worker_of(out, "01.jsonl")]
    second, _, _ = start()
    _, err = second.communicate(timeout=HANG)
    assert second.returncode == 2
    assert f"out: process {run.pid} on host" in err.decode()
    run.kill()
    run.wait()
    until(lambda: all(map(has_ended, actors)))
    hold.unlink()
    third, _, _ = start()
    _, err = third.communicate(timeout=HANG)
    assert third.returncode == 0, err
    check_rows(command, out, tmp_path)


def test_more_workers_than_the_cluster_has_are_refused(fails, tmp_path, rows):
    source = split(rows(3), tmp_path / "in", 1)
    arguments = [
        "score",
        source,
        "--ladders",
        "demo/story",
        "--out",
        tmp_path / "out",
        "--engine",
        "ray",
    ]
    assert "--workers 10000: the Ray cluster has" in fails(2, *arguments, "--workers", "10000")
