"""Files that a student scores: the rows and counts of one process."""

from __future__ import annotations

import json

import pytest
from scored_folders import Inline, scored, split

LADDERS = ("--ladders", "demo/story", "--dimension", "coherence")
COLUMN = "coherence_score"


@pytest.fixture(autouse=True)
def inline(monkeypatch):
    monkeypatch.setattr("refladder.fleet.workers.Processes", Inline)


@pytest.fixture(scope="module")
def made(tmp_path_factory, rows):
    """1,200 rows, and a student of the builtin judge's scores."""
    from refladder.commands.main import run

    folder = tmp_path_factory.mktemp("students")
    source, labelled, student = (
        split(rows(1200), folder / "in", 1100),
        folder / "scored.jsonl",
        folder / "student",
    )
    assert run(["export", "demo/story", "--out", str(folder / "outputs.jsonl")]) == 0
    assert run(["score", str(folder / "outputs.jsonl"), *LADDERS, "--out", str(labelled)]) == 0
    assert run(["distil", str(labelled), "--by", COLUMN, "--out", str(student)]) == 0
    return source, student


def test_a_student_scores_files(command, fails, made, tmp_path):
    source, student = made
    judge = ("--judge", f"distilled:{student}", "--ladders", "demo/story")
    whole, out = tmp_path / "whole.jsonl", tmp_path / "out"
    counts = json.loads(command("score", source, *judge, "--out", whole, "--json").out)
    assert counts["rows"] == 1200  # more than a student reads at a time
    done = command("score", source, *judge, "--out", out)
    assert done.code == 0
    assert done.err.endswith("2 files: 1,200 rows = 1,200 scored + 0 unscored\n")
    rows, expected = (
        list(map(json.loads, data.splitlines())) for data in (scored(out), whole.read_bytes())
    )
    for row, other in zip(rows, expected, strict=True):
        assert row.pop(COLUMN) == pytest.approx(other.pop(COLUMN), abs=1e-12)
        assert row == other
    assert not (out / "judgments").exists()
    assert "asks no model, and --rule is for asking one" in fails(
        2, "score", source, *judge, "--out", out, "--rule", "hard-votes"
    )


def test_another_student_is_another_run(command, fails, made, tmp_path):
    source, student = made
    out = tmp_path / "out"
    first = (
        "score",
        source,
        "--judge",
        f"distilled:{student}",
        "--ladders",
        "demo/story",
        "--out",
        out,
    )
    assert command(*first).code == 0
    other = tmp_path / "student"
    other.mkdir()
    for path in student.iterdir():
        (other / path.name).write_bytes(path.read_bytes())
    second = (
        "score",
        source,
        "--judge",
        f"distilled:{other}",
        "--ladders",
        "demo/story",
        "--out",
        out,
    )
    assert command(*second).code == 0  # the same student in another folder
    record = json.loads((other / "student.json").read_text())
    (other / "student.json").write_text(json.dumps({**record, "half_width": 1.0}))
    text = fails(2, *second)
    assert "holds files of another run (other student)" in text
