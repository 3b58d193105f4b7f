"""A client in a process of its own that keeps its answers in a store, so that it can be killed or run out of disk.

python stored_client.py URL STORE ROWS [BYTES]      BYTES: the most that a file may have
"""

import math
import subprocess
import sys
from pathlib import Path

from asked import LABELS, questions
from fault_server import MODEL, probabilities

from refladder.backends import connect
from refladder.backends.cache.cached import Stored, label_keys
from refladder.backends.cache.store import SqliteStore
from refladder.errors import RefladderError

OPTIONS = {"mode": "top", "attempts": "10", "timeout": "60", "max_concurrency": "32"}


def start(url, store, rows, most=0):
    """Start a client."""
    command = [sys.executable, __file__, url, str(store), str(rows), str(most)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def stored_rows(url, path, rows):
    """The rows whose answers are in the store, which must be whole."""
    backend = connect(f"openai:{MODEL}", base_url=url, **OPTIONS)
    keys = label_keys(backend, questions(rows), LABELS)
    with SqliteStore(path) as store:
        count, kept = store.count(), store.find(keys)
    assert count == len(kept)
    return {row for row, key in enumerate(keys) if key in kept}


def wrong(readings):
    """How many rows have no answer, or not their own."""
    return sum(
        reading.logprobs is None
        or any(
            abs(math.exp(a) - b) > 1e-6
            for a, b in zip(reading.logprobs, probabilities(row), strict=True)
        )
        for row, reading in enumerate(readings)
    )


def ask(url, path, rows):
    """Ask about all rows through the store; returns how many were sent, and how many answers are wrong."""
    backend = connect(f"openai:{MODEL}", base_url=url, **OPTIONS)
    with SqliteStore(Path(path)) as store:
        judge = Stored(backend, store)
        readings = judge.read_labels(questions(rows), LABELS)
        return judge.sent, wrong(readings)


def main():
    url, path, rows, most = sys.argv[1:5]
    if int(most):
        import resource

        resource.setrlimit(resource.RLIMIT_FSIZE, (int(most), int(most)))
    try:
        said = "asked {}, wrong {}".format(*ask(url, path, int(rows)))
    except RefladderError as error:
        said = f"refladder: {error}"
    sys.stdout.write(said + "\n")


if __name__ == "__main__":
    main()
