"""A table is checked before a judge is opened."""

from __future__ import annotations

# No file of this name can be opened as a judge: whoever asks it fails with another message.
JUDGE = "--judge scripted:none --ladders demo/summarization"


def test_a_table_in_which_no_text_has_a_ladder_is_refused(fails, write_jsonl):
    rows = [{"context_id": "x", "output": text} for text in ("A.", " ")]
    text = fails(2, f"score {write_jsonl(rows)} --ladders demo/story")
    assert "in.jsonl: no row has a ladder; there is none for context 'x' in demo/story" in text


def test_a_table_that_is_scored_already(fails, write_jsonl):
    table = write_jsonl(
        [{"context_id": "summarization-01", "output": "It rained.", "fluency_score": 1.0}]
    )
    assert fails(2, f"score {table} {JUDGE}") == (
        f"refladder: {table}: column 'fluency_score' exists already; rename or drop it first\n"
    )
