"""Publishing and loading a large ladder set: time and peak memory of each step, against the test server.

    python bench/publish.py [--ladders 100000]

Prints a Markdown table; the one in bench/results/publish.md was made so. The server, of the tests, is a process of its
own, and each step is another. Peak memory is the largest resident set of that process, which the system reports.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from refladder.files.jsonl import write_records
from refladder.records import Context, Dimension, Ladder, Recipe, Rung, Sampling

ROOT = Path(__file__).parents[1]
DIMENSIONS = tuple(
    Dimension(name=name, description=f"How {name} it is.")
    for name in ("clear", "vivid", "short", "true")
)
RUNGS, RUNG_WORDS, CONTEXT_WORDS = 5, 60, 300
MEASURE = (
    "import resource, runpy, sys\n"
    "sys.argv = sys.argv[1:]\n"
    "try:\n"
    "    runpy.run_module('refladder', run_name='__main__')\n"
    "finally:\n"
    "    sys.stderr.write(f'\\n{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}\\n')\n"
)


def made(folder: Path, count: int) -> None:
    """A ladder set with random words, so that it does not compress better than text does."""
    draw = random.Random(0)  # noqa: S311  no secret
    words = [
        "".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=draw.randint(2, 9)))
        for _ in range(30_000)
    ]
    recipe = Recipe(
        backend="scripted:writer", prompts=("story/best@0",), sampling=Sampling(), version="0.1.0"
    )
    contexts = count // len(DIMENSIONS)

    def text(length: int) -> str:
        return " ".join(draw.choices(words, k=length))

    write_records(folder / "dimensions.jsonl", DIMENSIONS)
    write_records(
        folder / "contexts.jsonl",
        (
            Context(id=f"c{number}", task="story", text=text(CONTEXT_WORDS))
            for number in range(contexts)
        ),
    )
    write_records(
        folder / "ladders.jsonl",
        (
            Ladder(
                context_id=f"c{number}",
                task="story",
                dimension=dimension.name,
                rungs=tuple(
                    Rung(level=level, text=text(RUNG_WORDS)) for level in range(1, RUNGS + 1)
                ),
                recipe=recipe,
            )
            for number in range(contexts)
            for dimension in DIMENSIONS
        ),
    )


def step(arguments: tuple[object, ...], environment: dict[str, str]) -> tuple[float, float]:
    """Seconds and peak MB of a command."""
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, "refladder", *map(str, arguments)],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
    )
    seconds = time.monotonic() - started
    if done.returncode:
        raise SystemExit(done.stderr)
    kib = int(done.stderr.rstrip().rpartition("\n")[2])
    return seconds, kib * 1024 / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ladders", type=int, default=100_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch)
        made(work / "large", given.ladders)
        size = sum(path.stat().st_size for path in (work / "large").iterdir()) / 1e6
        server = subprocess.Popen(
            [
                sys.executable,
                str(ROOT / "tests" / "support" / "hub_server.py"),
                str(work / "blobs"),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        url = server.stdout.readline().strip()
        environment = {
            "HF_ENDPOINT": url,
            "HF_HOME": str(work / "home"),
            "HF_TOKEN": "hf_token_that_writes",
            "HF_HUB_DISABLE_XET": "1",
            "PYTHONPATH": str(ROOT),
        }
        rows = work / "rows.jsonl"
        rows.write_text('{"context_id": "c7", "output": "Some words."}\n' * 20, "utf-8")
        tasks = {
            "`publish SET ORG/NAME`": ("publish", work / "large", "me/large", "--tag", "v1"),
            "`score` with 20 rows, downloading": ("score", rows, "--ladders", "hub:me/large@v1"),
            "`score` with 20 rows, from the cache": ("score", rows, "--ladders", "hub:me/large@v1"),
            "`score` with 20 rows, from the folder": ("score", rows, "--ladders", work / "large"),
            "`diff` of folder and Hub": ("diff", work / "large", "hub:me/large@v1"),
        }
        print(
            f"{given.ladders:,} ladders of {RUNGS} rungs of {RUNG_WORDS} words, {given.ladders // 4:,} contexts of "
            f"{CONTEXT_WORDS} words, {size:,.0f} MB as JSON lines; {platform.machine()}, {os.cpu_count()} processors, "
            f"Python {platform.python_version()}\n"
        )
        print("| step | seconds | peak MB |\n|---|---|---|")
        for name, arguments in tasks.items():
            seconds, peak = step(arguments, environment)
            print(f"| {name} | {seconds:.1f} | {peak:,.0f} |", flush=True)
        server.stdin.close()
        server.wait()


if __name__ == "__main__":
    main()
