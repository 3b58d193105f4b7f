"""An output is none of the files that a command or a call reads, nor another of its outputs."""

from __future__ import annotations

import inspect
import os

import click
import pytest

import refladder
from refladder.commands import console
from refladder.commands import main as cli
from refladder.commands.frames import Frame
from refladder.errors import UsageError
from refladder.files.overwriting import _READ_BY, BACKENDS, OPTIONS, READ, WRITTEN, check_outputs

# Parameters with words that are no files, or with places that nothing is written to or read from by name.
NO_FILES = {
    "address", "backend", "base_url", "best", "by", "column", "columns", "context_id", "criteria",
    "dimension", "dimensions", "endpoint", "fail_if_worse", "folders", "good", "host", "id_column", "include",
    "kind", "label", "least", "licence", "memory", "message", "method_options", "methods", "most", "name",
    "option", "options",
    "per", "prompt_text", "reference", "repository", "rule", "score_column", "shard", "systems", "tag", "task",
    "text", "top_by", "weight", "weights", "worst",
}  # fmt: skip
PREFIX = {"models": "m=scripted:", "model": "hf:"}


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


def texts_of(found):
    """The parameters of a command that take text or a path."""
    kinds = (click.Path, click.types.StringParamType)
    return [
        each
        for each in found.params
        if isinstance(each.type, kinds) and not getattr(each, "is_flag", False)
    ]


def written_by(name, parameter):
    return parameter in WRITTEN and (name.rpartition(" ")[2], parameter) not in _READ_BY


def value(parameter, path):
    name = parameter.name
    return (
        f"api_key_file={path}"
        if name in OPTIONS
        else f"{PREFIX.get(name, 'scripted:' * (name in BACKENDS))}{path}"
    )


def line(found, given):
    """A command line with these values, and something for each other parameter that must be there."""
    options, arguments = [], []
    for parameter in found.params:
        chosen = given.get(parameter.name)
        if chosen is None and not parameter.required:
            continue
        if chosen is None:
            chosen = (
                f"a-{parameter.name}"
                if isinstance(parameter.type, click.Path | click.types.StringParamType)
                else "1"
            )
        if isinstance(parameter, click.Argument):
            arguments.append(chosen)
        else:
            options += [parameter.opts[0], chosen]
    return [*options, "--", *arguments]


@pytest.mark.parametrize(
    ("name", "found"), [pytest.param(*each, id=each[0]) for each in commands()]
)
def test_every_output_of_every_command_is_checked(name, found, fails, tmp_path):
    assert isinstance(found, console.Command), "a command is made with cls=console.Command"
    parameters = texts_of(found)
    unknown = {each.name for each in parameters} - READ - WRITTEN - NO_FILES
    assert not unknown, (
        "name them in refladder.files.overwriting, or in NO_FILES where they are no files"
    )
    path = tmp_path / "file.jsonl"
    path.write_text("{}\n")
    outputs = [each for each in parameters if written_by(name, each.name)]
    others = [each for each in parameters if each.name in READ | WRITTEN]
    for output in outputs:
        for other in others:
            if other is output or {output.name, other.name} == {"figures", "work"}:
                continue
            given = {output.name: str(path), other.name: value(other, path)}
            told = fails(2, *name.split(), *line(found, given))
            assert told.startswith(f"refladder: {path}: "), told
            assert told.endswith("must be different files\n"), told
            assert path.read_text() == "{}\n"


def calls():
    for name in dir(refladder):
        found = getattr(refladder, name)
        if inspect.isfunction(found) and WRITTEN & set(inspect.signature(found).parameters):
            yield name, found


@pytest.mark.parametrize(("name", "found"), [pytest.param(*each, id=each[0]) for each in calls()])
def test_every_output_of_every_call_is_checked(name, found, tmp_path):
    path = tmp_path / "file.jsonl"
    path.write_text("{}\n")
    parameters = inspect.signature(found).parameters
    needed = {each.name: "x" for each in parameters.values() if each.default is each.empty}
    for output in filter(lambda each: written_by(name, each), parameters):
        for other in READ & set(parameters):
            if other in OPTIONS:
                chosen = {"api_key_file": str(path)}
            else:
                chosen = f"{PREFIX.get(other, 'scripted:' * (other in BACKENDS))}{path}"
            with pytest.raises(UsageError, match=r"must be different files$"):
                found(**{**needed, output: path, other: chosen})
            assert path.read_text() == "{}\n"


