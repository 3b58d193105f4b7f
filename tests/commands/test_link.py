"""refladder.link and refladder.rescore: maps between judges."""

from __future__ import annotations

import json
import logging
from dataclasses import asdict

import pytest
from json_lines import read_lines
from milder_judge import Milder

import refladder
from refladder.errors import DataError


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


@pytest.fixture(scope="module")
def record(judged):
    return refladder.link(judged[0], to=judged[1])


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


def test_judgments_that_are_ratings_make_no_link(judged, tmp_path):
    rows = [{"context_id": "story-01", "output": "A keeper reads a letter."}]
    scored = tmp_path / "rated.jsonl"
    refladder.score(rows, ladders="demo/story", answers="rating", out=scored)
    with pytest.raises(
        DataError,
        match=r"rated.*: ratings \(.*answers rating\), and judgments of a link are compar",
    ):
        refladder.link(f"{scored}.judgments.jsonl", to=judged[1])


def test_a_link_maps_what_filter_compares_and_rescore_adds_columns(judged, record):
    assert record.columns[0].slope == pytest.approx(2.0, rel=0.05)  # twice the log-odds
    linked = refladder.rescore(judged[0], link=record)
    assert "coherence_score_linked_low" in linked[0]
    rows, least = read_lines(judged[2]), {"coherence_score": 2}
    expected = [row["output_id"] for row in linked if row["coherence_score_linked"] >= 2]
    kept = refladder.filter(rows, min=least, link=record)
    assert [row["output_id"] for row in kept] == expected
    assert len(refladder.filter(rows, min=least)) != len(expected)


def test_the_command_prints_the_record_as_json(judged, record, command, tmp_path):
    done = command(
        "link --json", "--from", judged[0], "--to", judged[1], "--out", tmp_path / "link.json"
    )
    assert done.code == 0
    assert json.loads(done.out) == json.loads(json.dumps(asdict(record)))


def test_a_link_that_is_of_no_use_is_a_warning(judged, caplog, tmp_path):
    # the same judge under another name: no scale is better than the one it has
    text = judged[1].read_text("utf-8").replace("backend:builtin/1", "backend:copy/1")
    text = text.replace('"backend":"builtin/1"', '"backend":"copy/1"')
    (tmp_path / "copy.jsonl").write_text(text, "utf-8")
    with caplog.at_level(logging.WARNING, logger="refladder"):
        record = refladder.link(judged[1], to=tmp_path / "copy.jsonl")
    assert record.columns[0].identity_error == 0
    assert "Left as they are, since no map did better on held-out contexts: " in caplog.text
    assert "coherence_score" in caplog.text


def test_a_link_of_other_scores_is_refused(judged, record):
    already = r"^link: these scores are on the scale of the link already; leave it out$"
    with pytest.raises(DataError, match=already):
        refladder.rescore(judged[1], link=record)
    other = r"^link: the link maps scores with the signature .*rule:ladder-sum"
    with pytest.raises(DataError, match=other):
        refladder.rescore(judged[0], rule="hard-votes", link=record)
    unsigned = r"row 1: the link maps scores with the signature .*, and this row has no sign"
    with pytest.raises(DataError, match=unsigned):
        refladder.filter([{"coherence_score": 1.0}], min={"coherence_score": 0}, link=record)
