"""refladder store, and the store of other commands."""

import json
import sqlite3

import pytest

from refladder.backends.cache.store import ResponseStore
from refladder.commands import main as cli

KEYS = [bytes([number]) * 16 for number in range(4)]
TEXT = '{"text":"a text","finish":"stop","note":null}'


@pytest.fixture
def store(tmp_path):
    """A store with four answers."""
    path = tmp_path / "r.sqlite"
    with ResponseStore(path) as opened:
        opened.add("old/1", "write", [(key, TEXT) for key in KEYS])
    return path


def run(capsys, *arguments):
    code = cli.run([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_show_and_clear(capsys, store):
    code, out, _ = run(capsys, "store", "show", "--store", store)
    assert (code, out) == (0, f"{store}: 4 answers, 0.0 MB\n")
    found = json.loads(run(capsys, "store", "show", "--store", store, "--json")[1])
    assert (found["answers"], found["store"]) == (4, str(store))
    assert found["bytes"] >= store.stat().st_size
    code, out, _ = run(capsys, "store", "clear", "--store", store)
    assert (code, out) == (0, f"{store}: 4 answers deleted, 0.0 MB now\n")
    assert json.loads(run(capsys, "store", "clear", "--store", store, "--json")[1])["deleted"] == 0
    assert json.loads(run(capsys, "store", "show", "--store", store, "--json")[1])["answers"] == 0


def test_a_store_of_an_earlier_schema_is_one_error(capsys, store):
    database = sqlite3.connect(store)
    database.execute("PRAGMA user_version = 1")
    database.close()
    code, _, err = run(capsys, "store", "show", "--store", store)
    assert code == 2
    words = f"{store}: a response store of schema 1, and this refladder reads schema 2; delete the file, or name another"
    assert words in err


def test_the_default_store_is_in_the_cache_folder(capsys, tmp_path, monkeypatch):
    monkeypatch.delenv("REFLADDER_STORE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("sys.platform", "linux")
    code, _, err = run(capsys, "store", "show")
    assert code == 2
    assert (
        f"{tmp_path}/refladder/responses.sqlite: no such response store; `refladder score --store FILE` makes"
        in err
    )
    monkeypatch.setenv("REFLADDER_STORE", str(tmp_path / "other.sqlite"))
    _, _, err = run(capsys, "store", "show")
    assert f"{tmp_path}/other.sqlite: no such" in err


@pytest.mark.parametrize(
    ("platform", "variable", "expected"),
    [
        ("win32", "LOCALAPPDATA", "refladder/responses.sqlite"),
        ("darwin", "HOME", "Library/Caches/refladder/"),
    ],
)
def test_the_cache_folder_of_other_systems(tmp_path, monkeypatch, platform, variable, expected):
    from refladder.session import default_store

    monkeypatch.setattr("sys.platform", platform)
    monkeypatch.setenv(variable, str(tmp_path))
    assert default_store().as_posix().startswith(f"{tmp_path.as_posix()}/{expected}")
