"""Runs of compete, score and evaluate as data of the review page."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest
from json_lines import read_lines
from refusals import refuses
from review_data import SYSTEMS, contest

from refladder.contest.ratings import add_rating, ratings_of
from refladder.contest.runs import read_run
from refladder.errors import DataError
from refladder.files.ladder_sets import load_ladders


def test_a_contest_is_parted_into_what_may_be_seen_and_what_not(tmp_path):
    data = read_run(contest(tmp_path, rows=3) / "run")
    words = json.dumps(data.pool)
    clues = (*SYSTEMS, "winner", "forward", "rate", "r0", "It is better")
    assert [clue for clue in clues if clue in words] == []
    assert data.key["systems"] == list(SYSTEMS)
    assert (len(data.pool["rows"]), len(data.pool["texts"]), len(data.key["trials"])) == (3, 6, 3)
    for criterion, first, second, forward, backward, winner, *_ in data.key["trials"]:
        assert criterion == 0
        assert data.pool["texts"][first if winner == 1 else second][1].startswith("good")
        assert (forward > 0.5) == (backward > 0.5) == (winner == 1)


def test_the_number_of_a_text_does_not_follow_its_system(tmp_path):
    data = read_run(contest(tmp_path, rows=40) / "run")
    first = [data.key["texts"][number][0] for number in range(0, 80, 2)]
    assert 8 < sum(first) < 32  # of 40; half of them by chance


def columns_of(data):
    return {column["name"]: column["values"] for column in data.key["columns"]}


@pytest.fixture
def scored(command, write_jsonl, rows, tmp_path):
    """A scored table of six rows, with a column of numbers that is the user's own."""
    table = [{**row, "quality": row["extra"]["n"] / 2, "extra": "x"} for row in rows(6)]
    out = tmp_path / "scored.jsonl"
    given = ["--ladders", "demo/story", "--dimension", "coherence", "--both-orders"]
    assert command("score", write_jsonl(table), *given, "--out", out).code == 0
    return out


def test_a_scored_table_shows_verdicts_against_each_rung(scored, tmp_path):
    data = read_run(scored)
    assert list(data.criteria) == ["coherence"]
    names = ["coherence_score", "coherence_grade", "quality"]
    columns = columns_of(data)
    assert list(columns) == names
    by_id = {row["output_id"]: row for row in read_lines(scored)}
    for number, text in enumerate(data.texts):
        shown = [columns[name][number] for name in names]
        assert shown == [by_id[text.id][name] for name in names]
    judged = read_lines(tmp_path / "scored.jsonl.judgments.jsonl")[1:]
    about = [line for line in judged if {"o1", "rung:3"} == {line["subject"], line["against"]}]
    # By hand: of each order, win + tie / 2 for o1 over the sum of the three; then the mean of both orders.
    shares = []
    for line in about:
        parts = dict(zip(line["outcomes"], map(math.exp, line["logprobs"]), strict=True))
        won = parts["win" if line["subject"] == "o1" else "loss"]
        shares.append((won + parts["tie"] / 2) / sum(parts.values()))
    assert len(shares) == 2
    assert data.key["climbs"][0][data.numbers["o1"]][2] == pytest.approx(sum(shares) / 2, abs=1e-4)
    assert len(data.key["rungs"][0][0]) == 5
    assert data.grades.name == "scored.jsonl.ratings.jsonl"


def test_rungs_of_a_shared_set_are_grouped_by_the_request_of_their_anchor(
    command, write_jsonl, tmp_path
):
    out = tmp_path / "scored.jsonl"
    table = [
        {"output_id": "a", "context": "Say hello.", "output": "Hello to you."},
        {"output_id": "b", "context": "Say bye.", "output": "Goodbye, my friend."},
        {"output_id": "c", "context": "Say nothing.", "output": ""},
    ]
    line = f"score {write_jsonl(table)} --ladders general/reply --anchors 2 --dimension clarity --any-judge"
    assert command(f"{line} --out {out}").code == 3
    data = read_run(out)
    ladders = load_ladders("general/reply")
    anchors = ladders.anchors[:2]
    assert data.key["anchors"] == [ladders.contexts[anchor].text for anchor in anchors]
    # One list for all rows: the rungs of the first anchor, then those of the second.
    assert data.key["rungs"] == [
        [[rung.text for anchor in anchors for rung in ladders.ladders[anchor, "clarity"].rungs]]
    ]
    judged = {
        line["against"]: line
        for line in read_lines(f"{out}.judgments.jsonl")[1:]
        if line.get("subject") == "a"
    }
    shares = []
    for anchor in anchors:
        for level in range(1, 6):
            line = judged[f"rung:{level}@{anchor}"]
            parts = dict(zip(line["outcomes"], map(math.exp, line["logprobs"]), strict=True))
            shares.append((parts["win"] + parts["tie"] / 2) / sum(parts.values()))
    assert data.key["climbs"][0][data.numbers["a"]] == pytest.approx(shares, abs=1e-4)
    # A context of one text without an id of its own is called as its text.
    assert [row["name"] for row in data.key["rows"]] == ["a", "b"]
    assert data.key["without_text"] == 1


