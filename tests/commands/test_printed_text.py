"""Text of data and of users reaches a terminal only without the characters that could act on it."""

from __future__ import annotations

import re
import sys
import unicodedata
from pathlib import Path

import pytest

import refladder.commands.main
from refladder.report.rendering import printable, printable_json

NASTY = "a\u202eb\u2066c\x1b[31md\x9bx\x07y\u200fz"  # override, isolate, escape sequence, C1 escape, bell, mark
PLAIN = "a\ufffdb\ufffdc\ufffd[31md\ufffdx\ufffdy\ufffdz"
BIDI_CONTROL = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"  # PropList.txt, Unicode 15


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


def test_commands_print_through_the_function_that_cleans():
    files = [
        path
        for path in Path(refladder.commands.__file__).parent.glob("*.py")
        if path.name != "console.py"
    ]
    assert len(files) > 20
    for path in files:
        for line in re.findall(
            r".*\bclick\.(?:secho|echo)\(.*|.*(?<!\.)\bprint\(.*", path.read_text("utf-8")
        ):
            assert path.name in {"main.py", "options.py"}, line  # help


@pytest.mark.parametrize(
    "line",
    [
        ("show", "demo/" + NASTY),
        ("score", NASTY + ".jsonl", "--ladders", "demo/story"),
        ("score", "{table}", "--ladders", "demo/story", "--dimension", NASTY),
        ("filter", "{table}", "--min", NASTY + "=1", "--out", "{out}"),
        ("filter", "{table}", "--format", NASTY),
        ("--config", "{config}", "score", "{table}"),
        ("list", NASTY),
        (NASTY,),
        ("score", "{table}", "--ladders", "demo/story", "--judge", NASTY),
        ("score", "{table}", "--ladders", "demo/story", "--no-store", "--json"),
        ("score", "{table}", "--ladders", "demo/story", "--no-store", "--out", "{out}"),
        ("show", "{set}"),
        ("show", "{set}", "--json"),
        ("show", "{set}", "c" + NASTY),
        ("filter", "{table}", "--min", "score=1", "--out", "{out}"),
        ("export", "demo/story", "--out", "{out}"),
    ],
)
def test_nothing_printed_holds_a_control_character(command, write_jsonl, tmp_path, line):
    table = write_jsonl(
        [{"output_id": NASTY, "context_id": "story-01", "output": NASTY, "score": 2, NASTY: 1}]
    )
    config = tmp_path / "config.toml"
    config.write_text('[score]\nformat = "a\\u202e\\u001b[31m"\n')
    folder = tmp_path / "set"
    own, task = tmp_path / "own.csv", tmp_path / "task.toml"
    own.write_text(
        f"context_id,context,output\nc{NASTY},Say {NASTY}.,Text {NASTY}.\n", encoding="utf-8"
    )
    task.write_text(
        'task = "dialogue"\n[[dimensions]]\nname = "good"\ndescription = "It is \\u202e good."\nlow = 1\nhigh = 5\n'
    )
    if "{set}" in line:
        made = command(
            "build",
            "own",
            "--source",
            own,
            "--task-file",
            task,
            "--writer",
            "builtin",
            "--out",
            folder,
            "--rungs",
            "2",
        )
        assert made.code == 0, made.err
    out = tmp_path / f"out{NASTY}.jsonl"
    done = command(*(word.format(table=table, config=config, out=out, set=folder) for word in line))
    for text in (
        (done.out, done.err) if line[:2] != ("score", "{table}") or "{out}" in line else (done.err,)
    ):
        assert printable(text) == text
    assert done.code in {0, 2, 3}
    assert done.out or done.err
