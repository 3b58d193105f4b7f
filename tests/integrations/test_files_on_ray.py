"""Files on Ray actors of this machine: no row is lost or doubled, whatever is killed."""

from __future__ import annotations

import json
import os
import signal
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

pytest.importorskip("ray", reason="ray is not installed; run make test-integrations")

from ray.cluster_utils import Cluster
from scored_folders import leftovers, scored, split, worker_of
from slow_judge import installed
from waiting import HANG, until

from refladder.errors import BackendUnavailableError
from refladder.files.locks import has_ended
from refladder.many_files.workers import DEATHS, RayActors, cores_of_an_actor

LADDERS = ("--ladders", "demo/story", "--dimension", "coherence")


@pytest.fixture(autouse=True)
def _ray_of_this_test(monkeypatch):
    """Ray keeps its files in a folder of the test, and so connects to no cluster that it finds on this machine."""
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    # The path of a socket has 107 characters at most, and that of `tmp_path` is too long.
    with TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder:
        monkeypatch.setenv("RAY_TMPDIR", folder)
        yield


@pytest.fixture
def installed_judge(tmp_path, monkeypatch):
    """The file that holds the judge `slow`, which all processes that are started from now on can open."""
    environment, hold = installed(tmp_path / "installed")
    for name in ("PYTHONPATH", "HOLD"):
        monkeypatch.setenv(name, environment[name])
    return hold


@pytest.fixture
def start(process, tmp_path, rows, installed_judge):
    """Start a run of 6 files on two actors, which wait at their second call while `hold` exists."""
    hold, out = installed_judge, tmp_path / "out"
    source = split(rows(1200), tmp_path / "in", 200)
    started = []

    def go(*options):
        line = ["score", source, *LADDERS, "--judge", "slow", "--out", out]
        started.append(process(*line, "--engine", "ray", "--workers", "2", *options))
        return started[-1], out, hold

    hold.touch()
    yield go
    for run in started:
        run.kill()
        run.communicate()


@pytest.fixture
def nodes(installed_judge, monkeypatch):
    """Two nodes of a cluster in processes of this machine, with two cores each; the driver is on a third."""
    assert not installed_judge.exists()
    head = {"num_cpus": 1, "include_dashboard": False, "wait": False}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        added = [cluster.add_node(num_cpus=2, wait=False) for _ in range(2)]
        cluster.wait_for_nodes(HANG)
        monkeypatch.setenv("RAY_ADDRESS", cluster.address)
        yield [node.all_processes["raylet"][0].process for node in added]
    finally:
        cluster.shutdown()


def check_rows(command, out, tmp_path):
    whole = tmp_path / "whole.jsonl"
    assert command("score", tmp_path / "in", *LADDERS, "--out", whole).code == 0
    expected = [json.loads(line) for line in whole.read_bytes().splitlines()]
    rows = [json.loads(line) for line in scored(out).splitlines()]
    assert [(row["output_id"], row["coherence_score"]) for row in rows] == [
        (row["output_id"], row["coherence_score"]) for row in expected
    ]
    assert leftovers(out) == []


def test_a_killed_actor_costs_no_row(start, command, tmp_path):
    run, out, hold = start()
    os.kill(worker_of(out, "00.jsonl", run), signal.SIGKILL)
    hold.unlink()
    _, err = run.communicate(timeout=HANG)
    assert run.returncode == 0, err
    check_rows(command, out, tmp_path)


def test_a_killed_node_costs_no_row(nodes, start, process, tmp_path):
    run, out, hold = start("--json")
    worker = worker_of(out, "00.jsonl", run)
    (node,) = [node for node in nodes if node.pid == parent_of(worker)]
    # A node that is lost takes its processes along. No other node has room for this actor: the other one scores all files.
    node.kill()
    with suppress(ProcessLookupError):
        os.kill(worker, signal.SIGKILL)
    node.wait()
    hold.unlink()
    printed, err = run.communicate(timeout=HANG)
    assert run.returncode == 0, err
    counts = {"files": 6, "reused": 0, "missing": 0, "rows": 1200, "scored": 1200, "unscored": 0}
    assert json.loads(printed)["files"] == counts
    lost = b"00.jsonl: the worker died (1 of at most 3 times); another worker scores it"
    assert lost in err
    whole = tmp_path / "whole.jsonl"
    alone = process("score", tmp_path / "in", *LADDERS, "--judge", "slow", "--out", whole)
    _, err = alone.communicate(timeout=HANG)
    assert alone.returncode == 0, err
    assert scored(out) == whole.read_bytes()
    assert leftovers(out) == []


def parent_of(process):
    return int(Path(f"/proc/{process}/stat").read_text("utf-8").rpartition(")")[2].split()[1])


def test_a_killed_driver_takes_its_actors_along_and_the_next_one_continues(
    start, command, tmp_path
):
    run, out, hold = start()
    actors = [worker_of(out, "00.jsonl", run), worker_of(out, "01.jsonl", run)]
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
    arguments = ["score", source, *LADDERS, "--out", tmp_path / "out", "--engine", "ray"]
    assert "--workers 10000: the Ray cluster has" in fails(2, *arguments, "--workers", "10000")


@pytest.mark.parametrize(
    ("cores", "places", "number", "share"),
    [
        ([8], [8], 3, 2),  # one core is left for the driver
        ([2, 2, 2, 2], [2, 2, 2, 2], 2, 2),  # 3 of 7 would fit on no node
        ([3, 3, 3], [4, 4, 4], 4, 1),  # with 2 each, the third node would take no second actor
        ([32, 16], [0, 8], 8, 2),  # the first node has no GPU
        ([1], [8], 1, 1),
    ],
)
def test_every_actor_finds_its_cores_on_some_node(cores, places, number, share):
    assert cores_of_an_actor(cores, places, number) == share


def test_actors_that_do_not_start_end_the_run():
    workers = RayActors(1, 1, gpus=False)
    try:
        workers.start("no task")
        assert [workers.wait(print) for _ in range(DEATHS - 1)] == [None] * (DEATHS - 1)
        with pytest.raises(BackendUnavailableError) as error:
            workers.wait(print)
    finally:
        workers.close()
    assert str(error.value) == (
        "an actor of the Ray cluster does not start (json.decoder.JSONDecodeError: Expecting value: line 1 column 1 "
        "(char 0)); install this version of refladder on every node"
    )
