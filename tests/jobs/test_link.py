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
        readings = []
        for reading in READ(self, prompts, labels):
            values = np.array(reading.logprobs) / 2 + bias
            values -= np.logaddexp.reduce(values)
            readings.append(LabelReading(logprobs=tuple(values.tolist()), mass=reading.mass))
        return readings


class Hard(Milder):
    """The milder judge, which names the most probable label and gives no probabilities."""

    @property
    def fingerprint(self):
        return "hard/1"

    def read_labels(self, prompts, labels):
        return [
            LabelReading(
                logprobs=tuple(
                    0.0 if each == max(reading.logprobs) else -60.0 for each in reading.logprobs
                ),
                mass=1.0,
            )
            for reading in super().read_labels(prompts, labels)
        ]


@pytest.fixture
def judged(command, tmp_path, monkeypatch):
    """Two scored tables of the same outputs, by two judges, with their judgments."""
    outputs = tmp_path / "outputs.jsonl"
    assert command("export", "demo/story", "--out", outputs).code == 0
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    assert command("score", outputs, *ONE, "--out", first).code == 0
    monkeypatch.setattr("refladder.backends.builtin.backend.Builtin", Milder)
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
    done = command(
        "link", "--from", judgments(second), "--to", judgments(first), "--out", link, "--json"
    )
    assert done.code == 0, done.err
    record = json.loads(done.out)
    column = record["columns"][0]
    assert [entry["column"] for entry in record["columns"]] == [
        "coherence_score",
        "coherence_grade",
    ]
    assert (column["rows"], column["contexts"]) == (72, 12)
    assert column["slope"] == pytest.approx(
        2.0, rel=0.15
    )  # the first judge's log-odds are twice those of the second
    assert column["error"] < 0.35 * column["identity_error"]
    before, after = scores(second), scores(first)
    mapped = np.interp(before, column["scores"], column["values"])
    assert np.mean(np.abs(mapped - after)) < 0.35 * np.mean(np.abs(before - after))

    limit = ("--min", "coherence_score=0", "--json")
    done = command("filter", second, *limit, "--link", link, "--out", tmp_path / "kept.jsonl")
    report = json.loads(done.out)
    assert report["passed"] == int(np.sum(mapped >= 0))
    assert 0 < report["uncertain"] < 30
    assert abs(report["passed"] - int(np.sum(after >= 0))) < abs(
        int(np.sum(before >= 0)) - int(np.sum(after >= 0))
    )
    assert "another decision at an end" in command("filter", second, *limit[:2], "--link", link).err
    # scores that are on the target scale already stay as they are
    done = command("filter", first, *limit, "--link", link, "--out", tmp_path / "kept.jsonl")
    assert (json.loads(done.out)["passed"], json.loads(done.out)["uncertain"]) == (
        int(np.sum(after >= 0)),
        0,
    )

    shown = command("show", "demo/story", "story-01", "--scores", second, "--link", link, "--dimension", "coherence",
                    "--json")  # fmt: skip
    placed = {entry["id"]: entry["score"] for entry in shown.rows[0]["outputs"]}
    assert placed["story-01/aster"] == pytest.approx(mapped[0])

    assert "has no column 'coherence_spread'" in fails(
        2,
        "filter",
        second,
        "--min",
        "coherence_spread=1",
        "--link",
        link,
        "--out",
        tmp_path / "x.jsonl",
    )
    assert "leave out --mix" in fails(2, "filter", second, *limit[:2], "--link", link, "--mix")
    line = json.loads(second.read_text().splitlines()[0])
    second.write_text(json.dumps({**line, "signature": "other"}) + "\n")
    text = fails(2, "filter", second, *limit[:2], "--link", link, "--out", tmp_path / "x.jsonl")
    assert "and this row has other; link its judgments with `refladder link`" in text


def test_hard_verdicts_are_linked_by_the_map_with_the_least_error(
    command, judged, tmp_path, monkeypatch
):
    first, _ = judged
    monkeypatch.setattr("refladder.backends.builtin.backend.Builtin", Hard)
    hard, link = tmp_path / "hard.jsonl", tmp_path / "link.json"
    assert command("score", tmp_path / "outputs.jsonl", *ONE, "--out", hard).code == 0
    done = command("link", "--from", judgments(hard), "--to", judgments(first), "--out", link)
    assert "map" in done.out
    assert "equipercentile" in done.out
    column = json.loads(link.read_text())["columns"][0]
    assert column["map"] == "equipercentile"
    errors = [column[f"{name}_error"] for name in ("equipercentile", "line", "identity")]
    assert column["error"] == errors[0] == min(errors)
    mapped = np.interp(scores(hard), column["scores"], column["values"])
    assert np.mean(np.abs(mapped - scores(first))) < 0.9 * np.mean(
        np.abs(scores(hard) - scores(first))
    )
    assert set(scores(hard)) <= {
        round(score, 9) for score in column["scores"]
    }  # each has a knot of its own


def test_scores_that_no_map_improves_stay_as_they_are(command, judged, tmp_path, monkeypatch):
    first, _ = judged
    monkeypatch.setattr(
        "refladder.backends.builtin.backend.Builtin",
        type("Same", (Builtin,), {"fingerprint": "same/1"}),
    )
    same, link = tmp_path / "same.jsonl", tmp_path / "link.json"
    assert command("score", tmp_path / "outputs.jsonl", *ONE, "--out", same).code == 0
    done = command("link", "--from", judgments(same), "--to", judgments(first), "--out", link)
    assert (
        "Left as they are, since no map did better on held-out contexts: coherence_score, coherence_grade."
        in done.err
    )
    column = json.loads(link.read_text())["columns"][0]
    assert (column["map"], column["error"], column["values"]) == ("identity", 0.0, column["scores"])


