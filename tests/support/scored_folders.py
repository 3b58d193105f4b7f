"""Folders of scored files, and the processes that write them."""

from __future__ import annotations

import contextlib
import json

from waiting import count_lines, until

from refladder.many_files.worker import Worker
from refladder.scoring.scorer import FIRST_BATCH

RUNGS = 5  # of each ladder in demo/story


def split(rows, folder, size):
    """Write rows to the files 00.jsonl, 01.jsonl ... of a folder, `size` to each."""
    folder.mkdir()
    for number in range(0, len(rows), size):
        lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows[number : number + size]]
        (folder / f"{number // size:02d}.jsonl").write_text("".join(lines), "utf-8")
    return folder


def scored(folder):
    return b"".join(path.read_bytes() for path in sorted(folder.glob("*.jsonl")))


def leftovers(folder):
    return [
        path for path in folder.rglob("*") if path.name.endswith((".lock", ".partial", ".work"))
    ]


def worker_of(out, name, run):
    """The process that holds the lock of a file, once its first batch is stored; `run` must not end before."""

    def judging():
        with contextlib.suppress(FileNotFoundError, ValueError):
            enough = count_lines(out / "judgments" / name) > FIRST_BATCH * RUNGS
            return enough and json.loads((out / ".work" / f".{name}.lock").read_bytes())["process"]

    return until(judging, run)


class Inline:
    """A worker in this process, for tests of what does not depend on processes: starting one takes a second."""

    number = 1

    def __init__(self, number, files, *, gpus):
        del number, files, gpus

    def start(self, task):
        self.worker = Worker(task)
        self.idle = list(range(self.number))

    def put(self, worker, *asked):
        del worker
        self.answer = self.worker.run(*asked)

    def wait(self, tell):
        del tell
        self.idle.append(0)
        return 0, self.answer

    def close(self):
        pass
