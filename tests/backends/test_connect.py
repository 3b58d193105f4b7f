"""How backends are opened by name, with options, from Python and from the command line."""

from __future__ import annotations

import pytest

from refladder import backends
from refladder.backends import connect
from refladder.errors import UnknownNameError, UsageError
from refladder.registry import Entry


def opener(target: str, *, dtype: str = "auto", device: str = "auto") -> tuple[str, str, str]:
    return target, dtype, device


@pytest.fixture
def _stub(monkeypatch):
    monkeypatch.setitem(backends.BACKENDS, "stub", Entry(f"{__name__}:opener", ""))


@pytest.mark.usefixtures("_stub")
def test_options_reach_the_opener_as_text():
    assert connect("stub:some/model", dtype="float32") == ("some/model", "float32", "auto")


@pytest.mark.usefixtures("_stub")
def test_an_unknown_option_is_refused_with_the_near_name():
    message = (
        r"unknown option of backend 'stub' 'dtpye'; did you mean 'dtype'\? Known: device, dtype"
    )
    with pytest.raises(UnknownNameError, match=message):
        connect("stub:some/model", dtpye="float32")


@pytest.mark.parametrize("name", ["builtin", "scripted:rules.jsonl"])
def test_a_backend_without_options_refuses_any(name):
    message = r"unknown option of backend '\w+' 'seed'. Known: none"
    with pytest.raises(UnknownNameError, match=message):
        connect(name, seed="1")


TEXT = ("score", "--ladders", "demo/story", "--text", "A text.", "--context-id", "story-01")
COMMANDS = [
    (TEXT, "--judge-option"),
    (("build", "demo/story", "--out", "there"), "--writer-option"),
    (("evaluate", "demo/story"), "--judge-option"),
]


@pytest.mark.parametrize(("arguments", "flag"), COMMANDS)
def test_every_command_hands_options_on(arguments, flag, fails, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    unknown = "unknown option of backend 'builtin' 'colour'"
    assert unknown in fails(2, *arguments, flag, "colour=red")
    assert f"{flag} 'colour': must be KEY=VALUE" in fails(2, *arguments, flag, "colour")


def test_a_model_whose_name_is_not_utf8_is_refused():
    # `hf:caf` and the byte 0xe9, as Python has such an argument.
    with pytest.raises(UsageError, match="the name is not UTF-8, and signatures hold it; rename"):
        connect("hf:caf\udce9")
