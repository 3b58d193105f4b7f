"""Many files: what killed workers and killed commands cost, over local processes and over Ray.

`python bench/many_files.py` scores 60,000 rows in 12 files while workers are killed at random; Ray is left out where it
is not installed.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

from core import CONTEXTS, text_of, write_ladders

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results" / "many_files.md"
FILES, ROWS, KILLS = 12, 5_000, 6
ENGINES = {"2 processes": ["--workers", "2"], "2 Ray actors": ["--engine", "ray", "--workers", "2"]}
CHANCE = random.Random(0)  # noqa: S311  no secret


def start(*arguments: object) -> subprocess.Popen[str]:
    line = [sys.executable, "-m", "refladder", *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        line, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True
    )


def write_inputs(folder: Path) -> None:
    """12 files of 5,000 rows, and ladders for their contexts."""
    write_ladders(folder / "set")
    (folder / "in").mkdir()
    for file in range(FILES):
        with (folder / "in" / f"{file:02d}.jsonl").open("w") as stream:
            for number in range(file * ROWS, (file + 1) * ROWS):
                context = number * CONTEXTS // (FILES * ROWS)
                row = {
                    "output_id": f"o{number}",
                    "context_id": f"context-{context}",
                    "output": text_of(number, 12),
                }
                stream.write(json.dumps(row) + "\n")


def kill_a_worker(out: Path) -> bool:
    """Kill a process that is scoring a file; whether there was one."""
    locks = sorted(out.glob(".work/.*.lock"))
    with contextlib.suppress(OSError, ValueError, IndexError):
        os.kill(json.loads(CHANCE.choice(locks).read_bytes())["process"], signal.SIGKILL)
        return True
    return False


def scored_under_kills(line: list[object], out: Path, *, of_command: bool) -> tuple[int, int]:
    """Run until the folder is finished; how many kills there were, and how often the command was started."""
    kills = starts = 0
    code = None
    while code != 0:
        if starts > 2 * KILLS:
            sys.exit(f"bench: exit code {code} again and again")
        run = start(*line)
        starts += 1
        while run.poll() is None:
            time.sleep(CHANCE.uniform(0.2, 1.0))
            if kills < KILLS:
                kills += kill_a_worker(out)
            if of_command and kills == KILLS // 2 and starts == 1:
                run.kill()
        code = run.wait()
    return kills, starts


def counts(out: Path, expected: bytes) -> str:
    """How the rows of a folder compare with those of one process."""
    data = b"".join(path.read_bytes() for path in sorted(out.glob("*.jsonl")))
    ids = [json.loads(line)["output_id"] for line in data.splitlines()]
    left = [path for path in out.rglob("*") if path.name.endswith((".lock", ".partial"))]
    lost, doubled = FILES * ROWS - len(set(ids)), len(ids) - len(set(ids))
    same = "identical" if data == expected else "DIFFERENT"
    return f"{len(set(ids)):,} | {lost} | {doubled} | {same} | {len(left)}"


def measure(folder: Path) -> list[str]:
    write_inputs(folder)
    score = ["score", folder / "in", "--ladders", folder / "set", "--any-judge"]
    begun = time.monotonic()
    if start(*score, "--out", folder / "one.jsonl").wait() != 0:
        sys.exit("bench: one process failed")
    lines = [
        f"| one process, one file | {time.monotonic() - begun:.0f} | 0 | 1 | {FILES * ROWS:,} | | | | |"
    ]
    expected = (folder / "one.jsonl").read_bytes()
    for engine, options in ENGINES.items():
        if "ray" in options and find_spec("ray") is None:
            continue
        for of_command in (False, True):
            out = folder / "out"
            begun = time.monotonic()
            kills, starts = scored_under_kills(
                [*score, "--out", out, *options], out, of_command=of_command
            )
            seconds = time.monotonic() - begun
            what = f"{engine}: workers killed{', and the command' if of_command else ''}"
            lines.append(
                f"| {what} | {seconds:.0f} | {kills} | {starts} | {counts(out, expected)} |"
            )
            print(lines[-1], file=sys.stderr)
            shutil.rmtree(out)
    return lines


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        lines = measure(Path(folder))
    text = "\n".join(
        [
            "# Many files",
            "",
            (
                f"Written by `bench/many_files.py` on {os.cpu_count()} cores ({platform.machine()}), Python "
                f"{platform.python_version()}, with other work on the machine. The judge is `builtin`, with 5 rungs a "
                f"row: {FILES} files x {ROWS:,} rows."
            ),
            "",
            (
                "Workers get `kill -9` at random moments. A command that ends (it was killed, or a file had three dead "
                "workers) is started again. The rows are compared byte by byte with those of one process. Left over "
                "are lock files and partial files."
            ),
            "",
            "| run | seconds | workers killed | starts | unique rows | lost | doubled | rows | left over |",
            "| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- | ---: |",
            *lines,
            "",
        ]
    )
    print(text, end="")
    RESULTS.write_text(text)


if __name__ == "__main__":
    main()
