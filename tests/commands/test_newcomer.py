"""What somebody meets who runs refladder for the first time."""

from __future__ import annotations

import contextlib
import io
import re

import pytest
from json_lines import read_lines

from refladder.commands.main import run
from refladder.display.rendering import short


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """The folder of a demo, and what it printed."""
    folder = tmp_path_factory.mktemp("demo")
    journal = folder / "story" / "ladders" / "build.journal.jsonl"
    journal.parent.mkdir(parents=True)
    # Of an older refladder: it is begun anew.
    journal.write_text('{"schema": "ladder-journal/1", "version": "0.0.1"}\n')
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        assert run(["demo", "--out", str(folder)]) == 0
    return folder, printed.getvalue()


def test_the_demo_explains_itself(demo):
    _, text = demo
    assert text.startswith("No model and no network: a large language model was asked once")
    _, found, baseline = text.partition("\n== What a judge must beat\n")
    assert found
    assert baseline.startswith("builtin: a baseline that counts words and reads no meaning. It ")
    for counts in (
        "summarization: 12 contexts, 72 outputs",
        "dialogue: 14 contexts, 84 outputs",
        "story: 12 contexts, 72 outputs",
    ):
        assert f"== demo/{counts}\n" in text
    for words in ("1. build: ", "2. score: ", "3. filter: ", "0: no relation", "\n ladder "):
        assert text.count(words) == 3
    assert "partial" not in text
    line = "score --ladders demo/story --context-id story-04 --text"
    assert f'  refladder {line} "Once upon a time ..."' in text


def test_the_demo_begins_with_a_real_judge_and_both_sides_of_the_cut_off(demo):
    folder, text = demo
    rows = read_lines(folder / "replies" / "scored.jsonl")
    begin, found, shown = text.partition("have helpfulness_grade >= 3. On either side of this")
    assert found
    placed = sorted((row["helpfulness_grade"], row["question"], row["reply"]) for row in rows)
    kept = [row for row in placed if row[0] >= 3]
    assert begin.endswith(f"\n{len(kept)} of 20 replies ")
    around = [*reversed(kept[:3]), *reversed(placed[: -len(kept)][-3:])]
    sides = [("kept", *row) for row in around[:3]] + [("dropped", *row) for row in around[3:]]
    for side, grade, question, reply in sides:
        line = f"  {grade:.2f} {side:7} {question}\n {'':14}{reply[:60]}"
        before, found, shown = shown.partition(line)
        assert found, line
        assert before.count("\n") <= 2
    # Every kept reply is longer than every dropped one: a rule of length makes the same decisions.
    shortest = min(len(reply) for _, _, reply in kept)
    assert shortest > max(len(reply) for _, _, reply in placed[: -len(kept)])
    assert f"at least {shortest} characters, decides otherwise on 0 of 20 replies" in shown


def test_the_demo_names_commands_that_give_what_it_shows(demo, command, tmp_path, monkeypatch):
    folder, text = demo
    monkeypatch.chdir(tmp_path)
    score, keep = re.findall(r"^  refladder ((?:score|filter) .*--out .*)$", text, re.MULTILINE)
    assert command(score).code == command(keep).code == 0
    of_demo = read_lines(folder / "replies" / "kept.jsonl")
    assert read_lines(tmp_path / "kept.jsonl") == of_demo
    assert len(of_demo) == 10


def test_the_demo_has_the_example_replies_and_their_recorded_answers(request):
    shipped = request.config.rootpath / "published_data" / "demo" / "replies"
    examples = request.config.rootpath / "docs" / "examples"
    assert (shipped / "replies.csv").read_bytes() == (examples / "replies.csv").read_bytes()
    recorded = read_lines(examples / "replies-answers" / "answers.jsonl")
    assert [
        line for line in read_lines(shipped / "answers" / "answers.jsonl") if line not in recorded
    ] == []


def test_the_demo_ends_with_a_text_on_a_ladder_and_the_way_to_own_data(demo):
    folder, text = demo
    scored = folder / "new-scored.jsonl"
    show = f"  refladder show demo/story story-04 --dimension coherence --scores {scored}\n"
    _, found, picture = text.partition(show)
    assert found
    placed = re.findall(r"^ +(\d\.\d\d) .*?(rung \d|new) +(\w+) ", picture, flags=re.MULTILINE)
    (row,) = read_lines(scored)
    # Rung i of 5 on a scale from 1 to 5 is at 1 + 4 (i - 1/2) / 5, so the rungs are 0.8 apart; the best comes first.
    rungs = [(f"{1 + 4 * (level - 0.5) / 5:.2f}", f"rung {level}") for level in (5, 4, 3, 2, 1)]
    new = (f"{row['coherence_grade']:.2f}", "new")
    assert [place[:2] for place in placed] == sorted([*rungs, new], reverse=True)
    assert [words for _, name, words in placed if name == "new"] == [row["output"].split()[0]]
    *_, own = picture.splitlines()
    assert own.startswith("Your own data: `refladder score TABLE --ladders general/reply` scores ")
    assert "`refladder build TABLE --task-file TASK.toml --writer MODEL --out my-ladders`" in own


def test_the_demo_keeps_what_it_made(demo):
    folder, _ = demo
    rows = read_lines(folder / "story" / "scored.jsonl")
    assert len(rows) == 72
    passed = read_lines(folder / "story" / "passed.jsonl")
    assert passed == [row for row in rows if row["coherence_grade"] >= 3]


def test_long_texts_are_cut_in_tables_and_whole_in_json(demo, command):
    ladders = demo[0] / "story" / "ladders"
    (longest,) = [
        ladder["rungs"][4]["text"]
        for ladder in read_lines(ladders / "ladders.jsonl")
        if (ladder["context_id"], ladder["dimension"]) == ("story-04", "complexity")
    ]
    assert len(longest) > 300
    line = f"show {ladders} story-04 --dimension complexity"
    assert "…" in command(line).out
    assert command(f"{line} --json").rows[0]["rungs"][4]["text"] == longest


@pytest.mark.parametrize(
    ("text", "width", "cut"),
    [("a  b\nc", 5, "a b c"), ("abcdef", 5, "abcd…"), ("", 5, ""), ("abcde", 5, "abcde")],
)
def test_short(text, width, cut):
    assert short(text, width) == cut
