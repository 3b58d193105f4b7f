"""The connection: proxies, certificates and headers, redirects, sizes and compression, pauses and broken bodies."""

import gzip
import json
import logging
import ssl
import subprocess
import sys
import zlib
from pathlib import Path

import pytest
from asked import ANSWER, LABELS, once, questions, unavailable
from http_server import HttpServer, Reply

from refladder.backends.openai import connection
from refladder.errors import BackendUnavailableError

SECRET = "canary-a1b2c3d4e5f6"  # noqa: S105  of a test
LARGE = json.dumps({**ANSWER, "padding": " " * 3_000_000}).encode()
GZIP = {"content-encoding": "gzip"}


def is_read(url, **options):
    """Whether a question gets its answer."""
    return once(url, **options).read_labels(questions(1), LABELS)[0].logprobs is not None


def meet(url, **options):
    """Ask the server for all that the handshake asks."""
    return once(url, **options).fingerprint


def replying(reply):
    """A server that gives the same reply to every request."""
    return HttpServer(lambda *_: reply)


class Recording(HttpServer):
    """A server that answers, and keeps path and headers of every request."""

    def __init__(self, reply=None):
        super().__init__(lambda _, path, headers, __: self.seen.append((path, headers)) or reply)
        reply, self.seen = reply or Reply(ANSWER), []


@pytest.mark.parametrize("variable", ["http_proxy", "all_proxy"])
def test_a_proxy_from_the_environment(monkeypatch, tmp_path, variable):
    with Recording() as proxy:
        monkeypatch.setenv(variable, f"127.0.0.1:{proxy.port}")
        assert is_read("http://judge.invalid/v1")
        assert "http://judge.invalid/v1/chat/completions" in [path for path, _ in proxy.seen]
        monkeypatch.setenv("no_proxy", "judge.invalid")
        with unavailable("the connection failed: "):
            meet("http://judge.invalid/v1", probe_cache=str(tmp_path / "others"))


def test_a_proxy_that_cannot_be_used(monkeypatch):
    monkeypatch.setenv("http_proxy", "socks5://me:secret@127.0.0.1:1080")
    message = (
        "the environment names a socks5 proxy for http, and only http and https proxies can be used; set HTTP_PROXY to "
        r"one of those, or NO_PROXY=judge\.invalid$"
    )
    with unavailable(message):
        meet("http://judge.invalid/v1")


CLIENT = """
import sys
sys.path[:0] = {folders!r}
from asked import LABELS, once, questions
print(once({url!r}).read_labels(questions(1), LABELS)[0].logprobs is not None)
"""


@pytest.fixture
def secure(tmp_path):
    """A server over TLS, with a certificate that no system trusts, and the file that holds it."""
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext"
    files = ["subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate]
    try:
        subprocess.run([*command.split(), *files], check=True, capture_output=True)
    except (FileNotFoundError, subprocess.CalledProcessError):
        pytest.skip("needs the openssl command to make a certificate")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with HttpServer(lambda *_: Reply(ANSWER), ssl=context) as server:
        yield server, certificate


def test_a_certificate_from_the_environment(secure, monkeypatch):
    server, certificate = secure
    with unavailable("the connection failed: .*certificate verify failed"):
        meet(server.url)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))  # read as a process begins
    support = Path(__file__).parents[2] / "support"
    code = CLIENT.format(folders=[str(support), str(support / "openai")], url=server.url)
    command = [sys.executable, "-W", "error", "-c", code]
    accepted = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (accepted.stdout, accepted.stderr) == ("True\n", "")


def test_what_is_sent_beside_the_question(monkeypatch):
    monkeypatch.setenv("OPENAI_ORG_ID", "org-1")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-1")
    with Recording() as server:
        meet(server.url)
        assert "authorization" not in server.seen[-1][1]
        monkeypatch.setenv("REFLADDER_API_KEY", "k")
        meet(server.url)
        sent = server.seen[-1][1]
        monkeypatch.setenv("REFLADDER_HEADERS", '{"authorization": "Basic x"}')
        meet(server.url)
        assert server.seen[-1][1]["authorization"] == "Basic x"  # headers replace that of the key
    assert sent["authorization"] == "Bearer k"
    assert (sent["openai-organization"], sent["openai-project"]) == ("org-1", "proj-1")
    assert sent["user-agent"].startswith("refladder/")
    assert sent["content-type"] == "application/json"
    assert sent["accept-encoding"] == "gzip, deflate"