def test_a_call_on_a_table_in_memory_is_checked_too(tmp_path):
    path = tmp_path / "threshold.json"
    path.write_text("{}\n")
    with pytest.raises(
        UsageError, match=r"threshold\.json: threshold and out must be different files$"
    ):
        refladder.filter([{"a_score": 1}], threshold=path, out=path)
    assert Frame([{"a": 1}]).names == ["a"]


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "table.jsonl"
    path.write_text("{}\n")
    return path


@pytest.mark.parametrize(
    "target",
    [
        "table.jsonl",
        "./x/../table.jsonl",
        "symbolic.jsonl",
        "chain.jsonl",
        "hard.jsonl",
        "linked/table.jsonl",
        "file://{folder}/table.jsonl",
        "{folder}/table.jsonl",
    ],
)
@pytest.mark.parametrize(
    "source",
    ["table.jsonl", "tab*.jsonl", "[t]able.jsonl", "**/table.jsonl", "file://{folder}/table.jsonl"],
)
def test_a_file_is_the_same_under_every_name(table, source, target):
    folder = table.parent
    (folder / "x").mkdir()
    (folder / "symbolic.jsonl").symlink_to("table.jsonl")
    (folder / "chain.jsonl").symlink_to(folder / "symbolic.jsonl")
    os.link(table, folder / "hard.jsonl")
    (folder / "linked").symlink_to(folder)
    given = {"source": source.format(folder=folder), "out": target.format(folder=folder)}
    with pytest.raises(UsageError, match=r"--source and --out must be different files$"):
        check_outputs("filter", given)
    check_outputs(
        "filter", {**given, "out": str(folder / "x" / "table.jsonl")} if "*" not in source else {}
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"source": "set", "out": "set/new.csv"},
            "--out would be among the files of --source the next time",
        ),
        (
            {"source": "*.csv", "out": "new.csv"},
            "--out would be among the files of --source the next time",
        ),
        (
            {"ladders": "set", "out": "set/ladders.jsonl"},
            "--out would be among the files of --ladders",
        ),
        (
            {"ladders": "set", "out": "linked/contexts.jsonl"},
            "--out would be among the files of --ladders",
        ),
        ({"ladders": "set", "out": "set/scored.csv"}, None),
        (
            {"ladders": "set", "out": "set/data/ladders/0.parquet"},
            "--out would be among the files of --ladders",
        ),
        (
            {"prompts": "set", "out": "set/story/compare.md"},
            "--out would be among the files of --prompts",
        ),
        (
            {"judge": "hf:set", "out": "set/data/ladders/0.parquet"},
            "--out would be among the files of --judge",
        ),
        ({"run": "set", "page": "set/results.jsonl"}, "--page would be among the files of --run"),
        ({"run": "set", "page": "set/page.html"}, None),
        (
            {"table": "set/results.jsonl", "out": "set"},
            "results.jsonl: --table is among the files of --out; choose",
        ),
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
    ],
)
def test_the_files_of_folders(table, given, message):
    for name in (
        "ladders.jsonl",
        "contexts.jsonl",
        "results.jsonl",
        "story/compare.md",
        "data/ladders/0.parquet",
    ):
        (table.parent / "set" / name).parent.mkdir(parents=True, exist_ok=True)
        (table.parent / "set" / name).touch()
    (table.parent / "linked").symlink_to("set")
    (table.parent / "old.csv").touch()
    if message is None:
        check_outputs("compete", given)
        return
    with pytest.raises(UsageError, match=message):
        check_outputs("compete", given)


def test_what_is_written_or_read_beside_a_table_counts(table):
    beside = {"judgments_from": "a.jsonl.judgments.jsonl", "out": "a.jsonl"}
    check_outputs("score", beside)
    with pytest.raises(
        UsageError, match=r"a\.jsonl\.judgments\.jsonl: --source and --out must be different files$"
    ):
        check_outputs("score", {"source": "a.jsonl.judgments.jsonl", "out": "a.jsonl"})
    with pytest.raises(
        UsageError, match=r"a\.jsonl\.run\.json: --run and --page must be different files$"
    ):
        check_outputs("review", {"run": str(table.parent / "a.jsonl"), "page": "a.jsonl.run.json"})
    shipped = refladder.files.ladder_sets.find_folder("demo/story") / "ladders.jsonl"
    with pytest.raises(
        UsageError,
        match=r"--out would be among the files of --ladders the next time; choose another",
    ):
        check_outputs("score", {"ladders": "demo/story", "out": str(shipped)})


def test_the_file_of_options_is_read(table, fails):
    (table.parent / "options.toml").write_text("[filter]\nbest = 1\n")
    told = fails(2, "--config", "options.toml", "filter", "table.jsonl", "--out", "options.toml")
    assert told == "refladder: options.toml: --config-file and --out must be different files\n"
