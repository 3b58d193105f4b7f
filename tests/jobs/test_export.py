"""A benchmark as one table, and back."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace

import pytest

from refladder.errors import DataError
from refladder.jobs.export import export_benchmark
from refladder.loaders import load_benchmark
from refladder.loaders.user_table import load_user_table
from refladder.metaeval.agreement import human_means


def task_file(tmp_path, benchmark):
    path = tmp_path / "task.toml"
    lines = [f"task = {json.dumps(benchmark.contexts[0].task)}"]
    for d in benchmark.dimensions:
        lines += [
            "[[dimensions]]",
            f"name = {json.dumps(d.name)}",
            f"description = {json.dumps(d.description)}",
        ]
        lines += [f"low = {d.low}", f"high = {d.high}"]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("ending", ["jsonl", "csv", "parquet"])
@pytest.mark.parametrize("name", ["demo/story", "demo/dialogue"])
def test_round_trip(command, tmp_path, name, ending):
    if ending == "parquet":
        pytest.importorskip("pyarrow")
    out = tmp_path / f"table.{ending}"
    done = command("export", name, "--out", out)
    assert (done.code, done.out) == (0, "")
    benchmark = load_benchmark(name)
    assert (
        done.err
        == f"{len(benchmark.outputs)} outputs of {len(benchmark.contexts)} contexts in {out}\n"
    )
    again = load_user_table(out, task_file=task_file(tmp_path, benchmark))
    assert [(c.id, c.text, c.background) for c in again.contexts] == [
        (c.id, c.text, c.background) for c in benchmark.contexts
    ]
    assert again.outputs == benchmark.outputs
    assert human_means(again.ratings) == human_means(benchmark.ratings)


def test_evaluated_as_own_it_gives_the_same_figures(command, tmp_path):
    out = tmp_path / "table.csv"
    assert command("export", "demo/story", "--out", out).code == 0
    quick = ("--ladders", "demo/story", "--resamples", "5", "--json")
    task = task_file(tmp_path, load_benchmark("demo/story"))
    direct = command("evaluate", "demo/story", *quick)
    done = command("evaluate", "own", "--source", out, "--task-file", task, *quick)
    assert done.code == 0, done.err
    strip = [{**row, "benchmark": None} for row in direct.rows]
    assert [{**row, "benchmark": None} for row in done.rows] == strip


@pytest.mark.parametrize("ending", ["jsonl", "csv", "parquet"])
def test_references_come_back(tmp_path, ending):
    if ending == "parquet":
        pytest.importorskip("pyarrow")
    story = load_benchmark("demo/story")
    first, *others = story.contexts
    story = replace(story, contexts=(replace(first, references=("One.", "[Two]")), *others))
    export_benchmark(story, story.dimensions, str(tmp_path / f"table.{ending}"))
    again = load_user_table(tmp_path / f"table.{ending}", task_file=task_file(tmp_path, story))
    assert again.contexts == story.contexts


def test_standard_output_and_chosen_dimensions(command):
    done = command("export", "demo/story", "--dimension", "complexity")
    assert done.code == 0
    columns = ["context_id", "context", "background", "system", "output_id", "output", "complexity"]
    assert list(done.rows[0]) == columns
    done = command("export", "demo/story", "--dimension", "complexity", "--out-format", "csv")
    assert next(csv.reader(io.StringIO(done.out))) == columns


def test_the_user_s_own_table(command, tmp_path, write_jsonl):
    """A rating that is missing, ids that are made, and no systems."""
    rows = [
        {"context": "Rain fell.", "output": "It rained.", "output_id": "x", "clarity": ""},
        {
            "context": "He rose.",
            "background": "A baker.",
            "output": "=SUM(1)",
            "output_id": "y",
            "clarity": 2.5,
        },
    ]
    task = tmp_path / "task.toml"
    task.write_text(
        'task = "summarization"\n[[dimensions]]\nname = "clarity"\ndescription = "Clear?"\nlow = 1\nhigh = 5\n'
    )
    source = write_jsonl(rows, "own.jsonl")
    out = tmp_path / "again.jsonl"
    done = command("export", "own", "--source", source, "--task-file", task, "--out", out)
    assert done.code == 0, done.err
    first, again = load_user_table(source, task_file=task), load_user_table(out, task_file=task)
    assert again.contexts == first.contexts
    assert again.outputs == first.outputs
    assert again.ratings == first.ratings
    assert "system" not in json.loads(out.read_text().splitlines()[0])


def test_ids_of_the_table_fit_scores(command, write_jsonl):
    rows = [
        {"output_id": row["output_id"], "score": len(row["output"])}
        for row in command("export", "demo/story").rows
    ]
    path = write_jsonl(rows, "mine.jsonl")
    done = command("evaluate", "demo/story", "--scores", path, "--resamples", "5", "--json")
    assert done.code == 0
    assert {row["unscored"] for row in done.rows if row["method"] == "mine"} == {0}


def test_the_source_is_not_overwritten(fails, tmp_path, write_jsonl):
    task = tmp_path / "task.toml"
    task.write_text(
        'task = "open"\n[[dimensions]]\nname = "a"\ndescription = "b"\nlow = 1\nhigh = 5\n'
    )
    source = write_jsonl([{"context": "c", "system": "s", "output": "o", "a": 2}])
    assert fails(2, "export", "own", "--source", source, "--task-file", task, "--out", source) == (
        f"refladder: {source}: --source and --out must be different files\n"
    )


def test_a_dimension_called_like_a_column(tmp_path):
    story = load_benchmark("demo/story")
    dimension = replace(story.dimensions[0], name="system")
    message = "demo/story: dimension 'system' has the name of a column that every table has; export the others"
    with pytest.raises(DataError, match=message):
        export_benchmark(story, [dimension], str(tmp_path / "t.csv"))
