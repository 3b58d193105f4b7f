"""What somebody meets who runs refladder for the first time."""

from __future__ import annotations

import json
import re

import pytest

from refladder.commands.main import run
from refladder.report.rendering import short


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    assert run(["demo", "--out", str(folder)]) == 0
    return folder


def test_the_demo_explains_itself(capsys, tmp_path):
    journal = tmp_path / "story" / "ladders" / "build.journal.jsonl"
    journal.parent.mkdir(parents=True)
    journal.write_text(
        '{"schema": "ladder-journal/1", "version": "0.0.1"}\n'
    )  # of an older refladder: begun anew
    assert run(["demo", "--out", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    assert text.startswith(
        "Three small data sets, no model and no network. builtin: a baseline that counts words"
    )
    for name, contexts, outputs in (
        ("summarization", 12, 72),
        ("dialogue", 14, 84),
        ("story", 12, 72),
    ):
        assert f"== demo/{name}: {contexts} contexts, {outputs} outputs\n" in text
    assert text.count("1. build: ") == text.count("2. score: ") == text.count("3. filter: ") == 3
    assert text.count("1: the same, 0: no relation") == text.count("\n ladder ") == 3
    assert "partial" not in text
    assert (
        '  refladder score --ladders demo/story --context-id story-04 --text "Once upon a time ..."'
        in text
    )


def test_the_demo_ends_with_a_text_on_a_ladder_and_the_way_to_own_data(capsys, tmp_path):
    assert run(["demo", "--out", str(tmp_path)]) == 0
    show = f"  refladder show demo/story story-04 --dimension coherence --scores {tmp_path / 'new-scored.jsonl'}\n"
    _, found, picture = capsys.readouterr().out.partition(show)
    assert found
    placed = re.findall(r"^ +(\d\.\d\d) .*?(rung \d|new) +(\w+) ", picture, flags=re.MULTILINE)
    (row,) = [
        json.loads(line) for line in (tmp_path / "new-scored.jsonl").read_text("utf-8").splitlines()
    ]
    # Rung i of 5 on a scale from 1 to 5 is at 1 + 4 (i - 1/2) / 5, so the rungs are 0.8 apart; the best comes first.
    rungs = [(f"{1 + 4 * (level - 0.5) / 5:.2f}", f"rung {level}") for level in (5, 4, 3, 2, 1)]
    new = (f"{row['coherence_grade']:.2f}", "new")
    assert [place[:2] for place in placed] == sorted([*rungs, new], reverse=True)
    assert [words for _, name, words in placed if name == "new"] == [row["output"].split()[0]]
    *_, own = picture.splitlines()
    assert own.startswith("Your own data: `refladder score TABLE --ladders general/reply` scores ")
    assert "`refladder build TABLE --task-file TASK.toml --writer MODEL --out my-ladders`" in own


def test_the_demo_keeps_what_it_made(demo):
    rows = [
        json.loads(line)
        for line in (demo / "story" / "scored.jsonl").read_text("utf-8").splitlines()
    ]
    passed = [
        json.loads(line)
        for line in (demo / "story" / "passed.jsonl").read_text("utf-8").splitlines()
    ]
    assert len(rows) == 72
    assert passed == [row for row in rows if row["coherence_grade"] >= 3]


def test_long_texts_are_cut_in_tables_and_whole_in_json(demo, capsys):
    ladders = str(demo / "story" / "ladders")
    (longest,) = [
        rung["text"]
        for line in (demo / "story" / "ladders" / "ladders.jsonl").read_text("utf-8").splitlines()
        if (ladder := json.loads(line))["context_id"] == "story-04"
        and ladder["dimension"] == "complexity"
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
    ("text", "width", "cut"),
    [("a  b\nc", 5, "a b c"), ("abcdef", 5, "abcd…"), ("", 5, ""), ("abcde", 5, "abcde")],
)
def test_short(text, width, cut):
    assert short(text, width) == cut