def test_a_changed_ladder_set_is_a_warning(scored):
    config = scored.with_name("scored.jsonl.run.json")
    config.write_text(config.read_text().replace("demo/story", "demo/dialogue"))
    data = read_run(scored)
    assert "rungs" not in data.key
    words = r"The rungs are not shown: the table was scored with demo/story@\w{12}, and demo/dialogue has other ladders now\."
    assert re.fullmatch(words, data.key["warnings"][-1])


def test_the_page_of_files_names_all_data_of_the_review_page(scored, command, tmp_path):
    assert command(f"evaluate demo/dialogue --methods ladder --work {tmp_path / 'work'}").code == 0
    runs = [contest(tmp_path, rows=3) / "run", scored, tmp_path / "work"]
    page = (Path(__file__).parents[2] / "docs/reference/files.md").read_text("utf-8")
    table = page.partition("### Data of the review page\n")[2].partition("\n## ")[0]
    named = re.findall(r"^\| (pool|key) \| (`[^|]*`) \| ([a-z, ]+) \|", table, re.MULTILINE)
    for data in map(read_run, runs):
        kind = data.pool["kind"]
        for part in ("pool", "key"):
            assert (kind, set(getattr(data, part))) == (
                kind,
                {
                    key
                    for of, keys, kinds in named
                    if of == part and (kinds == "all" or kind in kinds.split(", "))
                    for key in re.findall("`([a-z_]+)`", keys)
                },
            )


def test_damaged_files_of_a_run_are_named(scored):
    def refused(name, old, new, message):
        path = scored.with_name(f"scored.jsonl.{name}")
        before = path.read_text("utf-8")
        path.write_text(re.sub(old, new, before, flags=re.DOTALL), "utf-8")
        assert path.read_text("utf-8") != before
        refuses(DataError, rf"scored\.jsonl\.{name}{message}", read_run, scored)
        path.write_text(before, "utf-8")

    message = ": not the record of a run field '{}': .*; delete it, or run the command again"
    refused("run.json", r"\{.*\}", "[]", message.replace(" field '{}'", ""))
    column = message.format(r"options\.column\.0")
    refused("run.json", r'"column": \[\]', '"column": [1]', column)
    above = message.format(r"above_top\.x")
    refused("run.json", r'"above_top": \{', '"above_top": {"x": "1", ', above)
    message = r":2: dimension 'other' is not among the run's: \['coherence'\]"
    refused("judgments.jsonl", '"dimension":"coherence"', '"dimension":"other"', message)


NOT_FINITE = r"results\.jsonl:2: a number that is not finite; run the command again$"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, r"no results\.jsonl in this folder; give the folder of `compete --out`"),
        ('{"kind": 1}\n', r"results\.jsonl:1: not a line of a run"),
        ('{"kind": "row"}\n{"kind": "score", "value": [NaN]}\n', NOT_FINITE),
        ('{"kind": "row"}\n{"kind": "score", "value": [-Infinity]}\n', NOT_FINITE),
        ('{"kind": "row"}\n{"kind": "score", "value": [1e999]}\n', NOT_FINITE),
        (
            '{"kind": "row", "row": "a", "note": null}\n',
            r"results\.jsonl: not complete \(a line, or run.json, lacks 'prompt'",
        ),
    ],
)
def test_what_is_no_run_is_refused(tmp_path, text, message):
    if text is not None:
        (tmp_path / "results.jsonl").write_text(text)
    with pytest.raises(DataError, match=message):
        read_run(tmp_path)


