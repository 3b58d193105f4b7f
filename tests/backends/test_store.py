"""The SQLite file of the response store: damage, other files, full disks, many processes."""

import multiprocessing
import os
import sqlite3
from contextlib import closing

import pytest
from waiting import HANG

from refladder.backends.cache import store as response_store
from refladder.backends.cache.store import SqliteStore
from refladder.errors import DataError

KEYS = [bytes([number]) * 16 for number in range(20)]
TEXT = '{"text":"a","finish":"stop","note":null}'


@pytest.fixture
def path(tmp_path):
    return tmp_path / "deep" / "r.sqlite"


@pytest.fixture
def store(path):
    with SqliteStore(path) as opened:
        yield opened


def test_answers_are_found_in_one_go_and_stay_as_they_are(store):
    store.add("model/1", "write", [(key, TEXT) for key in KEYS[:5]])
    store.add("model/1", "write", [(KEYS[0], "{}")])  # the first answer counts
    assert store.find(KEYS) == dict.fromkeys(KEYS[:5], TEXT.encode())
    assert store.find([]) == {}
    assert store.find([KEYS[1], KEYS[1]]) == {KEYS[1]: TEXT.encode()}


def test_the_pace_of_answers_leaves_pauses_out(store, monkeypatch):
    """21 answers in 40 s, a pause of an hour, 10 answers in 20 s: those after the first of each run took 2 s each."""
    clock = [*range(1000, 1042, 2), *range(5000, 5022, 2)]
    keys = (bytes([number]) * 16 for number in range(100))
    for number, now in enumerate(clock, start=1):
        if number == 20:
            assert store.answer_seconds("model/1", "labels") is None  # too few
        monkeypatch.setattr("time.time", lambda now=now: now)
        store.add("model/1", "labels", [(next(keys), TEXT)])
    assert store.answer_seconds("model/1", "labels") == 2.0
    assert store.answer_seconds("model/1", "write") is None
    assert store.answer_seconds("model/2", "labels") is None
    store.add("model/3", "labels", [(key, TEXT) for key in (bytes([9, n] * 8) for n in range(90))])
    assert store.answer_seconds("model/3", "labels") is None  # all in one second


def test_more_keys_than_one_statement_takes(store):
    keys = [number.to_bytes(16, "big") for number in range(2 * response_store.CHUNK + 7)]
    store.add("model/1", "labels", [(key, str(place)) for place, key in enumerate(keys)])
    assert store.find(keys[::-1]) == {key: str(place).encode() for place, key in enumerate(keys)}
    assert store.count() == len(keys)


def _add(path, place):
    with SqliteStore(path) as store:
        for round_ in range(10):
            key = f"{place:08}{round_:08}".encode()
            store.add(f"model/{place % 2}", "write", [(key, TEXT), (KEYS[0], TEXT)])


