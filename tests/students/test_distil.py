"""`distil`: whole contexts are held out, the figures are those of other programs, and students can be used at once."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from refladder.jobs.input_rows import Mapped
from refladder.jobs.labelling import LabelledTable
from refladder.students.distil import read_lessons
from refladder.students.student import open_student

COLUMN = "worth_score"


def table(path, contexts=20, each=8, context="context"):
    """Rows whose score is the number of good words less that of bad ones, and labels of half of them."""
    random = np.random.default_rng(1)
    rows = []
    for number in range(contexts):
        for row in range(each):
            good, bad = random.integers(0, 9, size=2).tolist()
            words = (
                ["fine"] * good + ["poor"] * bad + ["the", "boat", "came", "home", f"to{number}"]
            )
            random.shuffle(words)
            label = int(good - bad + random.integers(-2, 3)) if row % 2 else None
            rows.append(
                {
                    "output_id": f"c{number}-{row}", "context_id": f"c{number}",
                    context: f"The harbour of town {number}.",
                    "output": " ".join(words), COLUMN: float(good - bad), "signature": "judge/1", "people": label,
                }
            )  # fmt: skip
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return rows


@pytest.fixture
def scored(tmp_path):
    path = tmp_path / "scored.jsonl"
    return path, table(path)


def test_whole_contexts_are_held_out_in_any_order_of_rows(tmp_path, scored):
    path, rows = scored
    asked = LabelledTable(source=str(path), by=COLUMN, label="people")
    lessons = read_lessons(asked, Mapped(columns={}))
    held_out = {
        row["context_id"] for row, out in zip(rows, lessons.held_out.tolist(), strict=True) if out
    }
    trained = {
        row["context_id"]
        for row, out in zip(rows, lessons.held_out.tolist(), strict=True)
        if not out
    }
    assert not held_out & trained
    assert (len(held_out), len(trained)) == (4, 16)
    assert lessons.scores.tolist() == [row[COLUMN] for row in rows]
    assert [None if np.isnan(label) else label for label in lessons.labels] == [
        row["people"] for row in rows
    ]
    backwards = tmp_path / "backwards.jsonl"
    backwards.write_text("".join(reversed(path.read_text().splitlines(keepends=True))))
    again = read_lessons(replace(asked, source=str(backwards)), Mapped(columns={}))
    assert again.held_out.tolist() == lessons.held_out.tolist()[::-1]


def test_contexts_that_share_their_text_are_held_out_together(tmp_path):
    rows = table(tmp_path / "scored.jsonl")
    for row in rows:  # c0 and c1 have the first text, c2 and c3 the second ...
        row["context"] = f"The harbour of town {int(row['context_id'][1:]) // 2}."
    (tmp_path / "scored.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    lessons = read_lessons(
        LabelledTable(source=str(tmp_path / "scored.jsonl"), by=COLUMN), Mapped(columns={})
    )
    sides = {text: set() for text, _ in lessons.texts}
    for (text, _), out in zip(lessons.texts, lessons.held_out.tolist(), strict=True):
        sides[text].add(out)
    assert sorted(sides.values(), key=sum) == [{False}] * 8 + [{True}] * 2


def test_a_student_does_not_learn_from_a_student(command, fails, scored, tmp_path):
    student, estimated = tmp_path / "student", tmp_path / "estimated.jsonl"
    assert command("distil", scored[0], "--by", COLUMN, "--out", student).code == 0
    plain = [{key: row[key] for key in ("context_id", "context", "output")} for row in scored[1]]
    (tmp_path / "plain.jsonl").write_text("".join(json.dumps(row) + "\n" for row in plain))
    assert (
        command(
            "score", tmp_path / "plain.jsonl", "--judge", f"distilled:{student}", "--out", estimated
        ).code
        == 0
    )
    assert fails(2, "distil", estimated, "--by", COLUMN, "--out", tmp_path / "second") == (
        f"refladder: {estimated}: the numbers in '{COLUMN}' are estimates of a student; give the scores of a judge, "
        "from which a student learns\n"
    )
    assert not (tmp_path / "second").exists()


def test_the_figures_are_those_of_scipy_on_the_held_out_rows(command, scored, tmp_path):
    path, _ = scored
    done = command(
        "distil", path, "--by", COLUMN, "--label", "people", "--out", tmp_path / "student", "--json"
    )
    assert done.code == 0, done.err
    record = json.loads(done.out)
    lessons = read_lessons(
        LabelledTable(source=str(path), by=COLUMN, label="people"), Mapped(columns={})
    )
    out = lessons.held_out
    student = open_student(tmp_path / "student")
    estimates = student.estimate(
        [text for text, held in zip(lessons.texts, out, strict=True) if held]
    )
    truth, people, contexts = lessons.scores[out], lessons.labels[out], lessons.contexts[out]
    figures = {(row["method"].partition(":")[0], row["target"]): row for row in record["held_out"]}
    against = figures["student", "teacher"]
    assert against["rows"] == 32
    assert against["pearson"] == pytest.approx(stats.pearsonr(estimates, truth)[0], abs=1e-9)
    assert against["spearman"] == pytest.approx(stats.spearmanr(estimates, truth)[0], abs=1e-9)
    assert against["error"] == pytest.approx(np.abs(estimates - truth).mean(), abs=1e-9)
    within = [
        stats.spearmanr(estimates[contexts == name], truth[contexts == name])[0]
        for name in set(contexts)
    ]
    assert against["within_spearman"] == pytest.approx(np.mean(within), abs=1e-9)
    assert record["half_width"] == pytest.approx(np.quantile(np.abs(estimates - truth), 0.9))
    known = ~np.isnan(people)
    assert figures["student", "people"]["rows"] == known.sum() == 16
    assert figures["student", "people"]["spearman"] == pytest.approx(
        stats.spearmanr(estimates[known], people[known])[0]
    )
    assert figures["teacher", "people"]["spearman"] == pytest.approx(
        stats.spearmanr(truth[known], people[known])[0]
    )
    assert against["spearman"] > 0.9 > figures["surface", "teacher"]["spearman"]


def test_labels_in_a_table_of_their_own_are_the_same(command, scored, tmp_path):
    path, rows = scored
    labels = tmp_path / "labels.csv"
    lines = [f"{row['output_id']},{row['people']}\n" for row in rows if row["people"] is not None]
    labels.write_text("output_id,people\n" + "".join(lines))
    options = ("--by", COLUMN, "--label", "people", "--json")
    beside = command("distil", path, *options, "--out", tmp_path / "first")
    apart = command("distil", path, *options, "--labels", labels, "--out", tmp_path / "second")
    assert json.loads(apart.out) == json.loads(beside.out)


def test_the_table_and_the_card_say_what_was_measured(command, scored, tmp_path):
    path, _ = scored
    done = command(
        "distil", path, "--by", COLUMN, "--label", "people", "--out", tmp_path / "student"
    )
    assert done.code == 0, done.err
    words = (
        "student",
        "teacher",
        "people",
        "surface: ",
        "32 rows held out (whole contexts)",
        "let the judge score",
    )
    for word in words:
        assert word in done.out
    card = (tmp_path / "student" / "README.md").read_text()
    assert f"# A student of `{COLUMN}`" in card
    assert "- Signature of these scores: `judge/1`" in card
    assert "| student | teacher | 32 | 4 |" in card
    assert sorted(p.name for p in (tmp_path / "student").iterdir()) == [
        "README.md",
        "student.json",
        "weights.npz",
    ]


def test_a_student_no_better_than_the_surface_is_reported(command, tmp_path):
    path = tmp_path / "scored.jsonl"
    rows = table(path)
    for row in rows:
        row[COLUMN] = len(row["output"].split())
        row["output"] = " ".join(f"{row['output_id']}x{number}" for number in range(row[COLUMN]))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = command("distil", path, "--by", COLUMN, "--out", tmp_path / "student")
    assert (
        "Warning: a surface measure agrees with the teacher as well as the student does."
        in done.out
    )


def test_rows_without_context_text_give_a_student_of_outputs(command, tmp_path):
    path, plain = tmp_path / "scored.jsonl", tmp_path / "plain.jsonl"
    table(path, context="unused")
    done = command("distil", path, "--by", COLUMN, "--out", tmp_path / "student")
    assert done.code == 0
    assert "no row has the text of its context, so the student reads outputs only" in done.err
    plain.write_text('{"context_id": "anything", "output": "fine fine fine"}\n')
    done = command("score", plain, "--judge", f"distilled:{tmp_path / 'student'}")
    assert done.rows[0][COLUMN] > 0


def test_texts_are_held_out_where_there_is_one_context(command, tmp_path):
    path = tmp_path / "scored.jsonl"
    rows = table(path)
    path.write_text(
        "".join(json.dumps({**row, "context_id": "all", "context": "All."}) + "\n" for row in rows)
    )
    done = command("distil", path, "--by", COLUMN, "--out", tmp_path / "student", "--json")
    assert "all rows have one context, so texts are held out" in json.loads(done.out)["notes"][0]
    assert json.loads(done.out)["held_out_by"] == "text"


def test_a_table_from_standard_input_gives_the_same_student(command, scored, tmp_path):
    path, _ = scored
    first = command("distil", path, "--by", COLUMN, "--out", tmp_path / "first", "--json")
    second = command(
        "distil",
        "-",
        "--by",
        COLUMN,
        "--out",
        tmp_path / "second",
        "--json",
        stdin=path.read_bytes(),
    )
    assert json.loads(first.out) == json.loads(second.out)
    for name in ("student.json", "weights.npz", "README.md"):
        assert (tmp_path / "first" / name).read_bytes() == (tmp_path / "second" / name).read_bytes()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--by", "worth_scor"), "no column 'worth_scor'; did you mean 'worth_score'?"),
        (("--by", "output"), "column 'output' must be a finite number or empty"),
        (("--by", COLUMN, "--labels", "x.csv"), "--labels needs --label COLUMN"),
        (("--by", COLUMN, "--label", "nobody"), "no scored row has a number in 'nobody'"),
    ],
)
def test_bad_options_are_named(fails, scored, tmp_path, options, message):
    assert message in fails(2, "distil", scored[0], *options, "--out", tmp_path / "student")
    assert not (tmp_path / "student").exists()


def test_bad_tables_and_folders_are_named(fails, scored, tmp_path):
    path, rows = scored
    out = ("--by", COLUMN, "--out", tmp_path / "student")
    few, equal, mixed = (tmp_path / f"{name}.jsonl" for name in ("few", "equal", "mixed"))
    few.write_text("".join(json.dumps(row) + "\n" for row in rows[:10]))
    assert "10 rows have an output and a number in 'worth_score'; at least 50 are needed" in fails(
        2, "distil", few, *out
    )
    equal.write_text("".join(json.dumps({**row, COLUMN: 3}) + "\n" for row in rows))
    assert "all numbers in 'worth_score' are 3, so there is nothing to learn" in fails(
        2, "distil", equal, *out
    )
    held_out = read_lessons(
        LabelledTable(source=str(path), by=COLUMN), Mapped(columns={})
    ).held_out.tolist()
    scores = [
        row[COLUMN] if out_of_it else 3 for row, out_of_it in zip(rows, held_out, strict=True)
    ]
    trained = ({**row, COLUMN: score} for row, score in zip(rows, scores, strict=True))
    equal.write_text("".join(json.dumps(row) + "\n" for row in trained))
    assert "all numbers that are not held out in 'worth_score' are 3, so there is nothing" in fails(
        2, "distil", equal, *out
    )
    mixed.write_text(
        path.read_text() + json.dumps({**rows[0], "output_id": "x", "signature": "judge/2"}) + "\n"
    )
    assert "another signature" in fails(2, "distil", mixed, *out)
    (tmp_path / "student").mkdir()
    (tmp_path / "student" / "notes.txt").write_text("mine")
    assert "exists and is not empty; name another folder" in fails(2, "distil", path, *out)
