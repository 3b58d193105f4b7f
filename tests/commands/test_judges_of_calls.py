"""The response store, the progress and the notice of a call are those of the command line."""

from __future__ import annotations

import pytest

import refladder
from refladder import session
from refladder.backends.cache.store import ResponseStore
from refladder.errors import DataError, UsageError

ROWS = [{"context_id": "story-01", "output": "A keeper found a bottle, and she wept."}]


def answers_in(path):
    with ResponseStore(path, create=False) as store:
        return store.count()


def test_a_store_keeps_every_answer(tmp_path, monkeypatch):
    monkeypatch.delenv("REFLADDER_STORE", raising=False)
    refladder.score(ROWS, ladders="demo/story", store=tmp_path / "given.sqlite")
    assert (
        answers_in(tmp_path / "given.sqlite") == 58
    )  # two ladders of five rungs, and 24 in both orders for the check of the judge
    monkeypatch.setenv("REFLADDER_STORE", str(tmp_path / "named.sqlite"))
    with refladder.Scorer(ladders="demo/story", dimensions=["coherence"]) as scorer:
        scorer.score([ROWS[0]["output"]], context_id="story-01")
    assert answers_in(tmp_path / "named.sqlite") == 5
    refladder.score(ROWS, ladders="demo/story", store=False)
    assert answers_in(tmp_path / "named.sqlite") == 5


def test_paid_judges_have_a_store_by_default(tmp_path, monkeypatch):
    monkeypatch.delenv("REFLADDER_STORE", raising=False)
    monkeypatch.setattr(session, "default_store", lambda: tmp_path / "default.sqlite")
    monkeypatch.setattr(session, "COSTLY", ("builtin",))
    refladder.score(ROWS, ladders="demo/story")
    assert answers_in(tmp_path / "default.sqlite") == 58


def test_a_store_that_is_no_file():
    with pytest.raises(
        UsageError, match="store=True names no file; give a path, None for the default, or False"
    ):
        refladder.Scorer(ladders="demo/story", store=True)


def test_the_notice_of_a_judge_is_logged_once(caplog):
    session._warn_once.cache_clear()
    for _ in range(2):
        refladder.score(ROWS, ladders="demo/story")
    assert [
        text for text in caplog.messages if text.startswith("builtin: a baseline that counts words")
    ] != []
    assert len(caplog.messages) == 1


def test_progress_is_drawn_on_a_terminal_only(monkeypatch, capsys):
    refladder.score(ROWS, ladders="demo/story")
    assert "scoring" not in capsys.readouterr().err
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    refladder.score(ROWS, ladders="demo/story")
    drawn = capsys.readouterr()
    assert "scoring" in drawn.err
    assert "1/1" in drawn.err
    assert drawn.out == ""


def test_a_field_of_an_object_is_scored():
    nested = [{"context_id": "story-01", "reply": {"text": ROWS[0]["output"]}}]
    scored = refladder.score(nested, ladders="demo/story", columns={"output": "reply.text"})
    plain = refladder.score(ROWS, ladders="demo/story")
    assert scored[0]["coherence_score"] == plain[0]["coherence_score"]
    assert scored[0]["reply"] == nested[0]["reply"]
    with pytest.raises(DataError, match=r"row 1: no column 'reply\.txt' for the output"):
        refladder.score(nested, ladders="demo/story", columns={"output": "reply.txt"})