def test_many_processes_make_and_fill_one_file(path):
    context = multiprocessing.get_context("spawn")  # a fork of a process with threads may hang
    processes = [context.Process(target=_add, args=(path, place)) for place in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(HANG)  # a loaded machine takes long to start interpreters
    assert [process.exitcode for process in processes] == [0] * 3
    with SqliteStore(path) as store:
        assert store.count() == 3 * 10 + 1


def damaged(message):
    return pytest.raises(DataError, match=message)


def test_another_schema_is_refused(path):
    SqliteStore(path).close()
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA user_version = 7")
    with damaged(r"r\.sqlite: a response store of schema 7, and this refladder reads schema 2; "):
        SqliteStore(path)


def test_a_database_of_another_program_is_not_touched(tmp_path):
    path = tmp_path / "other.sqlite"
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE recipes (name)")
    before = path.read_bytes()
    with damaged(r"other\.sqlite: an SQLite database of another program; name another file"):
        SqliteStore(path)
    assert path.read_bytes() == before


# SQLite would take so short a file as the second for an empty one, and write over it.
@pytest.mark.parametrize("text", ["Dear diary, " * 100, "x"])
def test_a_file_that_is_no_database(tmp_path, text):
    path = tmp_path / "notes.txt"
    path.write_text(text)
    with damaged(r"notes\.txt: damaged, or not a response store; move it away"):
        SqliteStore(path)
    assert path.read_text() == text


def test_a_file_with_damaged_pages(path):
    keys = [os.urandom(16) for _ in range(2000)]
    with SqliteStore(path) as store:
        store.add("model/1", "write", [(key, TEXT * 20) for key in keys])
    raw = bytearray(path.read_bytes())
    raw[8 * 4096 : -4096] = os.urandom(len(raw) - 9 * 4096)
    path.write_bytes(raw)
    message = r"r\.sqlite: damaged, or not a response store; move it away"
    with SqliteStore(path) as store, damaged(message):
        store.find(keys)


def test_a_damaged_answer_is_never_used(path, store):
    store.add("model/1", "write", [(key, TEXT) for key in KEYS[:3]])
    with closing(sqlite3.connect(path)) as database, database:
        changed = (TEXT.replace('"a"', '"b"'), KEYS[1])
        database.execute("UPDATE answers SET answer = ? WHERE key = ?", changed)
    message = f"the answer {KEYS[1].hex()} is damaged; empty the store with `refladder store clear`"
    with damaged(rf"r\.sqlite: {message}"):
        store.find(KEYS)
    assert set(store.find([KEYS[0], KEYS[2]])) == {KEYS[0], KEYS[2]}
    assert store.clear() == 3
    assert store.find(KEYS) == {}


def test_a_full_disk_keeps_what_was_stored(store):
    store.add("model/1", "write", [(KEYS[0], TEXT)])
    store._database.execute("PRAGMA max_page_count = 12")  # SQLite then fails as on a full disk
    with damaged(r"r\.sqlite: cannot be written, the disk is full; free space and run the same"):
        store.add("model/1", "write", [(KEYS[1], TEXT * 10_000)])
    assert set(store.find(KEYS)) == {KEYS[0]}
    store._database.execute("PRAGMA max_page_count = 1000000")
    store.add("model/1", "write", [(KEYS[1], TEXT * 10_000)])
    assert set(store.find(KEYS)) == set(KEYS[:2])


UNWRITABLE = "cannot be opened for writing, and a store writes beside its file"


FAILED = "the response store failed; check the disk and run the same command again"


@pytest.mark.parametrize(
    ("statement", "message"),
    [("PRAGMA query_only = 1", rf"r\.sqlite: {UNWRITABLE}"), ("DROP TABLE answers", FAILED)],
)
def test_a_store_that_cannot_be_written(store, statement, message):
    store._database.execute(statement)
    with damaged(message):
        store.add("model/1", "write", [(KEYS[1], TEXT)])


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", UNWRITABLE),
        (
            "file/r.sqlite",
            r"r\.sqlite: its folder cannot be made \((File exists|Not a directory)\)",
        ),
    ],
)
def test_paths_that_cannot_be_a_store(tmp_path, name, message):
    (tmp_path / "file").write_text("")
    with damaged(message):
        SqliteStore(tmp_path / name)


def test_a_store_that_is_locked_too_long(path, store, monkeypatch):
    monkeypatch.setattr(response_store, "WAIT", 0.05)
    with SqliteStore(path) as other:
        other._database.execute("BEGIN IMMEDIATE")
        store._database.execute("PRAGMA busy_timeout = 50")
        with damaged(r"another process has held the response store for 0 s; end it, then run"):
            store.add("model/1", "write", [(KEYS[0], TEXT)])
        other._database.execute("ROLLBACK")


def test_a_store_that_is_not_there(tmp_path):
    with damaged(r"none\.sqlite: no such response store; `refladder score --store FILE` makes"):
        SqliteStore(tmp_path / "none.sqlite", create=False)


def test_a_store_is_emptied_while_others_use_it(path, store):
    with SqliteStore(path) as other:
        other.add("model/1", "labels", [(key, TEXT * 200) for key in KEYS])
        before = store.size()
        assert (store.count(), store.clear(), store.count(), store.clear()) == (20, 20, 0, 0)
        assert store.size() < before
        other.add("model/1", "labels", [(KEYS[0], TEXT)])
    assert store.count() == 1
