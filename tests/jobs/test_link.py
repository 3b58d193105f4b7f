"""`link` maps scores of one judge to the scale of another; `filter` and `show` take the file."""

from __future__ import annotations

import json
import re
import shutil

import numpy as np
import pytest
from json_lines import read_lines

from refladder.backends.builtin import Builtin
from refladder.commands.main import run
from refladder.records import LabelReading

READ = Builtin.read_labels
ONE = "--ladders demo/story --dimension coherence"
ZERO = "--min coherence_score=0"


class Milder(Builtin):
    """The built-in judge with half of its log-probabilities and a preference for the rung."""

    fingerprint = "milder/1"

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

    fingerprint = "hard/1"

    def read_labels(self, prompts, labels):
        return [
            LabelReading(logprobs=tuple(0.0 if each == max(read.logprobs) else -60.0 for each in read.logprobs), mass=1.0)
            for read in super().read_labels(prompts, labels)
        ]  # fmt: skip


class Same(Builtin):
    """The built-in judge under another name."""

    fingerprint = "same/1"


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """Scored tables of the same outputs, by four judges, with their judgments, and links of three to the first."""
    folder = tmp_path_factory.mktemp("judged")
    assert run(["export", "demo/story", "--out", f"{folder}/outputs.jsonl"]) == 0
    with pytest.MonkeyPatch.context() as patch:
        for name, judge in {"first": Builtin, "second": Milder, "hard": Hard, "same": Same}.items():
            patch.setattr("refladder.backends.builtin.backend.Builtin", judge)
            line = f"score {folder}/outputs.jsonl {ONE} --out {folder}/{name}.jsonl"
            assert run(line.split()) == 0
    return folder


@pytest.fixture
def judged(tables, tmp_path):
    """The tables of the first and the second judge, to change."""
    folder = shutil.copytree(tables, tmp_path / "judged")
    return folder / "first.jsonl", folder / "second.jsonl"


@pytest.fixture
def link(command, judged, tmp_path):
    """The file of a link to the first judge."""

    def go(name="second"):
        first, out = judged[0], tmp_path / "link.json"
        source = first.with_name(f"{name}.jsonl")
        done = command(f"link --from {judgments(source)} --to {judgments(first)} --out {out}")
        assert done.code == 0, done.err
        return done, out, json.loads(out.read_text())["columns"][0]

    return go


def judgments(path):
    return path.with_name(f"{path.name}.judgments.jsonl")


def scores(path):
    return np.array([row["coherence_score"] for row in read_lines(path)])


def test_a_linked_threshold_passes_about_the_same_rows(command, fails, judged, link, tmp_path):
    first, second = judged
    _, file, column = link()
    names = [entry["column"] for entry in json.loads(file.read_text())["columns"]]
    assert names == ["coherence_score", "coherence_grade"]
    assert (column["rows"], column["contexts"]) == (72, 12)
    # the first judge's log-odds are twice those of the second
    assert column["slope"] == pytest.approx(2.0, rel=0.15)
    assert column["error"] < 0.35 * column["identity_error"]
    before, after = scores(second), scores(first)
    mapped = np.interp(before, column["scores"], column["values"])
    assert np.mean(np.abs(mapped - after)) < 0.35 * np.mean(np.abs(before - after))

    kept = f"{ZERO} --link {file} --out {tmp_path}/kept.jsonl --json"
    report = json.loads(command(f"filter {second} {kept}").out)
    passed = [int(np.sum(values >= 0)) for values in (mapped, after, before)]
    assert report["passed"] == passed[0]
    assert 0 < report["uncertain"] < 30
    assert abs(passed[0] - passed[1]) < abs(passed[2] - passed[1])
    done = command(f"filter {second} {ZERO} --link {file}")
    assert "another decision at an end" in done.err
    # scores that are on the target scale already stay as they are
    report = json.loads(command(f"filter {first} {kept}").out)
    assert (report["passed"], report["uncertain"]) == (passed[1], 0)

    show = f"show demo/story story-01 --scores {second} --link {file} --dimension coherence --json"
    placed = {entry["id"]: entry["score"] for entry in command(show).rows[0]["outputs"]}
    assert placed["story-01/aster"] == pytest.approx(mapped[0])

    out = f"--link {file} --out {tmp_path}/x.jsonl"
    text = fails(2, f"filter {second} --min coherence_spread=1 {out}")
    assert "has no column 'coherence_spread'" in text
    assert "leave out --mix" in fails(2, f"filter {second} {ZERO} --link {file} --mix")
    older = tmp_path / "older.json"
    older.write_text(re.sub(r"\|criteria:[^|]*", "", file.read_text()))
    text = fails(2, f"filter {second} {ZERO} --link {older}")
    assert "an earlier version of refladder made the link " in text
    assert (
        "older.json, and its signatures name no criteria; make it again with `refladder link`"
        in text
    )
    line = json.loads(second.read_text().splitlines()[0])
    second.write_text(json.dumps({**line, "signature": "other"}) + "\n")
    text = fails(2, f"filter {second} {ZERO} {out}")
    assert "and this row has other; link its judgments with `refladder link`" in text


