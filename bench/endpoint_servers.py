"""The servers of the tests in a process of their own, so that a benchmark's client has its interpreter to itself."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

SERVERS = Path(__file__).parents[1] / "tests/backends/endpoint"


@contextmanager
def served(faults: dict[str, Any]) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A fault server's URL and process; `stats` asks the process what it saw."""
    command = [sys.executable, __file__, json.dumps(faults)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None  # noqa: S101  PIPE above
        assert process.stdout is not None  # noqa: S101
        try:
            yield process.stdout.readline().strip(), process
        finally:
            process.stdin.write("stop\n")
            process.stdin.close()


def tell(process: subprocess.Popen[str], word: str) -> dict[str, Any]:
    assert process.stdin is not None  # noqa: S101  PIPE
    assert process.stdout is not None  # noqa: S101
    process.stdin.write(word + "\n")
    process.stdin.flush()
    return json.loads(process.stdout.readline())


def _main() -> None:
    sys.path.insert(0, str(SERVERS))
    from fault_server import Faults, FaultServer  # noqa: PLC0415

    with FaultServer(Faults(**json.loads(sys.argv[1]))) as server:
        print(server.url, flush=True)
        for line in sys.stdin:
            if line.strip() == "stop":
                break
            if line.strip() == "start":
                server.start_clock()
            seen = {
                "late": server.late,
                "busy": server.busy,
                "asked": sum(server.asked.values()),
                "rows": len(server.answered),
                "most": max(server.answered.values(), default=0),
                "kinds": dict(server.kinds),
            }
            print(json.dumps(seen), flush=True)


if __name__ == "__main__":
    _main()
