"""A user's own data: columns mapped by hand, and every message on the way."""

from __future__ import annotations

import gzip
import json

import pytest

from refladder.errors import DataError, UnknownNameError, UsageError
from refladder.loaders import load_benchmark
from refladder.loaders.user_table import load_contexts, load_user_table
from refladder.testing import check_benchmark

TASK = """\
task = "open"

[[dimensions]]
name = "clarity"
description = "Whether it is clear."
"""
ROW = {"context": "Explain tides.", "system": "alpha", "output": "The moon."}
TIDES = "e8c4047b678dc8ab"  # printf 'Explain tides.' | b2sum -l 64


@pytest.fixture
def task(tmp_path):
    path = tmp_path / "task.toml"
    path.write_text(TASK)
    return path


@pytest.fixture
def load(task, write_jsonl):
    """Load rows in JSON lines with a task of one dimension, clarity."""

    def go(*rows, **options):
        return load_user_table(write_jsonl(rows), **{"task_file": task, **options})

    return go


def test_jsonl(data, ratings):
    benchmark = load_user_table(data / "own/outputs.jsonl", task_file=data / "own/task.toml")
    check_benchmark(benchmark)
    assert benchmark.name == "table"
    assert [context.id for context in benchmark.contexts] == ["q1", "q2"]
    assert benchmark.contexts[0].background == "The moon pulls the sea."
    assert benchmark.contexts[1].text == "Explain rust {{context}}."
    texts = [(output.id, output.text) for output in benchmark.outputs]
    moon, rust = "The moon pulls the water.", "Iron, water,\nair."
    assert texts == [("q1/alpha", moon), ("q1/beta", ""), ("q2/alpha", rust)]
    assert ratings(benchmark, "q2/alpha", "charm") == {"mean": 2.5}


def test_all_formats_are_the_same(data, tmp_path):
    task_file = data / "own/task.toml"
    lines = (data / "own/outputs.jsonl").read_text()
    rows = [json.loads(line) for line in lines.splitlines()]
    (tmp_path / "rows.json").write_text(json.dumps(rows))
    (tmp_path / "rows.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    parquet = pytest.importorskip("pyarrow.parquet")
    pyarrow = pytest.importorskip("pyarrow")
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "rows.parquet")
    expected = load_user_table(data / "own/outputs.jsonl", task_file=task_file)
    made = [tmp_path / f"rows.{ending}" for ending in ("json", "jsonl.gz", "parquet")]
    for source in [data / "own/outputs.csv", *made]:
        benchmark = load_user_table(source, task_file=task_file)
        assert benchmark.contexts == expected.contexts
        assert benchmark.outputs == expected.outputs
        assert benchmark.ratings == expected.ratings


def test_by_name_and_without_data(data):
    options = {"task_file": data / "own/task.toml"}
    assert len(load_benchmark("table", data / "own/outputs.csv", **options).outputs) == 3
    with pytest.raises(
        UsageError, match="table: no data given; pass source=PATH or source=hub:ORG/"
    ):
        load_benchmark("table", **options)


def test_ids_come_from_the_text(load):
    rust = {**ROW, "context": "Explain rust."}
    first, second = load(ROW, rust), load(rust, ROW)
    assert set(first.outputs) == set(second.outputs)
    assert (first.contexts[0].id, first.outputs[0].id) == (TIDES, f"{TIDES}/alpha")
    assert first.ratings == ()


def test_outputs_without_ids_and_systems_have_ids_of_their_texts(load):
    low, high = ({**ROW, "output": "a", "clarity": 1}, {**ROW, "output": "b", "clarity": 4})
    del low["system"], high["system"]
    first, second = load(low, high), load(high, low)
    assert first.outputs[0].id == f"{TIDES}/433911c6eb0d"  # printf a | b2sum -l 48
    assert set(first.outputs) == set(second.outputs)
    again = load(low, high, low, {**low, "clarity": 5})
    repeated = [one for one in again.ratings if one.output_id == first.outputs[0].id]
    assert [one.value for one in repeated] == [1, 1, 5]
    assert [one.rater for one in repeated] == ["mean", "mean (2)", "mean (3)"]


def test_mapped_columns(load):
    row = {"id": 7, "question": "Explain tides.", "model": "alpha", "answer": "Moon.", "score": "4"}
    fields = ("output_id", "context", "system", "output", "clarity")
    benchmark = load(row, columns=dict(zip(fields, row, strict=True)))
    assert (benchmark.outputs[0].id, benchmark.outputs[0].system) == ("7", "alpha")
    assert benchmark.ratings[0].value == 4


def test_fields_of_objects(load):
    rows = [
        {"prompt": {"text": "Explain tides."}, "reply": {"text": "a"}, "scores": {"clarity": 4}},
        {"prompt": {"text": "Explain tides."}, "reply": {"text": "b"}, "scores": None},
    ]
    columns = {"context": "prompt.text", "output": "reply.text", "clarity": "scores.clarity"}
    benchmark = load(*rows, columns=columns)
    assert [output.text for output in benchmark.outputs] == ["a", "b"]
    assert [rating.value for rating in benchmark.ratings] == [4]
    columns["clarity"] = "scores.clarty"
    with pytest.raises(DataError, match=r":1: no column 'scores.clarty'; .* the field 'clarity'"):
        load(*rows, columns=columns)


