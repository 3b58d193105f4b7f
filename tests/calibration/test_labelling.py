"""Scored rows with labels: their units, the ids that join them, and what cannot be used."""

from __future__ import annotations

import csv
import json
import math

import pytest
from labelled_rows import scored, split

import refladder
from refladder.calibration.labelling import Good, LabelledTable, read_pool
from refladder.calibration.records import Threshold
from refladder.errors import ExitCode, UsageError
from refladder.files.jsonl import read_record

GOOD = "--label rating --good '>=4'"
BY = "--by clarity_score"
ASKED = f"{GOOD} {BY} --precision 0.8"


@pytest.fixture
def tables(write_jsonl):
    """Write scored rows and labels, changed first."""

    def write(change_row=None, change_label=None, labels=100):
        without, given = split(scored(), labels)
        for number, row in enumerate(without if change_row else ()):
            change_row(number, row)
        for number, label in enumerate(given if change_label else ()):
            change_label(number, label)
        return write_jsonl(without, "scored.jsonl"), write_jsonl(given, "labels.jsonl")

    return write


@pytest.fixture
def calibrated(command, tables):
    """How `calibrate` ends on changed tables, and its record."""

    def go(change_row=None, change_label=None, labels=100, asked=ASKED):
        table, given = tables(change_row, change_label, labels)
        done = command(f"calibrate {table} --labels {given} {asked} --json")
        return done, json.loads(done.out)

    return go


@pytest.fixture
def refused(fails, tables):
    """Why `calibrate` refuses changed tables, with the paths as TABLE and LABELS."""

    def go(change_row=None, change_label=None, labels=100, asked=ASKED):
        table, given = tables(change_row, change_label, labels)
        text = fails(2, f"calibrate {table} --labels {given} {asked}")
        return text.replace(str(table), "TABLE").replace(str(given), "LABELS")

    return go


def only(count, **cells):
    """A change of the first rows of a table."""
    return lambda number, row: row.update(cells) if number < count else None


def renamed(number, label):
    label["output_id"] += "x" * (number < 7)


def test_labels_of_ids_that_are_not_there(calibrated, refused):
    text = refused(change_label=lambda _, label: label.update(output_id="x" + label["output_id"]))
    unused = "100 of 100 labels not used: TABLE does not score their rows, such as output_id 'xo"
    assert text.startswith(f"refladder: LABELS: {unused}")
    assert text.endswith("'; check that both tables have the same ids\n")
    _, told = calibrated(change_label=renamed)
    assert told["labels"] == 93
    assert told["notes"][0].startswith("7 of 100 labels not used: ")


def test_an_empty_label_is_not_counted(calibrated):
    _, told = calibrated(change_label=only(7, rating=None))
    assert told["labels"] == 93


def test_no_id_that_both_tables_have(fails, tables, write_jsonl):
    table, _ = tables()
    labels = write_jsonl([{"name": "x", "rating": 4}], "l.jsonl")
    message = fails(2, f"calibrate {table} --labels {labels} {ASKED}")
    assert f"{labels}: the labels have no id: add the column output_id" in message
    labels = write_jsonl([{"system": "x", "rating": 4}], "m.jsonl")
    both = f"no id column that {table} also has; both need output_id, id, or context_id"
    assert f"{labels}: {both}" in fails(2, f"calibrate {table} --labels {labels} {ASKED}")


def nan_at(place, column):
    return lambda number, row: row.update({column: math.nan}) if number == place else None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"change_row": only(3, output_id="o1"), "labels": 400},
            "TABLE:2: output_id 'o1' appears twice; labels need unique ids",
        ),
        (
            {"change_row": nan_at(4, "clarity_score")},
            "TABLE:5: column 'clarity_score' must be a finite number or empty, found nan",
        ),
        (
            {"change_label": nan_at(1, "rating")},
            "LABELS:2: column 'rating' must be a finite number or empty, found nan",
        ),
        (
            {"change_row": only(9, signature="other")},
            "TABLE:10: the scores in column 'clarity_score' are on different scales: ",
        ),
    ],
)
def test_rows_and_labels_that_cannot_be_used(refused, changes, message):
    assert message in refused(**changes)


