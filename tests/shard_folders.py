"""Folders of scored shards, and the processes that write them."""

from __future__ import annotations

import contextlib
import json

from waiting import count_lines, until

from refladder.fleet.shard_worker import ShardWorker
from refladder.scoring.scorer import FIRST_BATCH

RUNGS = 5  # of each ladder in demo/story


def scored(folder):
    return b"".join(path.read_bytes() for path in sorted(folder.glob("*.jsonl")))


def leftovers(folder):
    return [path for path in folder.rglob("*") if path.name.endswith((".lock", ".partial", ".claim"))]


def worker_of(out, shard):
    """The process that holds the lock of a shard, once its first batch is stored."""
    lock = out / f".{shard}.lock"

    def judging():
        with contextlib.suppress(FileNotFoundError, ValueError):
            (judged,) = (out / ".refladder" / "judgments").glob(f"{shard.partition('.')[0]}-*")
            return count_lines(judged) > FIRST_BATCH * RUNGS and json.loads(lock.read_bytes())["process"]

    return until(judging)


class Inline:
    """A worker in this process, for tests of what does not depend on processes: starting one takes a second."""

    number = 1

    def __init__(self, number, *, gpus):
        del number, gpus

    def start(self, task):
        self.worker = ShardWorker(task)

    def put(self, worker, *asked):
        del worker
        self.answer = self.worker.run(*asked)

    def wait(self, tell):
        del tell
        return 0, self.answer

    def close(self):
        pass
