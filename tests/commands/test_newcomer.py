"""What somebody meets who runs refladder for the first time."""

from __future__ import annotations

import json

import pytest

from refladder.commands.main import COMMANDS, run
from refladder.report.plain_text import short


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    assert run(["demo", "--out", str(folder)]) == 0
    return folder


def test_the_demo_explains_itself(capsys, tmp_path):
    journal = tmp_path / "story" / "ladders" / "build.journal.jsonl"
    journal.parent.mkdir(parents=True)
    journal.write_text('{"schema": "ladder-journal/1", "version": "0.0.1"}\n')  # of an older refladder: begun anew
    assert run(["demo", "--out", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    assert text.startswith("Three small data sets, no model and no network. builtin: a baseline without a model;")
    for name, contexts, outputs in (("summarization", 12, 72), ("dialogue", 14, 84), ("story", 12, 72)):
        assert f"== demo/{name}: {contexts} contexts, {outputs} outputs\n" in text
    assert text.count("1. build: ") == text.count("2. score: ") == text.count("3. filter: ") == 3
    assert text.count("1: the same, 0: no relation") == text.count("\n ladder ") == 3
    assert "partial" not in text
    assert '  refladder score --ladders demo/story --context-id story-04 --text "Once upon a time ..."' in text


def test_the_demo_keeps_what_it_made(demo):
    rows = [json.loads(line) for line in (demo / "story" / "scored.jsonl").read_text("utf-8").splitlines()]
    passed = [json.loads(line) for line in (demo / "story" / "passed.jsonl").read_text("utf-8").splitlines()]
    assert len(rows) == 72
    assert passed == [row for row in rows if row["coherence_grade"] >= 3]


def test_long_texts_are_cut_in_tables_and_whole_in_json(demo, capsys):
    ladders = str(demo / "story" / "ladders")
    (longest,) = [
        rung["text"]
        for line in (demo / "story" / "ladders" / "ladders.jsonl").read_text("utf-8").splitlines()
        if (ladder := json.loads(line))["context_id"] == "story-04" and ladder["dimension"] == "complexity"
        for rung in ladder["rungs"]
        if rung["level"] == 5
    ]
    assert len(longest) > 300
    capsys.readouterr()
    run(["show", ladders, "story-04", "--dimension", "complexity"])
    assert "…" in capsys.readouterr().out
    run(["show", ladders, "story-04", "--dimension", "complexity", "--json"])
    assert json.loads(capsys.readouterr().out)["rungs"][4]["text"] == longest


@pytest.mark.parametrize(
    ("text", "width", "cut"), [("a  b\nc", 5, "a b c"), ("abcdef", 5, "abcd…"), ("", 5, ""), ("abcde", 5, "abcde")]
)
def test_short(text, width, cut):
    assert short(text, width) == cut


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_command_has_help(command, capsys):
    assert run([command, "--help"]) == 0
    text = capsys.readouterr().out
    assert text.startswith(f"Usage: refladder {command}")
    assert "repeat." not in text.replace("may be repeated.", "")
