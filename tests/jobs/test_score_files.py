"""Files of scores beside the ratings of a benchmark: which column is read, and what is refused."""

from __future__ import annotations

import json

import pytest

from refladder.loaders import load_benchmark
from refladder.metaeval.agreement import human_means

TASK = """task = "story"

[[dimensions]]
name = "coherence"
description = "Whether the story hangs together."
low = 1
high = 5
"""
QUICK = ("--resamples", "5", "--statistic", "spearman", "--level", "within_context", "--json")


@pytest.fixture
def rated(tmp_path, write_jsonl):
    """The shipped stories as the user's own table with ratings, and its task file."""
    story = load_benchmark("demo/story")
    means = human_means(story.ratings)
    texts = {context.id: context.text for context in story.contexts}
    rows = [
        {
            "context_id": output.context_id,
            "context": texts[output.context_id],
            "system": output.system,
            "output": output.text,
            "coherence": means[output.id, "coherence"],
        }
        for output in story.outputs
    ]
    task = tmp_path / "task.toml"
    task.write_text(TASK)
    return write_jsonl(rows, "rated.jsonl"), task


def values(done, method):
    return [
        row["value"]
        for row in done.rows
        if row["method"] == method and row.get("statistic") == "spearman"
    ]


@pytest.mark.parametrize("ending", ["jsonl", "csv"])
def test_scored_rows_that_carry_ratings_are_read_by_their_scores(command, rated, tmp_path, ending):
    source, task = rated
    scored = tmp_path / f"scored.{ending}"
    assert (
        command(
            "score", source, "--ladders", "demo/story", "--dimension", "coherence", "--out", scored
        ).code
        == 0
    )
    own = ("evaluate", "own", "--source", source, "--task-file", task, *QUICK)
    direct = command(*own, "--methods", "ladder", "--ladders", "demo/story", "--scores", scored)
    assert direct.code == 0, direct.err
    # One judge and one ladder set: the file agrees with the ratings as the ladder itself does.
    assert values(direct, "scored") == pytest.approx(values(direct, "ladder"))
    assert values(direct, "scored")[0] < 0.99


@pytest.mark.parametrize(
    "named", [(), ("--score-column", "coherence=coherence"), ("--score-column", "coherence=gold")]
)
def test_a_column_that_equals_the_ratings_is_refused(fails, rated, tmp_path, named):
    source, task = rated
    rows = [json.loads(line) for line in source.read_text().splitlines()]
    copy = tmp_path / "copy.jsonl"
    copy.write_text("".join(json.dumps({**row, "gold": row["coherence"]}) + "\n" for row in rows))
    column = named[1].partition("=")[2] if named else "coherence"
    assert fails(
        2, "evaluate", "own", "--source", source, "--task-file", task, "--scores", copy, *named
    ) == (
        f"refladder: {copy}: column {column!r} equals the human ratings on 'coherence', so it measures nothing; "
        "name the column of the scores with --score-column coherence=COLUMN\n"
    )


def test_columns_by_name(command, fails, write_jsonl):
    story = load_benchmark("demo/story")
    rows = [
        {"output_id": o.id, "coherence_score": 0, "size": len(o.text), "rev": -len(o.text)}
        for o in story.outputs
    ]
    path = write_jsonl(rows, "other.jsonl")
    evaluate = ("evaluate", "demo/story", *QUICK, "--scores", path)
    named = ("--score-column", "coherence=size", "--score-column", "complexity=rev")
    done = command(*evaluate, *named)
    assert done.code == 0, done.err
    size = write_jsonl(
        [{"output_id": o.id, "score": len(o.text)} for o in story.outputs], "size.jsonl"
    )
    plain = command("evaluate", "demo/story", *QUICK, "--scores", size)
    expected = {row["dimension"]: row["value"] for row in plain.rows if row["method"] == "size"}
    found = {row["dimension"]: row["value"] for row in done.rows if row["method"] == "other"}
    assert found["coherence"] == pytest.approx(expected["coherence"])
    assert found["complexity"] == pytest.approx(-expected["complexity"])
    assert fails(2, *evaluate, *named[:2], "--score-column", "complexity=revs").startswith(
        f"refladder: {path}:1: no column 'revs'; did you mean 'rev'? It has: output_id, coherence_score, size, rev"
    )
    assert fails(2, *evaluate, "--score-column", "coherense=size").startswith(
        "refladder: unknown dimension of --score-column 'coherense'; did you mean 'coherence'? Known: "
    )
    assert fails(2, "evaluate", "demo/story", "--score-column", "coherence=size") == (
        "refladder: --score-column names a column of --scores FILE, and no file is given; add --scores FILE\n"
    )


def test_a_file_without_the_column_says_how_to_name_it(fails, write_jsonl):
    path = write_jsonl([{"output_id": "story-01/aster", "coherence": 1}])
    assert fails(2, "evaluate", "demo/story", "--scores", path) == (
        f"refladder: {path}:1: no column for dimension 'complexity' (nor 'score'); columns there: output_id, "
        "coherence. "
        "Name the column with --score-column complexity=COLUMN, or the dimensions that the file has with --dimension\n"
    )


def test_a_name_of_the_dimension_that_has_a_score_column_is_passed_over(command, write_jsonl):
    """A column `coherence` beside `coherence_score` is what the scored table had before."""
    story = load_benchmark("demo/story")
    rows = [
        {"output_id": o.id, "coherence": -len(o.text), "coherence_score": len(o.text), "score": 0}
        for o in story.outputs
    ]
    both = command(
        "evaluate",
        "demo/story",
        "--dimension",
        "coherence",
        *QUICK,
        "--scores",
        write_jsonl(rows, "b.jsonl"),
    )
    bare = [{"output_id": row["output_id"], "coherence": -row["coherence"]} for row in rows]
    alone = command(
        "evaluate",
        "demo/story",
        "--dimension",
        "coherence",
        *QUICK,
        "--scores",
        write_jsonl(bare, "a.jsonl"),
    )
    assert values(both, "b") == values(alone, "a")
    assert values(both, "b")[0] is not None
