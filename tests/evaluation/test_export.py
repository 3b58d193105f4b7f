"""A benchmark as one table, and back."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace

import pytest

from refladder.errors import DataError
from refladder.evaluation.export import export_benchmark
from refladder.loaders import load_benchmark
from refladder.loaders.user_table import load_user_table
from refladder.statistics.agreement import human_means

STORY = load_benchmark("demo/story")


@pytest.fixture
def task_file(tmp_path):
    """Write the task file of a benchmark."""

    def write(benchmark):
        lines = [f"task = {json.dumps(benchmark.contexts[0].task)}"]
        for d in benchmark.dimensions:
            words = {"name": d.name, "description": d.description, "low": d.low, "high": d.high}
            lines.append("[[dimensions]]")
            lines += [f"{key} = {json.dumps(value)}" for key, value in words.items()]
        (tmp_path / "task.toml").write_text("\n".join(lines) + "\n")
        return tmp_path / "task.toml"

    return write


@pytest.mark.parametrize("ending", ["jsonl", "csv", "parquet"])
@pytest.mark.parametrize("name", ["demo/story", "demo/dialogue"])
def test_round_trip(command, task_file, tmp_path, name, ending):
    out, benchmark = tmp_path / f"table.{ending}", load_benchmark(name)
    done = command(f"export {name} --out {out}")
    assert (done.code, done.out) == (0, "")
    counts = f"{len(benchmark.outputs)} outputs of {len(benchmark.contexts)} contexts"
    assert done.err == f"{counts} in {out}\n"
    again = load_user_table(out, task_file=task_file(benchmark))
    texts = [[(c.id, c.text, c.background) for c in read.contexts] for read in (again, benchmark)]
    assert texts[0] == texts[1]
    assert again.outputs == benchmark.outputs
    assert human_means(again.ratings) == human_means(benchmark.ratings)


@pytest.mark.parametrize("ending", ["jsonl", "csv", "parquet"])
def test_references_come_back(task_file, tmp_path, ending):
    first, *others = STORY.contexts
    story = replace(STORY, contexts=(replace(first, references=("One.", "[Two]")), *others))
    export_benchmark(story, story.dimensions, f"{tmp_path}/table.{ending}")
    again = load_user_table(tmp_path / f"table.{ending}", task_file=task_file(story))
    assert again.contexts == story.contexts


def test_evaluated_as_own_it_gives_the_same_figures(command, task_file, write_jsonl, tmp_path):
    out = tmp_path / "table.csv"
    assert command(f"export demo/story --out {out}").code == 0
    quick = "--ladders demo/story --resamples 5 --json"
    direct = command(f"evaluate demo/story {quick}")
    done = command(f"evaluate table --source {out} --task-file {task_file(STORY)} {quick}")
    assert done.code == 0, done.err
    figures = [[{**row, "benchmark": None} for row in each.rows] for each in (direct, done)]
    assert figures[0] == figures[1]
    # its ids fit scores of the benchmark
    outputs = load_user_table(out, task_file=task_file(STORY)).outputs
    ids = [{"output_id": output.id, "score": len(output.text)} for output in outputs]
    done = command(f"evaluate demo/story --scores {write_jsonl(ids, 'mine.jsonl')} {quick}")
    assert {row["unscored"] for row in done.rows if row["method"] == "mine"} == {0}


def test_standard_output_and_chosen_dimensions(command):
    line = "export demo/story --dimension complexity"
    done = command(line)
    assert done.code == 0
    columns = ["context_id", "context", "background", "system", "output_id", "output", "complexity"]
    assert list(done.rows[0]) == columns
    printed = command(f"{line} --out-format csv").out
    assert next(csv.reader(io.StringIO(printed))) == columns


def test_the_user_s_own_table(command, tmp_path, write_jsonl):
    """A rating that is missing, ids that are made, and no systems."""
    rows = [
        {"context": "Rain fell.", "output": "It rained.", "output_id": "x", "clarity": ""},
        {"context": "He rose.", "background": "A baker.", "output": "=SUM(1)", "output_id": "y", "clarity": 2.5},
    ]  # fmt: skip
    task, source, out = (
        tmp_path / "task.toml",
        write_jsonl(rows, "own.jsonl"),
        tmp_path / "again.jsonl",
    )
    clarity = 'name = "clarity"\ndescription = "Clear?"\nlow = 1\nhigh = 5\n'
    task.write_text(f'task = "summarization"\n[[dimensions]]\n{clarity}')
    done = command(f"export table --source {source} --task-file {task} --out {out}")
    assert done.code == 0, done.err
    first, again = (load_user_table(path, task_file=task) for path in (source, out))
    assert again.contexts == first.contexts
    assert again.outputs == first.outputs
    assert again.ratings == first.ratings
    assert "system" not in json.loads(out.read_text().splitlines()[0])


def test_a_dimension_called_like_a_column(tmp_path):
    dimension = replace(STORY.dimensions[0], name="system")
    message = "demo/story: dimension 'system' has the name of a column that every table has; export the others"
    with pytest.raises(DataError, match=message):
        export_benchmark(STORY, [dimension], str(tmp_path / "t.csv"))
