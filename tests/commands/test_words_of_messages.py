"""A message names a setting as the user writes it: an option of the command, or a parameter of a call of Python."""

from __future__ import annotations

import json
import logging
import math
import socket
import threading

import pytest

import refladder
from refladder.errors import (
    BackendUnavailableError,
    DataError,
    UsageError,
    column_option,
    either,
    in_call,
    option,
)

STORY = "demo/story"


def test_an_option_is_written_as_the_user_writes_it():
    names = ("both-orders", "dimension", "judge-option", "base-url", "budget")
    on_the_command_line = [
        "--both-orders",
        "--dimension",
        "--judge-option",
        "--base-url",
        "--budget",
    ]
    assert [*map(option, names)] == on_the_command_line
    with in_call({"both-orders": "both_orders", "dimension": "dimensions", "base-url": "base_url"}):
        words = ["both_orders", "dimensions", "--judge-option", "base_url", "--budget"]
        assert [*map(option, names)] == words
        with in_call({"budget": "budget"}):  # such as a judge that is a function and makes a call
            assert (option("budget"), option("both-orders")) == ("budget", "--both-orders")
        assert [*map(option, names)] == words
    assert [*map(option, names)] == on_the_command_line
    assert option("config_file") == "--config-file"


def test_words_that_are_others_in_a_call():
    assert (column_option("context", "NAME"), either("a", "b")) == ("--column context=NAME", "a")
    with in_call({}):
        assert (column_option("context", "my text"), either("a", "b")) == (
            "columns={'context': 'my text'}",
            "b",
        )


def test_a_call_leaves_its_words_when_it_fails():
    with pytest.raises(UsageError, match=r"^judge 'distilled:': must be distilled:FOLDER"):
        refladder.score([], judge="distilled:")
    assert option("both-orders") == "--both-orders"


def test_a_call_in_another_thread_changes_no_words():
    inside, over = threading.Event(), threading.Event()

    def call():
        with in_call({"out": "out"}):
            inside.set()
            over.wait()

    thread = threading.Thread(target=call)
    thread.start()
    try:
        inside.wait()
        assert option("out") == "--out"
    finally:
        over.set()
        thread.join()


ROWS = [{"output_id": "a", "context_id": "story-01", "output": "x", "coherence_score": 0.5}]
BOTH = [  # arguments of the command after SOURCE, those of the call, and the message of each
    (
        ["filter", "--top", "2", "--by", "coherence_score"],
        {"top": 2, "by": "coherence_score"},
        "--top 2.0: a fraction must be more than 0 and at most 1",
        "top 2: a fraction must be more than 0 and at most 1",
    ),
    (
        ["filter"],
        {},
        "nothing to filter by; give --min COLUMN=VALUE, --max COLUMN=VALUE, --top and --by, or --best and --per",
        "nothing to filter by; give min COLUMN=VALUE, max COLUMN=VALUE, top and by, or best and per",
    ),
    (
        ["score", "--ladders", STORY, "--context-id", "c", "--column", "context_id=id"],
        {"ladders": STORY, "context_id": "c", "columns": {"context_id": "id"}},
        "--context-id and --column context_id=... both say the context; give one of them",
        "context_id and columns={'context_id': '...'} both say the context; give one of them",
    ),
    (
        ["calibrate", "--label", "a", "--good", "=yes", "--by", "x"],
        {"label": "a", "good": "=yes", "by": "x"},
        "give what to promise: either --precision or --recall, such as --precision 0.9",
        "give what to promise: either precision or recall, such as precision 0.9",
    ),
    (
        ["pairs", "--margin", "-1"],
        {"margin": -1},
        "--margin -1: a difference of scores, 0 or more, is needed",
        "margin -1: a difference of scores, 0 or more, is needed",
    ),
]


@pytest.mark.parametrize("both", BOTH)
def test_a_message_of_both(fails, write_jsonl, both):
    (name, *options), settings, of_command, of_call = both
    assert fails(2, name, write_jsonl(ROWS), *options) == f"refladder: {of_command}\n"
    with pytest.raises(UsageError) as told:
        getattr(refladder, name)(ROWS, **settings)
    assert str(told.value) == of_call


def test_a_file_without_a_known_ending(fails, tmp_path):
    path = tmp_path / "rows.txt"
    path.write_text("{}\n", "utf-8")
    message = f"{path}: unknown file extension; use .jsonl, .csv or .parquet"
    assert fails(2, "pairs", path, "--margin", "1") == f"refladder: {message}, or give --format\n"
    with pytest.raises(UsageError) as told:  # a call has no such parameter
        refladder.pairs(path, margin=1, out=tmp_path / "out.jsonl")
    assert str(told.value) == message


def test_an_option_of_another_command_stays_one(tmp_path):
    empty = tmp_path / "empty.jsonl"
    empty.touch()
    with pytest.raises(
        DataError, match=r"a judgments file is what `refladder score --judgments` writes$"
    ):
        refladder.rescore(empty)


def test_a_server_is_asked_in_a_thread_with_the_words_of_the_call():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    options = {"base_url": f"http://127.0.0.1:{port}/v1", "attempts": 1}
    with pytest.raises(BackendUnavailableError, match=r"; start the server, or check base_url$"):
        refladder.score(ROWS, ladders=STORY, judge="openai:m", judge_options=options, store=False)


def test_a_note_is_the_same_in_every_file_and_has_the_words_of_a_call_in_its_log(
    command, tmp_path, caplog
):
    """A file does not say whether a command or a call has written it."""
    rules = tmp_path / "rules.jsonl"
    answer = dict(zip(("win", "loss", "tie"), map(math.log, (0.004, 1e-5, 1e-5)), strict=True))
    rules.write_text(json.dumps({"answer": answer}) + "\n", "utf-8")
    row = {"output_id": "a", "context_id": "story-01", "output": "I like trains."}
    source = tmp_path / "rows.jsonl"
    source.write_text(json.dumps(row) + "\n", "utf-8")
    judge = f"scripted:{rules}"
    note = "5 of 5 judgments unparsed: label mass 0.004 is below 0.05 (--least-mass)"
    options = ("--ladders", STORY, "--dimension", "coherence", "--judge", judge, "--any-judge")
    assert command("score", source, *options).rows[0]["coherence_note"] == note
    with caplog.at_level(logging.WARNING, "refladder"):
        scored = refladder.score(
            [row], ladders=STORY, dimensions=["coherence"], judge=judge, any_judge=True
        )
    assert scored[0]["coherence_note"] == note
    assert (
        "  1 x 5 of 5 judgments unparsed: label mass ... is below 0.05 (least_mass)"
        in caplog.messages
    )
