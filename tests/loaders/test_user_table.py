"""A user's own data: columns mapped by hand, a task file, and every message on the way."""

from __future__ import annotations

import gzip
import io
import json
import sys

import pytest

from refladder.errors import DataError, UnknownNameError, UsageError
from refladder.loaders import load_benchmark
from refladder.loaders.task_files import read_task
from refladder.loaders.user_table import load_contexts, load_user_table
from refladder.testing import check_benchmark

TASK = """\
task = "open"

[[dimensions]]
name = "clarity"
description = "Whether it is clear."
low = 1
high = 5
"""


@pytest.fixture
def task(tmp_path):
    path = tmp_path / "task.toml"
    path.write_text(TASK)
    return path


@pytest.fixture
def write(tmp_path):
    def to(*rows, name="rows.jsonl"):
        path = tmp_path / name
        path.write_text(
            "".join(row + "\n" if isinstance(row, str) else json.dumps(row) + "\n" for row in rows)
        )
        return path

    return to


ROW = {"context": "Explain tides.", "system": "alpha", "output": "The moon."}


def test_jsonl(data, ratings):
    benchmark = load_user_table(data / "own/outputs.jsonl", task_file=data / "own/task.toml")
    check_benchmark(benchmark)
    assert benchmark.name == "own"
    assert [context.id for context in benchmark.contexts] == ["q1", "q2"]
    assert benchmark.contexts[0].background == "The moon pulls the sea."
    assert benchmark.contexts[1].text == "Explain rust {{context}}."
    assert [output.id for output in benchmark.outputs] == ["q1/alpha", "q1/beta", "q2/alpha"]
    assert [output.text for output in benchmark.outputs] == [
        "The moon pulls the water.",
        "",
        "Iron, water,\nair.",
    ]
    assert ratings(benchmark, "q2/alpha", "charm") == {"mean": 2.5}


def test_csv_json_and_parquet_are_the_same(data, tmp_path):
    task_file = data / "own/task.toml"
    expected = load_user_table(data / "own/outputs.jsonl", task_file=task_file)
    rows = [json.loads(line) for line in (data / "own/outputs.jsonl").read_text().splitlines()]
    (tmp_path / "rows.json").write_text(json.dumps(rows))
    sources = [data / "own/outputs.csv", tmp_path / "rows.json"]
    parquet = pytest.importorskip("pyarrow.parquet")
    pyarrow = pytest.importorskip("pyarrow")
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "rows.parquet")
    for source in [*sources, tmp_path / "rows.parquet"]:
        benchmark = load_user_table(source, task_file=task_file)
        assert benchmark.contexts == expected.contexts
        assert benchmark.outputs == expected.outputs
        assert benchmark.ratings == expected.ratings


def test_by_name(data):
    options = {"task_file": data / "own/task.toml"}
    assert len(load_benchmark("own", data / "own/outputs.csv", **options).outputs) == 3
    with pytest.raises(
        UsageError, match=r"own: no data given; pass source=PATH or source=hub:ORG/NAME"
    ):
        load_benchmark("own", **options)


def test_standard_input(monkeypatch, task):
    line = json.dumps(ROW).encode() + b"\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(line)))
    assert load_user_table("-", task_file=task).outputs[0].system == "alpha"


def test_ids_come_from_the_text(write, task):
    first = load_user_table(write(ROW, {**ROW, "context": "Explain rust."}), task_file=task)
    second = load_user_table(write({**ROW, "context": "Explain rust."}, ROW), task_file=task)
    assert set(first.outputs) == set(second.outputs)
    # printf 'Explain tides.' | b2sum -l 64
    assert first.contexts[0].id == "e8c4047b678dc8ab"
    assert first.outputs[0].id == "e8c4047b678dc8ab/alpha"
    assert first.ratings == ()


