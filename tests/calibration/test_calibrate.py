"""Cut-offs that are promised from labels: what is chosen, said and kept, and what labels are needed next."""

from __future__ import annotations

import csv
import json
import math
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from json_lines import read_lines
from labelled_rows import SIGNATURE, scored, split
from scipy.stats import binom

import refladder
from refladder.calibration.calibrate import calibrate
from refladder.calibration.labelling import Good, LabelledTable, read_pool
from refladder.calibration.promise import Promise
from refladder.calibration.records import Threshold
from refladder.calibration.threshold import certainty, walk_certainty
from refladder.files.jsonl import read_record

GOOD = "--label rating --good '>=4'"
ASKED = f"{GOOD} --by clarity_score"
PROMISE = f"{ASKED} --precision 0.8"


@pytest.fixture
def files(write_jsonl):
    """The words that name a table of scored rows and one of labels of some."""

    def write(rows=None, labels=120):
        without, given = split(rows or scored(), labels)
        table = write_jsonl(without, "scored.jsonl")
        return f"{table} --labels {write_jsonl(given, 'labels.jsonl')}"

    return write


@pytest.fixture
def told(command):
    """What `calibrate` says to programs."""
    return lambda words: json.loads(command(f"calibrate {words} --json").out)


def test_from_labels_to_filtered_rows(command, files, told, tmp_path):
    words, out = files(), tmp_path / "threshold.json"
    found = told(f"{words} {PROMISE} --out {out}")
    assert (found["precision"], found["sure"]) == (0.8, 0.9)
    assert (found["refused"], found["labels_needed"]) == (False, 0)
    # counted anew from the files
    rows, labels = read_lines(tmp_path / "scored.jsonl"), read_lines(tmp_path / "labels.jsonl")
    ratings = {row["output_id"]: row["rating"] for row in labels}
    kept = [row for row in rows if row["clarity_score"] >= found["threshold"]]
    above = [ratings[row["output_id"]] >= 4 for row in kept if row["output_id"] in ratings]
    assert (found["labels_above"], found["bad_above"]) == (len(above), above.count(False))
    assert (found["kept"], found["kept_share"]) == (len(kept), len(kept) / len(rows))
    assert binom.cdf(above.count(False), len(above), 0.2) <= 0.1
    passed = command(f"filter {tmp_path}/scored.jsonl --threshold {out}")
    assert passed.rows == kept
    assert passed.err.startswith(f"400 rows: {len(kept)} passed")
    record = read_record(Threshold, out)
    assert (record.column, record.cutoff) == ("clarity_score", found["threshold"])
    assert record.signature == SIGNATURE


def test_the_report_for_people(command, files):
    done = command(f"calibrate {files()} {PROMISE}")
    assert done.code == 0
    for words in (
        "400 rows; 120 labels, taken as a random sample of them",
        "without a promise: clarity_score >= ",
        "baseline without a judge (",
        "good among all rows: ",
        "With probability 0.9, at least 0.8 of the rows kept are good. 0.8 is a lower bound: the labels that chose",
    ):
        assert words in done.out
    assert sum("|" in line for line in done.out.splitlines()) >= 20  # a bar for each candidate
    assert "labels are of" in done.err  # two rows of a context


def test_labels_in_the_scored_table(files, told, write_jsonl):
    rows = scored()
    labelled = {label["output_id"] for label in split(rows, 120)[1]}
    without = [{key: cell for key, cell in row.items() if key != "rating"} for row in rows]
    tables = [
        [row if row["output_id"] in labelled else {**other, **empty} for row, other in zip(rows, without, strict=True)]
        for empty in ({"rating": None}, {})
    ]  # fmt: skip
    beside = [told(f"{write_jsonl(table)} {PROMISE}") for table in tables]
    assert beside[0] == beside[1] == told(f"{files(rows)} {PROMISE}")


