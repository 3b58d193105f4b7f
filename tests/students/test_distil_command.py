"""refladder.distil, and students as judges of refladder.score."""

from __future__ import annotations

import json

import pytest
from json_lines import read_lines

import refladder
from refladder.backends.builtin import NOTICE
from refladder.commands.main import run as run_command
from refladder.errors import UsageError

COLUMN = "coherence_score"
CHECK = "judge check, best rung against the worst: coherence 12 of 12 ladders"


def logged(caplog):
    told = [(record.levelname, record.getMessage()) for record in caplog.records]
    return [(level, text) for level, text in told if text not in {NOTICE, CHECK}]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A table, its scores by the builtin judge, and a student of them."""
    folder = tmp_path_factory.mktemp("students")
    for line in (
        "export demo/story --out {f}/outputs.jsonl",
        "score {f}/outputs.jsonl --ladders demo/story --dimension coherence --out {f}/scored.jsonl",
        f"distil {{f}}/scored.jsonl --by {COLUMN} --out {{f}}/student",
    ):
        assert run_command(line.format(f=folder).split()) == 0
    return folder


@pytest.fixture
def rows(made):
    return read_lines(made / "outputs.jsonl")


@pytest.fixture
def judge(made):
    return f"distilled:{made}/student"


def test_labels_of_people_are_held_out_too(made, tmp_path):
    scored = [{**row, "reply": row.pop("output")} for row in read_lines(made / "scored.jsonl")]
    labels = [{"output_id": row["output_id"], "people": row["coherence"]} for row in scored]
    asked = {"by": COLUMN, "columns": {"output": "reply"}, "labels": labels, "label": "people"}
    named = refladder.distil(scored, out=tmp_path / "named", ladders="demo/story", **asked)
    opened = refladder.load_ladders("demo/story")
    assert refladder.distil(scored, out=tmp_path / "opened", ladders=opened, **asked) == named
    assert named.reads_context
    assert [row.target for row in named.held_out].count("people") == 3


def test_distil_warns_of_what_people_should_know(made, tmp_path, caplog):
    rows = [
        {**row, COLUMN: len(row["output"].split())} for row in read_lines(made / "scored.jsonl")
    ]
    for row in rows:  # words that appear once, so that only their number can be learned
        row["output"] = " ".join(f"{row['output_id']}x{number}" for number in range(row[COLUMN]))
        del row["context"]
    names = [*(row["output_id"] for row in rows), "another"]
    labels = [{"output_id": name, "people": 1 + n % 5} for n, name in enumerate(names)]
    refladder.distil(rows, by=COLUMN, out=tmp_path / "student", labels=labels, label="people")
    warnings = [text for level, text in logged(caplog) if level == "WARNING"]
    assert (
        "1 of 73 labels not used: the table does not score their rows, such as output_id 'another'"
        in warnings
    )
    assert "a surface measure agrees with the teacher as well as the student does." in warnings
    assert (
        "no row has the text of its context, so the student reads outputs only; give a column 'context', or the "
        "ladder set with ladders\n"
    ) in caplog.text


def test_a_scored_file_names_its_student_and_has_no_judgments(made, judge, tmp_path):
    out = refladder.score(made / "outputs.jsonl", judge=judge, out=tmp_path / "called.jsonl")
    assert not (tmp_path / "called.jsonl.judgments.jsonl").exists()
    configuration = json.loads((tmp_path / "called.jsonl.run.json").read_text())
    assert configuration["options"]["judge"] == judge
    assert configuration["signature"] == read_lines(out)[0]["signature"]


def test_a_student_takes_contexts_from_ladders_and_says_what_it_could_not_read(rows, judge, caplog):
    estimates = [row[COLUMN] for row in refladder.score(rows, judge=judge)]
    plain = [{"context_id": row["context_id"], "text": row["output"]} for row in rows]
    asked = {"judge": judge, "columns": {"output": "text"}}
    called = refladder.score(plain, ladders="demo/story", **asked)
    assert [row[COLUMN] for row in called] == estimates
    assert logged(caplog) == []
    called = refladder.score(plain, **asked)
    assert {row[COLUMN] for row in called} == {None}
    summary = "72 rows, 72 scores missing; 0 judgments (0 reused, 0 unparsed)"
    assert ("WARNING", summary) in logged(caplog)
    assert "give it in a column 'context', or with ladders" in caplog.text


def test_what_a_student_has_no_use_for_may_be_empty(rows, judge):
    empty = {"store": False, "judge_options": {}, "dimensions": [], "weights": None}
    assert refladder.score(rows, judge=judge, **empty) == refladder.score(rows, judge=judge)


@pytest.mark.parametrize(
    "asked",
    [{"rule": "expected-grade"}, {"judge_options": {"dtype": "x"}}, {"store": "answers.db"}],
)
def test_what_a_student_has_no_use_for_is_refused(asked, rows, judge):
    (name,) = asked
    message = rf"asks no model, and {name} is for asking one"
    with pytest.raises(UsageError, match=message):
        refladder.score(rows, judge=judge, **asked)


def test_a_student_judges_tables_only_and_no_scored_ones(made, judge):
    with pytest.raises(UsageError, match="use it as the judge of `score` only"):
        refladder.Scorer(ladders="demo/story", judge=judge)
    scored = [
        {name: row[name] for name in row if name not in ("coherence_note", "signature")}
        for row in read_lines(made / "scored.jsonl")
    ]
    message = r"^the table: column 'coherence_score' exists already; rename or drop it"
    with pytest.raises(UsageError, match=message):
        refladder.score(scored, judge=judge)
