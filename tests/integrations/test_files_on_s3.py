"""Files read from and written to a real S3 server on this machine (moto)."""

from __future__ import annotations

import json
import os
import signal
from urllib.request import Request, urlopen

import pytest

pytest.importorskip("s3fs", reason="s3fs is not installed; run make test-integrations")
pytest.importorskip("moto.server", reason="moto is not installed; run make test-integrations")

import s3fs
from moto.server import ThreadedMotoServer
from slow_judge import installed
from waiting import until

from refladder.files.locks import has_ended

LADDERS = ("--ladders", "demo/story", "--dimension", "coherence")


@pytest.fixture
def store(monkeypatch, tmp_path, write_jsonl, rows):
    """A bucket with 600 rows in six files; gives its file system."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key-of-the-test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret-of-the-test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    # Work files are kept by their URL, which is that of every run of these tests.
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    s3fs.S3FileSystem.clear_instance_cache()
    system = s3fs.S3FileSystem(use_listings_cache=False)
    system.mkdir("bucket")
    for name, part in [(f"{n}", rows(100, 1 + 100 * n)) for n in range(6)]:
        system.put_file(str(write_jsonl(part, f"{name}.jsonl")), f"bucket/in/{name}.jsonl")
    yield system
    urlopen(Request(f"http://{host}:{port}/moto-api/reset", method="POST"), timeout=60)
    server.stop()


def content(system):
    names = sorted(name for name in system.ls("bucket/out") if name.endswith(".jsonl"))
    return b"".join(system.cat_file(name) for name in names)


@pytest.fixture
def expected(command, store, tmp_path):
    del store
    out = tmp_path / "whole.jsonl"
    assert command("score", "s3://bucket/in", *LADDERS, "--out", out).code == 0
    return out.read_bytes()


def test_files_go_from_a_bucket_to_a_bucket(store, command, fails, expected, tmp_path):
    arguments = ("score", "s3://bucket/in", *LADDERS, "--out", "s3://bucket/out", "--json")
    done = command(*arguments, "--workers", "2")
    assert done.code == 0
    counts = {"files": 6, "reused": 0, "missing": 0, "rows": 600, "scored": 600, "unscored": 0}
    assert json.loads(done.out)["files"] == counts
    assert content(store) == expected
    assert not [name for name in store.find("bucket/out") if name.endswith((".lock", ".partial"))]
    assert "secret-of-the-test" not in "".join(
        store.cat_file(name).decode() for name in store.find("bucket/out")
    )

    votes = ("--rule", "hard-votes")
    again = command("rescore", "s3://bucket/out", *votes)
    assert again.code == 0
    assert again.out == command("rescore", tmp_path / "whole.jsonl.judgments.jsonl", *votes).out
    assert fails(2, "rescore", "s3://bucket/in").startswith(
        "refladder: s3://bucket/in: holds no judgments; name a"
    )
    assert "s3://bucket/none.jsonl: no such file" in fails(2, "rescore", "s3://bucket/none.jsonl")

    store.rm_file("bucket/out/1.jsonl")
    best = ("filter", "s3://bucket/out", "--top", "0.1", "--by", "coherence_score")
    assert fails(2, *best).startswith(
        "refladder: s3://bucket/out/1.jsonl: this file of scored rows is missing; run"
    )
    counts = json.loads(command(*arguments).out)
    # 100 rows x 5 rungs, downloaded and not asked.
    assert (counts["files"]["reused"], counts["reused"]) == (5, 500)
    assert content(store) == expected
    assert len(command(*best).rows) == 60


def test_a_killed_driver_is_continued(store, process, command, expected, tmp_path):
    environment, hold = installed(tmp_path / "installed")
    hold.touch()
    line = ["score", "s3://bucket/in", *LADDERS, "--out", "s3://bucket/out"]
    run = process(*line, "--judge", "slow", env=environment)
    until(lambda: store.exists("bucket/out/run.json"), run)
    os.kill(run.pid, signal.SIGKILL)
    run.communicate()
    assert has_ended(run.pid)
    assert command(*line).code == 0
    assert content(store) == expected


def test_a_server_that_refuses_is_one_sentence(store, fails, monkeypatch):
    del store
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    s3fs.S3FileSystem.clear_instance_cache()
    text = fails(
        2, "score", "s3://bucket/in", *LADDERS, "--out", "s3://bucket/out", "--workers", "1"
    )
    assert "cannot be read or written" in text
    assert "secret-of-the-test" not in text
