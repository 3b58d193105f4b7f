"""What `score` was told about columns is known to the commands that read its output."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

import refladder
from refladder.arena.html import review_page
from refladder.arena.ratings import add_rating
from refladder.arena.runs import read_run
from refladder.files.ladder_sets import load_ladders

PROMPTS = [each.text for each in load_ladders("demo/story").contexts.values()][:6]
MAPPED = {"context_id": "ticket", "context": "question", "output": "reply", "system": "model"}
COLUMNS = [word for field, name in MAPPED.items() for word in ("--column", f"{field}={name}")]
UNIT = (
    "no column context_id or context, so each row counts as a unit; if several rows answer one prompt, name its column "
    "with --column context=NAME"
)


@pytest.fixture(scope="module")
def scored(tmp_path_factory):
    """Twelve rows of six stories, scored once by the command, with columns of other names; `id` is nobody's field."""
    folder = tmp_path_factory.mktemp("monday")
    texts = (
        "The keeper wept.",
        "The keeper found a letter, and the sea took it back before he could read it.",
    )
    rows = [
        {"id": f"r{number}", "ticket": f"story-{number // 2 + 1:02d}", "model": "ab"[number % 2],
         "question": PROMPTS[number // 2], "reply": f"{texts[number % 2]} Day {number}.", "ok": number % 2}
        for number in range(12)
    ]  # fmt: skip
    (folder / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    refladder.score(
        folder / "in.jsonl", ladders="demo/story", columns=MAPPED, out=folder / "out.jsonl"
    )
    return folder / "out.jsonl"


@pytest.fixture(params=["call", "command"])
def told(request, scored, tmp_path, command):
    """The output of the call, and that of the command: their run.json say the columns in different ways."""
    if request.param == "call":
        return scored
    words = ("--ladders", "demo/story", *COLUMNS, "--out", tmp_path / "out.jsonl")
    done = command("score", scored.with_name("in.jsonl"), *words)
    assert done.code == 0, done.err
    return tmp_path / "out.jsonl"


def test_pairs_compare_filter_and_calibrate_know_the_columns(told, command):
    pairs = command("pairs", told, "--margin", 0)
    assert pairs.code == 0
    assert {row["prompt"] for row in pairs.rows} <= set(PROMPTS)
    compared = json.loads(command("compare", told, "--json", "--by", "overall_score").out)
    assert [(each["system"], each["contexts"]) for each in compared["systems"]] == [
        ("a", 6),
        ("b", 6),
    ]
    best = command("filter", told, "--best", 1, "--per", "context_id", "--by", "overall_score")
    assert [row["ticket"] for row in best.rows] == [f"story-{number:02d}" for number in range(1, 7)]
    words = ("--by", "overall_score", "--label", "ok", "--good", ">=1", "--precision", 0.5)
    result = json.loads(command("calibrate", told, *words, "--json").out)
    assert result["unit"] == "context"
    assert UNIT not in result["notes"]


def test_an_option_comes_first(told, command):
    done = command("compare", told, "--json", "--by", "overall_score", "--column", "system=ok")
    assert [each["system"] for each in json.loads(done.out)["systems"]] == ["0", "1"]
    assert (
        "no column 'absent'"
        in command("pairs", told, "--margin", 0, "--column", "output=absent").err
    )


def test_a_label_sheet_holds_the_texts_and_the_names_of_systems(told, tmp_path, command):
    words = (
        "--by",
        "overall_score",
        "--label",
        "ok",
        "--good",
        ">=1",
        "--precision",
        0.5,
        "--plan",
    )
    assert command("calibrate", told, *words, "--out", tmp_path / "sheet.csv").code == 0
    header = (tmp_path / "sheet.csv").read_text("utf-8").splitlines()[0].split(",")
    assert {"id", "context", "output"} <= set(header)


def test_the_rating_file_of_the_page_goes_into_calibrate_as_it_is(told, command):
    """The rows have an `id` that `score` did not know: the page names each text by the id that `score` made of it."""
    sheet = read_run(told)
    sheet.grades.unlink(missing_ok=True)
    assert {text.system for text in sheet.texts} == {"a", "b"}
    assert [row["prompt"] for row in sheet.pool["rows"]] == PROMPTS
    criterion = next(iter(sheet.criteria))
    for number, text in enumerate(sheet.texts):
        add_rating(
            sheet,
            {
                "text": number,
                "criterion": 0,
                "value": 5 if text.system == "b" else 1,
                "rater": "me",
            },
        )
    words = (
        "--labels",
        sheet.grades,
        "--label",
        criterion,
        "--good",
        ">=4",
        "--precision",
        0.5,
        "--json",
    )
    result = json.loads(command("calibrate", told, "--by", f"{criterion}_score", *words).out)
    assert (result["labels"], result["unscored"]) == (12, 0)
    assert "Day 3." in review_page(read_run(told))


def test_id_and_output_id_are_one_thing(scored, tmp_path, command):
    rows = [json.loads(line) for line in scored.read_text("utf-8").splitlines()]
    labels = tmp_path / "labels.csv"
    words = (
        "--by",
        "overall_score",
        "--label",
        "ok",
        "--good",
        ">=1",
        "--precision",
        0.5,
        "--json",
    )
    for name, key in (("output_id", "id"), ("id", "id")):
        labels.write_text(
            f"{name},ok\n" + "".join(f"{row[key]},{row['ok']}\n" for row in rows), "utf-8"
        )
        result = json.loads(command("calibrate", scored, "--labels", labels, *words).out)
        assert (result["labels"], name) == (12, name)
    renamed = tmp_path / "renamed.jsonl"
    kept = [
        {("output_id" if key == "id" else key): value for key, value in row.items() if key != "ok"}
        for row in rows
    ]
    renamed.write_text("".join(json.dumps(row) + "\n" for row in kept), "utf-8")
    assert json.loads(command("calibrate", renamed, "--labels", labels, *words).out)["labels"] == 12


def test_a_table_without_contexts_says_what_a_unit_is(tmp_path, command):
    rows = [{"id": number, "s_score": number, "ok": number % 2} for number in range(30)]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    words = ("--by", "s_score", "--label", "ok", "--good", ">=1", "--precision", 0.1)
    assert UNIT in command("calibrate", tmp_path / "t.jsonl", *words).out.replace(
        "\n", " "
    ) + command("calibrate", tmp_path / "t.jsonl", *words).err.replace("\n", " ")
    assert UNIT not in command("calibrate", tmp_path / "t.jsonl", *words, "--unit", "row").err


def test_build_takes_the_columns_of_score(tmp_path, command):
    (tmp_path / "task.toml").write_text(
        'task = "open"\n[[dimensions]]\nname = "clarity"\ndescription = "Clear?"\n'
    )
    (tmp_path / "t.csv").write_text("question,reply\nWhy rain?,Clouds.\n")
    words = (
        "--task-file",
        tmp_path / "task.toml",
        "--writer",
        "builtin",
        "--rungs",
        2,
        "--out",
        tmp_path / "set",
    )
    done = command(
        f"build {tmp_path}/t.csv --column context=question --column output=reply", *words
    )
    assert done.code == 0, done.err
    done = command(
        f"build {tmp_path}/t.csv --column context=question --column outptu=reply", *words
    )
    assert "unknown field 'outptu'" in done.err


def test_a_system_that_is_no_column_is_noticed_by_score(scored, command):
    words = [*COLUMNS[:-1], "system=x"]
    done = command("score", scored.with_name("in.jsonl"), "--ladders", "demo/story", *words)
    assert done.code == 2
    assert "no column 'x' for the system" in done.err


def test_filter_and_review_take_columns_that_come_first(told, command, tmp_path):
    best = ("--best", 1, "--per", "context_id", "--by", "overall_score")
    done = command("filter", told, *best, "--column", "context_id=model")
    assert [row["model"] for row in done.rows] == ["a", "b"]
    page = tmp_path / "page.html"
    assert command("review", told, "--html", page, "--column", "system=id").code == 0
    assert read_run(told, columns={"system": "id"}).key["systems"] == [
        f"r{n}" for n in (*range(2), 10, 11, *range(2, 10))
    ]
    assert read_run(told).key["systems"] == ["a", "b"]


def test_rescore_names_ids_as_the_table_does(told, command, tmp_path):
    out = tmp_path / "rescored.jsonl"
    done = command("rescore", f"{told}.judgments.jsonl", "--rule", "hard-votes", "--out", out)
    assert done.code == 0
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["ticket"] for row in rows[:3]] == ["story-01", "story-01", "story-02"]
    assert "context_id" not in rows[0]
    best = command("filter", out, "--best", 1, "--per", "context_id", "--by", "overall_score")
    assert len(best.rows) == 6


def test_a_run_is_reviewed_from_another_folder(command, tmp_path, monkeypatch):
    """The paths of a run are relative to where it was made, as its output says."""
    here = tmp_path / "here"
    (here / "results").mkdir(parents=True)
    monkeypatch.chdir(here)
    refladder.build("demo/story", out="mine", writer="builtin")
    row = {"context_id": "story-01", "output": "The keeper wept."}
    Path("in.jsonl").write_text(json.dumps(row) + "\n")
    words = ("--ladders", "mine", "--out", "results/out.jsonl", "--judgments", "judged.jsonl")
    assert command("score", "in.jsonl", *words).code == 0
    monkeypatch.chdir(tmp_path)
    key = read_run(Path("here/results/out.jsonl")).key
    assert key["rungs"][0][0] is not None
    assert key["climbs"][0]
    assert not any("not shown" in warning for warning in key["warnings"])


@pytest.mark.parametrize("kind", [list, pd.DataFrame])
def test_groups_of_filter_are_in_the_column_that_is_named(kind):
    """The table has a column of the field's own name too, whose values are all different."""
    rows = [
        {"context_id": f"row {number}", "topic": "ab"[number % 2], "good_score": float(number)}
        for number in range(6)
    ]
    best = refladder.filter(kind(rows), best=1, per="context_id", columns={"context_id": "topic"})
    assert list(pd.DataFrame(best)["good_score"]) == [4, 5]


def test_an_unknown_field_of_filter_is_an_error(told, command):
    done = command("filter", told, "--min", "overall_score=0", "--column", "contextid=ticket")
    assert done.code == 2
    assert "unknown field 'contextid'; did you mean 'context_id'?" in done.err
