"""Many prompts a request: the readings of one prompt a request, in fewer requests."""

import asyncio
import json
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from asked import LABELS, question, questions, to
from toy_server import SGLANG, VLLM

from refladder.backends.openai import exact_mode
from refladder.backends.openai.connection import Connection
from refladder.backends.openai.errors import Refusal, Tally
from refladder.backends.openai.options import Options
from refladder.backends.openai.rate_limit import RateLimiter

SERVERS = {"vllm": VLLM, "sglang": SGLANG}
ROWS = 40  # a block of 32 and one of 8


def both(serve, quirks, rows, **options):
    """Readings and requests for each, one prompt a request and then many."""
    server = serve(quirks)
    backend, found = to(server, **options), []
    many = backend.capabilities
    for backend._capabilities in (replace(many, together=False), many):
        name = backend.fingerprint
        server.asked.clear()
        found.append((backend.read_labels(rows, LABELS), asked(server), name))
    return found


def asked(server):
    """Requests by path; one that had to be sent twice counts once."""
    distinct = {(path, json.dumps(body, sort_keys=True)) for path, body in server.asked}
    return Counter(path for path, _ in distinct if path != "/tokenize")


@pytest.mark.parametrize(
    ("quirks", "path", "alone", "together"),
    # `Worse` has two tokens, so vLLM is asked about each prompt twice, and SGLang once with two items
    [(VLLM, "/v1/completions", 2 * ROWS, 2 * 2), (SGLANG, "/v1/score", ROWS, 2)],
    ids=SERVERS,
)
def test_readings_are_those_of_one_prompt_a_request(serve, quirks, path, alone, together):
    one, many = both(serve, quirks, questions(ROWS))
    assert many[0] == one[0]
    assert many[2] == one[2]  # the fingerprint
    assert (one[1][path], many[1][path]) == (alone, together)
    exact = [serve(quirks).exact(prompt, LABELS) for prompt in questions(ROWS)]
    found = [reading.logprobs for reading in many[0]]
    np.testing.assert_allclose(found, exact, atol=1e-9)


def test_choices_are_placed_by_their_numbers(serve):
    one, many = both(serve, replace(VLLM, together="reversed"), questions(ROWS))
    assert many[0] == one[0]
    assert many[1]["/v1/completions"] == 4


@pytest.mark.parametrize(
    "quirks", [*SERVERS.values(), replace(VLLM, together="mixed up")], ids=[*SERVERS, "mixed up"]
)
def test_a_server_that_cannot_is_asked_one_at_a_time(serve, quirks):
    quirks = replace(quirks, together="refused") if quirks.together == "yes" else quirks
    one, many = both(serve, quirks, questions(ROWS))
    assert many == one


def test_a_refusal_waits_for_the_requests_beside_it():
    answered = []

    async def after(_client, _prompts, ids):
        if ids == [1, 3]:
            raise Refusal("no")
        await asyncio.sleep(0.05)
        answered.append(ids)
        return [{2: -1.0}]

    with pytest.raises(Refusal, match="no"):
        asyncio.run(exact_mode._by_beginnings(after, None, [[7]], ((1,), (3, 2))))
    assert answered == [[2]]  # after the token 3


@pytest.mark.parametrize("quirks", SERVERS.values(), ids=SERVERS)
def test_a_prompt_that_is_too_long_loses_no_other(serve, quirks):
    rows = questions(ROWS)
    rows[5] = question("long " * 200)
    one, many = both(serve, replace(quirks, longest=600), rows)
    assert [reading.logprobs is None for reading in many[0]] == [
        number == 5 for number in range(ROWS)
    ]
    assert "maximum context length" in many[0][5].reason
    assert many[0] == one[0]
    # the block of 32 once, its rows one by one, and the block of 8
    assert sum(many[1].values()) == (2 + 2 * 32 + 2 if quirks is VLLM else 1 + 32 + 1)


@pytest.mark.parametrize("quirks", SERVERS.values(), ids=SERVERS)
def test_a_request_holds_no_more_than_its_tokens(serve, quirks, monkeypatch):
    monkeypatch.setattr("refladder.backends.openai.exact_mode._MOST_TOKENS", 1000)
    one, many = both(serve, quirks, questions(32))
    assert many[0] == one[0]
    assert sum(one[1].values()) > sum(many[1].values()) > (2 if quirks is VLLM else 1)


def test_the_estimate_of_a_request_counts_the_tokens_of_each_prompt():
    server = Connection(Options(tokens_per_minute=100.0), None, RateLimiter(), Tally())
    assert server._estimate({"prompt": [[1, 2, 3], [4, 5]], "max_tokens": 1}) == 5 + 2
    assert server._estimate({"prompt": [1, 2, 3], "max_tokens": 1}) == 3 + 1
    assert server._estimate({"query": [1, 2], "items": [[3], [4, 5]]}) == 3 + 4
    assert (
        server._estimate({"messages": "x" * 8, "max_tokens": 5}) == 8 / 4 + 5
    )  # 4 characters a token


def test_an_interrupted_run_gives_what_came(serve):
    server = serve(VLLM)
    backend = to(server, max_concurrency="1")  # one block at a time
    backend.read_labels(questions(1), LABELS)
    server.asked.clear()
    readings = backend.read_labels_each(questions(320), LABELS)
    first = next(readings)
    readings.close()
    assert first[1].logprobs is not None
    assert asked(server)["/v1/completions"] < 2 * 320 / 32
