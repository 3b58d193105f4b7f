"""Rows against a faulty server by a client that is killed (kill -9) many times and once has no disk left.

python bench/endpoint_kill.py [ROWS] [KILLS] [RATED]

RATED rows are also scored by the command in each mode of written ratings, killed as often in all modes together.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests/support/openai"))

from fault_server import Faults, FaultServer
from stored_client import start, stored_rows
from written_rows import MODES, command, kept, lost_and_wrong

# Runs that were killed and have a line of their own.
SHOWN = 3
FAULTS = Faults(seed=4, service=0.1, stall=0.0005, stall_time=3.0)


def written(rows: int, kills: int) -> list[str]:
    """Score rows by written ratings with a command that is killed: a line for each mode."""
    lines = [
        "| mode | rows | kills | without a score | another score than theirs | asked after their judgment was kept |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for mode in MODES:
        twice, killed, before = 0, 0, set[int]()
        with tempfile.TemporaryDirectory() as name, FaultServer(FAULTS) as server:
            folder = Path(name)
            line = command(mode, server.url, folder, rows)
            for part in range(1, kills + 1):
                client = subprocess.Popen(line, stderr=subprocess.DEVNULL)
                while len(server.answered) < part * rows // (kills + 1) and client.poll() is None:
                    time.sleep(0.005)
                killed += client.poll() is None
                client.kill()
                client.wait()
                twice += len(set(server.asked) & before)
                before = kept(folder)
                server.asked.clear()
            subprocess.run(line, check=True)
            twice += len(set(server.asked) & before)
            lost, wrong = lost_and_wrong(mode, folder, rows)
        lines.append(f"| {mode} | {rows:,} | {killed} | {lost} | {wrong} | {twice} |")
    return lines


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    kills = int(sys.argv[2]) if len(sys.argv) > 2 else SHOWN
    rated = int(sys.argv[3]) if len(sys.argv) > 3 else 30 * kills
    lines = [
        "| end | rows in the store | asked in this run | of them stored before | answered again, not yet stored |"
    ]
    lines += ["|---|---|---|---|---|"]
    stored: set[int] = set()
    twice = 0
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder, FaultServer(FAULTS) as server:
        path = Path(folder) / "r.sqlite"

        def ended(how: str, part: int = 0) -> None:
            nonlocal stored, twice
            asked, before = set(server.asked), stored
            stored = stored_rows(server.url, path, rows)
            twice += len(asked & before)
            if part <= SHOWN or part == kills:
                lines.append(
                    f"| {how} | {len(stored):,} | {len(asked):,} | {len(asked & before)} | {server.late} |"
                )
            server.asked.clear()
            server.late = 0

        for part in range(1, kills + 1):
            client = start(server.url, path, rows)
            while len(server.answered) < 3 * part * rows // (5 * kills) and client.poll() is None:
                time.sleep(0.01)
            os.kill(client.pid, signal.SIGKILL)
            client.communicate()
            ended(f"kill -9, number {part}", part)
        said, _ = start(server.url, path, rows, path.stat().st_size + 100_000).communicate()
        print(said.strip())
        ended("disk full")
        said, _ = start(server.url, path, rows).communicate()
        ended(f"its own ({said.strip()})")
    seconds = time.perf_counter() - begun
    text = [
        "# Rows by a client that is cut off",
        "",
        f"`python bench/endpoint_kill.py {rows} {kills} {rated}`: kills, one full disk, then to the end; {seconds:.0f} s.",
        "",
        *lines,
        "",
        f"Rows lost: {rows - len(stored)}. Asked again after they were stored: {twice}.",
        "",
        "## Written ratings",
        "",
        "Rows scored by the command, which is killed and run again.",
        "",
        *written(rated, -(-kills // len(MODES))),
    ]
    print("\n".join(text))
    (Path(__file__).parent / "results/endpoint_kill.md").write_text(
        "\n".join(text) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    main()
