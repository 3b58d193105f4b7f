"""Standard streams that are closed, full or broken, and paths that are no ordinary file."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from json_lines import read_lines
from waiting import HANG

REFLADDER = f"{shlex.quote(sys.executable)} -P -m refladder"
SCORE = "R score in.jsonl --ladders demo/story --no-store"
CLOSED = "refladder: standard output: cannot be written (Bad file descriptor); free space or choose another place\n"
FULL = CLOSED.replace("Bad file descriptor", "No space left on device")
LINUX = pytest.mark.skipif(
    not Path("/dev/full").exists(), reason="the shell of Linux closes streams"
)


@pytest.fixture
def shell(tmp_path, write_jsonl, rows):
    """Run a line of bash in a folder with the table in.jsonl, where `R` is refladder."""
    write_jsonl(rows(3))

    def go(line):
        environment = {
            "PATH": "/usr/bin:/bin",
            "PYTHONPATH": str(Path(__file__).parents[2]),
            "HOME": str(tmp_path),
        }
        return subprocess.run(
            ["/bin/bash", "-c", line.replace("R ", f"{REFLADDER} ", 1)],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=HANG,
        )

    return go


@LINUX
@pytest.mark.parametrize("streams", ["2>/dev/full", "<&- >&-", "<&- >&- 2>&-", "2> >(true)"])
def test_a_run_that_writes_a_file_ends_without_any_stream(shell, tmp_path, streams):
    done = shell(f"{SCORE} --out out.jsonl {streams}")
    assert (done.returncode, done.stdout) == (0, "")
    assert "Traceback" not in done.stderr
    assert [row["output_id"] for row in read_lines(tmp_path / "out.jsonl")] == ["o1", "o2", "o3"]


@LINUX
@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("R list rules --json >&-", CLOSED),
        (f"{SCORE} >&-", CLOSED),
        ("R --help >&-", CLOSED),
        ("R show demo/story >/dev/full", FULL),
        (f"{SCORE} >/dev/full", FULL),
        (
            "R score - --ladders demo/story <&-",
            "refladder: standard input is closed; name a file\n",
        ),
        ("R filter - --top 0.5 --by x <&-", "refladder: standard input is closed; name a file\n"),
        ("R score none.jsonl --ladders demo/story 2>/dev/full", ""),
        ("R nonsense 2>&-", ""),
    ],
)
def test_what_cannot_be_read_or_printed_is_an_error(shell, line, said):
    done = shell(line)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith(said)
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_a_text_that_the_encoding_does_not_have_is_printed_as_escapes(shell, tmp_path, encoding):
    text = "The bear 熊 \N{BEAR FACE}"
    rungs = "".join(f"\nbear,clarity,{level},{text * level}" for level in (1, 2))
    (tmp_path / "in.csv").write_text(f"context_id,context\nbear,{text}\n", encoding="utf-8")
    (tmp_path / "human.csv").write_text(
        f"context_id,dimension,level,text{rungs}\n", encoding="utf-8"
    )
    (tmp_path / "task.toml").write_text(
        'task = "open"\n[[dimensions]]\nname = "clarity"\ndescription = "Whether it is clear."\n'
    )
    assert (
        shell(
            "R build in.csv --task-file task.toml --rungs 2 --human human.csv --out set"
        ).returncode
        == 0
    )
    done = shell(f"export PYTHONIOENCODING={encoding}; R show set bear")
    assert (done.returncode, done.stderr) == (0, "")
    assert r"\u718a \U0001f43b" in done.stdout
    assert shell(f"export PYTHONIOENCODING={encoding}; R show set").returncode == 0
    done = shell(f"export PYTHONIOENCODING={encoding}; R show set bear --json")
    assert (done.returncode, json.loads(done.stdout)["rungs"][0]["text"]) == (0, text)


@pytest.mark.parametrize(
    "line",
    [
        "score {table} --ladders demo/story --no-store --judgments {pipe}",
        "audit --ladders demo/story --contexts 2 --judgments {pipe}",
        "certify demo/story --judgments {pipe}",
    ],
)
def test_a_pipe_is_refused_where_a_file_is_read_and_added_to(fails, stories, tmp_path, line):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    message = fails(2, line.format(table=stories, pipe=pipe)).splitlines()[-1]
    reason = "a pipe; name a regular file, because it is read again and extended"
    assert message == f"refladder: {pipe}: {reason}"


@pytest.mark.parametrize("format_out", ["", "--out-format jsonl"])
def test_process_substitution_is_a_table_and_an_output(shell, format_out):
    """A pipe gets the format of the table that is read."""
    line = SCORE.replace("in.jsonl", "<(cat in.jsonl)")
    done = shell(f"{line} --format jsonl --out >(cat) {format_out}")
    assert done.returncode == 0, done.stderr
    assert '"coherence_score"' in done.stdout


@pytest.mark.parametrize("name", ["q.csv", "q.jsonl"])
def test_build_reads_a_table_of_either_format_from_a_pipe(shell, tmp_path, name):
    (tmp_path / "q.csv").write_text("context_id,context\na,Why is the sky blue?\n", "utf-8")
    row = {"context_id": "a", "context": "Why is the sky blue?"}
    (tmp_path / "q.jsonl").write_text(json.dumps(row) + "\n", "utf-8")
    (tmp_path / "task.toml").write_text(
        'task = "open"\n[[dimensions]]\nname = "clarity"\ndescription = "Whether it is clear."\n',
        "utf-8",
    )
    done = shell(f"R build <(cat {name}) --task-file task.toml --writer builtin --out built")
    assert "1 ladder of 5 rungs in built, 0 rungs failed" in done.stderr + done.stdout
    done = shell(f"R build --add <(sed s/a/b/ {name}) --out built")
    assert "1 ladder of 5 rungs added to built" in done.stderr + done.stdout
    done = shell(
        "R build <(echo '{\"context\": 5}') --task-file task.toml --writer builtin --out other"
    )
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("refladder: /dev/fd/63:1: ")


@pytest.mark.parametrize(
    "line",
    [
        "score {table} --ladders demo/story --judgments /",
        "evaluate demo/story --dimension coherence --resamples 1 --html /",
        "filter {numbers} --min x=1 --out /",
    ],
)
def test_the_root_folder_is_no_file(command, stories, tmp_path, line):
    numbers = tmp_path / "numbers.jsonl"
    numbers.write_text('{"x": 1}\n')
    done = command(line.format(table=stories, numbers=numbers))
    assert done.code == 2
    assert done.err.splitlines()[-1] == "refladder: /: a folder; name a file in it"


def test_a_working_folder_that_no_longer_exists_is_named(shell, tmp_path):
    (tmp_path / "gone").mkdir()
    done = shell(f"cd gone && rmdir ../gone && {SCORE} --out o.jsonl")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == (
        "refladder: the current working folder no longer exists; change to another one and run the command again"
    )
