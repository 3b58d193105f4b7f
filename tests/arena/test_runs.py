"""Runs of compete, score and evaluate as data of the page, and the page as a file."""

from __future__ import annotations

import json
import re

import pytest
from review_data import NASTY, SYSTEMS, contest

from refladder.arena.html import MODULES, PAGE, inert_json, review_page, script
from refladder.arena.runs import read_run
from refladder.errors import DataError


def test_a_contest_is_parted_into_what_may_be_seen_and_what_not(tmp_path):
    data = read_run(contest(tmp_path, rows=3) / "run")
    words = json.dumps(data.pool)
    for clue in (*SYSTEMS, "winner", "forward", "rate", "r0", "aardvark", "It is better"):
        assert clue not in words
    assert data.key["systems"] == list(SYSTEMS)
    assert [len(data.pool["rows"]), len(data.pool["texts"]), len(data.key["trials"])] == [
        3,
        6,
        3,
    ]
    for criterion, first, second, forward, backward, winner, *_ in data.key["trials"]:
        assert criterion == 0
        assert data.pool["texts"][first if winner == 1 else second][1].startswith("good")
        assert (forward > 0.5) == (backward > 0.5) == (winner == 1)


def test_the_number_of_a_text_does_not_follow_its_system(tmp_path):
    data = read_run(contest(tmp_path, rows=40) / "run")
    first = [data.key["texts"][number][0] for number in range(0, 80, 2)]
    assert 8 < sum(first) < 32  # of 40; half of them by chance


def test_a_scored_table_shows_verdicts_against_each_rung(command, write_jsonl, rows, tmp_path):
    table = [{**row, "quality": row["extra"]["n"] / 2, "extra": "x"} for row in rows(6)]
    out = tmp_path / "scored.jsonl"
    given = ["--ladders", "demo/story", "--dimension", "coherence", "--both-orders"]
    assert command("score", write_jsonl(table), *given, "--out", out).code == 0
    data = read_run(out)
    assert list(data.criteria) == ["coherence"]
    assert [column["name"] for column in data.key["columns"]] == [
        "coherence_score",
        "coherence_grade",
        "quality",
    ]
    scored = {row["output_id"]: row for row in map(json.loads, out.read_text().splitlines())}
    for number, text in enumerate(data.texts):
        row = scored[text.id]
        score, grade, quality = (column["values"][number] for column in data.key["columns"])
        assert (score, grade, quality) == (
            row["coherence_score"],
            row["coherence_grade"],
            row["quality"],
        )
    judged = [
        json.loads(line)
        for line in (tmp_path / "scored.jsonl.judgments.jsonl").read_text().splitlines()[1:]
    ]
    about = [line for line in judged if {"o1", "rung:3"} == {line["subject"], line["against"]}]
    # By hand: of each order, win + tie / 2 for o1 over the sum of the three; then the mean of both orders.
    shares = []
    for line in about:
        parts = {
            name: 2.718281828459045**value
            for name, value in zip(line["outcomes"], line["logprobs"], strict=True)
        }
        shares.append(
            (parts["win" if line["subject"] == "o1" else "loss"] + parts["tie"] / 2)
            / sum(parts.values())
        )
    assert len(shares) == 2
    assert data.key["climbs"][0][data.numbers["o1"]][2] == pytest.approx(sum(shares) / 2, abs=1e-4)
    assert len(data.key["rungs"][0][0]) == 5
    assert data.grades.name == "scored.jsonl.ratings.jsonl"


def test_a_changed_ladder_set_is_a_warning(command, write_jsonl, rows, tmp_path):
    out = tmp_path / "scored.jsonl"
    assert command("score", write_jsonl(rows(2)), "--ladders", "demo/story", "--out", out).code == 0
    config = tmp_path / "scored.jsonl.run.json"
    config.write_text(config.read_text().replace("demo/story", "demo/dialogue"))
    data = read_run(out)
    assert "rungs" not in data.key
    assert data.key["warnings"][-1:] == [
        "The rungs are not shown: the ladder set demo/dialogue has changed since the table was scored."
    ]


def test_what_is_no_run_is_told(tmp_path):
    with pytest.raises(
        DataError, match=r"no such run; give a folder of `compete` or `evaluate --work`, or a table"
    ):
        read_run(tmp_path / "none")
    with pytest.raises(
        DataError, match=r"no results\.jsonl in this folder; give the folder of `compete --out`"
    ):
        read_run(tmp_path)
    (tmp_path / "results.jsonl").write_text('{"kind": 1}\n')
    with pytest.raises(DataError, match=r"results\.jsonl:1: not a line of a run"):
        read_run(tmp_path)
    for number in ("NaN", "-Infinity", "1e999"):
        (tmp_path / "results.jsonl").write_text(
            '{"kind": "row"}\n{"kind": "score", "value": [' + number + "]}\n"
        )
        with pytest.raises(
            DataError,
            match=r"results\.jsonl:2: a number that is not finite; run the command again$",
        ):
            read_run(tmp_path)
    (tmp_path / "results.jsonl").write_text('{"kind": "row", "row": "a", "note": null}\n')
    with pytest.raises(
        DataError, match=r"results\.jsonl: not complete \(a line, or run.json, lacks 'prompt'"
    ):
        read_run(tmp_path)