@pytest.mark.parametrize("told", [f"Bearer {SECRET}", SECRET])
def test_a_header_that_the_server_repeats_is_hidden(told, monkeypatch):
    monkeypatch.setenv("REFLADDER_HEADERS", json.dumps({"Authorization": f"Bearer {SECRET}"}))
    refusal = Reply({"error": {"message": f"no {told}"}}, 401)
    message = r"the key or a header was refused \(401: no \[header\]\);"
    with replying(refusal) as server, unavailable(message):
        meet(server.url)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f'["{SECRET}"]', 'must hold a JSON object with a string for each header, such as {"X-T'),
        (f'{{"api-key": "{SECRET}', "must hold a JSON object"),
        ('{"X-Number": 1}', "must hold a JSON object"),
        ('{"Host": "h"}', "header 'Host' must not be set; remove it"),
        ('{"two words": "h"}', "header 'two words' must not be set; remove it"),
        (f'{{"k": "{SECRET}\\r\\nX: y"}}', "the value of header 'k' must be one line of ASCII"),
    ],
)
def test_headers_that_cannot_be_sent(text, message, tmp_path, monkeypatch):
    path = tmp_path / "headers.json"
    path.write_text(text)
    monkeypatch.setenv("REFLADDER_HEADERS", text)
    for where, options in ((str(path), {"headers_file": str(path)}), ("REFLADDER_HEADERS", {})):
        with pytest.raises(BackendUnavailableError) as caught:
            once("http://127.0.0.1:9/v1", **options)
        assert str(caught.value).startswith(f"{where}: {message}")
        assert SECRET not in str(caught.value)


def test_a_headers_file_that_is_not_there(tmp_path):
    with unavailable(r"none: cannot read the headers \(No such file or directory\); na"):
        once("http://127.0.0.1:9/v1", headers_file=str(tmp_path / "none"))


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_prompts_and_headers_are_not_sent_on_to_another_server(status, monkeypatch):
    monkeypatch.setenv("REFLADDER_HEADERS", json.dumps({"api-key": SECRET}))
    with Recording() as other:
        away = Reply({}, status, {"location": f"{other.url}/chat/completions"})
        message = (
            rf"it sends requests on to another server, '127.0.0.1:{other.port}', and prompts go to the one that was "
            "named only; name that one with --base-url if it is meant"
        )
        with replying(away) as server, unavailable(message):
            meet(server.url)
    assert other.seen == []


@pytest.mark.parametrize(
    ("location", "message"),
    [
        ("/v1/again", "it redirects a request more than 10 times; check --base-url"),
        ("http://[::1", "it sends requests on to an address that is none; check"),
    ],
)
def test_redirects_that_lead_nowhere(location, message):
    away = Reply({}, 307, {"location": location})
    with replying(away) as server, unavailable(message):
        meet(server.url)


@pytest.mark.parametrize(("status", "method"), [(307, "POST"), (302, "POST"), (303, "GET")])
def test_a_redirect_keeps_the_request_unless_the_answer_lies_elsewhere(status, method):
    seen = []

    def answer(sent, path, _headers, body):
        if path == "/elsewhere":
            seen.append((sent, bool(body)))
            return Reply(ANSWER)
        return Reply({}, status, {"location": "/elsewhere"})

    with HttpServer(answer) as server:
        assert is_read(server.url)
    assert set(seen) == {(method, method == "POST")}


def deflated(window):
    packer = zlib.compressobj(wbits=window)
    return packer.compress(json.dumps(ANSWER).encode()) + packer.flush()


