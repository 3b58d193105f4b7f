"""Fixtures of more than one folder: the command line run in this process or in one of its own, and small inputs."""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest

from refladder.backends.builtin import NOTICE
from refladder.cli import console
from refladder.commands.main import run as run_command
from refladder.display import progress

REPOSITORY = Path(__file__).parents[1]
SETTINGS = re.compile(
    r"(OPENAI|REFLADDER|HF|AWS)_(?!TEST_)|(all|https?|no)_proxy$|(NO|FORCE)_COLOR$|CLICOLOR|COLUMNS$|LINES$",
    re.IGNORECASE,
)

# The files that take longest, longest first: they run first, so that no process is left alone with one at the end.
# `make slowest` measures them.
SLOWEST = REPOSITORY / "tests" / "slowest.txt"
MOST_SLOWEST = 20

with suppress(ImportError):  # the tests with other packages do without
    from hypothesis import HealthCheck, settings

    # The same examples each time, however long they take.
    settings.register_profile(
        "steady",
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile("steady")


def pytest_addoption(parser):
    parser.addoption("--record-slowest", action="store_true", help=f"write {SLOWEST.name}")


def pytest_collection_modifyitems(items):
    ranks = {REPOSITORY / name: rank for rank, name in enumerate(SLOWEST.read_text().split())}
    # What is not listed keeps its order.
    items.sort(key=lambda item: ranks.get(item.path, len(ranks)))


def pytest_terminal_summary(terminalreporter, config):
    """Write the files that took longest; with several processes, this runs in the one that has all reports."""
    if not config.getoption("--record-slowest"):
        return
    seconds = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if hasattr(report, "duration"):
                seconds[report.nodeid.partition("::")[0]] += report.duration
    # A file that this run skipped, as those of other packages, keeps its place.
    skipped = [name for name in SLOWEST.read_text().split() if name not in seconds]
    names = skipped + [name for name, _ in seconds.most_common(MOST_SLOWEST)]
    SLOWEST.write_text("".join(f"{name}\n" for name in names))


@pytest.fixture(scope="session", autouse=True)
def _nothing_of_the_user(tmp_path_factory):
    """No test depends on what the user has set or stored, or changes it."""
    with pytest.MonkeyPatch.context() as patch:
        for name in filter(SETTINGS.match, list(os.environ)):
            patch.delenv(name)
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("HF_HUB_OFFLINE", "1")  # as modules set it that read it earlier
        # Only a loss of power shows whether data are on the disk. The processes that tests start do wait for it.
        patch.setattr(os, "fsync", lambda _descriptor: None)
        # A slow machine would write lines of progress among the messages.
        patch.setattr(progress, "FIRST_LINE", 86400.0)
        yield


@pytest.fixture(autouse=True)
def _nothing_of_another_test(monkeypatch, tmp_path_factory):
    """No test depends on what another one has stored, such as the check of a judge."""
    monkeypatch.setenv(
        "XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache" / uuid4().hex)
    )


@dataclass
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def rows(self):
        return [json.loads(line) for line in self.out.splitlines()]


@pytest.fixture
def command(capsys, monkeypatch):
    """Run `refladder LINE ARGUMENTS` here, where the line is split as by a shell.

    An exception that is not turned into a message fails the test.
    """

    def go(line="", *arguments, stdin=b""):
        console.say_once.cache_clear()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8"))
        capsys.readouterr()
        code = run_command([*shlex.split(str(line)), *map(str, arguments)])
        found = capsys.readouterr()
        assert "Traceback" not in found.err
        return Done(code, found.out, found.err)

    return go


@pytest.fixture
def fails(command):
    """Run a command that must end with a code and a message on standard error, and print nothing else."""

    def go(code, line, *arguments, stdin=b""):
        done = command(line, *arguments, stdin=stdin)
        assert done.code == code, done.err
        assert done.out == ""
        return done.err.replace(f"{NOTICE}\n", "")

    return go


@pytest.fixture
def process():
    """Start `python -m refladder ARGUMENTS`, or a driver script, as a process of its own."""

    def go(*arguments, driver=("-m", "refladder"), **options):
        line = [sys.executable, *map(str, driver), *map(str, arguments)]
        usual = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "cwd": REPOSITORY}
        return subprocess.Popen(line, **{**usual, **options})

    return go


def story_rows(count, first=1):
    """Rows for the shipped story ladders, each with a column that refladder does not know."""
    texts = (
        "A keeper found a bottle on the rocks. ",
        "She read the letter and wept. ",
        "The sea kept its word. ",
    )
    return [
        {
            "output_id": f"o{number}",
            "context_id": f"story-{(number - 1) % 12 + 1:02d}",
            "output": texts[number % 3] * (number % 5 + 1) + f"It was day {number}.",
            "extra": {"n": number, "tag": "é ü"},
        }
        for number in range(first, first + count)
    ]


@pytest.fixture(scope="session")
def rows():
    return story_rows


@pytest.fixture
def write_jsonl(tmp_path):
    def write(rows, name="in.jsonl"):
        path = tmp_path / name
        path.write_text(
            "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8"
        )
        return path

    return write


@pytest.fixture
def stories(write_jsonl):
    """Six rows, two of them for one context."""
    return write_jsonl(story_rows(6))
