"""refladder.score and refladder.filter: every kind of table, against what the commands give."""

from __future__ import annotations

import csv
import datetime as dt
import json
import logging
import math

import pytest

import refladder
from refladder.errors import DataError, UnknownNameError, UsageError

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
datasets = pytest.importorskip("datasets")

ROWS = [
    {
        "context_id": "story-01",
        "output": "A keeper found a bottle on the rocks. She read the letter and wept.",
        "number": 1,
        "when": dt.date(2024, 1, 2),
        "nested": {"list": [1, None]},
    },
    {"context_id": "story-02", "output": "", "number": None, "when": None, "nested": None},
    {
        "context_id": "story-02",
        "output": "The bell was gone, and the girl told nobody. The sea kept its word.",
        "number": 2**60 + 1,  # more than a float can hold
        "when": dt.date(1500, 1, 3),
        "nested": {"list": []},
    },
]
ADDED = [
    *(f"coherence_{kind}" for kind in ("score", "grade", "spread", "mass", "note")),
    *(f"complexity_{kind}" for kind in ("score", "grade", "spread", "mass", "note")),
    "overall_score",
    "signature",
]
MAKE = {
    "rows": lambda: [dict(row) for row in ROWS],
    "arrow": lambda: pa.Table.from_pylist(ROWS),
    "pandas": lambda: pd.DataFrame(ROWS, index=[7, 7, 3]),
    "polars": lambda: pl.DataFrame(ROWS),
    "datasets": lambda: datasets.Dataset.from_list(ROWS),
    "datasets with chosen rows": lambda: datasets.Dataset.from_list(ROWS[::-1]).select([2, 1, 0]),
}
datasets.disable_progress_bars()


def rows_of(table):
    """A table as a list of dicts; NaN, which pandas has for a missing number, as None."""
    if isinstance(table, list):
        return table
    if isinstance(table, pl.DataFrame):
        return table.to_dicts()
    if isinstance(table, pd.DataFrame):
        return pa.Table.from_pandas(table, preserve_index=False).to_pylist()
    return table.to_list() if isinstance(table, datasets.Dataset) else table.to_pylist()


@pytest.fixture
def by_command(command, tmp_path):
    """What `refladder score` adds to these rows."""
    source = tmp_path / "source.jsonl"
    source.write_text("".join(json.dumps(row, default=str) + "\n" for row in ROWS))
    return [
        {name: row[name] for name in ADDED}
        for row in command("score", source, "--ladders", "demo/story").rows
    ]


@pytest.mark.parametrize("kind", MAKE)
def test_every_kind_of_table_comes_back_with_the_columns_of_the_command(kind, by_command):
    table = MAKE[kind]()
    scored = refladder.score(table, ladders="demo/story")
    assert type(scored) is type(table)
    assert [{name: row[name] for name in ADDED} for row in rows_of(scored)] == by_command
    assert rows_of(table) == rows_of(MAKE[kind]())  # what was given is not changed
    assert [{name: row[name] for name in ROWS[0]} for row in rows_of(scored)] == rows_of(table)


def test_types_and_the_index_stay_as_they_are():
    frame = MAKE["pandas"]().astype({"context_id": "category", "number": "Int64"})
    scored = refladder.score(frame, ladders="demo/story")
    assert list(scored.index) == [7, 7, 3]
    assert (scored.dtypes[list(frame.columns)] == frame.dtypes).all()
    assert math.isnan(scored["coherence_score"].iloc[1])
    polars = MAKE["polars"]().with_columns(pl.col("context_id").cast(pl.Categorical))
    assert refladder.score(polars, ladders="demo/story").schema.items() >= polars.schema.items()
    dataset = MAKE["datasets"]().cast_column("number", datasets.Value("int64"))
    assert (
        refladder.score(dataset, ladders="demo/story").features.items() >= dataset.features.items()
    )
    arrow = MAKE["arrow"]()
    assert (
        refladder.score(arrow, ladders="demo/story").schema.names[: len(arrow.schema)]
        == arrow.schema.names
    )


@pytest.mark.parametrize("kind", MAKE)
def test_a_table_without_rows(kind):
    table = MAKE[kind]()
    empty = {"rows": [], "pandas": None, "polars": None}.get(kind)
    empty = table[:0] if kind in ("rows", "pandas", "polars") else empty
    empty = table.slice(0, 0) if kind == "arrow" else empty
    empty = table.select([]) if kind.startswith("datasets") else empty
    scored = refladder.score(empty, ladders="demo/story")
    assert (type(scored), len(scored)) == (type(table), 0)


