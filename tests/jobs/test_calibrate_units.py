"""Rows or contexts as the units that were drawn to be labelled."""

from __future__ import annotations

import json
import math
import re

import numpy as np
import pytest
from labelled_rows import scored, split

from refladder.errors import UsageError
from refladder.files.jsonl import read_record
from refladder.jobs.labelling import LabelledTable, read_pool
from refladder.records import Threshold
from refladder.trust.threshold import certainty, walk_certainty

ASKED = ("--label", "rating", "--good", ">=4", "--by", "clarity_score", "--precision", "0.8")


def without_contexts(rows):
    return [
        {key: value for key, value in row.items() if key not in {"context_id", "context"}}
        for row in rows
    ]


@pytest.mark.parametrize(
    ("change", "unit", "kept", "first"),
    [
        (list, None, "context", [0, 0, 1, 1]),  # two rows of a context, one after the other
        (list, "row", "row", [0, 1, 2, 3]),
        (without_contexts, None, "row", [0, 1, 2, 3]),
        (
            lambda rows: [{**row, "context_id": None, "context": ""} for row in rows],
            None,
            "row",
            [0, 1, 2, 3],
        ),
        (
            lambda rows: [{**rows[0], "context_id": 0}, {**rows[1], "context_id": "0"}, *rows[2:]],
            None,
            "context",
            [0, 0, 1],
        ),
    ],
)
def test_the_unit_is_the_context_where_rows_have_one(write_jsonl, change, unit, kept, first):
    table = write_jsonl(change([{**row, "rating": 4} for row in scored()]))
    pool = read_pool(
        LabelledTable(source=str(table), by="clarity_score", label="rating", unit=unit)
    )
    assert pool.unit == kept
    assert pool.units[: len(first)].tolist() == first
    assert len(pool.units) == len(pool.scores)


def test_the_threshold_file_names_the_unit(command, write_jsonl, tmp_path):
    without, given = split(scored(), 120)
    table, labels, out = (
        write_jsonl(without, "scored.jsonl"),
        write_jsonl(given, "labels.jsonl"),
        tmp_path / "t.json",
    )
    for more, unit in (((), "context"), (("--unit", "row"), "row")):
        assert command(
            "calibrate", table, "--labels", labels, *ASKED, *more, "--out", out
        ).code in {0, 3}
        assert read_record(Threshold, out).unit == unit


def test_contexts_are_asked_for_where_there_are_none(fails, write_jsonl):
    table = write_jsonl(without_contexts([{**row, "rating": 4} for row in scored()]))
    words = "in.jsonl:1: no row has a context_id or a context; leave out --unit context"
    assert words in fails(2, "calibrate", table, *ASKED, "--unit", "context")
    with pytest.raises(UsageError, match="--unit 'rows': must be row or context"):
        LabelledTable(source="-", by="clarity_score", unit="rows")


def whole(contexts, rows, bad=(), score=1.0):
    """Rows of whole contexts, all with ratings; those of the contexts in `bad` are bad."""
    return [
        {
            "output_id": f"{c}-{r}",
            "context_id": f"c{c}",
            "clarity_score": score,
            "rating": 1 if c in bad else 5,
        }
        for c in range(contexts)
        for r in range(rows)
    ]


def test_a_refusal_says_how_many_contexts_would_do(command, write_jsonl, tmp_path):
    unlabelled = [{**row, "rating": None} for row in whole(24, 10)[30:]]
    table, out = write_jsonl(whole(3, 10) + unlabelled), tmp_path / "threshold.json"
    told = json.loads(command("calibrate", table, *ASKED, "--json").out)
    assert (told["refused"], told["unit"], told["labels_needed"]) == (
        True,
        "context",
        10 * told["units_needed"],
    )
    done = command("calibrate", table, *ASKED, "--out", out)
    assert done.code == 3
    more = told["units_needed"]
    assert (
        f"Label at least {10 * more} more rows with clarity_score >= 1, of {more} contexts with as many labelled rows "
        "each; all must be good." in done.out
    )
    assert (
        "the 30 labels are of 3 contexts, which are too few; the test is approximate, and needs 5 contexts"
        in done.err
    )
    # followed in the second look: one context less does not do, and this many do
    refusal = out.read_text()
    assert (
        command("calibrate", write_jsonl(whole(3 + more - 1, 10)), *ASKED, "--out", out).code == 3
    )
    out.write_text(refusal)
    assert command("calibrate", write_jsonl(whole(3 + more, 10)), *ASKED, "--out", out).code == 0