def test_a_refusal_says_how_many_labels_would_do(command, fails, files, told, tmp_path):
    words, out = f"{files(labels=12)} {ASKED} --precision 0.9", tmp_path / "threshold.json"
    done = command(f"calibrate {words} --out {out}")
    assert done.code == 3
    found = told(words)
    assert (found["threshold"], found["refused"], found["kept"]) == (None, True, 0)
    cut = found["lowest_candidate"]
    step = next(each for each in found["candidates"] if each["cutoff"] == cut)
    # 12 labels are too few for any cut-off, so this is no look. At the first, .081: 24 labels do if none is bad, 40 if
    # one is, 55 if two are (scipy.stats.binom).
    needed = {0: 24, 1: 40, 2: 55}[step["bad_above"]] - step["labels_above"]
    assert found["labels_needed"] == needed
    assert (
        "Refused: no cut-off reaches 0.9 precision with certainty 0.9. "
        f"Label at least {needed} more rows with clarity_score >=" in done.out
    )
    none = "no cut-off could be promised from 12 labels; label more rows and run `refladder calibrate` again"
    assert none in fails(2, f"filter {tmp_path}/scored.jsonl --threshold {out}")


@pytest.mark.parametrize(
    "promise", [Promise(kind="precision", share=0.9), Promise(kind="recall", share=0.95)]
)
@pytest.mark.parametrize("labels", [3, 20, 80, 250])
def test_labels_are_needed_just_where_the_promise_is_refused(files, tmp_path, labels, promise):
    good = {"by": "clarity_score", "label": "rating", "good": Good(">=4")}
    source, given = f"{tmp_path}/scored.jsonl", (f"{tmp_path}/labels.jsonl",)
    for seed in range(4):
        files(scored(400, seed, noise=2.0), labels)
        asked = LabelledTable(source=source, labels=given, **good)
        result = calibrate(read_pool(asked), asked, promise)
        assert (result.labels_needed == 0) is not result.refused
        if result.possible and result.refused:
            assert 0 < result.labels_needed <= result.rows_left


def test_a_threshold_is_for_its_own_scores(command, fails, files, tmp_path):
    out, table, other = (tmp_path / name for name in ("t.json", "scored.jsonl", "other.jsonl"))
    command(f"calibrate {files()} {PROMISE} --out {out}")
    other.write_text(table.read_text().replace("backend:judge", "backend:other"))
    assert (
        f"{other}:1: the threshold was made for scores with another signature: backend:other here, backend:judge in "
        "the threshold file; run `refladder calibrate` with labels of these scores"
    ) in fails(2, f"filter {other} --threshold {out}")
    text = fails(2, f"filter {table} --threshold {out} --min tone_score=1")
    assert "--threshold cannot be combined with other conditions" in text


def test_the_best_row_of_each_context(command, files, told, tmp_path):
    rows = scored(600)
    rows[3]["clarity_score"] = rows[2]["clarity_score"] = 9.0  # of equal rows the first is taken
    labels = files(rows, 300).partition(" ")[2]
    out, best_rows = tmp_path / "t.json", tmp_path / "best.jsonl"
    best = "--best 1 --per context_id --by clarity_score"
    command(f"filter {tmp_path}/scored.jsonl {best} --out {best_rows}")
    found = told(f"{best_rows} {labels} {PROMISE} --out {out}")
    of_context = {}
    for row in sorted(rows, key=lambda row: row["clarity_score"]):  # stable: the last is the best
        of_context[row["context_id"]] = row
    of_context["c1"] = rows[2]
    kept = {row["output_id"] for row in of_context.values() if row["clarity_score"] >= found["threshold"]}  # fmt: skip
    assert (found["rows"], found["kept"]) == (300, len(kept))
    passed = command(f"filter {best_rows} --threshold {out}").rows
    assert {row["output_id"] for row in passed} == kept
    unused = f"labels not used: {best_rows} does not score their rows"
    assert any(unused in note for note in found["notes"])


def test_a_recall_keeps_more_rows_for_more_good_ones(command, files, told):
    words = f"{files()} {ASKED} --recall"
    few, many = (told(f"{words} {share}") for share in (0.7, 0.9))
    assert few["kept"] < many["kept"]
    assert (few["recall"], few["precision"]) == (0.7, None)
    for share, advice in (
        (0.97, r"Label more rows, of which at least \d+ must be good\.\n"),
        (0.995, r"at least \d+ more good labels of rows are needed, and 280 rows there have no label\.\n"),
    ):  # fmt: skip
        done = command(f"calibrate {words} {share}")
        assert done.code == 3
        assert re.search(advice, done.out)


