"""score with a `context` column: ids as `build own` makes them, and texts for sets that have none."""

from __future__ import annotations

import json

import pytest

TASK = """task = "open"

[[dimensions]]
name = "clarity"
description = "Whether a child can follow it. The worst leaves the child lost; the best is clear at once."
low = 1
high = 5
"""
TIDES, RAIN = (
    "Explain why the sea comes and goes twice a day.",
    "Explain where the water in a rain cloud was before.",
)
ROWS = [
    {
        "context": TIDES,
        "output": "The moon pulls the sea, and the earth turns below it.",
        "system": "a",
    },
    {
        "context": RAIN,
        "background": "Clouds are small drops.",
        "output": "It was in the sea.",
        "system": "a",
    },
    {"context": TIDES, "output": "Because.", "system": "b"},
]


@pytest.fixture
def built(command, tmp_path, write_jsonl):
    """A ladder set that was built from the same table, and the table."""
    task = tmp_path / "task.toml"
    task.write_text(TASK)
    table = write_jsonl(ROWS, "table.jsonl")
    folder = tmp_path / "ladders"
    assert (
        command(
            "build",
            "own",
            "--source",
            table,
            "--task-file",
            task,
            "--writer",
            "builtin",
            "--out",
            folder,
        ).code
        == 0
    )
    return table, folder


def scores(done):
    return [row["clarity_score"] for row in done.rows]


def notes(done):
    return [row["clarity_note"] for row in done.rows]


def test_the_table_that_ladders_were_built_from_is_scored(command, built):
    table, folder = built
    done = command("score", table, "--ladders", folder)
    assert done.code == 0, done.err
    assert None not in scores(done)
    assert "table.jsonl" not in done.err


def test_columns_by_other_names(command, built, write_jsonl):
    table, folder = built
    names = {"context": "question", "background": "facts"}
    rows = [{names.get(key, key): value for key, value in row.items()} for row in ROWS]
    renamed = write_jsonl(rows, "renamed.jsonl")
    columns = ("--column", "context=question", "--column", "background=facts")
    rows[0]["facts"] = rows[2]["facts"] = None
    write_jsonl(rows, "renamed.jsonl")
    done = command("score", renamed, "--ladders", folder, *columns)
    assert done.code == 0, done.err
    assert scores(done) == scores(command("score", table, "--ladders", folder))


def test_a_set_without_texts_takes_them_from_the_table(command, built):
    table, folder = built
    whole = command("score", table, "--ladders", folder)
    (folder / "contexts.jsonl").unlink()
    done = command("score", table, "--ladders", folder)
    assert done.code == 0, done.err
    assert scores(done) == scores(whole)
    rehearsed = command("score", table, "--ladders", folder, "--dry-run")
    assert "15 calls" in rehearsed.out  # three outputs, five rungs


def test_a_row_before_the_first_with_a_text_has_none_whatever_the_batches(
    command, built, write_jsonl, monkeypatch
):
    _, folder = built
    contexts = [json.loads(line) for line in (folder / "contexts.jsonl").read_text().splitlines()]
    (folder / "contexts.jsonl").unlink()
    ids = {context["text"]: context["id"] for context in contexts}
    rows = [{**row, "context_id": ids[row["context"]]} for row in ROWS]
    rows[0]["context"] = None  # that of the third row is the same
    source = write_jsonl(rows, "mixed.jsonl")
    for size in (1, 2, 16):
        monkeypatch.setattr("refladder.scoring.scorer.FIRST_BATCH", size)
        done = command("score", source, "--ladders", folder)
        assert [score is None for score in scores(done)] == [True, False, False]
        assert notes(done)[0].endswith("in the set; give it in a column 'context'")


