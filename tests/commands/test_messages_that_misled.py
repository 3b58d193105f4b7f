"""Messages that once led people to a wrong next step, each with the remedy that it names now."""

from __future__ import annotations

import re

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


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("score", "--model", "gpt-4o"), "No such option '--model'. Did you mean '--judge'?"),
        (("score", "--output", "o"), "No such option '--output'. Did you mean '--out'?"),
        (("review", "--out", "o"), "No such option '--out'. Did you mean '--html'?"),
        (("calibrate", "--score", "s"), "No such option '--score'. Did you mean '--by'?"),
        (("score", "--api-key", "k"), "'--api-key'. Set OPENAI_API_KEY, or name a file with "),
        (("score", "t.csv"), "Missing option '--ladders'. --ladders general/reply serves replies"),
        (("pairs", "t.csv"), "Missing option '--margin'. Give the least difference of the scores"),
        (("help", "score"), "run `refladder score --help`"),
        (("list", "judges"), "unknown kind of thing 'judges'; did you mean 'backends'?"),
    ],
)
def test_a_wrong_guess_leads_to_the_option(fails, given, said):
    assert said in fails(2, *given)


@pytest.mark.parametrize(
    ("judge", "said"),
    [
        (
            "ollama:llama3",
            "a server is openai:llama3 with --base-url URL, such as http://127.0.0.1:11434/v1",
        ),
        ("azure:gpt-4o", "a server is openai:gpt-4o with --base-url URL\n"),
        ("openai/gpt-4o", "unknown backend 'openai/gpt-4o'; did you mean 'openai:gpt-4o'?"),
    ],
)
def test_the_name_of_a_server_leads_to_its_backend(stories, fails, judge, said):
    asked = ("score", stories, "--ladders", "demo/story", "--judge", judge, "--out", "o.jsonl")
    assert said in fails(2, *asked)


def test_a_column_the_wrong_way_round(stories, fails):
    asked = ("score", stories, "--ladders", "demo/story", "--out", "o.jsonl")
    message = fails(2, *asked, "--column", "reply=output")
    assert "unknown field 'reply'; did you mean '--column output=reply'?" in message
    assert "unknown field 'text'; " in fails(2, *asked, "--column", "text=reply")


def test_a_threshold_is_a_file(scored, fails):
    assert "for a number, give --min COLUMN=3" in fails(2, "filter", scored, "--threshold", "3")


def test_a_part_of_the_name_of_a_score_leads_to_it(scored, fails, tmp_path):
    assert "no column 'grade'; did you mean 'clarity_grade'?" in fails(
        2, "filter", scored, "--min", "grade=3"
    )
    (tmp_path / "t.jsonl").write_text('{"context": "Why?", "output": "So."}\n')
    for asked in (("filter", "--min", "clarity_grade=3"), ("compare", "--by", "clarity_grade")):
        message = fails(2, asked[0], tmp_path / "t.jsonl", *asked[1:])
        assert "nor another column of scores; `refladder score` adds them" in message


def test_a_spreadsheet_is_no_output(stories, fails, tmp_path):
    asked = ("score", stories, "--ladders", "demo/story", "--out", tmp_path / "o.xlsx")
    assert "a spreadsheet, which refladder cannot write; name a .csv file" in fails(2, *asked)


def test_builtin_refused_leads_to_a_judge(tmp_path, fails):
    (tmp_path / "t.csv").write_text("context,output\nWhy?,So.\n")
    asked = ("score", tmp_path / "t.csv", "--ladders", "general/reply", "--out", tmp_path / "o.csv")
    first, again = fails(2, *asked), fails(2, *asked)
    advice = "builtin counts words and reads no meaning, so name a judge model with --judge"
    assert advice in first
    assert re.search(r"delete the stored results \(4\) in \S*checks to ask again", again)