def test_a_plan_and_the_labels_that_follow_it(command, fails, files, told, tmp_path):
    rows, plan = scored(2000), tmp_path / "next.csv"
    words = f"{files(rows, 60)} {ASKED}"
    done = command(f"calibrate {words} --precision 0.9 --plan --out {plan}")
    assert done.code == 0
    assert "a random sample of rows with clarity_score >=" in done.out
    # The 60 labels were the first look.
    assert done.out.startswith("What more labels can promise for the lowest cut-off, at look 2\n")
    with plan.open(newline="") as stream:
        drawn = list(csv.DictReader(stream))
    assert len(drawn) == 200
    above = "clarity_score_sampled_above"
    assert list(drawn[0]) == ["output_id", "context_id", "context", "output", "rating", above]
    cut = float(drawn[0][above])
    by_id = {row["output_id"]: row for row in rows}
    assert all(by_id[row["output_id"]]["clarity_score"] >= cut for row in drawn)
    assert {row["rating"] for row in drawn} == {""}
    used = {row["output_id"] for row in read_lines(tmp_path / "labels.jsonl")}
    assert not used & {row["output_id"] for row in drawn}
    with plan.open("w", newline="") as stream:  # people fill the column
        writer = csv.DictWriter(stream, list(drawn[0]))
        writer.writeheader()
        writer.writerows([{**row, "rating": by_id[row["output_id"]]["rating"]} for row in drawn])
    found = told(f"{words} --labels {plan} --precision 0.9")
    # no candidate is below the score that rows were drawn from, and labels below it are not used
    assert min(step["cutoff"] for step in found["candidates"]) == cut
    assert found["labels"] == 200 + sum(by_id[name]["clarity_score"] >= cut for name in used)
    below = sum(by_id[name]["clarity_score"] < cut for name in used)
    unused = f"{below} of 260 labels not used: the sample was drawn from rows with clarity_score >= {cut:.6g}"
    assert unused in found["notes"]
    assert found["good_share"] is None  # these labels show nothing about all rows
    text = fails(2, f"calibrate {words} --labels {plan} --recall 0.9")
    assert (
        "all labels are of rows above a score, so they cannot show recall; label rows of all scores"
        in text
    )


def test_a_plan_keeps_what_people_wrote_in_the_file(command, files, tmp_path):
    line = (
        f"calibrate {files(scored(300))} {ASKED} --precision 0.9 --plan --out {tmp_path}/next.csv"
    )
    plan = tmp_path / "next.csv"
    line = line.replace(f"--labels {tmp_path}/labels.jsonl ", "")
    assert command(line).code == 0
    with plan.open(newline="") as stream:
        drawn = list(csv.DictReader(stream))
    # Labels of the second 20 rows, and a remark about the last row.
    for row in drawn:
        row["remark"] = ""
    for row in drawn[20:40]:
        row["rating"] = "5"
    drawn[-1]["remark"] = "too short"
    with plan.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(drawn[0]))
        writer.writeheader()
        writer.writerows(drawn)
    done = command(line)
    assert done.code == 0
    assert (
        f"{plan}: 21 rows with a label or another cell that was filled in stay first; 179 rows to label follow"
        in done.err
    )
    with plan.open(newline="") as stream:
        again = list(csv.DictReader(stream))
    # Hand work: 20 labelled rows, the row with a remark, then the other 179 in their order.
    assert again == [*drawn[20:40], drawn[-1], *drawn[:20], *drawn[40:-1]]


def test_a_plan_overwrites_no_other_table(fails, files, tmp_path):
    (tmp_path / "mine.csv").write_text("name\nx\n")
    line = (
        f"calibrate {files(scored(300))} {ASKED} --precision 0.9 --plan --out {tmp_path}/mine.csv"
    )
    assert (
        "mine.csv: exists, and it is not a plan with these columns (no column 'output_id'); name another file, or "
        "delete it"
    ) in fails(2, line)
    assert (tmp_path / "mine.csv").read_text() == "name\nx\n"


