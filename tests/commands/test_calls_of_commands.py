"""pairs, calibrate, certify, and what score, filter and evaluate take: against what the commands give."""

from __future__ import annotations

import json
import logging
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import refladder
from refladder.errors import DataError, UsageError
from refladder.files.ladder_sets import find_folder
from refladder.files.tables import read_rows

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
datasets = pytest.importorskip("datasets")
datasets.disable_progress_bars()

STORY = refladder.load_ladders("demo/story")
WORDS = (
    "keeper",
    "letter",
    "bottle",
    "sea",
    "rocks",
    "wept",
    "bell",
    "girl",
    "found",
    "read",
    "tide",
    "lamp",
    "door",
)


KINDS = {
    "rows": lambda rows: rows,
    "arrow": pa.Table.from_pylist,
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "datasets": datasets.Dataset.from_list,
}


@pytest.fixture(scope="module")
def scored(tmp_path_factory):
    """Sixty scored rows of twelve contexts with a rating that rises with the score, and their judgments."""
    folder = tmp_path_factory.mktemp("scored")
    rows = [
        {
            "output_id": f"{context_id}-{length}",
            "context_id": context_id,
            "context": context.text,
            "background": context.background,
            "output": " ".join(WORDS[(7 * number + k) % len(WORDS)] for k in range(length)),
        }
        for number, (context_id, context) in enumerate(STORY.contexts.items())
        for length in (3, 9, 14, 20, 31)
    ]
    out = folder / "scored.jsonl"
    source = folder / "in.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    refladder.score(source, ladders="demo/story", out=out)
    lines = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    order = sorted(range(len(lines)), key=lambda number: lines[number]["coherence_score"])
    for rank, number in enumerate(order):
        lines[number]["rating"] = 1 + rank // 13
    out.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    return out


@pytest.fixture
def rows(scored):
    return [json.loads(line) for line in scored.read_text("utf-8").splitlines()]


def dicts(table):
    if isinstance(table, pl.DataFrame):
        return table.to_dicts()
    if isinstance(table, pd.DataFrame):
        return pa.Table.from_pandas(table, preserve_index=False).to_pylist()
    return (
        table
        if isinstance(table, list)
        else table.to_list()
        if hasattr(table, "to_list")
        else table.to_pylist()
    )


@pytest.mark.parametrize("ending", ["jsonl", "csv", "parquet"])
@pytest.mark.parametrize("kind", KINDS)
def test_pairs_of_a_table_in_memory_are_those_of_their_file(kind, ending, rows, tmp_path):
    table, asked = KINDS[kind](rows), {"margin": 0.01, "per_context": 1}
    out = tmp_path / f"pairs.{ending}"
    kept, written = refladder.pairs(table, **asked), refladder.pairs(table, out=out, **asked)
    assert type(written) is type(kept) is type(table)
    assert dicts(written) == dicts(kept)
    assert len(dicts(written)) > 1
    assert len(list(read_rows(str(out)))) == len(dicts(written))