@pytest.mark.parametrize("ending", ["jsonl", "csv", "parquet"])
def test_a_path_gives_the_same_bytes_as_the_command(ending, tmp_path, command):
    source = tmp_path / f"in.{ending}"
    rows = [{"context_id": row["context_id"], "output": row["output"]} for row in ROWS]
    if ending == "parquet":
        pa.parquet.write_table(pa.Table.from_pylist(rows), source)
    else:
        with source.open("w", newline="") as stream:
            if ending == "csv":
                writer = csv.DictWriter(stream, list(rows[0]))
                writer.writeheader()
                writer.writerows(rows)
            else:
                stream.writelines(json.dumps(row) + "\n" for row in rows)
    called = refladder.score(source, ladders="demo/story", out=tmp_path / f"called.{ending}")
    assert called == tmp_path / f"called.{ending}"
    command("score", source, "--ladders", "demo/story", "--out", tmp_path / f"typed.{ending}")
    assert called.read_bytes() == (tmp_path / f"typed.{ending}").read_bytes()
    judgments = [
        (tmp_path / f"{name}.{ending}.judgments.jsonl").read_bytes() for name in ("called", "typed")
    ]
    assert judgments[0] == judgments[1]
    config = json.loads((tmp_path / f"called.{ending}.run.json").read_text())
    assert (config["command"], config["options"]["ladders"]) == ("score", "demo/story")
    kept = refladder.filter(
        str(called), min={"coherence_score": -100}, out=str(tmp_path / f"kept.{ending}")
    )
    command(
        "filter",
        called,
        "--min",
        "coherence_score=-100",
        "--out",
        tmp_path / f"typed-kept.{ending}",
    )
    assert kept == str(tmp_path / f"kept.{ending}")
    assert (tmp_path / f"kept.{ending}").read_bytes() == (
        tmp_path / f"typed-kept.{ending}"
    ).read_bytes()


@pytest.mark.parametrize("ending", ["jsonl", "csv", "parquet"])
def test_out_keeps_the_judgments_of_a_table_in_memory(ending, tmp_path, by_command):
    out = tmp_path / f"out.{ending}"
    table = MAKE["polars"]()
    first = refladder.score(table, ladders="demo/story", out=out)
    kept = (tmp_path / f"out.{ending}.judgments.jsonl").read_bytes()
    assert kept

    class Counted(type(refladder.connect("builtin"))):
        def read_labels(self, prompts, labels):
            sent.extend(prompts)
            return super().read_labels(prompts, labels)

    sent = []
    again = refladder.score(table, ladders="demo/story", out=out, judge=Counted())
    assert (
        len(sent) == 48
    )  # of the check of the judge: 12 ladders, 2 orders, 2 dimensions; that of an open judge is new
    assert not {row["output"] for row in ROWS} & {prompt.slots["target"] for prompt in sent}
    assert first.equals(again)
    assert [{name: row[name] for name in ADDED} for row in rows_of(again)] == by_command
    if ending == "parquet":
        assert pl.read_parquet(out).select(table.columns).equals(table)


@pytest.mark.parametrize("kind", MAKE)
def test_filter_keeps_rows_of_the_same_kind(kind, caplog):
    scored = refladder.score(MAKE[kind](), ladders="demo/story")
    best = refladder.filter(scored, top=0.5, by="coherence_score")
    assert type(best) is type(scored)
    values = [row["coherence_score"] for row in rows_of(scored)]
    highest = max(value for value in values if value is not None)
    assert rows_of(best) == [row for row in rows_of(scored) if row["coherence_score"] == highest]
    caplog.clear()
    passed = refladder.filter(scored, min={"overall_score": 0.0}, max={"overall_score": 1.0})
    assert rows_of(passed) == [rows_of(scored)[0], rows_of(scored)[2]]
    assert caplog.messages == ["1 of 3 rows have no score and were dropped"]
    assert rows_of(
        refladder.filter(scored, min={"overall_score": 0.0}, unscored="keep")
    ) == rows_of(scored)
    none = refladder.filter(scored, min={"overall_score": 2.0})
    assert (type(none), len(none)) == (type(scored), 0)
    if kind != "rows":
        assert list(
            getattr(none, "column_names", none.columns if hasattr(none, "columns") else [])
        ) == list(rows_of(scored)[0])


