"""Calls take tables in memory of every kind, and return tables of the same kind."""

from __future__ import annotations

import csv
import datetime as dt
import json
import math

import numpy as np
import pytest
from json_lines import read_lines, write_lines

import refladder
from refladder.errors import DataError
from refladder.files.tables import read_rows

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
datasets = pytest.importorskip("datasets")
datasets.disable_progress_bars()

STORY = "demo/story"
TEXTS = (
    "A keeper found a bottle on the rocks. She read the letter and wept.",
    "",
    "The bell was gone, and the girl told nobody. The sea kept its word.",
)
ROWS = [
    {"context_id": f"story-0{context}", "output": text, "number": number, "when": when, "nested": nested}
    for context, text, number, when, nested in (
        (1, TEXTS[0], 1, dt.date(2024, 1, 2), {"list": [1, None]}),
        (2, TEXTS[1], None, None, None),
        (2, TEXTS[2], 2**60 + 1, dt.date(1500, 1, 3), {"list": []}),  # more than a float can hold
    )
]  # fmt: skip
ADDED = [
    *(f"coherence_{kind}" for kind in ("score", "grade", "spread", "mass", "note")),
    *(f"complexity_{kind}" for kind in ("score", "grade", "spread", "mass", "note")),
    "overall_score",
    "signature",
]
KINDS = {
    "rows": lambda rows: [dict(row) for row in rows],
    "arrow": pa.Table.from_pylist,
    "pandas": lambda rows: pd.DataFrame(rows, index=[7, 7, 3, *range(10, len(rows) + 7)]),
    "polars": pl.DataFrame,
    "datasets": datasets.Dataset.from_list,
    "chosen": lambda rows: datasets.Dataset.from_list(rows[::-1]).select(range(len(rows))[::-1]),
}


def rows_of(table):
    """A table as a list of dicts; NaN, which pandas has for a missing number, as None."""
    if isinstance(table, pd.DataFrame):
        table = pa.Table.from_pandas(table, preserve_index=False)
    for name in ("to_dicts", "to_list", "to_pylist"):
        if hasattr(table, name):
            return getattr(table, name)()
    return table


def only(names, rows):
    return [{name: row[name] for name in names} for row in rows]


