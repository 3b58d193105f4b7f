"""Grades of one judge in two runs, and of two judges: what is one scale without a word, with a flag, and never."""

from __future__ import annotations

import json
import random
import re

import pytest
from answering import put, requests
from json_lines import read_lines

import refladder
from refladder.errors import DataError

SET = "general/reply"
LEVELS = {
    rung.text: rung.level
    for (_, name), ladder in refladder.load_ladders(SET).ladders.items()
    for rung in ladder.rungs
    if name == "helpfulness"
}
SYSTEMS = {"old": 3.2, "new": 3.25, "worse": 2.0}


def rating_of(prompt, leniency):
    """The rating of the one text in a prompt: 1 to 5."""
    if found := re.search(r"Reply of quality ([\d.]+)", prompt):
        quality = float(found[1])
    else:
        quality = next(level for text, level in LEVELS.items() if text in prompt)
    return min(max(1 + 4 * ((quality - 1) / 4) ** (1 / leniency), 1), 5)


def answered(folder, seed, leniency):
    """An answer to each request: percentages around a rating with noise, another in each job."""
    noise = random.Random(seed)  # noqa: S311
    lines = []
    for request in requests(folder):
        prompt = request["body"]["messages"][-1]["content"]
        rating = min(max(rating_of(prompt, leniency) + noise.uniform(-0.15, 0.15), 1), 5)
        low = min(int(rating), 4)
        shares = {low: 100 * (low + 1 - rating), low + 1: 100 * (rating - low)}
        text = "\n".join(f"{number}: {shares.get(number, 0):.1f}" for number in range(1, 6))
        lines.append({"custom_id": request["custom_id"], "text": text})
    return lines


@pytest.fixture
def job(command, tmp_path, write_jsonl, monkeypatch):
    """Score a system in a job of its own: a home, a folder of answers, noise of its own."""
    jobs, told = [], {}

    def run(system, *, model="judge", leniency=1.0, options=""):
        number = len(jobs)
        jobs.append(system)
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / f"home-{number}"))
        rows = [
            {
                "context_id": f"ticket {ticket}",
                "context": f"Ticket {ticket}: the printer is broken.",
                "output": f"Reply of quality {SYSTEMS[system] + (ticket % 5) / 10:.2f}, {ticket}.",
            }
            for ticket in range(20)
        ]
        folder = tmp_path / f"job-{number}"
        folder.mkdir()
        out = folder / f"{system}.jsonl"
        table = write_jsonl(rows, f"{system}-{number}.jsonl")
        line = (
            f"score {table} --ladders {SET} --dimension helpfulness --answers rating:stated {options} "
            f"--judge openai:{model} --base-url file:{folder}/answers --out {out}"
        )
        for wave in range(4):
            done = command(line)
            if done.code == 0:
                told[out] = done.err
                return out
            assert done.code == 4, done.err
            lines = answered(folder / "answers", number, leniency)
            put(folder / "answers", lines, f"answers-{wave}.jsonl")
        raise AssertionError(done.err)

    run.told = told
    return run


def test_two_jobs_of_one_judge_decide_on_a_release_without_a_flag(job, command):
    old, new, worse = map(job, SYSTEMS)
    first, second = (read_lines(path)[0]["signature"] for path in (old, new))
    # Only the folder of the answers tells the jobs apart, and the readings of the rungs differ.
    assert re.sub(r"file:\w+", "", first) == re.sub(r"file:\w+", "", second) != first
    readings = [
        json.loads((path.parent / f"{path.name}.run.json").read_text())["rung_ratings"]
        for path in (old, new)
    ]
    assert len(readings[0]) == 15
    assert readings[0] != readings[1]
    done = command(f"compare {old} {new} --fail-if-worse new --json")
    assert done.code == 0
    assert done.err.startswith("gate: new is not worse than old: passed\n")
    found = json.loads(done.out)
    assert found["by"] == "helpfulness_grade"
    assert found["gate"]["worse"] is False
    done = command(f"compare {old} {worse} --fail-if-worse worse --json")
    assert done.code == 3
    assert json.loads(done.out)["gate"]["worse"] is True
    assert "worse is significantly worse than old" in done.err
    # The plain rating of the judge is one scale too.
    assert command(f"compare {old} {worse} --by helpfulness_score").code == 0


