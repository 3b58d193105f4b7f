"""Rows or contexts as the units that were drawn to be labelled."""

from __future__ import annotations

import json

import pytest
from labelled_rows import scored, split

from refladder.errors import UsageError
from refladder.files.jsonl import read_record
from refladder.jobs.labelling import Asked, read_pool
from refladder.records import Threshold

ASKED = ("--label", "rating", "--good", ">=4", "--by", "clarity_score", "--precision", "0.8")


def without_contexts(rows):
    return [{key: value for key, value in row.items() if key not in {"context_id", "context"}} for row in rows]


@pytest.mark.parametrize(
    ("change", "unit", "kept", "first"),
    [
        (list, None, "context", [0, 0, 1, 1]),  # two rows of a context, one after the other
        (list, "row", "row", [0, 1, 2, 3]),
        (without_contexts, None, "row", [0, 1, 2, 3]),
        (lambda rows: [{**row, "context_id": None, "context": ""} for row in rows], None, "row", [0, 1, 2, 3]),
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
    pool = read_pool(str(table), Asked(by=("clarity_score",), label=("rating",), unit=unit))
    assert pool.unit == kept
    assert pool.units[: len(first)].tolist() == first
    assert len(pool.units) == len(pool.scores)


def test_the_threshold_file_names_the_unit(command, write_jsonl, tmp_path):
    without, given = split(scored(), 120)
    table, labels, out = write_jsonl(without, "scored.jsonl"), write_jsonl(given, "labels.jsonl"), tmp_path / "t.json"
    for more, unit in (((), "context"), (("--unit", "row"), "row")):
        assert command("calibrate", table, "--labels", labels, *ASKED, *more, "--out", out).code in {0, 3}
        assert read_record(Threshold, out).unit == unit
    older = {key: value for key, value in json.loads(out.read_text()).items() if key != "unit"}
    out.write_text(json.dumps(older))
    assert read_record(Threshold, out).unit is None


def test_contexts_are_asked_for_where_there_are_none(fails, write_jsonl):
    table = write_jsonl(without_contexts([{**row, "rating": 4} for row in scored()]))
    words = "in.jsonl:1: no row has a context_id or a context; leave out --unit context"
    assert words in fails(2, "calibrate", table, *ASKED, "--unit", "context")
    scale = ("--label", "rating", "--by", "clarity_score", "--human-scale", "--unit", "row")
    assert "--human-scale holds out whole contexts; leave out --unit" in fails(2, "calibrate", table, *scale)
    with pytest.raises(UsageError, match="--unit 'rows': must be row or context"):
        Asked(by=("clarity_score",), unit="rows")
