"""Everything that can be wrong with a server, a key or an option: what was wrong, and the next step."""

import logging
import socket
import traceback
from dataclasses import replace

import pytest
from asked import LABELS, questions, to
from http_server import HttpServer, Reply
from toy_server import MODEL, OPENAI, TEXT_ONLY, VLLM, Quirks, ToyServer
from waiting import HANG

from refladder.backends import connect
from refladder.backends.openai.errors import Refusal, unavailable
from refladder.backends.openai.options import Options, read_key
from refladder.errors import BackendUnavailableError, UnknownNameError, UsageError
from refladder.records import Sampling

CANARY = "sk-canary-5d41402abc4b2a76"


def refused_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def test_nothing_answers():
    backend = connect("openai:toy", base_url=f"http://127.0.0.1:{refused_port()}/v1", attempts="2")
    with pytest.raises(
        BackendUnavailableError,
        match=r"/v1: the connection failed: .*; start the server, or check --base-url",
    ):
        _ = backend.fingerprint


def test_a_wrong_key(serve, monkeypatch):
    server = serve(replace(OPENAI, key="right"))
    monkeypatch.setenv("REFLADDER_API_KEY", "wrong")
    with pytest.raises(
        BackendUnavailableError,
        match=r"the key was refused \(401: Incorrect API key provided: \[key\]\); set REFLADDER_API_KEY or OPENAI",
    ):
        _ = to(server).fingerprint
    monkeypatch.delenv("REFLADDER_API_KEY")
    with pytest.raises(BackendUnavailableError, match=r"it was sent no key \(401: "):
        _ = to(server, api_key_file=None).fingerprint
    assert len(server.asked) == 2  # a key that was refused is not tried again


def test_an_unknown_model(serve):
    server = serve(OPENAI)
    with pytest.raises(
        BackendUnavailableError, match=r"/v1: model 'toi' is not served; it serves: toy"
    ):
        _ = connect("openai:toi", base_url=server.url).fingerprint


def test_a_long_list_of_models_is_shortened():
    names = ["x" * 200, *(f"model-{number}" for number in range(500))]
    error = unavailable(
        "http://host/v1", "toi", Refusal("the server answered 404", status=404), names
    )
    assert f"it serves: {'x' * 80}..., model-0, model-1, " in str(error)
    assert str(error).endswith(", model-18, and 481 more")
    assert len(str(error)) < 400


def test_a_path_that_is_not_the_interface(serve):
    server = serve(OPENAI)
    with pytest.raises(
        BackendUnavailableError,
        match=r"the server answered 404: .*; check the model's name and --base-url, which usually ends in /v1",
    ):
        _ = connect(f"openai:{MODEL}", base_url=server.url.removesuffix("/v1")).fingerprint


def test_a_web_page(serve):
    with pytest.raises(
        BackendUnavailableError,
        match=r"it answered with an HTML page instead of JSON; a base URL usually ends in /v1; check --base-url",
    ):
        _ = to(serve(Quirks(html=True))).fingerprint


def answering(reply):
    return HttpServer(lambda *_: reply)


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (
            Reply({"object": "list"}),
            "the answer holds no choices; check --base-url and the server's own log",
        ),
        (Reply({"choices": []}), "the answer holds no choices"),
        (
            Reply({"error": {"message": "busy\x1b[31m"}}),
            r"it answered with an error: busy \[31m; check",
        ),
        (Reply([1]), r"the answer is not a JSON object: '\[1\]' \(2 times\)"),
        (Reply(b'{"choices": [{'), r"the answer is not JSON: '\{\"choices\": \[\{' \(2 times\)"),
        (
            Reply({"error": {"message": "boom"}}, 500),
            r"the server answered 500: boom \(2 times\); check --base-url",
        ),
        (
            Reply(
                {
                    "error": {
                        "message": "You exceeded your current quota",
                        "code": "insufficient_quota",
                    }
                },
                429,
            ),
            r"the quota is used up \(429: You exceeded your current quota\)",
        ),
        (
            Reply({"error": {"message": "context too long"}}, 400),
            "the server answered 400: context too long",
        ),
    ],
)
def test_answers_that_are_none(reply, message):
    with answering(reply) as server:
        backend = connect("openai:toy", base_url=server.url, attempts="2")
        with pytest.raises(BackendUnavailableError, match=message):
            _ = backend.fingerprint


