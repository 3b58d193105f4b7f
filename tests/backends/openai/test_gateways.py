"""Servers behind gateways: headers of their own, versions in the address, paths that are forbidden or moved."""

import json
from dataclasses import replace

import numpy as np
import pytest
from asked import LABELS, questions, to
from http_server import HttpServer, Reply
from toy_server import MODEL, OPENAI, VLLM, ToyServer

from refladder.backends import connect
from refladder.errors import BackendUnavailableError, UsageError

SECRET = "canary-a1b2c3d4e5f6"  # noqa: S105  of a test
NO_LOGPROBS = (
    "You are not allowed to request logprobs from this model"  # OpenAI's o-series, with status 403
)


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


def forbidden(message):
    return Reply({"error": {"message": message}}, 403)


def unknown_paths(path, _sent):
    return (
        None
        if path in {"/v1/chat/completions", "/v1/models"}
        else forbidden("Missing Authentication Token")
    )


def no_logprobs(_path, sent):
    return forbidden(NO_LOGPROBS) if sent.get("logprobs") else None


def test_headers_are_sent_with_every_request_and_kept_nowhere(tmp_path, monkeypatch, caplog):
    caplog.set_level("DEBUG")
    path, cache = tmp_path / "headers.json", tmp_path / "cache.json"
    path.write_text(json.dumps({"api-key": SECRET, "X-Team": "a b"}))
    monkeypatch.setenv("REFLADDER_HEADERS", '{"api-key": "of the environment"}')
    with Gateway(VLLM) as server:
        backend = to(server, headers_file=str(path), probe_cache=str(cache))
        backend.read_labels(questions(2), LABELS)
        assert {(headers["api-key"], headers["x-team"]) for _, headers in server.seen} == {
            (SECRET, "a b")
        }
        assert {path for path, _ in server.seen} > {"/tokenize", "/v1/completions"}
        server.seen.clear()
        _ = to(server).fingerprint
        assert {headers["api-key"] for _, headers in server.seen} == {"of the environment"}
    shown = [
        cache.read_text(),
        backend.fingerprint,
        backend.notice,
        repr(backend.options),
        caplog.text,
    ]
    assert SECRET not in "".join(shown)


def test_a_header_that_the_server_repeats_is_hidden(monkeypatch):
    monkeypatch.setenv("REFLADDER_HEADERS", json.dumps({"Authorization": f"Bearer {SECRET}"}))
    for told, shown in ((f"Bearer {SECRET}", r"\[header\]"), (SECRET, r"\[header\]")):
        with (
            Gateway(
                OPENAI, lambda *_, told=told: Reply({"error": {"message": f"no {told}"}}, 401)
            ) as server,
            pytest.raises(
                BackendUnavailableError,
                match=rf"the key or a header was refused \(401: no {shown}\);",
            ),
        ):
            _ = to(server).fingerprint


def test_headers_replace_those_of_the_key(monkeypatch):
    monkeypatch.setenv("REFLADDER_API_KEY", "a-key")
    monkeypatch.setenv("REFLADDER_HEADERS", '{"authorization": "Basic x"}')
    with Gateway(OPENAI) as server:
        _ = to(server).fingerprint
    assert {headers["authorization"] for _, headers in server.seen} == {"Basic x"}


def test_headers_go_to_no_other_server(monkeypatch):
    monkeypatch.setenv("REFLADDER_HEADERS", json.dumps({"api-key": SECRET}))
    with Gateway(OPENAI) as other:

        def redirect(_method, path, _headers, _body):
            return Reply(None, 307, {"location": f"http://127.0.0.1:{other.port}{path}"})

        with (
            HttpServer(redirect) as server,
            pytest.raises(BackendUnavailableError, match="on to another server"),
        ):
            _ = to(server).fingerprint
        assert other.seen == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            f'["{SECRET}"]',
            'must hold a JSON object with a string for each header, such as {"X-Team": "a"}',
        ),
        (f'{{"api-key": "{SECRET}', "must hold a JSON object"),
        ('{"X-Number": 1}', "must hold a JSON object"),
        ('{"Host": "h"}', "header 'Host' must not be set; remove it"),
        ('{"two words": "h"}', "header 'two words' must not be set; remove it"),
        (
            f'{{"api-key": "{SECRET}\\r\\nX: y"}}',
            "the value of header 'api-key' must be one line of ASCII",
        ),
    ],
)
def test_headers_that_cannot_be_sent(text, message, tmp_path, monkeypatch):
    path = tmp_path / "headers.json"
    path.write_text(text)
    monkeypatch.setenv("REFLADDER_HEADERS", text)
    for where, options in ((str(path), {"headers_file": str(path)}), ("REFLADDER_HEADERS", {})):
        with pytest.raises(BackendUnavailableError) as caught:
            connect("openai:toy", base_url="http://127.0.0.1:9/v1", **options)
        assert str(caught.value).startswith(f"{where}: {message}")
        assert SECRET not in str(caught.value)


