"""Speed and memory of the core on this machine, as one table.

`make bench` runs it; `python bench/core.py --quick` takes a tenth of the rows. Every row of the table is a command of
its own, run as a separate process: seconds are wall clock, memory is the peak resident set of that process.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SUMMEVAL = ROOT.parent / "shared" / "data" / "summeval" / "mteb_summeval.test.jsonl.gz"
RESULTS = ROOT / "bench" / "results" / "core.md"
CONTEXTS = 1000
LEVELS = 5
WORDS = (
    "the",
    "old",
    "road",
    "bends",
    "past",
    "a",
    "mill",
    "where",
    "grey",
    "water",
    "turns",
    "slowly",
    "and",
    "nobody",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What one process took: wall-clock seconds and the peak of its memory in MB."""

    seconds: float
    megabytes: float


def run(*command: str) -> Measured:
    """Run a command to its end and measure it; a command that fails stops the benchmark."""
    start = time.perf_counter()
    process = os.posix_spawn(
        sys.executable,
        [sys.executable, *command],
        {**os.environ, "PYTHONPATH": str(ROOT)},
        file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)],
    )
    _, status, usage = os.wait4(
        process, 0
    )  # the usage of this one process, not of all that ran before it
    seconds = time.perf_counter() - start
    code = os.waitstatus_to_exitcode(status)
    if code != 0:
        sys.exit(f"bench: exit code {code} from {' '.join(command)}")
    return Measured(
        seconds=seconds, megabytes=usage.ru_maxrss / (1 << (20 if sys.platform == "darwin" else 10))
    )


def text_of(number: int, count: int) -> str:
    """A short text, different for every number."""
    return (
        " ".join(
            WORDS[(number * 7 + place * (1 + number % 5)) % len(WORDS)] for place in range(count)
        )
        + f" {number}."
    )


def write_ladders(folder: Path) -> None:
    """A ladder set of 1,000 contexts on one dimension, rungs of rising length."""
    recipe = {"backend": "generated", "prompts": [], "sampling": None, "version": "0"}
    folder.mkdir(parents=True)
    with (
        (folder / "contexts.jsonl").open("w") as contexts,
        (folder / "ladders.jsonl").open("w") as ladders,
    ):
        for number in range(CONTEXTS):
            name = f"context-{number}"
            record = {
                "schema": "context/1",
                "id": name,
                "task": "open",
                "text": text_of(number, 30),
            }
            contexts.write(json.dumps(record) + "\n")
            rungs = [
                {"level": level, "text": text_of(number + level, 4 * level), "between": None}
                for level in range(1, LEVELS + 1)
            ]
            ladder = {
                "schema": "ladder/1",
                "context_id": name,
                "task": "open",
                "dimension": "clarity",
            }
            ladders.write(json.dumps({**ladder, "rungs": rungs, "recipe": recipe}) + "\n")
    dimension = {
        "schema": "dimension/1",
        "name": "clarity",
        "description": "Whether the text is clear.",
        "low": 1.0,
    }
    (folder / "dimensions.jsonl").write_text(json.dumps({**dimension, "high": 5.0}) + "\n")


def write_outputs(path: Path, rows: int) -> None:
    """Rows to be scored, context by context."""
    with path.open("w") as stream:
        for number in range(rows):
            row = {
                "output_id": f"output-{number}",
                "context_id": f"context-{number * CONTEXTS // rows}",
                "output": text_of(number, 12),
                "source": "generated",
            }
            stream.write(json.dumps(row) + "\n")


def measure_all(folder: Path, rows: int) -> list[tuple[str, str, str, Measured, float | None]]:
    """Run every benchmark; each gives its name, size, goal, what it took and its rows a second."""
    table: list[tuple[str, str, str, Measured, float | None]] = []

    def add(
        name: str, goal: str, measured: Measured, count: int | None = None, unit: str = "rows"
    ) -> None:
        print(f"{name}: {measured.seconds:.2f} s, {measured.megabytes:.0f} MB", file=sys.stderr)
        size = f"{count:,} {unit}" if count else ""
        table.append((name, size, goal, measured, count / measured.seconds if count else None))

    run("-c", "import refladder")  # compiles the bytecode, which an installation has done
    add("`import refladder`", "< 0.3 s", run("-c", "import refladder"))
    add("`refladder --help`", "< 0.5 s", run("-m", "refladder", "--help"))
    if SUMMEVAL.exists():
        evaluate = ("-m", "refladder", "evaluate", "summeval", "--source", str(SUMMEVAL))
        add(
            "`evaluate summeval`, ladders included", "< 20 s", run(*evaluate), 32_000, "comparisons"
        )
    else:
        print(f"bench: {SUMMEVAL} is absent, so SummEval is not measured", file=sys.stderr)
    ladders, outputs, scored, kept = (
        str(folder / name) for name in ("set", "outputs.jsonl", "scored.jsonl", "kept")
    )
    write_ladders(Path(ladders))
    write_outputs(Path(outputs), rows)
    # The rungs are not of rising quality, so a judge does not tell them apart.
    score = ("-m", "refladder", "score", outputs, "--ladders", ladders, "--any-judge")
    add("`score`, no judgments kept", "< 1,000 MB", run(*score), rows)
    add("`score --out FILE`, judgments kept", "< 1,000 MB", run(*score, "--out", scored), rows)
    rescore = (
        "-m",
        "refladder",
        "rescore",
        f"{scored}.judgments.jsonl",
        "--rule",
        "mean-difference",
        "--out",
        kept,
    )
    # Its rows are the lines of the file it reads: five judgments an output.
    add(
        "`rescore`",
        ">= 100,000 rows/s",
        run(*rescore, "--out-format", "jsonl"),
        LEVELS * rows,
        "judgments",
    )
    filtering = ("-m", "refladder", "filter", scored, "--out", kept, "--out-format", "jsonl")
    add("`filter --min`", ">= 100,000 rows/s", run(*filtering, "--min", "clarity_grade=3"), rows)
    add(
        "`filter --top`",
        ">= 100,000 rows/s",
        run(*filtering, "--top", "0.1", "--by", "clarity_grade"),
        rows,
    )
    return table


def main() -> None:
    """Measure, print the table and record it in bench/results/core.md."""
    rows = 100_000 if "--quick" in sys.argv[1:] else 1_000_000
    with tempfile.TemporaryDirectory() as folder:
        table = measure_all(Path(folder), rows)
    lines = [
        "# Speed of the core",
        "",
        (
            f"Written by `bench/core.py` on {os.cpu_count()} cores ({platform.machine()}), Python "
            f"{platform.python_version()}, with other work on the machine. Not a test: one run took "
            f"this much. The rows of rescore are judgments, {LEVELS} an output."
        ),
        "",
        "| command | size | seconds | per second | peak MB | goal |",
        "| --- | ---: | ---: | ---: | ---: | --- |",
    ]
    for name, size, goal, measured, speed in table:
        shown = f"{speed:,.0f}" if speed else ""
        lines.append(
            f"| {name} | {size} | {measured.seconds:.2f} | {shown} | {measured.megabytes:.0f} | {goal} |"
        )
    text = "\n".join(lines) + "\n"
    print(text, end="")
    if rows == 1_000_000:
        RESULTS.parent.mkdir(parents=True, exist_ok=True)
        RESULTS.write_text(text)


if __name__ == "__main__":
    main()