def test_options_never_reach_the_page(tmp_path):
    folder = contest(tmp_path, rows=2)
    config = folder / "run" / "run.json"
    fields = json.loads(config.read_text())
    fields["options"]["judge_option"] = ["api_key=sk-secret-1"]
    config.write_text(json.dumps(fields))
    page = review_page(read_run(folder / "run"))
    assert "sk-secret-1" not in page


def test_data_in_the_page_cannot_end_its_element():
    text = inert_json({"text": NASTY, "lone": "\ud800"})
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == {"text": NASTY, "lone": "\ud800"}


def test_modules_are_one_script_without_names_that_clash():
    text = script()
    assert not re.search(r"^(import|export) ", text, re.MULTILINE)
    names = re.findall(r"^(?:async )?(?:function|const|let|class) (\w+)", text, re.MULTILINE)
    assert sorted(name for name in set(names) if names.count(name) > 1) == []
    assert {f"{name}.js" for name in MODULES} | {"style.css"} == {
        path.name for path in PAGE.iterdir()
    }
    seen = set()
    for name in MODULES:
        needed = set(
            re.findall(r'from "\./(\w+)\.js"', (PAGE / f"{name}.js").read_text(encoding="utf-8"))
        )
        assert needed <= seen, name
        seen.add(name)


def test_an_evaluation_is_reviewed_with_its_ratings_and_tables(command, tmp_path):
    work = tmp_path / "work"
    assert (
        command("evaluate", "demo/dialogue", "--methods", "ladder,win-ratio", "--work", work).code
        == 0
    )
    data = read_run(work)
    assert list(data.criteria) == ["engagingness"]
    assert [column["name"] for column in data.key["columns"]] == [
        "ladder: engagingness",
        "win-ratio: engagingness",
        "mean human rating: engagingness",
    ]
    assert len(data.texts) == len(data.key["people"]) == 84
    assert "demo/dialogue, cost: what each method needed" in [
        table["caption"] for table in data.key["tables"]
    ]
    ratings = [
        line
        for line in map(json.loads, (work / "results.jsonl").read_text().splitlines())
        if line["kind"] == "rating"
    ]
    values = data.key["columns"][2]["values"]
    assert {line["id"]: line["value"] for line in ratings} == {
        text.id: value for text, value in zip(data.texts, values, strict=True)
    }


def test_a_scored_table_without_judgments_or_configuration_is_still_shown(tmp_path):
    path = tmp_path / "scores.csv"
    path.write_text(
        "context_id,system,output,clarity_score,clarity_grade,label\nc,a,Rain.,-2.5,2,1\nc,b,,1,3,0\n"
    )
    data = read_run(path)
    assert list(data.criteria) == ["clarity"]
    assert [column["values"] for column in data.key["columns"]] == [
        [-2.5],
        [2],
        [1],
    ]  # negative scores stay negative
    assert data.key["warnings"] == ["1 row without a text: not shown."]
    assert "climbs" not in data.key


@pytest.fixture
def rows_of_a_table(write_jsonl, rows):
    return write_jsonl(rows(4))


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        (
            "run.json",
            lambda _: "[]",
            "scored.jsonl.run.json: damaged; score the table again, or delete this file if",
        ),
        (
            "run.json",
            lambda text: text.replace('"column": []', '"column": [1]'),
            "run.json: damaged; score the table",
        ),
        (
            "run.json",
            lambda text: text.replace('"above_top": {', '"above_top": {"x": "1", '),
            "run.json: damaged; score",
        ),
        (
            "judgments.jsonl",
            lambda text: text.replace('"dimension":"coherence"', '"dimension":"other"'),
            "judgments.jsonl:2: dimension 'other' is not among the run's: ['coherence']",
        ),
    ],
)
def test_damaged_files_of_a_run_are_named(command, rows_of_a_table, name, change, message):
    source = rows_of_a_table
    out = source.with_name("scored.jsonl")
    assert (
        command(
            "score", source, "--ladders", "demo/story", "--dimension", "coherence", "--out", out
        ).code
        == 0
    )
    path = out.with_name(f"scored.jsonl.{name}")
    before = path.read_text("utf-8")
    path.write_text(change(before), "utf-8")
    assert path.read_text("utf-8") != before
    with pytest.raises(DataError) as refused:
        read_run(out)
    assert message in str(refused.value)
