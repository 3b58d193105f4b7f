"""Shards: what a killed worker, a killed driver and a second driver cost, and rows a second over local processes.

`python bench/shards.py` needs Ray for its half of the kills. `--rows N` sets the longer of the two runs that are timed
(2,000,000; the shorter one is a tenth of it).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

from core import CONTEXTS, text_of, write_ladders, write_outputs

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results" / "shards.md"
SHARDS, ROWS = 12, 20_000
ENGINES = {"2 processes": ["--workers", "2"], "2 Ray actors": ["--engine", "ray", "--workers", "2"]}


def start(*arguments: object) -> subprocess.Popen[str]:
    line = [sys.executable, "-m", "refladder", *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(line, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def ended(run: subprocess.Popen[str], code: int = 0) -> str:
    """Wait for a run, which must end with a code; what it said."""
    _, said = run.communicate(timeout=7200)
    if run.returncode != code:
        sys.exit(f"bench: exit code {run.returncode}, expected {code}\n{said}")
    return said


def write_inputs(folder: Path) -> None:
    """12 files of 20,000 rows, and ladders for their contexts."""
    write_ladders(folder / "set")
    (folder / "in").mkdir()
    for file in range(SHARDS):
        with (folder / "in" / f"{file:02d}.jsonl").open("w") as stream:
            for number in range(file * ROWS, (file + 1) * ROWS):
                context = number * CONTEXTS // (SHARDS * ROWS)
                row = {"output_id": f"o{number}", "context_id": f"context-{context}", "output": text_of(number, 12)}
                stream.write(json.dumps(row) + "\n")


def worker_at_work(out: Path, finished: int) -> int:
    """The process of a worker in the middle of a shard, when some shards have their mark."""
    deadline = time.monotonic() + 600
    while time.monotonic() < deadline:
        if len(list((out / ".refladder" / "marks").glob("*.json"))) >= finished:
            for lock in out.glob(".*.jsonl.lock"):
                with contextlib.suppress(OSError, ValueError):
                    return int(json.loads(lock.read_bytes())["process"])
        time.sleep(0.05)
    sys.exit("bench: no worker is at work")


def counts(out: Path, expected: bytes) -> str:
    """How the rows of a folder compare with those of one process."""
    data = b"".join(path.read_bytes() for path in sorted(out.glob("*.jsonl")))
    ids = [json.loads(line)["output_id"] for line in data.splitlines()]
    left = [path for path in out.rglob("*") if path.name.endswith((".lock", ".partial"))]
    lost, doubled = SHARDS * ROWS - len(set(ids)), len(ids) - len(set(ids))
    same = "identical" if data == expected else "DIFFERENT"
    return f"{len(set(ids)):,} | {lost} | {doubled} | {same} | {len(left)}"


def measure_kills(folder: Path) -> list[str]:
    write_inputs(folder)
    score = ["score", folder / "in", "--ladders", folder / "set", "--shard-rows", ROWS]
    begun = time.monotonic()
    ended(start(*score[:-2], "--out", folder / "one.jsonl"))
    lines = [f"| one process, one file | {time.monotonic() - begun:.0f} | {SHARDS * ROWS:,} | | | | |"]
    expected = (folder / "one.jsonl").read_bytes()
    for engine, options in ENGINES.items():
        if "ray" in options and find_spec("ray") is None:
            continue
        out = folder / "out"

        def go(out: Path = out, options: list[str] = options) -> subprocess.Popen[str]:
            return start(*score, "--out", out, *options)

        begun = time.monotonic()
        run = go()
        os.kill(worker_at_work(out, 1), signal.SIGKILL)
        said = ended(run)
        if "the worker died" not in said:
            sys.exit(f"bench: no worker died\n{said}")
        lines.append(f"| {engine}: a worker killed | {time.monotonic() - begun:.0f} | {counts(out, expected)} |")
        print(lines[-1], file=sys.stderr)
        shutil.rmtree(out)

        begun = time.monotonic()
        run = go()
        worker_at_work(out, 2)
        refusal = ended(go(), 2)
        if f"process {run.pid} on host" not in refusal:
            sys.exit(f"bench: the second driver was not refused\n{refusal}")
        run.kill()
        run.communicate()
        marks = len(list((out / ".refladder" / "marks").glob("*.json")))
        ended(go())
        seconds = time.monotonic() - begun
        what = f"{engine}: a second driver refused, the first killed with {marks} shards done, and the run continued"
        lines.append(f"| {what} | {seconds:.0f} | {counts(out, expected)} |")
        print(lines[-1], file=sys.stderr)
        shutil.rmtree(out)
    return lines


def measure_speed(folder: Path, most: int) -> list[str]:
    write_ladders(folder / "set")
    lines = []
    for rows in (most // 10, most):
        source, out = folder / "short.jsonl", folder / "out"
        write_outputs(source, rows)
        begun = time.perf_counter()
        options = ["--workers", "2", "--judgments", os.devnull]
        run = start("score", source, "--ladders", folder / "set", "--out", out, *options)
        _, status, usage = os.wait4(run.pid, 0)  # of the driver and of the workers that it waited for
        if os.waitstatus_to_exitcode(status) != 0 or run.stderr is None:
            sys.exit(f"bench: exit code {os.waitstatus_to_exitcode(status)}")
        run.stderr.close()
        run.returncode = 0
        seconds, used = time.perf_counter() - begun, usage.ru_utime + usage.ru_stime
        manifest = json.loads((out / ".refladder" / "manifest.json").read_bytes())
        if not manifest["rows"] == manifest["scored"] == rows:
            sys.exit(f"bench: {manifest['scored']} of {rows} rows are scored")
        peak = usage.ru_maxrss / 1024
        shards = len(manifest["shards"])
        speeds = f"{rows / seconds:,.0f} | {rows / used:,.0f}"
        lines.append(f"| {rows:,} | {shards} | {seconds:.0f} | {used:.0f} | {speeds} | {peak:.0f} |")
        print(lines[-1], file=sys.stderr)
        shutil.rmtree(out)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    most = parser.parse_args().rows
    with tempfile.TemporaryDirectory() as folder:
        kills = measure_kills(Path(folder))
    with tempfile.TemporaryDirectory() as folder:
        speed = measure_speed(Path(folder), most)
    lines = [
        "# Shards",
        "",
        (
            f"Written by `bench/shards.py --rows {most}` on {os.cpu_count()} cores ({platform.machine()}), Python "
            f"{platform.python_version()}, with other work on the machine. The judge is `builtin`, with 5 rungs a row."
        ),
        "",
        f"## Kills: {SHARDS} shards x {ROWS:,} rows",
        (
            "`kill -9` in the middle of a shard. The rows are compared byte by byte with those of one process. "
            "Left over are lock files and partial files."
        ),
        "",
        "| run | seconds | unique rows | lost | doubled | rows | left over |",
        "| --- | ---: | ---: | ---: | ---: | --- | ---: |",
        *kills,
        "",
        "## Speed: short rows, 2 processes, no judgments kept",
        (
            "The processor seconds are those of all processes together. The peak is the resident memory of the largest "
            "process."
        ),
        "",
        "| rows | shards | seconds | processor seconds | rows/s | rows/s per core used | peak MB |",
        "| ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
        *speed,
    ]
    text = "\n".join(lines) + "\n"
    print(text, end="")
    RESULTS.write_text(text)


if __name__ == "__main__":
    main()
