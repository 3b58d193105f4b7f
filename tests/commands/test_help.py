"""Help: headings, the usual options first, examples that parse, and nothing that is lost; and --quiet."""

from __future__ import annotations

import json
import re
import shlex
from importlib import import_module

import click

from refladder.backends.builtin import NOTICE
from refladder.commands import console
from refladder.commands.main import COMMANDS, cli
from refladder.commands.options import Command

EVERY = [*((name,) for name in COMMANDS)]
EVERY += [("store", name) for name in import_module("refladder.commands.store").command.commands]
LADDERS = ("--ladders", "demo/story")


def command_of(names):
    subject = import_module(f"refladder.commands.{names[0]}").command
    return subject.commands[names[1]] if len(names) > 1 else subject


def options_of(names):
    return {each.opts[0] for each in command_of(names).params if isinstance(each, click.Option)}


def options_in(text):
    """The first names of the options that help describes: those that begin a line, indented by two."""
    return {
        name
        for name in re.findall(r"^  (?:-h, )?(--[a-z-]+)", text, re.MULTILINE)
        if name != "--help"
    }


def test_commands_are_under_headings_of_their_own(command):
    text = command("--help").out
    parts = dict(re.findall(r"^([A-Z][a-z ]+):\n((?:  .*\n)+)", text, re.MULTILINE))
    del parts["Options"]
    assert len(parts) >= 4
    listed = [line.split()[0] for part in parts.values() for line in part.splitlines()]
    assert sorted(listed) == sorted(COMMANDS)
    assert "Commands:" not in text


def test_the_help_of_score_is_short(command):
    lines = command("score", "--help").out.splitlines()
    assert len(lines) <= 75
    assert len(command("score", "--help-all").out.splitlines()) <= 125
    assert len(options_of(["score"])) <= 38  # 36 parameters of click, --help and --quiet
    assert "More options: refladder score --help-all" in lines


def test_help_all_shows_every_option_and_help_says_that_there_are_more(command):
    for names in EVERY:
        short = command(*names, "--help").out
        hidden = options_of(names) - options_in(short)
        more = f"\nMore options: refladder {' '.join(names)} --help-all\n"
        assert (more in short) == bool(hidden)
        done = command(*names, "--help-all")
        assert (done.code, done.err) == (0, "")
        assert options_in(done.out) == options_of(names) | {"--help-all"}
        assert options_in(short) == options_in(done.out) - hidden
        assert "More options" not in done.out


def test_every_command_has_examples_that_parse(command):
    for names in EVERY:
        _, heading, examples = command(*names, "--help").out.partition("\nExamples:\n")
        lines = examples.replace("\\\n", " ").splitlines()
        assert heading
        assert lines
        for line in lines:
            program, *words = shlex.split(line)
            assert program == "refladder"
            assert tuple(words[: len(names)]) == names
            context = cli.make_context("refladder", words)
            while isinstance(context.command, click.Group):
                name, subject, rest = context.command.resolve_command(
                    context, [*context._protected_args, *context.args]
                )
                context = subject.make_context(name, rest, parent=context)
            assert context.command is command_of(
                tuple(words[:2]) if words[0] == "store" else tuple(words[:1])
            )


def test_no_word_is_broken_or_lost_in_60_columns(command, monkeypatch):
    for names in ((), *EVERY):
        texts = []
        for width in (60, 100):
            monkeypatch.setenv("COLUMNS", str(width))
            option = "--help-all" if "--help-all" in command(*names, "--help").out else "--help"
            texts.append(command(*names, option).out)
            assert max(map(len, texts[-1].splitlines())) <= width, names
        narrow, wide = (text.replace("\\\n", " ").split() for text in texts)
        assert narrow == wide, names


def test_a_long_example_is_continued_as_a_shell_reads_it(command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    examples = command("compete", "--help").out.partition("\nExamples:\n")[2]
    assert len(examples.splitlines()) > 2
    words = shlex.split(examples)  # a backslash before the end of a line joins two lines
    assert words[words.index("--criterion") + 1] == "clear=easy to follow"
    assert words[-2:] == ["--out", "contest"]


def test_quiet_leaves_out_notices_and_counts(command, stories, tmp_path):
    told = command("score", stories, *LADDERS, "--out", tmp_path / "told.jsonl")
    assert NOTICE in told.err
    assert "scores missing" in told.err
    done = command("score", stories, *LADDERS, "--out", tmp_path / "out.jsonl", "--quiet")
    assert (done.code, done.out, done.err) == (0, "", "")
    assert (tmp_path / "out.jsonl").read_bytes() == (tmp_path / "told.jsonl").read_bytes()
    assert "quiet" not in json.loads((tmp_path / "out.jsonl.run.json").read_text())["options"]
    config = tmp_path / "refladder.toml"
    config.write_text("[score]\nquiet = true\n")
    again = ("score", stories, *LADDERS, "--out", tmp_path / "out.jsonl")
    assert command("--config", config, *again).err == ""
    done = command("filter", tmp_path / "out.jsonl", "--min", "coherence_score=-99", "--quiet")
    assert (done.code, done.err) == (0, "")
    assert done.out


def test_quiet_keeps_missing_scores_results_and_errors(command, fails, write_jsonl, tmp_path):
    rows = write_jsonl(
        [{"context_id": "story-01", "output": "A text."}, {"context_id": "story-01", "output": ""}]
    )
    done = command("score", rows, *LADDERS, "--out", tmp_path / "out.jsonl", "--quiet")
    assert done.code == 3
    assert done.err.startswith(
        "2 rows, 2 scores missing; "
    )  # an empty text has no score on either dimension
    assert command("show", "demo/story", "--quiet").out == command("show", "demo/story").out != ""
    assert fails(2, "filter", rows, "--min", "score=1", "--quiet").startswith(f"refladder: {rows}")
    done = command("filter", tmp_path / "out.jsonl", "--min", "coherence_score=99", "--quiet")
    assert "no row passes" in done.err


def test_quiet_goes_with_many_files_and_students(fails, stories, tmp_path):
    given = ("score", stories, *LADDERS, "--out", tmp_path / "out", "--quiet")
    assert "--shard '3/2': must be I/N" in fails(2, *given, "--shard", "3/2")
    message = fails(2, *given, "--judge", f"distilled:{tmp_path}")
    assert "--quiet" not in message


def test_quiet_shows_no_progress():
    with click.Context(command := Command("x"), info_name="x") as context:
        with console.progress("scoring") as bar:
            assert bar is not None
        (quiet,) = command.params
        assert quiet.process_value(context, "true") is None
        with console.progress("scoring") as bar:
            assert bar is None


def test_the_notice_of_builtin_has_ten_words():
    assert len(NOTICE.split()) == 10
