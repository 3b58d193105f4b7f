"""What data holds cannot steer a terminal: control characters in names and texts are printed as U+FFFD."""

from __future__ import annotations

import json
import re
import sys
import unicodedata
from pathlib import Path

import pytest
from json_lines import write_lines

import refladder
from refladder.cli import console
from refladder.display.rendering import printable, printable_json
from refladder.scoring.columns import column_names

# Override, isolate, escape sequences, C1 escape, bell, mark.
NASTY = "a\u202eb\u2066c\x1b[31md\x9bx\x07y\u200fz"
SAFE = "a\ufffdb\ufffdc\ufffd[31md\ufffdx\ufffdy\ufffdz"
BIDI_CONTROL = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"  # PropList.txt, Unicode 15
TASK = 'task = "{task}"\n[[dimensions]]\nname = "{name}"\ndescription = "It is \\u202e good."\n'


def is_safe(text):
    return printable(text) == text


def test_every_control_character_is_replaced():
    every = [chr(code) for code in range(sys.maxunicode + 1)]
    unsafe = {
        character
        for character in every
        if character in BIDI_CONTROL or unicodedata.category(character) in {"Cc", "Cs", "Zl", "Zp"}
    }
    replaced = unsafe - {*"\n\t"}
    for first in range(0, len(every), 100):
        characters = every[first : first + 100]
        wanted = ["\ufffd" if character in replaced else character for character in characters]
        assert list(printable("".join(characters))) == wanted, hex(first)
    for character in unsafe:
        assert printable(character) == ("\ufffd" if character in replaced else character)
        if ord(character) >= 0x7F:
            assert printable_json(character) == f"\\u{ord(character):04x}"


def test_json_for_a_terminal_loses_nothing():
    value = {"a": f"é {NASTY}\u2028"}
    text = printable_json(json.dumps(value, ensure_ascii=False))
    assert is_safe(text)
    assert "é" in text
    assert json.loads(text) == value


def test_commands_print_through_the_function_that_cleans():
    files = [*Path(refladder.__file__).parent.rglob("*.py")]
    printing = r"\bclick\.(?:secho|echo)\(|(?<!\.)\bprint\("
    found = {path.name for path in files if re.search(printing, path.read_text("utf-8"))}
    assert found == {"console.py", "main.py", "options.py"}  # the last two for help


@pytest.fixture
def place(tmp_path, command):
    """A table, a configuration, and a ladder set with control characters in names and texts."""
    row = {"output_id": NASTY, "context_id": "story-01", "output": NASTY, "score": 2, NASTY: 1}
    write_lines(tmp_path / "table.jsonl", [row])
    (tmp_path / "config.toml").write_text('[score]\nformat = "a\\u202e\\u001b[31m"\n')
    own = [{"context_id": f"c{NASTY}", "context": f"Say {NASTY}.", "output": f"Text {NASTY}."}]
    write_lines(tmp_path / "own.jsonl", own)
    (tmp_path / "task.toml").write_text(TASK.format(task="dialogue", name="d\\u001b[2J"))
    asked = f"--task-file {tmp_path}/task.toml --writer builtin --rungs 2"
    assert command(f"build {tmp_path}/own.jsonl {asked} --out {tmp_path}/set").code == 0
    return tmp_path


STORY = ("--ladders", "demo/story", "--no-store")
LINES = [
    ("show", "demo/" + NASTY),
    ("score", NASTY + ".jsonl", *STORY),
    ("score", "{f}/table.jsonl", *STORY, "--dimension", NASTY),
    ("filter", "{f}/table.jsonl", "--min", NASTY + "=1", "--out", "{out}"),
    ("filter", "{f}/table.jsonl", "--format", NASTY),
    ("--config", "{f}/config.toml", "score", "{f}/table.jsonl"),
    ("list", NASTY),
    (NASTY,),
    ("score", "{f}/table.jsonl", *STORY, "--judge", NASTY),
    ("score", "{f}/table.jsonl", *STORY, "--json"),
    ("score", "{f}/table.jsonl", *STORY, "--out", "{out}"),
    ("show", "{f}/set"),
    ("show", "{f}/set", "--json"),
    ("show", "{f}/set", "c" + NASTY),
    ("filter", "{f}/table.jsonl", "--min", "score=1", "--out", "{out}"),
    ("export", "demo/story", "--out", "{out}"),
]


@pytest.mark.parametrize("line", LINES)
def test_nothing_printed_holds_a_control_character(command, place, line):
    done = command("", *(word.format(f=place, out=place / f"out{NASTY}.jsonl") for word in line))
    assert done.code in {0, 2, 3}
    assert done.out or done.err
    assert is_safe(done.err)
    if line[0] != "score" or "{out}" in line:  # scored rows are data
        assert is_safe(done.out)


