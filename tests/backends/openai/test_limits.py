"""What is taken from a server: no more bytes than fit, no other server's answers, and no wait without an end."""

import gzip
import json
import logging
import time

import pytest
from asked import LABELS, questions
from http_server import HttpServer, Reply

from refladder.backends import connect
from refladder.backends.openai import connection, rate_limit
from refladder.errors import BackendUnavailableError

ANSWER = {
    "choices": [{"message": {"role": "assistant", "content": "Better"}, "finish_reason": "stop"}]
}
LARGE = json.dumps({**ANSWER, "padding": " " * 3_000_000}).encode()


def to(server, **options):
    return connect(
        "openai:toy",
        **{"base_url": server.url, "mode": "sample", "samples": "2", "attempts": "2", **options},
    )


@pytest.mark.parametrize(
    "reply",
    [
        Reply(LARGE),
        Reply(LARGE, 500),
        Reply(gzip.compress(LARGE), headers={"content-encoding": "gzip"}),
        Reply(gzip.compress(LARGE), 400, headers={"content-encoding": "GZIP"}),
    ],
    ids=["plain", "error", "gzip", "error in gzip"],
)
def test_an_answer_beyond_the_limit_is_not_read(monkeypatch, reply):
    monkeypatch.setattr(connection, "MOST_BYTES", 1_000_000)
    with HttpServer(lambda *_: reply) as server:
        message = "the answer is larger than 1,000,000 bytes; it was not read to its end; check --base-url"
        with pytest.raises(BackendUnavailableError, match=message):
            _ = to(server).fingerprint


def test_an_answer_within_the_limit_is_read_packed_or_not(monkeypatch):
    monkeypatch.setattr(connection, "MOST_BYTES", 4_000_000)
    for reply in (Reply(LARGE), Reply(gzip.compress(LARGE), headers={"content-encoding": "gzip"})):
        with HttpServer(lambda *_, reply=reply: reply) as server:
            assert to(server).read_labels(questions(1), LABELS)[0].logprobs is not None


@pytest.mark.parametrize("packed", ["br", "zstd", "gzip, gzip", "x" * 99])
def test_an_answer_that_is_packed_in_a_way_without_limit_is_refused(packed):
    with (
        HttpServer(lambda *_: Reply(b"x", headers={"content-encoding": packed})) as server,
        pytest.raises(
            BackendUnavailableError,
            match=r"the answer is packed as .*, and only gzip and deflate are read",
        ),
    ):
        _ = to(server).fingerprint


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_prompts_are_not_sent_on_to_another_server(status):
    asked = []
    with HttpServer(lambda *sent: asked.append(sent) or Reply(ANSWER)) as other:
        away = Reply({}, status, {"location": f"{other.url}/chat/completions"})
        with HttpServer(lambda *_: away) as server:
            message = (
                rf"it sends requests on to another server, '127.0.0.1:{other.port}', and prompts go to the one "
                "that was named only; name that one with --base-url if it is meant"
            )
            with pytest.raises(BackendUnavailableError, match=message):
                _ = to(server).fingerprint
    assert asked == []


def test_a_redirect_within_the_server_is_followed():
    def answer(_method, path, *_):
        return (
            Reply(ANSWER)
            if path.startswith("/new")
            else Reply({}, 307, {"location": "/new" + path})
        )

    with HttpServer(answer) as server:
        assert to(server).read_labels(questions(1), LABELS)[0].logprobs is not None


def test_a_long_pause_is_told_once_and_ends_the_run_after_patience(caplog):
    caplog.set_level(logging.WARNING)
    seen = []

    def answer(*_):
        seen.append(time.monotonic())
        return Reply({"error": {"message": "come back tomorrow"}}, 429, {"retry-after": "86400"})

    with HttpServer(answer) as server:
        with pytest.raises(
            BackendUnavailableError,
            match=r"it put requests off for 0.5 s, the patience of this run, and answered none: the server "
            "answered 429: come back tomorrow; run the same command again later; what was answered is kept",
        ):
            _ = to(server, patience="0.5").fingerprint
        assert [record.getMessage() for record in caplog.records] == [
            (
                f"{server.url} asks to wait 86,400 s; it is asked again every 60 s, and the run stops when it has "
                "given no answer for 0.5 s (the option patience)"
            )
        ]
    assert len(seen) == 2  # at once, and when patience is over
    assert 0.5 <= seen[1] - seen[0] < rate_limit.LONGEST_PAUSE


def test_a_server_that_answers_again_within_patience_loses_no_row(caplog):
    replies = [Reply({}, 429, {"retry-after": "0.2"}), Reply({}, 503, {"retry-after": "0.1"})]
    with HttpServer(lambda *_: replies.pop() if replies else Reply(ANSWER)) as server:
        assert to(server, patience="30").read_labels(questions(1), LABELS)[0].logprobs is not None
    assert caplog.records == []  # short pauses are not worth a word


NESTED = b'{"choices": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
DIGITS = (
    b'{"choices": [{"message": {"content": "Better"}}], "usage": {"prompt_tokens": '
    + b"9" * 400
    + b"}}"
)


@pytest.mark.parametrize(
    "body",
    [NESTED, DIGITS, DIGITS.replace(b"9" * 400, b"9" * 5000), b"\xff\xfe{}", b'"\xed\xa0\x80"'],
)
def test_bodies_that_cannot_be_parsed_are_no_answer(body):
    refused = pytest.raises(BackendUnavailableError, match="the answer is not JSON: ")
    with HttpServer(lambda *_: Reply(body)) as server, refused:
        _ = to(server).fingerprint


ALONE = "label 'Worse' outside the top 1: p <= 0.22"  # e^-1.5, of the chosen token, which is then the only one
INVALID = "an invalid entry among the log-probabilities: token "


@pytest.mark.parametrize(
    ("tops", "reason"),
    [
        ("Better", ALONE),
        (7, ALONE),
        ({"Better": 0}, ALONE),
        ([None], INVALID + "None with None"),
        ([[]], INVALID + "None with None"),
        ([{"token": 5, "logprob": "x"}], INVALID + "5 with 'x'"),
        ([{"token": "a", "logprob": True}], INVALID + "'a' with True"),
    ],
)
def test_lists_of_tokens_that_are_none_leave_the_row_unread_with_a_reason(tops, reason):
    good = [{"token": label, "logprob": -1.5} for label in (*LABELS, "other")]

    def answer(_method, _path, _headers, body):
        sent = json.loads(body)
        found = tops if "number 1" in str(sent["messages"]) else good
        content = [{"token": "Better", "logprob": -1.5, "top_logprobs": found}]
        return Reply(
            {"choices": [{"message": {"content": "Better"}, "logprobs": {"content": content}}]}
        )

    with HttpServer(answer) as server:
        readings = to(server, mode="top").read_labels(questions(3), LABELS)
    assert [reading.logprobs is None for reading in readings] == [False, True, False]
    assert readings[1].reason.startswith(reason)


def test_a_redirect_to_an_address_that_is_none():
    refused = pytest.raises(
        BackendUnavailableError, match="it sends requests on to an address that is none; check"
    )
    with HttpServer(lambda *_: Reply({}, 307, {"location": "http://[::1"})) as server, refused:
        _ = to(server).fingerprint