def test_missing_scores_are_counted_in_a_warning(caplog):
    caplog.set_level(logging.INFO, "refladder")
    refladder.score(MAKE["rows"](), ladders="demo/story", dimensions=["coherence"])
    assert "3 rows, 1 score missing; 10 judgments (0 reused, 0 unparsed)" in caplog.messages
    assert "  1 x the output is empty" in caplog.messages
    caplog.clear()
    refladder.score(MAKE["rows"]()[:1], ladders="demo/story")
    assert not [text for text in caplog.messages if "missing" in text]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: refladder.score("in.jsonl", ladders="demo/story"),
            UsageError,
            "a table in a file is written to another file; give out=PATH",
        ),
        (
            lambda: refladder.score("none.jsonl", ladders="demo/story", out="out.jsonl"),
            DataError,
            "none.jsonl: no such file",
        ),
        (
            lambda: refladder.score([1], ladders="demo/story"),
            DataError,
            "row 1: each row must be a dict, found 1",
        ),
        (
            lambda: refladder.score({"output": ["a"]}, ladders="demo/story"),
            UsageError,
            (
                "a table must be a path, a list of dicts, a pandas or polars DataFrame, a pyarrow Table or a Dataset "
                "of `datasets`, found builtins.dict"
            ),
        ),
        (
            lambda: refladder.score(pl.LazyFrame({"output": ["a"]}), ladders="demo/story"),
            UsageError,
            "found polars.LazyFrame; call .collect() first",
        ),
        (
            lambda: refladder.score(
                datasets.DatasetDict({"a": MAKE["datasets"]()}), ladders="demo/story"
            ),
            UsageError,
            "found datasets.DatasetDict; take one split, such as table['train']",
        ),
        (
            lambda: refladder.score(pd.DataFrame([["a"]]), ladders="demo/story"),
            DataError,
            "the table: the name of column 0 is not text; rename the column",
        ),
        (
            lambda: refladder.score(
                pl.DataFrame({"context_id": ["story-01"], "outptu": ["a"]}), ladders="demo/story"
            ),
            DataError,
            (
                "row 1: no column 'output' for the output; did you mean columns={'output': 'outptu'}? Columns there: "
                "context_id, outptu. Map one with columns={'output': 'NAME'}"
            ),
        ),
        (
            lambda: refladder.score(
                [{"context_id": "story-01", "output": 3}], ladders="demo/story"
            ),
            DataError,
            "row 1: column 'output' must be a string, found 3",
        ),
        (
            lambda: refladder.score(
                [{"context_id": "story-01", "output": dt.date(2024, 1, 1)}], ladders="demo/story"
            ),
            DataError,
            "row 1: a value of type date has no equivalent in JSON",
        ),
        (
            lambda: refladder.score(
                MAKE["polars"]().with_columns(signature=pl.lit("x")), ladders="demo/story"
            ),
            UsageError,
            "the table: column 'signature' exists already; rename or drop it first",
        ),
        (
            lambda: refladder.score(
                MAKE["rows"](), ladders="demo/story", columns={"context_id": "a"}, context_id="b"
            ),
            UsageError,
            "context_id and columns={'context_id': '...'} both say the context; give one of them",
        ),
        (
            lambda: refladder.score(MAKE["rows"](), ladders="demo/story", answers=-1),
            UsageError,
            "answers=-1: must be 0 or more",
        ),
        (
            lambda: refladder.score(MAKE["rows"](), ladders="demo/story", least_mass=2),
            UsageError,
            "least_mass=2: must be a probability from 0 to 1",
        ),
        (
            lambda: refladder.score(MAKE["rows"](), ladders="demo/stori"),
            UnknownNameError,
            "did you mean 'demo/story'",
        ),
        (
            lambda: refladder.filter(MAKE["rows"]()),
            UsageError,
            "nothing to filter by; give min COLUMN=VALUE, max COLUMN=VALUE, top and by, or best and per",
        ),
        (
            lambda: refladder.filter(MAKE["polars"](), min={"score": 1}),
            DataError,
            "row 1: no column 'score'",
        ),
        (
            lambda: refladder.filter(
                [{"a_score": 1, "signature": name} for name in "xy"], min={"a_score": 0}
            ),
            DataError,
            (
                "row 2: the scores in column 'a_score' are on different scales: y here, x in row 1; filter each "
                "signature separately, or compare them as they are with mix"
            ),
        ),
        (
            lambda: refladder.filter(MAKE["rows"](), min={"number": 1}, rejected="x.jsonl"),
            UsageError,
            "out, rejected and a file for unscored rows are for a table in a file; give its path",
        ),
    ],
)
def test_wrong_calls_say_what_is_wrong_and_what_to_do(call, error, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error) as raised:
        call()
    assert message in str(raised.value)
    assert list(tmp_path.iterdir()) == []
