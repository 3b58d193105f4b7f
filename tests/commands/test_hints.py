"""What messages and lists advise: packages that an index has, options that a benchmark takes, what help promises."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from refladder import registry
from refladder.loaders import BENCHMARKS, load_benchmark

REPOSITORY = Path(__file__).parents[2]
EXTRA = "refladder" + "["  # an extra of a package that no index has


def test_no_hint_names_an_extra_of_a_package_that_no_index_has():
    files = [*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").glob("*.md")]
    files += [
        path
        for name in ("refladder", "tests", "bench")
        for path in (REPOSITORY / name).rglob("*.py")
    ]
    assert len(files) > 100
    assert [str(path) for path in files if EXTRA in path.read_text(encoding="utf-8")] == []


@pytest.mark.parametrize("name", BENCHMARKS)
def test_options_of_a_benchmark_are_listed(command, name):
    load = registry.find("benchmark", name, BENCHMARKS)
    given_otherwise = {
        "source",
        "task_file",
        "columns",
        "dimensions",
    }  # by options of the command line of their own
    wanted = [
        option for option in inspect.signature(load).parameters if option not in given_otherwise
    ]
    about = next(
        row["about"] for row in command("list", "benchmarks", "--json").rows if row["name"] == name
    )
    assert re.findall(r"--option (\w+)=", about) == wanted


def test_methods_beside_scores(command, tmp_path):
    """The help of --methods says when the ladder runs; each of its cases."""
    words = " ".join(command("evaluate", "--help").out.split())
    assert (
        "Default: ladder; none with --scores unless --judge, --writer or --ladders is given."
        in words
    )
    path = tmp_path / "mine.csv"
    outputs = load_benchmark("demo/story").outputs
    path.write_text(
        "output_id,score\n" + "".join(f"{output.id},{len(output.text)}\n" for output in outputs)
    )
    evaluate = ("evaluate", "demo/story", "--resamples", "5", "--json")
    for options, runs in [
        ((), True),
        (("--scores", path), False),
        (("--scores", path, "--judge", "builtin"), True),
        (("--scores", path, "--writer", "builtin"), True),
        (("--scores", path, "--ladders", "demo/story"), True),
        (("--scores", path, "--methods", "ladder"), True),
    ]:
        done = command(*evaluate, *options)
        assert done.code == 0, done.err
        assert ("ladder" in {row["method"] for row in done.rows}) == runs, options


@pytest.mark.parametrize("command_name", ["build", "evaluate", "export"])
def test_a_path_as_a_benchmark_says_what_is_missing(fails, tmp_path, command_name):
    path = tmp_path / "pc.jsonl"
    path.write_text('{"context": "a", "output": "b"}\n')
    out = () if command_name == "evaluate" else ("--out", tmp_path / "out")
    assert fails(2, command_name, path, *out) == (
        f"refladder: {path}: a table of your own needs its task and dimensions; add --task-file TASK.toml\n"
    )
    assert fails(2, command_name, path, "--source", "other.csv", *out) == (
        f"refladder: {path} is a table, and --source other.csv is another; give one of them\n"
    )
    none = tmp_path / "none.jsonl"
    assert (
        fails(2, command_name, none, "--task-file", "t", *out)
        == f"refladder: {none}: no such file\n"
    )
    assert fails(2, command_name, "sumeval", *out).startswith(
        "refladder: unknown benchmark or file 'sumeval'; did you mean 'summeval'? Known: "
    )


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        *(
            (name, f"openai:{name}")
            for name in ("gpt-4o", "o3-mini", "claude-sonnet-4", "gemini-2.0-flash", "llama3:8b")
        ),
        *((name, f"hf:{name}") for name in ("Qwen/Qwen3-8B", "meta-llama/Llama-3.1-8B-Instruct")),
        ("build-in", "builtin"),
        ("script", "scripted"),
    ],
)
def test_the_name_of_a_model_alone_says_what_to_put_before_it(command, tmp_path, name, meant):
    told = f"refladder: unknown backend {name!r}; did you mean {meant!r}? Known: builtin, hf, openai, reward, scripted"
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"context_id": "story-01", "output": "Rain."}\n')
    for line in (
        ("score", rows, "--ladders", "demo/story", "--judge", name),
        ("build", "demo/story", "--out", tmp_path / "set", "--writer", name),
    ):
        done = command(*line)
        assert (done.code, done.err.strip()) == (2, told)


def test_what_is_no_model_gets_no_kind(fails):
    message = fails(2, "audit", "--ladders", "demo/story", "--judge", "zzz")
    assert (
        message
        == "refladder: unknown backend 'zzz'; Known: builtin, hf, openai, reward, scripted\n"
    )


def test_a_file_of_a_set_names_its_folder(command, fails, tmp_path):
    assert command("build", "demo/story", "--out", tmp_path / "set", "--rungs", "2").code == 0
    path = tmp_path / "set" / "ladders.jsonl"
    told = (
        f"refladder: {path}: a file, and a ladder set is a folder; name the folder, {path.parent}\n"
    )
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"context_id": "story-01", "output": "Rain."}\n')
    for line in (
        ("show", path),
        ("score", rows, "--ladders", path),
        ("certify", path),
        ("diff", path, "demo/story"),
    ):
        assert fails(2, *line) == told


def test_a_wrong_ladder_set_stops_before_judging_and_names_the_contexts(command, write_jsonl):
    rows = [{"context_id": f"mine-{k}", "output": f"Text {k}."} for k in range(5)]
    line = (
        "--ladders",
        "demo/story",
        "--dimension",
        "coherence",
        "--judge",
        "scripted:no-such-file",
    )
    path = write_jsonl(rows)
    done = command("score", path, *line)
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        f"refladder: {path}: no row has a ladder; there is none for context 'mine-0', 'mine-1', 'mine-2', ... in "
        "demo/story, which has 'story-01', 'story-02', 'story-03', ...; name the right --ladders\n"
    )
    path = write_jsonl([*rows[:2], {"context_id": "story-01", "output": "Rain."}])
    done = command("score", path, *line[:4])
    assert done.code == 3
    assert done.err.splitlines()[0] == (
        "no ladder for 2 of 3 rows: there is none for context 'mine-0', 'mine-1' in demo/story, which has "
        "'story-01', 'story-02', 'story-03', ..."
    )
