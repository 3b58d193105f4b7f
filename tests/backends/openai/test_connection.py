"""The connection itself: proxies and certificates from the environment, headers, redirects and compressed answers."""

import asyncio
import json
import ssl
import subprocess
import sys
import threading
import zlib
from pathlib import Path

import pytest
from asked import LABELS, questions
from http_server import HttpServer, Reply

from refladder.backends import connect
from refladder.errors import BackendUnavailableError

ANSWER = {
    "choices": [{"message": {"role": "assistant", "content": "Better"}, "finish_reason": "stop"}]
}
PROXIES = (
    "HTTP_PROXY",
    "http_proxy",
    "HTTPS_PROXY",
    "https_proxy",
    "ALL_PROXY",
    "all_proxy",
    "NO_PROXY",
    "no_proxy",
)


def to(url, **options):
    return connect(
        "openai:toy",
        **{"base_url": url, "mode": "sample", "samples": "1", "attempts": "1", **options},
    )


@pytest.fixture(autouse=True)
def _nothing_of_the_user(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("variable", ["http_proxy", "all_proxy"])
def test_a_proxy_from_the_environment(monkeypatch, tmp_path, variable):
    asked = []
    with HttpServer(lambda _, path, *__: asked.append(path) or Reply(ANSWER)) as proxy:
        monkeypatch.setenv(variable, f"127.0.0.1:{proxy.port}")
        assert (
            to("http://judge.invalid/v1").read_labels(questions(1), LABELS)[0].logprobs is not None
        )
        assert "http://judge.invalid/v1/chat/completions" in asked
        monkeypatch.setenv("no_proxy", "judge.invalid")
        with pytest.raises(BackendUnavailableError, match="the connection failed: "):
            _ = to("http://judge.invalid/v1", probe_cache=str(tmp_path / "others")).fingerprint


def test_a_proxy_that_cannot_be_used(monkeypatch):
    monkeypatch.setenv("http_proxy", "socks5://me:secret@127.0.0.1:1080")
    message = (
        "the environment names a socks5 proxy for http, and only http and https proxies can be used; set HTTP_PROXY to "
        r"one of those, or NO_PROXY=judge\.invalid$"
    )
    with pytest.raises(BackendUnavailableError, match=message):
        _ = to("http://judge.invalid/v1").fingerprint


class SecureServer:
    """The same answer to every request, over TLS with a certificate that no system trusts."""

    def __init__(self, folder):
        self._certificate, self._key = folder / "certificate.pem", folder / "key.pem"
        command = [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-days",
            "2",
            "-subj",
            "/CN=localhost",
        ]
        names = [
            "-addext",
            "subjectAltName=IP:127.0.0.1",
            "-keyout",
            str(self._key),
            "-out",
            str(self._certificate),
        ]
        try:
            subprocess.run([*command, *names], check=True, capture_output=True)
        except (FileNotFoundError, subprocess.CalledProcessError):
            pytest.skip("needs the openssl command to make a certificate")
        self.certificate = str(self._certificate)

    def __enter__(self):
        self._ready, self._loop = threading.Event(), asyncio.new_event_loop()
        self._thread = threading.Thread(target=lambda: self._loop.run_until_complete(self._main()))
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(self, *_):
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        self._loop.close()

    async def _main(self):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._certificate, self._key)
        self._stop = asyncio.Event()
        server = await asyncio.start_server(self._answer, "127.0.0.1", 0, ssl=context)
        self.url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        self._ready.set()
        await self._stop.wait()
        server.close()

    @staticmethod
    async def _answer(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        body = json.dumps(ANSWER).encode()
        head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        writer.write(head.encode() + body)
        await writer.drain()
        writer.close()


SUPPORT = Path(__file__).parents[2] / "support" / "openai"
CLIENT = """
import sys
sys.path[:0] = {folders!r}
from test_connection import LABELS, questions, to
print(to({url!r}, probe_cache={cache!r}).read_labels(questions(1), LABELS)[0].logprobs is not None)
"""


def test_a_certificate_from_the_environment(tmp_path, monkeypatch):
    with SecureServer(tmp_path) as server:
        code = CLIENT.format(
            folders=[str(Path(__file__).parent), str(SUPPORT)],
            url=server.url,
            cache=str(tmp_path / "probes.json"),
        )
        command = [sys.executable, "-W", "error", "-c", code]
        refused = subprocess.run(command, capture_output=True, text=True, check=False)
        assert "the connection failed: " in refused.stderr
        assert "certificate verify failed" in refused.stderr
        monkeypatch.setenv("SSL_CERT_FILE", server.certificate)
        accepted = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (accepted.stdout, accepted.stderr) == ("True\n", "")


def test_what_is_sent_beside_the_question(monkeypatch):
    seen = []
    monkeypatch.setenv("OPENAI_ORG_ID", "org-1")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-1")
    with HttpServer(lambda _, __, headers, ___: seen.append(headers) or Reply(ANSWER)) as server:
        _ = to(server.url).fingerprint
        assert "authorization" not in seen[-1]
        monkeypatch.setenv("REFLADDER_API_KEY", "k")
        _ = to(server.url).fingerprint
    assert seen[-1]["authorization"] == "Bearer k"
    assert (seen[-1]["openai-organization"], seen[-1]["openai-project"]) == ("org-1", "proj-1")
    assert seen[-1]["user-agent"].startswith("refladder/")
    assert seen[-1]["content-type"] == "application/json"
    assert seen[-1]["accept-encoding"] == "gzip, deflate"


def test_a_redirect_without_an_end():
    with (
        HttpServer(lambda *_: Reply({}, 307, {"location": "/v1/again"})) as server,
        pytest.raises(
            BackendUnavailableError,
            match="it redirects a request more than 10 times; check --base-url",
        ),
    ):
        _ = to(server.url).fingerprint


@pytest.mark.parametrize(("status", "method"), [(307, "POST"), (302, "POST"), (303, "GET")])
def test_a_redirect_keeps_the_request_unless_the_answer_lies_elsewhere(status, method):
    seen = []

    def answer(sent, path, _headers, body):
        if path == "/elsewhere":
            seen.append((sent, bool(body)))
            return Reply(ANSWER)
        return Reply({}, status, {"location": "/elsewhere"})

    with HttpServer(answer) as server:
        _ = to(server.url).fingerprint
    assert set(seen) == {(method, method == "POST")}


def deflated(window):
    packer = zlib.compressobj(wbits=window)
    return packer.compress(json.dumps(ANSWER).encode()) + packer.flush()


@pytest.mark.parametrize(("packed", "window"), [("gzip", 31), ("deflate", 15), ("deflate", -15)])
def test_compressed_answers(packed, window):
    reply = Reply(deflated(window), headers={"content-encoding": packed})
    with HttpServer(lambda *_: reply) as server:
        assert to(server.url).read_labels(questions(1), LABELS)[0].logprobs is not None


def test_an_answer_that_is_not_compressed_as_it_says():
    reply = Reply(ANSWER, headers={"content-encoding": "gzip"})
    message = "the answer cannot be decompressed, though it is packed as 'gzip'; start the server"
    with (
        HttpServer(lambda *_: reply) as server,
        pytest.raises(BackendUnavailableError, match=message),
    ):
        _ = to(server.url).fingerprint


def test_connections_are_used_again():
    open_at_once = set()

    class Counting(HttpServer):
        async def _connection(self, reader, writer):
            open_at_once.add(writer.get_extra_info("peername"))
            await super()._connection(reader, writer)

    with Counting(lambda *_: Reply(ANSWER)) as server:
        backend = to(server.url, max_concurrency="4")
        _ = backend.fingerprint
        open_at_once.clear()
        backend.read_labels(questions(100), LABELS)
    assert 1 <= len(open_at_once) <= 4
