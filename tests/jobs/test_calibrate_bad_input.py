from __future__ import annotations

import json
import math

import pytest
from labelled_rows import scored, split

CALIBRATE = ("--label", "rating", "--good", ">=4", "--by", "clarity_score", "--precision", "0.8")


@pytest.fixture
def tables(write_jsonl):
    """Scored rows and labels, changed first."""

    def write(change_row=None, change_label=None, labels=100, rows=None):
        without, given = split(rows or scored(), labels)
        for number, row in enumerate(without if change_row else ()):
            change_row(number, row)
        for number, label in enumerate(given if change_label else ()):
            change_label(number, label)
        return write_jsonl(without, "scored.jsonl"), write_jsonl(given, "labels.jsonl")

    return write


def renamed(_number, label):
    label["output_id"] += "x"


def test_labels_of_ids_that_are_not_there(command, fails, tables):
    table, labels = tables(change_label=renamed)
    assert fails(2, "calibrate", table, "--labels", labels, *CALIBRATE) == (
        f"refladder: {labels}: 100 of 100 labels not used: {table} does not score their rows, such as output_id "
        f"{first_id(labels)!r}; check that both tables have the same ids\n"
    )
    table, labels = tables(
        change_label=lambda number, label: renamed(number, label) if number < 7 else None
    )
    done = command("calibrate", table, "--labels", labels, *CALIBRATE, "--json")
    told = json.loads(done.out)
    assert told["labels"] == 93
    assert told["notes"][0].startswith("7 of 100 labels not used: ")


def first_id(path):
    return json.loads(path.read_text().splitlines()[0])["output_id"]


def test_no_id_that_both_tables_have(fails, tables, write_jsonl):
    table, _ = tables()
    labels = write_jsonl([{"name": "x", "rating": 4}], "l.jsonl")
    assert (
        f"{labels}: no id column that {table} also has; both need output_id, id, or context_id"
        in fails(2, "calibrate", table, "--labels", labels, *CALIBRATE)
    )


def test_an_id_that_appears_twice(fails, tables):
    table, labels = tables(
        change_row=lambda number, row: row.update(output_id="o1") if number < 3 else None,
        labels=400,
    )
    message = fails(2, "calibrate", table, "--labels", labels, *CALIBRATE)
    assert f"{table}:2: output_id 'o1' appears twice; labels need unique ids" in message


@pytest.mark.parametrize(
    ("rating", "code", "note"),
    [
        (
            5,
            0,
            "every label is good, so the labels cannot show whether the scores separate good rows from bad",
        ),
        (2, 3, "no label meets >=4: they are between 2 and 2"),
    ],
)
def test_constant_labels(command, tables, rating, code, note):
    table, labels = tables(change_label=lambda _, label: label.update(rating=rating))
    done = command("calibrate", table, "--labels", labels, *CALIBRATE)
    assert done.code == code
    assert f"Note: {note}\n" in done.err
    assert "AUC: not known, all labels are equal" in done.out


def test_a_condition_that_nothing_meets(command, tables):
    table, labels = tables()
    done = command(
        "calibrate", table, "--labels", labels, *CALIBRATE[:2], "--good", ">=40", *CALIBRATE[4:]
    )
    assert done.code == 3
    assert "Note: no label meets >=40: they are between 1 and 5\n" in done.err


def test_constant_scores(command, tables):
    table, labels = tables(change_row=lambda _, row: row.update(clarity_score=1.5))
    done = command("calibrate", table, "--labels", labels, *CALIBRATE, "--json")
    told = json.loads(done.out)
    assert done.code == 3
    assert len(told["candidates"]) == 1
    assert "every row has the same score; the only cut-off keeps every row" in told["notes"]


def test_ties_are_kept_together(command, tables):
    table, labels = tables(
        change_row=lambda _, row: row.update(clarity_score=round(row["clarity_score"]))
    )
    told = json.loads(command("calibrate", table, "--labels", labels, *CALIBRATE, "--json").out)
    scores = [json.loads(line)["clarity_score"] for line in table.read_text().splitlines()]
    assert len(told["candidates"]) <= len(set(scores))
    for step in told["candidates"]:
        assert step["kept"] == sum(score >= step["cutoff"] for score in scores)


def test_three_labels(command, tables):
    table, labels = tables(labels=3)
    done = command("calibrate", table, "--labels", labels, *CALIBRATE)
    assert done.code == 3
    assert "Refused: no cut-off reaches " in done.out
    assert "more rows with clarity_score >=" in done.out


def test_not_a_number(fails, tables):
    table, labels = tables(
        change_row=lambda number, row: row.update(clarity_score=math.nan) if number == 4 else None
    )
    assert (
        f"{table}:5: column 'clarity_score' must be a finite number or empty, found nan"
        in fails(2, "calibrate", table, "--labels", labels, *CALIBRATE)
    )
    table, labels = tables(
        change_label=lambda number, label: label.update(rating=math.nan) if number == 1 else None
    )
    assert f"{labels}:2: column 'rating' must be a finite number or empty, found nan" in fails(
        2, "calibrate", table, "--labels", labels, *CALIBRATE
    )


def test_one_context(command, tables):
    table, labels = tables(change_row=lambda _, row: row.update(context_id="only"))
    done = command("calibrate", table, "--labels", labels, *CALIBRATE)
    assert (
        "Note: all labels are of one context, so they show nothing about rows of other contexts\n"
        in done.err
    )


