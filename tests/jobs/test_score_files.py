"""Files of scores beside the ratings of a benchmark: which column is read, and what is refused."""

from __future__ import annotations

import pytest
from json_lines import read_lines

from refladder.loaders import load_benchmark
from refladder.statistics.agreement import human_means

TASK = """task = "story"

[[dimensions]]
name = "coherence"
description = "Whether the story hangs together."
low = 1
high = 5
"""
QUICK = "--resamples 5 --statistic spearman --level within_context --json"
ON_STORY = "evaluate demo/story --resamples 5 --json --scores"
STORY = load_benchmark("demo/story")
MEANS = human_means(STORY.ratings)


@pytest.fixture
def rated(tmp_path, write_jsonl):
    """The shipped stories as the user's own table with ratings, and the line that evaluates it."""
    texts = {context.id: context.text for context in STORY.contexts}
    rows = [
        {
            "context_id": output.context_id,
            "context": texts[output.context_id],
            "system": output.system,
            "output": output.text,
            "coherence": MEANS[output.id, "coherence"],
        }
        for output in STORY.outputs
    ]
    (tmp_path / "task.toml").write_text(TASK)
    source = write_jsonl(rows, "rated.jsonl")
    return source, f"evaluate table --source {source} --task-file {tmp_path}/task.toml {QUICK}"


def values(done, method):
    return [
        row["value"]
        for row in done.rows
        if row["method"] == method and row.get("statistic") == "spearman"
    ]


@pytest.mark.parametrize("ending", ["jsonl", "csv"])
def test_scored_rows_that_carry_ratings_are_read_by_their_scores(command, rated, tmp_path, ending):
    source, own = rated
    scored = tmp_path / f"scored.{ending}"
    command(f"score {source} --ladders demo/story --dimension coherence --out {scored}")
    done = command(f"{own} --methods ladder --ladders demo/story --scores {scored}")
    assert done.code == 0, done.err
    # One judge and one ladder set: the file agrees with the ratings as the ladder itself does.
    assert values(done, "scored") == pytest.approx(values(done, "ladder"))
    assert values(done, "scored")[0] < 0.99


def test_a_column_that_equals_the_ratings_is_refused(fails, rated, write_jsonl):
    source, own = rated
    rows = read_lines(source)
    copy = write_jsonl([{**row, "gold": row["coherence"]} for row in rows], "copy.jsonl")
    for option, column in (
        ("", "coherence"),
        ("--score-column coherence=coherence", "coherence"),
        ("--score-column coherence=gold", "gold"),
    ):
        assert fails(2, f"{own} --scores {copy} {option}") == (
            f"refladder: {copy}: column {column!r} equals the human ratings on 'coherence', so it measures nothing; "
            "name the column of the scores with --score-column coherence=COLUMN\n"
        )


def test_columns_by_name(command, fails, write_jsonl):
    rows = [
        {"output_id": o.id, "coherence_score": 0, "size": len(o.text), "rev": -len(o.text)}
        for o in STORY.outputs
    ]
    path = write_jsonl(rows, "other.jsonl")
    line = f"evaluate demo/story {QUICK} --scores"
    named = "--score-column coherence=size --score-column complexity="
    done = command(f"{line} {path} {named}rev")
    assert done.code == 0, done.err
    size = [{"output_id": row["output_id"], "score": row["size"]} for row in rows]
    plain = command(f"{line} {write_jsonl(size, 'size.jsonl')}")
    expected = {row["dimension"]: row["value"] for row in plain.rows if row["method"] == "size"}
    found = {row["dimension"]: row["value"] for row in done.rows if row["method"] == "other"}
    assert found["coherence"] == pytest.approx(expected["coherence"])
    assert found["complexity"] == pytest.approx(-expected["complexity"])
    wrong = "no column 'revs'; did you mean 'rev'? It has: output_id, coherence_score, size, rev"
    assert fails(2, f"{line} {path} {named}revs").startswith(f"refladder: {path}:1: {wrong}")
    assert fails(2, f"{line} {path} --score-column coherense=size").startswith(
        "refladder: unknown dimension of --score-column 'coherense'; did you mean 'coherence'? Known: "
    )
    assert fails(2, "evaluate demo/story --score-column coherence=size") == (
        "refladder: --score-column names a column of --scores FILE, and no file is given; add --scores FILE\n"
    )


