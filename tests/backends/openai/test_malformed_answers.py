"""No answer of a server is a traceback, and none takes another row with it."""

import json
import re

from http_server import HttpServer, Reply
from malformed_answers import ROWS, good

from refladder.backends import connect

from asked import LABELS, questions  # isort: skip


def test_every_malformed_answer_is_a_row_with_a_reason_or_a_reading():
    faults = list(ROWS.values())

    def answer(_method, _path, _headers, body):
        sent = json.loads(body)
        number = re.search(r"text number (\d+)", str(sent["messages"]))
        place = int(number[1]) if number else 1
        return faults[place // 2] if place % 2 == 0 else Reply(good(place, sent))

    with HttpServer(answer) as server:
        backend = connect(
            "openai:toy",
            base_url=server.url,
            mode="top",
            attempts="1",
            max_concurrency="1",
            timeout="60",
        )
        readings = backend.read_labels(questions(2 * len(faults)), LABELS)
    assert all(reading.logprobs is not None for reading in readings[1::2])
    unread = [
        name for name, reading in zip(ROWS, readings[::2], strict=True) if reading.logprobs is None
    ]
    assert all(reading.reason for reading in readings if reading.logprobs is None)
    assert {
        "logprobs null",
        "top_logprobs null",
        "an empty body",
        "a bomb",
        "deeply nested",
        "status 500",
    } <= set(unread)
    assert not {"finish_reason null", "usage 7", "id {}"} & set(
        unread
    )  # what is beside the answer spoils nothing
