"""Rows that are scored: contexts by their text or their id, and ids that are whole numbers.

A set that has no texts takes those of the table. In a table of JSON, CSV or a data frame, 3 is the id "3".
"""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from json_lines import read_lines

import refladder
from refladder.errors import DataError

TASK = """task = "open"

[[dimensions]]
name = "clarity"
description = "Whether a child can follow it. The worst leaves the child lost; the best is clear at once."
low = 1
high = 5
"""
TIDES = "Explain why the sea comes and goes twice a day."
RAIN = "Explain where the water in a rain cloud was before."
PULLS = "The moon pulls the sea, and the earth turns below it."
ROWS = [
    {"context": TIDES, "output": PULLS, "system": "a"},
    {"context": RAIN, "background": "Clouds are small drops.", "output": "It was in the sea.", "system": "a"},
    {"context": TIDES, "output": "Because.", "system": "b"},
]  # fmt: skip


def scores(rows):
    return [row["clarity_score"] for row in rows]


def notes(done):
    return [row["clarity_note"] for row in done.rows]


@pytest.fixture
def task(tmp_path):
    path = tmp_path / "task.toml"
    path.write_text(TASK)
    return path


@pytest.fixture
def build(command, tmp_path, task):
    """Build ladders for the contexts of a table."""

    def go(table, options="", name="ladders"):
        folder = tmp_path / name
        line = f"build table --source {table} --task-file {task} --writer builtin --out {folder}"
        assert command(f"{line} {options}").code == 0
        return folder

    return go


@pytest.fixture
def table(write_jsonl):
    return write_jsonl(ROWS, "table.jsonl")


@pytest.fixture
def folder(build, table):
    """A ladder set that was built from the table."""
    return build(table)


@pytest.fixture
def score(command, write_jsonl, folder):
    """Score rows with the set."""
    return lambda rows: command(f"score {write_jsonl(rows)} --ladders {folder}")


def test_the_table_that_ladders_were_built_from_is_scored(command, table, folder, write_jsonl):
    done = command(f"score {table} --ladders {folder}")
    assert done.code == 0, done.err
    assert None not in scores(done.rows)
    assert "table.jsonl" not in done.err

    names = {"context": "question", "background": "facts"}
    renamed = [{names.get(key, key): value for key, value in row.items()} for row in ROWS]
    renamed[0]["facts"] = renamed[2]["facts"] = None
    columns = "--column context=question --column background=facts"
    mapped = command(f"score {write_jsonl(renamed)} --ladders {folder} {columns}")
    assert mapped.code == 0, mapped.err
    assert scores(mapped.rows) == scores(done.rows)


@pytest.mark.parametrize("field", ["context", "background", "output", "output_id", "system"])
def test_a_column_that_was_named_must_exist(command, table, folder, task, field):
    """Also where the set has the texts, so that the row needs none."""
    named = f"--column {field}=facs"
    done = command(f"score {table} --ladders {folder} {named}")
    where = f"refladder: {table}:1: no column 'facs' for the {field.replace('_', ' ')}. "
    assert (done.code, done.err[: len(where)]) == (2, where)
    with pytest.raises(DataError, match=r"^row 1: no column 'facs' for the "):
        refladder.score(ROWS, ladders=folder, columns={field: "facs"})
    own = f"--source {table} --task-file {task} {named}"
    missing = f"refladder: {table}:1: no column 'facs'"
    commands = [f"evaluate table {own} --resamples 5"]
    if field in {"context", "background"}:
        commands.append(f"build table {own} --writer builtin --out {folder.parent / 'more'}")
    for line in commands:
        done = command(line)
        assert (done.code, done.err[: len(missing)]) == (2, missing), done.err


def test_a_set_without_texts_takes_them_from_the_table(command, table, folder):
    line = f"score {table} --ladders {folder}"
    whole = command(line)
    (folder / "contexts.jsonl").unlink()
    done = command(line)
    assert done.code == 0, done.err
    assert scores(done.rows) == scores(whole.rows)
    assert "15 calls" in command(f"{line} --dry-run").out  # three outputs, five rungs