def test_labels_that_are_no_random_sample(command, write_jsonl):
    rows = scored(1000)
    without, _ = split(rows, 0)
    best = sorted(rows, key=lambda row: -row["clarity_score"])[:80]
    labels = write_jsonl(
        [{"output_id": row["output_id"], "rating": row["rating"]} for row in best], "l.jsonl"
    )
    done = command("calibrate", write_jsonl(without), "--labels", labels, *CALIBRATE)
    assert "Note: the labelled rows have other scores than a random sample would have" in done.err


def test_several_labels_of_a_row_are_one(command, tables, write_jsonl):
    table, labels = tables()
    twice = [json.loads(line) for line in labels.read_text().splitlines()] * 2
    done = command(
        "calibrate", table, "--labels", write_jsonl(twice, "twice.jsonl"), *CALIBRATE, "--json"
    )
    once = command("calibrate", table, "--labels", labels, *CALIBRATE, "--json")
    told, expected = json.loads(done.out), json.loads(once.out)
    assert told["notes"][0] == "100 rows with several labels, which count as one: their mean"
    assert {**told, "notes": []} == {**expected, "notes": []}


def test_rows_of_two_signatures(fails, tables):
    table, labels = tables(
        change_row=lambda number, row: row.update(signature="other") if number == 9 else None
    )
    assert f"{table}:10: the scores have another signature here than in {table}:1" in fails(
        2, "calibrate", table, "--labels", labels, *CALIBRATE
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ("--label", "rating", "--by", "clarity_score", "--precision", "0.8"),
            "and which are good: --label COLUMN --good",
        ),
        ((*CALIBRATE, "--recall", "0.8"), "give what to promise: either --precision or --recall"),
        (CALIBRATE[:-2], "give what to promise: either --precision or --recall"),
        (
            (*CALIBRATE[:-1], "80"),
            "a promised precision or recall of 80.0: it must be more than 0 and less than 1",
        ),
        (
            (*CALIBRATE, "--sure", "1"),
            "a promised certainty of 1.0: it must be more than 0 and less than 1",
        ),
        (
            (*CALIBRATE[:3], "high", *CALIBRATE[4:]),
            "--good 'high': must be a comparison with a number, such as '>=4'",
        ),
        (
            (*CALIBRATE[:3], "=>4", *CALIBRATE[4:]),
            "--good '=>4': must be a comparison with a number, such as '>=4'",
        ),
        ((*CALIBRATE[:4], "--precision", "0.8"), "give the column of the scores: --by COLUMN"),
        (
            (*CALIBRATE, "--plan", "--rate", "t.json"),
            "--plan and --rate are different runs; give one of them",
        ),
        (
            ("--rate", "t.json", "--precision", "0.8"),
            "--rate promises nothing; leave out --precision and --recall",
        ),
        (
            (*CALIBRATE[:-2], "--recall", "0.8", "--plan"),
            "--plan is about --precision; leave out --recall",
        ),
        (
            (*CALIBRATE[:5], "clarity_scor", *CALIBRATE[6:]),
            "no column 'clarity_scor'; did you mean 'clarity_score'?",
        ),
    ],
)
def test_wrong_calls(fails, tables, arguments, words):
    table, labels = tables()
    assert words in fails(2, "calibrate", table, "--labels", labels, *arguments)


def test_tables_without_scores_or_labels(fails, tables, write_jsonl):
    table, labels = tables(change_row=lambda _, row: row.update(clarity_score=None))
    message = fails(2, "calibrate", table, *CALIBRATE, "--plan")
    assert "no row has a number in clarity_score; score the rows first" in message
    table = write_jsonl([{**row, "rating": None} for row in scored(20)])
    message = fails(2, "calibrate", table, *CALIBRATE)
    assert "no scored row has a label in rating; fill that column for some rows" in message
    assert f'{labels}: several lines; expected one record with "schema": "threshold/2"' in fails(
        2, "filter", table, "--threshold", labels
    )


def test_no_input_is_overwritten(fails, tables):
    table, labels = tables()
    for path in (table, labels):
        before = path.read_bytes()
        message = fails(2, "calibrate", table, "--labels", labels, *CALIBRATE, "--out", path)
        assert "and --out must be different files" in message
        assert path.read_bytes() == before


def test_words_as_labels(command, tables):
    table, labels = tables(
        change_label=lambda _, label: label.update(rating="yes" if label["rating"] >= 4 else "no")
    )
    words = json.loads(
        command(
            "calibrate",
            table,
            "--labels",
            labels,
            "--label",
            "rating",
            "--good",
            "=yes",
            *CALIBRATE[4:],
            "--json",
        ).out
    )
    table, labels = tables()
    assert (
        words["threshold"]
        == json.loads(command("calibrate", table, "--labels", labels, *CALIBRATE, "--json").out)[
            "threshold"
        ]
    )


@pytest.mark.parametrize("looks", [[], [{"number": 0}], [{"column": "other"}]])
def test_a_damaged_threshold_file(command, fails, tables, tmp_path, looks):
    table, labels = tables()
    path = tmp_path / "threshold.json"
    command("calibrate", table, "--labels", labels, *CALIBRATE, "--out", path)
    record = json.loads(path.read_text())
    path.write_text(json.dumps(record | {"looks": [record["looks"][0] | look for look in looks]}))
    words = f"{path}: threshold/2: the last of its looks must be of its column, and each look must be 1 or more"
    assert words in fails(2, "filter", table, "--threshold", path)