def test_a_name_of_the_dimension_that_has_a_score_column_is_passed_over(command, write_jsonl):
    """A column `coherence` beside `coherence_score` is what the scored table had before."""
    lengths = [(output.id, len(output.text)) for output in STORY.outputs]
    both = [{"output_id": i, "coherence": -n, "coherence_score": n, "score": 0} for i, n in lengths]
    bare = [{"output_id": i, "coherence": n} for i, n in lengths]
    found = []
    for name, rows in (("both", both), ("bare", bare)):
        path = write_jsonl(rows, f"{name}.jsonl")
        line = f"evaluate demo/story --dimension coherence {QUICK} --scores {path}"
        found.append(values(command(line), name))
    assert found[0] == found[1]
    assert None not in found[0]


def test_scores_made_elsewhere(command, write_jsonl, tmp_path):
    """Scores in the order of the ratings agree perfectly, and no judge is asked."""
    names = [dimension.name for dimension in STORY.dimensions]
    rows = [
        {"output_id": o.id, **{name: 2 * MEANS[o.id, name] for name in names}}
        for o in STORY.outputs
    ]
    done = command(f"{ON_STORY} {write_jsonl(rows, 'other.jsonl')}")
    assert (done.code, done.err) == (0, "")
    found = [row for row in done.rows if row["method"] == "other"]
    plain = [row["value"] for row in found if row["statistic"] in {"spearman", "kendall", "pearson"}]  # fmt: skip
    assert len(plain) >= 2 * 3 * 3
    assert plain == pytest.approx([1.0] * len(plain))
    assert {row["signature"] for row in found} == {"file:other.jsonl"}
    # the same by context and system, in CSV, with one column for all dimensions
    table = tmp_path / "one.csv"
    lines = [f"{o.context_id},{o.system},{len(o.text)}\n" for o in STORY.outputs]
    table.write_text("context_id,system,score\n" + "".join(lines))
    done = command(f"{ON_STORY} {table}")
    assert done.code == 0
    assert {row["unscored"] for row in done.rows if row["method"] == "one"} == {0}


def test_outputs_without_a_score_are_counted(command, write_jsonl):
    rows = [{"output_id": o.id, "score": len(o.text)} for o in STORY.outputs[:-1]]
    rows[0]["score"] = None
    path = write_jsonl(rows, "other.jsonl")
    done = command(f"{ON_STORY} {path} --judge builtin --dimension coherence")
    assert done.code == 3
    unscored = {row["method"]: row["unscored"] for row in done.rows}
    assert unscored == {"other": 2, "ladder": 0, "best of the surface measures": 0}


@pytest.mark.parametrize(
    ("rows", "begin", "end"),
    [
        ([{"output_id": "story-01/astr", "score": 1}],
         "{path}:1: output 'story-01/astr' is not in demo/story; did ", "aster'?\n"),
        ([{"output_id": "story-01/aster", "score": 1}] * 2,
         "{path}:2: output 'story-01/aster' appears twice", "twice\n"),
        ([{"output_id": "story-01/aster", "score": "x"}],
         "{path}:1: column 'score' must be a finite number or empty, ", "found 'x'\n"),
        ([{"output_id": "story-01/aster", "score": float("nan")}],
         "{path}:1: column 'score' must be a finite number or empty, ", "found nan\n"),
        ([{"output_id": "story-01/aster", "coherence": 1}],
         "{path}:1: no column for dimension 'complexity' (nor 'score'); columns there: output_id, coherence. Name ",
         "the column with --score-column complexity=COLUMN, or the dimensions that the file has with --dimension\n"),
        ([{"text": "x", "score": 1}],
         "{path}:1: a row must name its output by output_id, or by context_id and system or output; columns ",
         "score\n"),
        ([], "{path}: no rows; a row for each output is needed", "is needed\n"),
    ],
)  # fmt: skip
def test_scores_that_cannot_be_read(fails, write_jsonl, rows, begin, end):
    path = write_jsonl(rows, "other.jsonl")
    text = fails(2, f"evaluate demo/story --scores {path}")
    assert text.startswith(f"refladder: {begin.format(path=path)}")
    assert text.endswith(end)
