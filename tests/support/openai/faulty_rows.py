"""What the tests with seeded faults share: kinds of faulty servers, the rows that they are asked, and their check."""

import math
from collections import Counter

import pytest
from asked import LABELS, questions
from fault_server import MODEL, Faults, probabilities

from refladder.backends import connect

ROWS = 600
QUIET = Faults(service=0.001, server_error=0, reset=0, half=0, no_json=0, drip=0, stall=0, twice=0)
HARSH = Faults(
    server_error=0.05, reset=0.03, half=0.02, no_json=0.02, drip=0.02, stall=0, twice=0.01
)


def ask(server, number=ROWS, **options):
    settings = {"base_url": server.url, "mode": "top", "attempts": "10", "timeout": "60", **options}
    backend = connect(f"openai:{MODEL}", **settings)
    _ = backend.fingerprint
    server.start_clock()
    return backend, list(backend.read_labels_each(questions(number), LABELS))


def check(found, number=ROWS):
    """Every row once, with its own answer."""
    assert Counter(place for place, _ in found) == Counter(range(number))
    for place, reading in found:
        assert reading.logprobs is not None, reading.reason
        assert [math.exp(value) for value in reading.logprobs] == pytest.approx(
            probabilities(place)
        )