def test_hard_verdicts_are_linked_by_the_map_with_the_least_error(judged, link):
    first, hard = scores(judged[0]), scores(judged[0].with_name("hard.jsonl"))
    done, _, column = link("hard")
    assert "map" in done.out
    assert "equipercentile" in done.out
    assert column["map"] == "equipercentile"
    errors = [column[f"{name}_error"] for name in ("equipercentile", "line", "identity")]
    assert column["error"] == errors[0] == min(errors)
    mapped = np.interp(hard, column["scores"], column["values"])
    assert np.mean(np.abs(mapped - first)) < 0.9 * np.mean(np.abs(hard - first))
    # each has a knot of its own
    assert set(hard) <= {round(score, 9) for score in column["scores"]}


def test_scores_that_no_map_improves_stay_as_they_are(link):
    done, _, column = link("same")
    stay = "Left as they are, since no map did better on held-out contexts: coherence_score, coherence_grade."
    assert stay in done.err
    assert (column["map"], column["error"]) == ("identity", 0.0)
    assert column["values"] == column["scores"]


def test_refusals(fails, judged, tmp_path):
    first, second = map(judgments, judged)
    out = tmp_path / "link.json"
    line = f"link --from {first} --to {second} --out {out}"
    assert "rule 'hard-votes' cannot be linked" in fails(2, f"{line} --rule hard-votes")
    text = fails(2, f"link --from {first} --to {first} --out {out}")
    assert "have the same signature" in text
    lines = second.read_text().splitlines(keepends=True)
    second.write_text("".join(lines[: 1 + 5 * 12]))
    text = fails(2, line)
    few = "12 rows of 2 contexts have a whole ladder of coherence under both judges with the same texts"
    assert few in text
    assert "at least 20 rows of 8 contexts are needed" in text
    second.write_text(lines[0] + "".join(line.replace('"key":"', '"key":"0') for line in lines[1:]))
    assert "0 rows of 0 contexts have a whole ladder" in fails(2, line)
    lines = first.read_text().splitlines(keepends=True)
    for wrong in ("rung:9", "rung:x", "rung:0"):
        first.write_text(lines[0] + lines[1].replace("rung:1", wrong))
        no_rung = f"{wrong!r} is not a rung from 1 to 5; delete the file, and score again"
        assert f"{first}:2: {no_rung}" in fails(2, line)
    first.write_text("{}\n")
    assert f"{first}:1: expected a line with" in fails(2, line)
    assert not out.exists()