@pytest.mark.parametrize(("packed", "window"), [("gzip", 31), ("deflate", 15), ("deflate", -15)])
def test_compressed_answers(packed, window):
    with replying(Reply(deflated(window), headers={"content-encoding": packed})) as server:
        assert is_read(server.url)


NOT_PACKED = "the answer cannot be decompressed, though it is packed as 'gzip'; start the server"


@pytest.mark.parametrize(
    ("packed", "message"),
    [
        ("gzip", NOT_PACKED),
        ("br", "the answer is packed as 'br', and only gzip and deflate are read"),
        ("gzip, gzip", "the answer is packed as 'gzip, gzip', and only"),
        ("x" * 99, "the answer is packed as 'x{10}"),
    ],
)
def test_answers_that_cannot_be_unpacked(packed, message):
    reply = Reply(ANSWER, headers={"content-encoding": packed})
    with replying(reply) as server, unavailable(message):
        meet(server.url)


@pytest.mark.parametrize("status", [200, 500])
@pytest.mark.parametrize("packed", [False, True])
def test_an_answer_beyond_the_limit_is_not_read(monkeypatch, status, packed):
    reply = Reply(gzip.compress(LARGE), status, GZIP) if packed else Reply(LARGE, status)
    message = (
        "the answer is larger than 1,000,000 bytes; it was not read to its end; check --base-url"
    )
    with replying(reply) as server:
        monkeypatch.setattr(connection, "MOST_BYTES", 1_000_000)
        with unavailable(message):
            meet(server.url)
        monkeypatch.setattr(connection, "MOST_BYTES", 4_000_000)
        assert status == 500 or is_read(server.url)


NESTED = b'{"choices": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
DIGITS = json.dumps({**ANSWER, "usage": {"prompt_tokens": 7}}).encode()


@pytest.mark.parametrize(
    "body",
    [
        NESTED,
        DIGITS.replace(b"7", b"9" * 400),
        DIGITS.replace(b"7", b"9" * 5000),
        b"\xff\xfe{}",
        b'"\xed\xa0\x80"',
    ],
)
def test_bodies_that_cannot_be_parsed_are_no_answer(body):
    with replying(Reply(body)) as server, unavailable("the answer is not JSON: "):
        meet(server.url)


def test_connections_are_used_again():
    open_at_once = set()

    class Counting(HttpServer):
        async def _connection(self, reader, writer):
            open_at_once.add(writer.get_extra_info("peername"))
            await super()._connection(reader, writer)

    with Counting(lambda *_: Reply(ANSWER)) as server:
        backend = once(server.url, max_concurrency="4")
        _ = backend.fingerprint
        open_at_once.clear()
        backend.read_labels(questions(100), LABELS)
    assert 1 <= len(open_at_once) <= 4


def test_a_long_pause_is_told_once_and_ends_the_run_after_patience(caplog):
    caplog.set_level(logging.WARNING)
    busy = Reply({"error": {"message": "come back tomorrow"}}, 429, {"retry-after": "86400"})
    message = (
        r"it put requests off for 0.1 s, the patience of this run, and answered none: the server answered 429: come "
        "back tomorrow; run the same command again later; what was answered is kept"
    )
    with Recording(busy) as server:
        with unavailable(message):
            meet(server.url, attempts="2", patience="0.1")
        (record,) = caplog.records
        assert record.getMessage() == (
            f"{server.url} asks to wait 86,400 s; it is asked again every 60 s, and the run stops when it has given "
            "no answer for 0.1 s (the option patience)"
        )
    # At once, and when patience is over, unless it is over by then.
    assert len(server.seen) <= 2


def test_a_server_that_answers_again_within_patience_loses_no_row(caplog):
    replies = [Reply({}, 429, {"retry-after": "0.02"}), Reply({}, 503, {"retry-after": "0.01"})]
    with HttpServer(lambda *_: replies.pop() if replies else Reply(ANSWER)) as server:
        assert is_read(server.url, attempts="2", patience="30")
    assert caplog.records == []  # short pauses are not worth a word
