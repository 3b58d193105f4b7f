"""The response store with many judgments: how fast they are put in and found, and the room they take.

    python bench/store.py [--judgments 1000000]

Prints a Markdown table; the one in bench/results/store.md was made so. Disk and processor decide the rates, so the
first line says what the machine is.
"""

from __future__ import annotations

import argparse
import math
import os
import platform
import random
import sqlite3
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from refladder.backends import Backend
from refladder.backends.cache.cached import Stored, label_keys
from refladder.backends.cache.store import SqliteStore
from refladder.prompts import fill, load_template
from refladder.records import LabelReading, Prompt

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from refladder.records import Completion, Sampling

BATCH = 5_000  # prompts in one call of a backend, as a batch of 1,024 outputs against 5 rungs
GOAL = 50_000  # look-ups a second
LABELS = ("Better", "Worse", "Similar")
ARTICLE = (
    "The harbour of Lerwick was closed on Monday after a storm, and the ferry waited outside for nine hours. "
    * 20
)


class Instant(Backend):
    """A judge that answers at once, so that only the store takes time; `asked` counts its prompts."""

    fingerprint = "instant/1"

    def __init__(self) -> None:
        self.asked = 0
        self._random = random.Random(0)  # noqa: S311  no secret

    def write(self, prompts: Sequence[Prompt], sampling: Sampling) -> list[Completion]:
        """It writes nothing."""
        raise NotImplementedError

    def read_labels(self, prompts: Sequence[Prompt], labels: Sequence[str]) -> list[LabelReading]:
        """Made-up log-probabilities."""
        self.asked += len(prompts)
        readings = []
        for _ in prompts:
            weights = [self._random.random() for _ in labels]
            whole = math.fsum(weights) * 1.01
            logprobs = tuple(math.log(weight / whole) for weight in weights)
            readings.append(LabelReading(logprobs=logprobs, mass=1 / 1.01))
        return readings


TEMPLATE = load_template("summarization", "compare")
CRITERION = {
    "context": ARTICLE,
    "background": "",
    "dimension": "relevance",
    "description": "What matters is there.",
}


def prompts(start: int, count: int) -> list[Prompt]:
    """Comparisons of about 2,700 characters each."""
    return [
        fill(
            TEMPLATE,
            CRITERION
            | {
                "reference": f"Rung {number % 5} of a ladder, a text of some two hundred characters. "
                * 3,
                "target": f"Output {number // 5}: the ferry waited for nine hours outside the harbour. "
                * 3,
            },
        )
        for number in range(start, start + count)
    ]


def rate(what: Callable[[list[Prompt]], object], numbers: Sequence[int]) -> float:
    """Prompts a second through `what`, the making of the prompts left out."""
    seconds = 0.0
    for number in numbers:
        batch = prompts(number, BATCH)
        started = time.perf_counter()
        what(batch)
        seconds += time.perf_counter() - started
    return len(numbers) * BATCH / seconds


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--judgments", type=int, default=1_000_000)
    total = parser.parse_args().judgments // BATCH * BATCH
    starts = range(0, total, BATCH)
    print(
        f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, "
        f"SQLite {sqlite3.sqlite_version}; {total:,} judgments, batches of {BATCH:,}, prompts of "
        f"{len(prompts(0, 1)[0].text):,} characters\n"
    )
    print("| what | measured |\n|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "responses.sqlite"
        judge = Instant()
        with SqliteStore(path) as store:
            backend = Stored(judge, store)
            asking = rate(lambda batch: backend.read_labels(batch, LABELS), starts)
            print(
                f"| judged and stored, first run (digest, look-up, insert) | {asking:,.0f} a second |"
            )
        print(
            f"| size on disk | {path.stat().st_size / 1e6:,.0f} MB, {path.stat().st_size / total:,.0f} bytes each |"
        )
        with SqliteStore(path) as store:
            backend = Stored(judge, store)
            chosen = random.Random(1).sample(list(starts), min(40, len(starts)))  # noqa: S311  no secret
            before = judge.asked
            again = rate(lambda batch: backend.read_labels(batch, LABELS), chosen)
            print(
                f"| found again through the backend (digest of the prompt, look-up, JSON) | {again:,.0f} a second |"
            )
            print(f"| calls of the judge in the second run | {judge.asked - before} |")
            keys = [key for at in starts for key in label_keys(judge, prompts(at, BATCH), LABELS)]
            random.Random(2).shuffle(keys)  # noqa: S311  no secret
            sample = keys[: 40 * BATCH]
            started = time.perf_counter()
            found = sum(
                len(store.find(sample[at : at + BATCH])) for at in range(0, len(sample), BATCH)
            )
            found_rate = found / (time.perf_counter() - started)
            verdict = "reached" if found_rate >= GOAL else "missed"
            what = (
                f"look-ups of keys in random order, batches of {BATCH:,} (goal {GOAL:,}: {verdict})"
            )
            print(f"| {what} | {found_rate:,.0f} a second |")
            absent = [key[::-1] for key in sample]
            started = time.perf_counter()
            for at in range(0, len(absent), BATCH):
                store.find(absent[at : at + BATCH])
            absent_rate = len(absent) / (time.perf_counter() - started)
            print(f"| look-ups of keys that are not there | {absent_rate:,.0f} a second |")


if __name__ == "__main__":
    main()
