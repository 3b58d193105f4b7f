"""A response store that may only be read: its file, or its whole folder, cannot be written."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

import pytest

from refladder.backends.cache.store import Answer, ResponseStore

KEYS = [bytes([number]) * 16 for number in range(4)]
TEXT = b'{"text":"a text","finish":"stop","note":null}'
NOBODY = 65534

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs the permissions of POSIX")


@pytest.fixture
def folder():
    """A folder that another user can reach; what it holds is made writable again at the end."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "stores"
        Path(name).chmod(0o755)
        folder.mkdir()
        yield folder
        folder.chmod(0o755)


@pytest.fixture
def as_reader(folder, command, tmp_path):
    """Take the permission to write away, and with it the rights of root."""
    with ResponseStore(tmp_path / "other.sqlite") as store:
        store.insert([Answer(KEYS[0], "m/1", "write", 1000, TEXT)])
    for name in ("show", "verify", "export"):  # imports what they need while it can be read
        command("store", name, "--store", tmp_path / "other.sqlite")

    def go(*, only_file=False):
        for path in folder.iterdir():
            path.chmod(0o444)
        folder.chmod(0o777 if only_file else 0o555)
        if os.geteuid() == 0:
            os.seteuid(NOBODY)

    yield go
    os.seteuid(os.getuid())


def store_in(folder, *, log=False):
    """A store with four answers; with `log`, as a killed process leaves it: the answers are in its log."""
    path = folder / "r #1.sqlite"
    with ResponseStore(path) as store:
        store.insert([Answer(key, "m/1", "write", 1000, TEXT) for key in KEYS[:2]])
    if not log:
        with ResponseStore(path) as store:
            store.insert([Answer(key, "m/1", "write", 1000, TEXT) for key in KEYS[2:]])
        return path
    copy = folder / "copy"
    copy.mkdir()
    with closing(sqlite3.connect(path)) as other:
        other.execute("SELECT count(*) FROM answers").fetchone()  # so that the log outlives the store
        with ResponseStore(path) as store:
            store.insert([Answer(key, "m/1", "write", 1000, TEXT) for key in KEYS[2:]])
        for file in folder.glob("r*"):
            shutil.copy(file, copy)
    for file in folder.glob("r*"):
        file.unlink()
    for file in copy.iterdir():
        file.rename(folder / file.name)
    copy.rmdir()
    assert path.with_name(f"{path.name}-wal").stat().st_size > 0
    return path


@pytest.mark.parametrize("log", [False, True], ids=["closed", "with a log"])
@pytest.mark.parametrize("only_file", [False, True], ids=["folder", "file"])
def test_show_verify_and_export_need_no_writing(command, folder, as_reader, log, only_file):
    path = store_in(folder, log=log)
    before = {file.name: file.read_bytes() for file in folder.iterdir() if not file.name.endswith("-shm")}
    as_reader(only_file=only_file)
    shown = command("store", "show", "--store", path)
    assert (shown.code, shown.err) == (0, "")
    assert "4 answers" in shown.out
    verified = command("store", "verify", "--store", path)
    assert (verified.code, verified.out) == (0, f"{path}: 4 answers, 0 damaged\n")
    assert len(command("store", "export", "--store", path).rows) == 4
    after = {file.name: file.read_bytes() for file in folder.iterdir() if not file.name.endswith("-shm")}
    assert after == before


def test_a_log_without_its_index_is_reported(command, folder, as_reader):
    path = store_in(folder, log=True)
    path.with_name(f"{path.name}-shm").unlink()
    as_reader()
    done = command("store", "show", "--store", path)
    assert (done.code, done.err) == (
        2,
        (
            f"refladder: {path}: its log {path.name}-wal cannot be read in a folder that cannot be written; copy both "
            "files together to another folder, and name the copy\n"
        ),
    )


def test_what_writes_is_refused(command, folder, as_reader):
    path = store_in(folder)
    as_reader()
    for arguments in (("verify", "--remove"), ("prune", "--older-than", "0")):
        done = command("store", *arguments, "--store", path)
        assert done.code == 2
        assert f"{path}: cannot be opened for writing, and a store writes beside its file too" in done.err


def test_an_empty_file_and_another_program(command, folder, as_reader):
    empty, other = folder / "empty.sqlite", folder / "other.sqlite"
    empty.touch()
    with closing(sqlite3.connect(other)) as database:
        database.execute("CREATE TABLE t (x)")
    as_reader()
    done = command("store", "show", "--store", empty)
    assert (done.code, done.err) == (
        2,
        f"refladder: {empty}: an empty response store that cannot be written; name another\n",
    )
    done = command("store", "show", "--store", other)
    assert "an SQLite database of another program; name another file with --store" in done.err
