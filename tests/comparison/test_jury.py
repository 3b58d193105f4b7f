"""Juries: rows of several judges matched, combined and refused."""

from __future__ import annotations

import json
import logging
import math
import re

import pandas as pd
import pyarrow.parquet
import pytest
from json_lines import read_lines

import refladder
from refladder.errors import DataError, UsageError

LADDERS = "ladders:s@111111111111|criteria:tone@aaaaaaaaaaaa"


def signed(judge, *, ladders=LADDERS, asked="answers:rating|place:beaten", version="0.1"):
    return f"{ladders}|backend:{judge}|prompts:p|refladder:{version}|{asked}|least-mass:0.05"


def rows(judge, grades, **changes):
    """A row for each output with a grade."""
    signature = changes.pop("signature", None) or signed(judge, **changes)
    found = []
    for name, grade in grades.items():
        found.append(
            {
                "context_id": name[0],
                "output_id": name,
                "output": f"text {name}",
                "tone_score": grade,
                "tone_grade": grade,
                "tone_spread": 0.1,
                "tone_mass": 1.0,
                "tone_note": None,
                "signature": signature,
            }
        )
    return found


FIRST = {"a1": 1.0, "a2": 2.0, "b1": None}
SECOND = {"a2": 3.0, "a1": 2.0, "b1": 4.0, "b2": 5.0}
THIRD = {"a1": 6.0, "a2": 1.0, "b1": 2.0}
NAMES = ("x1", "x2", "y1", "y2")


@pytest.fixture
def tables(write_jsonl):
    judges = {"one": FIRST, "two": SECOND, "three": THIRD}
    return [str(write_jsonl(rows(name, its), f"{name}.jsonl")) for name, its in judges.items()]


def test_the_rows_are_those_of_the_first_table_and_then_the_others(tables, tmp_path, caplog):
    caplog.set_level(logging.INFO, "refladder")
    out = tmp_path / "jury.jsonl"
    assert refladder.jury(tables, out=str(out)) == str(out)
    found = read_lines(out)
    assert [row["output_id"] for row in found] == ["a1", "a2", "b1", "b2"]
    kept = ["context_id", "output_id", "output"]
    added = ["tone_grade", "tone_spread", "tone_judges", "tone_note", "signature"]
    assert list(found[0]) == [*kept, *added]
    # a1: 1, 2 and 6; a2: 2, 3 and 1; b1: 4 and 2; b2 has the second judge only, and two of three are needed.
    assert [row["tone_grade"] for row in found] == [3, 2, 3, None]
    spreads = [row["tone_spread"] for row in found]
    assert spreads[:3] == pytest.approx([math.sqrt(7), 1, math.sqrt(2)])
    assert spreads[3] is None
    assert [row["tone_judges"] for row in found] == [3, 3, 2, 1]
    assert [row["tone_note"] for row in found] == [
        None,
        None,
        "2 of 3 judges gave a grade",
        "1 of 3 judges gave a grade; 2 are needed",
    ]
    assert {row["signature"] for row in found} == {found[0]["signature"]}
    assert re.fullmatch(rf"{re.escape(LADDERS)}\|jury:mean@[0-9a-f]{{12}}", found[0]["signature"])
    assert [record.levelname for record in caplog.records] == ["WARNING", *["INFO"] * 3]
    assert "4 rows, 1 without a grade on some criterion" in caplog.text


def test_texts_of_one_id_with_other_words_are_counted(tables, command, tmp_path, write_jsonl):
    again = rows("four", SECOND)
    # Line ends are no other words; two texts are of another run.
    for row, text in zip(again, ("text  a2\r\n", "A text.", "Another.", "text b2"), strict=True):
        row["output"] = text
    other = write_jsonl(again, "four.jsonl")
    done = command(f"jury {tables[0]} {other} --out {tmp_path}/jury.jsonl")
    assert done.code == 0, done.err
    assert (
        f"{tables[0]}, {other}: 2 texts with one output_id and other words in two of the tables, matched by it all the same"
        in done.err
    )


def test_least_median_and_one_judge_twice(tables, command, tmp_path):
    out = tmp_path / "jury.jsonl"
    assert command(f"jury {' '.join(tables)} --median --least 3 --out {out}").code == 3
    found = read_lines(out)
    # The medians of 1, 2 and 6, and of 2, 3 and 1.
    assert [row["tone_grade"] for row in found] == [2, 2, None, None]
    assert "|jury:median@" in found[0]["signature"]
    done = command(f"jury {tables[1]} {tables[1]} --same-judge --json --out {out}")
    assert done.code == 0
    members = json.loads(done.out)["members"]
    assert list(members[0]) == [
        *("table", "judge", "dimension", "mean", "shift", "within", "pooled", "changed")
    ]
    assert (members[0]["mean"], members[0]["pooled"], members[0]["changed"]) == (3.5, 1, 0)
    assert json.loads(done.out)["fits_least"] is None
    for least in ("0", "3"):
        done = command(f"jury {tables[0]} {tables[1]} --least {least} --out {out}")
        assert done.code == 2