def test_mapped_columns(write, task):
    row = {
        "id": 7,
        "question": "Explain tides.",
        "model": "alpha",
        "answer": "The moon.",
        "score": "4",
    }
    columns = {
        "output_id": "id",
        "context": "question",
        "system": "model",
        "output": "answer",
        "clarity": "score",
    }
    benchmark = load_user_table(write(row), task_file=task, columns=columns)
    assert (benchmark.outputs[0].id, benchmark.outputs[0].system) == ("7", "alpha")
    assert benchmark.ratings[0].value == 4


def test_output_id_without_system(write, task):
    row = {"context": "c", "output": "o", "output_id": "x"}
    assert load_user_table(write(row), task_file=task).outputs[0].system == ""


def test_background_may_be_null(write, task):
    benchmark = load_user_table(write({**ROW, "background": None}), task_file=task)
    assert benchmark.contexts[0].background == ""


@pytest.mark.parametrize(
    ("row", "match"),
    [
        (
            {"contxt": "c", "system": "s", "output": "o"},
            r":1: no column 'context'; did you mean 'contxt'\? It has: contxt, system, output; map the field 'context'",
        ),
        (
            {"context": "c", "system": "s"},
            r":1: no column 'output'; It has: context, system; map .* output=COLUMN",
        ),
        (
            {**ROW, "systems": "s", "contextid": "1"},
            r":1: column 'contextid' looks like the field 'context_id'; map it with context_id=contextid, or rename",
        ),
        (
            {**ROW, "clarty": 3},
            r":1: column 'clarty' looks like the field 'clarity'; map it with clarity=clarty",
        ),
        ({**ROW, "context": 5}, r":1: column 'context': expected text, found 5"),
        ({**ROW, "output": None}, r":1: column 'output': expected text, found None"),
        ({**ROW, "context": " "}, r":1: the text of context '\w{16}' is empty; remove the row"),
        (
            {**ROW, "clarity": "good"},
            r":1: column 'clarity': expected a finite number, found 'good'",
        ),
        ({**ROW, "clarity": 9}, r":1: clarity is rated 9, outside the scale 1 to 5"),
        (
            {**ROW, "context_id": None},
            r":1: column 'context_id': expected a name or an integer, found None",
        ),
        ("{broken", r":1: not JSON "),
        ("[1]", r":1: a JSON list; each line must be one JSON object"),
    ],
)
def test_bad_row(write, task, row, match):
    with pytest.raises(DataError, match=rf"rows\.jsonl{match}"):
        load_user_table(write(row), task_file=task)


def test_bad_second_row(write, task):
    with pytest.raises(DataError, match=r"rows\.jsonl:2: not JSON "):
        load_user_table(write(ROW, "{"), task_file=task)
    with pytest.raises(DataError, match=r":2: no column 'output'; It has: context, system"):
        load_user_table(write(ROW, {"context": "c", "system": "s"}), task_file=task)
    match = (
        r"rows\.jsonl:2: output '\w+/alpha' already appears at .*rows\.jsonl:1; keep one of them"
    )
    with pytest.raises(DataError, match=match):
        load_user_table(write(ROW, {**ROW, "output": "another"}), task_file=task)
    with pytest.raises(
        DataError,
        match=r":2: context 'k' has different content at .*:1; an id must belong to one text",
    ):
        load_user_table(
            write({**ROW, "context_id": "k"}, {**ROW, "context_id": "k", "context": "other"}),
            task_file=task,
        )


def test_some_dimensions_without_ratings(data, write):
    match = r":1: no column 'charm'; It has: .*; other dimensions have ratings, so map it with charm=COLUMN or remove"
    with pytest.raises(DataError, match=match):
        load_user_table(write({**ROW, "clarity": 3}), task_file=data / "own/task.toml")


