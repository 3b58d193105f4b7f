"""A few malformed inputs for every reader; bench/malformed.py does thousands."""

import malformed
import pytest

SEEDS = 4


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    folder = tmp_path_factory.mktemp("good")
    malformed.good_files(folder)
    return folder


@pytest.mark.parametrize("name", malformed.READERS)
def test_no_malformed_input_is_a_traceback(name, good, tmp_path):
    assert malformed.tried(name, good, tmp_path / "trial", None).code in {
        0,
        3,
    }  # what is spoilt below was good
    for seed in range(SEEDS):
        done = malformed.tried(name, good, tmp_path / "trial", seed)
        assert done.code in malformed.CODES, (seed, done.told)
        if done.code == 2:
            assert done.told.splitlines()[-1].startswith(("refladder: ", "Error: ")), (
                seed,
                done.told,
            )


def test_a_traceback_and_a_hanging_command_are_seen(good, tmp_path, monkeypatch):
    monkeypatch.setattr(malformed, "run_command", lambda _arguments: 1 / 0)
    done = malformed.tried("rescore", good, tmp_path / "trial", 0)
    assert (done.code, done.told.splitlines()[-1]) == (None, "ZeroDivisionError: division by zero")
    monkeypatch.setattr(malformed, "LIMIT", 0.2)
    monkeypatch.setattr(malformed, "run_command", lambda _arguments: malformed.time.sleep(600))
    done = malformed.tried("rescore", good, tmp_path / "trial", 0)
    assert done.code is None
    assert "HangingError" in done.told
