from __future__ import annotations

import csv
import hashlib
import json
import re

import numpy as np
import pytest
from labelled_rows import SIGNATURE, scored, split
from scipy.stats import binom

from refladder.files.jsonl import read_record, write_record
from refladder.jobs.calibrate import Promise, calibrate
from refladder.jobs.labelling import Good, LabelledTable, read_pool
from refladder.records import Look, Threshold

BY = ("--by", "clarity_score")
GOOD = ("--label", "rating", "--good", ">=4")
PROMISE = ("--precision", "0.8", "--sure", "0.9")


@pytest.fixture
def files(write_jsonl):
    def write(rows=None, labels=120):
        without, given = split(rows or scored(), labels)
        return write_jsonl(without, "scored.jsonl"), write_jsonl(given, "labels.jsonl")

    return write


def test_from_labels_to_filtered_rows(command, files, tmp_path):
    table, labels = files()
    out = tmp_path / "threshold.json"
    done = command(
        "calibrate", table, "--labels", labels, *GOOD, *BY, *PROMISE, "--out", out, "--json"
    )
    assert done.code == 0
    told = json.loads(done.out)
    assert {
        "threshold",
        "refused",
        "labels_above",
        "bad_above",
        "kept",
        "kept_share",
        "labels_needed",
    } <= set(told)
    assert (told["precision"], told["sure"], told["refused"], told["labels_needed"]) == (
        0.8,
        0.9,
        False,
        0,
    )
    # counted anew from the files
    ratings = {
        row["output_id"]: row["rating"] for row in map(json.loads, labels.read_text().splitlines())
    }
    rows = [json.loads(line) for line in table.read_text().splitlines()]
    kept = [row for row in rows if row["clarity_score"] >= told["threshold"]]
    above = [ratings[row["output_id"]] >= 4 for row in kept if row["output_id"] in ratings]
    assert (told["labels_above"], told["bad_above"]) == (len(above), above.count(False))
    assert (told["kept"], told["kept_share"]) == (len(kept), len(kept) / len(rows))
    assert binom.cdf(above.count(False), len(above), 0.2) <= 0.1
    passed = command("filter", table, "--threshold", out)
    assert passed.rows == kept
    assert passed.err.startswith(f"400 rows: {len(kept)} passed")
    record = read_record(Threshold, out)
    assert (record.column, record.cutoff, record.signature) == (
        "clarity_score",
        told["threshold"],
        SIGNATURE,
    )


def test_the_report_for_people(command, files):
    table, labels = files()
    done = command("calibrate", table, "--labels", labels, *GOOD, *BY, *PROMISE)
    assert done.code == 0
    sentences = [
        "400 rows; 120 labels, taken as a random sample of them",
        "without a promise: clarity_score >= ",
        "baseline without a judge (",
        "good among all rows: ",
        "With probability 0.9, at least 0.8 of the rows kept are good. 0.8 is a lower bound: the labels that chose",
    ]
    assert [words for words in sentences if words not in done.out] == []
    assert (
        sum(" | " in line or "|" in line for line in done.out.splitlines()) >= 20
    )  # a bar for each candidate
    assert "labels are of" in done.err  # two rows of a context


def test_labels_in_the_scored_table(command, write_jsonl, files):
    rows = scored()
    _, given = split(rows, 120)
    labelled = {label["output_id"] for label in given}
    table = write_jsonl(
        [{**row, "rating": row["rating"] if row["output_id"] in labelled else None} for row in rows]
    )
    alone = json.loads(command("calibrate", table, *GOOD, *BY, *PROMISE, "--json").out)
    absent = [{**row} if row["output_id"] in labelled else {**row, "rating": None} for row in rows]
    absent = [{key: value for key, value in row.items() if value is not None} for row in absent]
    assert alone == json.loads(
        command("calibrate", write_jsonl(absent), *GOOD, *BY, *PROMISE, "--json").out
    )
    scored_table, labels = files(rows)
    apart = json.loads(
        command("calibrate", scored_table, "--labels", labels, *GOOD, *BY, *PROMISE, "--json").out
    )
    assert alone == apart