def test_unknown_field(write, task):
    with pytest.raises(
        UnknownNameError, match=r"unknown field 'ouput'; did you mean 'output'\? Known: background,"
    ):
        load_user_table(write(ROW), task_file=task, columns={"ouput": "x"})
    with pytest.raises(
        DataError, match=r"no column 'ouput'; did you mean 'output'\? .*; map the field 'output' to"
    ):
        load_user_table(write(ROW), task_file=task, columns={"output": "ouput"})


def test_no_rows_and_no_format(write, task):
    with pytest.raises(DataError, match=r"rows\.jsonl: it has no rows"):
        load_user_table(write(), task_file=task)
    with pytest.raises(UsageError, match=r"rows\.txt: unknown file extension"):
        load_user_table(write(ROW, name="rows.txt"), task_file=task)


def test_contexts_alone(write, task):
    path = write(ROW, {**ROW, "system": "beta"}, {"context": "Explain rust."})
    contexts = load_contexts(path, task="open")
    assert [context.text for context in contexts] == ["Explain tides.", "Explain rust."]
    outputs = load_user_table(write(ROW, name="outputs.jsonl"), task_file=task).outputs
    assert outputs[0].context_id == contexts[0].id
    with pytest.raises(DataError, match=r"empty\.jsonl: it has no rows"):
        load_contexts(write(name="empty.jsonl"), task="open")
    with pytest.raises(
        UnknownNameError, match=r"unknown field 'reply'; .*Known: background, context, context_id"
    ):
        load_contexts(path, task="open", columns={"reply": "x"})
    assert (
        load_contexts(path, task="open", columns={"output": "x"}) == contexts
    )  # which `score` needs, and `build` not


def test_task_file(data):
    task, dimensions = read_task(data / "own/task.toml")
    assert task == "open"
    assert [(d.name, d.low, d.high) for d in dimensions] == [
        ("clarity", 1.0, 5.0),
        ("charm", 1.0, 3.0),
    ]


@pytest.mark.parametrize(
    ("before", "after", "match"),
    [
        ('task = "open"', "task = open", r"task\.toml:1: not TOML \("),
        ('task = "open"', "", r"task\.toml: no key 'task'; it needs task, dimensions"),
        (
            'task = "open"',
            'taks = "open"',
            r"task\.toml: unknown key 'taks'; did you mean 'task'\? Known: task, dim",
        ),
        (
            'task = "open"',
            "task = 3",
            r"task\.toml: task must be a name such as 'summarization', found 3",
        ),
        (
            'task = "open"',
            'task = " "',
            r"task\.toml: task must be a name such as 'summarization', found ' '",
        ),
        (
            'name = "clarity"',
            "",
            r"task\.toml: dimension 1: no key 'name'; it needs name, description",
        ),
        ("low = 1", "lo = 1", r"task\.toml: dimension 1: unknown key 'lo'; did you mean 'low'\?"),
        (
            "low = 1",
            "low = 1\nxyz = 1",
            r"task\.toml: dimension 1: unknown key 'xyz'; Known: name, description",
        ),
        (
            "low = 1",
            'low = "1"',
            r"task\.toml: dimension 1: low must be a finite number, found '1'",
        ),
        (
            "low = 1",
            "low = true",
            r"task\.toml: dimension 1: low must be a finite number, found True",
        ),
        (
            "low = 1",
            "low = nan",
            r"task\.toml: dimension 1: low must be a finite number, found nan",
        ),
        ("low = 1", "low = 5", r"task\.toml: dimension 1: low must be below high, found 5 and 5"),
        (
            '"Whether it is clear."',
            '""',
            r"task\.toml: dimension 1: description must be text, found ''",
        ),
        (
            'name = "clarity"',
            'name = "output"',
            r"dimension 'output' is the name of another field; choose another",
        ),
        (
            "high = 5\n",
            "high = 5\n" + TASK.split("\n\n")[1],
            r"dimension 'clarity' appears twice; choose",
        ),
        (
            "[[dimensions]]",
            "[dimensions]",
            r"task\.toml: dimensions must be one or more tables \[\[dimensions\]\]",
        ),
        (
            TASK,
            'task = "open"\ndimensions = []',
            r"dimensions must be one or more tables \[\[dimensions\]\], found \[\]",
        ),
        (
            TASK,
            'task = "open"\ndimensions = [1]',
            r"dimension 1: expected a table \[\[dimensions\]\], found 1",
        ),
    ],
)
def test_bad_task_file(task, before, after, match):
    assert before in TASK
    task.write_text(TASK.replace(before, after))
    with pytest.raises(DataError, match=match):
        read_task(task)


