"""rescore and link: against what the commands give."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import numpy as np
import pytest
from scored_folders import Inline, split

import refladder
from refladder.backends.builtin import Builtin
from refladder.errors import DataError, UnknownNameError, UsageError
from refladder.files.jsonl import read_record
from refladder.records import LabelReading, Link

pl = pytest.importorskip("polars")
READ = Builtin.read_labels


class Milder(Builtin):
    """The built-in judge with half of its log-probabilities."""

    @property
    def fingerprint(self):
        return "milder/1"

    def read_labels(self, prompts, labels):
        readings = []
        for reading in READ(self, prompts, labels):
            values = np.array(reading.logprobs) / 2
            values -= np.logaddexp.reduce(values)
            readings.append(LabelReading(logprobs=tuple(values.tolist()), mass=reading.mass))
        return readings


def lines_of(path):
    return [json.loads(line) for line in Path(path).read_text("utf-8").splitlines()]


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
    return (
        folder / "milder.jsonl.judgments.jsonl",
        folder / "builtin.jsonl.judgments.jsonl",
        folder / "milder.jsonl",
    )


def test_the_scores_are_those_of_the_judge_and_the_weights_count(judged):
    first, stored = refladder.rescore(judged[0])[0], lines_of(judged[2])[0]
    assert first == {name: stored[name] for name in first}
    (alone,) = {
        row["overall_score"] for row in refladder.rescore(judged[0], weights={"complexity": 0})[:1]
    }
    # only coherence counts: its score, from -15 to 15 with five rungs, on the scale from 0 to 1
    assert alone == pytest.approx((first["coherence_score"] + 15) / 30)


def test_missing_scores_are_none_and_counted(judged, command, caplog):
    rows = refladder.rescore(judged[0], least_mass=1.0)
    assert caplog.messages == []  # the built-in judge has a label mass of 1
    lines = judged[0].read_text("utf-8").splitlines(keepends=True)
    low = judged[0].with_name("low.jsonl")
    low.write_text(
        lines[0] + lines[1].replace('"mass":1.0', '"mass":0.01') + "".join(lines[2:]), "utf-8"
    )
    some = refladder.rescore(low)
    assert some == command("rescore", low).rows
    assert some[0]["coherence_score"] is None
    assert some[0]["coherence_note"].startswith("1 of 5 judgments unparsed")
    assert some[1:] == [row | {"signature": some[1]["signature"]} for row in rows[1:]]
    assert "72 rows, 1 score missing; 720 judgments (720 reused, 1 unparsed)" in caplog.text


def test_a_scored_folder_is_rescored(command, tmp_path, monkeypatch):
    monkeypatch.setattr("refladder.fleet.workers.Processes", Inline)
    rows = [
        {"output_id": f"o{n}", "context_id": "story-01", "output": f"The keeper read letter {n}."}
        for n in range(9)
    ]
    named = ("--out", tmp_path / "scored")
    done = command("score", split(rows, tmp_path / "in", 4), "--ladders", "demo/story", *named)
    assert done.code == 0, done.err
    again = refladder.rescore(tmp_path / "scored")
    assert [row["output_id"] for row in again] == [row["output_id"] for row in rows]
    assert again == command("rescore", tmp_path / "scored").rows


@pytest.fixture
def record(judged):
    return refladder.link(judged[0], to=judged[1])


def test_the_link_is_that_of_the_command(judged, record, command, tmp_path):
    typed = command(
        "link", "--from", judged[0], "--to", judged[1], "--out", tmp_path / "typed.json", "--json"
    )
    assert typed.code == 0, typed.err
    assert (
        refladder.link(str(judged[0]), to=str(judged[1]), out=str(tmp_path / "called.json"))
        == record
    )
    assert (tmp_path / "called.json").read_bytes() == (tmp_path / "typed.json").read_bytes()
    assert record == read_record(Link, tmp_path / "typed.json")
    assert [column.column for column in record.columns] == [
        each["column"] for each in typed.rows[0]["columns"]
    ]
    assert record.columns[0].slope == pytest.approx(2.0, rel=0.05)  # twice the log-odds
    other = refladder.link(judged[0], to=judged[1], rule="mean-difference")
    assert "rule:mean-difference" in other.to_signature


@pytest.mark.parametrize("as_file", [False, True])
def test_filter_and_rescore_take_the_link(as_file, judged, record, command, tmp_path):
    link = tmp_path / "link.json"
    command("link", "--from", judged[0], "--to", judged[1], "--out", link)
    given = str(link) if as_file else record
    typed = command("rescore", judged[0], "--link", link).rows
    assert refladder.rescore(judged[0], link=given) == typed
    assert "coherence_score_linked_low" in typed[0]
    expected = [
        row["output_id"]
        for row in command("filter", judged[2], "--min", "coherence_score=2", "--link", link).rows
    ]
    frame = pl.DataFrame(lines_of(judged[2]))
    assert (
        refladder.filter(frame, min={"coherence_score": 2}, link=given)["output_id"].to_list()
        == expected
    )
    unlinked = refladder.filter(frame, min={"coherence_score": 2})["output_id"].to_list()
    assert len(unlinked) != len(expected)


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


def test_errors_of_rescore_speak_of_parameters(judged, record, tmp_path):
    with pytest.raises(DataError, match=r"nowhere\.jsonl: no such file$"):
        refladder.rescore(tmp_path / "nowhere.jsonl")
    with pytest.raises(
        UsageError, match=r"^judgments must be the path of a judgments file of `score`, found list$"
    ):
        refladder.rescore(refladder.rescore(judged[0]))
    with pytest.raises(
        UsageError, match=r"^out='-': a call writes no standard output; give out=PATH$"
    ):
        refladder.rescore(judged[0], out="-")
    with pytest.raises(
        UsageError,
        match=r"^out='s3://b/x.jsonl': a call writes files on this machine only; give out=",
    ):
        refladder.rescore(judged[0], out="s3://b/x.jsonl")
    with pytest.raises(UsageError, match=r"judgments and out must be different files$"):
        refladder.rescore(judged[0], out=judged[0])
    with pytest.raises(UsageError, match=r"link\.json: link and out must be different files$"):
        refladder.rescore(judged[0], link="link.json", out="link.json")
    with pytest.raises(
        UnknownNameError, match=r"unknown rule 'ladder-sums'; did you mean 'ladder-sum'\?"
    ):
        refladder.rescore(judged[0], rule="ladder-sums")
    with pytest.raises(UnknownNameError, match=r"unknown dimension 'wit'"):
        refladder.rescore(judged[0], weights={"wit": 1})
    with pytest.raises(UsageError, match=r"^least_mass=2: must be a probability from 0 to 1$"):
        refladder.rescore(judged[0], least_mass=2)
    with pytest.raises(
        DataError, match=r"^link: these scores are on the scale of the link already; leave it out$"
    ):
        refladder.rescore(judged[1], link=record)
    with pytest.raises(
        DataError, match=r"^link: the link maps scores with the signature .*rule:ladder-sum"
    ):
        refladder.rescore(judged[0], rule="hard-votes", link=record)
    with pytest.raises(
        DataError,
        match=r"row 1: the link maps scores with the signature .*, and this row has no sign",
    ):
        refladder.filter([{"coherence_score": 1.0}], min={"coherence_score": 0}, link=record)


def test_errors_of_link_speak_of_parameters(judged, tmp_path):
    before = judged[0].read_bytes()
    for out, name in ((judged[0], "judgments"), (judged[1], "to")):
        with pytest.raises(UsageError, match=rf": {name} and out must be different files$"):
            refladder.link(judged[0], to=judged[1], out=out)
    assert judged[0].read_bytes() == before
    with pytest.raises(
        UsageError, match=r"^rule 'hard-votes' cannot be linked, .* choose rule from: ladder-sum, "
    ):
        refladder.link(judged[0], to=judged[1], rule="hard-votes")
    with pytest.raises(UnknownNameError, match=r"unknown rule 'nonsense'"):
        refladder.link(judged[0], to=judged[1], rule="nonsense")
    with pytest.raises(
        UsageError, match=r"have the same signature, so their scores are on one scale already$"
    ):
        refladder.link(judged[0], to=judged[0], out=tmp_path / "link.json")
    with pytest.raises(
        DataError,
        match=r"milder\.jsonl: scored rows; their judgments are in .*milder\.jsonl\.judgments\.jsonl$",
    ):
        refladder.link(judged[2], to=judged[1])
    with pytest.raises(DataError, match=r"nowhere\.jsonl: no such file$"):
        refladder.link(judged[0], to=tmp_path / "nowhere.jsonl")
    with pytest.raises(
        UsageError, match=r"^to must be the path of a judgments file of `score`, found ShownLink$"
    ):
        refladder.link(judged[0], to=refladder.link(judged[0], to=judged[1]))
    with pytest.raises(UsageError, match=r"^least_mass=-1: must be a probability from 0 to 1$"):
        refladder.link(judged[0], to=judged[1], least_mass=-1)
    assert not (tmp_path / "link.json").exists()


def test_a_file_of_no_known_format_is_refused_without_naming_an_option(tmp_path):
    with pytest.raises(UsageError) as refused:
        refladder.score(
            [{"context_id": "story-01", "output": "A sea."}],
            ladders="demo/story",
            out=tmp_path / "rows.txt",
        )
    assert (
        str(refused.value)
        == f"{tmp_path}/rows.txt: unknown file extension; use .jsonl, .csv or .parquet"
    )


def test_the_file_beside_rescored_rows_is_an_output_too(command, tmp_path):
    """It holds the names of id columns."""
    record = tmp_path / "out.jsonl.run.json"
    done = command(
        "rescore", tmp_path / "j.jsonl", "--link", record, "--out", tmp_path / "out.jsonl"
    )
    assert done.code == 2
    assert f"{record}: --link and --out must be different files" in done.err