def test_a_plan_without_labels(command, files, told):
    table = files().partition(" ")[0]
    plan = f"{table} --by clarity_score --precision 0.9 --plan"
    *_, looks, shown = (lines := command(f"calibrate {plan}").out.splitlines())
    assert shown == "Rows to label next: a random sample of all rows. Add --out FILE to write it."
    # 24 good labels, or 39 good ones and one bad, pass at .081 (scipy.stats.binom); half of the rows have half of them.
    head = lines.index("Labels that the first look needs, of different contexts drawn at random")
    assert [line.split() for line in lines[head + 2 : head + 6] if "─" not in line] == [
        ["kept", "labels", "one", "bad"],
        ["50%", "48", "80"],
        ["25%", "96", "160"],
    ]
    assert looks == (
        "Label them all before the first look. Each look costs: the first may be wrong with probability 0.09, and the "
        "second with 0.005."
    )
    batches = told(plan)["batches"]
    # scipy.stats.binom at .081, the walk of the first look; .081 ** (1 / 20) = .8819
    allowed = [
        int((binom.cdf(np.arange(more), more, 0.1) <= 0.081).sum()) - 1
        for more in (20, 50, 100, 200)
    ]
    assert allowed == [-1, 1, 5, 13]
    assert [batch["bad_allowed"] for batch in batches] == [None, 1, 5, 13]
    assert batches[0]["precision"] == pytest.approx(0.081 ** (1 / 20))


def test_a_promise_that_length_alone_could_make_is_flagged(command, files, told):
    rows = scored()
    for row in rows:
        row["output"] = "word " * (10 * row["rating"])
        row["clarity_score"] = row["tone_score"]
    words = f"{files(rows)} {PROMISE}"
    surface = told(words)["surface"]
    good = sum(row["rating"] >= 4 for row in rows) / len(rows)
    assert (surface["measure"], surface["auc"]) == ("length", 1)
    assert surface["kept_share"] == pytest.approx(good, abs=0.1)
    alone = "This baseline alone can make the promise, and is no worse."
    assert alone in command(f"calibrate {words}").out


def whole(contexts, rows, bad=(), score=1.0):
    """Rows of whole contexts, all with ratings; those of the contexts in `bad` are bad."""
    return [
        {"output_id": f"{c}-{r}", "context_id": f"c{c}", "clarity_score": score, "rating": 1 if c in bad else 5}
        for c in range(contexts) for r in range(rows)
    ]  # fmt: skip


def unlabelled(rows):
    return [{**row, "rating": None} for row in rows]


def without_contexts(rows):
    dropped = {"context_id", "context"}
    return [{key: value for key, value in row.items() if key not in dropped} for row in rows]


def test_a_refusal_says_how_many_contexts_would_do(command, told, write_jsonl, tmp_path):
    out = tmp_path / "threshold.json"
    table = write_jsonl(whole(3, 10) + unlabelled(whole(24, 10)[30:]))
    found = told(f"{table} {PROMISE}")
    more = found["units_needed"]
    assert (found["refused"], found["unit"], found["labels_needed"]) == (True, "context", 10 * more)
    done = command(f"calibrate {table} {PROMISE} --out {out}")
    assert done.code == 3
    assert (
        f"Label at least {10 * more} more rows with clarity_score >= 1, of {more} contexts with as many labelled rows "
        "each; all must be good." in done.out
    )
    few = "the 30 labels are of 3 contexts, which are too few; the test is approximate, and needs 5 contexts"
    assert few in done.err
    # followed in the second look: one context less does not do, and this many do
    refusal = out.read_text()
    for contexts, code in ((3 + more - 1, 3), (3 + more, 0)):
        out.write_text(refusal)
        table = write_jsonl(whole(contexts, 10))
        assert command(f"calibrate {table} {PROMISE} --out {out}").code == code


def test_no_more_rows_are_to_be_labelled_than_there_are(command, told, write_jsonl):
    table = write_jsonl(whole(3, 10) + unlabelled(whole(7, 10)[30:]))  # 4 of the 7 contexts
    done = command(f"calibrate {table} {PROMISE}")
    assert done.code == 3
    assert (
        "Score more rows first: at least 60 more good labels of rows with clarity_score >= 1, of 6 contexts with as "
        "many labelled rows each, are needed, and 40 rows there have no label." in done.out
    )
    found = told(f"{table} {PROMISE}")
    assert (found["labels_needed"], found["rows_left"]) == (60, 40)


