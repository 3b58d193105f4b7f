"""Calls use their own words in messages, log what commands print, and keep answers in a store."""

from __future__ import annotations

import logging
import math
import socket
import threading

import pytest
from json_lines import read_lines, write_lines

import refladder
from refladder import session
from refladder.backends.cache.store import SqliteStore
from refladder.display import log
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
ROWS = [{"output_id": "a", "context_id": "story-01", "output": "A keeper wept."}]
SCORED = [{**ROWS[0], "coherence_score": 0.5}]


def test_an_option_is_written_as_the_user_writes_it():
    names = ("both-orders", "dimension", "judge-option", "base-url")
    flags = [f"--{name}" for name in names]
    assert [*map(option, names)] == flags
    with in_call({"both-orders": "both_orders", "dimension": "dimensions", "base-url": "base_url"}):
        words = ["both_orders", "dimensions", "--judge-option", "base_url"]
        assert [*map(option, names)] == words
        with in_call({"budget": "budget"}):  # such as a judge that is a function and makes a call
            assert (option("budget"), option("both-orders")) == ("budget", "--both-orders")
        assert [*map(option, names)] == words
        assert column_option("context", "my text") == "columns={'context': 'my text'}"
        assert either("a", "b") == "b"
    assert [*map(option, names)] == flags
    assert option("config_file") == "--config-file"
    assert column_option("context", "NAME") == "--column context=NAME"
    assert either("a", "b") == "a"


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


# The command without its SOURCE, the arguments of the call, and the message of each.
BOTH = [
    (
        "filter --top 2 --by coherence_score",
        {"top": 2, "by": "coherence_score"},
        "--top 2.0: a fraction must be more than 0 and at most 1; give 0.02 for 2 %",
        "top 2: a fraction must be more than 0 and at most 1; give 0.02 for 2 %",
    ),
    (
        "filter",
        {},
        "nothing to filter by; give --min COLUMN=VALUE, --max COLUMN=VALUE, --top, or --best and --per",
        "nothing to filter by; give min COLUMN=VALUE, max COLUMN=VALUE, top, or best and per",
    ),
    (
        "calibrate --label a --good ==yes --by x",
        {"label": "a", "good": "=yes", "by": "x"},
        "give what to promise: either --precision or --recall, such as --precision 0.9",
        "give what to promise: either precision or recall, such as precision 0.9",
    ),
    (
        "pairs --margin -1",
        {"margin": -1},
        "--margin -1: a difference of scores, 0 or more, is needed",
        "margin -1: a difference of scores, 0 or more, is needed",
    ),
]


@pytest.mark.parametrize("both", BOTH, ids=lambda both: both[0])
def test_a_message_of_both(fails, write_jsonl, both):
    line, arguments, of_command, of_call = both
    assert fails(2, line, write_jsonl(SCORED)) == f"refladder: {of_command}\n"
    with pytest.raises(UsageError) as told:
        getattr(refladder, line.split()[0])(SCORED, **arguments)
    assert str(told.value) == of_call


def test_an_option_of_another_command_stays_one(tmp_path):
    (tmp_path / "empty.jsonl").touch()
    message = r"a judgments file is what `refladder score --judgments` writes$"
    with pytest.raises(DataError, match=message):
        refladder.rescore(tmp_path / "empty.jsonl")


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
    low, sure = (
        dict(zip(("win", "loss", "tie"), map(math.log, shares), strict=True))
        for shares in ((0.004, 1e-5, 1e-5), (0.9, 0.05, 0.05))
    )
    rules = [{"contains": {"target": ROWS[0]["output"]}, "answer": low}, {"answer": sure}]
    judge = f"scripted:{write_lines(tmp_path / 'rules.jsonl', rules)}"
    source = write_lines(tmp_path / "rows.jsonl", ROWS)
    note = "5 of 5 judgments unparsed: label mass 0.004 is below 0.05 (--least-mass)"
    asked = f"--ladders {STORY} --dimension coherence --judge {judge} --any-judge"
    assert command(f"score {source} {asked}").rows[0]["coherence_note"] == note
    with caplog.at_level(logging.WARNING, "refladder"):
        scored = refladder.score(
            ROWS, ladders=STORY, dimensions=["coherence"], judge=judge, any_judge=True
        )
    assert scored[0]["coherence_note"] == note
    words = "  1 x 5 of 5 judgments unparsed: label mass ... is below 0.05 (least_mass)"
    assert words in caplog.messages


