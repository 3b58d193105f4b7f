"""Servers and gateways that refuse, fail or answer something else: what was wrong, and the next step."""

import json
import logging
import re
import socket
import traceback
from dataclasses import replace

import numpy as np
import pytest
from asked import LABELS, questions, to, unavailable
from http_server import HttpServer, Reply
from malformed_answers import ROWS, good
from toy_server import MODEL, OPENAI, TEXT_ONLY, VLLM, ToyServer
from waiting import HANG

from refladder.backends import connect
from refladder.backends.openai.errors import Refusal, Tally, refused_field, shown
from refladder.backends.openai.errors import unavailable as error_of
from refladder.records import Sampling

CANARY = "sk-canary-5d41402abc4b2a76"


def failing(message, status, **more):
    return Reply({"error": {"message": message, **more}}, status)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"error": {"message": "no", "param": "temperature"}}, "temperature"),
        ({"error": {"message": "no", "param": "messages[0].content"}}, "messages"),
        ({"detail": [{"type": "extra_forbidden", "loc": ["body", "seed"]}]}, "seed"),
        ({"object": "error", "message": {"detail": [{"loc": ["body", "n"]}]}}, "n"),
        ({"error": "no"}, ""),
        ("no", ""),
    ],
)
def test_the_field_that_an_error_names(body, field):
    assert refused_field(body) == field


@pytest.mark.parametrize(("key", "told"), [("x" * 8, "say [key]"), ("x", "say xxxxxxxx")])
def test_a_key_of_a_few_letters_is_no_secret(key, told):
    assert shown("say xxxxxxxx", key) == told
    assert shown("say xxxxxxxx", None, [key]) == told.replace("key", "header")


def test_nothing_answers():
    with socket.socket() as bound:  # and does not listen
        bound.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{bound.getsockname()[1]}/v1"
        backend = connect("openai:toy", base_url=url, attempts="2")
        with unavailable(r"/v1: the connection failed: .*; start the server, or check --base-url"):
            _ = backend.fingerprint


def test_a_wrong_key(serve, monkeypatch):
    server = serve(replace(OPENAI, key="right"))
    monkeypatch.setenv("REFLADDER_API_KEY", "wrong-key")
    message = r"the key was refused \(401: Incorrect API key provided: \[key\]\); set REFLADDER_API_KEY or OPENAI"
    with unavailable(message):
        _ = to(server).fingerprint
    monkeypatch.delenv("REFLADDER_API_KEY")
    with unavailable(r"it was sent no key \(401: "):
        _ = to(server, api_key_file=None).fingerprint
    assert len(server.asked) == 2  # a key that was refused is not tried again


def test_an_unknown_model_and_an_unknown_path(serve):
    url = serve(OPENAI).url
    with unavailable(r"/v1: model 'toi' is not served; it serves: toy"):
        _ = connect("openai:toi", base_url=url).fingerprint
    message = "the server answered 404: .*; check the model's name and --base-url, which usually ends in /v1"
    with unavailable(message):
        _ = connect("openai:toy", base_url=url.removesuffix("/v1")).fingerprint


def test_a_long_list_of_models_is_shortened():
    names = ["x" * 200, *(f"model-{number}" for number in range(500))]
    refusal = Refusal("the server answered 404", status=404)
    error = str(error_of("http://host/v1", "toi", refusal, names))
    assert f"it serves: {'x' * 80}..., model-0, model-1, " in error
    assert error.endswith(", model-18, and 481 more")
    assert len(error) < 400


