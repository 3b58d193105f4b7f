"""Locks on what a run keeps. That two runs exclude each other is in jobs/test_two_runs.py."""

from __future__ import annotations

import errno
import json
import os
import shutil
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from waiting import until

from refladder.errors import DataError, UsageError
from refladder.files import locks
from refladder.files.jsonl import append_lines, write_json
from refladder.files.locks import has_ended, locked, locked_folder


def enter(path):
    with locked(path):
        pass


def test_the_lock_file_names_its_holder_and_is_removed(tmp_path):
    path = tmp_path / "new" / "kept.jsonl"
    with locked(path):
        record = json.loads((tmp_path / "new" / ".kept.jsonl.lock").read_text())
        assert (record["process"], record["host"]) == (os.getpid(), socket.gethostname())
    assert list(tmp_path.iterdir()) == []  # nor is the folder left that was made for it
    with locked_folder(tmp_path / "work"):
        (tmp_path / "work" / "kept").touch()
    assert [path.name for path in (tmp_path / "work").iterdir()] == ["kept"]


@pytest.mark.parametrize("error", [FileExistsError, FileNotFoundError])
def test_a_folder_that_another_process_removes_meanwhile_is_made_anew(tmp_path, monkeypatch, error):
    path, made = tmp_path / "out" / ".work" / "kept.jsonl", os.mkdir
    failed = []

    def mkdir(folder, *more):
        # There was a folder a moment ago, and now there is none; the second time, that above it is gone.
        if Path(folder) == path.parent and len(failed) < 2:
            failed.append(folder)
            raise error(errno.EEXIST, "as another process left it", str(folder))
        made(folder, *more)

    monkeypatch.setattr(os, "mkdir", mkdir)
    for write in (enter, lambda path: write_json(path, {}), lambda path: append_lines(path, [])):
        failed.clear()
        write(path)
        assert len(failed) == 2
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
    path.parent.parent.mkdir()
    path.parent.write_text("")
    with pytest.raises(DataError, match=r"cannot be written \(.*\.work is a file, not a folder\)"):
        enter(path)


def test_a_thread_may_enter_again_and_another_may_not(tmp_path):
    path = tmp_path / "kept.jsonl"
    with ThreadPoolExecutor() as threads, locked(path):
        enter(path)
        holder = f"process {os.getpid()} on host {socket.gethostname()}"
        message = f"^{path}: {holder} has been writing it .* UTC; wait for it to finish, or choose"
        with pytest.raises(UsageError, match=message):
            threads.submit(enter, path).result()
    with ThreadPoolExecutor() as threads:
        threads.submit(enter, path).result()


def test_a_lock_file_that_its_last_holder_removes_is_opened_anew(tmp_path, monkeypatch):
    file, take, taken = tmp_path / ".kept.lock", locks.try_lock, []

    def after_a_removal(descriptor):
        if not taken:
            file.unlink()  # the last holder ends between the opening of the file and its lock
        taken.append(descriptor)
        return take(descriptor)

    monkeypatch.setattr(locks, "try_lock", after_a_removal)
    with locked(tmp_path / "kept"):
        assert len(taken) == 2
        assert file.exists()
    assert not file.exists()


@pytest.fixture(scope="module")
def ended():
    """The number of a process that has ended, and the record of a lock that it held."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    return {"process": process.pid, "host": socket.gethostname(), "since": "2026-01-02 03:04:05"}


@pytest.fixture
def without_locks(monkeypatch):
    fcntl = pytest.importorskip("fcntl", reason="this system has no such locks")

    def unsupported(_descriptor, _how):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", unsupported)


@pytest.mark.usefixtures("without_locks")
def test_where_the_file_system_has_no_locks_the_record_decides(tmp_path, monkeypatch, ended):
    monkeypatch.setattr(locks, "_PAUSE", 0)
    path, file = tmp_path / "kept", tmp_path / ".kept.lock"
    for alive in ({**ended, "process": os.getppid()}, {**ended, "host": "elsewhere"}):
        file.write_text(json.dumps(alive))
        with pytest.raises(UsageError) as refused:
            enter(path)
        assert str(refused.value) == (
            f"{path}: process {alive['process']} on host {alive['host']} has been writing it since 2026-01-02 03:04:05 "
            f"UTC; wait for it to finish, or choose another path; if that process has ended, delete {file}"
        )
    for unsigned in ("[1", ""):  # its process may be about to sign it
        file.write_text(unsigned)
        message = r"kept: another process has been writing it; .* has ended, delete .*\.lock"
        with pytest.raises(UsageError, match=message):
            enter(path)
    file.write_text(json.dumps(ended))
    with locked(path):
        assert json.loads(file.read_text())["process"] == os.getpid()
    assert list(tmp_path.iterdir()) == []


OTHER_RUN = """
import errno, fcntl, sys
from pathlib import Path
from refladder.errors import DataError, UsageError
from refladder.files import locks
from refladder.files.jsonl import append_lines, write_json
def unsupported(descriptor, how):
    raise OSError(errno.ENOLCK, "No locks available")
fcntl.flock = unsupported
try:
    with locks.locked(Path(sys.argv[1])):
        print("started", flush=True)
        sys.stdin.read()
except UsageError as error:
    print(error, flush=True)
"""


@pytest.fixture
def other_run(process):
    """Another process that asks for the lock; gives its first line, and ends with the test."""
    started = []

    def go(path):
        started.append(process("-c", OTHER_RUN, path, driver=(), stdin=subprocess.PIPE, text=True))
        return started[-1].stdout.readline()

    yield go
    for run in started:
        run.communicate()


@pytest.mark.usefixtures("without_locks")
def test_without_locks_the_second_of_two_new_runs_is_refused(tmp_path, other_run, monkeypatch):
    """The other starts after this one has made the lock file, and before it has signed it."""
    path, sign, told = tmp_path / "kept", locks._sign, []

    def late(descriptor):
        told.append(other_run(path))
        sign(descriptor)

    monkeypatch.setattr(locks, "_sign", late)
    with locked(path):
        assert told[0].startswith(
            f"{path}: another process has been writing it; wait for it to finish"
        )


@pytest.mark.usefixtures("without_locks")
def test_without_locks_one_of_two_runs_takes_over_from_an_ended_one(
    tmp_path, other_run, monkeypatch, ended
):
    """The other takes over after this one has seen that the holder has ended, and before it does so itself."""
    path, look, told = tmp_path / "kept", locks.has_ended, []
    (tmp_path / ".kept.lock").write_text(json.dumps(ended))

    def late(number):
        seen = look(number)
        if not told:
            told.append(other_run(path))
        return seen

    monkeypatch.setattr(locks, "has_ended", late)
    with pytest.raises(UsageError, match=r"kept: process \d+ on host .* has been writing it since"):
        enter(path)
    assert told == ["started\n"]


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="only Linux shows this")
def test_a_process_that_was_killed_has_ended_before_its_parent_asks(process):
    run = process("-c", "import time; time.sleep(600)", driver=())
    assert not has_ended(run.pid)
    run.kill()
    until(lambda: has_ended(run.pid))  # `run` was not waited for
    run.communicate()
    assert has_ended(run.pid)
