"""Faults of the user's own data are found before a judge is asked, and missing ratings are no faults."""

from __future__ import annotations

import json

import pytest

from refladder.loaders.user_table import load_user_table

TASK = """task = "summarization"

[[dimensions]]
name = "clarity"
description = "Whether the text is clear."
low = 1
high = 5

[[dimensions]]
name = "charm"
description = "Whether the text is charming."
low = 1
high = 5
"""
# Not one word of this file can be opened as a judge: whoever asks it fails with another message.
JUDGE = ("--judge", "scripted:none", "--ladders", "demo/summarization")
ROW = {
    "context_id": "c",
    "context": "Rain fell.",
    "system": "a",
    "output": "It rained.",
    "clarity": 3,
    "charm": 2,
}


@pytest.fixture
def own(tmp_path, write_jsonl):
    """Arguments that evaluate rows."""

    def arguments(*rows, name="own.jsonl"):
        task = tmp_path / "task.toml"
        task.write_text(TASK)
        source = write_jsonl(rows, name)
        return source, (
            "evaluate",
            "own",
            "--source",
            source,
            "--task-file",
            task,
            "--resamples",
            "5",
        )

    return arguments


def test_two_outputs_of_one_system_for_one_context(fails, own):
    source, evaluate = own({**ROW, "output_id": "x"}, {**ROW, "output_id": "y"})
    assert fails(2, *evaluate, *JUDGE) == (
        f"refladder: {source}:2: output 'y' is of system 'a' for context 'c', and so is output 'x' at {source}:1; a "
        "context has one output of each system, give them different system names\n"
    )


def test_outputs_without_systems_are_not_compared_between_systems(fails, own, command):
    rows = [
        {key: value for key, value in ROW.items() if key != "system"} | {"output_id": name}
        for name in "xy"
    ]
    _, evaluate = own(rows[0], {**rows[1], "clarity": 1, "output": "another text"})
    message = (
        "refladder: own: some outputs have no system, and between_systems compares systems; name them in a column "
        "'system'\n"
    )
    assert fails(2, *evaluate, "--methods", "bleu", "--level", "between_systems") == message
    done = command(
        *evaluate, "--methods", "direct-5", "--level", "pooled", "--level", "between_systems"
    )
    assert (
        "own: some outputs have no system, so there is no correlation between systems" in done.err
    )


def test_no_ratings_at_all(fails, own):
    _, evaluate = own({key: value for key, value in ROW.items() if key not in {"clarity", "charm"}})
    assert fails(2, *evaluate, *JUDGE) == (
        "refladder: own: no ladders in demo/summarization on clarity, charm, but on fluency, "
        "relevance; name others\n"
    )


@pytest.mark.parametrize("missing", [None, "", " "])
def test_an_empty_rating_is_missing(own, missing):
    source, evaluate = own(ROW, {**ROW, "system": "b", "clarity": missing})
    benchmark = load_user_table(source, task_file=evaluate[5])
    assert [(rating.output_id, rating.dimension) for rating in benchmark.ratings] == [
        ("c/a", "clarity"),
        ("c/a", "charm"),
        ("c/b", "charm"),
    ]


def test_an_absent_rating_is_missing_wherever_it_is_absent(own):
    bare = {key: value for key, value in ROW.items() if key != "clarity"}
    source, evaluate = own(bare, {**ROW, "system": "b"}, {**bare, "system": "d"})
    benchmark = load_user_table(source, task_file=evaluate[5])
    assert [rating.output_id for rating in benchmark.ratings if rating.dimension == "clarity"] == [
        "c/b"
    ]
    assert len(benchmark.outputs) == 3


def test_outputs_without_a_rating_are_scored_and_not_compared(command, own):
    """Three rated outputs, one not: the correlation is that of the three, and nothing is called unscored."""
    texts = ["It rained.", "Rain.", "Rain fell on the town."]
    rows = [
        {**ROW, "system": str(k), "output": text, "clarity": k + 1} for k, text in enumerate(texts)
    ]
    scores = json.loads(json.dumps(rows))
    unrated = {**ROW, "system": "9", "output": "Sun.", "clarity": ""}
    _, evaluate = own(*rows, unrated)
    shared = ("--dimension", "clarity", "--judge", "builtin", "--writer", "builtin", "--json")
    done = command(*evaluate, *shared)
    assert done.code == 0, done.err
    _, evaluate = own(*scores, name="three.jsonl")
    three = command(*evaluate, *shared)
    of = {
        "method": "length",
        "dimension": "clarity",
        "level": "within_context",
        "statistic": "spearman",
    }

    def figure(found):
        return [(row["value"], row["unscored"]) for row in found.rows if of.items() <= row.items()]

    assert figure(done) == figure(three)


def test_only_the_dimensions_that_are_asked_for_need_a_column(command, fails, own):
    rows = [
        {**ROW, "system": name, "charm": "not rated yet", "clarity": k}
        for k, name in enumerate("ab", start=1)
    ]
    source, evaluate = own(*rows)
    assert fails(2, *evaluate, *JUDGE) == (
        f"refladder: {source}:1: column 'charm': expected a finite number, found 'not rated yet'\n"
    )
    assert command(*evaluate, "--dimension", "clarity", "--json").code == 0
    source, evaluate = own(
        *({key: value for key, value in row.items() if key != "charm"} for row in rows)
    )
    assert "no column 'charm'" in fails(2, *evaluate, *JUDGE)
    assert command(*evaluate, "--dimension", "clarity", "--json").code == 0
    assert (
        command(*evaluate, "--dimension", "clarity", "--column", "charm=pleasing", "--json").code
        == 0
    )


def test_a_dimension_that_the_task_file_has_not(fails, own):
    _, evaluate = own(ROW)
    assert fails(2, *evaluate, "--dimension", "clarty", *JUDGE) == (
        "refladder: unknown dimension 'clarty'; did you mean 'clarity'? Known: charm, clarity\n"
    )