def test_refusals(fails, judged, tmp_path):
    first, second = map(judgments, judged)
    out = ("--out", tmp_path / "link.json")
    both = ("--from", first, "--to", second)
    assert "rule 'hard-votes' cannot be linked" in fails(
        2, "link", *both, *out, "--rule", "hard-votes"
    )
    assert "have the same signature" in fails(2, "link", "--from", first, "--to", first, *out)
    lines = second.read_text().splitlines(keepends=True)
    second.write_text("".join(lines[: 1 + 5 * 12]))
    text = fails(2, "link", *both, *out)
    assert (
        "12 rows of 2 contexts have a whole ladder of coherence under both judges with the same texts"
        in text
    )
    assert "at least 20 rows of 8 contexts are needed" in text
    second.write_text(lines[0] + "".join(line.replace('"key":"', '"key":"0') for line in lines[1:]))
    assert "0 rows of 0 contexts have a whole ladder" in fails(2, "link", *both, *out)
    lines = first.read_text().splitlines(keepends=True)
    for wrong in ("rung:9", "rung:x", "rung:0"):
        first.write_text(lines[0] + lines[1].replace("rung:1", wrong))
        assert (
            f"{first}:2: {wrong!r} is not a rung from 1 to 5; delete the file, and score again"
            in fails(2, "link", *both, *out)
        )
    first.write_text("{}\n")
    assert f"{first}:1: expected a line with" in fails(2, "link", *both, *out)
    assert not (tmp_path / "link.json").exists()


def test_the_link_is_not_written_over_a_judgments_file(fails, judged):
    first, second = map(judgments, judged)
    before = first.read_bytes(), second.read_bytes()
    for out, name in ((first, "--from"), (second, "--to")):
        text = fails(2, "link", "--from", first, "--to", second, "--out", out)
        assert f"{name} and --out must be different files" in text
    assert (first.read_bytes(), second.read_bytes()) == before


@pytest.mark.parametrize("changed", [
    {"values": [1.0]}, {"scores": [], "values": [], "least": [], "most": []}, {"scores": [2.0, 1.0], "values": [0, 0],
     "least": [0, 0], "most": [0, 0]},
])  # fmt: skip
def test_a_damaged_link(command, fails, judged, tmp_path, changed):
    first, second = judged
    link = tmp_path / "link.json"
    assert (
        command("link", "--from", judgments(second), "--to", judgments(first), "--out", link).code
        == 0
    )
    record = json.loads(link.read_text())
    record["columns"][0].update(changed)
    link.write_text(json.dumps(record))
    words = "link/2 field 'columns.0': it needs scores in rising order, and as many other numbers at these knots"
    limit = ("--min", "coherence_score=0", "--out", tmp_path / "kept.jsonl")
    assert f"{link}: {words}" in fails(2, "filter", second, *limit, "--link", link)
    show = ("show", "demo/story", "story-01", "--dimension", "coherence", "--scores", second)
    assert words in fails(2, *show, "--link", link)
    link.write_text("")
    assert f'{link}: empty; expected one record with "schema": "link/2"' in fails(
        2, "filter", second, *limit, "--link", link
    )


def test_linked_scores_of_a_file_compare_with_those_of_the_other_judge(
    command, fails, judged, tmp_path
):
    first, second = judged
    link, out = tmp_path / "link.json", tmp_path / "linked.jsonl"
    assert (
        command("link", "--from", judgments(second), "--to", judgments(first), "--out", link).code
        == 0
    )
    done = command("rescore", judgments(second), "--link", link, "--out", out)
    assert done.code == 0, done.err
    column = json.loads(link.read_text())["columns"][0]
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    linked, low, high = (
        np.array([row[f"coherence_score_linked{end}"] for row in rows])
        for end in ("", "_low", "_high")
    )
    assert linked == pytest.approx(np.interp(scores(second), column["scores"], column["values"]))
    assert low == pytest.approx(np.maximum(linked - column["half_width"], -15))
    assert high == pytest.approx(np.minimum(linked + column["half_width"], 15))
    assert np.mean((low <= scores(first)) & (scores(first) <= high)) > 0.9
    assert [row["coherence_score"] for row in rows] == scores(second).tolist()
    assert rows[0]["signature"] == json.loads(second.read_text().splitlines()[0])["signature"]
    compared = command("evaluate", "demo/story", "--scores", out, "--dimension", "coherence",
                       "--score-column", "coherence=coherence_score_linked")  # fmt: skip
    assert compared.code == 0, compared.err

    assert f"these scores are on the scale of the link {link} already" in fails(
        2, "rescore", judgments(first), "--link", link
    )
    text = fails(
        2,
        "rescore",
        judgments(second),
        "--link",
        link,
        "--rule",
        "hard-votes",
        "--out",
        tmp_path / "x.jsonl",
    )
    assert "rule:hard-votes" in text
    assert "link its judgments with `refladder link`" in text
    assert not (tmp_path / "x.jsonl").exists()
    assert "--link and --out must be different files" in fails(
        2, "rescore", judgments(second), "--link", link, "--out", link
    )
    text = link.read_text().replace('"column":"coherence_', '"column":"other_')
    link.write_text(text)
    assert "has the columns other_score, other_grade, and these scores have none of them" in fails(
        2, "rescore", judgments(second), "--link", link
    )