def test_a_headers_file_that_is_not_there(tmp_path):
    with pytest.raises(
        BackendUnavailableError,
        match=r"none: cannot read the headers \(No such file or directory\); na",
    ):
        connect("openai:toy", base_url="http://127.0.0.1:9/v1", headers_file=str(tmp_path / "none"))


def test_the_api_version_of_a_base_url_is_sent_with_every_request():
    with Gateway(VLLM) as server:
        backend = connect(f"openai:{MODEL}", base_url=f"{server.url}/?api-version=2024-10-21")
        backend.read_labels(questions(1), LABELS)
        assert {path for path, _ in server.seen} >= {
            f"{path}?api-version=2024-10-21"
            for path in ("/v1/chat/completions", "/v1/completions", "/tokenize")
        }
        assert all(path.endswith("?api-version=2024-10-21") for path, _ in server.seen)
        assert backend.fingerprint.startswith(
            f"openai:toy@127.0.0.1:{server.port}/v1?api-version=2024-10-21 prefix:on exact:"
        )


@pytest.mark.parametrize(
    "query", [f"key={SECRET}", f"api-version=1&sig={SECRET}", "api-version=", "api-version=a/b"]
)
def test_any_other_query_of_a_base_url_is_refused(query):
    with pytest.raises(
        UsageError, match=r"must hold no user, password or query but api-version, .* \(host h\)"
    ) as caught:
        connect("openai:toy", base_url=f"https://h/v1?{query}")
    assert SECRET not in str(caught.value)


def test_a_model_without_log_probabilities_is_sampled_though_the_server_says_403():
    with Gateway(OPENAI, no_logprobs) as server:
        backend = to(server, samples="2")
        assert "sample2-shares" in backend.fingerprint
        refused = "; ".join(backend.capabilities.refused)
        assert f"the server answered 403: {NO_LOGPROBS}" in refused
        assert "key" not in refused
        server.refuse = lambda *_: forbidden(
            "no more"
        )  # the way of reading is settled: now it is about the key
        with pytest.raises(BackendUnavailableError, match=r"it was sent no key \(403: no more\)"):
            backend.read_labels(questions(2), LABELS)


@pytest.mark.parametrize("status", [401, 403])
def test_a_gateway_that_forbids_unknown_paths_costs_the_exact_mode_only(status):
    def refuse(path, sent):
        refused = unknown_paths(path, sent)
        return refused and replace(refused, status=status)

    with Gateway(VLLM, refuse) as server:
        assert "top20" in to(server).fingerprint


def test_the_first_question_decides_about_the_key():
    with (
        Gateway(OPENAI, lambda *_: forbidden("not you")) as server,
        pytest.raises(BackendUnavailableError, match=r"it was sent no key \(403: not you\)"),
    ):
        _ = to(server).fingerprint
    assert len(server.seen) == 1


def test_token_ids_come_from_a_proxy_that_forwards_v1_only(tmp_path):
    class Proxy(Gateway):
        def _answer_http(self, method, path, headers, body):
            self.seen.append((path, headers))
            if not path.startswith("/v1/"):
                return Reply({"detail": "Not Found"}, 404)
            return ToyServer._answer_http(
                self, method, path.replace("/v1/tokenize", "/tokenize"), headers, body
            )

    with Proxy(VLLM) as server:
        for _ in range(2):  # the second knows the place from the cache
            backend = to(server, probe_cache=str(tmp_path / "cache.json"))
            assert " exact:token-ids" in backend.fingerprint
            [asked] = questions(1)
            [reading] = backend.read_labels([asked], LABELS)
            np.testing.assert_allclose(reading.logprobs, server.exact(asked, LABELS), atol=1e-6)
            at_root = [path for path, _ in server.seen if path == "/tokenize"]
        assert len(at_root) == 1
