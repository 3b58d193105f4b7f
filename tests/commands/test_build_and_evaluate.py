"""refladder.build and refladder.evaluate, against what the commands give; and one table from start to end."""

from __future__ import annotations

import json

import pytest

import refladder
from refladder.errors import DataError, UsageError

pl = pytest.importorskip("polars")
pd = pytest.importorskip("pandas")
datasets = pytest.importorskip("datasets")

TASK = """task = "open"

[[dimensions]]
name = "clarity"
description = "Whether the text can be followed. The worst leaves the reader lost; the best is clear at once."
low = 1
high = 5
"""
CLARITY = refladder.Dimension(
    name="clarity",
    description="Whether the text can be followed. The worst leaves the reader lost; the best is clear at once.",
    low=1.0,
    high=5.0,
)
RAIN, TIDES = "Explain why it rains.", "Explain the tides to a child."
ROWS = [
    {
        "context": RAIN,
        "output": "Warm air rises and cools. Its water becomes drops, and they fall.",
        "clarity": 5,
    },
    {"context": RAIN, "output": "rain rain is is water", "clarity": 1},
    {"context": RAIN, "output": "Rain is water. It falls from the clouds.", "clarity": 3},
    {
        "context": TIDES,
        "output": "The moon pulls the sea towards it, so the water rises twice a day.",
        "clarity": 4,
    },
    {"context": TIDES, "output": "sea up, sea down", "clarity": 2},
]
QUICK = refladder.Protocol(resamples=20)
FILES = ("ladders.jsonl", "contexts.jsonl", "context_digests.jsonl", "dimensions.jsonl")


@pytest.fixture
def table(tmp_path):
    (tmp_path / "task.toml").write_text(TASK)
    path = tmp_path / "table.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return path


def figures(rows):
    return [
        (row.method, row.dimension, row.level, row.statistic, row.value, row.low, row.high)
        for row in rows
    ]


def printed(done):
    names = ("method", "dimension", "level", "statistic", "value", "low", "high")
    return [tuple(row[name] for name in names) for row in done.rows if "kind" not in row]


def test_build_writes_what_the_command_writes(table, tmp_path, command):
    command(
        *("build", "own", "--source", table, "--task-file", tmp_path / "task.toml", "--rungs", 3),
        *("--writer", "builtin", "--out", tmp_path / "typed"),
    )
    kinds = [
        str(table),
        ROWS,
        pl.DataFrame(ROWS),
        pd.DataFrame(ROWS),
        datasets.Dataset.from_list(ROWS),
    ]
    for number, data in enumerate(kinds):
        folder = tmp_path / f"called{number}"
        ladders = refladder.build(
            data, task_file=tmp_path / "task.toml", writer="builtin", rungs=3, out=folder
        )
        assert (ladders.name, ladders.rungs, len(ladders.ladders)) == (f"called{number}", 3, 2)
        for name in FILES:
            assert (folder / name).read_bytes() == (tmp_path / "typed" / name).read_bytes()
    in_memory = refladder.build(ROWS, task="open", dimensions=[CLARITY], writer="builtin", rungs=3)
    assert (in_memory.digest, in_memory.name) == (ladders.digest, "ladders")


def test_a_path_is_own_with_that_source(table, tmp_path, command):
    task = ("--task-file", tmp_path / "task.toml")
    given = [(table,), ("own", "--source", table)]
    for number, words in enumerate(given):
        assert (
            command(
                "build",
                *words,
                *task,
                "--writer",
                "builtin",
                "--rungs",
                3,
                "--out",
                tmp_path / f"set{number}",
            ).code
            == 0
        )
        for name in FILES:
            assert (tmp_path / f"set{number}" / name).read_bytes() == (
                tmp_path / "set0" / name
            ).read_bytes()
    judged = ("--ladders", tmp_path / "set0", "--json", "--resamples", 20)
    path, own = (
        [{**row, "seconds": 0} for row in command("evaluate", *words, *task, *judged).rows]
        for words in given
    )
    assert path == own != []
    task_file = tmp_path / "task.toml"
    digests = {refladder.load_ladders(tmp_path / "set0").digest}
    digests.add(refladder.build(table, task_file=task_file, writer="builtin", rungs=3).digest)
    digests.add(
        refladder.build("own", source=table, task_file=task_file, writer="builtin", rungs=3).digest
    )
    assert len(digests) == 1
    with pytest.raises(
        UsageError, match=r"table.jsonl is a table, and source x is another; give one of them"
    ):
        refladder.build(table, source="x", task_file=task_file)
    assert (
        command("export", table, *task).out
        == command("export", "own", "--source", table, *task).out
        != ""
    )


def test_build_of_a_benchmark(tmp_path, command):
    command("build", "demo/story", "--dimension", "coherence", "--out", tmp_path / "typed")
    called = refladder.build("demo/story", dimensions=["coherence"])
    assert called.digest == refladder.load_ladders(tmp_path / "typed").digest
    assert (
        called.digest
        == refladder.build(refladder.load_benchmark("demo/story"), dimensions=["coherence"]).digest
    )