def test_tables_without_labels_or_scores(fails, tables, write_jsonl):
    _, labels = tables()
    table = write_jsonl([{**row, "rating": None} for row in scored(20)])
    none = "no scored row has a label in rating; fill that column for some rows"
    assert none in fails(2, f"calibrate {table} {ASKED}")
    unscored = write_jsonl([{**row, "clarity_score": None} for row in scored(20)], "none.jsonl")
    near = f"{table}: no column 'ratings'; did you mean 'rating'? Columns: "
    assert near in fails(2, f"calibrate {table} {ASKED.replace('rating', 'ratings')}")
    first = "no row has a number in clarity_score; score the rows first"
    assert first in fails(2, f"calibrate {unscored} {ASKED} --plan")
    lines = f'{labels}: several lines; expected one record with "schema": "threshold/2"; name a file of `refladder cal'
    assert lines in fails(2, f"filter {table} --threshold {labels}")


@pytest.mark.parametrize(
    ("rating", "code", "note"),
    [
        (5, 0, "every label is good, so the labels cannot show whether the scores separate good rows from bad"),
        (2, 3, "no label meets >=4: they are between 2 and 2"),
    ],
)  # fmt: skip
def test_constant_labels(command, tables, rating, code, note):
    table, labels = tables(change_label=lambda _, label: label.update(rating=rating))
    done = command(f"calibrate {table} --labels {labels} {ASKED}")
    assert done.code == code
    assert f"Note: {note}\n" in done.err
    assert "AUC: not known, all labels are equal" in done.out


def test_a_condition_that_nothing_meets(calibrated):
    done, told = calibrated(asked=ASKED.replace("4", "40"))
    assert done.code == 3
    assert "no label meets >=40: they are between 1 and 5" in told["notes"]


def test_constant_scores(calibrated):
    done, told = calibrated(change_row=only(400, clarity_score=1.5))
    assert done.code == 3
    assert len(told["candidates"]) == 1
    assert "every row has the same score; the only cut-off keeps every row" in told["notes"]


def test_ties_are_kept_together(calibrated):
    scores = []

    def rounded(_, row):
        row["clarity_score"] = round(row["clarity_score"])
        scores.append(row["clarity_score"])

    _, told = calibrated(change_row=rounded)
    assert len(told["candidates"]) <= len(set(scores))
    for step in told["candidates"]:
        assert step["kept"] == sum(score >= step["cutoff"] for score in scores)


def test_one_context(calibrated):
    _, told = calibrated(change_row=only(400, context_id="only"))
    note = "all labels are of one context, so they show nothing about rows of other contexts"
    assert note in told["notes"]


def test_labels_that_are_no_random_sample(command, write_jsonl):
    rows = scored(1000)
    best = sorted(rows, key=lambda row: -row["clarity_score"])[:80]
    ratings = [{name: row[name] for name in ("output_id", "rating")} for row in best]
    table, labels = write_jsonl(split(rows, 0)[0]), write_jsonl(ratings, "l.jsonl")
    done = command(f"calibrate {table} --labels {labels} {ASKED}")
    assert "Note: the labelled rows have other scores than a random sample would have" in done.err


def test_several_labels_of_a_row_are_one(command, calibrated, tmp_path):
    _, once = calibrated()
    table, labels = tmp_path / "scored.jsonl", tmp_path / "labels.jsonl"
    labels.write_text(labels.read_text() * 2)
    told = json.loads(command(f"calibrate {table} --labels {labels} {ASKED} --json").out)
    assert told["notes"][0] == "100 rows with several labels, which count as one: their mean"
    assert {**told, "notes": []} == {**once, "notes": []}


def test_words_as_labels(calibrated):
    def as_word(_, label):
        label["rating"] = "yes" if label["rating"] >= 4 else "no"

    _, words = calibrated(change_label=as_word, asked=ASKED.replace(">=4", "=yes"))
    assert words["threshold"] == calibrated()[1]["threshold"]


def as_verdict(_, label):
    label["rating"] = "good" if label["rating"] >= 4 else "bad"


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("=Good", "no label is 'Good'; {labels}; did you mean '=good'?"),
        ("=godd", "no label is 'godd'; {labels}; did you mean '=good'?"),
        ("=no", "no label is 'no'; {labels}; give one of them: --good '=WORD'"),
        ("!=Bad", "no label is 'Bad'; {labels}; did you mean '!=bad'?"),
        (">=3", "LABELS:1: column 'rating' must be a finite number or empty, found 'good'; for words, give --good '=good'"),
    ],
)  # fmt: skip
def test_a_word_that_no_label_is(refused, calibrated, tmp_path, condition, message):
    """A typing error is no look: it changes no file."""
    out = tmp_path / "t.json"
    calibrated(change_label=as_verdict, asked=f"{ASKED.replace('>=4', '=good')} --out {out}")
    before = out.read_bytes()
    asked = ASKED.replace(">=4", condition)
    # By `grep -c bad` and `grep -c good` of the file of labels.
    message = message.format(labels="labels: 'bad' (56 rows), 'good' (44 rows)")
    for more in (f"--out {out}", f"--plan --out {tmp_path / 'plan.csv'}"):
        text = refused(change_label=as_verdict, asked=f"{asked} {more}")
        assert text == f"refladder: {message}\n"
    assert out.read_bytes() == before
    assert not (tmp_path / "plan.csv").exists()