def test_of_three_the_one_whose_order_differs_is_named(command, tmp_path, write_jsonl):
    orders = {"one": (1, 2, 3, 4), "two": (2, 3, 4, 7), "other": (2, 1, 4, 3)}
    paths = [
        str(write_jsonl(rows(judge, dict(zip(NAMES, its, strict=True))), f"{judge}.jsonl"))
        for judge, its in orders.items()
    ]
    done = command(f"jury {' '.join(paths)} --out {tmp_path / 'jury.jsonl'}")
    assert done.code == 0
    assert f"least in step with the others: {paths[2]}" in done.err
    row = next(line for line in done.out.splitlines() if "one, rating" in line)
    assert row.split()[-7:] == ["one,", "rating", "2.50", "-0.41", "1.00", "0.95", "8.3%"]


def test_who_and_where_the_judges_are_makes_no_other_jury_but_another_judge_does():
    def digest(*tables):
        return refladder.jury(list(tables))[0]["signature"]

    one, two = rows("one", FIRST), rows("two", SECOND)
    compared = rows("two", SECOND, asked="orders:1|rule:ladder-sum")
    assert digest(one, two) == digest(two, one)
    assert digest(one, two) == digest(one, rows("two", SECOND, version="0.2"))
    assert digest(one, two) != digest(one, rows("three", SECOND))
    # A comparison's grade is the same share of rungs.
    assert digest(one, two) != digest(one, compared)
    # A jury may be a member; a grade of its judge is on another scale.
    both = refladder.jury([one, two])
    assert [row["tone_judges"] for row in refladder.jury([both, rows("x", THIRD)])] == [2, 2, 2, 1]
    message = r"different scales: answers:rating\|place:beaten here, jury:mean@\w{12} in row 1"
    with pytest.raises(DataError, match=message):
        refladder.filter([*both, *one], min={"tone_grade": 2}, across_judges=True)


def test_a_jury_is_a_table_of_grades_for_other_commands(tables, command, tmp_path):
    out = tmp_path / "jury.jsonl"
    scales = {"scales": {"tone_grade": [1.0, 7.0]}}
    (tmp_path / "two.jsonl.run.json").write_text(json.dumps(scales))
    refladder.jury(tables, out=out)
    record = json.loads((tmp_path / "jury.jsonl.run.json").read_text())
    assert (record["command"], record["scales"]) == ("jury", scales["scales"])
    done = command(f"filter {out} --best 1 --per context_id --out {tmp_path / 'best.jsonl'}")
    assert done.code == 0
    assert [row["output_id"] for row in read_lines(tmp_path / "best.jsonl")] == ["a1", "b1"]
    assert "a file of judgments" not in command(f"rescore {out} --out {tmp_path / 'r.jsonl'}").err
    assert command(f"rescore {out} --out {tmp_path / 'r.jsonl'}").code == 2


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_files_of_each_kind_and_frames_give_the_same(kind, tables, tmp_path):
    expected = refladder.jury([read_lines(path) for path in tables])
    paths = [str(tmp_path / f"{number}.{kind}") for number in range(3)]
    for path, table in zip(paths, tables, strict=True):
        frame = pd.DataFrame(read_lines(table))
        if kind == "jsonl":
            frame.to_json(path, orient="records", lines=True)
        elif kind == "csv":
            frame.to_csv(path, index=False)
        else:
            frame.to_parquet(path)
    out = tmp_path / f"jury.{kind}"
    refladder.jury(paths, out=out)
    read = {"jsonl": lambda path: pd.DataFrame(read_lines(path)), "csv": pd.read_csv}
    found = read.get(kind, lambda path: pyarrow.parquet.read_table(path).to_pandas())(out)
    wanted = pd.DataFrame(expected)
    of_frames = refladder.jury([pd.DataFrame(read_lines(path)) for path in tables])
    for frame in (found, of_frames):
        assert list(frame) == list(wanted)
        for name in ("output_id", "output", "signature"):
            assert list(frame[name]) == list(wanted[name])
        for name in ("tone_grade", "tone_spread", "tone_judges"):
            pd.testing.assert_series_equal(frame[name], wanted[name], check_dtype=False)


