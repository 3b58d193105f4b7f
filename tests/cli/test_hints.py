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
    files += [path for name in ("refladder", "tests", "bench") for path in (REPOSITORY / name).rglob("*.py")]
    assert len(files) > 100
    assert [str(path) for path in files if EXTRA in path.read_text(encoding="utf-8")] == []


@pytest.mark.parametrize("name", BENCHMARKS)
def test_options_of_a_benchmark_are_listed(command, name):
    load = registry.find("benchmark", name, BENCHMARKS)
    given_otherwise = {"source", "task_file", "columns", "dimensions"}  # by options of the command line of their own
    wanted = [option for option in inspect.signature(load).parameters if option not in given_otherwise]
    about = next(row["about"] for row in command("list", "benchmarks", "--json").rows if row["name"] == name)
    assert re.findall(r"--option (\w+)=", about) == wanted


def test_methods_beside_scores(command, tmp_path):
    """The help of --methods says when the ladder runs; each of its cases."""
    words = " ".join(command("evaluate", "--help").out.split())
    assert "Default: ladder; none with --scores unless --judge, --writer or --ladders is given." in words
    path = tmp_path / "mine.csv"
    outputs = load_benchmark("demo/story").outputs
    path.write_text("output_id,score\n" + "".join(f"{output.id},{len(output.text)}\n" for output in outputs))
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
