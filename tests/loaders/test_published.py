"""A benchmark kept as records, and what the contract refuses."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from refladder.errors import DataError
from refladder.files.jsonl import write_records
from refladder.loaders import load_benchmark, read_folder
from refladder.records import Benchmark, Context, Dimension, Output, Rating
from refladder.testing import check_benchmark

CONTEXT = Context(id="a", task="open", text="Explain tides.")
DIMENSION = Dimension(name="clarity", description="Whether it is clear.")
OUTPUT = Output(id="a/s", context_id="a", system="s", text="")
RATING = Rating(output_id="a/s", dimension="clarity", value=3.0, rater="r")
SMALL = Benchmark(
    name="small",
    revision="1",
    licence="CC0",
    dimensions=(DIMENSION,),
    contexts=(CONTEXT,),
    outputs=(OUTPUT,),
    ratings=(RATING,),
)


def write(folder, benchmark):
    for name in ("contexts", "dimensions", "outputs", "ratings"):
        write_records(folder / f"{name}.jsonl", getattr(benchmark, name))


def read(folder):
    return read_folder(folder, name="small", revision="1", licence="CC0")


def test_round_trip(tmp_path, data):
    unrated = replace(SMALL, ratings=())
    write(tmp_path, unrated)
    assert read(tmp_path) == unrated
    summeval = load_benchmark("summeval", data / "summeval/release")
    write(tmp_path, summeval)
    told = {"name": summeval.name, "revision": summeval.revision, "licence": summeval.licence}
    assert read_folder(tmp_path, **told) == summeval


def test_a_wrong_folder_is_refused_with_its_place(tmp_path):
    write(tmp_path, replace(SMALL, outputs=(replace(OUTPUT, context_id="z"),)))
    with pytest.raises(DataError, match=rf"^{tmp_path}: small: output 'a/s' refers to context 'z'"):
        read(tmp_path)
    (tmp_path / "ratings.jsonl").unlink()
    with pytest.raises(DataError, match=r"no ratings\.jsonl \(or ratings\.jsonl\.gz\) in this fol"):
        read(tmp_path)
    (tmp_path / "outputs.jsonl").write_text('{"schema":"output/1","id":"b"}\n')
    with pytest.raises(DataError, match=r"outputs\.jsonl:1: output/1 field 'context_id'"):
        read(tmp_path)


@pytest.mark.parametrize(
    ("part", "changes", "message"),
    [
        (
            "outputs",
            {"context_id": "z"},
            "output 'a/s' refers to context 'z', which does not exist",
        ),
        ("ratings", {"output_id": "z"}, "a rating refers to output 'z', which does not exist"),
        ("ratings", {"dimension": "z"}, "a rating refers to dimension 'z', which does not exist"),
        ("ratings", {"value": 6.0}, "output 'a/s' is rated 6 on clarity, outside the scale 1 to 5"),
        (
            "ratings",
            {"value": math.nan},
            "output 'a/s' is rated nan on clarity, outside the scale 1 to 5",
        ),
        (
            "dimensions",
            {"description": " "},
            "dimension 'clarity' has no description; writer and judge need one",
        ),
        (
            "dimensions",
            {"low": 5.0},
            "dimension 'clarity' has the scale 5 to 5; low must be below high",
        ),
        ("contexts", {"text": "\n"}, "context 'a' has no text"),
    ],
)
def test_contract_refuses_a_record(part, changes, message):
    (record,) = getattr(SMALL, part)
    with pytest.raises(DataError, match=f"^small: {message}"):
        check_benchmark(replace(SMALL, **{part: (replace(record, **changes),)}))


UNIQUE = "appears 2 times; it must be unique"


@pytest.mark.parametrize(
    ("part", "records", "message"),
    [
        ("dimensions", [], "it has no dimension; a benchmark needs at least one"),
        ("contexts", [], "it has no context; a benchmark needs at least one"),
        ("dimensions", [DIMENSION] * 2, f"dimension 'clarity' {UNIQUE}"),
        ("contexts", [CONTEXT] * 2, f"context id 'a' {UNIQUE}"),
        ("contexts", [CONTEXT, replace(CONTEXT, id="b", task="x")], "contexts of several tasks"),
        ("outputs", [OUTPUT] * 2, f"output id 'a/s' {UNIQUE}"),
        ("outputs", [OUTPUT, replace(OUTPUT, id="b")], r"pair of context and system \('a', 's'\)"),
        ("ratings", [RATING] * 2, rf"rating \('a/s', 'clarity', 'r'\) {UNIQUE}"),
    ],
)
def test_contract_refuses_a_number_of_records(part, records, message):
    with pytest.raises(DataError, match=f"^small: {message}"):
        check_benchmark(replace(SMALL, **{part: tuple(records)}))
