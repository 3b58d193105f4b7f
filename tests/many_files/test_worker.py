"""One worker: what it answers for a file, whatever goes wrong, and how workers share a machine and an endpoint."""

from __future__ import annotations

import errno
import os
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import connection
from types import SimpleNamespace

import pytest
from scored_folders import split

from refladder.backends.openai.options import share_of_limits
from refladder.errors import DataError
from refladder.files import jsonl
from refladder.files.ladder_sets import load_ladders
from refladder.files.locks import locked
from refladder.files.scored_folders import ScoredFile, stamp
from refladder.many_files.worker import Task, Worker
from refladder.many_files.workers import Processes, _serve, _take_gpu


@pytest.fixture
def file(tmp_path, rows):
    """A file of 40 rows."""
    source = str(split(rows(40), tmp_path / "in", 40) / "00.jsonl")
    return ScoredFile(source=source, stamp=stamp(source), name="00.jsonl")


@pytest.fixture
def task(tmp_path):
    def make(version=None):
        version = version or load_ladders("demo/story").signature
        out, dimensions = str(tmp_path / "out"), ["coherence"]
        return Task(
            folder=out, ladders="demo/story", version=version, dimensions=dimensions
        ).to_json()

    return make


def test_ladders_that_changed_since_the_run_began_stop_the_run(file, task):
    answer = Worker(task("demo/story")).run(file, None)
    assert answer.stops
    changed = "demo/story: the ladder set has changed since the run began"
    assert changed in str(answer.error)


def test_a_full_disk_stops_the_run(file, task, monkeypatch):
    def full(_descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    worker = Worker(task())
    with monkeypatch.context() as patched:
        patched.setattr(jsonl.os, "fsync", full)
        answer = worker.run(file, None)
    assert type(answer.error) is DataError
    told = "cannot be written (No space left on device); free space or choose another path"
    assert told in str(answer.error)
    assert (answer.counts, answer.stops) == (None, True)
    assert worker.run(file, None).counts.file.scored == 40  # once there is space


def test_rows_of_unfinished_files_are_told(file, task, monkeypatch):
    monkeypatch.setattr("refladder.many_files.worker._EVERY", 0)
    told = []
    Worker(task(), told.append).run(file, None)
    assert told == sorted(told)
    assert told[-1] == 40
    assert len(told) > 1  # and steps between: those of the batches


def test_a_file_of_a_worker_that_is_about_to_end_waits_for_it(file, task, tmp_path, monkeypatch):
    worker, held = Worker(task()), locked(tmp_path / "out" / ".work" / "00.jsonl")
    monkeypatch.setattr("refladder.many_files.worker._ATTEMPTS", 2)
    pauses = []
    with ThreadPoolExecutor() as other:
        other.submit(held.__enter__).result()
        monkeypatch.setattr("refladder.many_files.worker.time.sleep", pauses.append)
        answer = worker.run(file, None)
        holder = f"{tmp_path}/out/.work/00.jsonl: process {os.getpid()} on host"
        assert f"{file.source}: {holder}" in str(answer.error)
        assert not answer.stops  # the other files are scored
        assert len(pauses) == 2
        ending = lambda _seconds: other.submit(held.__exit__, None, None, None).result()  # noqa: E731
        monkeypatch.setattr("refladder.many_files.worker.time.sleep", ending)
        assert worker.run(file, None).counts.file.rows == 40


def test_workers_share_the_limits_of_an_endpoint():
    given = {
        "base_url": "http://127.0.0.1:1/v1",
        "requests_per_minute": "90",
        "max_concurrency": "10",
    }
    shared = {**given, "requests_per_minute": "22.5", "max_concurrency": "2"}
    assert share_of_limits(given, 4) == shared
    assert share_of_limits({}, 200) == {"max_concurrency": "1"}


def test_processes_take_the_visible_gpus_in_turn(monkeypatch):
    taken = []
    for worker in range(3):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
        _take_gpu(worker)
        taken.append(os.environ["CUDA_VISIBLE_DEVICES"])
    assert taken == ["3", "5", "3"]


def test_processes_share_cores_and_memory(monkeypatch):
    started = []

    class Context:
        def Pipe(self):  # noqa: N802  its name in multiprocessing
            return connection.Pipe()

        def Process(self, *, target, args, daemon):  # noqa: N802
            started.append((target, args[2], daemon))
            return SimpleNamespace(start=args[0].close)

    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MKL_NUM_THREADS", "7")
    monkeypatch.setattr("refladder.many_files.workers.get_context", lambda _kind: Context())
    monkeypatch.setattr("refladder.many_files.workers.cores", lambda: 9)
    Processes(4, 9, gpus=False).start("{}")
    share = {"OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2", "REFLADDER_WORKERS": "4"}
    assert started == [(_serve, share, True)] * 4
    assert Processes(4, 3, gpus=False).number == 3