def test_a_row_before_the_first_with_a_text_takes_that_text_whatever_the_batches(
    folder, score, monkeypatch
):
    ids = {context["text"]: context["id"] for context in read_lines(folder / "contexts.jsonl")}
    (folder / "contexts.jsonl").unlink()
    rows = [{**row, "context_id": ids[row["context"]]} for row in ROWS]
    rows[0]["context"] = None  # that of the third row is the same
    for size in (1, 2, 16):
        monkeypatch.setattr("refladder.scoring.scorer.FIRST_BATCH", size)
        done = score(rows)
        # The table is read before the first row is asked about, for the texts that the set lacks.
        assert None not in scores(done.rows)


def test_one_id_with_two_texts_is_a_reason_in_its_row(folder, score):
    context_id = read_lines(folder / "ladders.jsonl")[0]["context_id"]
    row = {"context_id": context_id, "output": "The moon."}
    rows = [{**row, "context": TIDES}, {**row, "context": RAIN}, row]
    done = score(rows)
    assert done.code == 3
    another = f"context {context_id!r} has another text in this row than in"
    assert notes(done) == [None, f"{another} the ladder set ladders", None]
    whole = scores(score(rows[:1]).rows)
    (folder / "contexts.jsonl").unlink()
    assert notes(score(rows)) == [None, f"{another} the ladder set ladders", None]
    # Such a set scores a table that brings the texts as the whole set does.
    assert scores(score(rows[:1]).rows) == whole
    # A set of an older refladder has no digests either: the first row is believed.
    (folder / "context_digests.jsonl").unlink()
    done = score(rows)
    assert done.code == 3
    assert notes(done)[1] == f"{another} an earlier row"
    assert "no text of context" in notes(score([row]))[0]


def test_another_background_is_another_context(folder, score):
    context = read_lines(folder / "contexts.jsonl")[1]
    row = {"context_id": context["id"], "context": RAIN, "output": "The sea."}
    backgrounds = ("Clouds are small drops.", "Clouds are smoke.")
    *known, other = notes(score([row, *({**row, "background": text} for text in backgrounds)]))
    assert known == [None, None]
    assert other.endswith("has another background in this row than in the ladder set ladders")


def test_rows_without_a_text_have_a_reason(score):
    done = score([ROWS[0], {**ROWS[0], "context": None}, {**ROWS[0], "context": " "}])
    assert notes(done) == [None, "the context is null", "the context is empty"]


def test_a_context_that_is_no_text(fails, score, folder, write_jsonl):
    path = write_jsonl([{**ROWS[0], "context": 5}], "five.jsonl")
    assert fails(2, f"score {path} --ladders {folder}") == (
        f"refladder: {path}:1: column 'context': expected text, found 5\n"
    )
    # With an id, the column is one that refladder need not know.
    context = read_lines(folder / "contexts.jsonl")[0]
    assert score([{**ROWS[0], "context": ["a turn"], "context_id": context["id"]}]).code == 0


def test_neither_an_id_nor_a_text(fails, folder, write_jsonl):
    path = write_jsonl([{"output": "The moon."}], "bare.jsonl")
    assert fails(2, f"score {path} --ladders {folder}") == (
        f"refladder: {path}:1: no column 'context_id', nor 'context', whose text gives the id. Columns there: output. "
        "Map one with --column context_id=NAME or --column context=NAME\n"
    )


def test_scored_rows_without_ids_are_evaluated(command, folder, task, tmp_path, write_jsonl):
    rated = write_jsonl([{**row, "clarity": 5 - k} for k, row in enumerate(ROWS)], "rated.jsonl")
    out = tmp_path / "scored.jsonl"
    assert command(f"score {rated} --ladders {folder} --out {out}").code == 0
    own = f"evaluate table --source {rated} --task-file {task} --resamples 5"
    done = command(f"{own} --scores {out} --json")
    assert done.code == 0, done.err
    assert {row["unscored"] for row in done.rows if row["method"] == "scored"} == {0}


