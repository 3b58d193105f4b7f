"""Shards that a student scores, or that it reads before the judge: the rows and counts of one process."""

from __future__ import annotations

import json

import numpy as np
import pytest
from shard_folders import Inline, scored

from refladder.fleet.sharded_score import merged
from refladder.metaeval.shares import share_intervals
from refladder.scoring.columns import FirstPass, ScoreReport

LADDERS = ("--ladders", "demo/story", "--dimension", "coherence")
COLUMN, CASCADE = "coherence_score", "coherence_cascade_score"
BETWEEN = ("--between", "-2", "4")
SHARDS = ("--shard-rows", "200")


@pytest.fixture(autouse=True)
def inline(monkeypatch):
    monkeypatch.setattr("refladder.fleet.workers.Processes", Inline)


@pytest.fixture(scope="module")
def made(tmp_path_factory, rows):
    """1,200 rows, and a student of the builtin judge's scores."""
    from refladder.commands.main import run  # noqa: PLC0415

    folder = tmp_path_factory.mktemp("students")
    source, labelled, student = folder / "in.jsonl", folder / "scored.jsonl", folder / "student"
    source.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows(1200)), "utf-8")
    assert run(["export", "demo/story", "--out", str(folder / "outputs.jsonl")]) == 0
    assert run(["score", str(folder / "outputs.jsonl"), *LADDERS, "--out", str(labelled)]) == 0
    assert run(["distil", str(labelled), "--by", COLUMN, "--out", str(student)]) == 0
    return source, student


def test_a_student_scores_shards(command, fails, made, tmp_path):
    source, student = made
    judge = ("--judge", f"distilled:{student}", "--ladders", "demo/story")
    whole, out = tmp_path / "whole.jsonl", tmp_path / "out"
    counts = json.loads(command("score", source, *judge, "--out", whole, "--json").out)
    assert counts["rows"] == 1200  # more than a student reads at a time
    done = command("score", source, *judge, "--out", out, *SHARDS)
    assert done.code == 0
    assert done.err.endswith("6 shards: 1,200 rows = 1,200 scored + 0 unscored\n")
    rows, expected = (list(map(json.loads, data.splitlines())) for data in (scored(out), whole.read_bytes()))
    for row, other in zip(rows, expected, strict=True):
        assert row.pop(COLUMN) == pytest.approx(other.pop(COLUMN), abs=1e-12)
        assert row == other
    assert not (out / ".refladder" / "judgments").exists()
    assert "--escape-formulas does not work with shards" in fails(
        2, "score", source, *judge, "--out", out, *SHARDS, "--escape-formulas"
    )
    assert "asks no model, and --rule is for asking one" in fails(
        2, "score", source, *judge, "--out", out, *SHARDS, "--rule", "hard-votes"
    )


def test_a_cascade_in_shards_has_the_rows_and_counts_of_one_process(command, made, tmp_path):
    source, student = made
    band = ("--between", "-10", "-9.5")
    first = (*LADDERS, "--cascade", f"distilled:{student}", *band, "--check-share", "0.3")
    whole, out = tmp_path / "whole.jsonl", tmp_path / "out"
    alone = json.loads(command("score", source, *first, "--out", whole, "--json").out)
    done = command("score", source, *first, "--out", out, *SHARDS, "--json")
    together = json.loads(done.out)
    assert done.code == 0
    assert scored(out) == whole.read_bytes()
    assert together["shards"]["scored"] == 1200  # a row that the student decided is scored
    assert together["first_pass"] == alone["first_pass"]
    assert alone["first_pass"]["checked"] > 0
    assert alone["first_pass"]["changed_somewhere"] > 0
    for name in ("rows", "judgments", "unscored", "signature"):
        assert together[name] == alone[name]
    least = ("--min", f"{CASCADE}=1")
    assert command("filter", out, *least).out == command("filter", whole, *least).out


def test_another_student_is_another_run(command, fails, made, tmp_path):
    source, student = made
    out = tmp_path / "out"
    first = ("score", source, *LADDERS, "--cascade", f"distilled:{student}", "--out", out, *SHARDS)
    assert command(*first, *BETWEEN).code == 0
    assert f"{out}: holds shards of another run (other between)" in fails(2, *first, "--between", "-1", "4")
    other = tmp_path / "student"
    other.mkdir()
    for path in student.iterdir():
        (other / path.name).write_bytes(path.read_bytes())
    second = ("score", source, *LADDERS, "--cascade", f"distilled:{other}", *BETWEEN, "--out", out, *SHARDS)
    assert command(*second).code == 0  # the same student in another folder
    record = json.loads((other / "student.json").read_text())
    (other / "student.json").write_text(json.dumps({**record, "half_width": 1.0}))
    text = fails(2, *second)
    assert "holds shards of another run (other student)" in text


def test_a_student_of_other_scores_stops_the_run_at_its_first_shard(fails, made, tmp_path):
    source, student = made
    first = ("--cascade", f"distilled:{student}", *BETWEEN, "--both-orders")
    text = fails(2, "score", source, *LADDERS, *first, "--out", tmp_path / "out", *SHARDS)
    assert "the student learned from scores with another signature: orders:2 here" in text
    assert not list((tmp_path / "out").glob("*.jsonl"))


def test_shards_get_the_expected_rating_of_a_human_scale(command, made, tmp_path):
    source, _ = made
    labelled, scale = tmp_path / "labelled.jsonl", tmp_path / "scale.json"
    command("export", "demo/story", "--out", tmp_path / "outputs.jsonl")
    command("score", tmp_path / "outputs.jsonl", *LADDERS, "--out", labelled)
    made_scale = command(
        *("calibrate", labelled, "--label", "coherence", "--by", COLUMN, "--human-scale", "--out", scale)
    )
    assert made_scale.code == 0, made_scale.err
    whole, out = tmp_path / "whole.jsonl", tmp_path / "out"
    assert command("score", source, *LADDERS, "--calibration", scale, "--out", whole).code == 0
    assert command("score", source, *LADDERS, "--calibration", scale, "--out", out, *SHARDS).code == 0
    assert scored(out) == whole.read_bytes()
    assert b'"coherence_expected":' in whole.read_bytes()


def test_counts_of_a_first_pass_add_up_over_shards():
    together, *parts = (
        FirstPass(low=1.0, high=3.0, threshold=2.0, in_band=in_band, decided=decided)
        for in_band, decided in ((12, 14), (5, 6), (7, 8))
    )
    for row in range(14):  # context 3 is in both shards
        for counts in (together, parts[row >= 6]):
            counts.count_check(f"context-{row // 2}", changed=row % 5 == 0)
    total = merged([ScoreReport(rows=14, first_pass=part) for part in parts]).first_pass
    assert total == together
    assert (total.checked, total.changed) == (14, 3)
    changed, checked = [1, 0, 1, 0, 0, 1, 0], [2] * 7  # rows 0, 5 and 10 of contexts 0, 2 and 5
    assert total.interval == tuple(share_intervals(np.array(changed, float), np.array(checked, float)).tolist())
    assert merged([ScoreReport()]).first_pass is None