def test_a_refusal_says_how_many_labels_would_do(command, files, tmp_path):
    table, labels = files(labels=12)
    out = tmp_path / "threshold.json"
    done = command(
        "calibrate",
        table,
        "--labels",
        labels,
        *GOOD,
        *BY,
        "--precision",
        "0.9",
        "--out",
        out,
        "--json",
    )
    assert done.code == 3
    told = json.loads(done.out)
    assert (told["threshold"], told["refused"], told["kept"]) == (None, True, 0)
    cut = told["lowest_candidate"]
    step = next(each for each in told["candidates"] if each["cutoff"] == cut)
    # At the second look, 0.9 of .005: 52 labels do if none is bad, 73 if one is, 91 if two are (scipy.stats.binom)
    assert told["labels_needed"] == {0: 52, 1: 73, 2: 91}[step["bad_above"]] - step["labels_above"]
    done = command("calibrate", table, "--labels", labels, *GOOD, *BY, "--precision", "0.9")
    assert done.code == 3
    assert (
        "Refused: no cut-off reaches 0.9 precision with certainty 0.9. "
        f"Label at least {told['labels_needed']} more rows with clarity_score >=" in done.out
    )
    refused = command("filter", table, "--threshold", out)
    assert refused.code == 2
    assert (
        "no cut-off could be promised from 12 labels; label more rows and run `refladder calibrate` again"
        in refused.err
    )


@pytest.mark.parametrize("promise", [{"precision": 0.9}, {"recall": 0.95}])
@pytest.mark.parametrize("labels", [3, 20, 80, 250])
def test_labels_are_needed_just_where_the_promise_is_refused(files, labels, promise):
    for seed in range(4):
        table, given = files(scored(400, seed, noise=2.0), labels)
        asked = LabelledTable(
            source=str(table),
            labels=(str(given),),
            by="clarity_score",
            label="rating",
            good=Good(">=4"),
        )
        result = calibrate(read_pool(asked), asked, Promise(**promise))
        assert (result.labels_needed == 0) is not result.refused
        if result.possible and result.refused:
            assert 0 < result.labels_needed <= result.rows_left


def test_scores_of_another_signature_are_refused(command, files, tmp_path):
    table, labels = files()
    out = tmp_path / "threshold.json"
    command("calibrate", table, "--labels", labels, *GOOD, *BY, *PROMISE, "--out", out)
    other = tmp_path / "other.jsonl"
    other.write_text(table.read_text().replace("backend:judge", "backend:other"))
    done = command("filter", other, "--threshold", out)
    assert done.code == 2
    assert (
        f"{other}:1: the threshold was made for scores with another signature: backend:other here, backend:judge in "
        "the threshold file; run `refladder calibrate` with labels of these scores" in done.err
    )
    done = command("filter", table, "--threshold", out, "--min", "tone_score=1")
    assert done.code == 2
    assert "--threshold cannot be combined with other conditions" in done.err


def test_the_best_row_of_each_context(command, files, tmp_path):
    rows = scored(600)
    rows[3]["clarity_score"] = rows[2]["clarity_score"] = 9.0  # of equal rows the first is taken
    table, labels = files(rows, 300)
    out = tmp_path / "t.json"
    best_rows = tmp_path / "best.jsonl"
    command(
        "filter",
        table,
        "--best",
        "1",
        "--per",
        "context_id",
        "--by",
        "clarity_score",
        "--out",
        best_rows,
    )
    done = command(
        "calibrate", best_rows, "--labels", labels, *GOOD, *BY, *PROMISE, "--out", out, "--json"
    )
    told = json.loads(done.out)
    best = {}
    for row in rows:
        if (
            row["context_id"] not in best
            or row["clarity_score"] > best[row["context_id"]]["clarity_score"]
        ):
            best[row["context_id"]] = row
    kept = [row["output_id"] for row in best.values() if row["clarity_score"] >= told["threshold"]]
    assert (told["rows"], told["kept"]) == (300, len(kept))
    assert [
        row["output_id"] for row in command("filter", best_rows, "--threshold", out).rows
    ] == kept
    assert any(
        f"labels not used: {best_rows} does not score their rows" in note for note in told["notes"]
    )


def test_a_recall_keeps_more_rows_for_more_good_ones(command, files):
    table, labels = files()
    few, many = (
        json.loads(
            command(
                "calibrate", table, "--labels", labels, *GOOD, *BY, "--recall", share, "--json"
            ).out
        )
        for share in ("0.7", "0.9")
    )
    assert few["kept"] < many["kept"]
    assert (few["recall"], few["precision"]) == (0.7, None)
    done = command("calibrate", table, "--labels", labels, *GOOD, *BY, "--recall", "0.97")
    assert done.code == 3
    assert re.search(r"Label more rows, of which at least \d+ must be good\.\n", done.out)
    done = command("calibrate", table, "--labels", labels, *GOOD, *BY, "--recall", "0.99")
    assert done.code == 3
    assert re.search(
        r"at least \d+ more good labels of rows are needed, and 280 rows there have no label\.\n",
        done.out,
    )


