"""evaluate: rows for programs, scores of other programs, and resuming."""

from __future__ import annotations

import dataclasses
import itertools
import json

import pytest
from evaluating import evaluate

from refladder.backends.builtin.backend import Builtin
from refladder.errors import UsageError
from refladder.files.ladder_sets import load_ladders
from refladder.loaders import load_benchmark
from refladder.methods.contract import MethodSettings
from refladder.methods.ladder import ladders_for
from refladder.methods.surface import MEASURES

KEYS = {
    "method", "benchmark", "dimension", "level", "statistic", "value", "low", "high", "contexts", "skipped",
    "unscored", "signature",
}  # fmt: skip
NOT_FINITE = "{path}:1: column 'score' must be a finite number or empty, "
QUICK = ("--resamples", "20")


def test_rows_for_programs(command):
    done = command("evaluate", "demo/story", *QUICK, "--baselines", "all", "--json")
    assert done.code == 0
    assert all(set(row) >= KEYS for row in done.rows)
    methods = ["ladder", "best of the surface measures", *MEASURES]
    assert list(dict.fromkeys(row["method"] for row in done.rows)) == methods
    # every method, 2 dimensions and perhaps their mean, 3 levels, 3 statistics, the ladder's partial correlation
    for level in ("within_context", "pooled", "between_systems"):
        for statistic in ("spearman", "kendall", "pearson"):
            found = [
                row for row in done.rows if (row["level"], row["statistic"]) == (level, statistic)
            ]
            assert {(row["method"], row["dimension"]) for row in found} >= {
                (method, dimension)
                for method in methods
                for dimension in ("coherence", "complexity")
            }
    ladder = next(row for row in done.rows if row["level"] == "within_context")
    assert (ladder["benchmark"], ladder["contexts"], ladder["skipped"], ladder["unscored"]) == (
        "demo/story",
        12,
        0,
        0,
    )
    assert ladder["low"] <= ladder["value"] <= ladder["high"]
    assert ladder["signature"].startswith("ladders:demo/story@")


@pytest.mark.parametrize(
    ("form", "mark"), [("text", "within"), ("markdown", "| --- |"), ("latex", "\\begin{tabular}")]
)
def test_tables_for_people(command, form, mark):
    done = command("evaluate", "demo/dialogue", *QUICK, "--format", form)
    assert done.code == 0
    assert mark in done.out
    assert "best of the" in done.out


def test_a_reference_method(command):
    done = command(
        "evaluate",
        "demo/story",
        *QUICK,
        "--reference",
        "length",
        "--level",
        "within_context",
        "--json",
    )
    assert done.code == 0
    others = [row for row in done.rows if row["method"] != "length"]
    assert (
        any(key not in KEYS and "length" in str(row[key]) for row in others for key in row)
        or "p_value" in others[0]
    )


def scores_file(tmp_path, rows, name="other.jsonl"):
    path = tmp_path / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def rating_means(benchmark):
    return {
        (rating.output_id, rating.dimension): rating.value for rating in benchmark.ratings
    }  # one rater


def test_scores_made_elsewhere(command, tmp_path):
    """Scores in the order of the ratings agree perfectly, and no judge is asked."""
    story = load_benchmark("demo/story")
    gold = rating_means(story)
    rows = [
        {"output_id": o.id, **{d.name: 2 * gold[o.id, d.name] for d in story.dimensions}}
        for o in story.outputs
    ]
    done = command(
        "evaluate", "demo/story", *QUICK, "--scores", scores_file(tmp_path, rows), "--json"
    )
    assert (done.code, done.err) == (0, "")
    found = [row for row in done.rows if row["method"] == "other"]
    values = [
        row["value"] for row in found if row["statistic"] in {"spearman", "kendall", "pearson"}
    ]
    assert len(values) >= 2 * 3 * 3
    assert values == pytest.approx([1.0] * len(values))
    assert {row["signature"] for row in found} == {"file:other.jsonl"}
    # the same by context and system, in CSV, with one column for all dimensions
    csv = tmp_path / "one.csv"
    csv.write_text(
        "context_id,system,score\n"
        + "".join(f"{o.context_id},{o.system},{len(o.text)}\n" for o in story.outputs)
    )
    done = command("evaluate", "demo/story", *QUICK, "--scores", csv, "--json")
    assert done.code == 0
    assert {row["unscored"] for row in done.rows if row["method"] == "one"} == {0}


