"""`distil`: whole contexts are held out, and the figures are those of other programs."""

from __future__ import annotations

import json

import numpy as np
import pytest
from json_lines import write_lines
from scipy import stats

from refladder.calibration.labelling import LabelledTable
from refladder.loaders.input_rows import Mapped
from refladder.methods.surface import MEASURES, measured
from refladder.students.distil import read_lessons
from refladder.students.student import open_student

COLUMN = "worth_score"
BY = ("--by", COLUMN)


def rows_to_learn(contexts=20, each=8):
    """Rows whose score is the number of good words less that of bad ones, and labels of half of them."""
    random = np.random.default_rng(1)
    for number in range(contexts):
        for row in range(each):
            good, bad = random.integers(0, 9, size=2).tolist()
            words = ["fine"] * good + ["poor"] * bad
            words += ["the", "boat", "came", "home", f"to{number}"]
            random.shuffle(words)
            yield {
                "output_id": f"c{number}-{row}",
                "context_id": f"c{number}",
                "context": f"The harbour of town {number}.",
                "output": " ".join(words),
                COLUMN: float(good - bad),
                "signature": "judge/1",
                "people": int(good - bad + random.integers(-2, 3)) if row % 2 else None,
            }


ROWS = list(rows_to_learn())


@pytest.fixture
def distil(command, tmp_path):
    """Write a table, or take a path, and run the command; the student is in `student`."""

    def go(rows, *options, out="student", **more):
        source = rows
        if isinstance(rows, list):
            source = write_lines(tmp_path / "scored.jsonl", rows)
        return command("distil", source, *BY, *options, "--out", tmp_path / out, **more)

    return go


@pytest.fixture
def lessons_of(tmp_path):
    def read(rows, label=None):
        path = write_lines(tmp_path / "scored.jsonl", rows)
        asked = LabelledTable(source=str(path), by=COLUMN, label=label)
        return read_lessons(asked, Mapped(columns={}))

    return read


def test_whole_contexts_are_held_out_in_any_order_of_rows(lessons_of):
    lessons = lessons_of(ROWS, "people")
    names = np.array([row["context_id"] for row in ROWS])
    held_out, trained = set(names[lessons.held_out]), set(names[~lessons.held_out])
    assert not held_out & trained
    assert (len(held_out), len(trained)) == (4, 16)
    assert lessons.scores.tolist() == [row[COLUMN] for row in ROWS]
    labels = [None if np.isnan(label) else label for label in lessons.labels]
    assert labels == [row["people"] for row in ROWS]
    assert lessons_of(ROWS[::-1]).held_out.tolist() == lessons.held_out.tolist()[::-1]