def test_what_a_command_counts_is_logged(caplog):
    caplog.set_level(logging.INFO, "refladder")
    rows = [*ROWS, {"context_id": "story-02", "output": ""}]
    scored = refladder.score(rows, ladders=STORY, dimensions=["coherence"])
    assert "2 rows, 1 score missing; 5 judgments (0 reused, 0 unparsed)" in caplog.messages
    assert "  1 x the output is empty" in caplog.messages
    caplog.clear()
    refladder.score(ROWS, ladders=STORY)
    assert not [text for text in caplog.messages if "missing" in text]
    caplog.clear()
    refladder.filter(scored, min={"coherence_score": -99})
    assert caplog.messages == ["1 of 2 rows have no score and were dropped"]


def test_pairs_log_what_was_not_paired(caplog):
    rows = [{**SCORED[0], "context": "Write.", "output": name, "coherence_score": n}
            for n, name in enumerate("abc")]  # fmt: skip
    with caplog.at_level(logging.INFO, logger="refladder"):
        assert refladder.pairs(rows, margin=1000, by="coherence_score") == []
    assert "3 rows of 1 context: 0 pairs by coherence_score" in caplog.text
    assert "over per_context" in caplog.text
    assert "no pair: the largest difference within a context is 2" in caplog.text


def test_a_refused_promise_is_logged_and_filters_nothing(caplog):
    rows = [
        {**SCORED[0], "output_id": f"o{n}", "coherence_score": n, "good": n % 2} for n in range(6)
    ]
    asked = {"label": "good", "good": ">=1", "by": "coherence_score", "precision": 0.99}
    result = refladder.calibrate(rows, **asked)
    assert result.refused
    assert result.threshold.cutoff is None
    words = f"no cut-off can be promised; this could change with {result.labels_needed} more labels"
    assert words in caplog.text
    with pytest.raises(DataError, match="the threshold: no cut-off could be promised from 6 label"):
        refladder.filter(rows, threshold=result.threshold)
    with pytest.raises(
        UsageError, match=r"found an object of type Calibration; give its `\.threshold`"
    ):
        refladder.filter(rows, threshold=result)


def test_labels_are_read_from_one_file_or_several(tmp_path):
    rows = [{**SCORED[0], "output_id": f"o{n}", "coherence_score": n} for n in range(40)]
    for part in (0, 1):
        lines = [f"{row['output_id']},{row['coherence_score'] // 8}\n" for row in rows[part::2]]
        (tmp_path / f"{part}.csv").write_text("output_id,rating\n" + "".join(lines), "utf-8")
    asked = {"label": "rating", "good": ">=2", "by": "coherence_score", "precision": 0.5}
    both = refladder.calibrate(rows, labels=[tmp_path / "0.csv", str(tmp_path / "1.csv")], **asked)
    one = refladder.calibrate(rows, labels=tmp_path / "0.csv", **asked)
    assert (both.threshold.labels, one.threshold.labels) == (40, 20)


def answers_in(path):
    with SqliteStore(path, create=False) as store:
        return store.count()


def test_a_store_keeps_every_answer(tmp_path, monkeypatch):
    monkeypatch.delenv("REFLADDER_STORE", raising=False)
    refladder.score(ROWS, ladders=STORY, store=tmp_path / "given.sqlite")
    # Two ladders of five rungs, and 24 in both orders for the check of the judge.
    assert answers_in(tmp_path / "given.sqlite") == 58
    monkeypatch.setenv("REFLADDER_STORE", str(tmp_path / "named.sqlite"))
    with refladder.Scorer(ladders=STORY, dimensions=["coherence"]) as scorer:
        scorer.score([ROWS[0]["output"]], context_id="story-01")
    assert answers_in(tmp_path / "named.sqlite") == 5
    refladder.score(ROWS, ladders=STORY, store=False)
    assert answers_in(tmp_path / "named.sqlite") == 5


