"""Students in `score`."""

from __future__ import annotations

import json
import shutil

import pytest
from json_lines import read_lines, write_lines

from refladder.commands.main import run

LADDERS = ("--ladders", "demo/story", "--dimension", "coherence")
COLUMN = "coherence_score"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A table, its scores by the builtin judge, and a student of them."""
    folder = tmp_path_factory.mktemp("first-pass")
    outputs, scored, student = folder / "outputs.jsonl", folder / "scored.jsonl", folder / "student"
    for arguments in (
        ("export", "demo/story", "--out", outputs),
        ("score", outputs, *LADDERS, "--out", scored),
        ("distil", scored, "--by", COLUMN, "--out", student),
    ):
        assert run([str(argument) for argument in arguments]) == 0
    return outputs, read_lines(scored), f"distilled:{student}"


def test_a_student_scores_alone(command, made, tmp_path):
    outputs, scored, student = made
    out = tmp_path / "out.jsonl"
    done = command("score", outputs, "--judge", student, "--out", out)
    assert done.code == 0, done.err
    rows = read_lines(out)
    assert [row["output_id"] for row in rows] == [row["output_id"] for row in scored]
    assert list(rows[0])[-3:] == [COLUMN, "coherence_note", "signature"]
    (signature,) = {row["signature"] for row in rows}
    assert signature.startswith("backend:distilled:ngrams@")
    learned = [row[COLUMN] for row in scored]
    # on the scale of its teacher
    assert all(min(learned) <= row[COLUMN] <= max(learned) for row in rows)
    assert json.loads((tmp_path / "out.jsonl.run.json").read_text())["signature"] == signature
    assert not (tmp_path / "out.jsonl.judgments.jsonl").exists()


def test_what_a_student_cannot_read_has_no_score(command, made, tmp_path):
    rows = [{"context_id": "c", "context": "A sea.", "output": " "}]
    rows.append({"context_id": "c", "output": "A boat."})
    source = write_lines(tmp_path / "rows.jsonl", rows)
    done = command("score", source, "--judge", made[2])
    assert done.code == 3
    assert [row[COLUMN] for row in done.rows] == [None, None]
    empty, no_context = (row["coherence_note"] for row in done.rows)
    assert empty == "the output is empty"
    assert no_context.startswith("no text of the context, which ")
    assert "2 rows, 2 scores missing" in done.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("distilled:",), "--judge 'distilled:': must be distilled:FOLDER, with a folder of"),
        (("distilled:nowhere",), "nowhere: no student.json; name a folder"),
        (("STUDENT", "--rule", "expected-grade"), "asks no model, and --rule is for asking one"),
    ],
)
def test_options_that_do_not_fit_are_named(fails, made, tmp_path, options, message):
    outputs, _, student = made
    judge = [student if option == "STUDENT" else option for option in options]
    out = tmp_path / "out.jsonl"
    assert message in fails(2, "score", outputs, "--judge", *judge, "--out", out)
    assert not out.exists()


def test_a_student_is_no_judge_of_other_commands(fails, made):
    message = fails(2, "evaluate", "demo/story", "--judge", made[2], "--ladders", "demo/story")
    assert "estimates scores and compares no texts; use it as the judge of `score` only" in message


def test_files_of_different_students_are_refused(fails, made, tmp_path):
    outputs, _, student = made
    mixed = tmp_path / "mixed"
    shutil.copytree(student.removeprefix("distilled:"), mixed)
    record = json.loads((mixed / "student.json").read_text())
    (mixed / "student.json").write_text(json.dumps({**record, "weights": "0" * 32}))
    message = fails(2, "score", outputs, "--judge", f"distilled:{mixed}")
    assert "the weights are not those that student.json describes" in message