def test_a_damaged_link(fails, judged, link, tmp_path):
    _, second = judged
    _, file, _ = link()
    reading = f"filter {second} {ZERO} --out {tmp_path}/kept.jsonl --link {file}"
    record = json.loads(file.read_text())
    empty = {key: [] for key in ("scores", "values", "least", "most")}
    falling = {"scores": [2.0, 1.0], "values": [0, 0], "least": [0, 0], "most": [0, 0]}
    words = "link/2 field 'columns.0': it needs scores in rising order, and as many other numbers at these knots"
    for changed in ({"values": [1.0]}, empty, falling):
        columns = [record["columns"][0] | changed, *record["columns"][1:]]
        file.write_text(json.dumps(record | {"columns": columns}))
        assert f"{file}: {words}" in fails(2, reading)
    show = f"show demo/story story-01 --dimension coherence --scores {second} --link {file}"
    assert words in fails(2, show)
    file.write_text("")
    no_link = f'{file}: empty; expected one record with "schema": "link/2"'
    assert no_link in fails(2, reading)


def test_linked_scores_of_a_file_compare_with_those_of_the_other_judge(
    command, fails, judged, link, tmp_path
):
    first, second = judged
    out = tmp_path / "linked.jsonl"
    _, file, column = link()
    line = f"rescore {judgments(second)} --link {file}"
    done = command(f"{line} --out {out}")
    assert done.code == 0, done.err
    rows = read_lines(out)
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
    named = "--dimension coherence --score-column coherence=coherence_score_linked"
    compared = command(f"evaluate demo/story --scores {out} {named}")
    assert compared.code == 0, compared.err

    already = f"these scores are on the scale of the link {file} already"
    assert already in fails(2, f"rescore {judgments(first)} --link {file}")
    text = fails(2, f"{line} --rule hard-votes --out {tmp_path}/x.jsonl")
    assert "rule:hard-votes" in text
    assert "link its judgments with `refladder link`" in text
    assert not (tmp_path / "x.jsonl").exists()
    file.write_text(file.read_text().replace('"column":"coherence_', '"column":"other_'))
    none = "has the columns other_score, other_grade, and these scores have none of them"
    assert none in fails(2, line)


def test_a_row_without_one_of_both_orders_is_left_out(command, tmp_path):
    files = []
    run(["export", "demo/story", "--out", f"{tmp_path}/outputs.jsonl"])
    for judge in (Builtin, Milder):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("refladder.backends.builtin.backend.Builtin", judge)
            out = tmp_path / f"{judge.__name__}.jsonl"
            done = command(f"score {tmp_path}/outputs.jsonl {ONE} --both-orders --out {out}")
            assert done.code == 0, done.err
            files.append(judgments(out))
    # As of a run that was interrupted: the last rung of the last row has one order.
    files[0].write_bytes(b"".join(files[0].read_bytes().splitlines(keepends=True)[:-1]))
    done = command(f"link --from {files[0]} --to {files[1]} --out {tmp_path}/link.json")
    assert done.code == 0, done.err
    assert json.loads((tmp_path / "link.json").read_text())["columns"][0]["rows"] == 71


def test_a_row_at_a_bound_is_not_uncertain(command, judged, link, tmp_path):
    _, file, _ = link("same")
    record = json.loads(file.read_text())
    column = record["columns"][0]
    # A map to itself whose interval reaches down by 1.
    column["values"] = column["most"] = column["scores"]
    column["least"] = [score - 1 for score in column["scores"]]
    file.write_text(json.dumps(record))
    path = judged[0].with_name("same.jsonl")
    bound = float(np.sort(scores(path))[40])
    for option, uncertain in (("min", sum((bound <= scores(path)) & (scores(path) < bound + 1))),
                              ("max", sum((bound < scores(path)) & (scores(path) <= bound + 1)))):  # fmt: skip
        asked = f"--{option} coherence_score={bound!r} --link {file} --out {tmp_path}/k.jsonl"
        done = command(f"filter {path} {asked} --json")
        assert json.loads(done.out)["uncertain"] == uncertain, option
