"""An output is none of the files that a command or a call reads, nor another of its outputs."""

from __future__ import annotations

import inspect
import os
from importlib import import_module
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import refladder
from refladder.cli import overwriting
from refladder.cli.options import Command, options, options_of
from refladder.commands import main as cli
from refladder.commands import score
from refladder.errors import UsageError
from refladder.files.frames import Frame
from refladder.options import OPTIONS, Option, under

PREFIX = {
    "models": "m=scripted:",
    "judge_option": "api_key_file=",
    "writer_option": "api_key_file=",
}


def leaves(name, found):
    if isinstance(found, click.Group):
        for each in found.commands.values():
            yield from leaves(f"{name} {each.name}", each)
    else:
        yield name, found


def commands():
    context = click.Context(cli.cli)
    for name in cli.COMMANDS:
        yield from leaves(name, cli.cli.get_command(context, name))


def value(option, path):
    return f"{PREFIX.get(option.name, 'scripted:' if option.reads == 'backend' else '')}{path}"


def line(found, given):
    """A command line with these values, and something for each other parameter that must be there."""
    options, arguments = [], []
    for parameter in found.params:
        chosen = given.get(parameter.name)
        if chosen is None and parameter.required:
            is_text = isinstance(parameter.type, click.Path | click.types.StringParamType)
            chosen = f"a-{parameter.name}" if is_text else "1"
        if chosen is None:
            continue
        if isinstance(parameter, click.Argument):
            arguments.append(chosen)
        else:
            options += [parameter.opts[0], chosen]
    return [*options, "--", *arguments]


def files_of(found):
    return [each for each in options_of(found) if each.reads or each.writes]


def test_every_option_that_takes_a_path_has_a_role():
    paths = {"BACKEND", "FILE", "NAME=BACKEND", "PATH", "SET", "TABLE", "THRESHOLD"}
    assert [
        (name, option.flag)
        for name, found in commands()
        for option in options_of(found)
        if (option.type is Path or option.metavar in paths) and not (option.reads or option.writes)
    ] == []


@pytest.mark.parametrize(
    ("name", "found"), [pytest.param(*each, id=each[0]) for each in commands()]
)
def test_every_output_of_every_command_is_checked(name, found, fails, tmp_path):
    assert isinstance(found, Command), "a command is made with cls=Command"
    assert len(options_of(found)) == len(found.params), "options are made with @options"
    path = tmp_path / "file.jsonl"
    path.write_text("{}\n")
    for output in (each for each in files_of(found) if each.writes):
        for other in files_of(found):
            if other is output or output.writes == other.writes == "folder":
                continue
            given = {output.name: str(path), other.name: value(other, path)}
            told = fails(2, *name.split(), *line(found, given))
            assert told.startswith(f"refladder: {path}: "), told
            assert told.endswith("must be different files\n"), told
            assert path.read_text() == "{}\n"


def test_a_new_path_option_is_checked_without_being_named_anywhere_else(tmp_path):
    new = under("Options", sketch=Option("A sketch.", type=Path, writes="file"))

    @click.command(cls=Command)
    @options("source", *new.values())
    def command(**_):
        pytest.fail("the command ran")

    path = str(tmp_path / "rows.jsonl")
    done = CliRunner().invoke(command, [path, "--sketch", path])
    assert isinstance(done.exception, UsageError)
    assert str(done.exception) == f"{path}: SOURCE and --sketch must be different files"

    @command.call
    def draw(table, *, sketch=None):
        pytest.fail(f"the call ran with {table} and {sketch}")

    with pytest.raises(UsageError, match=r"the table and sketch must be different files$"):
        draw(path, sketch=path)


def calls():
    for name in dir(refladder):
        found = getattr(refladder, name)
        if inspect.isfunction(found) and found.__module__.startswith("refladder.commands."):
            files = files_of(import_module(found.__module__).command)
            parameters = inspect.signature(found).parameters
            if any(each.writes and each.name in parameters for each in files):
                yield pytest.param(found, files, id=name)


@pytest.mark.parametrize(("found", "files"), list(calls()))
def test_every_output_of_every_call_is_checked(found, files, tmp_path):
    path = tmp_path / "file.jsonl"
    path.write_text("{}\n")
    parameters = inspect.signature(found).parameters
    kinds = {"Mapping[str, str]": {}, "Mapping[str, str | Backend]": {}, "float": 0.5}
    needed = {
        each.name: kinds.get(each.annotation, "x")
        for each in parameters.values()
        if each.default is each.empty
    }
    files = [(name, each) for each in files for name in {*each.names} & {*parameters}]
    checked = 0
    for output in (name for name, each in files if each.writes):
        for other, option in ((name, each) for name, each in files if each.reads):
            text = value(option, path)
            chosen = {"key": text} if option.pairs else text
            if parameters[other].annotation.startswith("Sequence"):
                chosen = [text]
            with pytest.raises(UsageError, match=r"must be different files$"):
                found(**{**needed, output: path, other: chosen})
            assert path.read_text() == "{}\n"
            checked += 1
    assert checked


def test_a_call_on_a_table_in_memory_is_checked_too(tmp_path):
    path = tmp_path / "threshold.json"
    path.write_text("{}\n")
    with pytest.raises(
        UsageError, match=r"threshold\.json: threshold and out must be different files$"
    ):
        refladder.filter([{"a_score": 1}], threshold=path, out=path)
    assert Frame([{"a": 1}]).names == ["a"]


def check_outputs(given, **others):
    """Check values of options by their keys in the table; `others` are options that are not in it."""
    overwriting.check_outputs(
        overwriting.Named(
            option := others.get(name) or OPTIONS[name], given[name], f"--{option.name}"
        )
        for name in given
    )


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "table.jsonl"
    path.write_text("{}\n")
    return path