def test_rows_match_by_context_where_ids_recur_else_by_text_and_under_any_names():
    def judged(judge, *texts):
        return [
            {**row, "context_id": context, "output": text, "output_id": "x"}
            for row, (context, text) in zip(
                rows(judge, dict.fromkeys(map(str, range(9)), 3)), texts, strict=False
            )
        ]

    two = [("a", "hello"), ("b", "bye")]
    found = refladder.jury([judged("one", *two), judged("two", *two[::-1])])
    assert [(row["context_id"], row["tone_judges"]) for row in found] == [("a", 2), ("b", 2)]
    without = [
        [{k: v for k, v in row.items() if k != "output_id"} for row in judged(j, *two)]
        for j in "pq"
    ]
    renamed = [{"reply": row.pop("output"), **row} for row in map(dict, without[1])]
    found = refladder.jury([without[0], renamed[::-1]], columns={"output": "reply"})
    assert [(row["output"], row["tone_judges"]) for row in found] == [("hello", 2), ("bye", 2)]
    # A row with neither id nor text is one of its own.
    none = [{**row, "output": None} for row in without[0]]
    assert [row["tone_judges"] for row in refladder.jury([none + without[0], without[1]])] == [
        1,
        1,
        2,
        2,
    ]


ONE = rows("one", FIRST)
REFUSED = {
    "other ladders": (
        rows("two", SECOND, ladders=LADDERS.replace("1111", "2222")),
        (
            r"table 1 and table 2 have grades on different scales: ladders:s@111111111111 and "
            r"ladders:s@222222222222; score both with the same ladder set, anchors and criteria$"
        ),
    ),
    "other anchors": (
        rows("two", SECOND, ladders=LADDERS.replace("|", "|anchors:a,b|")),
        "different scales: nothing in its place and anchors:a,b; ",
    ),
    "another criterion": (
        rows("two", SECOND, ladders=LADDERS.replace("aaaa", "bbbb")),
        "different scales: criteria:tone@aaaaaaaaaaaa and criteria:tone@bbbbbbbbbbbb; ",
    ),
    "no grades": (
        rows("two", dict.fromkeys(SECOND)),
        "^table 2: no row has a grade, and a jury needs grades of `refladder score` on a ladder set$",
    ),
    "no column": (
        [{k: v for k, v in row.items() if k != "tone_grade"} for row in rows("two", SECOND)],
        "^row 1 of table 2: no column 'tone_grade'",
    ),
    "no signature": (
        [row | {"signature": None} for row in rows("two", SECOND)],
        "^table 2: the signature 'is missing' names no criteria, so it is of no ladder set, or of an earlier version",
    ),
    "graded examples": (
        rows("two", SECOND, asked="answers:anchored|example:own"),
        "^table 2: the grades of two, anchored are no places among rungs that the judge has read, and a jury needs these",
    ),
    "the same judge": (
        rows("one", SECOND, version="0.9"),
        (
            r"^table 1 and table 2 are of the same judge \(one, rating\), and one judge twice is no jury; leave one out, or "
            "give same_judge$"
        ),
    ),
    "no common rows": (
        rows("two", {"c1": 1.0}),
        r"^table 1, table 2: no row is in two of these tables \(matched by output_id\); score the same texts with each judge$",
    ),
    "ids that recur": (
        rows("two", SECOND) + rows("two", {"a1": 2.0}),
        "^row 5 of table 2: the output_id 'a1' is in row 2 of table 2 too; ids must be unique in a context$",
    ),
    "two judges in one table": (
        rows("two", SECOND) + rows("three", {"c1": 2.0}),
        "^row 5 of table 2: the scores in column 'tone_grade' are on different scales: backend:three here, backend:two in",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_before_anything_is_written(name, tmp_path):
    other, message = REFUSED[name]
    out = tmp_path / "jury.jsonl"
    with pytest.raises((DataError, UsageError), match=message):
        refladder.jury([ONE, other], out=out)
    assert list(tmp_path.iterdir()) == []


def test_wrong_arguments(tables, tmp_path):
    refused = {
        "^1 table: a jury needs two or more, each with the grades of one judge$": [ONE],
        "^tables in files are combined in another file; give out=PATH$": tables,
        "^tables must be a list of two or more tables, found '": tables[0],
    }
    for message, given in refused.items():
        with pytest.raises(UsageError, match=message):
            refladder.jury(given)
    judgments = tmp_path / "x.jsonl.judgments.jsonl"
    judgments.write_text('{"schema": "run/1", "recipe": {}, "ladders": "none"}\n')
    with pytest.raises(DataError, match="a file of judgments; name the scored rows"):
        refladder.jury([tables[0], judgments], out=tmp_path / "jury.jsonl")
