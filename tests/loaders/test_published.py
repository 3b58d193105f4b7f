"""A benchmark kept as records, and what the contract refuses."""

from __future__ import annotations

from dataclasses import replace

import pytest

from refladder.errors import DataError
from refladder.files.jsonl import write_records
from refladder.loaders import load_benchmark, read_folder
from refladder.records import Benchmark, Context, Dimension, Output, Rating
from refladder.testing import check_benchmark

SMALL = Benchmark(
    name="small",
    revision="1",
    licence="CC0",
    dimensions=(Dimension(name="clarity", description="Whether it is clear."),),
    contexts=(Context(id="a", task="open", text="Explain tides."),),
    outputs=(Output(id="a/s", context_id="a", system="s", text=""),),
    ratings=(Rating(output_id="a/s", dimension="clarity", value=3.0, rater="r"),),
)


def write(folder, benchmark):
    for name in ("contexts", "dimensions", "outputs", "ratings"):
        write_records(folder / f"{name}.jsonl", getattr(benchmark, name))


def read(folder):
    return read_folder(folder, name="small", revision="1", licence="CC0")


def test_round_trip(tmp_path, data):
    write(tmp_path, SMALL)
    assert read(tmp_path) == SMALL
    summeval = load_benchmark("summeval", data / "summeval/release")
    write(tmp_path, summeval)
    again = read_folder(
        tmp_path, name=summeval.name, revision=summeval.revision, licence=summeval.licence
    )
    assert again == summeval


def test_missing_file(tmp_path):
    write(tmp_path, SMALL)
    (tmp_path / "ratings.jsonl").unlink()
    with pytest.raises(
        DataError, match=r"no ratings\.jsonl \(or ratings\.jsonl\.gz\) in this folder"
    ):
        read(tmp_path)


def test_bad_line(tmp_path):
    write(tmp_path, SMALL)
    with (tmp_path / "outputs.jsonl").open("a") as stream:
        stream.write('{"schema":"output/1","id":"b"}\n')
    with pytest.raises(DataError, match=r"outputs\.jsonl:2: output/1 field 'context_id'"):
        read(tmp_path)


CONTEXT, OUTPUT, RATING = SMALL.contexts[0], SMALL.outputs[0], SMALL.ratings[0]
DIMENSION = SMALL.dimensions[0]
FAULTS = [
    ({"dimensions": ()}, r"small: it has no dimension; a benchmark needs at least one"),
    ({"contexts": ()}, r"small: it has no context; a benchmark needs at least one"),
    (
        {"dimensions": (DIMENSION, DIMENSION)},
        r"small: dimension 'clarity' appears 2 times; it must be unique",
    ),
    ({"contexts": (CONTEXT, CONTEXT)}, r"small: context id 'a' appears 2 times; it must be unique"),
    ({"outputs": (OUTPUT, OUTPUT)}, r"small: output id 'a/s' appears 2 times; it must be unique"),
    (
        {"outputs": (OUTPUT, replace(OUTPUT, id="b"))},
        r"pair of context and system \('a', 's'\) appears 2 times",
    ),
    (
        {"ratings": (RATING, RATING)},
        r"small: rating \('a/s', 'clarity', 'r'\) appears 2 times; it must be unique",
    ),
    (
        {"outputs": (replace(OUTPUT, context_id="z"),)},
        r"output 'a/s' refers to context 'z', which does not exist",
    ),
    (
        {"ratings": (replace(RATING, output_id="z"),)},
        r"a rating refers to output 'z', which does not exist",
    ),
    (
        {"ratings": (replace(RATING, dimension="z"),)},
        r"a rating refers to dimension 'z', which does not exist",
    ),
    (
        {"ratings": (replace(RATING, value=6.0),)},
        r"output 'a/s' is rated 6 on clarity, outside the scale 1 to 5",
    ),
    (
        {"ratings": (replace(RATING, value=float("nan")),)},
        r"output 'a/s' is rated nan on clarity, outside",
    ),
    (
        {"dimensions": (replace(DIMENSION, description=" "),)},
        r"dimension 'clarity' has no description; writer and",
    ),
    (
        {"dimensions": (replace(DIMENSION, low=5.0),)},
        r"'clarity' has the scale 5 to 5; low must be below high",
    ),
    (
        {"contexts": (CONTEXT, replace(CONTEXT, id="b", task="story"))},
        r"contexts of several tasks, open and story;",
    ),
    ({"contexts": (replace(CONTEXT, text="\n"),)}, r"small: context 'a' has no text"),
]


def test_contract_accepts():
    check_benchmark(SMALL)
    check_benchmark(replace(SMALL, ratings=()))


@pytest.mark.parametrize(("changes", "match"), FAULTS)
def test_contract_refuses(changes, match):
    with pytest.raises(DataError, match=match):
        check_benchmark(replace(SMALL, **changes))


def test_folder_that_does_not_fit_together(tmp_path):
    write(tmp_path, replace(SMALL, outputs=(replace(OUTPUT, context_id="z"),)))
    with pytest.raises(
        DataError,
        match=rf"{tmp_path}: small: output 'a/s' refers to context 'z', which does not exist",
    ):
        read(tmp_path)