def test_one_table_goes_from_start_to_end_without_ids(table, tmp_path, command):
    """The table of the user, in Python and in the shell."""
    frame = pl.DataFrame(ROWS)
    ladders = refladder.build(
        frame, task="open", dimensions=[CLARITY], writer="builtin", out=tmp_path / "ladders"
    )
    scored = refladder.score(frame, ladders=ladders)
    best = refladder.filter(scored, top=0.4, by="clarity_score")
    evaluation = refladder.evaluate(frame, ladders=ladders, protocol=QUICK)
    assert (len(best), scored["clarity_score"].null_count()) == (2, 0)
    typed = command("score", table, "--ladders", tmp_path / "ladders")
    assert scored["clarity_score"].to_list() == [row["clarity_score"] for row in typed.rows]
    out = tmp_path / "scored.jsonl"
    out.write_text(typed.out)
    own = (
        "evaluate",
        "own",
        "--source",
        table,
        "--task-file",
        tmp_path / "task.toml",
        "--resamples",
        20,
    )
    told = command(
        *own,
        "--ladders",
        tmp_path / "ladders",
        "--json",
        "--level",
        "within_context",
        "--statistic",
        "spearman",
    )
    assert figures(evaluation.rows) == printed(told)
    # The ids of the outputs are those of `score`, so the scored table is evaluated by its texts too.
    read = refladder.evaluate(
        str(table), task_file=tmp_path / "task.toml", scores=[out], protocol=QUICK
    )
    assert figures(read.rows)[0][1:] == figures(evaluation.rows)[0][1:]


def test_evaluate_of_a_benchmark_in_one_line(command):
    called = refladder.evaluate(
        "demo/story", ladders="demo/story", methods="ladder,direct-5", protocol=QUICK
    )
    told = command(
        *(
            "evaluate",
            "demo/story",
            "--ladders",
            "demo/story",
            "--methods",
            "ladder,direct-5",
            "--resamples",
            20,
        ),
        *("--json", "--level", "within_context", "--statistic", "spearman"),
    )
    assert figures(called.rows) == printed(told)
    assert called.complete


def test_a_set_without_its_texts_scores_a_table_that_brings_them(tmp_path):
    ladders = refladder.build(
        ROWS, task="open", dimensions=[CLARITY], writer="builtin", out=tmp_path / "ladders"
    )
    whole = refladder.score(ROWS, ladders=ladders)
    (tmp_path / "ladders" / "contexts.jsonl").unlink()
    without = refladder.load_ladders(tmp_path / "ladders")
    scored = refladder.score(ROWS, ladders=without)
    assert scored == whole
    (name, *_) = without.digests
    changed = refladder.score(
        [{"context_id": name, "context": "Another.", "output": "a b"}], ladders=without
    )
    assert changed[0]["clarity_score"] is None
    assert changed[0]["clarity_note"].endswith(
        "another text or background in this row than the ladder set ladders was written for"
    )
    other = [{**row, "context_id": name, "context": "Another."} for row in ROWS]
    with pytest.raises(
        UsageError, match=f"context '{name}' has another text in ladders than in own"
    ):
        refladder.evaluate(other, ladders=without, protocol=QUICK)


def test_work_makes_evaluate_resumable(tmp_path):
    first = refladder.evaluate(
        ROWS, task="open", dimensions=[CLARITY], work=tmp_path / "work", protocol=QUICK
    )
    assert (tmp_path / "work" / "judgments.jsonl").exists()
    again = refladder.evaluate(
        ROWS, task="open", dimensions=[CLARITY], work=tmp_path / "work", protocol=QUICK
    )
    assert figures(again.rows) == figures(first.rows)
    options = json.loads((tmp_path / "work" / "run.json").read_text())["options"]
    assert (options["task"], options["dimensions"][0]["name"]) == ("open", "clarity")
    assert again.runs[0].result.report.reused == again.runs[0].result.report.judgments > 0


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: refladder.build(ROWS),
            UsageError,
            r"a table needs its task and dimensions; give task_file=PATH, or task=NAME with dimensions=\[refladder",
        ),
        (lambda: refladder.evaluate("none.jsonl"), DataError, "^none.jsonl: no such file$"),
        (
            lambda: refladder.evaluate("demo/stori"),
            UsageError,
            "unknown benchmark or file 'demo/stori'; did you mean 'demo/story'",
        ),
        (
            lambda: refladder.build(ROWS, task="open"),
            UsageError,
            r"task=NAME needs dimensions=\[refladder.Dimension",
        ),
        (
            lambda: refladder.build(ROWS, task="open", task_file="x.toml"),
            UsageError,
            "task and task_file both name the task; give one of them",
        ),
        (
            lambda: refladder.build(ROWS, task="open", dimensions=[CLARITY, CLARITY]),
            UsageError,
            "dimension 'clarity' has the name of another dimension or field",
        ),
        (
            lambda: refladder.build([{"text": "a"}], task="open", dimensions=[CLARITY]),
            DataError,
            r"row 1: no column 'context'; did you mean 'text'\? It has: text; map the field 'context'",
        ),
        (
            lambda: refladder.build("demo/story", columns={"context": "x"}),
            UsageError,
            "task, task_file and columns are for a table, not a benchmark; leave them out",
        ),
        (
            lambda: refladder.build(ROWS, task="open", dimensions=[CLARITY], source="x"),
            UsageError,
            "source and options are for a benchmark by name, not a table; leave them out",
        ),
        (
            lambda: refladder.evaluate(ROWS, ladders="demo/story", writer="builtin"),
            UsageError,
            "ladders are a set that exists, and writer writes new ones; give one of them",
        ),
        (
            lambda: refladder.evaluate(
                [{"context": "a", "output": "b"}], task="open", dimensions=[CLARITY]
            ),
            UsageError,
            "own has no ratings on clarity; add ratings, or choose other dimensions",
        ),
    ],
)
def test_wrong_calls(call, error, message):
    with pytest.raises(error, match=message):
        call()
