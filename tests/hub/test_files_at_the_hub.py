"""Files read from and written to a data set of the Hub through `hf://`."""

from __future__ import annotations

import json

import pytest
from huggingface_hub import HfApi, HfFileSystem
from scored_folders import Inline

LADDERS = ("--ladders", "demo/story", "--dimension", "coherence")


@pytest.fixture
def corpus(monkeypatch, write_jsonl, rows):
    """A data set with 60 rows in two files; gives the URL."""
    monkeypatch.setattr("refladder.many_files.workers.Processes", Inline)
    HfFileSystem.clear_instance_cache()
    api = HfApi()
    api.create_repo("group/corpus", repo_type="dataset")
    for name, part in (("a", rows(40)), ("b", rows(20, 41))):
        path = write_jsonl(part, f"{name}.jsonl")
        api.upload_file(
            path_or_fileobj=str(path),
            path_in_repo=f"in/{name}.jsonl",
            repo_id="group/corpus",
            repo_type="dataset",
        )
    yield "hf://datasets/group/corpus"
    HfFileSystem.clear_instance_cache()


def test_files_go_from_a_data_set_to_a_data_set(corpus, hub, command, tmp_path):
    whole = tmp_path / "whole.jsonl"
    assert command("score", f"{corpus}/in", *LADDERS, "--out", whole).code == 0
    arguments = ("score", f"{corpus}/in", *LADDERS, "--out", f"{corpus}/out", "--json")
    done = command(*arguments)
    assert done.code == 0, done.err
    assert done.err.startswith("builtin: a baseline that counts words and reads no meaning\n")
    assert done.err.count("\n") == 1  # no progress bars of uploads
    assert json.loads(done.out)["files"]["scored"] == 60
    names = sorted(
        name
        for name in hub.files("group/corpus")
        if name.startswith("out/") and name.endswith(("out/a.jsonl", "out/b.jsonl"))
    )
    assert "".join(hub.text("group/corpus", name) for name in names).encode() == whole.read_bytes()
    assert json.loads(command(*arguments).out)["files"]["reused"] == 2
    best = ("--min", "coherence_score=-14")
    assert command("filter", f"{corpus}/out", *best).out == command("filter", whole, *best).out