@pytest.fixture
def by_command(command, tmp_path):
    """What `refladder score` adds to these rows."""
    source = tmp_path / "source.jsonl"
    source.write_text("".join(json.dumps(row, default=str) + "\n" for row in ROWS))
    return only(ADDED, command(f"score {source} --ladders {STORY}").rows)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_scored_filtered_and_paired_without_a_file(kind, by_command, monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("a temporary file")

    for name in ("TemporaryDirectory", "NamedTemporaryFile", "mkdtemp", "mkstemp"):
        monkeypatch.setattr(f"tempfile.{name}", refuse)
    table = KINDS[kind](ROWS)
    scored = refladder.score(table, ladders=STORY)
    found = rows_of(scored)
    assert type(scored) is type(table)
    assert only(ADDED, found) == by_command
    assert rows_of(table) == rows_of(KINDS[kind](ROWS))  # what was given is not changed
    assert only(ROWS[0], found) == rows_of(table)
    best = refladder.filter(scored, top=0.5, by="coherence_score")
    assert type(best) is type(scored)
    highest = max(row["coherence_score"] or -math.inf for row in found)
    assert rows_of(best) == [row for row in found if row["coherence_score"] == highest]
    between = refladder.filter(scored, min={"overall_score": 0.0}, max={"overall_score": 1.0})
    assert rows_of(between) == [found[0], found[2]]
    kept = refladder.filter(scored, min={"overall_score": 0.0}, unscored="keep")
    assert rows_of(kept) == found
    none = refladder.filter(scored, min={"overall_score": 2.0})
    assert (type(none), len(none)) == (type(scored), 0)
    if kind != "rows":
        names = none.column_names if hasattr(none, "column_names") else none.columns
        assert list(names) == list(found[0])


@pytest.mark.parametrize(
    ("kind", "ending"),
    [*zip(KINDS, ["jsonl", "csv", "parquet"] * 2, strict=True)],
)
def test_pairs_of_every_kind_are_those_of_their_file(kind, ending, tmp_path):
    words = ("keeper", "letter", "bottle", "sea", "rocks")
    scored = [
        {"context_id": f"c{n // 3}", "context": f"Write {n // 3}.", "output": words[n], "a_score": n}
        for n in range(5)
    ]  # fmt: skip
    table, out = KINDS[kind](scored), tmp_path / f"pairs.{ending}"
    kept = refladder.pairs(table, margin=1)
    written = refladder.pairs(table, margin=1, out=out)
    assert type(written) is type(kept) is type(table)
    assert sorted((row["chosen"], row["rejected"]) for row in rows_of(kept)) == [
        ("bottle", "keeper"),
        ("bottle", "letter"),
        ("letter", "keeper"),
        ("rocks", "sea"),
    ]
    assert rows_of(written) == rows_of(kept)
    assert len(list(read_rows(str(out)))) == 4


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_without_rows(kind):
    table = KINDS[kind](ROWS)
    empty = table.select([]) if isinstance(table, datasets.Dataset) else table[:0]
    scored = refladder.score(empty, ladders=STORY)
    assert (type(scored), len(scored)) == (type(table), 0)


def test_types_and_the_index_stay_as_they_are():
    frame = KINDS["pandas"](ROWS).astype({"context_id": "category", "number": "Int64"})
    scored = refladder.score(frame, ladders=STORY)
    assert list(scored.index) == [7, 7, 3]
    assert (scored.dtypes[list(frame.columns)] == frame.dtypes).all()
    assert math.isnan(scored["coherence_score"].iloc[1])
    polars = pl.DataFrame(ROWS).with_columns(pl.col("context_id").cast(pl.Categorical))
    assert refladder.score(polars, ladders=STORY).schema.items() >= polars.schema.items()
    dataset = KINDS["datasets"](ROWS).cast_column("number", datasets.Value("int64"))
    assert refladder.score(dataset, ladders=STORY).features.items() >= dataset.features.items()
    arrow = KINDS["arrow"](ROWS)
    scored = refladder.score(arrow, ladders=STORY)
    assert scored.schema.names[: len(arrow.schema)] == arrow.schema.names


@pytest.mark.parametrize("ending", ["jsonl", "csv", "parquet"])
def test_a_path_gives_the_same_bytes_as_the_command(ending, tmp_path, command):
    source = tmp_path / f"in.{ending}"
    rows = only(("context_id", "output"), ROWS)
    if ending == "parquet":
        pa.parquet.write_table(pa.Table.from_pylist(rows), source)
    elif ending == "jsonl":
        write_lines(source, rows)
    else:
        with source.open("w", newline="") as stream:
            writer = csv.DictWriter(stream, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    called, typed = (tmp_path / f"{name}.{ending}" for name in ("called", "typed"))
    assert refladder.score(source, ladders=STORY, out=called) == called
    command(f"score {source} --ladders {STORY} --out {typed}")
    for end in ("", ".judgments.jsonl"):
        assert called.with_name(called.name + end).read_bytes() == (
            typed.with_name(typed.name + end).read_bytes()
        )
    config = json.loads((tmp_path / f"called.{ending}.run.json").read_text())
    assert (config["command"], config["options"]["ladders"]) == ("score", STORY)
    least = {"coherence_score": -100}
    kept, kept_by_command = (tmp_path / f"{name}.{ending}" for name in ("kept", "typed-kept"))
    assert refladder.filter(str(called), min=least, out=str(kept)) == str(kept)
    command(f"filter {called} --min coherence_score=-100 --out {kept_by_command}")
    assert kept.read_bytes() == kept_by_command.read_bytes()


@pytest.mark.parametrize("ending", ["jsonl", "csv", "parquet"])
def test_out_keeps_the_judgments_of_a_table_in_memory(ending, tmp_path, by_command):
    out = tmp_path / f"out.{ending}"
    table = pl.DataFrame(ROWS)
    first = refladder.score(table, ladders=STORY, out=out)
    sent = []

    class Counted(type(refladder.connect("builtin"))):
        def read_labels(self, prompts, labels):
            sent.extend(prompts)
            return super().read_labels(prompts, labels)

    again = refladder.score(table, ladders=STORY, out=out, judge=Counted())
    # An open judge is checked anew: 12 ladders, 2 orders, 2 dimensions. Nothing else is asked.
    assert len(sent) == 48
    assert not {*TEXTS} & {prompt.slots["target"] for prompt in sent}
    assert first.equals(again)
    assert only(ADDED, rows_of(again)) == by_command
    if ending == "parquet":
        assert pl.read_parquet(out).select(table.columns).equals(table)


def test_ladders_are_built_from_every_kind(tmp_path):
    rows = [{"context": "Why does it rain?"}, {"context": "Why the tides?"}, {"context": "Snow?"}]
    clarity = refladder.Dimension(name="clarity", description="Clear?", low=1, high=5)
    asked = {"task": "open", "dimensions": [clarity], "writer": "builtin", "rungs": 2}
    built = [
        refladder.build(make(rows), out=tmp_path / kind, **asked) for kind, make in KINDS.items()
    ]
    assert {each.digest for each in built} == {refladder.build(rows, **asked).digest}
    assert [each.name for each in built] == list(KINDS)


def test_records_of_a_frame_are_what_the_frame_is(tmp_path):
    texts = ["Ember sneezed at gold.", None, "Opals."]
    frame = pd.DataFrame(
        {"context_id": ["story-01"] * 3, "output": texts, "quality": [1.5, None, 3]}
    )
    frame["output"] = frame["output"].astype(object).where(frame["output"].notna(), np.nan)
    records = frame.to_dict("records")
    assert {type(records[1][name]) for name in ("output", "quality")} == {float}
    records[2] |= {"rated": pd.NA, "day": pd.NaT}
    asked = {"ladders": STORY, "dimensions": ["coherence"]}
    (_, missing, _) = by_records = refladder.score(records, **asked)
    by_frame = refladder.score(frame, **asked)
    assert missing["coherence_note"] == "the output is null"
    for column in ("coherence_score", "coherence_note"):
        expected = by_frame[column].astype(object).where(by_frame[column].notna(), None)
        assert [row[column] for row in by_records] == expected.tolist()
    kept = refladder.filter(records, min={"quality": 2})
    assert kept == [records[2]]
    # A number, a truth value and a list of numpy are those of Python in a file.
    out, row = tmp_path / "out.jsonl", {"context_id": "story-01", "output": "Opals."}
    more = {
        "ok": np.array([1]).all(),
        "n": np.int64(3),
        "half": np.float32(0.5),
        "both": np.array([1, 2]),
    }
    refladder.score([row | more], out=out, **asked)
    (written,) = read_lines(out)
    assert [written[name] for name in more] == [True, 3, 0.5, [1, 2]]
    assert written["ok"] is True


def test_nan_is_no_text_in_json_lines_either(tmp_path):
    table, out = tmp_path / "rows.jsonl", tmp_path / "out.jsonl"
    table.write_text(
        '{"context_id": "story-01", "output": NaN}\n{"context_id": NaN, "output": "Opals."}\n'
    )
    refladder.score(table, out=out, ladders=STORY, dimensions=["coherence"])
    notes = [row["coherence_note"] for row in read_lines(out)]
    assert notes == ["the output is null", "the context id is null"]


def test_a_field_of_an_object_is_scored():
    nested = [{"context_id": "story-01", "reply": {"text": TEXTS[0]}}]
    scored = refladder.score(nested, ladders=STORY, columns={"output": "reply.text"})
    plain = refladder.score(ROWS[:1], ladders=STORY)
    assert scored[0]["coherence_score"] == plain[0]["coherence_score"]
    assert scored[0]["reply"] == nested[0]["reply"]
    with pytest.raises(DataError, match=r"row 1: no column 'reply\.txt' for the output"):
        refladder.score(nested, ladders=STORY, columns={"output": "reply.txt"})


@pytest.mark.parametrize("kind", ["pandas", "arrow"])
def test_a_scored_table_keeps_which_columns_were_scored(kind):
    """The calls that follow find the prompt, so that answers to one prompt count as one unit."""
    rows = [
        {"q": f"story-0{n % 2 + 1}", "reply": TEXTS[0] + f" {n}", "good": "yes"} for n in range(4)
    ]
    table = KINDS[kind](rows)
    mapped = {"context_id": "q", "output": "reply"}
    scored = refladder.score(table, ladders=STORY, columns=mapped)
    asked = {"label": "good", "good": "=yes", "by": "coherence_score", "precision": 0.9}
    assert refladder.calibrate(scored, **asked).threshold.unit == "context"
    # A column that was renamed since is not looked for.
    names = {"q": "question"}
    renamed = (
        scored.rename(columns=names)
        if kind == "pandas"
        else scored.rename_columns(["question", *scored.column_names[1:]])
    )
    assert refladder.calibrate(renamed, **asked).threshold.unit == "row"
    # What the caller names is used.
    there = refladder.calibrate(renamed, **asked, columns=mapped | {"context_id": "question"})
    assert there.threshold.unit == "context"