def test_grades_of_two_judges_are_compared_with_a_flag_and_scores_never(job, command, fails):
    old, other = job("old"), job("new", model="lenient", leniency=2.0)
    compare = f"compare {old} {other}"
    text = fails(2, compare)
    assert f"{other}:1: the scores in column 'helpfulness_grade' are on different scales: " in text
    assert "both judges are on the scale of one ladder set, which --across-judges accepts" in text
    done = command(f"{compare} --across-judges --json")
    assert done.code == 0
    (pair,) = json.loads(done.out)["pairs"]
    # The lenient judge adds .7 to its ratings, and as much to those of the rungs.
    assert abs(pair["difference"]) < 0.25
    (scores,) = refladder.compare([old, other], by="helpfulness_score", mix=True)["pairs"]
    assert scores["difference"] < -0.4
    assert "the grades are by several judges (backend:openai:judge@file:" in done.err
    assert "a part of the decisions changes all the same" in done.err
    assert re.search(
        r"systems were judged by different judges \(old: openai:judge@.*; new: ", done.err
    )
    text = fails(2, f"{compare} --by helpfulness_score --across-judges")
    assert "helpfulness_grade is on the scale of the ladder set with both judges" in text
    # In one table, and in calls.
    rows = [*read_lines(old), *read_lines(other)]
    for row, label in zip(rows, [1, 0] * 20, strict=True):
        row["good"] = label if row["signature"] == rows[0]["signature"] else None
    for call in (
        lambda **how: refladder.filter(rows, min={"helpfulness_grade": 3}, **how),
        lambda **how: refladder.filter(rows, top=0.5, **how),
        lambda **how: refladder.pairs(rows, margin=0.01, **how),
        lambda **how: refladder.calibrate(
            rows, by="helpfulness_grade", label="good", good="=1", precision=0.2, **how
        ),
    ):
        with pytest.raises(DataError, match=r"which across_judges accepts"):
            call()
        assert call(across_judges=True)
    for row in rows[-4:]:
        row["good"] = 1
    labelled = {"by": "helpfulness_grade", "label": "good", "good": "=1", "precision": 0.2}
    message = "the label is of a grade by another judge than in row 1; a promise is for one judge"
    with pytest.raises(DataError, match=message):
        refladder.calibrate(rows, **labelled, across_judges=True)


def test_the_promise_of_a_threshold_is_for_its_judge(job, command, fails, tmp_path):
    old, again, other = job("old"), job("new"), job("new", model="lenient")
    labels = [{**row, "good": int(row["helpfulness_grade"] > 2)} for row in read_lines(old)]
    table, cut = tmp_path / "labelled.jsonl", tmp_path / "cut.json"
    table.write_text("".join(json.dumps(row) + "\n" for row in labels))
    by = "--by helpfulness_grade --label good --good =1"
    assert command(f"calibrate {table} {by} --precision 0.5 --out {cut}").code == 0
    out = tmp_path / "passed.jsonl"
    done = command(f"filter {again} --threshold {cut} --out {out} --json")
    assert json.loads(done.out)["promise"] == {"precision": 0.5, "recall": None, "sure": 0.9}
    text = fails(2, f"filter {other} --threshold {cut} --out {out}")
    assert (
        "the threshold was made for scores with another signature: backend:openai:lenient" in text
    )
    assert "which --across-judges accepts" in text
    done = command(f"filter {other} --threshold {cut} --across-judges --out {out} --json")
    assert (done.code, json.loads(done.out)["promise"]) == (0, None)
    done = command(f"filter {other} --threshold {cut} --across-judges --out {out}")
    assert "the threshold's promise was made for another judge, and does not hold" in done.err
    table.write_text("".join(json.dumps({**row, "good": 1}) + "\n" for row in read_lines(other)))
    rate = f"calibrate {table} --label good --good =1 --rate {cut}"
    assert "which --across-judges accepts" in fails(2, rate)
    assert command(f"{rate} --across-judges").code == 0
    # One that an earlier version made.
    record = json.loads(cut.read_text())
    record["signature"] = re.sub(r"\|criteria:[^|]*", "", record["signature"])
    cut.write_text(json.dumps(record))
    text = fails(2, f"filter {again} --threshold {cut} --out {out}")
    assert (
        "an earlier version of refladder made the threshold, and its signature names no criteria; run `refladder "
        "calibrate` again with its labels and these scores"
    ) in text


def test_more_anchors_are_another_scale_for_every_judge(job, fails, tmp_path):
    few, many = job("old"), job("new", options="--anchors 12")
    text = fails(2, f"compare {few} {many} --across-judges")
    assert (
        "'helpfulness_grade' are on different scales: nothing in its place here, anchors:" in text
    )
    rows = [
        {**row, "signature": re.sub(r"\|criteria:[^|]*", "", row["signature"])}
        for row in read_lines(many)
    ]
    older = tmp_path / "older.jsonl"
    older.write_text("".join(json.dumps(row) + "\n" for row in rows))
    text = fails(2, f"compare {many} {older}")
    assert (
        "made the one whose signature names no criteria; run `refladder rescore` with its" in text
    )


def test_the_summary_says_how_uncertain_places_are(job):
    few, many = job("old"), job("new", options="--anchors 12")
    errors = [
        json.loads((path.parent / f"{path.name}.run.json").read_text())["grade_error"][
            "helpfulness"
        ]
        for path in (few, many)
    ]
    # Noise of .15 in each of 15 ratings, and of 60: less with more anchors.
    assert 0.3 > errors[0] > errors[1] > 0
    line = f"helpfulness: grades are uncertain by {errors[0]:.2f} through the choice of 3 anchors; --anchors 12 lowers this."
    assert f"{line} Tables on the same anchors share this error" in job.told[few]
    assert (
        f"by {errors[1]:.2f} through the choice of 12 anchors. Tables on the same" in job.told[many]
    )
