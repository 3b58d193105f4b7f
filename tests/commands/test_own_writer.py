"""The built-in writer makes ladders for a table of the user's only where it is named."""

from __future__ import annotations

import logging

import pytest

import refladder
from refladder import Dimension, session
from refladder.errors import UsageError
from refladder.jobs.build import STOCK

TASK = """task = "open"
[[dimensions]]
name = "clarity"
description = "Whether a child can follow it."
low = 1
high = 5
"""
CLARITY = Dimension(name="clarity", description="Whether a child can follow it.", low=1, high=5)
ROWS = [
    {"context_id": "tides", "context": "Why does the sea rise?"},
    {"context_id": "rain", "context": "Why rain?"},
]


@pytest.fixture
def own(tmp_path, write_jsonl):
    """The words of `build` for two prompts on one dimension, two rungs each: four texts."""
    (tmp_path / "task.toml").write_text(TASK)
    table = write_jsonl(ROWS, "questions.jsonl")
    return (
        "build",
        table,
        "--task-file",
        tmp_path / "task.toml",
        "--rungs",
        2,
        "--out",
        tmp_path / "set",
    )


def human(tmp_path, *places):
    path = tmp_path / "human.csv"
    lines = [f"{context},clarity,{level},text {level} of {context}\n" for context, level in places]
    path.write_text("context_id,dimension,level,text\n" + "".join(lines))
    return path


@pytest.mark.parametrize("more", [(), ("--dry-run",), ("--shared", 1), ("--certify",)])
def test_a_table_needs_a_writer_and_nothing_is_written(own, tmp_path, fails, more):
    before = sorted(tmp_path.iterdir())
    assert fails(2, *own, *more) == (
        "refladder: no writer is named for the ladders of your table. Name a model with --writer MODEL; give every "
        "rung as a text with --human TABLE; or build nothing, and score with a general set, such as `refladder score "
        "TABLE --ladders general/reply`\n"
    )
    assert sorted(tmp_path.iterdir()) == before


def test_the_builtin_writer_says_what_its_sentences_are(own, command, caplog):
    done = command(*own, "--writer", "builtin")
    assert (done.code, done.err.count(STOCK)) == (0, 1)
    session._warn_once.cache_clear()  # as in a new process
    with caplog.at_level(logging.WARNING, logger="refladder"):
        refladder.build(ROWS, task="open", dimensions=[CLARITY], rungs=2, writer="builtin")
    assert STOCK in caplog.messages


def test_human_texts_are_enough_if_they_are_all_of_them(own, tmp_path, command, fails):
    places = [(context, level) for context in ("tides", "rain") for level in (1, 2)]
    assert "no writer is named" in fails(2, *own, "--human", human(tmp_path, *places[:3]))
    done = command(*own, "--human", human(tmp_path, *places))
    assert (done.code, STOCK in done.err) == (0, False)
    rungs = [
        rung.text
        for each in refladder.load_ladders(tmp_path / "set").ladders.values()
        for rung in each.rungs
    ]
    assert rungs == [f"text {level} of {context}" for context, level in places]


def test_the_call_has_its_own_words():
    with pytest.raises(
        UsageError,
        match=r"no writer is named for the ladders of your table\. Name a model with writer",
    ):
        refladder.build(ROWS, task="open", dimensions=[CLARITY])


def test_a_benchmark_has_the_builtin_baseline(tmp_path, command):
    done = command("build", "demo/story", "--rungs", 2, "--out", tmp_path / "set")
    assert (done.code, STOCK in done.err) == (0, False)
    assert '"writer": "builtin"' in (tmp_path / "set" / "run.json").read_text()