def test_a_file_is_the_same_under_every_name(table):
    folder = table.parent
    (folder / "x").mkdir()
    (folder / "symbolic.jsonl").symlink_to("table.jsonl")
    (folder / "chain.jsonl").symlink_to(folder / "symbolic.jsonl")
    os.link(table, folder / "hard.jsonl")
    (folder / "linked").symlink_to(folder)
    url = f"file://{folder}/table.jsonl"
    sources = ["table.jsonl", "tab*.jsonl", "[t]able.jsonl", "**/table.jsonl", url]
    targets = ["table.jsonl", "./x/../table.jsonl", "symbolic.jsonl", "chain.jsonl", "hard.jsonl"]
    for source in sources:
        for target in [*targets, "linked/table.jsonl", url, f"{folder}/table.jsonl"]:
            with pytest.raises(UsageError, match=r"--source and --out must be different files$"):
                check_outputs({"source": source, "out": target})
        if "*" not in source:
            check_outputs({"source": source, "out": str(folder / "x" / "table.jsonl")})


FOLDERS = [
    ({"source": "set", "out": "set/new.csv"}, "--out would be among the files of --source the next"),
    ({"source": "*.csv", "out": "new.csv"}, "--out would be among the files of --source the next"),
    ({"ladders": "set", "out": "set/ladders.jsonl"}, "--out would be among the files of --ladders"),
    ({"ladders": "set", "out": "linked/contexts.jsonl"}, "--out would be among the files of --ladders"),
    ({"ladders": "set", "out": "set/scored.csv"}, None),
    ({"ladders": "set", "out": "set/data/ladders/0.parquet"}, "--out would be among the files of --ladders"),
    ({"prompts": "set", "out": "set/story/compare.md"}, "--out would be among the files of --prompts"),
    ({"judge": "hf:set", "out": "set/data/ladders/0.parquet"}, "--out would be among the files of --judge"),
    ({"run": "set", "page": "set/results.jsonl"}, "--page would be among the files of --run"),
    ({"run": "set", "page": "set/page.html"}, None),
    ({"table": "set/results.jsonl", "out": "set"}, "results.jsonl: --table is among the files of --out; choose"),
    ({"table": "set/rows.csv", "out": "set"}, None),
    ({"source": "set", "out": "set"}, "set: --source and --out must be different files"),
    ({"work": "set", "figures": "set"}, None),
    ({"work": "set", "page": "set/run.json"}, "run.json: --page would be"),
    ({"source": "-", "out": "-"}, None),
    ({"out": os.devnull, "rejected": os.devnull}, None),
    ({"out": "a", "rejected": "a"}, "a: --out and --rejected must be different files"),
    ({"out": "a", "unscored": "drop", "source": "drop"}, None),
    ({"source": "s3://b/a.jsonl", "out": "a.jsonl"}, None),
    ({"ladders": "demo/story", "judge": "builtin", "out": "demo/story/ladders.jsonl"}, None),
]  # fmt: skip


@pytest.mark.parametrize(("given", "message"), FOLDERS)
def test_the_files_of_folders(table, given, message):
    files = ("ladders.jsonl", "contexts.jsonl", "results.jsonl", "story/compare.md")
    for name in (*files, "data/ladders/0.parquet"):
        (table.parent / "set" / name).parent.mkdir(parents=True, exist_ok=True)
        (table.parent / "set" / name).touch()
    (table.parent / "linked").symlink_to("set")
    (table.parent / "old.csv").touch()
    if message is None:
        check_outputs(given)
        return
    with pytest.raises(UsageError, match=message):
        check_outputs(given)


def test_what_is_written_or_read_beside_a_table_counts(table):
    (out,) = (each for each in options_of(score.command) if each.name == "out")
    judgments = "a.jsonl.judgments.jsonl"
    check_outputs({"judgments_from": judgments, "out": "a.jsonl"}, out=out)
    shipped = refladder.files.ladder_sets.find_folder("demo/story") / "ladders.jsonl"
    for given, message in (
        (
            {"source": judgments, "out": "a.jsonl"},
            r"a\.jsonl\.judgments\.jsonl: --source and --out must be different files$",
        ),
        (
            {"run": str(table.parent / "a.jsonl"), "page": "a.jsonl.run.json"},
            r"a\.jsonl\.run\.json: --run and --page must be different files$",
        ),
        (
            {"ladders": "demo/story", "out": str(shipped)},
            r"--out would be among the files of --ladders the next time; choose another",
        ),
    ):
        with pytest.raises(UsageError, match=message):
            check_outputs(given, out=out)


def test_the_file_of_options_is_read(table, fails):
    (table.parent / "options.toml").write_text("[filter]\nbest = 1\n")
    told = fails(2, "--config", "options.toml", "filter", "table.jsonl", "--out", "options.toml")
    assert told == "refladder: options.toml: --config and --out must be different files\n"


@pytest.mark.parametrize("end", [".run.json", ".judgments.jsonl"])
@pytest.mark.parametrize("words", ["pairs --margin 1", "filter --min x_score=0"])
def test_the_files_beside_a_scored_table_are_not_overwritten(table, fails, words, end):
    table.write_text('{"output_id": "a", "context_id": "c", "x_score": 1}\n')
    beside = table.with_name(table.name + end)
    beside.write_text("{}\n")
    told = fails(2, f"{words} {table} --out {beside}")
    assert "SOURCE and --out must be different files" in told
    assert beside.read_text() == "{}\n"


def test_the_configuration_beside_rescored_rows_is_an_output_too(fails, table):
    record = table.with_name("out.jsonl.run.json")
    told = fails(2, f"rescore {record} --out {table.with_name('out.jsonl')}")
    assert f"{record}: JUDGMENTS and --out must be different files" in told