def test_what_may_be_left_out(load):
    assert load({"context": "c", "output": "o", "output_id": "x"}).outputs[0].system == ""
    assert load({**ROW, "background": None}).contexts[0].background == ""
    assert load({**ROW, "references": "One."}).contexts[0].references == ("One.",)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"contxt": "c"}], r":1: no column 'context'; did you mean 'contxt'\? It has: contxt; m"),
        ([{"context": "c"}], r":1: no column 'output'. It has: context; map .* output=COLUMN$"),
        ([ROW, {"context": "c", "system": "s"}], r":2: no column 'output'. It has: context"),
        (
            [{**ROW, "contextid": "1"}],
            r":1: column 'contextid' looks like the field 'context_id'; map it with context_id=cont",
        ),
        ([{**ROW, "context": " "}], r":1: the text of context '\w{16}' is empty; remove the row$"),
        ([{**ROW, "clarity": 9}], r":1: clarity is rated 9, outside the scale 1 to 5$"),
        (
            [{**ROW, "clarity": [3, "good"]}],
            r":1: column 'clarity': expected a finite number, found 'good'$",
        ),
        ([{**ROW, "clarity": 10**400}], r":1: not JSON \(a whole number of 401 characters\)"),
        (
            [ROW, {**ROW, "output": "another"}],
            r":2: output '\w+/alpha' already appears at .*in\.jsonl:1; keep one of them, or name who",
        ),
        (
            [{**ROW, "context_id": "k"}, {**ROW, "context_id": "k", "context": "other"}],
            r":2: context 'k' has different content at .*:1; an id must belong to one text$",
        ),
        (
            [{**ROW, "clarity": 3, "rater": "ann"}] * 2,
            r":2: rater 'ann' rated output '\w+/alpha' on clarity at .*:1 already; keep one$",
        ),
        (
            [{**ROW, "clarity": [3, 4], "rater": "ann"}],
            r":1: 2 ratings in a row of rater 'ann'; a row has those of one rater$",
        ),
    ],
)
def test_a_wrong_row_is_refused_with_its_place(load, rows, message):
    with pytest.raises(DataError, match=rf"in\.jsonl{message}"):
        load(*rows)


def test_text_that_is_no_row(tmp_path, task):
    path = tmp_path / "rows.jsonl"
    for text, message in (
        (json.dumps(ROW) + "\n{", r":2: not JSON "),
        ("[1]", ":1: a JSON list; each line must be one JSON object"),
        ("", ": it has no rows"),
    ):
        path.write_text(text)
        with pytest.raises(DataError, match=rf"rows\.jsonl{message}"):
            load_user_table(path, task_file=task)


def test_some_dimensions_without_ratings(data, load):
    message = (
        r":1: no column 'charm'. It has: .*; other dimensions have ratings, so map it with charm"
    )
    with pytest.raises(DataError, match=message):
        load({**ROW, "clarity": 3}, task_file=data / "own/task.toml")


def test_an_unknown_field(load):
    with pytest.raises(UnknownNameError, match=r"unknown field 'ouput'; did you mean 'output'\?"):
        load(ROW, columns={"ouput": "x"})


def test_contexts_alone(load, write_jsonl):
    rows = [ROW, {**ROW, "system": "beta"}, {"context": "Explain rust."}]
    contexts = load_contexts(write_jsonl(rows), task="open")
    assert [context.text for context in contexts] == ["Explain tides.", "Explain rust."]
    assert load(ROW).outputs[0].context_id == contexts[0].id
    path = write_jsonl(rows)
    # `score` needs a mapped output, and `build` not.
    assert load_contexts(path, task="open", columns={"output": "x"}) == contexts
    with pytest.raises(UnknownNameError, match=r"'reply'.*Known: background, context"):
        load_contexts(path, task="open", columns={"reply": "x"})
    with pytest.raises(DataError, match=r"in\.jsonl: it has no rows"):
        load_contexts(write_jsonl([]), task="open")


@pytest.mark.parametrize("column", ["context_id", "context", "background", "system", "output"])
def test_half_a_surrogate_pair_is_refused_before_anything_is_paid_for(tmp_path, task, column):
    row = {**ROW, "context_id": "a", "background": "", column: "half \ud83d"}
    path, message = tmp_path / "rows.jsonl", rf":1: column '{column}': half a surrogate pair"
    path.write_text(json.dumps(row))
    with pytest.raises(DataError, match=message):
        load_user_table(path, task_file=task)
    if column in {"context_id", "context", "background"}:
        with pytest.raises(DataError, match=message):
            load_contexts(path, task="open")


BASE = {"context_id": "c", "context": "Explain tides.", "output": "The moon."}
A, B = {**BASE, "system": "a"}, {**BASE, "system": "b"}
ANN, BOB = {"rater": "ann"}, {"rater": "bob"}


@pytest.mark.parametrize(
    "rows",
    [
        [{**A, "clarity": [4, 2]}, {**B, "clarity": [5, None]}],
        [{**A, "clarity": "[4, 2]"}, {**B, "clarity": "5"}],
        [{**A, **ANN, "clarity": 4}, {**A, **BOB, "clarity": 2}, {**B, **ANN, "clarity": 5}],
    ],
)
def test_ratings_of_several_raters(load, rows):
    ratings = load(*rows).ratings
    rated = [("c/a", "clarity", 4.0), ("c/a", "clarity", 2.0), ("c/b", "clarity", 5.0)]
    assert [(one.output_id, one.dimension, one.value) for one in ratings] == rated
    assert len({one.rater for one in ratings[:2]}) == 2


def test_documents_may_have_a_context_and_need_none(load, task):
    task.write_text(TASK.replace('"open"', '"document"'))
    benchmark = load(
        {"output": "A.", "clarity": 1},
        {"output": "B.", "context_id": "", "context": None, "clarity": 2},
        {"output": "C.", "context_id": "c", "context": "A prompt.", "clarity": 3},
    )
    contexts = [(context.id, context.text) for context in benchmark.contexts]
    assert contexts == [("", ""), ("c", "A prompt.")]
    outputs = [(output.context_id, output.text) for output in benchmark.outputs]
    assert outputs == [("", "A."), ("", "B."), ("c", "C.")]
