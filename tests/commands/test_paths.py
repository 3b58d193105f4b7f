"""Paths that are no ordinary file: a pipe, the root folder, a working folder that no longer exists."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

BASH = shutil.which("bash") or ""
SCORE = ("score", "{rows}", "--ladders", "demo/story", "--dimension", "coherence", "--no-store")


@pytest.fixture
def table(write_jsonl):
    return write_jsonl(
        [{"output_id": "a", "context_id": "story-01", "output": "A keeper found a bottle."}]
    )


@pytest.mark.parametrize(
    "line",
    [
        (*SCORE, "--judgments", "{pipe}"),
        ("audit", "--ladders", "demo/story", "--contexts", "2", "--judgments", "{pipe}"),
        ("certify", "demo/story", "--judgments", "{pipe}"),
    ],
)
def test_a_pipe_is_refused_where_a_file_is_read_and_added_to(fails, table, tmp_path, line):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    words = [word.format(rows=table, pipe=pipe) for word in line]
    message = fails(2, *words).splitlines()[-1]
    assert (
        message
        == f"refladder: {pipe}: a pipe; name a regular file, because it is read again and extended"
    )


def test_process_substitution_is_a_table_and_an_output(table):
    words = [word.format(rows=f"<(cat {table})") for word in SCORE]
    line = f"{sys.executable} -m refladder {' '.join(words)} --format jsonl --out >(cat) --out-format jsonl"
    done = subprocess.run([BASH, "-c", line], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert '"coherence_score"' in done.stdout


def test_the_root_folder_is_no_file(command, table):
    words = [word.format(rows=table) for word in SCORE]
    report = (
        "evaluate",
        "demo/story",
        "--dimension",
        "coherence",
        "--resamples",
        "1",
        "--html",
        "/",
    )
    for line in (
        (*words, "--judgments", "/"),
        report,
        ("filter", table, "--min", "x=1", "--out", "/"),
    ):
        done = command(*line)
        assert (done.code, done.err.splitlines()[-1]) == (
            2,
            "refladder: /: a folder; name a file in it",
        )


def test_a_working_folder_that_no_longer_exists_is_named(table, tmp_path):
    (tmp_path / "gone").mkdir()
    words = " ".join(word.format(rows=table) for word in SCORE)
    line = f"cd {tmp_path}/gone && rmdir {tmp_path}/gone && {sys.executable} -P -m refladder {words} --out o.jsonl"
    done = subprocess.run([BASH, "-c", line], capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1] == (
        "refladder: the current working folder no longer exists; change to another one and run the command again"
    )
    assert done.returncode == 2