def test_paid_judges_have_a_store_by_default(tmp_path, monkeypatch):
    monkeypatch.delenv("REFLADDER_STORE", raising=False)
    monkeypatch.setattr(session, "default_store", lambda: tmp_path / "default.sqlite")
    monkeypatch.setattr(session, "COSTLY", ("builtin",))
    refladder.score(ROWS, ladders=STORY)
    assert answers_in(tmp_path / "default.sqlite") == 58


def test_the_notice_of_a_judge_is_logged_once(caplog):
    log.warn_once.cache_clear()
    for _ in range(2):
        refladder.score(ROWS, ladders=STORY)
    (notice,) = caplog.messages
    assert notice.startswith("builtin: a baseline that counts words")


def test_progress_is_drawn_on_a_terminal_only(monkeypatch, capsys):
    refladder.score(ROWS, ladders=STORY)
    assert "scoring" not in capsys.readouterr().err
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    refladder.score(ROWS, ladders=STORY)
    drawn = capsys.readouterr()
    assert "scoring" in drawn.err
    assert "1/1" in drawn.err
    assert drawn.out == ""


def test_a_set_without_its_texts_scores_a_table_that_brings_them(tmp_path):
    clarity = refladder.Dimension(name="clarity", description="Clear?", low=1, high=5)
    rows = [{"context": f"Why {word}?", "output": f"It is {word}.", "clarity": n}
            for n, word in enumerate(("rain", "tides"), start=1)]  # fmt: skip
    ladders = refladder.build(
        rows, task="open", dimensions=[clarity], writer="builtin", out=tmp_path / "ladders"
    )
    whole = refladder.score(rows, ladders=ladders)
    (tmp_path / "ladders" / "contexts.jsonl").unlink()
    without = refladder.load_ladders(tmp_path / "ladders")
    assert refladder.score(rows, ladders=without) == whole
    (name, *_) = without.digests
    other = [{**rows[0], "context_id": name, "context": "Another."}]
    (changed,) = refladder.score(other, ladders=without)
    assert changed["clarity_score"] is None
    assert changed["clarity_note"].endswith(
        "another text or background in this row than the ladder set ladders was written for"
    )
    message = f"context '{name}' has another text in ladders than in table"
    with pytest.raises(UsageError, match=message):
        refladder.evaluate(other, ladders=without)


def test_evaluate_takes_a_table_its_scored_rows_and_resumes_from_its_work(tmp_path):
    """The ids of outputs are those of `score`, so the scored table is evaluated by its texts too."""
    clarity = refladder.Dimension(name="clarity", description="Clear?", low=1, high=5)
    rows = [
        {"context": f"Why {word}?", "output": f"{word} " * n, "clarity": 4 - n}
        for word in ("rain", "tides")
        for n in (1, 2, 3)
    ]
    own = {"task": "open", "dimensions": [clarity], "protocol": refladder.Protocol(resamples=20)}
    ladders = refladder.build(rows, task="open", dimensions=[clarity], writer="builtin")
    first, again = (
        refladder.evaluate(rows, ladders=ladders, work=tmp_path / "work", **own) for _ in range(2)
    )
    assert figures(again) == figures(first)
    report = again.runs[0].result.report
    assert report.reused == report.judgments > 0
    refladder.score(
        write_lines(tmp_path / "in.jsonl", rows), ladders=ladders, out=tmp_path / "o.jsonl"
    )
    read = refladder.evaluate(rows, scores=[tmp_path / "o.jsonl"], **own)
    assert figures(read)[0] == figures(first)[0]
    assert len(read_lines(tmp_path / "o.jsonl")) == 6


def figures(evaluation):
    return [
        (row.dimension, row.level, row.statistic, row.value, row.low, row.high)
        for row in evaluation.rows
    ]
