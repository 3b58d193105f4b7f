"""Claims of runs on a folder at a URL."""

from __future__ import annotations

import json
import os
import re
import socket

import pytest

from refladder.errors import UsageError
from refladder.files.folders import open_folder

CLAIM = ".refladder/folder.claim"


@pytest.fixture
def folder(tmp_path):
    return open_folder(f"file://{tmp_path}/out")


@pytest.mark.parametrize(
    "damaged",
    [
        *(b"", b"x", b"\xff", b"null", b"[]", b"7", b'{"process": "x"}'),
        b'{"process": 1e999, "host": "a", "since": "b"}',
        b"[" * 100_000,
        json.dumps({"process": 1, "host": socket.gethostname()}).encode(),
    ],
)
def test_a_damaged_claim_is_taken_over(folder, damaged):
    folder.write(CLAIM, damaged)
    with folder.claimed(None):
        assert json.loads(folder.read(CLAIM))["process"] == os.getpid()
    assert folder.read(CLAIM) is None


def test_the_claim_of_another_machine_is_kept_and_the_message_names_it(folder, tmp_path):
    claim = json.dumps({"process": 7, "host": "elsewhere", "since": "2026-01-02 03:04:05"}).encode()
    folder.write(CLAIM, claim)
    told = (
        f"file://{tmp_path}/out: process 7 on host elsewhere has been writing it since 2026-01-02 03:04:05 UTC; wait "
        f"for it to finish, or choose another path; if that process has ended, delete file://{tmp_path}/out/{CLAIM}"
    )
    with pytest.raises(UsageError, match=rf"^{re.escape(told)}$"), folder.claimed(None):
        pass
    assert folder.read(CLAIM) == claim


def test_a_claim_that_another_run_takes_at_the_same_moment_is_left_to_it(folder, monkeypatch):
    folder.write(CLAIM, b"damaged")
    other = json.dumps({"process": 7, "host": "elsewhere", "since": "now"}).encode()
    write = type(folder).write
    monkeypatch.setattr(type(folder), "write", lambda self, name, _data: write(self, name, other))
    with pytest.raises(UsageError, match="process 7 on host elsewhere has been writing it since now UTC"):
        folder.claimed(None).__enter__()
    assert folder.read(CLAIM) == other