PLACES = {1: "A dog runs home.", 2: "A bell vanishes from its tower.", 3: "A ship finds a seed."}
TEXTS = ("The dog ran home. It was wet and glad.", "dog dog dog", "The end came slowly, with rain.")
NUMBERED = [
    {"output_id": 10 * context_id + number, "context_id": context_id, "context": text, "output": output}
    for context_id, text in PLACES.items() for number, output in enumerate(TEXTS)
]  # fmt: skip
BARE = [{name: row[name] for name in ("output_id", "context_id", "output")} for row in NUMBERED]


@pytest.fixture
def numbered(build, write_jsonl):
    """Ladders that `build` wrote for contexts with the ids 1, 2 and 3."""
    return build(write_jsonl(NUMBERED, "contexts.jsonl"), name="numbered")


@pytest.fixture
def expected(command, numbered, write_jsonl):
    """The scores of the rows with the same ids as text."""
    ids = ("context_id", "output_id")
    named = [{**row, **{name: str(row[name]) for name in ids}} for row in BARE]
    values = scores(command(f"score {write_jsonl(named)} --ladders {numbered}").rows)
    assert None not in values
    return values


def test_json_numbers_are_scored_and_stay_numbers_in_the_table(
    command, write_jsonl, numbered, expected, tmp_path
):
    out = tmp_path / "scored.jsonl"
    assert command(f"score {write_jsonl(BARE)} --ladders {numbered} --out {out}").code == 0
    rows = read_lines(out)
    assert scores(rows) == expected
    assert [row["context_id"] for row in rows] == [row["context_id"] for row in BARE]
    stored = read_lines(tmp_path / "scored.jsonl.judgments.jsonl")
    assert {line["context_id"] for line in stored if "context_id" in line} == {"1", "2", "3"}


def test_frames_of_pandas_and_numbers_of_numpy(numbered, expected, tmp_path):
    pd.DataFrame(BARE).to_csv(tmp_path / "table.csv", index=False)
    frame = pd.read_csv(tmp_path / "table.csv")
    assert frame["context_id"].dtype == np.int64
    assert refladder.score(frame, ladders=numbered)["clarity_score"].tolist() == expected
    rows = [{**row, "context_id": np.int64(row["context_id"])} for row in BARE]
    assert scores(refladder.score(rows, ladders=numbered)) == expected
    # a column with a gap is of floats
    frame = pd.DataFrame([*BARE, {"output": "A text of no context.", "output_id": 99}])
    assert frame["context_id"].dtype == np.float64  # 1.0, ..., NaN
    scored = refladder.score(frame, ladders=numbered)
    assert scored["clarity_score"].tolist()[:-1] == expected
    assert scored["clarity_note"].tolist()[-1] == "the context id is null"


def test_a_scorer_and_context_id_for_every_row_take_a_number(numbered, expected):
    scorer = refladder.Scorer(ladders=numbered)
    rows = [{"output": text} for text in TEXTS]
    for context_id in (1, np.int64(1), 1.0, "1"):
        for given in (context_id, [context_id] * 3):
            found = [score.value for score in scorer.score(TEXTS, context_id=given)]
            assert found == expected[:3]
        scored = refladder.score(rows, ladders=numbered, context_id=context_id)
        assert scores(scored) == expected[:3]


@pytest.mark.parametrize(
    ("value", "shown"),
    [(1.5, "1.5"), (True, "True"), ([1], r"\[1\]"), (2.0**53, "9007199254740992.0")],
)
def test_what_is_no_id_is_refused_with_its_row(value, shown):
    for column in ("context_id", "output_id"):
        words = f"row 1: column '{column}': expected a name or an integer, found {shown}$"
        row = {"context_id": "story-01", "output_id": "x", "output": "A.", column: value}
        with pytest.raises(DataError, match=words):
            refladder.score([row], ladders="demo/story")


