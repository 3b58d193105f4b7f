"""Help: headings, the usual options first, examples that parse, and nothing that is lost; and --quiet."""

from __future__ import annotations

import json
import re
import shlex

import click
import pytest

from refladder.backends.builtin import NOTICE
from refladder.cli import console
from refladder.cli.options import Command
from refladder.commands import main
from refladder.commands.main import COMMANDS, cli

EVERY = [*COMMANDS]
EVERY += [f"store {name}" for name in main.command_of("store").commands]
SCORE = "score {stories} --ladders demo/story --out {out}"


def command_of(name):
    first, _, second = name.partition(" ")
    subject = main.command_of(first)
    return subject.commands[second] if second else subject


def options_of(name):
    return {each.opts[0] for each in command_of(name).params if isinstance(each, click.Option)}


def options_in(text):
    """The first names of the options that help describes: those that begin a line, indented by two."""
    found = re.findall(r"^  (?:-h, )?(--[a-z-]+)", text, re.MULTILINE)
    return {name for name in found if name != "--help"}


def test_help_of_every_command(command):
    for name in COMMANDS:
        done = command(f"{name} --help")
        assert (done.code, done.err) == (0, "")
        assert done.out.startswith(f"Usage: refladder {name} ")
        assert command(f"{name} -h").out == done.out


def test_without_arguments_the_help_is_shown(command):
    done = command()
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("Usage: refladder [OPTIONS] COMMAND [ARGS]...")


def test_commands_are_under_headings_of_their_own_with_a_line_each(command):
    text = command("--help").out
    parts = dict(re.findall(r"^([A-Z][a-z ]+):\n((?:  .*\n)+)", text, re.MULTILINE))
    del parts["Options"]
    assert len(parts) >= 4
    listed = [line.split(maxsplit=1) for part in parts.values() for line in part.splitlines()]
    assert sorted(listed) == [[name, command_of(name).short_help] for name in COMMANDS]
    assert "Commands:" not in text


def test_the_help_of_score_is_short(command):
    lines = command("score --help").out.splitlines()
    assert len(lines) <= 75
    assert len(command("score --help-all").out.splitlines()) <= 128
    assert len(options_of("score")) <= 38  # 36 parameters of click, --help and --quiet
    assert "More options: refladder score --help-all" in lines


@pytest.mark.parametrize("name", EVERY)
def test_help_all_shows_every_option_and_help_says_that_there_are_more(command, name):
    short = command(f"{name} --help").out
    hidden = options_of(name) - options_in(short)
    assert (f"\nMore options: refladder {name} --help-all\n" in short) == bool(hidden)
    done = command(f"{name} --help-all")
    assert (done.code, done.err) == (0, "")
    assert options_in(done.out) == options_of(name) | {"--help-all"}
    assert options_in(short) == options_in(done.out) - hidden
    assert "More options" not in done.out


@pytest.mark.parametrize("name", EVERY)
def test_every_command_has_examples_that_parse(command, name):
    _, _, examples = command(f"{name} --help").out.partition("\nExamples:\n")
    lines = examples.replace("\\\n", " ").splitlines()
    assert lines
    for line in lines:
        program, *words = shlex.split(line)
        assert program == "refladder"
        assert line.split()[1:][: len(name.split())] == name.split()
        context = cli.make_context("refladder", words)
        while isinstance(context.command, click.Group):
            given = [*context._protected_args, *context.args]
            found, subject, rest = context.command.resolve_command(context, given)
            context = subject.make_context(found, rest, parent=context)
        assert context.command is command_of(" ".join(words[: 1 + (words[0] == "store")]))


@pytest.mark.parametrize("name", ["", *EVERY])
def test_no_word_is_broken_or_lost_in_60_columns_and_no_line_is_wider_than_100(
    command, monkeypatch, name
):
    texts = []
    for columns, width in ((60, 60), (200, 100)):
        monkeypatch.setenv("COLUMNS", str(columns))
        option = "--help-all" if "--help-all" in command(f"{name} --help").out else "--help"
        texts.append(command(f"{name} {option}").out)
        assert max(map(len, texts[-1].splitlines())) <= width
    narrow, wide = (text.replace("\\\n", " ").split() for text in texts)
    assert narrow == wide
    assert not name or max(map(len, texts[-1].splitlines())) > 80  # the width is used


def test_a_long_example_is_continued_as_a_shell_reads_it(command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    examples = command("compete --help").out.partition("\nExamples:\n")[2]
    assert len(examples.splitlines()) > 2
    words = shlex.split(examples)  # a backslash before the end of a line joins two lines
    assert words[words.index("--criterion") + 1] == "clear=easy to follow"
    assert words[-2:] == ["--out", "contest"]


def test_quiet_leaves_out_notices_and_counts(command, stories, tmp_path):
    told, out = tmp_path / "told.jsonl", tmp_path / "out.jsonl"
    line = SCORE.format(stories=stories, out=out)
    done = command(SCORE.format(stories=stories, out=told))
    assert NOTICE in done.err
    assert "scores missing" in done.err
    done = command(f"{line} --quiet")
    assert (done.code, done.out, done.err) == (0, "", "")
    assert out.read_bytes() == told.read_bytes()
    assert "quiet" not in json.loads((tmp_path / "out.jsonl.run.json").read_text())["options"]
    config = tmp_path / "refladder.toml"
    config.write_text("[score]\nquiet = true\n")
    assert command(f"--config {config} {line}").err == ""
    done = command(f"filter {out} --min coherence_score=-99 --quiet")
    assert (done.code, done.err) == (0, "")
    assert done.out


def test_quiet_keeps_missing_scores_results_and_errors(command, fails, write_jsonl, tmp_path):
    rows = [{"context_id": "story-01", "output": text} for text in ("A text.", "")]
    source, out = write_jsonl(rows), tmp_path / "out.jsonl"
    done = command(f"{SCORE.format(stories=source, out=out)} --quiet")
    assert done.code == 3
    # An empty text has no score on either dimension.
    assert done.err.startswith("2 rows, 2 scores missing; ")
    assert command("show demo/story --quiet").out == command("show demo/story").out != ""
    assert fails(2, f"filter {source} --min score=1 --quiet").startswith(f"refladder: {source}")
    done = command(f"filter {out} --min coherence_score=99 --quiet")
    assert "no row passes" in done.err


def test_quiet_goes_with_many_files_and_students(fails, stories, tmp_path):
    line = f"{SCORE.format(stories=stories, out=tmp_path / 'out')} --quiet"
    assert "--shard '3/2': must be I/N" in fails(2, f"{line} --shard 3/2")
    assert "--quiet" not in fails(2, f"{line} --judge distilled:{tmp_path}")


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
