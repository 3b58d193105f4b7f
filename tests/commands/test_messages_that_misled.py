"""Messages that once led people to a wrong next step, each with the remedy that it names now."""

from __future__ import annotations

import pytest

ROW = '{"context_id": "story-01", "output": "A text.", "clarity_grade": 3, "clarity_score": 1, "overall_score": 2}\n'
TASK = 'task = "open"\n[[dimensions]]\nname = "clarity"\ndescription = "Clear?"\n'


@pytest.fixture
def scored(tmp_path):
    path = tmp_path / "scored.jsonl"
    path.write_text(ROW)
    return path


def test_a_dimension_is_no_score_column(scored, fails):
    message = fails(2, "filter", scored, "--min", "clarity=3")
    assert (
        f"{scored}:1: no column 'clarity'; did you mean 'clarity_grade' or 'clarity_score'? Columns: "
        in message
    )
    assert "no column 'overall'; did you mean 'overall_score'?" in fails(
        2, "filter", scored, "--min", "overall=3"
    )


@pytest.mark.parametrize(("flag", "given"), [("--min", "grade>=3"), ("--max", "grade<=3")])
def test_a_comparison_is_shown_as_the_option_takes_it(scored, fails, flag, given):
    assert fails(2, "filter", scored, flag, given) == (
        f"refladder: {flag} {given}: give {flag} grade=3; {flag} keeps the bound itself too\n"
    )


def test_a_missing_field_names_the_option(tmp_path, fails):
    (tmp_path / "task.toml").write_text(TASK)
    (tmp_path / "t.csv").write_text("question,reply\nWhy?,So.\n")
    message = fails(2, "evaluate", tmp_path / "t.csv", "--task-file", tmp_path / "task.toml")
    assert "map the field 'context' to its column with --column context=COLUMN" in message


def test_a_table_without_ratings_says_which_columns_count(tmp_path, fails):
    (tmp_path / "task.toml").write_text(TASK)
    (tmp_path / "t.csv").write_text("context,output,stars\nWhy?,So.,3\n")
    message = fails(2, "evaluate", tmp_path / "t.csv", "--task-file", tmp_path / "task.toml")
    assert (
        "own has no ratings on clarity; add ratings, or choose other dimensions. Ratings are read from columns of "
        in (message)
    )
    assert "map others with --column clarity=NAME" in message


def test_judgments_of_another_judge_say_so(tmp_path, fails, command, stories):
    out = tmp_path / "out.jsonl"
    (tmp_path / "rules.jsonl").write_text(
        '{"role": "compare", "answer": {"win": -0.5, "loss": -1.5, "tie": -1.8}}\n'
    )
    assert command("score", stories, "--ladders", "demo/story", "--out", out).code == 0
    other = ("--judge", f"scripted:{tmp_path / 'rules.jsonl'}", "--any-judge")
    message = fails(2, "score", stories, "--ladders", "demo/story", "--out", out, *other)
    assert (
        "these judgments are of another run (another judge: builtin/1, this run has scripted"
        in message
    )
    assert f"{out}.judgments.jsonl" in message