def test_readers_of_scored_rows_take_a_number_and_its_text_as_one_id(
    command, write_jsonl, numbered, tmp_path
):
    scored = refladder.score(BARE, ladders=numbered)
    for row in scored[::3]:
        row["context_id"] = str(row["context_id"])
    source, pairs = write_jsonl(scored, "mixed.jsonl"), tmp_path / "pairs.jsonl"
    best = command(f"filter {source} --best 1 --per context_id")
    # The best of three rows of each context: 1 of each, where 3 and "3" as two contexts would give 2.
    assert [int(row["context_id"]) for row in best.rows] == [1, 2, 3]
    assert command(f"pairs {source} --ladders {numbered} --margin 0 --out {pairs}").code == 0
    assert {line["context_id"] for line in read_lines(pairs)} == {"1", "2", "3"}
    shown = json.loads(command(f"show {numbered} 1 --scores {source} --json").out)
    assert {entry["text"] for entry in shown["outputs"]} == set(TEXTS)

    labels = [{"output_id": float(row["output_id"]), "rating": 4} for row in BARE]
    labels = write_jsonl(labels, "labels.jsonl")
    good = "--label rating --good '>=4' --precision 0.5 --by clarity_score"
    done = command(f"calibrate {source} --labels {labels} {good}")
    assert "labels are of rows" not in done.err, done.err  # that the table does not score
    assert "9 labels" in done.out, done.err


def test_evaluate_reads_numbers_in_ratings_and_in_scores_of_others(command, write_jsonl, task):
    rated = [{**row, "clarity": 1 + number % 5} for number, row in enumerate(NUMBERED)]
    source = write_jsonl(rated, "rated.jsonl")
    own = f"evaluate table --source {source} --task-file {task} --resamples 5 --json"
    for ids in (("output_id",), ("context_id", "output")):  # in the order of the ratings
        table = [
            {**{name: row[name] for name in ids}, "score": 2 * row["clarity"]} for row in rated
        ]
        for row in table:
            row[ids[0]] = float(row[ids[0]])
        other = write_jsonl(table, "other.jsonl")
        done = command(f"{own} --scores {other} --statistic spearman --level pooled")
        assert done.code == 0, done.err
        values = [row["value"] for row in done.rows if row.get("method") == "other"]
        assert values[0] == pytest.approx(1)


def test_human_rungs_take_numbers(command, write_jsonl, build):
    rung = {"context_id": 1, "dimension": "clarity", "level": 1, "text": "No rain, no dog."}
    human = write_jsonl([rung], "human.jsonl")
    out = build(write_jsonl(NUMBERED, "contexts.jsonl"), f"--human {human}", "with_people")
    assert "No rain, no dog." in command(f"show {out} 1 --json").out


THOUGHT = f"<think>\nA moon, and a sea.\n</think>\n\n{PULLS}"


def test_the_answer_behind_thoughts_is_judged_and_the_row_keeps_its_text(score, folder):
    rows = [
        {**ROWS[0], "output": text}
        for text in (PULLS, THOUGHT, "<think>A moon", PULLS + " <think>")
    ]
    done = score(rows)
    assert [row["output"] for row in done.rows] == [row["output"] for row in rows]
    plain, thought, none, within = scores(done.rows)
    assert plain == thought
    assert none is None
    assert within is not None
    assert notes(done)[2] == "the output is a thought without an answer"
    told = (
        "Thoughts in front of the output in 2 of 4 rows: what follows them was judged. --text-of whole judges the whole "
        "text."
    )
    assert told in done.err
    whole = refladder.score(rows, ladders=folder, text_of="whole")
    assert whole[0]["clarity_score"] == plain
    assert None not in scores(whole)
    assert whole[1]["clarity_score"] != plain


def test_pairs_are_made_of_whole_texts():
    rows = []
    for number, text in enumerate([PULLS, THOUGHT]):
        rows.append({"context": TIDES, "output": text, "n": float(number)})
    (pair,) = refladder.pairs(rows, margin=0.5, by="n")
    assert (pair["chosen"], pair["rejected"]) == (THOUGHT, PULLS)
