"""What `score` was told about columns is known to the commands that read its output."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from json_lines import read_lines, write_lines

import refladder
from refladder.contest.html import review_page
from refladder.contest.ratings import add_rating
from refladder.contest.runs import read_run
from refladder.files.ladder_sets import load_ladders

PROMPTS = [each.text for each in load_ladders("demo/story").contexts.values()][:6]
MAPPED = {"context_id": "ticket", "context": "question", "output": "reply", "system": "model"}
COLUMNS = " ".join(f"--column {field}={name}" for field, name in MAPPED.items())
OK = "--label ok --good >=1 --precision 0.5"
BEST = "--best 1 --per context_id --by overall_score"
UNIT = (
    "no column context_id or context, so each row counts as a unit; if several rows answer one prompt, name its column "
    "with --column context=NAME"
)


@pytest.fixture(scope="module")
def scored(tmp_path_factory):
    """Twelve rows of six stories, scored once by the call, with columns of other names; `id` is nobody's field."""
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
    source = write_lines(folder / "in.jsonl", rows)
    return refladder.score(source, ladders="demo/story", columns=MAPPED, out=folder / "out.jsonl")


@pytest.fixture(params=["call", "command"])
def told(request, scored, tmp_path, command):
    """The output of the call, and that of the command: their run.json say the columns in different ways."""
    if request.param == "call":
        return scored
    source, out = scored.with_name("in.jsonl"), tmp_path / "out.jsonl"
    assert command(f"score {source} --ladders demo/story {COLUMNS} --out {out}").code == 0
    return out


def test_pairs_compare_filter_and_calibrate_know_the_columns(told, command, tmp_path):
    pairs = command(f"pairs {told} --margin 0")
    assert pairs.code == 0
    assert {row["prompt"] for row in pairs.rows} <= set(PROMPTS)
    (compared,) = command(f"compare {told} --json --by overall_score").rows
    counts = [(each["system"], each["contexts"]) for each in compared["systems"]]
    assert counts == [("a", 6), ("b", 6)]
    best = command(f"filter {told} {BEST}")
    assert [row["ticket"] for row in best.rows] == [f"story-{number:02d}" for number in range(1, 7)]
    calibrate = f"calibrate {told} --by overall_score {OK}"
    (result,) = command(f"{calibrate} --json").rows
    assert result["unit"] == "context"
    assert UNIT not in result["notes"]
    assert command(f"{calibrate} --plan --out {tmp_path}/sheet.csv").code == 0
    header = (tmp_path / "sheet.csv").read_text("utf-8").splitlines()[0].split(",")
    assert {"id", "context", "output"} <= set(header)


def test_an_option_comes_first(told, command, tmp_path):
    (compared,) = command(f"compare {told} --json --by overall_score --column system=ok").rows
    assert [each["system"] for each in compared["systems"]] == ["0", "1"]
    absent = command(f"pairs {told} --margin 0 --column output=absent")
    assert "no column 'absent'" in absent.err
    done = command(f"filter {told} {BEST} --column context_id=model")
    assert [row["model"] for row in done.rows] == ["a", "b"]
    assert command(f"review {told} --html {tmp_path}/page.html --column system=id").code == 0
    names = read_run(told, columns={"system": "id"}).key["systems"]
    assert names == sorted(f"r{number}" for number in range(12))
    assert read_run(told).key["systems"] == ["a", "b"]
    done = command(f"filter {told} --min overall_score=0 --column contextid=ticket")
    assert done.code == 2
    assert "unknown field 'contextid'; did you mean 'context_id'?" in done.err


def test_the_rating_file_of_the_page_goes_into_calibrate_as_it_is(told, command):
    """The rows have an `id` that `score` did not know: the page names each text by the id that `score` made of it."""
    sheet = read_run(told)
    sheet.grades.unlink(missing_ok=True)
    assert {text.system for text in sheet.texts} == {"a", "b"}
    assert [row["prompt"] for row in sheet.pool["rows"]] == PROMPTS
    criterion = next(iter(sheet.criteria))
    for number, text in enumerate(sheet.texts):
        rating = {"text": number, "criterion": 0, "value": 5 if text.system == "b" else 1}
        add_rating(sheet, {**rating, "rater": "me"})
    labels = f"--labels {sheet.grades} --label {criterion} --good >=4 --precision 0.5"
    (result,) = command(f"calibrate {told} --by {criterion}_score {labels} --json").rows
    assert (result["labels"], result["unscored"]) == (12, 0)
    assert "Day 3." in review_page(read_run(told))


def test_id_and_output_id_are_one_thing(scored, tmp_path, command):
    rows = read_lines(scored)
    kept = [
        {("output_id" if key == "id" else key): value for key, value in row.items() if key != "ok"}
        for row in rows
    ]
    renamed = write_lines(tmp_path / "renamed.jsonl", kept)
    labels = tmp_path / "labels.csv"
    for name, table in (("output_id", scored), ("id", scored), ("id", renamed)):
        lines = [f"{row['id']},{row['ok']}\n" for row in rows]
        labels.write_text(f"{name},ok\n" + "".join(lines), "utf-8")
        line = f"calibrate {table} --by overall_score --labels {labels} {OK} --json"
        assert command(line).rows[0]["labels"] == 12


def test_a_table_without_contexts_says_what_a_unit_is(tmp_path, command):
    rows = [{"id": number, "s_score": number, "ok": number % 2} for number in range(30)]
    table = write_lines(tmp_path / "t.jsonl", rows)
    line = f"calibrate {table} --by s_score --label ok --good >=1 --precision 0.1"
    done = command(line)
    assert UNIT in (done.out + done.err).replace("\n", " ")
    assert UNIT not in command(f"{line} --unit row").err


def test_a_system_that_is_no_column_is_noticed_by_score(scored, command):
    source = scored.with_name("in.jsonl")
    columns = COLUMNS.replace("system=model", "system=x")
    done = command(f"score {source} --ladders demo/story {columns}")
    assert done.code == 2
    assert "no column 'x' for the system" in done.err


def test_rescore_names_ids_as_the_table_does(told, command, tmp_path):
    out = tmp_path / "rescored.jsonl"
    assert command(f"rescore {told}.judgments.jsonl --rule hard-votes --out {out}").code == 0
    rows = read_lines(out)
    assert [row["ticket"] for row in rows[:3]] == ["story-01", "story-01", "story-02"]
    assert "context_id" not in rows[0]
    assert len(command(f"filter {out} {BEST}").rows) == 6


def test_a_run_is_reviewed_from_another_folder(command, tmp_path, monkeypatch):
    """The paths of a run are relative to where it was made, as its output says."""
    here = tmp_path / "here"
    (here / "results").mkdir(parents=True)
    monkeypatch.chdir(here)
    refladder.build("demo/story", out="mine", writer="builtin")
    write_lines("in.jsonl", [{"context_id": "story-01", "output": "The keeper wept."}])
    line = "score in.jsonl --ladders mine --out results/out.jsonl --judgments judged.jsonl"
    assert command(line).code == 0
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