def test_task_file_that_cannot_be_read(tmp_path):
    with pytest.raises(DataError, match=r"task\.toml: no such file"):
        read_task(tmp_path / "task.toml")
    (tmp_path / "task.toml").write_bytes(b'task = "\xff"')
    with pytest.raises(
        DataError, match=r"task\.toml:1: not UTF-8 \(byte 0xff\); convert the file to UTF-8"
    ):
        read_task(tmp_path / "task.toml")


@pytest.mark.parametrize("column", ["context_id", "context", "background", "system", "output"])
def test_half_a_surrogate_pair_is_refused_before_anything_is_paid_for(write, task, column):
    row = {
        "context_id": "a",
        "context": "The tide.",
        "background": "",
        "system": "s",
        "output": "Water.",
        "clarity": 2,
    }
    source = write({**row, column: "half \ud83d"})
    match = rf"rows\.jsonl:1: column '{column}': half a surrogate pair, which is not valid Unicode; correct the text"
    with pytest.raises(DataError, match=match):
        load_user_table(source, task_file=task)
    if column in {"context_id", "context", "background"}:
        with pytest.raises(DataError, match=match):
            load_contexts(source, task="open")


def test_a_rating_beyond_the_largest_float_is_refused(write, task):
    source = write({"context": "The tide.", "system": "s", "output": "Water.", "clarity": 10**400})
    with pytest.raises(
        DataError, match=r"rows\.jsonl:1: not JSON \(a whole number of 401 characters\)"
    ):
        load_user_table(source, task_file=task)


def test_outputs_without_ids_and_systems_have_ids_of_their_texts(write, task):
    rows = [
        {"context": "Explain tides.", "output": text, "clarity": rating}
        for text, rating in (("a", 1), ("b", 4))
    ]
    first, second = (load_user_table(write(*order), task_file=task) for order in (rows, rows[::-1]))
    # printf a | b2sum -l 48
    assert first.outputs[0].id == "e8c4047b678dc8ab/433911c6eb0d"
    assert set(first.outputs) == set(second.outputs)
    again = load_user_table(write(*rows, rows[0], {**rows[0], "clarity": 5}), task_file=task)
    assert [
        (rating.value, rating.rater)
        for rating in again.ratings
        if rating.output_id == first.outputs[0].id
    ] == [
        (1, "mean"),
        (1, "mean (2)"),
        (5, "mean (3)"),
    ]


RATED = [("c/a", "clarity", 4.0), ("c/a", "clarity", 2.0), ("c/b", "clarity", 5.0)]
BASE = {"context_id": "c", "context": "Explain tides.", "output": "The moon."}


@pytest.mark.parametrize(
    "rows",
    [
        [{**BASE, "system": "a", "clarity": [4, 2]}, {**BASE, "system": "b", "clarity": [5, None]}],
        [{**BASE, "system": "a", "clarity": "[4, 2]"}, {**BASE, "system": "b", "clarity": "5"}],
        [
            {**BASE, "system": "a", "clarity": 4, "rater": "ann"},
            {**BASE, "system": "a", "clarity": 2, "rater": "bob"},
            {**BASE, "system": "b", "clarity": 5, "rater": "ann"},
        ],
    ],
)
def test_ratings_of_several_raters(write, task, rows):
    ratings = load_user_table(write(*rows), task_file=task).ratings
    assert [(rating.output_id, rating.dimension, rating.value) for rating in ratings] == RATED
    assert len({rating.rater for rating in ratings[:2]}) == 2