def spread_labels(bad, labelled=40, rows=400):
    """Rows of rising score, of which every tenth is labelled; the labels with numbers in `bad` are bad."""
    every = rows // labelled
    return [
        {"output_id": f"{n}", "clarity_score": float(n),
         "rating": None if n % every else 1 if n // every in bad else 5}
        for n in range(rows)
    ]  # fmt: skip


def test_the_cheapest_cut_off_that_can_still_pass_is_advised(told, write_jsonl):
    # 8 of the worst 20 labels are bad: all 40 labels have 80 % good ones, the best 20 none that is bad
    table = write_jsonl(spread_labels(bad={0, 1, 2, 4, 6, 8, 10, 19}))
    found = told(f"{table} {PROMISE} --sure 0.99")
    assert (found["refused"], found["naive"]["threshold"]) == (True, 0)  # as it is: 32 of 40 good
    allowed = 1 - walk_certainty(certainty(0.99, 2))
    more = math.ceil(math.log(allowed) / math.log(0.8)) - 20
    assert (found["lowest_candidate"], found["labels_needed"]) == (200, more)


def test_labels_that_are_unlikely_to_be_good_are_not_advised(command, told, write_jsonl):
    words = f"{write_jsonl(spread_labels(bad=set(range(1, 40))))} {PROMISE}"
    done = command(f"calibrate {words}")
    assert done.code == 3
    assert (
        "More labels are unlikely to change this, because too many are bad. Promise less, or use a judge that "
        "separates good rows from bad ones better." in done.out
    )
    found = told(words)
    advice = ("labels_needed", "units_needed", "rows_left", "lowest_candidate")
    assert {found[name] for name in advice} == {None}
    assert "a random sample of all rows" in command(f"calibrate {words} --plan").out


def test_a_plan_allows_the_bad_labels_with_which_its_cut_off_is_promised(
    command, told, write_jsonl, tmp_path
):
    # 20 contexts of 10 rows, a bad row in every second; as many more contexts are labelled, with the bad ones allowed
    def by_turn(row):
        return int(row["output_id"].split("-")[1])

    def contexts(first, last, bad):
        rows = sorted(whole(last, 10)[10 * first :], key=by_turn)
        return [{**row, "rating": 1 if place < bad else 5} for place, row in enumerate(rows)]

    words = f"{tmp_path}/in.jsonl {ASKED} --precision 0.9"
    out = tmp_path / "threshold.json"
    write_jsonl(contexts(0, 20, bad=15) + unlabelled(whole(60, 10)[200:]))
    assert command(f"calibrate {words} --out {out}").code == 3
    refusal = out.read_text()
    batch = told(f"{words} --plan")["batches"][-1]
    assert (batch["more"], batch["labels"]) == (200, 400)
    allowed = batch["bad_allowed"] - 15
    assert 0 < allowed < 15  # of independent labels more were allowed
    for bad, code in ((allowed, 0), (allowed + 3, 3)):
        out.write_text(refusal)
        write_jsonl(contexts(0, 20, bad=15) + contexts(20, 40, bad))
        assert command(f"calibrate {words} --out {out}").code == code


def test_labels_of_whole_contexts_count_as_fewer_than_rows(command, write_jsonl):
    table = write_jsonl(whole(20, 10, bad={0}))  # 10 bad rows, all of one context
    # bad rows are wholly alike in their contexts: 1 of 20 contexts is bad, and .85 needs 27 or more
    for options, code, taken in (
        ("--unit row", 0, "and taken as rows that were drawn one by one"),
        ("", 3, "and count as 20 that were drawn one by one"),
    ):
        done = command(f"calibrate {table} {ASKED} --precision 0.85 {options}")
        assert done.code == code
        assert f"the 200 labels are of 20 contexts{',' * (not options)} {taken}" in done.err


def test_all_rows_are_kept_where_they_meet_the_promise(command, write_jsonl):
    scores = np.random.default_rng(0).permutation(150).tolist()
    rows = without_contexts(whole(150, 1, bad=set(range(29))))
    rows = [{**row, "clarity_score": score} for row, score in zip(rows, scores, strict=True)]
    done = command(f"calibrate {write_jsonl(rows)} {ASKED} --precision 0.7")
    assert done.code == 0
    # 29 of 150 bad: binom.cdf(29, 150, .3) = .0021 <= .009
    kept = "kept: 150 rows (100.0%); 150 labels there, 29 bad; all rows passed the test that comes first"
    assert kept in done.out


@pytest.fixture
def looks(command, write_jsonl, tmp_path):
    """Run `calibrate --out` on the first labels of a score that shows nothing; the look and what was printed."""
    numbered = [{**row, "clarity_score": number} for number, row in enumerate(scored())]
    rows = without_contexts(numbered)
    hidden = [{key: value for key, value in row.items() if key != "rating"} for row in rows]

    def look(labels, options="", out="threshold.json", relabelled=0):
        ids = ("output_id", "rating")
        given = [{name: row[name] for name in ids} for row in rows[::-1][:labels]]
        for row in given[:relabelled]:
            row["rating"] += 1
        table, ratings = write_jsonl(hidden, "scored.jsonl"), write_jsonl(given, "labels.jsonl")
        words = f"{table} --labels {ratings} {PROMISE} {options} --out {tmp_path}/{out}"
        done = command(f"calibrate {words}")
        assert done.code == 3, done.err
        return read_record(Threshold, tmp_path / out).look, done.out

    return look


def test_every_look_at_more_labels_is_counted_and_paid_for(looks):
    for number, labels in ((1, 40), (2, 60)):
        found, told = looks(labels)
        this, then = (f"{1 - certainty(0.9, look):.3g}" for look in (number, number + 1))
        assert found == number
        assert (
            f"look {number} at these labels: its promise may be wrong with probability {this}. "
            f"Look {number + 1} would have {then}, and so need more labels. All looks together have 0.1.\n"
        ) in told
        assert looks(labels)[0] == number  # the same promise from the same labels
    assert looks(60, "--precision 0.7")[0] == 3  # another promise from labels that were seen
    assert looks(40, out="other.json")[0] == 1


def test_labels_that_are_too_few_for_any_cut_off_are_no_look(looks):
    # A precision of .8 needs 12 good labels at the first look: ln .081 / ln .8 = 11.3.
    for labels in (4, 11):
        found, told = looks(labels)
        assert found == 1
        few = "too few for any cut-off, even if all of them were good, so this does not count as a look. Look 1 "
        assert f"{few}may be wrong with probability 0.09." in told
    assert [looks(40)[0], looks(60)[0]] == [1, 2]
    # Another promise may have been chosen because of the labels.
    assert looks(11, out="other.json")[0] == 1
    assert looks(40, "--precision 0.7", out="other.json")[0] == 2


def test_the_home_page_says_the_fewest_labels(told, write_jsonl):
    page = Path(__file__).parents[2].joinpath("docs", "index.md").read_text("utf-8")
    (fewest,) = re.findall(r"At least (\d+) of different contexts, all good and above", page)
    best = sorted(scored(), key=lambda row: -row["clarity_score"])
    refused = []
    for labels in (int(fewest) - 1, int(fewest)):
        ratings = [5] * labels + [None] * (len(best) - labels)
        rows = [
            {**row, "context_id": number, "rating": rating}
            for number, (row, rating) in enumerate(zip(best, ratings, strict=True))
        ]
        refused.append(told(f"{write_jsonl(rows)} {PROMISE}")["refused"])
    assert refused == [True, False]


def test_a_strict_promise_needs_contexts_and_allows_for_one_that_is_wholly_bad(
    command, fails, told, write_jsonl
):
    strict = f"{ASKED} --precision 0.9 --strict"
    # .9 ** 40 = .015 <= .081, and .9 ** 20 = .12; all rows are first tested at .009
    found = told(f"{write_jsonl(whole(40, 3))} {strict}")
    assert (found["refused"], found["strict"], found["kept"]) == (False, True, 120)
    done = command(f"calibrate {write_jsonl(whole(20, 3))} {strict}")
    assert done.code == 3
    most = "With 20 labelled contexts, --strict can promise 0.882 at most; 0.9 needs 24 contexts or more, without a bad row."
    assert most in done.out
    assert "is not covered" not in done.err
    rows = f"calibrate {write_jsonl(whole(40, 3))} {ASKED} --strict"
    units = "--strict is about contexts that mislead the judge as a whole, and the units are rows; leave it out, or give"
    assert units in fails(2, f"{rows} --precision 0.9 --unit row")
    assert "--strict is about --precision; leave out --recall" in fails(2, f"{rows} --recall 0.9")
    other = "--strict is for a cut-off; leave it out with --plan and --rate"
    assert other in fails(2, f"{rows} --precision 0.9 --plan")


def test_labels_that_differ_in_case_or_spaces_are_named(command, write_jsonl):
    rows = [{**row, "rating": "gut"} for row in whole(45, 1)]
    for row in rows[:5]:
        row["rating"] = "Gut"
    rows[5]["rating"] = "schlecht"
    done = command(
        f"calibrate {write_jsonl(rows)} --label rating --good =gut --by clarity_score --precision 0.8"
    )
    assert "Note: labels: 'Gut' (5 rows), 'gut' (39 rows, good), 'schlecht' (1 row)\n" in done.err
    alike = "'Gut' and 'gut' differ in case or spaces only, and count as different labels; write them alike if this is a slip"
    assert alike in done.err


@pytest.mark.parametrize(
    ("ratings", "told"),
    [
        ([4, 5.0, 3.5], "Note: labels: 3.5 (20 rows), 4 (20 rows, good), 5 (20 rows, good)\n"),
        ([n / 10 for n in range(60)], ""),  # no list of 60 numbers
    ],
)
def test_few_different_numbers_among_the_labels_are_listed(command, write_jsonl, ratings, told):
    rows = whole(60, 1)
    for number, row in enumerate(rows):
        row["rating"] = ratings[number % len(ratings)]
    done = command(f"calibrate {write_jsonl(rows)} {PROMISE}")
    assert told in done.err
    assert ("labels: " in done.err) == bool(told)


def test_several_labels_of_a_context_do_not_cover_rare_contexts(command, write_jsonl):
    done = command(f"calibrate {write_jsonl(whole(20, 3))} {PROMISE}")
    rare = "A kind of context rarer than 1 in 20 that fools the judge as a whole is not covered: label one row of each "
    assert f"{rare}context, or use --strict" in done.err


def test_the_order_of_the_rows_changes_no_share():
    rows, lengths = scored(), np.random.default_rng(3)
    for number, row in enumerate(rows):
        row["output"] = f"text {number} " + "w " * int(lengths.integers(1, 9))
        row["rating"] = row["rating"] if number % 3 else None

    def shares(table):
        asked = {"label": "rating", "good": ">=4", "by": "clarity_score", "recall": 0.6}
        found = refladder.calibrate(table, **asked).summary()
        return [*found["good_share_with_scores"].values(), found["surface"]["kept_share"]]

    assert shares(rows[::-1]) == pytest.approx(shares(rows), abs=1e-9)


@pytest.mark.parametrize("ids", [True, False])
def test_the_sample_of_a_long_table_does_not_depend_on_the_order_of_its_rows(write_jsonl, ids):
    draws = np.random.default_rng(4)
    rows = [
        {"output_id": str(n), "context": f"c{n % 700}", "output": "w " * int(draws.integers(1, 40)), "score": 1.0}
        for n in range(6000)
    ]  # fmt: skip
    # A third of the rows are copies of one row.
    rows[4000:] = [{**row, "context": "c", "output": "w"} for row in rows[4000:]]
    if not ids:
        rows = [{name: row[name] for name in ("context", "output", "score")} for row in rows]

    def sample(table, name):
        pool = read_pool(LabelledTable(source=str(write_jsonl(table, name)), by="score"))
        return sorted(texts[1:] for texts in pool.sample)

    found = sample(rows, "one.jsonl")
    assert len(found) == 2000
    assert sample(rows[::-1], "two.jsonl") == found
    # The standard deviation of this share is .0086 (hypergeometric: sqrt(2/9 / 2000 * 2/3)).
    assert sum(texts == ("c", "w") for texts in found) / 2000 == pytest.approx(1 / 3, abs=0.03)


def test_looks_are_counted_for_each_column(looks, tmp_path):
    tone = "--by tone_score"
    assert [looks(40)[0], looks(40, tone)[0], looks(60)[0]] == [1, 1, 2]
    assert [looks(60, tone)[0], looks(80)[0]] == [2, 3]
    kept = read_record(Threshold, tmp_path / "threshold.json").looks
    counts = {look.column: look.number for look in kept}
    assert counts == {"tone_score": 2, "clarity_score": 3}


def test_other_labels_of_the_same_rows_are_a_new_look(looks, tmp_path):
    assert looks(40)[0] == 1
    used = read_record(Threshold, tmp_path / "threshold.json").used
    assert looks(40, relabelled=1)[0] == 2
    assert looks(40, relabelled=1)[0] == 2
    # --rate knows rows, whatever their labels
    assert read_record(Threshold, tmp_path / "threshold.json").used == used


def test_files_that_are_no_threshold_are_refused_and_kept(fails, looks, write_jsonl, tmp_path):
    looks(40)
    table, path = write_jsonl(whole(30, 1)), tmp_path / "threshold.json"
    counts = "; --out counts looks there and would overwrite it: remove it or name another"
    record = json.loads(path.read_text())
    looked = "the last of its looks must be of its column, and each look must be 1 or more"
    another = "threshold/1, of another version of refladder; this one reads threshold/2, so make the file again"
    for content, message in (
        (json.dumps(record | {"schema": "threshold/1"}), f"{path}: {another}"),
        *(
            (
                json.dumps(record | {"looks": [record["looks"][0] | look for look in changed]}),
                f"{path}: threshold/2: {looked}",
            )
            for changed in ([], [{"number": 0}], [{"column": "other"}])
        ),
        ("mine", str(path)),
    ):
        path.write_text(content)
        assert message in fails(2, f"filter {table} --threshold {path}")
        text = fails(2, f"calibrate {table} {PROMISE} --out {path}")
        assert message in text
        assert counts in text
        assert path.read_text() == content


def test_a_table_with_other_scores_is_said_to_be_one(command, files, write_jsonl, tmp_path, caplog):
    """Rows of an older table choose a threshold; the next table has lower scores."""
    out = tmp_path / "threshold.json"
    command(f"calibrate {files()} {PROMISE} --out {out}")
    kept = json.loads(out.read_text())["scores"]
    # 400 rows of 200 contexts; one score of each is between the ends of all.
    assert (len(kept["quantiles"]), kept["contexts"]) == (21, 200)
    older = read_lines(tmp_path / "scored.jsonl")
    scores = [row["clarity_score"] for row in older]
    assert min(scores) <= kept["quantiles"][0] < kept["quantiles"][20] <= max(scores)
    said = (
        "the scores here differ from those of the table that the threshold was made for (distance"
    )
    lower = [{**row, "clarity_score": row["clarity_score"] - 0.7} for row in older]
    # A context of many rows counts once.
    longer = older + [{**older[0], "output_id": f"again{number}"} for number in range(2000)]
    for rows, differ in ((older, False), (lower, True), (longer, False), (older[::-1], False)):
        table = write_jsonl(rows, "next.jsonl")
        assert (said in command(f"filter {table} --threshold {out}").err) == differ
        caplog.clear()
        refladder.filter(pd.DataFrame(rows), threshold=out)
        assert any(said in message for message in caplog.messages) == differ
    words = files([{**row, "clarity_score": row["clarity_score"] - 0.7} for row in scored()])
    assert said in command(f"calibrate {words} {GOOD} --rate {out}").err
    # A file without it says nothing.
    record = json.loads(out.read_text())
    del record["scores"]
    out.write_text(json.dumps(record))
    assert said not in command(f"filter {write_jsonl(lower, 'next.jsonl')} --threshold {out}").err
