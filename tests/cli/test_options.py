"""Options of the commands, and the configuration file that gives them."""

from __future__ import annotations

import json
import re

import click
import pytest

from refladder.commands.main import COMMANDS, command_of


def commands():
    return [command_of(name) for name in COMMANDS]


def options():
    return [
        (name, option)
        for name, command in zip(COMMANDS, commands(), strict=True)
        for option in command.params
        if isinstance(option, click.Option)
    ]


def test_every_option_is_described():
    assert [
        (name, option.opts)
        for name, option in options()
        if not (option.help or "").endswith(".")
        or option.name != option.name.lower()
        or not any(spelling.startswith("--") for spelling in option.opts)
    ] == []


def test_every_number_says_its_unit_or_what_it_counts():
    words = "unit|usd|tokens?|seed|rungs|times|fraction|share|number|count|second|character|judg|calls|most|0 to 1"
    numbers = (click.types.IntParamType, click.types.FloatParamType)
    assert [
        (name, option.opts, option.help)
        for name, option in options()
        if isinstance(option.type, numbers) and not re.search(words, option.help, re.IGNORECASE)
    ] == []


def test_no_command_declares_a_parameter_twice():
    for subject in commands():
        names = [name for parameter in subject.params for name in parameter.opts]
        assert len(names) == len(set(names))


def test_version(command):
    assert re.fullmatch(r"refladder, version \d+\.\d+\.\d+\n", command("--version").out)


@pytest.mark.parametrize("line", ["score t.jsonl --ladders demo/story", "build t.jsonl"])
def test_an_empty_path_to_write_is_refused(command, line):
    done = command(*line.split(), "--out", "")
    assert done.code == 2
    assert "Invalid value for '--out': the path is empty; name a file or folder" in done.err


@pytest.fixture
def config(tmp_path):
    """Write a configuration file; return its path."""

    def write(text):
        path = tmp_path / "refladder.toml"
        path.write_text(text)
        return path

    return write


def test_a_config_file_gives_the_options_that_are_not_on_the_line(
    command, config, stories, tmp_path
):
    out = tmp_path / "out.jsonl"
    path = config(
        f'[score]\nladders = "demo/story"\nrule = "hard-votes"\ndimension = ["coherence"]\nboth-orders = true\n'
        f'out = "{out}"\njson = true\n'
    )
    done = command(f"--config {path} score {stories}")
    assert done.code == 0
    assert json.loads(done.out)["signature"].endswith("|orders:2|rule:hard-votes|least-mass:0.05")
    stored = json.loads((tmp_path / "out.jsonl.run.json").read_text())["options"]
    chosen = (stored["rule"], stored["dimension"], stored["both_orders"])
    assert chosen == ("hard-votes", ["coherence"], True)
    out.with_name(f"{out.name}.judgments.jsonl").unlink()
    out.unlink()
    done = command(f"--config {path} score {stories} --rule ladder-sum")
    assert json.loads(done.out)["signature"].endswith("|rule:ladder-sum|least-mass:0.05")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            '[score]\nladder = "demo/story"\n',
            "unknown option in {path} [score] 'ladder'; did you mean 'ladders'? Known: ",
        ),
        ("[scores]\n", "unknown table in {path} 'scores'; did you mean 'score'? Known: "),
        ('score = "x"\n', "{path}: 'score' must be a table, [score], found 'x'"),
        ("[score\n", "{path}:1: not TOML ("),
    ],
)
def test_what_a_config_file_may_not_hold(fails, config, stories, text, message):
    path = config(text)
    told = fails(2, f"--config {path} score {stories}")
    assert told.startswith(f"refladder: {message.format(path=path)}")


@pytest.mark.parametrize("value", ['"demo/story"', '["demo/story"]'])
def test_one_value_of_an_option_that_can_be_repeated_is_a_list_of_one(
    command, config, tmp_path, value
):
    path = config(f"[evaluate]\nladders = {value}\n")
    assert command(f"--config {path} evaluate demo/story --work {tmp_path}/work").code == 0
    stored = json.loads((tmp_path / "work" / "run.json").read_text())
    assert stored["options"]["ladders"] == "demo/story"


def test_a_config_value_of_the_wrong_type(fails, config):
    path = config('[build]\nrungs = "five"\nout = "x"\n')
    message = "Invalid value for '--rungs': 'five' is not a valid integer range."
    assert message in fails(2, f"--config {path} build demo/story")


def test_a_config_file_that_is_not_there(fails):
    assert fails(2, "--config none.toml list") == "refladder: none.toml: no such file\n"


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("benchmarks", "hanna"),
        ("ladders", "demo/story"),
        ("backends", "builtin"),
        ("rules", "ladder-sum"),
        ("methods", "ladder"),
        ("prompts", "story/compare"),
    ],
)
def test_list_names_what_other_commands_take(command, kind, name):
    rows = command(f"list {kind} --json").rows
    assert {row["kind"] for row in rows} == {kind}
    assert name in [row["name"] for row in rows]
    assert all(row["about"] and "plug-in of" not in row["about"] for row in rows)
    assert name in command(f"list {kind}").out