QUOTA = {"message": "You exceeded your current quota", "code": "insufficient_quota"}


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (Reply({"a": 1}), "the answer holds no choices; check --base-url and the server's own log"),
        (Reply({"choices": []}), r"the answer holds no choices \(2 times\)"),
        # An error in another dress is what it would be with its own status.
        (failing("busy", 200, code=503), r"the server answered 503: busy \(2 times\)"),
        (
            failing("busy", 200, code="overloaded_error"),
            r"the server answered 503: busy \(2 times\)",
        ),
        (Reply({"error": QUOTA | {"code": "429"}, "id": "1"}), r"the quota is used up \(429: You"),
        (failing("no such key", 200, code=401), r"it was sent no key \(401: no such key\)"),
        (
            Reply({"choices": [{"error": {"code": 502, "message": "gone"}}]}),
            r"answered 502: gone \(2",
        ),
        (
            Reply({"choices": [{"finish_reason": "error"}]}),
            r"502: the answer ended with an error \(2",
        ),
        (
            Reply({"choices": [], "promptFeedback": {"blockReason": "SAFETY"}}),
            "content filter: SAFETY",
        ),
        (failing("busy\x1b[31m", 200), r"it answered with an error: busy \[31m; check"),
        (Reply([1]), r"the answer is not a JSON object: '\[1\]' \(2 times\)"),
        (Reply(b'{"choices": [{'), r"the answer is not JSON: '\{\"choices\": \[\{' \(2 times\)"),
        (failing("boom", 500), r"the server answered 500: boom \(2 times\); check --base-url"),
        (Reply({"error": QUOTA}, 429), r"the quota is used up \(429: You exceeded your current q"),
        (failing("context too long", 400), "the server answered 400: context too long"),
        (
            Reply(b"<html></html>", headers={"content-type": "text/html"}),
            "it answered with an HTML page instead of JSON; a base URL usually ends in /v1; check",
        ),
    ],
)
def test_answers_that_are_none(reply, message):
    with HttpServer(lambda *_: reply) as server, unavailable(message):
        _ = to(server, attempts="2").fingerprint


def test_a_server_that_hangs():
    with HttpServer(lambda *_: Reply({}, wait=HANG)) as server:
        backend = to(server, attempts="1", timeout="0.1")
        with unavailable(r"no whole answer within 0.1 s; start the server"):
            _ = backend.fingerprint


def test_a_server_that_dies_ends_the_run_and_keeps_what_was_answered(serve):
    server = serve(OPENAI)
    # one at a time, so that rows arrive in their order
    backend = to(server, max_concurrency="1", attempts="1")
    _ = backend.fingerprint
    whole = server._answer
    server.asked.clear()
    server._answer = lambda *sent: whole(*sent) if len(server.asked) < 30 else failing("down", 503)
    kept = {}
    message = "20 rows, one after the other, failed, so the run was stopped: the server answered 503: down; check"
    with unavailable(message):
        kept.update(backend.read_labels_each(questions(200), LABELS))
    assert sorted(kept) == list(range(30))
    assert all(reading.logprobs is not None for reading in kept.values())


def test_a_batch_that_fails_as_a_whole_is_an_error_however_small(serve):
    server = serve(OPENAI)
    backend = to(server, attempts="1")
    _ = backend.fingerprint
    server._answer = lambda *_: failing("down", 503)
    with unavailable("3 rows, one after the other, failed, so the run was stopped"):
        backend.read_labels(questions(3), LABELS)
    with unavailable("the only row failed, so the run was stopped"):
        backend.write(questions(1), Sampling())


def test_a_row_that_the_server_refuses_is_unreadable_with_its_reason(serve):
    server = serve(OPENAI)
    backend = to(server)
    _ = backend.fingerprint
    whole = server._answer
    refusal = failing("maximum context length", 400)
    server._answer = lambda *sent: refusal if b"number 3" in sent[3] else whole(*sent)
    readings = backend.read_labels(questions(6), LABELS)
    assert [place for place, reading in enumerate(readings) if reading.logprobs is None] == [3]
    assert readings[3].reason == "the server answered 400: maximum context length"