def test_ratings_in_an_object(write, task):
    rows = [
        {"prompt": {"text": "Explain tides."}, "reply": {"text": "a"}, "scores": {"clarity": 4}},
        {"prompt": {"text": "Explain tides."}, "reply": {"text": "b"}, "scores": None},
    ]
    columns = {"context": "prompt.text", "output": "reply.text", "clarity": "scores.clarity"}
    benchmark = load_user_table(write(*rows), task_file=task, columns=columns)
    assert [output.text for output in benchmark.outputs] == ["a", "b"]
    assert [rating.value for rating in benchmark.ratings] == [4]
    with pytest.raises(
        DataError, match=r":1: no column 'scores.clarty'; .* map the field 'clarity'"
    ):
        load_user_table(
            write(*rows), task_file=task, columns={**columns, "clarity": "scores.clarty"}
        )


@pytest.mark.parametrize("cell", ["One reference.", ["One reference."], '["One reference."]'])
def test_references(write, task, cell):
    (context,) = load_user_table(write({**ROW, "references": cell}), task_file=task).contexts
    assert context.references == ("One reference.",)
    assert (
        load_user_table(write({**ROW, "references": None}), task_file=task).contexts[0].references
        == ()
    )


def test_a_json_list_and_gzip(tmp_path, task):
    rows = [{**ROW, "clarity": 3}]
    plain, packed = tmp_path / "rows.json", tmp_path / "rows.jsonl.gz"
    plain.write_text(json.dumps(rows))
    packed.write_bytes(gzip.compress(json.dumps(rows[0]).encode()))
    assert (
        load_user_table(plain, task_file=task).outputs
        == load_user_table(packed, task_file=task).outputs
    )


@pytest.mark.parametrize(
    ("rows", "match"),
    [
        (
            [{**ROW, "clarity": 3, "rater": "ann"}] * 2,
            r":2: rater 'ann' rated output '\w+/alpha' on clarity at .*:1 already; keep one",
        ),
        (
            [{**ROW, "clarity": [3, 4], "rater": "ann"}],
            r":1: 2 ratings in a row of rater 'ann'; a row has those of one",
        ),
        (
            [{**ROW, "clarity": 3}] * 2,
            r":2: output .* already appears at .*; keep one of them, or name who rated each",
        ),
        (
            [{**ROW, "clarity": [3, "good"]}],
            r":1: column 'clarity': expected a finite number, found 'good'",
        ),
        ([{**ROW, "references": 5}], r":1: column 'references': expected text, found 5"),
    ],
)
def test_bad_ratings_and_references(write, task, rows, match):
    with pytest.raises(DataError, match=match):
        load_user_table(write(*rows), task_file=task)


def test_the_ends_of_a_dimension_are_1_and_5_where_none_are_given(task):
    task.write_text(TASK.replace("low = 1\nhigh = 5\n", ""))
    _, (clarity,) = read_task(task)
    assert (clarity.low, clarity.high) == (1.0, 5.0)


def test_documents_may_have_a_context_and_need_none(tmp_path, write_jsonl):
    path = tmp_path / "document.toml"
    path.write_text(TASK.replace('"open"', '"document"'))
    rows = [
        {"output": "A.", "clarity": 1},
        {"output": "B.", "context_id": "", "context": None, "clarity": 2},
    ]
    rows += [{"output": "C.", "context_id": "c", "context": "A prompt.", "clarity": 3}]
    benchmark = load_user_table(write_jsonl(rows), task_file=path)
    assert [(context.id, context.text) for context in benchmark.contexts] == [
        ("", ""),
        ("c", "A prompt."),
    ]
    assert [(output.context_id, output.text) for output in benchmark.outputs] == [
        ("", "A."),
        ("", "B."),
        ("c", "C."),
    ]