def test_contexts_that_share_their_text_are_held_out_together(lessons_of):
    # c0 and c1 have the first text, c2 and c3 the second ...
    towns = [int(row["context_id"][1:]) // 2 for row in ROWS]
    rows = [{**row, "context": f"Town {town}."} for row, town in zip(ROWS, towns, strict=True)]
    held_out = lessons_of(rows).held_out
    sides = [set(held_out[np.array(towns) == town].tolist()) for town in range(10)]
    assert sorted(sides, key=sum) == [{False}] * 8 + [{True}] * 2


def test_a_student_does_not_learn_from_a_student(distil, command, fails, tmp_path):
    assert distil(ROWS).code == 0
    plain = [{key: row[key] for key in ("context_id", "context", "output")} for row in ROWS]
    table, out = write_lines(tmp_path / "plain.jsonl", plain), tmp_path / "estimated.jsonl"
    judge = f"distilled:{tmp_path / 'student'}"
    assert command("score", table, "--judge", judge, "--out", out).code == 0
    assert fails(2, "distil", out, *BY, "--out", tmp_path / "second") == (
        f"refladder: {out}: the numbers in '{COLUMN}' are estimates of a student; give the scores of a judge, "
        "from which a student learns\n"
    )
    assert not (tmp_path / "second").exists()


def test_the_figures_are_those_of_scipy_on_the_held_out_rows(distil, lessons_of, tmp_path):
    rows = ROWS[3:]
    done = distil(rows, "--label", "people", "--json")
    assert done.code == 0, done.err
    record = json.loads(done.out)
    lessons = lessons_of(rows, "people")
    out = lessons.held_out
    texts = [text for text, held in zip(lessons.texts, out, strict=True) if held]
    estimates = open_student(tmp_path / "student").estimate(texts)
    truth, people, contexts = lessons.scores[out], lessons.labels[out], lessons.contexts[out]
    figures = {(row["method"].partition(":")[0], row["target"]): row for row in record["held_out"]}
    errors = np.abs(estimates - truth)
    each = [contexts == name for name in set(contexts)]
    within = [stats.spearmanr(estimates[chosen], truth[chosen])[0] for chosen in each]
    expected = {
        "rows": 29,
        "pearson": stats.pearsonr(estimates, truth)[0],
        "spearman": stats.spearmanr(estimates, truth)[0],
        "within_spearman": np.mean(within),
        "error": errors.mean(),
    }
    against = figures["student", "teacher"]
    assert {name: against[name] for name in expected} == pytest.approx(expected, abs=1e-9)
    assert record["half_width"] == pytest.approx(np.quantile(errors, 0.9))
    assert against["spearman"] > 0.9 > figures["surface", "teacher"]["spearman"]
    # the surface measure, by a line through the other rows
    name = record["held_out"][1]["method"]
    measure = measured(lessons.texts)[:, MEASURES.index(name.removeprefix("surface: "))]
    slope, shift = np.polyfit(measure[~out], lessons.scores[~out], 1)
    error = np.abs(slope * measure[out] + shift - truth).mean()
    assert figures["surface", "teacher"]["error"] == pytest.approx(error)
    known = ~np.isnan(people)
    assert figures["student", "people"]["rows"] == known.sum() == 15
    for name, values in (("student", estimates), ("teacher", truth)):
        spearman = stats.spearmanr(values[known], people[known])[0]
        assert figures[name, "people"]["spearman"] == pytest.approx(spearman)


def test_labels_in_a_table_of_their_own_and_rows_from_standard_input_are_the_same(distil, tmp_path):
    labels, path = tmp_path / "labels.csv", tmp_path / "scored.jsonl"
    lines = [f"{row['output_id']},{row['people']}\n" for row in ROWS if row["people"] is not None]
    labels.write_text("output_id,people\n" + "".join(lines))
    given = ("--label", "people", "--json")
    beside = distil(ROWS, *given)
    assert beside.code == 0
    apart = distil(path, *given, "--labels", labels, out="apart")
    piped = distil("-", *given, out="piped", stdin=path.read_bytes())
    assert beside.rows == apart.rows == piped.rows
    for name in ("student.json", "weights.npz", "README.md"):
        student = (tmp_path / "student" / name).read_bytes()
        assert (tmp_path / "piped" / name).read_bytes() == student


def test_the_table_and_the_card_say_what_was_measured(distil, tmp_path):
    done = distil(ROWS, "--label", "people")
    rows = "32 rows held out (whole contexts)"
    for words in ("student", "teacher", "people", "surface: ", rows, "let the judge score"):
        assert words in done.out
    card = (tmp_path / "student" / "README.md").read_text()
    assert f"# A student of `{COLUMN}`" in card
    assert "- Signature of these scores: `judge/1`" in card
    assert "| student | teacher | 32 | 4 |" in card
    files = sorted(path.name for path in (tmp_path / "student").iterdir())
    assert files == ["README.md", "student.json", "weights.npz"]


def test_rows_without_context_text_give_a_student_of_outputs(distil, command, tmp_path):
    done = distil([{**row, "context": None} for row in ROWS])
    assert done.code == 0
    assert "no row has the text of its context, so the student reads outputs only" in done.err
    row = {"context_id": "anything", "output": "fine fine fine"}
    plain = write_lines(tmp_path / "plain.jsonl", [row])
    done = command("score", plain, "--judge", f"distilled:{tmp_path / 'student'}")
    assert done.rows[0][COLUMN] > 0


def test_texts_are_held_out_where_there_is_one_context(distil):
    done = distil([{**row, "context_id": "all", "context": "All."} for row in ROWS], "--json")
    (record,) = done.rows
    assert "all rows have one context, so texts are held out" in record["notes"][0]
    assert record["held_out_by"] == "text"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--by", "worth_scor"), "no column 'worth_scor'; did you mean 'worth_score'?"),
        (("--by", "output"), "column 'output' must be a finite number or empty"),
        (("--labels", "x.csv"), "--labels needs --label COLUMN"),
        (("--label", "nobody"), "no scored row has a number in 'nobody'"),
    ],
)
def test_bad_options_are_named(distil, tmp_path, options, message):
    done = distil(ROWS, *options)
    assert (done.code, done.out) == (2, "")
    assert message in done.err
    assert not (tmp_path / "student").exists()


def test_bad_tables_are_named(distil, lessons_of):
    held_out = lessons_of(ROWS).held_out
    equal = [{**row, COLUMN: 3} for row in ROWS]
    trained_equal = [
        (row if out else same) for row, same, out in zip(ROWS, equal, held_out, strict=True)
    ]
    mixed = [*ROWS, {**ROWS[0], "output_id": "x", "signature": "judge/2"}]
    nothing = "in 'worth_score' are 3, so there is nothing"
    for rows, message in (
        (ROWS[:10], "10 rows have an output and a number in 'worth_score'; at least 50 are needed"),
        (equal, f"all numbers {nothing} to learn"),
        (trained_equal, f"all numbers that are not held out {nothing} to learn"),
        (mixed, "are on different scales"),
    ):
        done = distil(rows)
        assert done.code == 2
        assert message in done.err


def test_a_folder_that_holds_other_files_is_not_written_to(distil, tmp_path):
    (tmp_path / "student").mkdir()
    (tmp_path / "student" / "notes.txt").write_text("mine")
    assert "exists and is not empty; name another folder" in distil(ROWS).err