def test_every_malformed_answer_is_a_row_with_a_reason_or_a_reading():
    faults = list(ROWS.values())

    def answer(_method, _path, _headers, body):
        sent = json.loads(body)
        number = re.search(r"text number (\d+)", str(sent["messages"]))
        place = int(number[1]) if number else 1
        return faults[place // 2] if place % 2 == 0 else Reply(good(place, sent))

    with HttpServer(answer) as server:
        backend = to(server, mode="top", attempts="1", max_concurrency="1", timeout="60")
        readings = backend.read_labels(questions(2 * len(faults)), LABELS)
    assert all(reading.logprobs is not None for reading in readings[1::2])
    unread = {
        name: reading.reason
        for name, reading in zip(ROWS, readings[::2], strict=True)
        if reading.logprobs is None
    }
    assert all(unread.values())
    expected = "logprobs null, top_logprobs null, an empty body, a bomb, deeply nested, status 500"
    assert set(expected.split(", ")) <= unread.keys()
    # what is beside the answer spoils nothing
    assert not {"finish_reason null", "usage 7", "id {}"} & unread.keys()


def test_a_key_appears_nowhere(serve, monkeypatch, caplog):
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("OPENAI_API_KEY", CANARY)
    server = serve(replace(VLLM, key=CANARY))
    backend = to(server)
    readings = backend.read_labels(questions(2), LABELS)
    shown = [backend.fingerprint, backend.notice, repr(readings), repr(backend.options)]
    server.quirks = replace(VLLM, key="another")  # it now refuses the key, and repeats it
    with unavailable(r"Incorrect API key provided: \[key\]") as caught:
        backend.read_labels(questions(2), LABELS)
    shown += traceback.format_exception(caught.value)
    server._answer = lambda *_: Reply(f'"{CANARY}'.encode())  # and repeats it in broken JSON
    with unavailable(r"the answer is not JSON: '\"\[key\]'") as caught:
        to(server, attempts="1").read_labels(questions(2), LABELS)
    shown += traceback.format_exception(caught.value)
    shown += [record.getMessage() for record in caplog.records]
    assert len(shown) > 10
    assert CANARY not in "".join(shown)


def test_a_writer_draws_the_same_texts_again(serve):
    server = serve(TEXT_ONLY)
    backend = to(server)
    first = backend.write(questions(3), Sampling(max_tokens=8, seed=1))
    assert first == backend.write(questions(3), Sampling(max_tokens=8, seed=1))
    expected = {"seed": 1, "max_tokens": 8, "temperature": 1.0, "top_p": 1.0}
    assert expected.items() <= server.asked[-1][1].items()


class Gateway(ToyServer):
    """A toy server behind `refuse`, a function of path and body that returns a Reply or None; keeps all headers."""

    def __init__(self, quirks, refuse=lambda _path, _sent: None):
        super().__init__(quirks)
        self.refuse = refuse
        self.seen = []

    def _answer_http(self, method, path, headers, body):
        self.seen.append((path, headers))
        refused = self.refuse(path, json.loads(body) if body else {})
        return refused or super()._answer_http(method, path.partition("?")[0], headers, body)


def test_headers_are_sent_with_every_request_and_kept_nowhere(tmp_path, monkeypatch, caplog):
    caplog.set_level("DEBUG")
    path, cache = tmp_path / "headers.json", tmp_path / "cache.json"
    path.write_text(json.dumps({"api-key": CANARY, "X-Team": "a b"}))
    monkeypatch.setenv("REFLADDER_HEADERS", '{"api-key": "of the environment"}')
    with Gateway(VLLM) as server:
        backend = to(server, headers_file=str(path), probe_cache=str(cache))
        backend.read_labels(questions(2), LABELS)
        sent = {(headers["api-key"], headers["x-team"]) for _, headers in server.seen}
        assert sent == {(CANARY, "a b")}
        assert {path for path, _ in server.seen} > {"/tokenize", "/v1/completions"}
        server.seen.clear()
        _ = to(server).fingerprint
        assert {headers["api-key"] for _, headers in server.seen} == {"of the environment"}
    shown = [cache.read_text(), backend.fingerprint, backend.notice, repr(backend.options)]
    assert CANARY not in "".join([*shown, caplog.text])


def test_the_api_version_of_a_base_url_is_sent_with_every_request():
    version = "?api-version=2024-10-21"
    with Gateway(VLLM) as server:
        backend = connect(f"openai:{MODEL}", base_url=f"{server.url}/{version}")
        backend.read_labels(questions(1), LABELS)
        paths = {path for path, _ in server.seen}
        assert paths >= {f"/v1/chat/completions{version}", f"/tokenize{version}"}
        assert all(path.endswith(version) for path in paths)
        name = f"openai:toy@localhost{version} prefix:on exact:"
        assert backend.fingerprint.startswith(name)


def test_a_403_is_about_a_feature_in_the_handshake_and_about_the_key_in_the_run():
    with Gateway(replace(OPENAI, chat_logprobs="forbidden")) as server:
        backend = to(server, samples="2")
        assert "sample2-shares" in backend.fingerprint
        assert "key" not in "; ".join(backend.capabilities.refused)
        server.refuse = lambda *_: failing("no more", 403)
        with unavailable(r"it was sent no key \(403: no more\)"):
            backend.read_labels(questions(2), LABELS)


@pytest.mark.parametrize("status", [401, 403])
def test_a_gateway_that_forbids_unknown_paths_costs_the_exact_mode_only(status):
    def refuse(path, _sent):
        known = path in {"/v1/chat/completions", "/v1/models"}
        return None if known else failing("Missing Authentication Token", status)

    with Gateway(VLLM, refuse) as server:
        assert "top20" in to(server).fingerprint


def test_the_first_question_decides_about_the_key():
    with Gateway(OPENAI, lambda *_: failing("not you", 403)) as server:
        with unavailable(r"it was sent no key \(403: not you\)"):
            _ = to(server).fingerprint
        assert len(server.seen) == 1


def test_token_ids_come_from_a_proxy_that_forwards_v1_only(tmp_path):
    class Proxy(Gateway):
        def _answer_http(self, method, path, headers, body):
            if not path.startswith("/v1/"):
                self.seen.append((path, headers))
                return Reply({"detail": "Not Found"}, 404)
            path = path.replace("/v1/tokenize", "/tokenize")
            return ToyServer._answer_http(self, method, path, headers, body)

    with Proxy(VLLM) as server:
        for _ in range(2):  # the second knows the place from the cache
            backend = to(server, probe_cache=str(tmp_path / "cache.json"))
            assert " exact:token-ids" in backend.fingerprint
            [asked] = questions(1)
            [reading] = backend.read_labels([asked], LABELS)
            np.testing.assert_allclose(reading.logprobs, server.exact(asked, LABELS), atol=1e-6)
            assert [path for path, _ in server.seen].count("/tokenize") == 1


class Caching(ToyServer):
    """Tells with each answer of a chat that three tokens of its prompt were cached; or nothing, as some servers do."""

    told = True

    def _chat(self, body):
        answer = super()._chat(body)
        if self.told:
            answer["usage"]["prompt_tokens_details"] = {"cached_tokens": 3}
        return answer


def test_what_the_server_had_cached_was_not_read():
    with Caching(OPENAI) as server:
        backend = to(server)
        backend.read_labels(questions(4), LABELS)
        counts = backend.counts
        assert counts["requests"] >= 4
        assert backend.usage.run_tokens == counts["prompt tokens"] - counts["cached prompt tokens"]
        assert counts["cached prompt tokens"] >= 3 * 4  # those of the handshake too
        server.told = False
        backend.read_labels(questions(4), LABELS)
        assert backend.usage.run_tokens is None


@pytest.mark.parametrize(
    ("details", "cached", "unknown"),
    [
        (None, 0, 10),
        ("3", 0, 10),
        ({}, 0, 10),
        ({"cached_tokens": None}, 0, 10),
        ({"cached_tokens": 11}, 0, 10),
        ({"cached_tokens": 10}, 10, 0),
    ],
)
def test_a_count_of_cached_tokens_is_believed_up_to_the_prompt(details, cached, unknown):
    tally = Tally()
    usage = {"prompt_tokens": 10, "completion_tokens": 2, "prompt_tokens_details": details}
    assert tally.used(usage) == 12
    assert tally.counts["prompt tokens of unknown cache"] == unknown
    assert tally.counts["cached prompt tokens"] == cached