def test_a_word_that_no_label_is_in_further_calls(fails, tables, tmp_path):
    table, labels = tables(change_label=as_verdict)
    asked = {"labels": str(labels), "label": "rating", "good": "=Good"}
    meant = "no label is 'Good'; labels: 'bad' .*; did you mean '=good'"
    for call in (refladder.calibrate, refladder.plan_labels):
        with pytest.raises(UsageError, match=meant):
            call(str(table), **asked, by="clarity_score", precision=0.8)
    chosen = refladder.calibrate(
        str(table), **asked | {"good": "=good"}, by="clarity_score", precision=0.5, out=tmp_path / "t.json"
    )  # fmt: skip
    with pytest.raises(UsageError, match=meant):
        refladder.estimate_precision(str(table), threshold=chosen.threshold, **asked)
    rate = f"calibrate {table} --labels {labels} --label rating --good =Good --rate {tmp_path / 't.json'}"
    assert "no label is 'Good'; labels: 'bad'" in fails(2, rate)


def test_labels_may_all_be_bad(calibrated):
    """Nobody may have found a good row."""

    def as_no(_number, row):
        row["rating"] = "no"

    done, told = calibrated(change_label=as_no, asked=ASKED.replace(">=4", "=yes"))
    assert done.code == ExitCode.INCOMPLETE
    assert "labels: 'no' (100 rows)" in told["notes"]


def test_a_word_that_no_label_need_be(calibrated):
    """Nobody may have called a row worst, so this is no typing error."""
    _, told = calibrated(change_label=as_verdict, asked=ASKED.replace(">=4", "!=worst"))
    assert "labels: 'bad' (56 rows, good), 'good' (44 rows, good)" in told["notes"]


@pytest.mark.parametrize("listed", [lambda ratings: ratings, json.dumps])
def test_ratings_of_several_people_are_their_mean(command, fails, write_jsonl, listed):
    """A list, or JSON in a cell: [4, 5, 3] is 4, as `evaluate table` reads it; null and blank are not given."""
    rows = scored()
    lists = [
        {**row, "rating": listed([row["rating"] + 1, None, row["rating"] - 1])} for row in rows
    ]
    told = [
        json.loads(command(f"calibrate {write_jsonl(table)} {ASKED} --json").out)
        for table in (rows, lists)
    ]
    assert told[0] == told[1]
    path = write_jsonl([{**lists[0], "rating": "[4, x]"}])
    found = "column 'rating': expected a finite number, found '[4, x]'"
    assert fails(2, f"calibrate {path} {ASKED}") == f"refladder: {path}:1: {found}\n"
    write_jsonl([{**row, "rating": []} for row in rows])
    assert "no scored row has a label in rating" in fails(2, f"calibrate {path} {ASKED}")


def test_one_text_under_many_prompts_needs_no_ids(command, write_jsonl):
    """A stock answer comes back under each prompt; its labels are beside the scores."""
    rows = [
        {"context": f"prompt {number % 20}", "system": "a", "output": ["Wait.", f"Answer {number}."][number < 40],
         "clarity_score": number % 7, "rating": 5 if number % 7 > 2 else 1}
        for number in range(60)
    ]  # fmt: skip
    done = command(f"calibrate {write_jsonl(rows)} {ASKED} --json")
    assert done.code in {0, 3}, done.err
    assert json.loads(done.out)["labels"] == 60


