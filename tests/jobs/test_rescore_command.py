"""refladder.rescore: scores again from stored judgments."""

from __future__ import annotations

import pytest
from json_lines import read_lines
from milder_judge import Milder

import refladder


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    """Judgments files of the same 72 outputs by two judges, and the rows scored by the first."""
    folder = tmp_path_factory.mktemp("judged")
    outputs = refladder.load_benchmark("demo/story").outputs
    rows = [
        {"output_id": each.id, "context_id": each.context_id, "output": each.text}
        for each in outputs
    ]
    for name, judge in (("milder", Milder()), ("builtin", "builtin")):
        refladder.score(rows, ladders="demo/story", judge=judge, out=folder / f"{name}.jsonl")
    first, second = (folder / f"{name}.jsonl.judgments.jsonl" for name in ("milder", "builtin"))
    return first, second, folder / "milder.jsonl"


def test_rescored_rows_have_the_scores_of_the_judge_and_the_weights_count(judged):
    first, stored = refladder.rescore(judged[0])[0], read_lines(judged[2])[0]
    assert first == {name: stored[name] for name in first}
    (alone, *_) = refladder.rescore(judged[0], weights={"complexity": 0})
    # Only coherence counts: its score, from -15 to 15 with five rungs, on the scale from 0 to 1.
    assert alone["overall_score"] == pytest.approx((first["coherence_score"] + 15) / 30)


def test_missing_scores_are_none_and_counted(judged, caplog):
    rows = refladder.rescore(judged[0], least_mass=1.0)
    assert caplog.messages == []  # the built-in judge has a label mass of 1
    head, first, *rest = judged[0].read_text("utf-8").splitlines(keepends=True)
    low = judged[0].with_name("low.jsonl")
    low.write_text("".join([head, first.replace('"mass":1.0', '"mass":0.01'), *rest]), "utf-8")
    some = refladder.rescore(low)
    assert some[0]["coherence_score"] is None
    assert some[0]["coherence_note"].startswith("1 of 5 judgments unparsed")
    assert some[1:] == [row | {"signature": some[1]["signature"]} for row in rows[1:]]
    assert "72 rows, 1 score missing; 720 judgments (720 reused, 1 unparsed)" in caplog.text