def test_show_prints_names_and_texts_without_control_characters(command, place):
    name = f"c{NASTY}"
    score, grade, _, _, note = column_names("d\x1b[2J")
    row = {"context_id": name, "output": f"out {NASTY}", score: 1.0, grade: 2.0}
    unscored = {**row, "output_id": f"un {NASTY}", grade: None, note: f"why {NASTY}"}
    scored = {**row, "output_id": f"scored {NASTY}"}
    scores = write_lines(place / "scores.jsonl", [scored, unscored])
    assert f"c{SAFE}  Say {SAFE}" in command("show", place / "set").out
    shown = command("show", place / "set", name, "--scores", scores)
    assert (shown.code, is_safe(shown.out + shown.err)) == (0, True), shown.err
    assert "why" in shown.out
    for_programs = command("show", place / "set", name, "--scores", scores, "--json")
    assert (for_programs.code, is_safe(for_programs.out)) == (0, True)
    assert for_programs.rows[0]["context_id"] == name  # nothing is lost


def test_show_says_which_ladder_is_missing(command, place):
    more = {"schema": "dimension/1", "name": f"more{NASTY}", "description": "", "low": 1, "high": 5}
    with (place / "set" / "dimensions.jsonl").open("a") as stream:
        stream.write(json.dumps(more) + "\n")
    done = command("show", place / "set", f"c{NASTY}")
    assert done.err == f"no more{SAFE} ladder for c{SAFE}\n"


def test_compete(command, tmp_path):
    rows = [{"id": f"row {NASTY}", "a": "x"}, {"id": f"empty {NASTY}", "a": ""}]
    source = write_lines(tmp_path / "in.jsonl", rows)
    rule = {"contains": "Say", "text": f"A text {NASTY}"}
    texts = write_lines(tmp_path / "texts.jsonl", [rule])
    models = [f"--model={name}{NASTY}=scripted:{texts}" for name in ("one", "two")]
    asked = ("--prompt-text", "Say {a}", "--criterion", f"good{NASTY}=words", *models)
    done = command("compete --judge builtin", source, *asked, "--out", tmp_path / f"out {NASTY}")
    assert done.code == 3
    assert SAFE[:10] in done.out
    assert f"out {SAFE}/results.jsonl holds" in done.err
    assert is_safe(done.out + done.err)


def test_build_names_failed_rungs(command, place):
    script = write_lines(place / "script.jsonl", [])
    asked = f"--task-file {place}/task.toml --writer scripted:{script} --out"
    done = command(f"build {place}/own.jsonl {asked}", place / f"set {NASTY}")
    assert done.code in {1, 2, 3}
    assert is_safe(done.out + done.err)


@pytest.mark.parametrize("form", ["text", "markdown", "latex", "json", "csv"])
def test_evaluate_with_a_dimension_that_holds_escapes(command, tmp_path, form):
    rows = [
        {
            "context_id": f"c{number}{NASTY}",
            "context": "One two.",
            "system": f"s{place}{NASTY}",
            "output": f"Text {place * number}.",
            "a\x1bb": place,
        }
        for number in (1, 2)
        for place in (1, 2, 3)
    ]
    source = write_lines(tmp_path / "in.jsonl", rows)
    (tmp_path / "task.toml").write_text(TASK.format(task="story", name="a\\u001bb"))
    scored = [{name: row[name] for name in ("context_id", "system")} | {"score": 1} for row in rows]
    scores = write_lines(tmp_path / "m\x1b[2J.jsonl", scored)
    line = f"evaluate table --task-file {tmp_path}/task.toml --methods ladder --format {form}"
    done = command(line, "--source", source, "--scores", scores)
    assert "refladder:" not in done.err
    assert is_safe(done.out + done.err)


@pytest.mark.parametrize("width", [32, 44, 70])
def test_heads_of_the_table_of_texts_never_break_inside_a_word(command, monkeypatch, width):
    monkeypatch.setattr(console, "_WIDTH", width)
    text = "Once upon a time there was a fox."
    done = command("score --ladders demo/story --context-id story-04 --text", text)
    assert done.code == 0
    lines = done.out.split("score: ladder-sum")[0].splitlines()
    printed = " ".join(lines).split()
    for word in ("text", "coherence", "complexity", "overall"):
        assert word in printed
    assert printed.count("grade") == printed.count("score") == 2
    assert max(map(len, lines)) <= width
    # a part of the table that does not fit the first is under the same text, and is said to be one
    assert ("continued." in printed) == (width < 70)
    assert printed.count("Once") == printed.count("continued.") + 1
