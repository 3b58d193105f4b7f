"""Models that think before they answer, and the switches that keep them from it."""

from dataclasses import replace

import pytest
from asked import LABELS, questions, to
from toy_server import OPENAI, TEXT_ONLY, VLLM

from refladder.errors import BackendUnavailableError

SWITCHES = {  # as the documentation of each maker writes them
    "enable_thinking": {"chat_template_kwargs": {"enable_thinking": False}},
    "template-thinking": {"chat_template_kwargs": {"thinking": False}},
    "thinking": {"thinking": {"type": "disabled"}},
    "reasoning_effort": {"reasoning_effort": "none"},
    "reasoning": {"reasoning": {"effort": "none"}},
}


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
    sent = [body for path, body in server.asked if path == "/tokenize"]
    assert sent
    assert all(body["chat_template_kwargs"] == {"enable_thinking": False} for body in sent)


def test_where_no_switch_works_the_thoughts_are_counted_before_the_run(serve):
    backend = to(serve(replace(TEXT_ONLY, thinks=True)), samples=7)
    assert "thoughts:" not in backend.fingerprint
    assert "label shares of 7 sampled answers, each after a thought: 7 thoughts for each comparison" in backend.notice
    assert {reading.exactness for reading in backend.read_labels(questions(2), LABELS)} == {"sampled"}


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