def test_a_server_that_hangs():
    with answering(Reply({}, wait=HANG)) as server:
        backend = connect("openai:toy", base_url=server.url, attempts="1", timeout="0.2")
        with pytest.raises(
            BackendUnavailableError, match=r"no whole answer within 0.2 s; start the server"
        ):
            _ = backend.fingerprint


def test_a_server_that_dies_ends_the_run_and_keeps_what_was_answered(serve):
    server = serve(OPENAI)
    backend = to(
        server, max_concurrency="1", attempts="1"
    )  # one at a time, so that rows arrive in their order
    _ = backend.fingerprint
    whole = server._answer
    server.asked.clear()
    server._answer = lambda *sent: (
        whole(*sent) if len(server.asked) < 30 else Reply({"error": {"message": "down"}}, 503)
    )
    kept = {}
    with pytest.raises(
        BackendUnavailableError,
        match=r"20 rows, one after the other, failed, so the run was stopped: the server answered 503: down; check",
    ):
        kept.update(
            pair
            for pair in backend.read_labels_each(questions(200), LABELS)
            if kept.update([pair]) is None
        )
    assert sorted(kept) == list(range(30))
    assert all(reading.logprobs is not None for reading in kept.values())


def test_a_batch_that_fails_as_a_whole_is_an_error_however_small(serve):
    server = serve(OPENAI)
    backend = to(server, attempts="1")
    _ = backend.fingerprint
    server._answer = lambda *_: Reply({"error": {"message": "down"}}, 503)
    with pytest.raises(
        BackendUnavailableError, match="3 rows, one after the other, failed, so the run was stopped"
    ):
        backend.read_labels(questions(3), LABELS)
    with pytest.raises(
        BackendUnavailableError, match="the only row failed, so the run was stopped"
    ):
        backend.write(questions(1), Sampling())


def test_a_row_that_the_server_refuses_is_unreadable_with_its_reason(serve):
    server = serve(OPENAI)
    backend = to(server)
    _ = backend.fingerprint
    whole = server._answer
    refusal = Reply({"error": {"message": "maximum context length"}}, 400)
    server._answer = lambda *sent: refusal if b"number 3" in sent[3] else whole(*sent)
    readings = backend.read_labels(questions(6), LABELS)
    assert [reading.logprobs is None for reading in readings] == [
        False,
        False,
        False,
        True,
        False,
        False,
    ]
    assert readings[3].reason == "the server answered 400: maximum context length"


def test_a_key_appears_nowhere(serve, monkeypatch, caplog):
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("OPENAI_API_KEY", CANARY)
    server = serve(replace(VLLM, key=CANARY))
    backend = to(server)
    shown = [
        backend.fingerprint,
        backend.notice,
        repr(backend.read_labels(questions(2), LABELS)),
        repr(backend.options),
    ]
    server.quirks = replace(VLLM, key="another")  # it now refuses the key, and repeats it
    with pytest.raises(
        BackendUnavailableError, match=r"Incorrect API key provided: \[key\]"
    ) as caught:
        backend.read_labels(questions(2), LABELS)
    shown += traceback.format_exception(caught.value)
    server._answer = lambda *_: Reply(f'"{CANARY}'.encode())  # and repeats it in broken JSON
    with pytest.raises(
        BackendUnavailableError, match=r"the answer is not JSON: '\"\[key\]'"
    ) as caught:
        connect("openai:toy", base_url=server.url, attempts="1").read_labels(questions(2), LABELS)
    shown += traceback.format_exception(caught.value)
    shown += [record.getMessage() for record in caplog.records]
    assert len(shown) > 10
    assert CANARY not in "".join(shown)