@pytest.mark.parametrize("kind", KINDS)
def test_tables_in_memory_make_no_file(kind, rows, monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("a temporary file")

    for name in ("TemporaryDirectory", "NamedTemporaryFile", "mkdtemp", "mkstemp"):
        monkeypatch.setattr(f"tempfile.{name}", refuse)
    given = ("output_id", "context_id", "context", "background", "output")
    table = KINDS[kind]([{name: row[name] for name in given} for row in rows])
    scored = refladder.score(table, ladders="demo/story")
    assert type(scored) is type(table)
    assert [
        row | {"rating": rated["rating"]} for row, rated in zip(dicts(scored), rows, strict=True)
    ] == rows
    assert len(dicts(refladder.filter(scored, best=1, per="context_id"))) == 12
    assert len(dicts(refladder.pairs(scored, margin=0.01))) > 1


def test_pairs_say_what_was_not_paired(rows, caplog):
    with caplog.at_level(logging.INFO, logger="refladder"):
        assert len(refladder.pairs(pl.DataFrame(rows), margin=1000, by="coherence_score")) == 0
    assert "60 rows of 12 contexts: 0 pairs by coherence_score" in caplog.text
    assert "over per_context" in caplog.text
    assert "no pair: the largest difference within a context is " in caplog.text
    with pytest.raises(
        UsageError, match=r"^the table: no column NAME_score; name the column with by COLUMN$"
    ):
        refladder.pairs([{"context_id": "a", "output": "b"}], margin=1)
    with pytest.raises(
        DataError, match=r"^row 1: no text of context 'a' for the prompt; .* with ladders$"
    ):
        refladder.pairs([{"context_id": "a", "output": "b", "a_score": 1.0}], margin=1)


def test_a_group_that_is_no_column():
    with pytest.raises(
        DataError, match=r"^row 1: no column 'b' to group by; Columns: a_score, context_id$"
    ):
        refladder.filter([{"a_score": 1, "context_id": "c"}], best=1, per="b")


ASKED = {"label": "rating", "good": ">=3", "by": "coherence_score", "precision": 0.8, "sure": 0.8}
TYPED = (
    "--label",
    "rating",
    "--good",
    ">=3",
    "--by",
    "coherence_score",
    "--precision",
    "0.8",
    "--sure",
    "0.8",
)


def test_labels_in_files(rows, tmp_path):
    unlabelled = [{name: value for name, value in row.items() if name != "rating"} for row in rows]
    for part in (0, 1):
        lines = [f"{row['output_id']},{row['rating']}\n" for row in rows[part::2]]
        (tmp_path / f"{part}.csv").write_text("output_id,rating\n" + "".join(lines), "utf-8")
    both = refladder.calibrate(
        unlabelled, labels=[tmp_path / "0.csv", str(tmp_path / "1.csv")], **ASKED
    )
    assert both.threshold.labels == 60
    assert (
        refladder.calibrate(unlabelled, labels=tmp_path / "0.csv", **ASKED).threshold.labels == 30
    )


def test_calls_about_labels_say_what_is_missing(rows):
    with pytest.raises(UsageError, match=r"which are good: label=COLUMN, good='>=4'$"):
        refladder.plan_labels(rows, by="coherence_score", precision=0.8, label="rating")


@pytest.mark.parametrize("as_file", [False, True])
def test_a_threshold_filters(as_file, rows, scored, command, tmp_path):
    threshold = refladder.calibrate(rows, out=tmp_path / "threshold.json", **ASKED).threshold
    given = str(tmp_path / "threshold.json") if as_file else threshold
    expected = [
        row["output_id"]
        for row in command("filter", scored, "--threshold", tmp_path / "threshold.json").rows
    ]
    frame = pl.DataFrame(rows)
    assert refladder.filter(frame, threshold=given)["output_id"].to_list() == expected


def test_a_refused_promise_is_told_and_filters_nothing(rows, caplog):
    result = refladder.calibrate(rows[:6], **{**ASKED, "precision": 0.99})
    assert result.refused
    assert result.threshold.cutoff is None
    assert (
        f"no cut-off can be promised; this could change with {result.labels_needed} more labels"
        in caplog.text
    )
    with pytest.raises(
        DataError, match="the threshold: no cut-off could be promised from 6 labels"
    ):
        refladder.filter(rows, threshold=result.threshold)


def test_a_link_maps_what_filter_compares(rows, command, tmp_path):
    source = tmp_path / "in.jsonl"
    texts = [{name: row[name] for name in ("output_id", "context_id", "output")} for row in rows]
    source.write_text("".join(json.dumps(row) + "\n" for row in texts), "utf-8")
    for name, more in (("one", ()), ("two", ("--both-orders",))):
        command(
            "score", source, "--ladders", "demo/story", "--out", tmp_path / f"{name}.jsonl", *more
        )
    made = command(
        *(
            "link",
            "--from",
            tmp_path / "two.jsonl.judgments.jsonl",
            "--to",
            tmp_path / "one.jsonl.judgments.jsonl",
        ),
        *("--out", tmp_path / "link.json"),
    )
    assert made.code == 0, made.err
    named = ("--min", "coherence_score=-9", "--link", tmp_path / "link.json")
    expected = command("filter", tmp_path / "two.jsonl", *named).rows
    two = [json.loads(line) for line in (tmp_path / "two.jsonl").read_text("utf-8").splitlines()]
    assert (
        refladder.filter(two, min={"coherence_score": -9}, link=tmp_path / "link.json") == expected
    )
    assert 0 < len(expected) < len(two)
    with pytest.raises(
        UsageError, match="link maps scores for min, max and threshold; leave out mix, top and best"
    ):
        refladder.filter(two, best=1, per="context_id", link=tmp_path / "link.json")


def test_recorded_judgments_are_scored_and_evaluated(command, tmp_path):
    source = tmp_path / "in.jsonl"
    texts = [
        {"output_id": name, "context_id": "story-01", "output": f"Text {name}."} for name in "xy"
    ]
    source.write_text("".join(json.dumps(row) + "\n" for row in texts), "utf-8")
    judged = tmp_path / "judged.csv"
    words = ("win", "win", "tie", "loss", "loss")
    lines = [f"story-01,coherence,x,{level},{word}\n" for level, word in enumerate(words, start=1)]
    judged.write_text("context_id,dimension,output,rung,outcome\n" + "".join(lines), "utf-8")
    asked = {"ladders": "demo/story", "dimensions": ["coherence"], "judgments_from": judged}
    typed = command(
        *(
            "score",
            source,
            "--ladders",
            "demo/story",
            "--dimension",
            "coherence",
            "--judgments-from",
            judged,
        )
    ).rows
    assert refladder.score(texts, **asked) == typed
    # 1 + 2 + 3 * 0 - 4 - 5, and nothing about y
    assert [row["coherence_score"] for row in typed] == [-6, None]
    out = refladder.score(str(source), out=str(tmp_path / "out.jsonl"), **asked)
    assert [json.loads(line) for line in Path(out).read_text("utf-8").splitlines()] == typed
    assert not (tmp_path / "out.jsonl.judgments.jsonl").exists()
    with pytest.raises(
        UsageError, match="judgments_from asks no model, and answers is for asking one"
    ):
        refladder.score(texts, answers=3, **asked)
    with pytest.raises(
        DataError,
        match=r"judged\.csv:2: the table has no output of context 'story-01' with the id 'x'",
    ):
        refladder.score(texts[1:], **asked)
    benchmark = refladder.load_benchmark("demo/story")
    pairs = [
        f"{one.context_id},coherence,{one.id},{other.id},first\n"
        for one, other in zip(benchmark.outputs, benchmark.outputs[1:], strict=False)
        if one.context_id == other.context_id
    ]
    judged.write_text("context_id,dimension,first,second,winner\n" + "".join(pairs), "utf-8")
    evaluation = refladder.evaluate("demo/story", dimensions=["coherence"], judgments_from=judged)
    assert {row.method for row in evaluation.rows} >= {"win-ratio"}
    named = ("--dimension", "coherence", "--judgments-from", judged, "--json")
    typed = command("evaluate", "demo/story", *named, "--format", "json").rows
    mine = {
        (row.level, row.statistic): row.value
        for row in evaluation.rows
        if row.method == "win-ratio"
    }
    theirs = {
        (row["level"], row["statistic"]): row["value"]
        for row in typed
        if row.get("method") == "win-ratio"
    }
    assert mine.items() <= theirs.items()
    assert len(mine) > 0
    with pytest.raises(
        UsageError, match="judgments_from asks no model, and judge is for asking one"
    ):
        refladder.evaluate("demo/story", judge=refladder.connect("builtin"), judgments_from=judged)


def test_certify_writes_into_a_folder_only(command, tmp_path):
    for name in ("called", "typed"):
        shutil.copytree(find_folder("demo/story"), tmp_path / name)
        (tmp_path / name / "certificate.json").unlink()
    certificate = refladder.certify(tmp_path / "called")
    assert command("certify", tmp_path / "typed").code == 0
    stored = [(tmp_path / name / "certificate.json").read_bytes() for name in ("called", "typed")]
    assert stored[0] == stored[1]
    assert json.loads(stored[0]) == certificate
    opened = refladder.load_ladders(tmp_path / "called")
    assert opened.certificate == certificate
    assert refladder.certify(STORY) == refladder.certify("demo/story") == certificate
    with pytest.raises(UsageError, match=r"the set has no contexts\.jsonl, which a judge needs"):
        refladder.certify(replace(STORY, contexts={}))


def test_errors_speak_of_arguments_and_tables(rows):
    labels = [{"output_id": "nobody", "rating": 3}]
    with pytest.raises(
        DataError, match=r"^labels: 1 of 1 label not used: the table does not score"
    ):
        refladder.calibrate(rows, labels=labels, **ASKED)
    with pytest.raises(
        DataError, match=r"^row 2 of labels: column 'rating' must be a finite number"
    ):
        refladder.calibrate(rows, labels=[*labels, {"output_id": "x", "rating": "good"}], **ASKED)
    with pytest.raises(
        UsageError, match=r"give what to promise: either precision or recall, such as precision 0.9"
    ):
        refladder.calibrate(rows, **{**ASKED, "precision": None})
    result = refladder.calibrate(rows, **ASKED)
    for wrong, why in (
        (result, "threshold: found Calibration; give its `.threshold`"),
        (0.5, "threshold: found float; give the `.threshold` of `calibrate`, or its file"),
    ):
        with pytest.raises(UsageError, match=re.escape(why)):
            refladder.filter(rows, threshold=wrong)
        with pytest.raises(UsageError, match=re.escape(why)):
            refladder.estimate_precision(rows, threshold=wrong, label="rating", good="=good")
    with pytest.raises(
        UsageError,
        match=r"^threshold cannot be combined with other conditions; leave out min, max, top, best",
    ):
        refladder.filter(
            rows, min={"coherence_score": 1}, threshold=refladder.calibrate(rows, **ASKED).threshold
        )