def test_no_more_rows_are_to_be_labelled_than_there_are(command, write_jsonl):
    table = write_jsonl(
        whole(3, 10) + [{**row, "rating": None} for row in whole(7, 10)[30:]]
    )  # 4 of the 7 contexts
    done = command("calibrate", table, *ASKED)
    assert done.code == 3
    assert (
        "Score more rows first: at least 190 more good labels of rows with clarity_score >= 1, of 19 contexts with as "
        "many labelled rows each, are needed, and 40 rows there have no label." in done.out
    )
    told = json.loads(command("calibrate", table, *ASKED, "--json").out)
    assert (told["labels_needed"], told["rows_left"]) == (190, 40)


def spread_labels(bad, labelled=40, rows=400):
    """Rows of rising score, of which every tenth is labelled; the labels with numbers in `bad` are bad."""
    every = rows // labelled
    return [
        {"output_id": f"{n}", "clarity_score": float(n),
         "rating": None if n % every else 1 if n // every in bad else 5}
        for n in range(rows)
    ]  # fmt: skip


def test_the_cheapest_cut_off_that_can_still_pass_is_advised(command, write_jsonl):
    # 8 of the worst 20 labels are bad: all 40 labels have 80 % good ones, the best 20 none that is bad
    table = write_jsonl(spread_labels(bad={0, 1, 2, 4, 6, 8, 10, 19}))
    told = json.loads(command("calibrate", table, *ASKED, "--sure", "0.99", "--json").out)
    assert (told["refused"], told["naive"]["threshold"]) == (True, 0)  # as it is: 32 of 40 are good
    allowed = 1 - walk_certainty(certainty(0.99, 2))
    more = math.ceil(math.log(allowed) / math.log(0.8)) - 20
    assert (told["lowest_candidate"], told["labels_needed"]) == (200, more)


def test_labels_that_are_unlikely_to_be_good_are_not_advised(command, write_jsonl):
    table = write_jsonl(spread_labels(bad=set(range(1, 40))))
    done = command("calibrate", table, *ASKED)
    assert done.code == 3
    assert (
        "More labels are unlikely to change this, because too many are bad. Promise less, or use a judge that "
        "separates good rows from bad ones better." in done.out
    )
    told = json.loads(command("calibrate", table, *ASKED, "--json").out)
    assert [
        told[name] for name in ("labels_needed", "units_needed", "rows_left", "lowest_candidate")
    ] == [None] * 4
    assert "a random sample of all rows" in command("calibrate", table, *ASKED, "--plan").out


def test_a_plan_allows_the_bad_labels_with_which_its_cut_off_is_promised(
    command, write_jsonl, tmp_path
):
    # 20 contexts of 10 rows, a bad row in every second; as many more contexts are labelled, with the bad ones allowed
    def contexts(first, last, bad):
        rows = whole(last, 10)[10 * first :]
        return [
            {**row, "rating": 1 if number < bad else 5}
            for number, row in enumerate(sorted(rows, key=by_turn))
        ]

    def by_turn(row):
        return int(row["output_id"].split("-")[1])

    asked = (*ASKED[:-1], "0.9")
    unlabelled = [{**row, "rating": None} for row in whole(60, 10)[200:]]
    out = tmp_path / "threshold.json"
    table = write_jsonl(contexts(0, 20, bad=15) + unlabelled)
    assert command("calibrate", table, *asked, "--out", out).code == 3
    refusal = out.read_text()
    plan = json.loads(command("calibrate", table, *asked, "--plan", "--json").out)
    batch = plan["batches"][-1]
    assert (batch["more"], batch["labels"]) == (200, 400)
    allowed = batch["bad_allowed"] - 15
    assert 0 < allowed < 15  # of independent labels more were allowed
    for bad, code in ((allowed, 0), (allowed + 3, 3)):
        out.write_text(refusal)
        table = write_jsonl(contexts(0, 20, bad=15) + contexts(20, 40, bad))
        assert command("calibrate", table, *asked, "--out", out).code == code


def test_labels_of_whole_contexts_count_as_fewer_than_rows(command, write_jsonl):
    table = write_jsonl(whole(20, 10, bad={0}))  # 10 bad rows, all of one context
    done = command("calibrate", table, *ASKED[:-1], "0.85", "--unit", "row")
    assert done.code == 0
    assert (
        "the 200 labels are of 20 contexts and taken as rows that were drawn one by one" in done.err
    )
    done = command("calibrate", table, *ASKED[:-1], "0.85")
    assert (
        done.code == 3
    )  # bad rows are wholly alike in their contexts: 1 of 20 contexts is bad, and .85 needs 27 or more
    assert (
        "the 200 labels are of 20 contexts, and count as 20 that were drawn one by one" in done.err
    )


def test_all_rows_are_kept_where_they_meet_the_promise(command, write_jsonl):
    generator = np.random.default_rng(0)
    rows = without_contexts(
        whole(150, 1, bad=set(range(29)))
    )  # 29 of 150 bad: binom.cdf(29, 150, .3) = .0021 <= .009
    rows = [
        {**row, "clarity_score": score}
        for row, score in zip(rows, generator.permutation(150).tolist(), strict=True)
    ]
    done = command("calibrate", write_jsonl(rows), *ASKED[:-1], "0.7")
    assert done.code == 0
    assert (
        "kept: 150 rows (100.0%); 150 labels there, 29 bad; all rows passed the test that comes first"
        in done.out
    )


@pytest.fixture
def looks(command, write_jsonl, tmp_path):
    """Run `calibrate --out` on the first labels of a score that shows nothing; the look and the kept record."""
    rows = without_contexts(
        [{**row, "clarity_score": number} for number, row in enumerate(scored())]
    )

    def look(labels, *more, out="threshold.json", code=3, relabelled=0):
        given = [
            {"output_id": row["output_id"], "rating": row["rating"]} for row in rows[::-1][:labels]
        ]
        for row in given[:relabelled]:
            row["rating"] += 1
        hidden = [{key: value for key, value in row.items() if key != "rating"} for row in rows]
        table, ratings = write_jsonl(hidden, "scored.jsonl"), write_jsonl(given, "labels.jsonl")
        done = command(
            "calibrate", table, "--labels", ratings, *ASKED, *more, "--out", tmp_path / out
        )
        assert done.code == code, done.err
        return read_record(Threshold, tmp_path / out).look, done.out

    return look


def look_words(number):
    this, then = (f"{1 - certainty(0.9, look):.3g}" for look in (number, number + 1))
    words = f"look {number} at these labels: its promise may be wrong with probability {this}. "
    return f"{words}Look {number + 1} would have {then}, and so need more labels. All looks together have 0.1.\n"


def test_every_look_at_more_labels_is_counted_and_paid_for(looks):
    number, told = looks(40)
    assert (number, look_words(1) in told) == (1, True)
    assert looks(40)[0] == 1  # the same promise from the same labels
    number, told = looks(60)
    assert (number, look_words(2) in told) == (2, True)
    assert looks(60)[0] == 2
    assert looks(60, "--precision", "0.7")[0] == 3  # another promise from labels that were seen
    assert looks(40, out="other.json")[0] == 1


def test_looks_are_counted_for_each_column(looks, tmp_path):
    assert [looks(40)[0], looks(40, "--by", "tone_score")[0], looks(60)[0]] == [1, 1, 2]
    assert [looks(60, "--by", "tone_score")[0], looks(60)[0], looks(80)[0]] == [2, 2, 3]
    kept = read_record(Threshold, tmp_path / "threshold.json")
    assert [(look.column, look.number) for look in kept.looks] == [
        ("tone_score", 2),
        ("clarity_score", 3),
    ]


def test_other_labels_of_the_same_rows_are_a_new_look(looks, tmp_path):
    assert looks(40)[0] == 1
    used = read_record(Threshold, tmp_path / "threshold.json").used
    assert looks(40, relabelled=1)[0] == 2
    assert looks(40, relabelled=1)[0] == 2
    assert (
        read_record(Threshold, tmp_path / "threshold.json").used == used
    )  # --rate knows rows, whatever their labels


def test_a_file_of_another_version_is_refused(looks, fails, write_jsonl, tmp_path):
    looks(40)
    old = tmp_path / "threshold.json"
    old.write_text(old.read_text().replace("threshold/2", "threshold/1"))
    words = f"{old}: threshold/1, of another version of refladder; this one reads threshold/2, so make the file again"
    table = write_jsonl(whole(30, 1))
    assert f"refladder: {words}\n" == fails(2, "filter", table, "--threshold", old)
    assert f"{words}; --out counts looks there" in fails(
        2, "calibrate", table, *ASKED, "--out", old
    )


def test_a_file_that_is_no_threshold_is_not_overwritten(fails, write_jsonl, tmp_path):
    table, other = write_jsonl(whole(30, 1)), tmp_path / "notes.json"
    other.write_text("mine")
    error = fails(2, "calibrate", table, *ASKED, "--out", other)
    assert re.search(
        r"notes.json.*; --out counts looks there and would overwrite it: remove it or name another",
        error,
    )
    assert other.read_text() == "mine"


def test_one_text_under_many_prompts_needs_no_ids(command, tmp_path):
    """A stock answer comes back under each prompt; its labels are beside the scores."""
    rows = [
        {"context": f"prompt {number % 20}", "system": "a", "output": ["Wait.", f"Answer {number}."][number < 40],
         "clarity_score": number % 7, "rating": 5 if number % 7 > 2 else 1}
        for number in range(60)
    ]  # fmt: skip
    table = tmp_path / "t.jsonl"
    table.write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = command("calibrate", table, *ASKED, "--json")
    assert done.code in {0, 3}, done.err
    assert json.loads(done.out)["labels"] == 60
