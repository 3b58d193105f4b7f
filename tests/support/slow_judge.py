"""A judge that worker processes can open, because it is registered as that of an installed package.

It judges as `builtin` does. While the file HOLD exists, each process waits at its second call about rows. A text with
KILL ends the process; a text with FAULT raises.
"""

from __future__ import annotations

import math
import os
import signal
import time
from pathlib import Path

from refladder.backends.builtin import Builtin
from refladder.scoring import scorer

ENTRY_POINTS = "[refladder.backend]\nslow = slow_judge:open_slow\n"
METADATA = "Metadata-Version: 2.1\nName: slow-judge\nVersion: 1\n"


CHECK = 24  # prompts of the check of a judge: 12 ladders in both orders, one dimension


class Slow(Builtin):
    calls = 0

    @property
    def notice(self):
        return None

    def read_labels(self, prompts, labels):
        self.calls += len(prompts) != CHECK
        while self.calls > 1 and os.environ.get("HOLD") and Path(os.environ["HOLD"]).exists():
            time.sleep(0.01)
        texts = [text for prompt in prompts for text in prompt.slots.values()]
        if any("KILL" in text for text in texts):
            os.kill(os.getpid(), signal.SIGKILL)
        if any("FAULT" in text for text in texts):
            raise ZeroDivisionError("a fault of the judge")
        return super().read_labels(prompts, labels)


def open_slow(target: str) -> Slow:
    del target
    # Batches grow on a slow machine too, so that the second has the rest of a file of 40 rows.
    scorer.QUICK = math.inf
    return Slow()


def installed(folder):
    """The environment of a process in which the judge `slow` is installed."""
    record = folder / "slow_judge-1.dist-info"
    record.mkdir(parents=True)
    (record / "entry_points.txt").write_text(ENTRY_POINTS, "utf-8")
    (record / "METADATA").write_text(METADATA, "utf-8")
    hold = folder / "hold"
    paths = [str(folder), str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "HOLD": str(hold),
    }, hold
