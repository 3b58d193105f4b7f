"""`score --check-drift`: a judge that stays is never accused, one that changes is, and another judge is no drift."""

from __future__ import annotations

import json

import numpy as np
import pytest

from refladder.backends.builtin import Builtin
from refladder.records import LabelReading

READ = Builtin.read_labels


@pytest.fixture
def score(command, stories, tmp_path):
    def go(*options, code=0, only=("--out", tmp_path / "scored.jsonl", "--restart")):
        drift = ("--check-drift", "--drift-file", tmp_path / "drift.json")
        done = command("score", stories, "--ladders", "demo/story", *only, *drift, *options)
        assert code is None or done.code == code, done.err
        return done

    return go


def shifted(by, noise=0.0):
    """The built-in judge with a preference for "better" and with noise, in nats."""
    random = np.random.default_rng(0)

    def read_labels(self, prompts, labels):
        better = [label.lower() for label in labels].index("better")
        readings = []
        for reading in READ(self, prompts, labels):
            values = np.array(reading.logprobs)
            values[better] += by + noise * random.standard_normal()
            values -= np.logaddexp.reduce(values)
            readings.append(LabelReading(logprobs=tuple(values.tolist()), mass=reading.mass))
        return readings

    return read_labels


@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_a_shifted_judge_is_caught_and_one_that_stays_is_not(score, monkeypatch, tmp_path, noise):
    monkeypatch.setattr(Builtin, "read_labels", shifted(0.0, noise))
    assert "first readings of the probes (96 calls) are in" in score().err
    for look in range(1, 6):
        report = json.loads(score("--json").out)["drift"]
        assert (report["looks"], report["asked"], report["alarm"]) == (look, 8, False)
    monkeypatch.setattr(Builtin, "read_labels", shifted(1.5, noise))
    alarms = 0
    for _ in range(5):
        done = score("--json", code=None)
        alarm = json.loads(done.out)["drift"]["alarm"]
        assert done.code == (3 if alarm else 0)
        alarms += alarm
    assert alarms >= 2  # caught within 4 looks, and an alarm stays
    done = score(code=3)
    assert "drift: the judge has changed (evidence " in done.err
    assert "alarm at 100); these scores are not comparable with those before" in done.err
    assert f"delete {tmp_path / 'drift.json'} to watch the judge from now on" in done.err


def test_a_change_is_seen_behind_a_response_store(score, monkeypatch, tmp_path):
    stored = ("--store", tmp_path / "answers.sqlite", "--json")
    score(*stored)
    monkeypatch.setattr(Builtin, "read_labels", shifted(2.0))
    changes = [json.loads(score(*stored, code=None).out)["drift"]["changes"] for _ in range(2)]
    assert min(changes) > 0.1  # a stored answer would not have changed


def test_another_judge_is_no_drift(score, tmp_path):
    score()
    before = (tmp_path / "drift.json").read_bytes()
    text = score("--yes-no", code=2).err
    assert "Another judge is not drift: link the two with `refladder link`" in text
    assert (tmp_path / "drift.json").read_bytes() == before


def test_bad_files(score, tmp_path):
    path = tmp_path / "drift.json"
    path.write_text("{}")
    assert f"""{path}: expected a line with "schema": "drift/1", found None""" in score(code=2).err
    path.write_bytes(b"\xff")
    assert "not UTF-8; name a file that refladder wrote" in score(code=2).err
    path.unlink()
    score()
    whole = path.read_text()
    path.write_text(json.dumps({**json.loads(whole), "looks": [[None], [None, None]]}))
    assert f"{path}: drift/1: it needs probes, repeats, and looks of one length" in score(code=2).err
    path.write_text(whole.replace("demo/story@", "demo/other@"))
    assert "the probes are of ladders demo/other@" in score(code=2).err


def test_a_judge_that_cannot_be_read(score, monkeypatch, tmp_path):
    silent = LabelReading(logprobs=None, mass=None, reason="no answer")
    monkeypatch.setattr(Builtin, "read_labels", lambda _self, prompts, _labels: [silent] * len(prompts))
    assert "the judge could be read on 0 of 64 pairs of rungs, and --check-drift needs 8" in score(code=2).err
    assert not (tmp_path / "drift.json").exists()


def test_unparsed_probes_are_counted_and_are_no_change(score, monkeypatch):
    score()
    silent = LabelReading(logprobs=None, mass=None, reason="no answer")
    monkeypatch.setattr(Builtin, "read_labels", lambda _self, prompts, _labels: [silent] * len(prompts))
    report = json.loads(score("--json", code=3).out)["drift"]
    assert (report["asked"], report["unparsed"], report["alarm"]) == (8, 8, False)
    assert report["changes"] is report["shift"] is None


@pytest.mark.parametrize("options", [(), ("--store", "answers.sqlite"), ("--yes-no",)])
def test_a_dry_run_counts_the_calls(score, tmp_path, options):
    """The calls of the estimate are those of the run: 64 probes and 32 repeats at first, then 8 each time."""
    options = [tmp_path / option if option == "answers.sqlite" else option for option in options]
    for probes in (96, 8):
        calls = probes * (3 if "--yes-no" in options else 1)
        dry = score("--dry-run", "--json", *options)
        assert f"of these, --check-drift: {calls} calls" in dry.err
        planned = json.loads(dry.out)["backends"][0]
        spent = json.loads(score("--json", *options).out)["spent"][0]
        assert planned["exact"]
        for name in ("calls", "characters"):
            assert planned[name] == spent[name] > 0
        assert planned["least_calls"] == planned["calls"] >= calls
    path = tmp_path / "drift.json"
    before = path.read_bytes()
    score("--dry-run", *options)
    assert path.read_bytes() == before


def test_a_dry_run_makes_no_file(score, tmp_path):
    score("--dry-run")
    assert not (tmp_path / "drift.json").exists()


def test_a_text_has_no_check(fails):
    text = ("score", "--ladders", "demo/story", "--text", "A day.", "--context-id", "story-01")
    assert "--check-drift needs a SOURCE table" in fails(2, *text, "--check-drift")
