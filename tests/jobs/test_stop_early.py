"""`score --stop-at`: the same rows pass as after the whole ladder, with fewer calls, also when it is interrupted."""

from __future__ import annotations

import hashlib
import itertools
import json
import math

import pytest

from refladder.backends.builtin import Builtin
from refladder.files.jsonl import to_line
from refladder.records import Completion, LabelReading, Threshold

SILENT = LabelReading(logprobs=None, mass=None, reason="no answer")
LABELS = ("Better", "Worse", "Similar")
LADDERS = ("--ladders", "demo/story")
ONE = ("--stop-at", "coherence_score=3", "--dimension", "coherence")
SETTINGS = [
    ONE,
    (*ONE, "--both-orders"),
    (*ONE, "--yes-no", "--rule", "hard-votes"),
    ("--stop-at", "coherence_score=-2", "--stop-at", "complexity_grade=2.5"),
    ("--stop-at", "overall_score=0.5", "--weight", "complexity=3"),
]


@pytest.fixture
def outputs(command, tmp_path):
    path = tmp_path / "outputs.jsonl"
    assert command("export", "demo/story", "--out", path).code == 0
    return path


def passing(command, path, options):
    limits = [option for option in options if "=" in option and not option.startswith("complexity=")]
    done = command("filter", path, *(part for limit in limits for part in ("--min", limit)), "--unscored", "keep")
    assert done.code == 0, done.err
    return [row["output_id"] for row in done.rows]


@pytest.mark.parametrize("options", SETTINGS)
def test_the_same_rows_pass(command, outputs, tmp_path, options):
    whole, stopped = tmp_path / "whole.jsonl", tmp_path / "stopped.jsonl"
    of_whole = [option for option in options if option != "--stop-at" and "_" not in option]
    all_calls = json.loads(command("score", outputs, *LADDERS, "--out", whole, *of_whole, "--json").out)["spent"][0]
    dry = command("score", outputs, *LADDERS, "--out", stopped, *options, "--dry-run", "--json")
    predicted = json.loads(dry.out)["backends"][0]
    done = command("score", outputs, *LADDERS, "--out", stopped, *options, "--json")
    assert done.code == 0, done.err
    report = json.loads(done.out)
    calls = report["spent"][0]["calls"]
    # The first run alone asks for the check of the judge: 12 ladders of a dimension in both orders.
    all_calls["calls"] -= 24 * (1 if "--dimension" in of_whole else 2) * (3 if "--yes-no" in of_whole else 1)
    assert predicted["least_calls"] <= calls <= predicted["calls"] == all_calls["calls"]
    assert report["saved_calls"] == all_calls["calls"] - calls > 0
    assert report["unscored"] == {}
    assert report["reasons"] == {}
    assert report["stopped"] > 0
    names = passing(command, stopped, options)
    assert names == passing(command, whole, options)
    assert 0 < len(names) < 72

    rows = [json.loads(line) for line in stopped.read_text().splitlines()]
    full = [json.loads(line) for line in whole.read_text().splitlines()]
    for row, other in zip(rows, full, strict=True):
        for column in (limit.partition("=")[0] for limit in options if "_" in limit):
            assert row[f"{column}_least"] <= other[column] <= row[f"{column}_most"]
            if row[column] is not None:
                assert row[column] == other[column] == row[f"{column}_least"] == row[f"{column}_most"]
        assert row["signature"] == other["signature"]
        if row["coherence_score"] is None:
            assert row["coherence_note"].startswith("stopped after ")
            assert row["coherence_grade"] is row["coherence_spread"] is None