EITHER = "give what to promise: either --precision or --recall"


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (f"--label rating {BY} --precision 0.8", "and which are good: --label COLUMN --good"),
        (f"{ASKED} --recall 0.8", EITHER),
        (f"{GOOD} {BY}", EITHER),
        (
            f"{GOOD} {BY} --precision 80",
            "a promised share of 80.0: it must be more than 0 and less than 1; give 0.8 for 80 %\n",
        ),
        (
            f"{ASKED} --sure 1",
            "a promised certainty of 1.0: it must be more than 0 and less than 1, such as 0.9\n",
        ),
        (
            ASKED.replace(">=4", "high"),
            "--good 'high': must be a comparison with a number, such as '>=4', or '=WORD'; did you mean '=high'?",
        ),
        (
            ASKED.replace(">=4", "=>4"),
            "--good '=>4': must be a comparison with a number, such as '>=4'",
        ),
        (f"{GOOD} --precision 0.8", "give the column of the scores: --by COLUMN"),
        (
            f"{ASKED} --plan --rate t.json",
            "--plan and --rate are different runs; give one of them",
        ),
        (
            "--rate t.json --precision 0.8",
            "--rate promises nothing; leave out --precision and --recall",
        ),
        (f"{GOOD} {BY} --recall 0.8 --plan", "--plan is about --precision; leave out --recall"),
        (
            ASKED.removesuffix(" --precision 0.8")[:-1] + " --precision 0.8",
            "no column 'clarity_scor'; did you mean 'clarity_score'?",
        ),
    ],
)
def test_wrong_calls(refused, asked, words):
    assert words in refused(asked=asked)


def without_contexts(rows):
    dropped = {"context_id", "context"}
    return [{key: value for key, value in row.items() if key not in dropped} for row in rows]


def with_empty_contexts(rows):
    return [{**row, "context_id": None, "context": ""} for row in rows]


def with_a_number_and_its_text(rows):
    return [{**rows[0], "context_id": 0}, {**rows[1], "context_id": "0"}, *rows[2:]]


@pytest.mark.parametrize(
    ("change", "unit", "kept", "first"),
    [
        (list, None, "context", [0, 0, 1, 1]),  # two rows of a context, one after the other
        (list, "row", "row", [0, 1, 2, 3]),
        (without_contexts, None, "row", [0, 1, 2, 3]),
        (with_empty_contexts, None, "row", [0, 1, 2, 3]),
        (with_a_number_and_its_text, None, "context", [0, 0, 1]),
    ],
)
def test_the_unit_is_the_context_where_rows_have_one(write_jsonl, change, unit, kept, first):
    table = write_jsonl(change([{**row, "rating": 4} for row in scored()]))
    asked = LabelledTable(source=str(table), by="clarity_score", label="rating", unit=unit)
    pool = read_pool(asked)
    assert pool.unit == kept
    assert pool.units[: len(first)].tolist() == first
    assert len(pool.units) == len(pool.scores)


def test_the_threshold_file_names_the_unit(calibrated, tmp_path):
    out = tmp_path / "t.json"
    for more, unit in (("", "context"), ("--unit row", "row")):
        done, _ = calibrated(asked=f"{ASKED} {more} --out {out}")
        assert done.code in {0, 3}
        assert read_record(Threshold, out).unit == unit


def test_contexts_are_asked_for_where_there_are_none(fails, write_jsonl):
    table = write_jsonl(without_contexts(scored()))
    words = "in.jsonl:1: no row has a context_id or a context; leave out --unit context"
    assert words in fails(2, f"calibrate {table} {ASKED} --unit context")
    with pytest.raises(UsageError, match="--unit 'rows': must be row or context"):
        LabelledTable(source="-", by="clarity_score", unit="rows")


@pytest.mark.parametrize("listed", [True, False])
def test_the_mean_of_several_labels_does_not_depend_on_their_order(write_jsonl, listed):
    scores = write_jsonl([{"output_id": "o", "clarity_score": 1.0}], "scored.jsonl")

    def mean(given):
        cells = [given] if listed else given
        labels = write_jsonl([{"output_id": "o", "rating": cell} for cell in cells], "l.jsonl")
        table = {"source": str(scores), "labels": (str(labels),), "label": "rating"}
        return read_pool(LabelledTable(**table, by="clarity_score")).labels

    # From the left, 0.1 + 0.2 + 0.3 is 0.6000000000000001; another look would be counted.
    assert mean([0.1, 0.2, 0.3]) == mean([0.3, 0.2, 0.1]) == [0.6 / 3]


def test_a_row_without_an_id_has_no_label_of_another_row_without_one(write_jsonl):
    scores = write_jsonl([{"output_id": name, "clarity_score": 1.0} for name in (None, "", "o")])
    labels = write_jsonl([{"output_id": name, "rating": 5} for name in (None, "", "o")], "l.jsonl")
    table = {"source": str(scores), "labels": (str(labels),), "label": "rating"}
    pool = read_pool(LabelledTable(**table, by="clarity_score"))
    assert [row.position for row in pool.marked] == [2]
    assert pool.notes[0].startswith("2 of 3 labels not used: ")


