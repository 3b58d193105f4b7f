"""Models that think before they answer, and the switches that keep them from it."""

import json
from dataclasses import replace

import pytest
from asked import LABELS, questions, to
from toy_model import NO_THOUGHT, encode, render
from toy_server import LLAMA_SERVER, OPENAI, SGLANG, TEXT_ONLY, VLLM, ToyServer

from refladder.errors import BackendUnavailableError

SWITCHES = {  # as the documentation of each maker writes them
    "enable_thinking": {"chat_template_kwargs": {"enable_thinking": False}},
    "template-thinking": {"chat_template_kwargs": {"thinking": False}},
    "thinking": {"thinking": {"type": "disabled"}},
    "reasoning_effort": {"reasoning_effort": "none"},
    "reasoning": {"reasoning": {"effort": "none"}},
}
IGNORED = (
    r"it ignores the field that keeps the model from thinking, as it did not in the handshake \(enable_thinking\), so "
    "no more rows are read; run the same command again to test what it can do now"
)


@pytest.mark.parametrize("switch", SWITCHES)
def test_the_switch_that_works_is_used_and_named(serve, switch):
    server = serve(replace(OPENAI, thinks=True, switch=SWITCHES[switch]))
    backend = to(server)
    assert f" thoughts:off({switch}) prefix:unsupported top20" in backend.fingerprint
    assert f"its thoughts switched off ({switch})" in backend.notice
    server.asked.clear()
    assert all(reading.logprobs for reading in backend.read_labels(questions(2), LABELS))
    assert all(SWITCHES[switch].items() <= body.items() for _, body in server.asked)


def test_a_switch_of_the_template_holds_for_token_ids_too(serve):
    server = serve(replace(VLLM, thinks=True, switch=SWITCHES["enable_thinking"]))
    backend = to(server)
    assert backend.fingerprint.endswith(" thoughts:off(enable_thinking) prefix:on exact:token-ids")
    server.asked.clear()
    backend.read_labels(questions(2), LABELS)
    sent = [body for path, body in server.asked if path == "/tokenize"]
    assert sent
    assert all(body["chat_template_kwargs"] == {"enable_thinking": False} for body in sent)


def test_where_no_switch_works_the_thoughts_are_counted_before_the_run(serve):
    backend = to(serve(replace(TEXT_ONLY, thinks=True)), samples=7)
    assert "thoughts:" not in backend.fingerprint
    assert (
        "label shares of 7 sampled answers, each after a thought: 7 thoughts for each comparison"
        in backend.notice
    )
    assert {reading.exactness for reading in backend.read_labels(questions(2), LABELS)} == {
        "sampled"
    }


def test_a_switch_that_is_ignored_later_ends_the_run(serve):
    server = serve(replace(OPENAI, thinks=True, switch=SWITCHES["thinking"]))
    backend = to(server)
    _ = backend.fingerprint
    server.quirks = replace(server.quirks, switch=None)
    with pytest.raises(BackendUnavailableError) as error:
        backend.read_labels(questions(1), LABELS)
    assert str(error.value) == (
        f"{server.url}: the model thinks again before it answers, though the handshake switched that off (thinking), "
        "so no more rows are read; run the same command again to test what it can do now"
    )


EXACT = {"exact:token-ids": VLLM, "exact:score": SGLANG, "exact:vocabulary": LLAMA_SERVER}


@pytest.mark.parametrize(("mode", "quirks"), EXACT.items())
def test_exact_modes_read_after_the_empty_thought_and_see_that_a_switch_is_ignored_later(
    serve, mode, quirks, tmp_path
):
    cache = str(tmp_path / "probes.json")
    server = serve(replace(quirks, thinks=True, switch=SWITCHES["enable_thinking"]))
    backend = to(server, probe_cache=cache)
    assert backend.fingerprint.endswith(f" thoughts:off(enable_thinking) prefix:on {mode}")
    (asked,) = questions(1)
    (reading,) = backend.read_labels([asked], LABELS)
    ids = encode(render(asked.messages) + NO_THOUGHT)
    assert reading.logprobs == pytest.approx(
        [server.model.label(ids, label) for label in LABELS], abs=1e-6
    )
    server.quirks = replace(server.quirks, switch=None)
    later = to(server, probe_cache=cache)  # takes the handshake from the cache
    with pytest.raises(BackendUnavailableError, match=IGNORED):
        later.read_labels(questions(1), LABELS)
    assert json.loads((tmp_path / "probes.json").read_text()) == {}


def test_exact_modes_look_from_time_to_time_whether_the_switch_still_works(serve, monkeypatch):
    monkeypatch.setattr("refladder.backends.openai.backend.PROVEN_FOR", 4)
    server = serve(replace(VLLM, thinks=True, switch=SWITCHES["enable_thinking"]))
    backend = to(server)
    assert all(reading.logprobs for reading in backend.read_labels(questions(4), LABELS))
    server.quirks = replace(server.quirks, switch=None)
    with pytest.raises(BackendUnavailableError, match=IGNORED):
        backend.read_labels(questions(1), LABELS)


def test_token_ids_that_do_not_show_the_switch_are_not_used():
    class Deaf(ToyServer):  # its /tokenize takes no chat_template_kwargs
        def _tokenize(self, sent):
            return super()._tokenize(
                {key: value for key, value in sent.items() if key != "chat_template_kwargs"}
            )

    with Deaf(replace(VLLM, thinks=True, switch=SWITCHES["enable_thinking"])) as server:
        backend = to(server)
        assert " thoughts:off(enable_thinking) " in backend.fingerprint
        assert " top20" in backend.fingerprint
        assert backend.capabilities.refused == (
            "exact: its prompts are the same with and without enable_thinking",
        )


def test_a_field_that_the_user_sets_is_left_alone(serve):
    server = serve(replace(OPENAI, thinks=True, switch=SWITCHES["reasoning_effort"]))
    assert "thoughts:" not in to(server, extra='{"reasoning_effort": "low"}', samples=2).fingerprint


def test_a_model_that_gives_log_probabilities_only_without_reasoning(serve):  # gpt-5.1 to gpt-5.4
    server = serve(replace(OPENAI, effort=True, length_field="max_completion_tokens"))
    backend = to(server)
    assert " thoughts:off(reasoning_effort) prefix:unsupported top20" in backend.fingerprint
    server.asked.clear()
    (reading,) = backend.read_labels(questions(1), LABELS)
    assert reading.logprobs is not None
    assert all(body["reasoning_effort"] == "none" for _, body in server.asked)
    assert "thoughts:" not in to(server, extra='{"reasoning_effort": "low"}', samples=2).fingerprint


def test_a_model_that_refuses_them_anyway_is_asked_as_before(serve):
    server = serve(replace(OPENAI, chat_logprobs="refused"))
    backend = to(server)
    assert " thoughts:" not in backend.fingerprint
    assert " sample20" in backend.fingerprint
    server.asked.clear()
    backend.read_labels(questions(1), LABELS)
    assert not any("reasoning_effort" in body for _, body in server.asked)
