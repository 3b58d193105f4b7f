"""Reading many lines at once gives what reading them one by one gives, errors included."""

from __future__ import annotations

import json

import pytest

from refladder.errors import DataError
from refladder.files.jsonl import from_line, from_lines, to_line
from refladder.files.tables import read_rows
from refladder.records import Judgment, Rating


def line_of(value):
    return (
        to_line(Rating(output_id="a", dimension="b", value=value, rater="c")).decode().rstrip("\n")
    )


def located(lines):
    return [(f"f:{number}", line) for number, line in enumerate(lines, start=1)]


def test_many_lines_are_the_records_of_each_line():
    lines = [line_of(1.0), line_of(2.5), line_of(3.0)]
    assert from_lines(Rating, located(lines)) == [from_line(Rating, line, "f") for line in lines]
    assert from_lines(Rating, []) == []


def test_another_spelling_of_the_same_json_is_read_too():
    spaced = json.dumps(json.loads(line_of(4.0)), indent=None, separators=(" , ", " : "))
    assert [one.value for one in from_lines(Rating, located([line_of(1.0), spaced]))] == [1.0, 4.0]


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(line_of(2.0) + "," + line_of(3.0), id="two objects"),
        pytest.param(line_of(2.0)[:-4], id="torn"),
        pytest.param(line_of(2.0)[:-3], id="torn in a string"),
        pytest.param(line_of(2.0).replace('"b"', "7"), id="wrong type"),
        pytest.param(line_of(2.0)[:-1] + ',"more":1}', id="unknown key"),
        pytest.param("", id="blank"),
        pytest.param("null", id="another kind"),
    ],
)
def test_a_bad_line_is_named_as_when_read_alone(bad):
    with pytest.raises(DataError) as alone:
        from_line(Rating, bad, "f:2")
    with pytest.raises(DataError) as together:
        from_lines(Rating, located([line_of(1.0), bad, line_of(3.0)]))
    assert str(together.value) == str(alone.value)
    assert str(alone.value).startswith("f:2: ")


def test_rows_may_be_spaced_as_json_allows(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"a": 1}\r\n  {"a": 2}  \n{"a": 3}\t\n{"a": 4}')
    assert [row.fields["a"] for row in read_rows(str(path))] == [1, 2, 3, 4]


def test_two_objects_on_a_line_are_refused(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"a": 1}\n{"a": 2} {"a": 3}\n')
    with pytest.raises(
        DataError, match=r"rows\.jsonl:2: not JSON \(Extra data: line 1 column 10 \(char 9\)\)"
    ):
        list(read_rows(str(path)))


def test_judgments_written_before_cut_was_a_field_are_read():
    made = {
        "context_id": "c",
        "dimension": "fluency",
        "subject": "o",
        "against": "rung:1",
        "outcomes": ("win", "loss", "tie"),
        "logprobs": (-0.1, -3.0, -4.0),
        "mass": 0.9,
        "key": "k",
        "recipe": "r",
    }
    notes = [None, "a remark"]
    lines = []
    for note in notes:
        fields = json.loads(to_line(Judgment(**made, note=note)))
        del fields["cut"]
        lines.append(json.dumps(fields, separators=(",", ":")))
    expected = [Judgment(**made, note=note) for note in notes]
    assert [from_line(Judgment, line, "f") for line in lines] == expected
    assert from_lines(Judgment, located(lines)) == expected


def test_the_field_cut_is_read_whatever_the_note_says():
    judgment = Judgment(
        context_id="c",
        dimension="fluency",
        subject="o",
        against=None,
        outcomes=("1", "2"),
        logprobs=None,
        mass=None,
        key="k",
        recipe="r",
        note="no answer",
        cut=True,
    )
    assert from_line(Judgment, to_line(judgment).decode(), "f") == judgment
