"""A command overwrites no file but its own."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import pytest

import refladder
from refladder.errors import UsageError
from refladder.files.outputs import RunRecord, read_record

TABLE = '{"output_id": "a", "context_id": "story-01", "output": "A.", "x_score": 1.0}\n'


@pytest.mark.parametrize("name", ["filter", "rejected", "pairs", "export", "rescore", "score"])
def test_a_file_of_another_origin_is_refused(command, fails, stories, tmp_path, name):
    scored, target = tmp_path / "scored.jsonl", tmp_path / "mine.jsonl"
    scoring = f"score {stories} --ladders demo/story"
    assert command(f"{scoring} --out {scored}").code == 0
    line = {
        "filter": f"filter {scored} --min coherence_score=-99 --out {target}",
        "rejected": f"filter {scored} --min coherence_score=99 --out - --rejected {target}",
        "pairs": f"pairs {scored} --margin 0 --by coherence_score --ladders demo/story --out {target}",
        "export": f"export demo/story --out {target}",
        "rescore": f"rescore {scored}.judgments.jsonl --out {target}",
        "score": f"{scoring} --out {target}",
    }[name]
    target.write_text(TABLE)
    said = line.split()[0]
    refused = f"{target}: exists, and `refladder {said}` did not write it; name another file, or delete it\n"
    assert fails(2, line).endswith(refused)
    assert target.read_text() == TABLE
    target.unlink()
    assert command(line).code == 0
    assert json.loads((tmp_path / "mine.jsonl.run.json").read_text())["command"] == said
    first = target.read_bytes()
    # The same command goes on.
    assert command(line).code == 0
    assert target.read_bytes() == first


def test_an_empty_file_may_be_written(command, stories, tmp_path):
    (tmp_path / "new.jsonl").touch()
    assert command(f"score {stories} --ladders demo/story --out {tmp_path}/new.jsonl").code == 0


def test_scores_with_judgments_elsewhere_are_not_replaced_by_those_of_another_scale(
    command, fails, stories, tmp_path
):
    line = f"score {stories} --ladders demo/story --out {tmp_path}/out.jsonl"
    assert command(f"{line} --judgments {tmp_path}/one.jsonl").code == 0
    other = f"{line} --both-orders --judgments {tmp_path}/two.jsonl"
    assert f"their judgments are not in {tmp_path}/two.jsonl; name another file" in fails(2, other)
    to_another = other.replace("out.jsonl", "out-2.jsonl")
    assert command(to_another).code == 0
    told = fails(2, other)
    assert f"{tmp_path}/out.jsonl: holds scores with the signature ladders:" in told
    assert "|orders:2|" in told
    assert told.endswith("; name another file, or delete it\n")


def test_a_damaged_record_is_refused(fails, tmp_path):
    table = tmp_path / "scored.jsonl"
    table.write_text(TABLE)
    Path(f"{table}.run.json").write_text('{"scales": {"x_score": [0]}, "of a later version": 1}')
    said = fails(2, "filter", table, "--min", "x_score=0", "--out", tmp_path / "passed.jsonl")
    assert re.search(
        r"scored\.jsonl\.run\.json: not the record of a run field 'scales\.x_score\.1': .*; delete it, or run the "
        r"command again that wrote it$",
        said.strip(),
    )


def test_columns_and_context_of_files_and_folders(tmp_path):
    """A command lists FIELD=NAME, a call has a dict, and a folder has settings."""
    written = {
        "command": {"options": {"column": ["output=text"], "context_id": "story-04"}},
        "call": {"options": {"columns": {"output": "text"}, "context_id": "story-04"}},
        "folder": {"settings": {"columns": {"output": "text"}, "context_id": "story-04"}},
    }
    for name, record in written.items():
        path = tmp_path / f"{name}.run.json"
        path.write_text(json.dumps({**record, "judge": {"judge": "builtin"}}))
        read = read_record(path)
        assert (read.columns, read.context_id) == ({"output": "text"}, "story-04")
    assert read_record(tmp_path / "none.run.json") == RunRecord()


@pytest.mark.skipif(sys.platform != "linux", reason="file names are bytes on Linux")
def test_a_path_that_the_record_of_a_run_cannot_hold_is_refused_before_it(fails, stories, tmp_path):
    odd, score = (
        os.fsdecode(os.fsencode(tmp_path) + b"/b\xff"),
        ("score", "--dimension", "coherence"),
    )
    table, task = Path(f"{odd}.jsonl"), Path(f"{odd}.toml")
    table.write_bytes(stories.read_bytes())
    task.write_text('task = "open"\n[[dimensions]]\nname = "a"\ndescription = "b"\n')
    story, out = ("--ladders", "demo/story"), tmp_path / "out.jsonl"
    before = sorted(tmp_path.iterdir())
    for line in (
        (*score, table, *story, "--out", out),
        (*score, stories, *story, "--out", table),
        (*score, stories, *story, "--out", out, "--judgments", table),
        ("score", stories, "--answers", "rating", "--ladders", task, "--out", out),
        ("score", stories, *story, "--column", f"system={odd}", "--out", out),
        ("evaluate", "demo/story", "--methods", "length", "--work", odd),
    ):
        told = fails(2, *line)
        assert "b\N{REPLACEMENT CHARACTER}" in told
        assert (
            "the name is not UTF-8, and the records of a run hold it; rename the file or folder"
            in told
        )
    # A call that writes nothing has a signature.
    with pytest.raises(UsageError, match="the name is not UTF-8, and signatures hold it; rename"):
        refladder.Scorer(ladders=str(task), answers="rating")
    assert sorted(tmp_path.iterdir()) == before
