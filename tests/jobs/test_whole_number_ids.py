"""Ids that are whole numbers: in a table of JSON, CSV or a data frame, 3 is the id "3" for every command and call."""

from __future__ import annotations

import json

import numpy as np
import pytest

import refladder
from refladder.errors import DataError

TASK = """task = "story"

[[dimensions]]
name = "coherence"
description = "Whether the story hangs together."
low = 1
high = 5
"""
CONTEXTS = {
    1: "A dog runs home through the rain.",
    2: "A bell vanishes from its tower.",
    3: "A ship finds a seed.",
}
TEXTS = (
    "The dog ran home. It was wet and glad.",
    "dog dog dog",
    "The end came slowly, and the rain went on.",
)
ROWS = [
    {
        "output_id": 10 * context_id + number,
        "context_id": context_id,
        "context": context,
        "output": text,
    }
    for context_id, context in CONTEXTS.items()
    for number, text in enumerate(TEXTS)
]
WITHOUT_TEXT = [{name: row[name] for name in ("output_id", "context_id", "output")} for row in ROWS]
NAMED = [
    {**row, "context_id": str(row["context_id"]), "output_id": str(row["output_id"])}
    for row in WITHOUT_TEXT
]


@pytest.fixture
def task(tmp_path):
    path = tmp_path / "task.toml"
    path.write_text(TASK)
    return path


@pytest.fixture
def ladders(command, write_jsonl, tmp_path, task):
    """Ladders that `build` wrote for contexts with the ids 1, 2 and 3."""
    out = tmp_path / "set"
    table = write_jsonl(ROWS, "contexts.jsonl")
    built = command(
        "build", "own", "--source", table, "--task-file", task, "--writer", "builtin", "--out", out
    )
    assert built.code == 0, built.err
    return out


@pytest.fixture
def scores(command, ladders, write_jsonl):
    """The scores of the rows with the same ids as text."""
    done = command("score", write_jsonl(NAMED, "named.jsonl"), "--ladders", ladders)
    assert done.code == 0, done.err
    values = [row["coherence_score"] for row in done.rows]
    assert None not in values
    return values


def values(table):
    return [row["coherence_score"] for row in table]


def test_json_numbers_are_scored_and_stay_numbers_in_the_table(
    command, write_jsonl, ladders, scores, tmp_path
):
    out = tmp_path / "scored.jsonl"
    done = command(
        "score", write_jsonl(WITHOUT_TEXT, "numbers.jsonl"), "--ladders", ladders, "--out", out
    )
    assert (done.code, done.err.count("Traceback")) == (0, 0)
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert values(rows) == scores
    assert [row["context_id"] for row in rows] == [row["context_id"] for row in ROWS]
    stored = [
        json.loads(line)
        for line in (tmp_path / "scored.jsonl.judgments.jsonl").read_text().splitlines()
    ]
    assert {line["context_id"] for line in stored if "context_id" in line} == {"1", "2", "3"}


def test_frames_of_pandas_and_numbers_of_numpy(ladders, scores, tmp_path):
    pd = pytest.importorskip("pandas")
    path = tmp_path / "table.csv"
    pd.DataFrame(WITHOUT_TEXT).to_csv(path, index=False)
    frame = pd.read_csv(path)
    assert frame["context_id"].dtype == np.int64
    assert refladder.score(frame, ladders=ladders)["coherence_score"].tolist() == scores
    rows = [{**row, "context_id": np.int64(row["context_id"])} for row in WITHOUT_TEXT]
    assert values(refladder.score(rows, ladders=ladders)) == scores


def test_a_column_with_a_gap_is_of_floats_in_pandas(ladders, scores):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame([*WITHOUT_TEXT, {"output": "A text of no context.", "output_id": 99}])
    assert frame["context_id"].dtype == np.float64  # 1.0, ..., NaN
    scored = refladder.score(frame, ladders=ladders)
    assert scored["coherence_score"].tolist()[:-1] == scores
    assert scored["coherence_note"].tolist()[-1] == "the context id is null"


@pytest.mark.parametrize("context_id", [1, np.int64(1), 1.0, "1"])
def test_a_scorer_and_context_id_for_every_row_take_a_number(ladders, scores, context_id):
    scorer = refladder.Scorer(ladders=ladders)
    assert [score.value for score in scorer.score(TEXTS, context_id=context_id)] == scores[:3]
    assert [score.value for score in scorer.score(TEXTS, context_id=[context_id] * 3)] == scores[:3]
    rows = [{"output": text} for text in TEXTS]
    assert values(refladder.score(rows, ladders=ladders, context_id=context_id)) == scores[:3]


