"""Shipped sets by name: general ones for any text, and those of a benchmark without the texts of the benchmark."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from json_lines import read_lines, write_lines

import refladder
from refladder.backends.builtin import Builtin
from refladder.files import ladder_sets
from refladder.files.ladder_sets import find_folder, write_ladder_set
from refladder.loaders import load_benchmark
from refladder.records import Context, Dimension, Ladder, LadderFailure, Recipe, Rung, Shared

TALKS = Path(__file__).parents[1] / "loaders" / "data" / "topicalchat" / "usr"
TOPICAL = f"evaluate topicalchat --source {TALKS} --level pooled --ladders"
RECIPE = Recipe(backend="by hand", prompts=(), sampling=None, version="1")
ENDS = (
    "No.",
    "Yes, I think so.",
    "Yes, because the harbour freezes over and the boats come home by sledge.",
)


def ladder(context, dimension):
    rungs = tuple(Rung(level=level, text=text) for level, text in enumerate(ENDS, start=1))
    return Ladder(
        context_id=context.id, task=context.task, dimension=dimension.name, rungs=rungs, recipe=RECIPE
    )  # fmt: skip


def named(*names):
    return [Dimension(name=name, description=f"How good it is: {name}.") for name in names]


@pytest.fixture(scope="module")
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
    shared = Shared(anchors=tuple(anchor.id for anchor in anchors), seed=0, serves=("dialogue",))
    for name, contexts, dimensions, how in (
        ("general/talk", anchors, named("engagingness", "kindness"), {"shared": shared}),
        ("topicalchat", talks.contexts[:1], named("naturalness", "engagingness"), {}),
    ):
        ladders = [ladder(context, dimension) for context in contexts for dimension in dimensions]
        write_ladder_set(folder / name, dimensions, contexts, ladders, [], **how)
    (folder / "topicalchat" / "contexts.jsonl").unlink()
    monkeypatch.setattr(ladder_sets, "_root", lambda: folder)
    ladder_sets.published_names.cache_clear()
    yield folder
    ladder_sets.published_names.cache_clear()


def changed(path, change):
    """Change each line of a file of records."""
    write_lines(path, map(change, read_lines(path)))


def test_sets_are_listed_and_only_those_with_ratings_are_benchmarks(command):
    ladders, benchmarks = (
        {row["name"]: row["about"] for row in command(f"list {kind} --json").rows}
        for kind in ("ladders", "benchmarks")
    )
    general = (
        "6 ladders of 3 rungs for a request and a reply, open or dialogue: engagingness, kindness"
    )
    assert ladders["general/talk"] == general
    assert ladders["topicalchat"] == (
        "2 ladders of 3 rungs for the texts of the benchmark, which the set lacks, dialogue: naturalness, engagingness"
    )
    assert ladders["demo/dialogue"] == "14 ladders of 5 rungs, dialogue: engagingness"
    assert "demo/story" in benchmarks
    assert "general/talk" not in benchmarks
    assert benchmarks["topicalchat"].startswith("dialogue responses (USR)")


def test_a_general_set_serves_a_benchmark_on_the_dimensions_that_it_has(command):
    asked = []

    class Listening(Builtin):
        fingerprint = "listening/1"

        def read_labels(self, prompts, labels):
            asked.extend(prompt.slots["description"] for prompt in prompts)
            return super().read_labels(prompts, labels)

    done = command(f"{TOPICAL} general/talk --json")
    assert done.code == 0, done.err
    assert {row["dimension"] for row in done.rows} == {"engagingness", "mean"}
    left_out = (
        "topicalchat: no ladders in general/talk on understandability, naturalness, coherence, groundedness, overall; "
        "left out"
    )
    assert f"{left_out}\n" in done.err
    how = {"source": TALKS, "ladders": "general/talk", "judge": Listening(), "store": False}
    evaluation = refladder.evaluate("topicalchat", **how)
    assert {row.dimension for row in evaluation.rows} == {"engagingness", "mean"}
    assert evaluation.limits[0] == left_out
    # the judge is asked in the words of the set
    assert set(asked) == {"How good it is: engagingness."}


def test_the_ladders_of_some_contexts_score_these_and_nothing_counts_as_a_failure(command, talks):
    first, second = (
        sum(output.context_id == context.id for output in talks.outputs)
        for context in talks.contexts
    )
    done = command(f"{TOPICAL} topicalchat --json")
    assert done.code == 0, done.err  # 3 would say that some outputs have no score
    others = f"the others, and their {second} outputs, are left out"
    note = f"topicalchat: 1 of 2 contexts has a ladder in topicalchat; {others}"
    assert done.err.splitlines()[2] == note
    rows = [row for row in done.rows if (row["method"], row["statistic"]) == ("ladder", "spearman")]
    assert {(row["contexts"], row["unscored"]) for row in rows} == {(1, 0)}
    # each output of the first context on two dimensions against three rungs; the check of the judge is known already
    rehearsed = command(f"{TOPICAL} topicalchat --dry-run")
    assert f"{first * 2 * 3} calls" in rehearsed.out
    assert note in rehearsed.err


def test_a_ladder_that_could_not_be_written_still_counts(command, root, talks):
    failure = LadderFailure(
        context_id=talks.contexts[1].id, task="dialogue", dimension="naturalness", level=2, reasons=("x",), recipe=RECIPE,
    )  # fmt: skip
    ladder_sets.write_records(root / "topicalchat" / "failures.jsonl", [failure])
    done = command(f"{TOPICAL} topicalchat")
    assert done.code == 3
    assert "left out" not in done.err.replace("overall; left out", "")


def test_data_of_others_are_refused_by_their_digests(fails, tmp_path):
    text, source = (TALKS / "tc_usr_data.json").read_text(), tmp_path / "tc_usr_data.json"
    source.write_text(text.replace("do you like the sea", "do you like the land"))
    error = fails(2, f"evaluate topicalchat --source {source} --ladders topicalchat")
    assert (
        "topicalchat has no ladder for any context of topicalchat" in error
        or "has another text in" in error
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            "demo/summarization --ladders general/talk",
            "are of task 'open' and 'dialogue', and demo/summarization is of 'summarization'; name ladders",
        ),
        (
            f"topicalchat --source {TALKS} --dimension overall --ladders general/talk",
            "unknown dimension 'overall'",
        ),
        (
            "demo/story --ladders topicalchat",
            "the ladders of topicalchat are of task 'dialogue', and demo/story is of 'story'",
        ),
        ("general/talk", "unknown benchmark or file 'general/talk'"),
    ],
)
def test_what_does_not_go_together_is_refused(fails, words, message):
    assert message in fails(2, f"evaluate {words}")


def test_sets_of_other_contexts_and_of_other_dimensions_are_refused(fails, root):
    (root / "topicalchat" / "context_digests.jsonl").unlink()
    path = root / "topicalchat" / "ladders.jsonl"
    changed(path, lambda line: {**line, "context_id": "nobody"})
    none = (
        "topicalchat has no ladder for any context of {}; the ladders were written for other data"
    )
    assert none.format("topicalchat") in fails(2, f"{TOPICAL} topicalchat")
    text = fails(2, "evaluate demo/dialogue --ladders topicalchat")
    assert none.format("demo/dialogue") in text
    for name, field in (("ladders", "dimension"), ("dimensions", "name")):
        path = root / "general" / "talk" / f"{name}.jsonl"
        changed(path, lambda line, field=field: {**line, field: f"{line[field]} of dogs"})
    other = (
        "no ladders in general/talk on engagingness, but on engagingness of dogs, kindness of dogs"
    )
    assert other in fails(2, "evaluate demo/dialogue --ladders general/talk")


def test_every_command_takes_the_name(command, fails, write_jsonl):
    texts = (*ENDS, "Maybe they do.")
    rows = write_jsonl([{"context": "Do boats come home?", "output": text} for text in texts])
    done = command(f"score {rows} --ladders general/talk")
    assert done.code == 0, done.err
    assert done.rows[0]["kindness_score"] < done.rows[2]["kindness_score"]
    assert done.rows[0]["signature"].startswith("ladders:general/talk@")
    assert "verdict: " in command("certify general/talk").out
    assert "Question 0?" in command("show general/talk").out
    assert "audit, with" in command("audit general/talk").out
    # a criterion that it lacks is refused with its list
    line = f"score {rows} --ladders general/talk --dimension"
    assert fails(2, f"{line} wit") == (
        "refladder: general/talk has no criterion 'wit'. It has: engagingness, kindness. `refladder build TABLE "
        "--task-file TASK.toml --shared 12` makes a set with criteria of yours\n"
    )
    near = "has no criterion 'kindnes'; did you mean 'kindness'? It has: engagingness, kindness."
    assert near in fails(2, f"{line} kindnes")


def test_recorded_judgments_say_which_outputs_are_evaluated(command, write_jsonl):
    """Of 72 outputs of demo/story, 12 were judged, on one of its two dimensions; one answer could not be parsed."""
    lines = [
        {"context_id": output.context_id, "dimension": "coherence", "output": output.id, "rung": rung, "outcome": "win"}
        for output in load_benchmark("demo/story").outputs[:12] for rung in range(1, 6)
    ]  # fmt: skip
    lines[0]["outcome"] = None
    line = f"evaluate demo/story --ladders demo/story --judgments-from {write_jsonl(lines)} --json"
    done = command(line)
    assert done.code == 3
    assert "demo/story: no recorded judgments on complexity; left out\n" in done.err
    some = "demo/story: 12 of 72 outputs have recorded judgments; the others are left out\n"
    assert some in done.err
    ladder_rows = [row for row in done.rows if row["method"] == "ladder"]
    assert {row["unscored"] for row in ladder_rows} == {1}
    assert {row["dimension"] for row in ladder_rows} == {"coherence", "mean"}


def test_judgments_of_score_on_a_part_of_a_benchmark_are_evaluated(command, tmp_path):
    """`export`, some of its rows, `score` on all criteria of the set, `evaluate` on those that the benchmark has."""
    out, part, scored = (tmp_path / f"{name}.jsonl" for name in ("rows", "part", "scored"))
    assert command(f"export topicalchat --source {TALKS} --out {out}").code == 0
    rows = out.read_text().splitlines(keepends=True)
    part.write_text("".join(rows[:2]))
    assert command(f"score {part} --ladders general/talk --out {scored}").code == 0
    done = command(f"{TOPICAL} general/talk --json --judgments-from {scored}.judgments.jsonl")
    assert done.code == 0, done.err
    some = f"topicalchat: 2 of {len(rows)} outputs have recorded judgments; the others are left out"
    assert some in done.err
    assert {row["dimension"] for row in done.rows} == {"engagingness", "mean"}
