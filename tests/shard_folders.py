"""Folders of scored shards, and the processes that write them."""

from __future__ import annotations

import contextlib
import json
import time

from refladder.jobs.shard_worker import ShardWorker


def scored(folder):
    return b"".join(path.read_bytes() for path in sorted(folder.glob("*.jsonl")))


def leftovers(folder):
    return [path for path in folder.rglob("*") if path.name.endswith((".lock", ".partial", ".claim"))]


def worker_of(out, shard):
    """The process that holds the lock of a shard, once its judgments have begun."""
    lock = out / f".{shard}.lock"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with contextlib.suppress(FileNotFoundError, ValueError):
            judged = list((out / ".refladder" / "judgments").glob(f"{shard.partition('.')[0]}-*"))
            if judged and judged[0].read_bytes().count(b"\n") > 1:
                return json.loads(lock.read_bytes())["process"]
        time.sleep(0.02)
    raise AssertionError(f"no worker has begun {shard}")


class Inline:
    """A worker in this process, for tests of what does not depend on processes: starting one takes a second."""

    number = 1

    def __init__(self, number, *, gpus):
        del number, gpus

    def start(self, task):
        self.worker = ShardWorker(task)

    def put(self, worker, shard):
        del worker
        self.answer = self.worker.run(shard)

    def wait(self, tell):
        del tell
        return 0, self.answer

    def close(self):
        pass
