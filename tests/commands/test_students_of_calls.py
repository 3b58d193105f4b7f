"""distil, and students in score, as calls: the files and rows of the commands, for every kind of table."""

from __future__ import annotations

import dataclasses
import json

import pytest

import refladder
from refladder.backends.builtin import NOTICE
from refladder.errors import DataError, RefladderError, UsageError

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
datasets = pytest.importorskip("datasets")
datasets.disable_progress_bars()

COLUMN = "coherence_score"
TYPED = ("--ladders", "demo/story", "--dimension", "coherence")
CHECK = "judge check, best rung against the worst: coherence 12 of 12 ladders"


def lines(path):
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def logged(caplog):
    told = [(record.levelname, record.getMessage()) for record in caplog.records]
    return [(level, text) for level, text in told if text not in {NOTICE, CHECK}]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A table, its scores by the builtin judge, and a student of them, all by commands."""
    from refladder.commands.main import run

    folder = tmp_path_factory.mktemp("students")
    outputs, scored, student = folder / "outputs.jsonl", folder / "scored.jsonl", folder / "student"
    for arguments in (
        ("export", "demo/story", "--out", outputs),
        ("score", outputs, *TYPED, "--out", scored),
        ("distil", scored, "--by", COLUMN, "--out", student),
    ):
        assert run([str(argument) for argument in arguments]) == 0
    return outputs, scored, student


@pytest.fixture
def rows(made):
    return lines(made[0])


def test_distil_takes_what_the_command_takes(command, made, tmp_path):
    scored = [{**row, "reply": row.pop("output")} for row in lines(made[1])]
    plain = [
        {name: row[name] for name in ("output_id", "context_id", "reply", COLUMN, "signature")}
        for row in scored
    ]
    labels = [{"output_id": row["output_id"], "people": row["coherence"]} for row in scored]
    for name, table in (("plain", plain), ("labels", labels)):
        (tmp_path / f"{name}.jsonl").write_text(
            "".join(json.dumps(row) + "\n" for row in table), "utf-8"
        )
    options = ("--column", "output=reply", "--ladders", "demo/story", "--label", "people", "--json")
    named = ("--by", COLUMN, "--labels", tmp_path / "labels.jsonl", "--out", tmp_path / "typed")
    typed = json.loads(command("distil", tmp_path / "plain.jsonl", *named, *options).out)
    assert typed.pop("notes") == []
    assert typed["reads_context"]
    asked = {"by": COLUMN, "columns": {"output": "reply"}, "label": "people"}
    first = refladder.distil(
        tmp_path / "plain.jsonl",
        out=str(tmp_path / "first"),
        ladders="demo/story",
        labels=[tmp_path / "labels.jsonl"],
        **asked,
    )
    second = refladder.distil(
        pd.DataFrame(plain),
        out=tmp_path / "second",
        ladders=refladder.load_ladders("demo/story"),
        labels=pl.DataFrame(labels),
        **asked,
    )
    assert first == second
    assert json.loads(json.dumps(dataclasses.asdict(first))) == typed
    assert [row.target for row in first.held_out].count("people") == 3


def test_distil_warns_of_what_people_should_know(made, tmp_path, caplog):
    rows = [{**row, COLUMN: len(row["output"].split())} for row in lines(made[1])]
    for row in rows:  # words that appear once, so that only their number can be learned
        row["output"] = " ".join(f"{row['output_id']}x{number}" for number in range(row[COLUMN]))
        del row["context"]
    labels = [
        {"output_id": row["output_id"], "people": 1 + number % 5} for number, row in enumerate(rows)
    ]
    labels.append({"output_id": "another", "people": 1})
    refladder.distil(rows, by=COLUMN, out=tmp_path / "student", labels=labels, label="people")
    assert (
        "WARNING",
        "1 of 73 labels not used: the table does not score their rows, such as output_id 'another'",
    ) in logged(caplog)
    assert (
        "no row has the text of its context, so the student reads outputs only; give a column 'context', or the "
        in (caplog.text)
    )
    assert "ladder set with ladders\n" in caplog.text
    assert (
        "WARNING",
        "a surface measure agrees with the teacher as well as the student does.",
    ) in logged(caplog)


def test_a_student_scores_a_file_alone(command, made, tmp_path):
    judge = f"distilled:{made[2]}"
    out = refladder.score(made[0], judge=judge, out=tmp_path / "called.jsonl")
    command("score", made[0], "--judge", judge, "--out", tmp_path / "typed.jsonl")
    assert out == tmp_path / "called.jsonl"
    assert out.read_bytes() == (tmp_path / "typed.jsonl").read_bytes()
    assert not (tmp_path / "called.jsonl.judgments.jsonl").exists()
    configuration = json.loads((tmp_path / "called.jsonl.run.json").read_text())
    assert configuration["options"]["judge"] == judge
    assert configuration["signature"] == lines(out)[0]["signature"]


def test_a_student_alone_takes_contexts_from_ladders_and_says_what_it_could_not_read(
    made, rows, caplog
):
    judge = f"distilled:{made[2]}"
    estimates = [row[COLUMN] for row in refladder.score(rows, judge=judge)]
    plain = [{"context_id": row["context_id"], "text": row["output"]} for row in rows]
    ladders = refladder.load_ladders("demo/story")
    for given in ("demo/story", ladders):
        called = refladder.score(
            pl.DataFrame(plain), judge=judge, ladders=given, columns={"output": "text"}
        )
        assert called[COLUMN].to_list() == estimates
    assert logged(caplog) == []
    called = refladder.score(plain, judge=judge, columns={"output": "text"})
    assert {row[COLUMN] for row in called} == {None}
    assert ("WARNING", "72 rows, 72 scores missing; 0 judgments (0 reused, 0 unparsed)") in logged(
        caplog
    )
    assert "give it in a column 'context', or with ladders" in caplog.text


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({}, r"give the ladder set: ladders=SET; only judge='distilled:FOLDER' needs none$"),
        ({"judge": "distilled:"}, r"judge 'distilled:': must be distilled:FOLDER, with a folder of `refladder distil`"),
        ({"judge": "distilled:nowhere"}, r"nowhere: no student.json; name a folder that"),
        ({"judge": "STUDENT", "rule": "expected-grade"}, r"asks no model, and rule is for asking one; leave it out$"),
        ({"judge": "STUDENT", "judge_options": {"dtype": "x"}}, r"asks no model, and judge_options is for asking one"),
        ({"judge": "STUDENT", "store": "answers.db"}, r"asks no model, and store is for asking one"),
    ],
)  # fmt: skip
def test_arguments_that_do_not_fit_are_named(asked, message, made, tmp_path):
    student = f"distilled:{made[2]}"
    asked = {name: student if value == "STUDENT" else value for name, value in asked.items()}
    with pytest.raises(RefladderError, match=message):
        refladder.score(lines(made[0]), out=tmp_path / "out.jsonl", **asked)
    assert not (tmp_path / "out.jsonl").exists()


def test_what_a_student_has_no_use_for_may_be_empty(made, rows):
    judge = f"distilled:{made[2]}"
    plain = refladder.score(rows, judge=judge)
    assert (
        refladder.score(
            rows, judge=judge, store=False, judge_options={}, dimensions=[], weights=None
        )
        == plain
    )


def test_a_student_alone_and_distil_name_rows_and_arguments(made, tmp_path):
    judge, out = f"distilled:{made[2]}", tmp_path / "student"
    with pytest.raises(
        DataError, match=r"^row 1: no column 'output' .*Map one with columns=\{'output': 'NAME'\}$"
    ):
        refladder.score([{"context_id": "a", "text": "b"}], judge=judge)
    with pytest.raises(
        UsageError, match=r"^the table: column 'coherence_score' exists already; rename or drop it"
    ):
        refladder.score(
            pd.DataFrame(lines(made[1])).drop(columns=["coherence_note", "signature"]), judge=judge
        )
    with pytest.raises(
        UsageError, match="a table in a file is written to another file; give out=PATH"
    ):
        refladder.score(made[0], judge=judge)
    with pytest.raises(UsageError, match="use it as the judge of `score` only"):
        refladder.Scorer(ladders="demo/story", judge=judge)
    scored = lines(made[1])
    for asked, message in (
        (
            {"by": "coherence_scor"},
            r"^row 1: no column 'coherence_scor'; did you mean 'coherence_score'\?",
        ),
        ({"labels": scored}, r"^labels needs label COLUMN"),
        (
            {"labels": [{"output_id": "x", "people": 1}], "label": "people"},
            r"^labels: 1 of 1 label not used",
        ),
        (
            {"labels": [{**scored[0], "people": "?"}], "label": "people"},
            r"^row 1 of labels: column 'people' must be",
        ),
    ):
        with pytest.raises(RefladderError, match=message):
            refladder.distil(scored, **{"by": COLUMN, "out": out, **asked})
    with pytest.raises(
        DataError, match=r"^the table: 3 rows have an output and a number in 'coherence_score'"
    ):
        refladder.distil(scored[:3], by=COLUMN, out=out)
    with pytest.raises(UsageError, match=r"exists and is not empty; name another folder"):
        refladder.distil(scored, by=COLUMN, out=made[2])
    assert not out.exists()