@pytest.mark.parametrize(
    ("value", "shown"),
    [(1.5, "1.5"), (True, "True"), ([1], r"\[1\]"), (2.0**53, "9007199254740992.0")],
)
def test_what_is_no_id_is_refused_with_its_row(ladders, value, shown):
    words = f"row 1: column '{{}}': expected a name or an integer, found {shown}$"
    for column in ("context_id", "output_id"):
        row = {**WITHOUT_TEXT[0], column: value}
        with pytest.raises(DataError, match=words.format(column)):
            refladder.score([row], ladders=ladders)


def test_pairs_and_groups_take_a_number_and_its_text_as_one_context(
    command, write_jsonl, ladders, tmp_path
):
    scored = refladder.score(WITHOUT_TEXT, ladders=ladders)
    for row in scored[::3]:
        row["context_id"] = str(row["context_id"])
    source = write_jsonl(scored, "mixed.jsonl")
    best = command("filter", source, "--best", "1", "--per", "context_id")
    # The best of three rows of each context: 1 of each, where 3 and "3" as two contexts would give 2.
    assert [int(row["context_id"]) for row in best.rows] == [1, 2, 3]
    pairs = command(
        "pairs", source, "--ladders", ladders, "--margin", "0", "--out", tmp_path / "pairs.jsonl"
    )
    assert pairs.code == 0, pairs.err
    lines = [json.loads(line) for line in (tmp_path / "pairs.jsonl").read_text().splitlines()]
    assert {line["context_id"] for line in lines} == {"1", "2", "3"}


def test_labels_find_their_rows_whatever_form_the_id_has(command, write_jsonl, ladders):
    scored = write_jsonl(refladder.score(WITHOUT_TEXT, ladders=ladders), "scored.jsonl")
    labels = write_jsonl(
        [{"output_id": float(row["output_id"]), "rating": 4} for row in WITHOUT_TEXT],
        "labels.jsonl",
    )
    by = ("--by", "coherence_score")
    done = command(
        "calibrate",
        scored,
        "--labels",
        labels,
        "--label",
        "rating",
        "--good",
        ">=4",
        "--precision",
        "0.5",
        *by,
    )
    assert "labels are of rows" not in done.err, (
        done.err
    )  # `9 of 9 labels are of rows that ... does not score`
    assert "9 labels" in done.out, done.err


def test_evaluate_reads_numbers_in_ratings_and_in_scores_of_others(command, write_jsonl, task):
    rated = [{**row, "coherence": 1 + number % 5} for number, row in enumerate(ROWS)]
    source = write_jsonl(rated, "rated.jsonl")
    better = [(row, 2 * row["coherence"]) for row in rated]  # in the order of the ratings
    floats = [{"output_id": float(row["output_id"]), "score": score} for row, score in better]
    by_place = [
        {"context_id": float(row["context_id"]), "output": row["output"], "score": score}
        for row, score in better
    ]
    own = ("evaluate", "own", "--source", source, "--task-file", task, "--resamples", "5", "--json")
    for table in (floats, by_place):
        done = command(
            *own, "--scores", write_jsonl(table, "other.jsonl"), "--statistic", "spearman"
        )
        assert done.code == 0, done.err
        row = next(
            row
            for row in done.rows
            if row.get("statistic") == "spearman" and row["level"] == "pooled"
        )
        assert row["value"] == pytest.approx(1)


def test_human_rungs_and_show_take_numbers(command, write_jsonl, ladders, task, tmp_path):
    human = write_jsonl(
        [{"context_id": 1, "dimension": "coherence", "level": 1, "text": "No rain, no dog."}],
        "human.jsonl",
    )
    table, out = tmp_path / "contexts.jsonl", tmp_path / "with people"
    built = command(
        "build",
        "own",
        "--source",
        table,
        "--task-file",
        task,
        "--human",
        human,
        "--writer",
        "builtin",
        "--out",
        out,
    )
    assert built.code == 0, built.err
    assert "No rain, no dog." in command("show", out, "1", "--json").out
    scored = write_jsonl(refladder.score(WITHOUT_TEXT, ladders=ladders), "scored.jsonl")
    shown = json.loads(command("show", ladders, "1", "--scores", scored, "--json").out)
    assert {entry["text"] for entry in shown["outputs"]} == set(TEXTS)