def test_one_id_with_two_texts_is_a_reason_in_its_row(command, built, write_jsonl, tmp_path):
    _, folder = built
    (ladder, *_) = [
        json.loads(line) for line in (folder / "ladders.jsonl").read_text().splitlines()
    ]
    row = {"context_id": ladder["context_id"], "output": "The moon."}
    rows = [{**row, "context": TIDES}, {**row, "context": RAIN}, row]
    table = write_jsonl(rows, "two.jsonl")
    done = command("score", table, "--ladders", folder)
    assert done.code == 3
    assert notes(done) == [
        None,
        f"context {row['context_id']!r} has another text in this row than in the ladder set ladders",
        None,
    ]
    whole = scores(command("score", write_jsonl(rows[:1], "with.jsonl"), "--ladders", folder))
    (folder / "contexts.jsonl").unlink()
    assert notes(command("score", table, "--ladders", folder)) == [
        None,
        (
            f"context {row['context_id']!r} has another text or background in this row than the ladder set ladders was "
            "written for"
        ),
        None,
    ]
    # Such a set scores a table that brings the texts as the whole set does.
    assert scores(command("score", tmp_path / "with.jsonl", "--ladders", folder)) == whole
    # A set of an older refladder has no digests either: the first row is believed.
    (folder / "context_digests.jsonl").unlink()
    done = command("score", table, "--ladders", folder)
    assert done.code == 3
    assert (
        notes(done)[1]
        == f"context {row['context_id']!r} has another text in this row than in an earlier row"
    )
    assert (
        "no text of context"
        in notes(command("score", write_jsonl([row], "no.jsonl"), "--ladders", folder))[0]
    )


def test_another_background_is_another_context(command, built, write_jsonl):
    _, folder = built
    context = json.loads((folder / "contexts.jsonl").read_text().splitlines()[1])
    row = {"context_id": context["id"], "context": RAIN, "output": "The sea."}
    rows = [
        row,
        {**row, "background": "Clouds are small drops."},
        {**row, "background": "Clouds are smoke."},
    ]
    done = command("score", write_jsonl(rows, "b.jsonl"), "--ladders", folder)
    assert [note is None for note in notes(done)] == [True, True, False]
    assert notes(done)[2].endswith(
        "has another background in this row than in the ladder set ladders"
    )


@pytest.mark.parametrize(
    ("text", "reason"), [(None, "the context is null"), (" ", "the context is empty")]
)
def test_a_row_without_a_text_has_a_reason(command, built, write_jsonl, text, reason):
    _, folder = built
    done = command(
        "score",
        write_jsonl([ROWS[0], {**ROWS[0], "context": text}], "t.jsonl"),
        "--ladders",
        folder,
    )
    assert notes(done) == [None, reason]


def test_a_context_that_is_no_text(fails, command, built, write_jsonl):
    _, folder = built
    path = write_jsonl([{**ROWS[0], "context": 5}], "five.jsonl")
    assert fails(2, "score", path, "--ladders", folder) == (
        f"refladder: {path}:1: column 'context': expected text, found 5\n"
    )
    # With an id, the column is one that refladder need not know.
    context = json.loads((folder / "contexts.jsonl").read_text().splitlines()[0])
    path = write_jsonl(
        [{**ROWS[0], "context": ["a turn"], "context_id": context["id"]}], "turns.jsonl"
    )
    assert command("score", path, "--ladders", folder).code == 0


def test_neither_an_id_nor_a_text(fails, built, write_jsonl):
    _, folder = built
    path = write_jsonl([{"output": "The moon."}], "bare.jsonl")
    assert fails(2, "score", path, "--ladders", folder) == (
        f"refladder: {path}:1: no column 'context_id', nor 'context', whose text gives the id; Columns there: output. "
        "Map one with --column context_id=NAME or --column context=NAME\n"
    )


def test_scored_rows_without_ids_are_evaluated(command, built, tmp_path, write_jsonl):
    _, folder = built
    table = write_jsonl([{**row, "clarity": 5 - k} for k, row in enumerate(ROWS)], "rated.jsonl")
    out = tmp_path / "scored.jsonl"
    assert command("score", table, "--ladders", folder, "--out", out).code == 0
    own = (
        "evaluate",
        "own",
        "--source",
        table,
        "--task-file",
        tmp_path / "task.toml",
        "--resamples",
        "5",
    )
    done = command(*own, "--scores", out, "--json")
    assert done.code == 0, done.err
    assert {row["unscored"] for row in done.rows if row["method"] == "scored"} == {0}