def test_where_the_key_comes_from(serve, monkeypatch, tmp_path):
    server = serve(replace(OPENAI, key="from-file"))
    path = tmp_path / "key"
    path.write_text("from-file\n")
    monkeypatch.setenv("REFLADDER_API_KEY", "from-environment")
    assert "top20" in to(server, api_key_file=str(path)).fingerprint
    server.quirks = replace(OPENAI, key="from-environment")
    assert "top20" in to(server).fingerprint
    path.write_text("two words")
    with pytest.raises(
        BackendUnavailableError, match="the key must be one line of ASCII without spaces"
    ):
        to(server, api_key_file=str(path)).load()
    with pytest.raises(
        BackendUnavailableError,
        match=r"cannot read the key \(No such file or directory\); name a file",
    ):
        to(server, api_key_file=str(tmp_path / "none")).load()


def test_the_usual_key_does_not_travel_in_clear_text(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", CANARY)
    assert read_key(Options(base_url="http://10.0.0.9:8000/v1")) is None
    assert read_key(Options(base_url="https://10.0.0.9:8000/v1")) == CANARY
    assert read_key(Options(base_url="http://127.0.0.1:8000/v1")) == CANARY


def test_openai_without_a_key():
    with pytest.raises(
        BackendUnavailableError,
        match=r"https://api.openai.com/v1 needs a key; set OPENAI_API_KEY, name a file",
    ):
        connect("openai:gpt-4o").load()


def test_the_address_from_the_environment(monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1/")
    assert connect("openai:toy").options.base_url == "http://127.0.0.1:9/v1"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"base_url": "127.0.0.1:8000"},
            "base_url must be like https://host/v1 or http://127.0.0.1:8000/v1, found",
        ),
        ({"base_url": "http://[::1"}, "base_url must be like"),
        (
            {"base_url": "http://me:secret@host/v1"},
            r"base_url must hold no user, password or query.* \(host host\)",
        ),
        ({"mode": "best"}, "mode must be one of auto, exact, top, sample, found 'best'"),
        ({"samples": "0"}, "samples must be a whole number above 0, found '0'"),
        ({"samples": "many"}, "samples must be a whole number above 0, found 'many'"),
        ({"timeout": "-1"}, "timeout must be a number above 0, found '-1'"),
        ({"extra": "{"}, "extra must be a JSON object, found '{'"),
        ({"extra": "[]"}, "extra must be a JSON object, found"),
    ],
)
def test_options_that_cannot_be(options, message):
    with pytest.raises(UsageError, match=message) as caught:
        connect("openai:toy", **{"base_url": "http://127.0.0.1:9/v1", **options})
    assert "secret" not in str(caught.value)


def test_an_unknown_option():
    with pytest.raises(
        UnknownNameError,
        match="unknown option of backend 'openai' 'sample'; did you mean 'samples'",
    ):
        connect("openai:toy", sample="3")


def test_no_model():
    with pytest.raises(UsageError, match="openai needs a model's name: openai:MODEL"):
        connect("openai:", base_url="http://127.0.0.1:9/v1")


def test_without_the_client(monkeypatch):
    monkeypatch.setattr("refladder.backends.openai.backend.find_spec", lambda _name: None)
    with pytest.raises(
        BackendUnavailableError,
        match=r"needs the packages aiohttp and tenacity \(.*\); pip install aiohttp tenacity$",
    ):
        connect("openai:toy", base_url="http://127.0.0.1:9/v1")


def test_a_writer():
    with ToyServer(TEXT_ONLY) as server:
        backend = to(server)
        first = backend.write(questions(3), Sampling(max_tokens=8, seed=1))
        assert first == backend.write(questions(3), Sampling(max_tokens=8, seed=1))
        sent = [body for _, body in server.asked if "n" not in body][-1]
        assert (sent["seed"], sent["max_tokens"], sent["temperature"], sent["top_p"]) == (
            1,
            8,
            1.0,
            1.0,
        )
        server.quirks = replace(
            TEXT_ONLY,
            answer=lambda *_: {"message": {"content": ""}, "finish_reason": "content_filter"},
        )
        (filtered,) = backend.write(questions(1), Sampling())
        assert (filtered.finish, filtered.note) == ("error", "content filter")
        assert backend.counts["answer: content filter"] == 1
