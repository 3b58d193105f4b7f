"""refladder show: contexts, ladders, and scored outputs on them."""

from __future__ import annotations

import re

from json_lines import read_lines, write_lines

SHOW = "show demo/story story-01 --dimension coherence --scores"
ROW = {
    "context_id": "story-01",
    "output": "A text.",
    "coherence_score": 2,
    "coherence_grade": 3.3,
    "system": "a",
}


def test_contexts_and_the_certificate_are_listed(command):
    contexts, _, certificate = command("show demo/story").out.partition("verdict: ")
    assert len(contexts.splitlines()) == 12
    assert contexts.startswith("story-01  A lighthouse keeper finds")
    assert certificate.startswith("drop (the ladders do not rise at some level)\n")
    assert set(command("show demo/story --json").rows[0]) == {"context_id", "text"}


def test_scored_outputs_are_placed_on_the_ladder(command, stories, tmp_path):
    scored = tmp_path / "scored.jsonl"
    command(f"score {stories} --ladders demo/story --out {scored}")
    (shown,) = command(f"{SHOW} {scored} --json").rows
    assert [rung["level"] for rung in shown["rungs"]] == [1, 2, 3, 4, 5]
    row = read_lines(scored)[0]
    placed = {name: row[f"coherence_{name}"] for name in ("score", "grade", "spread", "note")}
    assert shown["outputs"] == [{"id": "o1", "text": row["output"], **placed}]
    lines = command(f"{SHOW} {scored}").out.splitlines()
    grades = [line.split()[0] for line in lines if re.match(r"\s+\d\.\d\d", line)]
    assert grades == sorted(grades, reverse=True)
    # rung i of 5 stands at (i - 1/2)/5 of the way from 1 to 5: 1.4, 2.2, 3, 3.8, 4.6
    assert {"1.40", "2.20", "3.00", "3.80", "4.60"} <= set(grades)


def test_columns_and_context_that_score_was_given_are_those_of_show(command, write_jsonl, tmp_path):
    rows = [
        {
            "story": "story-01",
            "reply": f"A keeper waits, {number}.",
            "who": f"w{number}",
            "output": "x",
        }
        for number in (1, 2)
    ]
    scored = tmp_path / "scored.csv"
    given = "--column context_id=story --column output=reply --column output_id=who"
    line = "score {} --ladders demo/story --dimension coherence --out {} {}"
    assert command(line.format(write_jsonl(rows), scored, given)).code == 0
    (shown,) = command(f"{SHOW} {scored} --json").rows
    assert sorted((each["id"], each["text"]) for each in shown["outputs"]) == [
        ("w1", "A keeper waits, 1."),
        ("w2", "A keeper waits, 2."),
    ]
    alone = write_jsonl([{"output": "A keeper waits."}])
    scored = tmp_path / "alone.jsonl"
    assert command(line.format(alone, scored, "--context-id story-01")).code == 0
    (shown,) = command(f"{SHOW} {scored} --json").rows
    assert [each["text"] for each in shown["outputs"]] == ["A keeper waits."]


def test_half_a_surrogate_pair_survives(command, tmp_path):
    path = write_lines(tmp_path / "scored.jsonl", [{**ROW, "output": "A \ud83d text."}])
    assert "A \ufffd text." in command(f"{SHOW} {path}").out
    assert command(f"{SHOW} {path} --json").rows[0]["outputs"][0]["text"] == "A \ud83d text."


def test_scores_may_lack_notes_and_must_be_numbers(command, fails, tmp_path):
    path = tmp_path / "scored.jsonl"
    write_lines(path, [ROW, {**ROW, "coherence_score": None, "coherence_grade": None}])
    assert [one["score"] for one in command(f"{SHOW} {path} --json").rows[0]["outputs"]] == [
        2.0,
        None,
    ]
    assert "not scored: no reason given" in command(f"{SHOW} {path}").out
    write_lines(path, [{name: ROW[name] for name in ROW if name != "coherence_score"}])
    assert fails(2, f"{SHOW} {path}") == (
        f"refladder: {path}:1: no column 'coherence_score'; needs context_id, output, coherence_score and "
        "coherence_grade, as `refladder score` writes them. Columns there: context_id, output, coherence_grade, "
        "system\n"
    )
    write_lines(path, [{**ROW, "coherence_grade": "good"}])
    assert fails(2, f"{SHOW} {path}") == (
        f"refladder: {path}:1: column 'coherence_grade' must be a finite number or empty, found 'good'\n"
    )


def test_a_text_with_a_score_and_no_grade_shows_its_score_and_why(command, tmp_path):
    row = {**ROW, "coherence_grade": None, "coherence_note": "no grade: a reason"}
    shown = command(f"{SHOW} {write_lines(tmp_path / 'rated.jsonl', [row])}").out
    assert re.search(r"2\.00 +\S+ +no grade: a reason", shown)
    assert "not scored" not in shown


def test_show_takes_the_context_of_a_folder_of_scored_files(command, tmp_path):
    """Without a column context_id: `score` was given the context, and run.json of the folder has it."""
    (tmp_path / "in").mkdir()
    for number in (1, 2):
        text = f"The old man walked to the sea {number}."
        write_lines(tmp_path / f"in/{number}.jsonl", [{"output_id": f"t{number}", "output": text}])
    out = tmp_path / "out"
    score = ("score", tmp_path / "in", "--ladders", "demo/story", "--context-id", "story-04")
    assert command(*score, "--any-judge", "--out", out).code == 0
    shown = command("show", "demo/story", "story-04", "--scores", out, "--json").rows
    assert {each["id"] for ladder in shown for each in ladder["outputs"]} == {"t1", "t2"}
