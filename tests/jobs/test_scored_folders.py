"""A folder of scored shards is read as the run wrote it: no row is lost or counted twice without a word."""

from __future__ import annotations

import json

import pytest
from shard_folders import Inline

LADDERS = ("--ladders", "demo/story", "--dimension", "coherence")


@pytest.fixture
def scoring(command, rows, tmp_path, monkeypatch):
    """The command that scored 60 rows in three shards, and the folder."""
    monkeypatch.setattr("refladder.jobs.workers.Processes", Inline)
    source, out = tmp_path / "in.jsonl", tmp_path / "out"
    source.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows(60)), "utf-8")
    arguments = ("score", source, *LADDERS, "--out", out, "--shard-rows", "20")
    assert command(*arguments).code == 0
    return arguments, out


def test_a_changed_shard_is_refused_until_it_is_scored_again(command, fails, scoring, tmp_path):
    arguments, out = scoring
    reading = ("filter", out, "--min", "coherence_score=-15", "--out", tmp_path / "kept.jsonl")
    assert command(*reading).err == "60 rows: 60 passed (100.0%), 0 rejected, 0 unscored (dropped)\n"
    shard = out / "in-00001.jsonl"
    whole = shard.read_bytes()
    for changed in (whole[: whole.index(b"\n") + 1], whole.replace(b'score": ', b'score":1', 1)):
        shard.write_bytes(changed)
        assert fails(2, *reading) == (
            f"refladder: {shard}: this scored shard has changed since it was written; run the same `refladder score` "
            "command again, which scores it anew, or name the files to read with a quoted glob\n"
        )
    assert command(*arguments).code == 0
    assert shard.read_bytes() == whole
    assert command(*reading).code == 0


def test_a_table_beside_the_shards_is_not_counted_with_them(command, fails, scoring):
    _, out = scoring
    inside = out / "kept.jsonl"
    assert command("filter", out, "--min", "coherence_score=-15", "--out", inside).code == 0
    assert fails(2, "filter", out, "--min", "coherence_score=-15") == (
        f"refladder: {inside}: no scored shard of this folder; move it away, or name the files to read with a quoted "
        "glob\n"
    )
    inside.unlink()
    (out / "notes.txt").write_text("no table", "utf-8")
    assert command("filter", out, "--min", "coherence_score=-15").code == 0


@pytest.mark.parametrize("again", [False, True])
def test_rescore_refuses_a_folder_without_the_judgments_of_a_shard(command, fails, scoring, tmp_path, again):
    arguments, out = scoring
    (judgments,) = (out / ".refladder" / "judgments").glob("in-00001-*.jsonl")
    judgments.unlink()
    if again:  # every shard is scored, so nothing is asked
        assert "(3 from earlier runs)" in command(*arguments).err
    rescoring = ("rescore", out, "--out", tmp_path / "rescored.jsonl")
    assert fails(2, *rescoring) == (
        f"refladder: {out}/in-00001.jsonl: the judgments of this shard are missing; delete this file, and run the same "
        "`refladder score` command again, which asks the judge about its rows again\n"
    )
    (out / "in-00001.jsonl").unlink()
    assert command(*arguments).code == 0
    assert command(*rescoring).err.startswith("60 rows, 0 scores missing; 300 judgments")
