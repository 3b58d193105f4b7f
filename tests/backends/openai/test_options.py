"""The options of a model on a server: the address, where the key comes from, and values that cannot be."""

from dataclasses import replace

import pytest
from asked import to, unavailable
from toy_server import OPENAI

from refladder.backends import connect
from refladder.backends.openai.options import Options, read_key
from refladder.errors import ExitCode, UnknownNameError, UsageError

CANARY = "sk-canary-5d41402abc4b2a76"
ADDRESS = "http://127.0.0.1:9/v1"


def test_where_the_key_comes_from(serve, monkeypatch, tmp_path):
    server = serve(replace(OPENAI, key="from-file"))
    path = tmp_path / "key"
    path.write_text("from-file\n")
    monkeypatch.setenv("REFLADDER_API_KEY", "from-environment")
    assert "top20" in to(server, api_key_file=str(path)).fingerprint
    server.quirks = replace(OPENAI, key="from-environment")
    assert "top20" in to(server).fingerprint
    path.write_text("two words")
    with unavailable("the key must be one line of ASCII without spaces"):
        to(server, api_key_file=str(path)).load()
    with unavailable(r"cannot read the key \(No such file or directory\); name a file"):
        to(server, api_key_file=str(tmp_path / "none")).load()


def test_the_usual_key_does_not_travel_in_clear_text(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", CANARY)
    assert read_key(Options(base_url="http://10.0.0.9:8000/v1")) is None
    assert read_key(Options(base_url="https://10.0.0.9:8000/v1")) == CANARY
    assert read_key(Options(base_url="http://127.0.0.1:8000/v1")) == CANARY


def test_openai_without_a_key():
    with unavailable(r"https://api.openai.com/v1 needs a key; set OPENAI_API_KEY, name a file"):
        connect("openai:gpt-4o").load()


def test_the_address_from_the_environment(monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", f"{ADDRESS}/")
    assert connect("openai:toy").options.base_url == ADDRESS


LIKE = "base_url must be like https://host/v1 or http://127.0.0.1:8000/v1, found"
HELD = r"base_url must hold no user, password or query but api-version, .* \(host h\)"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"base_url": "127.0.0.1:8000"}, LIKE),
        (
            {"base_url": "requests"},
            f"{LIKE} 'requests'; for answers through files in this folder, give file:requests",
        ),
        ({"base_url": "http://[::1"}, f"{LIKE} .*1'$"),
        ({"base_url": f"http://me:{CANARY}@h/v1"}, HELD),
        ({"base_url": f"https://h/v1?key={CANARY}"}, HELD),
        ({"base_url": f"https://h/v1?api-version=1&sig={CANARY}"}, HELD),
        ({"base_url": "https://h/v1?api-version="}, HELD),
        ({"base_url": "https://h/v1?api-version=a/b"}, HELD),
        ({"mode": "best"}, "mode must be one of auto, exact, top, sample, found 'best'"),
        ({"prefix": "yes"}, "prefix must be template or none, found 'yes'"),
        ({"prefix_cache": "on"}, "prefix_cache must be true or false, found 'on'"),
        ({"samples": "0"}, "samples must be a whole number above 0, found '0'"),
        ({"samples": "many"}, "samples must be a whole number above 0, found 'many'"),
        ({"timeout": "-1"}, "timeout must be a number above 0, found '-1'"),
        ({"extra": "{"}, "extra must be a JSON object, found '{'"),
        ({"extra": "[]"}, "extra must be a JSON object, found"),
    ],
)
def test_options_that_cannot_be(options, message):
    with pytest.raises(UsageError, match=message) as caught:
        connect("openai:toy", **{"base_url": ADDRESS, **options})
    assert CANARY not in str(caught.value)


def test_an_unknown_option():
    message = "unknown option of backend 'openai' 'sample'; did you mean 'samples'"
    with pytest.raises(UnknownNameError, match=message):
        connect("openai:toy", sample="3")


def test_no_model():
    with pytest.raises(UsageError, match="openai needs a model's name: openai:MODEL"):
        connect("openai:", base_url=ADDRESS)


def test_without_the_client(monkeypatch):
    monkeypatch.setattr("refladder.backends.openai.backend.find_spec", lambda _name: None)
    message = r"needs the packages aiohttp and tenacity \(.*\); pip install aiohttp tenacity$"
    with unavailable(message) as raised:
        connect("openai:toy", base_url=ADDRESS)
    assert raised.value.exit_code == ExitCode.MISUSED


@pytest.mark.parametrize(
    ("body", "extra", "sent"),
    [
        # Nothing is drawn, so there is no seed and no top-p; a single answer is not numbered.
        ({"temperature": 0.0, "top_p": 1.0, "seed": 3, "n": 1}, {}, {"temperature": 0.0}),
        # vLLM would take the top-p of the model's own settings, so that of a text that is drawn is sent.
        ({"temperature": 1.0, "top_p": 1.0, "seed": 3, "n": 2}, {}, {"temperature": 1.0, "top_p": 1.0, "seed": 3, "n": 2}),
        # The user's fields win, and null removes one.
        ({"temperature": 0.0, "seed": 3}, {"temperature": 0.5}, {"temperature": 0.5, "seed": 3}),
        ({"temperature": 0.0, "max_tokens": 9}, {"temperature": None, "seed": 1}, {"max_tokens": 9, "seed": 1}),
        # A field of the user's that the server refuses.
        ({"max_tokens": 9, "top_k": None}, {"top_k": 5}, {"max_tokens": 9}),
    ],
)  # fmt: skip
def test_the_fields_that_are_sent(body, extra, sent):
    assert Options(extra=extra).sent(body) == sent