def test_a_plan_and_the_labels_that_follow_it(command, files, tmp_path):
    rows = scored(2000)
    table, labels = files(rows, 60)
    plan = tmp_path / "next.csv"
    common = (table, "--labels", labels, *GOOD, *BY, "--precision", "0.9")
    done = command("calibrate", *common, "--plan", "--out", plan)
    assert done.code == 0
    assert "a random sample of rows with clarity_score >=" in done.out
    with plan.open(newline="") as stream:
        drawn = list(csv.DictReader(stream))
    assert len(drawn) == 200
    assert list(drawn[0]) == [
        "output_id",
        "context_id",
        "context",
        "output",
        "rating",
        "clarity_score_sampled_above",
    ]
    cut = float(drawn[0]["clarity_score_sampled_above"])
    ratings = {row["output_id"]: row for row in rows}
    assert all(
        ratings[row["output_id"]]["clarity_score"] >= cut and row["rating"] == "" for row in drawn
    )
    used = {json.loads(line)["output_id"] for line in labels.read_text().splitlines()}
    assert not used & {row["output_id"] for row in drawn}
    with plan.open("w", newline="") as stream:  # people fill the column
        writer = csv.DictWriter(stream, list(drawn[0]))
        writer.writeheader()
        writer.writerows([{**row, "rating": ratings[row["output_id"]]["rating"]} for row in drawn])
    told = json.loads(command("calibrate", *common, "--labels", plan, "--json").out)
    # no candidate is below the score that rows were drawn from, and labels below it are not used
    assert min(step["cutoff"] for step in told["candidates"]) == cut
    above = sum(ratings[name]["clarity_score"] >= cut for name in used)
    assert told["labels"] == 200 + above
    assert told["good_share"] is None  # these labels show nothing about all rows
    done = command("calibrate", *common[:-2], "--labels", plan, "--recall", "0.9")
    assert done.code == 2
    assert (
        "all labels are of rows above a score, so they cannot show recall; label rows of all scores"
        in done.err
    )


def test_a_plan_without_labels(command, files):
    table, _ = files()
    shown = command("calibrate", table, *BY, "--precision", "0.9", "--plan").out.splitlines()
    assert (
        shown[-1] == "Rows to label next: a random sample of all rows. Add --out FILE to write it."
    )
    told = json.loads(
        command("calibrate", table, *BY, "--precision", "0.9", "--plan", "--json").out
    )
    # scipy.stats.binom at .081, the walk of the first look; .081 ** (1 / 20) = .8819
    allowed = [
        int((binom.cdf(np.arange(more), more, 0.1) <= 0.081).sum()) - 1
        for more in (20, 50, 100, 200)
    ]
    assert allowed == [-1, 1, 5, 13]
    assert [batch["bad_allowed"] for batch in told["batches"]] == [None, 1, 5, 13]
    assert told["batches"][0]["precision"] == pytest.approx(0.081 ** (1 / 20))


def test_the_rate_is_taken_from_other_labels(command, files, write_jsonl, tmp_path):
    rows = [{**row, "output": f"Text {number}."} for number, row in enumerate(scored(2000))]
    table, labels = files(rows, 200)
    out = tmp_path / "t.json"
    command("calibrate", table, "--labels", labels, *GOOD, *BY, *PROMISE, "--out", out)
    done = command("calibrate", table, "--labels", labels, *GOOD, "--rate", out)
    assert done.code == 3
    assert "left out: 200 labels that chose the threshold" in done.out
    assert (
        "No rate: no label of a kept row is left. Its lower bound is 0.8, with probability 0.9."
        in done.out
    )
    _, fresh = split(rows, 700, seed=5)
    both = command(
        "calibrate",
        table,
        "--labels",
        write_jsonl(fresh, "fresh.jsonl"),
        *GOOD,
        "--rate",
        out,
        "--json",
    )
    told = json.loads(both.out)
    cut = read_record(Threshold, out).cutoff
    used = {json.loads(line)["output_id"] for line in labels.read_text().splitlines()}
    scores = {row["output_id"]: row["clarity_score"] for row in rows}
    left = [
        label["rating"] >= 4
        for label in fresh
        if label["output_id"] not in used and scores[label["output_id"]] >= cut
    ]
    assert (told["labels"], told["rate"]["value"]) == (len(left), np.mean(left))
    truth = np.mean([row["rating"] >= 4 for row in rows if row["clarity_score"] >= cut])
    for rate in (told["rate"], told["powered"]):
        assert rate["low"] <= truth <= rate["high"]