def test_a_word_label_of_nan_is_no_label(write_jsonl):
    words = ["yes", math.nan, None, "", "no"]
    rows = [{"output_id": str(n), "s": n, "word": word} for n, word in enumerate(words)]
    table = LabelledTable(source=str(write_jsonl(rows)), by="s", label="word", good=Good("=yes"))
    assert read_pool(table).labels == ["yes", "no"]


def test_one_label_serves_all_copies_of_a_text_in_its_context(command, write_jsonl, tmp_path):
    texts = [
        {"context_id": f"c{n % 9}", "system": "a", "output": f"text {n}", "x_score": n}
        for n in range(40)
    ]
    # Text 1 once more, text 2 twice more, and text 3 as another system's answer; text 4 for another context is another.
    copies = [texts[1], texts[2], texts[2], {**texts[3], "system": "b"}]
    table = write_jsonl([*texts, *copies, {**texts[4], "context_id": "c8"}], "scored.jsonl")
    plan, ask = tmp_path / "plan.csv", f"calibrate {table} --by x_score --precision 0.5"
    assert command(f"{ask} --plan --out {plan}").code == 0
    with plan.open() as lines:
        rows = list(csv.DictReader(lines))
    names = ["context_id", "system", "output"]
    drawn = sorted([row["context_id"], row["output"]] for row in rows)
    assert drawn == sorted([[f"c{n % 9}", f"text {n}"] for n in range(40)] + [["c8", "text 4"]])
    labels = [{**{name: row[name] for name in names}, "good": 1} for row in rows]
    done = command(
        f"{ask} --labels {write_jsonl(labels, 'l.jsonl')} --label good --good >=1 --json"
    )
    told = json.loads(done.out)
    # 41 texts have a label; the share kept is of all 45 rows.
    assert (told["labels"], told["rows"], told["kept"]) == (41, 45, 45)
    assert (
        "3 labelled rows with the text and context of another: each text counts once"
        in told["notes"]
    )
    # Both systems' rows of text 3 have a label: 1 and 4 are a mean of 2.5; text 2 has 5, 5 and 2, a mean of 4.
    pool = read_pool(
        LabelledTable(
            source=str(
                write_jsonl(
                    [
                        {**row, "good": good}
                        for row, good in zip(
                            [*texts[:5], *copies], [3, 3, 5, 1, 3, None, 5, 2, 4], strict=True
                        )
                    ],
                    "in.jsonl",
                )
            ),
            by="x_score",
            label="good",
        )
    )
    assert dict(zip(pool.scores[pool.labelled].tolist(), pool.labels, strict=True)) == {
        0: 3,
        1: 3,
        2: 4,
        3: 2.5,
        4: 3,
    }
    assert pool.unlabelled.tolist() == [False] * 9


def test_a_plan_has_the_id_under_the_name_of_the_table(command, write_jsonl, tmp_path):
    table = write_jsonl(
        [{"Nr": n, "output": f"text {n}", "x_score": n} for n in range(30)], "in.jsonl"
    )
    plan, ask = (
        tmp_path / "plan.csv",
        f"calibrate {table} --by x_score --column output_id=Nr --precision 0.5",
    )
    assert command(f"{ask} --plan --out {plan}").code == 0
    head, *rows = plan.read_text().splitlines()
    assert head == "Nr,output,label,x_score_sampled_above"
    plan.write_text("\n".join([head, *(row.replace(",,", ",1,") for row in rows)]) + "\n")
    told = json.loads(command(f"{ask} --labels {plan} --label label --good >=1 --json").out)
    assert told["labels"] == 30


def test_copies_are_counted_in_the_summary_of_score(command, write_jsonl):
    rows = [
        {"context_id": "story-01", "output": text} for text in ("A lamp.", "A bell.", "A lamp.")
    ]
    line = ("score", write_jsonl(rows), "--ladders", "demo/story", "--dimension", "coherence")
    assert "1 row repeats the text and context of an earlier row\n" in command(*line).err
    (out,) = [
        command("score", "-", *line[2:], stdin=write_jsonl([*rows, rows[0]]).read_bytes()).err
    ]
    assert "2 rows repeat the text and context of an earlier row\n" in out
    # Rows of their own ids are two.
    named = [{**row, "output_id": str(number)} for number, row in enumerate(rows)]
    assert "repeat" not in command(line[0], write_jsonl(named), *line[2:]).err
