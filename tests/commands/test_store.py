"""refladder store, and the store of other commands."""

import json
import sqlite3
import time

import pytest

from refladder.backends.cache.store import Answer, ResponseStore
from refladder.commands import main as cli

KEYS = [bytes([number]) * 16 for number in range(4)]
READING = b'{"logprobs":[-0.5,-1.5],"mass":0.75,"note":null}'
TEXT = b'{"text":"a text","finish":"stop","note":null}'


@pytest.fixture
def store(tmp_path):
    """A store with two answers of 1970 and two of now."""
    path = tmp_path / "r.sqlite"
    now = int(time.time())
    with ResponseStore(path) as opened:
        opened.insert([Answer(key, "old/1", "labels", 1000, READING) for key in KEYS[:2]])
        opened.insert([Answer(key, "new\x1b[2J/1", "write", now, TEXT) for key in KEYS[2:]])
    return path


def run(capsys, *arguments):
    code = cli.run([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_show(capsys, store):
    code, out, _ = run(capsys, "store", "show", "--store", store)
    assert code == 0
    assert "old/1" in out
    assert "1970-01-01 00:16" in out
    assert "\x1b[2J" not in out
    assert "4 answers, 0.1 MB" in out.replace("\n", "")
    code, out, _ = run(capsys, "store", "show", "--store", store, "--json")
    found = json.loads(out)
    assert (found["answers"], found["store"]) == (4, str(store))
    assert found["bytes"] > 0
    assert found["backends"][1] == {
        "fingerprint": "old/1",
        "kind": "labels",
        "answers": 2,
        "first": 1000,
        "last": 1000,
    }


def test_the_default_store_is_in_the_cache_folder(capsys, tmp_path, monkeypatch):
    monkeypatch.delenv("REFLADDER_STORE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("sys.platform", "linux")
    code, _, err = run(capsys, "store", "show")
    assert code == 2
    assert f"{tmp_path}/refladder/responses.sqlite: no such response store; `refladder score --store FILE` makes" in err
    monkeypatch.setenv("REFLADDER_STORE", str(tmp_path / "other.sqlite"))
    _, _, err = run(capsys, "store", "show")
    assert f"{tmp_path}/other.sqlite: no such" in err


@pytest.mark.parametrize(
    ("platform", "variable", "expected"),
    [("win32", "LOCALAPPDATA", "refladder/responses.sqlite"), ("darwin", "HOME", "Library/Caches/refladder/")],
)
def test_the_cache_folder_of_other_systems(tmp_path, monkeypatch, platform, variable, expected):
    from refladder.session import default_store  # noqa: PLC0415

    monkeypatch.setattr("sys.platform", platform)
    monkeypatch.setenv(variable, str(tmp_path))
    assert default_store().as_posix().startswith(f"{tmp_path.as_posix()}/{expected}")


def test_verify_and_remove(capsys, store):
    code, out, _ = run(capsys, "store", "verify", "--store", store)
    assert (code, out) == (0, f"{store}: 4 answers, 0 damaged\n")
    database = sqlite3.connect(store)
    database.execute("UPDATE answers SET answer = '{}' WHERE key = ?", (KEYS[1],))
    database.commit()
    database.close()
    code, out, _ = run(capsys, "store", "verify", "--store", store)
    assert code == 1
    assert out == (
        f"{store}: 4 answers, 1 damaged\n  {KEYS[1].hex()}\n"
        "remove them with --remove: they are asked again when they are needed\n"
    )
    code, out, _ = run(capsys, "store", "verify", "--store", store, "--json", "--remove")
    assert (code, json.loads(out)) == (
        0,
        {"store": str(store), "answers": 4, "damaged": [KEYS[1].hex()], "removed": True},
    )
    code, out, _ = run(capsys, "store", "verify", "--store", store)
    assert (code, out) == (0, f"{store}: 3 answers, 0 damaged\n")


def test_prune(capsys, store):
    code, _, err = run(capsys, "store", "prune", "--store", store)
    assert code == 2
    assert (
        "nothing was named to delete; give --backend FINGERPRINT, --older-than DAYS, or both (0 days: everything)"
        in err
    )
    code, _, err = run(capsys, "store", "prune", "--store", store, "--backend", "old/2")
    assert code == 2
    assert "unknown backend in" in err
    assert "did you mean 'old/1'?" in err
    code, out, _ = run(capsys, "store", "prune", "--store", store, "--older-than", "1")
    assert code == 0
    assert f"{store}: 2 answers deleted, 0.1 MB now" in out
    code, out, _ = run(capsys, "store", "prune", "--store", store, "--older-than", "0", "--json")
    assert json.loads(out)["deleted"] == 2


def test_export_import_and_merge_carry_everything(capsysbinary, tmp_path, store):
    def run_(*arguments):
        code = cli.run([str(argument) for argument in arguments])
        return code, capsysbinary.readouterr().out

    code, lines = run_("store", "export", "--store", store)
    assert code == 0
    assert lines.splitlines()[0] == (
        b'{"schema":"response/1","key":"' + KEYS[0].hex().encode() + b'","fingerprint":"old/1","kind":"labels",'
        b'"time":1000,"answer":' + READING + b"}"
    )
    file = tmp_path / "lines.jsonl"
    assert run_("store", "export", "--store", store, "--out", file) == (0, b"")
    assert file.read_bytes() == lines
    copy, merged = tmp_path / "copy.sqlite", tmp_path / "merged.sqlite"
    assert run_("store", "import", file, "--store", copy) == (0, f"{copy}: 4 new answers\n".encode())
    assert run_("store", "import", file, "--store", copy) == (0, f"{copy}: 0 new answers\n".encode())
    assert json.loads(run_("store", "merge", store, "--store", merged, "--json")[1]) == {"store": str(merged), "new": 4}
    for other in (copy, merged):
        assert run_("store", "export", "--store", other) == (0, lines)


def test_an_export_is_not_written_over_its_store(capsys, store):
    before = store.read_bytes()
    code, _, err = run(capsys, "store", "export", "--store", store, "--out", store)
    assert (code, err) == (2, f"refladder: {store}: --store and --out must be different files\n")
    assert store.read_bytes() == before


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", r":1: not JSON ("),
        ("[]", ':1: expected a line with "schema": "response/1", as `refladder store export` writes it'),
        ({"schema": "judgment/1"}, ':1: expected a line with "schema": "response/1"'),
        ({"kind": "other"}, ":1: response/1 field 'kind': Input should be 'write' or 'labels', found 'other'"),
        ({"time": "now"}, ":1: response/1 field 'time': Input should be a valid integer, found 'now'"),
        ({"fingerprint": "half \ud83d"}, ":1: not JSON ("),
        ({"time": 2**70}, ":1: response/1 field 'time': seconds since 1970, found 1180591620717411303424"),
        ({"more": 1}, ":1: response/1 field 'more': Unexpected keyword argument"),
        ({"key": "abc"}, ":1: field 'key' must be 32 hexadecimal digits, found 'abc'"),
        ({"key": "ab"}, ":1: field 'key' must be 32 hexadecimal digits, found 'ab'"),
        (
            {"answer": {"logprobs": ["-1"], "mass": 1.0}},
            ":1: answer field 'logprobs.0': Input should be a valid number, found '-1'",
        ),
        (
            {"answer": {"logprobs": [5.0, -1.0], "mass": 1.0}},
            ":1: field 'answer': a log-probability of 5, above 0; correct or delete the line",
        ),
        (  # e^-0.5 is 0.607
            {"answer": {"logprobs": [-0.5, -0.5], "mass": 1.0}},
            ":1: field 'answer': label probabilities that add to 1.21, more than 1; correct or delete the line",
        ),
        (
            {"answer": {"logprobs": [-1.0], "mass": 7}},
            ":1: field 'answer': a label mass of 7, which is not between 0 and 1; correct or delete the line",
        ),
        ({"answer": {"logprobs": None, "mass": None}}, ":1: field 'answer' is a failure, not an answer; delete"),
    ],
)
def test_lines_that_are_no_answers_are_refused(capsys, tmp_path, line, message):
    good = {"schema": "response/1", "key": "ab" * 16, "fingerprint": "m", "kind": "labels", "time": 1}
    good["answer"] = {"logprobs": [-1.0], "mass": 0.5, "note": None}
    file = tmp_path / "lines.jsonl"
    file.write_text(line if isinstance(line, str) else json.dumps({**good, **line}))
    code, _, err = run(capsys, "store", "import", file, "--store", tmp_path / "r.sqlite")
    assert code == 2
    assert f"{file}{message}" in err