@pytest.mark.parametrize(
    ("dropped", "renamed"),
    [
        (("output_id",), {}),  # context_id names the row now
        (("output_id", "context"), {}),
        (("output_id", "context_id"), {}),  # only the texts are left
        (("context", "context_id"), {}),  # the id alone
        (("context_id",), {"output_id": "again"}),  # a copied table with ids of its own
    ],
)
def test_a_row_under_another_id_is_not_used_again(command, write_jsonl, tmp_path, dropped, renamed):
    rows = [{**row, "output": f"Text {number}."} for number, row in enumerate(scored())]
    out = tmp_path / "t.json"
    command(
        "calibrate", write_jsonl(rows[:300]), *GOOD, *BY, *PROMISE, "--unit", "row", "--out", out
    )
    copied = [
        {name: f"{renamed.get(name, '')}{cell}" if name in renamed else cell for name, cell in row.items()
         if name not in dropped}
        for row in rows
    ]  # fmt: skip
    done = command("calibrate", write_jsonl(copied, "copy.jsonl"), *GOOD, "--rate", out, "--json")
    told = json.loads(done.out)
    cut = read_record(Threshold, out).cutoff
    assert told["reused"] == 300
    assert told["labels"] == sum(row["clarity_score"] >= cut for row in rows[300:])
    assert told["notes"] == []


def test_a_text_of_another_context_is_another_row(command, write_jsonl, tmp_path):
    rows, out = scored(), tmp_path / "t.json"  # few different texts; a context_id of two rows each
    command(
        "calibrate", write_jsonl(rows[:300]), *GOOD, *BY, *PROMISE, "--unit", "row", "--out", out
    )
    others = [
        {**row, "output_id": f"x{number}", "context": f"{number}"}
        for number, row in enumerate(rows[300:])
    ]
    told = json.loads(
        command("calibrate", write_jsonl(others, "new.jsonl"), *GOOD, "--rate", out, "--json").out
    )
    assert told["reused"] == 0


def test_a_threshold_file_that_knows_only_ids_is_said_to(command, write_jsonl, tmp_path):
    rows, out = scored(), tmp_path / "t.json"
    command(
        "calibrate", write_jsonl(rows[:300]), *GOOD, *BY, *PROMISE, "--unit", "row", "--out", out
    )
    record = json.loads(out.read_text())
    # as from a table without texts: hashlib.blake2b(b"('o0',)", digest_size=6)
    record["used"] = [
        hashlib.blake2b(f"('o{n}',)".encode(), digest_size=6).hexdigest() for n in range(300)
    ]
    out.write_text(json.dumps(record))
    told = json.loads(
        command("calibrate", write_jsonl(rows, "all.jsonl"), *GOOD, "--rate", out, "--json").out
    )
    assert told["reused"] == 300
    note = "the threshold file knows the labels that chose it by their ids alone, so the same rows under other ids would "
    assert told["notes"] == [f"{note}be used again; calibrate again on a table with texts"]


@pytest.mark.parametrize("listed", [lambda ratings: ratings, json.dumps])
def test_ratings_of_several_people_are_their_mean(command, write_jsonl, listed):
    """A list, or JSON in a cell: [4, 5, 3] is 4, as `evaluate own` reads it; null and blank are not given."""
    rows = scored()
    lists = [
        {**row, "rating": listed([row["rating"] + 1, None, row["rating"] - 1])} for row in rows
    ]
    told = [
        json.loads(command("calibrate", write_jsonl(table), *GOOD, *BY, *PROMISE, "--json").out)
        for table in (rows, lists)
    ]
    assert told[0] == told[1]
    path = write_jsonl([{**lists[0], "rating": "[4, x]"}])
    done = command("calibrate", path, *GOOD, *BY, *PROMISE)
    assert (
        done.err
        == f"refladder: {path}:1: column 'rating': expected a finite number, found '[4, x]'\n"
    )
    empty = write_jsonl([{**row, "rating": []} for row in rows])
    assert (
        "no scored row has a label in rating"
        in command("calibrate", empty, *GOOD, *BY, *PROMISE).err
    )


def test_the_files_survive_a_round_trip(tmp_path):
    record = Threshold(
        column="a", cutoff=0.1, precision=0.9, recall=None, sure=0.9, signature="x",
        label="l", good=">=4", labels=3, labels_above=2, bad_above=1, rows=9, kept=4, used=("ab",), version="1",
        unit="row", looks=(Look(column="b", signature=None, label="l", number=3, digest="e"),
                           Look(column="a", signature="x", label="l", number=1, digest="d")),
    )  # fmt: skip
    write_record(tmp_path / "t.json", record)
    assert read_record(Threshold, tmp_path / "t.json") == record


def test_a_promise_that_length_alone_could_make_is_flagged(command, files):
    rows = scored()
    for row in rows:
        row["output"] = "word " * (10 * row["rating"])
        row["clarity_score"] = row["tone_score"]
    table, labels = files(rows)
    common = ("calibrate", table, "--labels", labels, *GOOD, *BY, *PROMISE)
    told = json.loads(command(*common, "--json").out)
    good = sum(row["rating"] >= 4 for row in rows) / len(rows)
    assert told["surface"]["measure"] == "length"
    assert told["surface"]["auc"] == 1
    assert told["surface"]["kept_share"] == pytest.approx(good, abs=0.1)
    assert "This baseline alone can make the promise, and is no worse." in command(*common).out