def test_outputs_without_a_score_are_counted(command, tmp_path):
    story = load_benchmark("demo/story")
    rows = [{"output_id": o.id, "score": len(o.text)} for o in story.outputs]
    rows[0]["score"] = None
    path = scores_file(tmp_path, rows[:-1])
    done = command(
        "evaluate", "demo/story", *QUICK, "--scores", path, "--judge", "builtin", "--json"
    )
    assert done.code == 3
    by_method = {
        row["method"]: row["unscored"] for row in done.rows if row["dimension"] == "coherence"
    }
    assert (by_method["other"], by_method["ladder"], by_method["best of the surface measures"]) == (
        2,
        0,
        0,
    )


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"output_id": "story-01/astr", "score": 1}], "{path}:1: output 'story-01/astr' is not in demo/story; did "),
        ([{"output_id": "story-01/aster", "score": 1}] * 2, "{path}:2: output 'story-01/aster' appears twice"),
        ([{"output_id": "story-01/aster", "score": "x"}], NOT_FINITE),
        ([{"output_id": "story-01/aster", "score": float("nan")}], NOT_FINITE),
        (
            [{"output_id": "story-01/aster", "coherence": 1}],
            "{path}:1: no column for dimension 'complexity' (nor 'score'); columns there: output_id, coherence. Name ",
        ),
        (
            [{"text": "x", "score": 1}],
            "{path}:1: a row must name its output by output_id, or by context_id and system or output; columns ",
        ),
        ([], "{path}: no rows; a row for each output is needed"),
    ],
)  # fmt: skip
def test_scores_that_cannot_be_read(fails, tmp_path, rows, message):
    path = scores_file(tmp_path, rows)
    found = fails(2, "evaluate", "demo/story", "--scores", path)
    assert found.startswith(f"refladder: {message.format(path=path)}")
    endings = (
        "aster'?\n",
        "twice\n",
        "found 'x'\n",
        "found nan\n",
        "with --dimension\n",
        "score\n",
        "is needed\n",
    )
    assert found.endswith(endings)


def test_ratings_that_are_missing_or_not_numbers(fails, tmp_path):
    task = tmp_path / "task.toml"
    task.write_text(
        'task = "story"\n[[dimensions]]\nname = "charm"\ndescription = "How charming it is."\nlow = 1\nhigh = 5\n'
    )
    rows = [
        {"context_id": "a", "context": "An idea.", "system": s, "output": f"Text {s}."}
        for s in ("x", "y")
    ]
    path = scores_file(tmp_path, rows, "own.jsonl")
    own = ("evaluate", "own", "--source", path, "--task-file", task)
    message = fails(2, *own)
    assert "charm" in message
    scores_file(tmp_path, [{**row, "charm": float("nan")} for row in rows], "own.jsonl")
    message = fails(2, *own)
    assert message.startswith(f"refladder: {path}:1: ")
    assert "nan" in message.lower()


def test_a_work_folder_answers_the_second_time(command, tmp_path):
    arguments = ("evaluate", "demo/dialogue", *QUICK, "--work", tmp_path / "work", "--json")
    first = command(*arguments)
    kept = {path.name: path.read_bytes() for path in (tmp_path / "work").iterdir()}
    assert {"build.journal.jsonl", "judgments.jsonl", "run.json"} <= set(kept)
    assert command(*arguments).out == first.out
    text = command("evaluate", "demo/dialogue", *QUICK, "--work", tmp_path / "work")
    assert "420 judgments (420 reused, 0 unparsed)" in text.err  # 84 outputs, 5 rungs
    assert (tmp_path / "work" / "judgments.jsonl").read_bytes() == kept["judgments.jsonl"]


def test_outputs_of_one_context_are_judged_together():
    asked = []

    class Noting(Builtin):
        def read_labels_each(self, prompts, labels):
            asked.extend(prompt.slots["context"] for prompt in prompts)
            return super().read_labels_each(prompts, labels)

    dialogue = load_benchmark("demo/dialogue")
    shuffled = dialogue.outputs[::2] + dialogue.outputs[1::2]
    settings = MethodSettings(ladders="demo/dialogue")
    evaluate(dataclasses.replace(dialogue, outputs=shuffled), judge=Noting(), settings=settings)
    rows = asked[: 5 * len(dialogue.dimensions) * len(dialogue.outputs)]  # the judge check follows
    together = [context for context, _ in itertools.groupby(rows)]
    assert len(together) == len(set(together)) == len(dialogue.contexts)


def test_ladders_that_exist(command, fails):
    done = command("evaluate", "demo/story", *QUICK, "--ladders", "demo/story", "--json")
    assert done.code == 0
    assert "ladders:demo/story@" in done.rows[0]["signature"]
    assert fails(2, "evaluate", "demo/story", "--ladders", "demo/dialogue") == (
        "refladder: the ladders of demo/dialogue are of task 'dialogue', and demo/story is of 'story'; name ladders of "
        "that task with --ladders\n"
    )
    assert fails(2, "evaluate", "demo/story", "--ladders", "demo/story", "--writer", "builtin") == (
        "refladder: --ladders names ladders that exist, and --writer writes new ones; give one of them\n"
    )


def test_ladders_of_another_task_or_another_text():
    story, opened = load_benchmark("demo/story"), load_ladders("demo/story")
    from dataclasses import replace

    other = replace(
        story, contexts=tuple(replace(context, task="dialogue") for context in story.contexts)
    )
    message = "the ladders of demo/story are of task 'story', and demo/story is of 'dialogue'; name ladders of that task"
    with pytest.raises(UsageError, match=message):
        ladders_for(other, story.dimensions, opened)
    other = replace(
        story, contexts=(replace(story.contexts[0], text="Another idea."), *story.contexts[1:])
    )
    message = "context 'story-01' has another text in demo/story than in demo/story; the ladders were written for other"
    with pytest.raises(UsageError, match=message):
        ladders_for(other, story.dimensions, opened)
    bare = replace(opened, contexts={})
    assert ladders_for(story, story.dimensions, bare).contexts == {
        context.id: context for context in story.contexts
    }
