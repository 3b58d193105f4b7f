"""Shipped sets by name: general ones for any text, and those of a benchmark without the texts of the benchmark."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import refladder
from refladder.backends.builtin import Builtin
from refladder.files import ladder_sets
from refladder.files.ladder_sets import find_folder, write_ladder_set
from refladder.loaders import load_benchmark
from refladder.records import Context, Dimension, Ladder, LadderFailure, Recipe, Rung, Shared

TALKS = Path(__file__).parents[1] / "loaders" / "data" / "topicalchat" / "usr"
RECIPE = Recipe(backend="by hand", prompts=(), sampling=None, version="1")
ENDS = (
    "No.",
    "Yes, I think so.",
    "Yes, because the harbour freezes over and the boats come home by sledge.",
)


def ladder(context, dimension):
    rungs = tuple(Rung(level=level, text=text) for level, text in enumerate(ENDS, start=1))
    return Ladder(
        context_id=context.id,
        task=context.task,
        dimension=dimension.name,
        rungs=rungs,
        recipe=RECIPE,
    )


def named(*names):
    return [Dimension(name=name, description=f"How good it is: {name}.") for name in names]


@pytest.fixture
def talks():
    return load_benchmark("topicalchat", TALKS)


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch, talks):
    """Beside the demo sets: `general/talk`, and `topicalchat` with the ladders of one of its two contexts."""
    folder = tmp_path / "published"
    folder.mkdir()
    shutil.copytree(find_folder("demo/story").parent, folder / "demo")
    anchors = [
        Context(id=f"a{number}", task="open", text=f"Question {number}?") for number in range(3)
    ]
    dimensions = named("engagingness", "kindness")
    ladders = [ladder(anchor, dimension) for anchor in anchors for dimension in dimensions]
    shared = Shared(anchors=tuple(anchor.id for anchor in anchors), seed=0, serves=("dialogue",))
    write_ladder_set(folder / "general" / "talk", dimensions, anchors, ladders, [], shared=shared)
    dimensions = named("naturalness", "engagingness")
    first = talks.contexts[:1]
    write_ladder_set(
        folder / "topicalchat",
        dimensions,
        first,
        [ladder(first[0], each) for each in dimensions],
        [],
    )
    (folder / "topicalchat" / "contexts.jsonl").unlink()
    monkeypatch.setattr(ladder_sets, "_root", lambda: folder)
    ladder_sets.published_names.cache_clear()
    yield folder
    ladder_sets.published_names.cache_clear()


def listed(command, kind):
    return {row["name"]: row["about"] for row in command("list", kind, "--json").rows}


def test_sets_are_listed_and_only_those_with_ratings_are_benchmarks(command):
    about = listed(command, "ladders")
    assert (
        about["general/talk"]
        == "6 ladders of 3 rungs for any text, open or dialogue: engagingness, kindness"
    )
    assert about["topicalchat"] == (
        "2 ladders of 3 rungs for the texts of the benchmark, which the set lacks, dialogue: naturalness, engagingness"
    )
    assert about["demo/dialogue"] == "14 ladders of 5 rungs, dialogue: engagingness"
    benchmarks = listed(command, "benchmarks")
    assert "demo/story" in benchmarks
    assert "general/talk" not in benchmarks
    assert benchmarks["topicalchat"].startswith("dialogue responses (USR)")


def test_a_general_set_serves_a_benchmark_on_the_dimensions_that_it_has(command):
    done = command(
        "evaluate",
        "topicalchat",
        "--source",
        TALKS,
        "--ladders",
        "general/talk",
        "--level",
        "pooled",
        "--json",
    )
    assert done.code == 0, done.err
    assert {row["dimension"] for row in done.rows} == {"engagingness", "mean"}
    assert (
        "topicalchat: no ladders in general/talk on understandability, naturalness, coherence, groundedness, overall; "
        "left out\n"
    ) in done.err
    evaluation = refladder.evaluate("topicalchat", source=TALKS, ladders="general/talk")
    assert {row.dimension for row in evaluation.rows} == {"engagingness", "mean"}
    assert evaluation.limits[0].endswith("groundedness, overall; left out")


def test_the_ladders_of_some_contexts_score_these_and_nothing_counts_as_a_failure(command, talks):
    first, second = (
        sum(output.context_id == context.id for output in talks.outputs)
        for context in talks.contexts
    )
    asked = (
        "evaluate",
        "topicalchat",
        "--source",
        TALKS,
        "--ladders",
        "topicalchat",
        "--level",
        "pooled",
        "--json",
    )
    done = command(*asked)
    assert done.code == 0, done.err  # 3 would say that some outputs have no score
    (_, note) = done.err.splitlines()[1:3]
    others = f"the others, and their {second} outputs, are left out"
    assert note == f"topicalchat: 1 of 2 contexts has a ladder in topicalchat; {others}"
    rows = [
        row for row in done.rows if row["method"] == "ladder" and row["statistic"] == "spearman"
    ]
    assert {(row["contexts"], row["unscored"]) for row in rows} == {(1, 0)}
    # each output of the first context on two dimensions against three rungs; the check of the judge is known already
    rehearsed = command(*asked[:-1], "--dry-run")
    assert f"{first * 2 * 3} calls" in rehearsed.out
    assert note in rehearsed.err


def test_a_ladder_that_could_not_be_written_still_counts(command, root, talks):
    failures = [
        LadderFailure(
            context_id=talks.contexts[1].id, task="dialogue", dimension="naturalness", level=2, reasons=("x",),
            recipe=RECIPE,
        )
    ]  # fmt: skip
    ladder_sets.write_records(root / "topicalchat" / "failures.jsonl", failures)
    done = command(
        "evaluate",
        "topicalchat",
        "--source",
        TALKS,
        "--ladders",
        "topicalchat",
        "--level",
        "pooled",
    )
    assert done.code == 3
    assert "left out" not in done.err.replace("overall; left out", "")


def test_data_of_others_are_refused_by_their_digests(fails, tmp_path):
    text = (TALKS / "tc_usr_data.json").read_text()
    (tmp_path / "tc_usr_data.json").write_text(
        text.replace("do you like the sea", "do you like the land")
    )
    source = tmp_path / "tc_usr_data.json"
    error = fails(2, "evaluate", "topicalchat", "--source", source, "--ladders", "topicalchat")
    assert (
        "topicalchat has no ladder for any context of topicalchat" in error
        or "has another text in" in error
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("evaluate", "demo/summarization", "--ladders", "general/talk"),
            "are of task 'open' and 'dialogue', and demo/summarization is of 'summarization'; name ladders",
        ),
        (
            ("evaluate", "topicalchat", "--source", TALKS, "--dimension", "overall", "--ladders", "general/talk"),
            "unknown dimension 'overall'",
        ),
        (
            ("evaluate", "demo/story", "--ladders", "topicalchat"),
            "the ladders of topicalchat are of task 'dialogue', and demo/story is of 'story'",
        ),
        (
            ("evaluate", "general/talk"),
            "unknown benchmark or file 'general/talk'",
        ),
    ],
)  # fmt: skip
def test_what_does_not_go_together_is_refused(fails, words, message):
    assert message in fails(2, *words)


def test_sets_of_other_contexts_and_of_other_dimensions_are_refused(fails, root):
    (root / "topicalchat" / "context_digests.jsonl").unlink()
    path = root / "topicalchat" / "ladders.jsonl"
    lines = [json.loads(line) | {"context_id": "nobody"} for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    error = fails(2, "evaluate", "topicalchat", "--source", TALKS, "--ladders", "topicalchat")
    assert (
        "topicalchat has no ladder for any context of topicalchat; the ladders were written for other data"
        in error
    )
    error = fails(2, "evaluate", "demo/dialogue", "--ladders", "topicalchat")
    assert "has no ladder for any context of demo/dialogue" in error


def test_a_set_without_a_dimension_of_the_benchmark_is_refused(fails, root):
    for name, field in (("ladders", "dimension"), ("dimensions", "name")):
        path = root / "general" / "talk" / f"{name}.jsonl"
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        for line in lines:
            line[field] = f"{line[field]} of dogs"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    error = fails(2, "evaluate", "demo/dialogue", "--ladders", "general/talk")
    assert (
        "demo/dialogue: no ladders in general/talk on engagingness, but on engagingness of dogs, kindness of dogs"
        in error
    )


def test_every_command_takes_the_name(command, write_jsonl, tmp_path):
    rows = write_jsonl(
        [{"context": "Do boats come home?", "output": text} for text in (*ENDS, "Maybe they do.")]
    )
    done = command("score", rows, "--ladders", "general/talk", "--out", tmp_path / "out.jsonl")
    assert done.code == 0, done.err
    scored = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert scored[0]["kindness_score"] < scored[2]["kindness_score"]
    assert scored[0]["signature"].startswith("ladders:general/talk@")
    assert "verdict: " in command("certify", "general/talk").out
    assert "Question 0?" in command("show", "general/talk").out
    assert "audit, with" in command("audit", "general/talk").out


def test_a_criterion_that_a_general_set_lacks_is_refused_with_its_list(fails, write_jsonl):
    rows = write_jsonl([{"context": "Do boats come home?", "output": "Yes."}])
    error = fails(2, "score", rows, "--ladders", "general/talk", "--dimension", "wit")
    assert error == (
        "refladder: general/talk has no criterion 'wit'. It has: engagingness, kindness. `refladder build TABLE "
        "--task-file TASK.toml --shared 12` makes a set with criteria of yours\n"
    )
    error = fails(2, "score", rows, "--ladders", "general/talk", "--dimension", "kindnes")
    assert (
        "has no criterion 'kindnes'; did you mean 'kindness'? It has: engagingness, kindness."
        in error
    )


def test_recorded_judgments_say_which_outputs_are_evaluated(command, tmp_path):
    """Of 72 outputs of demo/story, 12 were judged, on one of its two dimensions; one answer could not be parsed."""
    story = load_benchmark("demo/story")
    lines = [
        {
            "context_id": output.context_id,
            "dimension": "coherence",
            "output": output.id,
            "rung": rung,
            "outcome": "win",
        }
        for output in story.outputs[:12]
        for rung in range(1, 6)
    ]
    lines[0]["outcome"] = None
    path = tmp_path / "judged.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    done = command(
        "evaluate", "demo/story", "--ladders", "demo/story", "--judgments-from", path, "--json"
    )
    assert done.code == 3
    assert "demo/story: no recorded judgments on complexity; left out\n" in done.err
    assert (
        "demo/story: 12 of 72 outputs have recorded judgments; the others are left out\n"
        in done.err
    )
    ladder_rows = [row for row in done.rows if row["method"] == "ladder"]
    assert {row["unscored"] for row in ladder_rows} == {1}
    assert {row["dimension"] for row in ladder_rows} == {"coherence", "mean"}


def test_judgments_of_score_on_a_part_of_a_benchmark_are_evaluated(command, tmp_path):
    """`export`, some of its rows, `score` on all criteria of the set, `evaluate` on those that the benchmark has."""
    out, part = tmp_path / "rows.jsonl", tmp_path / "part.jsonl"
    assert command("export", "topicalchat", "--source", TALKS, "--out", out).code == 0
    rows = out.read_text().splitlines(keepends=True)
    part.write_text("".join(rows[:2]))
    scored = tmp_path / "scored.jsonl"
    assert command("score", part, "--ladders", "general/talk", "--out", scored).code == 0
    done = command(
        "evaluate", "topicalchat", "--source", TALKS, "--ladders", "general/talk", "--level", "pooled", "--json",
        "--judgments-from", f"{scored}.judgments.jsonl",
    )  # fmt: skip
    assert done.code == 0, done.err
    assert (
        f"topicalchat: 2 of {len(rows)} outputs have recorded judgments; the others are left out"
        in done.err
    )
    assert {row["dimension"] for row in done.rows} == {"engagingness", "mean"}


def test_the_judge_is_asked_in_the_words_of_a_general_set():
    asked = []

    class Listening(Builtin):
        fingerprint = "listening/1"

        def read_labels(self, prompts, labels):
            asked.extend(prompt.slots["description"] for prompt in prompts)
            return super().read_labels(prompts, labels)

    refladder.evaluate(
        "topicalchat", source=TALKS, ladders="general/talk", judge=Listening(), store=False
    )
    assert set(asked) == {"How good it is: engagingness."}
