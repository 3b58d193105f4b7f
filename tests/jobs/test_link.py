"""`link` maps scores of one judge to the scale of another; `filter` and `show` take the file."""

from __future__ import annotations

import json

import numpy as np
import pytest

from refladder.backends.builtin import Builtin
from refladder.records import LabelReading

READ = Builtin.read_labels
ONE = ("--ladders", "demo/story", "--dimension", "coherence")


class Milder(Builtin):
    """The built-in judge with half of its log-probabilities and a preference for the rung."""

    @property
    def fingerprint(self):
        return "milder/1"

    def read_labels(self, prompts, labels):
        worse = [label.lower() for label in labels].index("worse")
        bias = np.eye(3)[worse] * 0.5
        return [
            LabelReading(logprobs=tuple((np.array(reading.logprobs) / 2 + bias).tolist()), mass=reading.mass)
            for reading in READ(self, prompts, labels)
        ]


@pytest.fixture
def judged(command, tmp_path, monkeypatch):
    """Two scored tables of the same outputs, by two judges, with their judgments."""
    outputs = tmp_path / "outputs.jsonl"
    assert command("export", "demo/story", "--out", outputs).code == 0
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    assert command("score", outputs, *ONE, "--out", first).code == 0
    monkeypatch.setattr("refladder.backends.builtin.Builtin", Milder)
    done = command("score", outputs, *ONE, "--out", second)
    assert done.code == 0, done.err
    return first, second


def judgments(path):
    return path.with_name(f"{path.name}.judgments.jsonl")


def scores(path):
    return np.array([json.loads(line)["coherence_score"] for line in path.read_text().splitlines()])


def test_a_linked_threshold_passes_about_the_same_rows(command, fails, judged, tmp_path):
    first, second = judged
    link = tmp_path / "link.json"
    done = command("link", "--from", judgments(second), "--to", judgments(first), "--out", link, "--json")
    assert done.code == 0, done.err
    record = json.loads(done.out)
    column = record["columns"][0]
    assert [entry["column"] for entry in record["columns"]] == ["coherence_score", "coherence_grade"]
    assert (column["rows"], column["contexts"]) == (72, 12)
    assert column["slope"] == pytest.approx(2.0, rel=0.15)  # the first judge's log-odds are twice those of the second
    assert column["error"] < 0.35 * column["identity_error"]
    before, after = scores(second), scores(first)
    mapped = np.interp(before, column["scores"], column["values"])
    assert np.mean(np.abs(mapped - after)) < 0.35 * np.mean(np.abs(before - after))

    limit = ("--min", "coherence_score=0", "--json")
    done = command("filter", second, *limit, "--link", link, "--out", tmp_path / "kept.jsonl")
    report = json.loads(done.out)
    assert report["passed"] == int(np.sum(mapped >= 0))
    assert 0 < report["uncertain"] < 30
    assert abs(report["passed"] - int(np.sum(after >= 0))) < abs(int(np.sum(before >= 0)) - int(np.sum(after >= 0)))
    assert "would be decided otherwise" in command("filter", second, *limit[:2], "--link", link).err
    # scores that are on the target scale already stay as they are
    done = command("filter", first, *limit, "--link", link, "--out", tmp_path / "kept.jsonl")
    assert (json.loads(done.out)["passed"], json.loads(done.out)["uncertain"]) == (int(np.sum(after >= 0)), 0)

    shown = command("show", "demo/story", "story-01", "--scores", second, "--link", link, "--dimension", "coherence",
                    "--json")  # fmt: skip
    placed = {entry["id"]: entry["score"] for entry in shown.rows[0]["outputs"]}
    assert placed["story-01/aster"] == pytest.approx(mapped[0])

    assert "has no column 'coherence_spread'" in fails(
        2, "filter", second, "--min", "coherence_spread=1", "--link", link, "--out", tmp_path / "x.jsonl"
    )
    assert "leave out --mix" in fails(2, "filter", second, *limit[:2], "--link", link, "--mix")
    line = json.loads(second.read_text().splitlines()[0])
    second.write_text(json.dumps({**line, "signature": "other"}) + "\n")
    text = fails(2, "filter", second, *limit[:2], "--link", link, "--out", tmp_path / "x.jsonl")
    assert "and this row has other; link its judgments with `refladder link`" in text


def test_refusals(fails, judged, tmp_path):
    first, second = map(judgments, judged)
    out = ("--out", tmp_path / "link.json")
    both = ("--from", first, "--to", second)
    assert "rule 'hard-votes' cannot be linked" in fails(2, "link", *both, *out, "--rule", "hard-votes")
    assert "have the same signature" in fails(2, "link", "--from", first, "--to", first, *out)
    lines = second.read_text().splitlines(keepends=True)
    second.write_text("".join(lines[: 1 + 5 * 12]))
    text = fails(2, "link", *both, *out)
    assert "12 rows of 2 contexts have a whole ladder of coherence under both judges with the same texts" in text
    assert "at least 20 rows of 8 contexts are needed" in text
    second.write_text(lines[0] + "".join(line.replace('"key":"', '"key":"0') for line in lines[1:]))
    assert "0 rows of 0 contexts have a whole ladder" in fails(2, "link", *both, *out)
    first.write_text("{}\n")
    assert f"{first}:1: expected a line with" in fails(2, "link", *both, *out)
    assert not (tmp_path / "link.json").exists()
