"""Standard streams that are closed, full or broken: no traceback, and a run goes on without its messages."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from waiting import HANG

REFLADDER = f"{shlex.quote(sys.executable)} -m refladder"
CLOSED = "refladder: standard output: cannot be written (Bad file descriptor); free space or choose another place\n"
pytestmark = pytest.mark.skipif(
    not Path("/dev/full").exists(), reason="the shell of Linux closes streams"
)


@pytest.fixture
def shell(tmp_path, write_jsonl, rows):
    """Run a line of bash in a folder with the table in.jsonl, where `R` is refladder."""
    write_jsonl(rows(3))

    def go(line):
        line = line.replace("R ", f"{REFLADDER} ", 1)
        environment = {
            "PATH": "/usr/bin:/bin",
            "PYTHONPATH": str(Path(__file__).parents[2]),
            "HOME": str(tmp_path),
        }
        return subprocess.run(
            ["/bin/bash", "-c", line],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=HANG,
        )

    return go


@pytest.mark.parametrize(
    "streams", ["2>/dev/full", "2>&-", "<&-", ">&-", "<&- >&-", "<&- 2>&-", "<&- >&- 2>&-"]
)
def test_a_run_that_writes_a_file_ends_without_any_stream(shell, tmp_path, streams):
    done = shell(f"R score in.jsonl --ladders demo/story --out out.jsonl {streams}")
    assert (done.returncode, done.stdout) == (0, "")
    assert "Traceback" not in done.stderr
    assert [
        json.loads(line)["output_id"] for line in (tmp_path / "out.jsonl").read_text().splitlines()
    ] == [
        "o1",
        "o2",
        "o3",
    ]


def test_a_reader_of_messages_that_has_had_enough_ends_no_run(shell, tmp_path):
    line = "R score in.jsonl --ladders demo/story --out out.jsonl 2> >(true); echo $?"
    assert shell(line).stdout == "0\n"
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == 3


@pytest.mark.parametrize(
    "command",
    [
        "list rules",
        "list rules --json",
        "show demo/story",
        "score in.jsonl --ladders demo/story",
        "--help",
    ],
)
def test_what_cannot_be_printed_is_an_error(shell, command):
    done = shell(f"R {command} >&-")
    assert done.returncode == 2
    assert done.stderr.endswith(CLOSED)
    assert "Traceback" not in done.stderr


def test_a_closed_standard_input_is_told(shell):
    for command in ("score - --ladders demo/story", "filter - --top 0.5 --by x_score"):
        done = shell(f"R {command} <&-")
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.endswith("refladder: standard input is closed; name a file\n")


@pytest.mark.parametrize("streams", ["2>/dev/full", "2>&-"])
def test_the_exit_code_tells_what_no_message_can(shell, streams):
    for command in (
        "score none.jsonl --ladders demo/story",
        "nonsense",
        "score --nonsense",
        "filter",
    ):
        assert shell(f"R {command} {streams}").returncode == 2