def test_a_run_that_does_not_exist(tmp_path):
    message = r"no such run; give a folder of `compete` or `evaluate --work`, or a table"
    with pytest.raises(DataError, match=message):
        read_run(tmp_path / "none")


def test_an_evaluation_is_reviewed_with_its_ratings_and_tables(command, tmp_path):
    work = tmp_path / "work"
    given = ("--methods", "ladder,win-ratio", "--work", work)
    assert command("evaluate", "demo/dialogue", *given, "--resamples", "5").code == 0
    data = read_run(work)
    assert list(data.criteria) == ["engagingness"]
    columns = columns_of(data)
    human = "mean human rating: engagingness"
    assert list(columns) == ["ladder: engagingness", "win-ratio: engagingness", human]
    assert len(data.texts) == len(data.key["people"]) == 84
    captions = [table["caption"] for table in data.key["tables"]]
    assert "demo/dialogue, cost: what each method needed" in captions
    lines = [line for line in read_lines(work / "results.jsonl") if line["kind"] == "rating"]
    shown = {text.id: value for text, value in zip(data.texts, columns[human], strict=True)}
    assert {line["id"]: line["value"] for line in lines} == shown


def test_a_scored_table_without_judgments_or_configuration_is_still_shown(tmp_path):
    path = tmp_path / "scores.csv"
    path.write_text(
        "context_id,system,output,clarity_score,clarity_grade,label\nc,a,Rain.,-2.5,2,1\nc,b,,1,3,0\n"
    )
    data = read_run(path)
    assert list(data.criteria) == ["clarity"]
    assert data.pool["rows"] == [{"prompt": None}]
    # negative scores stay negative
    assert list(columns_of(data).values()) == [[-2.5], [2], [1]]
    assert data.key["warnings"] == [
        "1 row without a text: not shown.",
        "The verdicts and the rungs are not shown: no judgments in scores.csv.judgments.jsonl.",
    ]
    assert "climbs" not in data.key


def test_every_row_is_shown_also_where_two_systems_gave_one_answer(command, write_jsonl, tmp_path):
    texts = [("a", "A lamp."), ("b", "A lamp."), ("a", "A lamp."), ("b", "A lamp went out.")]
    table = [{"context_id": "story-01", "system": name, "output": text} for name, text in texts]
    out = tmp_path / "scored.jsonl"
    line = ("score", write_jsonl(table), "--ladders", "demo/story", "--dimension", "coherence")
    assert command(*line, "--out", out).code == 0
    data = read_run(out)
    assert sorted((text.system, text.text) for text in data.texts) == sorted(texts)
    shown = [data.key["names"][number] for number in range(4)]
    assert sorted(shown) == ["row 1", "row 2", "row 3", "row 4"]
    by_row = {f"row {number}": row for number, row in enumerate(read_lines(out), start=1)}
    scores = columns_of(data)["coherence_score"]
    assert scores == [by_row[name]["coherence_score"] for name in shown]
    # The three copies have the verdicts of one text, and are rated as one.
    assert sorted(data.key["climbs"][0]) == [0, 1, 2, 3]
    lamps = [number for number, text in enumerate(data.texts) if text.text == "A lamp."]
    assert data.pool["copies"] == lamps[1:]
    words = "2 rows with the text and context of an earlier row: shown, and rated with it."
    assert words in data.key["warnings"]
    rating = {"text": lamps[2], "criterion": 0, "value": 3, "rater": "me"}
    add_rating(data, rating)
    assert ratings_of(data) == [{**rating, "text": lamps[0]}]


def test_a_table_without_the_record_of_its_run_has_no_rungs(scored):
    scored.with_name("scored.jsonl.run.json").unlink()
    data = read_run(scored)
    assert "rungs" not in data.key
    assert data.key["climbs"][0]
    words = "The rungs are not shown: no ladder set is named in scored.jsonl.run.json."
    assert data.key["warnings"] == [words]


def test_a_table_without_scores_is_refused_with_the_next_step(write_jsonl, rows):
    message = (
        r"in\.jsonl: no columns NAME_score and NAME_grade; the page shows scores, so run `refladder score` first "
        r"and give its output$"
    )
    refuses(DataError, message, read_run, write_jsonl(rows(2)))