@pytest.mark.parametrize("lines", [1, 2, 40, 41, 42, 43, 44, 150])
def test_a_run_that_was_cut_off_goes_on_to_the_same_bytes(command, outputs, tmp_path, lines):
    one_go, again = tmp_path / "one.jsonl", tmp_path / "again.jsonl"
    assert command("score", outputs, *LADDERS, *ONE, "--out", one_go).code == 0
    judged = (tmp_path / "one.jsonl.judgments.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "again.jsonl.judgments.jsonl").write_bytes(b"".join(judged[:lines]) + b'{"schema":"judgm')
    predicted = json.loads(command("score", outputs, *LADDERS, *ONE, "--out", again, "--dry-run", "--json").out)
    assert predicted["kept_judgments"] == lines - 1
    done = command("score", outputs, *LADDERS, *ONE, "--out", again, "--json")
    assert json.loads(done.out)["reused"] == lines - 1
    assert again.read_bytes() == one_go.read_bytes()
    done = command("score", outputs, *LADDERS, *ONE, "--out", again, "--json")
    report = json.loads(done.out)
    assert report["spent"][0]["calls"] == 0
    assert report["reused"] == report["judgments"]


def test_an_unparsed_judgment_is_a_missing_score_and_stops_the_row(command, outputs, tmp_path, monkeypatch):
    monkeypatch.setattr(Builtin, "read_labels", lambda _self, prompts, _labels: [SILENT] * len(prompts))
    out = tmp_path / "o.jsonl"
    done = command("score", outputs, *LADDERS, *ONE, "--out", out, "--json")
    assert done.code == 3, done.err
    report = json.loads(done.out)
    assert (report["judgments"], report["unreadable"], report["unscored"]) == (72, 72, {"coherence": 72})
    row = json.loads(out.read_text().splitlines()[0])
    assert row["coherence_note"].startswith("1 of 1 judgment unparsed: no answer")
    assert row["coherence_score_least"] is row["coherence_score_most"] is None


def test_refusals(command, fails, outputs, tmp_path):
    out = tmp_path / "o.jsonl"
    assert "so no row reaches it" in fails(2, "score", outputs, *LADDERS, "--stop-at", "coherence_score=99",
                                           "--dimension", "coherence")  # fmt: skip
    assert "no threshold depends on dimension 'complexity'" in fails(2, "score", outputs, *LADDERS, *ONE[:2])
    assert "--calibration and similar options need a SOURCE" in fails(
        2, "score", "--text", "A day.", "--context-id", "story-01", *LADDERS, *ONE
    )
    assert command("score", outputs, *LADDERS, *ONE, "--out", out).code == 0
    judgments = tmp_path / "o.jsonl.judgments.jsonl"
    text = fails(2, "score", outputs, *LADDERS, "--dimension", "coherence", "--out", out)
    assert "stopped at coherence_score>=3.0 (ladder-sum, least mass 0.05), this run at no threshold" in text
    text = fails(2, "score", outputs, *LADDERS, *ONE, "--rule", "hard-votes", "--out", out)
    assert "this run at coherence_score>=3.0 (hard-votes, least mass 0.05)" in text
    assert "only the rungs that decide coherence_score>=3.0" in fails(
        2, "rescore", judgments, "--out", tmp_path / "r.jsonl"
    )
    text = fails(2, "filter", out, "--min", "coherence_score=2", "--out", tmp_path / "f.jsonl")
    assert "o.jsonl:1: coherence_score is only known to lie between" in text
    assert "score again with --stop-at coherence_score=2, or without it" in text
    lines = outputs.read_text().splitlines(keepends=True)
    outputs.write_text("".join(lines[:-1]))
    assert "the input has become shorter" in fails(2, "score", outputs, *LADDERS, *ONE, "--out", out)
    outputs.write_text("".join(lines[1:]))
    assert "the input has changed" in fails(2, "score", outputs, *LADDERS, *ONE, "--out", out)


def test_rows_with_bounds_have_no_rank(command, outputs, tmp_path):
    out = tmp_path / "o.jsonl"
    assert command("score", outputs, *LADDERS, *ONE, "--out", out).code == 0
    whole = sum(json.loads(line)["coherence_score"] is not None for line in out.read_text().splitlines())
    done = command("filter", out, "--top", "1", "--by", "coherence_score", "--json")
    assert json.loads(done.err)["unscored"] == 72 - whole


def test_csv_keeps_bounds_exactly(command, outputs, tmp_path):
    out, table = tmp_path / "o.jsonl", tmp_path / "o.csv"
    assert command("score", outputs, *LADDERS, *ONE, "--out", out).code == 0
    assert command("score", outputs, *LADDERS, *ONE, "--out", table).code == 0
    limit = ("--min", "coherence_score=3")
    passed = len(command("filter", out, *limit).rows)
    assert json.loads(command("filter", table, *limit, "--json").err)["passed"] == passed


def test_a_threshold_file_stops_as_its_numbers_do(command, fails, outputs, tmp_path):
    whole, stopped, path = tmp_path / "whole.jsonl", tmp_path / "stopped.jsonl", tmp_path / "threshold.json"
    dimension = ("--dimension", "coherence")
    assert command("score", outputs, *LADDERS, *dimension, "--out", whole).code == 0
    signature = json.loads(whole.read_text().splitlines()[0])["signature"]

    def threshold(**changed):
        values = {"columns": ("coherence_score",), "cutoffs": (3.0,), "precision": 0.9, "recall": None, "sure": 0.9,
                  "per": None, "signature": signature, "label": ("grade",), "good": (">=4",), "labels": 30,
                  "labels_above": 25, "bad_above": 0, "rows": 72, "kept": 10, "used": (), "version": "1"}  # fmt: skip
        path.write_bytes(to_line(Threshold(**values | changed)))

    threshold()
    arguments = ("score", outputs, *LADDERS, *dimension, "--threshold", path, "--out", stopped)
    assert "stopped early: " in command(*arguments).err
    kept = [command("filter", table, "--threshold", path).rows for table in (whole, stopped)]
    assert [row["output_id"] for row in kept[0]] == [row["output_id"] for row in kept[1]]
    assert 0 < len(kept[0]) < 72
    assert "another signature: orders:2 here, orders:1 in" in fails(2, *arguments, "--both-orders")
    assert "give one of them" in fails(2, *arguments, "--stop-at", "coherence_score=3")
    threshold(per="context_id")
    assert "keeps the best row of each context_id, and rows that stop early have no rank" in fails(2, *arguments)
    threshold(cutoffs=None)
    assert "no cut-off could be promised" in fails(2, *arguments)


def test_sampled_answers_decide_as_on_the_whole_ladder(command, outputs, tmp_path, monkeypatch):
    """The judge draws the same answers to a prompt in both runs, so the decisions are the same."""

    def write(self, prompts, sampling):
        readings = self.read_labels(prompts, LABELS)
        texts = [f"{sampling.seed} {prompt.text}".encode() for prompt in prompts]
        draws = [int.from_bytes(hashlib.blake2b(text, digest_size=6).digest()) / 2**48 for text in texts]
        ends = [list(itertools.accumulate(map(math.exp, reading.logprobs))) for reading in readings]
        return [
            Completion(text=LABELS[sum(end <= draw for end in of_prompt[:-1])])
            for of_prompt, draw in zip(ends, draws, strict=True)
        ]

    monkeypatch.setattr(Builtin, "write", write)
    whole, stopped = tmp_path / "whole.jsonl", tmp_path / "stopped.jsonl"
    sampled = ("--answers", "3", "--dimension", "coherence")
    sentence = "sampled answers: each decision is that of the whole ladder with the same answers"
    done = command("score", outputs, *LADDERS, *sampled, "--out", whole)
    assert (done.code, sentence in done.err) == (0, False), done.err
    done = command("score", outputs, *LADDERS, *sampled, *ONE[:2], "--out", stopped)
    assert (done.code, sentence in done.err) == (0, True), done.err
    names = passing(command, stopped, ONE)
    assert names == passing(command, whole, ONE)
    assert 0 < len(names) < 72
    stopped_rows = [json.loads(line) for line in stopped.read_text().splitlines()]
    assert sum(row["coherence_score"] is None for row in stopped_rows) > 10
