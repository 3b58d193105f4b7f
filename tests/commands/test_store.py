"""refladder store, and where the store of other commands is."""

import json
import sqlite3

import pytest

from refladder.backends.cache.store import SqliteStore
from refladder.session import default_store

TEXT = '{"text":"a text","finish":"stop","note":null}'


@pytest.fixture
def store(tmp_path):
    """A store with four answers."""
    path = tmp_path / "r.sqlite"
    with SqliteStore(path) as opened:
        opened.add("old/1", "write", [(bytes([number]) * 16, TEXT) for number in range(4)])
    return path


def test_show_and_clear(command, store):
    show, clear = f"store show --store {store}", f"store clear --store {store}"
    assert command(show).out == f"{store}: 4 answers, 0.0 MB\n"
    (found,) = command(f"{show} --json").rows
    assert (found["answers"], found["store"]) == (4, str(store))
    assert found["bytes"] >= store.stat().st_size
    assert command(clear).out == f"{store}: 4 answers deleted, 0.0 MB now\n"
    assert json.loads(command(f"{clear} --json").out)["deleted"] == 0
    assert json.loads(command(f"{show} --json").out)["answers"] == 0


def test_a_store_of_an_earlier_schema_is_one_error(fails, store):
    database = sqlite3.connect(store)
    database.execute("PRAGMA user_version = 1")
    database.close()
    words = f"{store}: a response store of schema 1, and this refladder reads schema 2; delete the file, or name another"
    assert words in fails(2, f"store show --store {store}")


def test_the_default_store_is_in_the_cache_folder(fails, tmp_path, monkeypatch):
    monkeypatch.delenv("REFLADDER_STORE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("sys.platform", "linux")
    assert (
        f"{tmp_path}/refladder/responses.sqlite: no such response store; `refladder score --store FILE` makes"
        in fails(2, "store show")
    )
    monkeypatch.setenv("REFLADDER_STORE", str(tmp_path / "other.sqlite"))
    assert f"{tmp_path}/other.sqlite: no such" in fails(2, "store show")


@pytest.mark.parametrize(
    ("platform", "variable", "expected"),
    [
        ("win32", "LOCALAPPDATA", "refladder/responses.sqlite"),
        ("darwin", "HOME", "Library/Caches/refladder/"),
    ],
)
def test_the_cache_folder_of_other_systems(tmp_path, monkeypatch, platform, variable, expected):
    monkeypatch.setattr("sys.platform", platform)
    monkeypatch.setenv(variable, str(tmp_path))
    assert default_store().as_posix().startswith(f"{tmp_path.as_posix()}/{expected}")
