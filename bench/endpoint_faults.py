"""Rows against a server with every fault: how many are lost, invented or asked twice, and the time over the ideal.

The ideal schedule knows the storms beforehand, always has as many requests in flight as are allowed, and loses only
what the faults themselves take: (seconds of service of all requests / requests in flight) + seconds of storms.

    python bench/endpoint_faults.py [ROWS] [RATED]

RATED rows are also scored by the command, in each mode of written ratings, at four times the faults.
"""

from __future__ import annotations

import math
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests/support/openai"))

from asked import LABELS, questions
from endpoint_servers import served, tell
from fault_server import Faults, FaultServer, probabilities
from written_rows import MODES, command, lost_and_wrong

from refladder.backends import connect

IN_FLIGHT = 32
STORM_EVERY, STORM_TIME = 15.0, 3.0
FAULTS = {
    "seed": 4,
    "service": 0.2,
    "server_error": 0.02,
    "reset": 0.01,
    "half": 0.005,
    "no_json": 0.005,
    "drip": 0.005,
    "stall": 0.001,
    "stall_time": 3.0,
    "twice": 0.005,
    "storm_every": STORM_EVERY,
    "storm_time": STORM_TIME,
}

SHARES = "server_error", "reset", "half", "no_json", "drip", "stall", "twice"
WRITTEN = Faults(seed=4, service=0.02, **{name: 4 * FAULTS[name] for name in SHARES})


def written(rows: int) -> list[str]:
    """Score rows by written ratings: a line for each mode."""
    lines = [
        "| mode | rows | faults | without a score | another score than theirs | asked after a full answer |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for mode in MODES:
        with tempfile.TemporaryDirectory() as name, FaultServer(WRITTEN) as server:
            subprocess.run(command(mode, server.url, Path(name), rows), check=True)
            lost, wrong = lost_and_wrong(mode, Path(name), rows)
            faults = server.kinds.total() - server.kinds["good"]
            lines.append(f"| {mode} | {rows:,} | {faults} | {lost} | {wrong} | {server.late} |")
    return lines


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    rated = int(sys.argv[2]) if len(sys.argv) > 2 else 800
    with served(FAULTS) as (url, process):
        backend = connect(
            "openai:faulty",
            base_url=url,
            mode="top",
            max_concurrency=str(IN_FLIGHT),
            timeout="3",
            attempts="10",
        )
        _ = backend.fingerprint
        asked = questions(rows)
        tell(process, "start")
        begun, processor = time.perf_counter(), time.process_time()
        found = list(backend.read_labels_each(asked, LABELS))
        seconds, processor = time.perf_counter() - begun, time.process_time() - processor
        seen = tell(process, "stats")
    lost = rows - len({place for place, reading in found if reading.logprobs is not None})
    invented = (
        len(found)
        - len({place for place, _ in found})
        + sum(
            any(
                abs(math.exp(a) - b) > 1e-6
                for a, b in zip(reading.logprobs, probabilities(place), strict=True)
            )
            for place, reading in found
            if reading.logprobs is not None
        )
    )
    ideal = open_time = seen["busy"] / IN_FLIGHT
    while open_time > STORM_EVERY - STORM_TIME:  # one storm after each stretch of open time
        open_time -= STORM_EVERY - STORM_TIME
        ideal += STORM_TIME
    lines = [
        "# Rows against a faulty server",
        "",
        (
            f"`python bench/endpoint_faults.py {rows} {rated}`: service 0.1 to 0.3 s, at most {IN_FLIGHT} in flight, "
            f"{STORM_TIME:g} s of 429 in every {STORM_EVERY:g} s, stalls of 3 s; client and server on one machine."
        ),
        "",
        "| | |",
        "|---|---|",
        f"| rows | {rows:,} |",
        f"| lost | {lost} |",
        f"| invented, doubled or given to another row | {invented} |",
        f"| asked again after a full answer | {seen['late']} |",
        f"| requests outside storms | {seen['asked']:,} |",
        f"| faults | {', '.join(f'{kind} {count}' for kind, count in sorted(seen['kinds'].items()))} |",
        f"| seconds | {seconds:.1f} |",
        f"| ideal schedule, seconds | {ideal:.1f} |",
        f"| over the ideal | {seconds / ideal:.2f} |",
        f"| client processor seconds | {processor:.1f} |",
        "",
        "## Written ratings",
        "",
        "Rows scored by the command, at four times the shares of faults and a service of 0.01 to 0.03 s.",
        "",
        *written(rated),
    ]
    print("\n".join(lines))
    (Path(__file__).parent / "results/endpoint_faults.md").write_text(
        "\n".join(lines) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    main()
