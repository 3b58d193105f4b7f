"""Models that think before they answer, and the switches that keep them from it; how each is found: test_servers.py."""

import json
from dataclasses import replace

import pytest
from asked import LABELS, questions, to, unavailable
from toy_model import NO_THOUGHT, encode, render
from toy_server import LLAMA_SERVER, OPENAI, SGLANG, VLLM, ToyServer

OF_THE_TEMPLATE = {"chat_template_kwargs": {"enable_thinking": False}}
EFFORT = {"reasoning_effort": "none"}
IGNORED = (
    r"it ignores the field that keeps the model from thinking, as it did not in the handshake \(enable_thinking\), so "
    "no more rows are read; run the same command again to test what it can do now"
)
THINKS_AGAIN = (
    r"/v1: the model thinks again before it answers, though the handshake switched that off \(reasoning_effort\), so "
    "no more rows are read; run the same command again to test what it can do now"
)


@pytest.mark.parametrize(
    "quirks",
    [
        replace(OPENAI, thinks=True, switch=EFFORT),
        # gpt-5.1 to gpt-5.4 give log-probabilities only without reasoning
        replace(OPENAI, effort=True, length_field="max_completion_tokens"),
    ],
)
def test_a_switch_is_sent_with_every_question_unless_the_user_sets_the_field(serve, quirks):
    server = serve(quirks)
    backend = to(server)
    assert " thoughts:off(reasoning_effort) prefix:unsupported top20" in backend.fingerprint
    server.asked.clear()
    assert all(reading.logprobs for reading in backend.read_labels(questions(2), LABELS))
    assert all(EFFORT.items() <= body.items() for _, body in server.asked)
    assert "thoughts:" not in to(server, extra='{"reasoning_effort": "low"}', samples=2).fingerprint


def test_a_switch_that_is_ignored_later_ends_the_run(serve):
    server = serve(replace(OPENAI, thinks=True, switch=EFFORT))
    backend = to(server)
    _ = backend.fingerprint
    server.quirks = replace(server.quirks, switch=None)
    with unavailable(THINKS_AGAIN):
        backend.read_labels(questions(1), LABELS)


EXACT = {"exact:token-ids": VLLM, "exact:score": SGLANG, "exact:vocabulary": LLAMA_SERVER}


@pytest.mark.parametrize(("mode", "quirks"), EXACT.items())
def test_exact_modes_read_after_the_empty_thought_and_see_that_a_switch_is_ignored_later(
    serve, mode, quirks, tmp_path
):
    cache = tmp_path / "probes.json"
    server = serve(replace(quirks, thinks=True, switch=OF_THE_TEMPLATE))
    backend = to(server, probe_cache=str(cache))
    assert backend.fingerprint.endswith(f" thoughts:off(enable_thinking) prefix:on {mode}")
    (asked,) = questions(1)
    (reading,) = backend.read_labels([asked], LABELS)
    ids = encode(render(asked.messages) + NO_THOUGHT)
    expected = [server.model.label(ids, label) for label in LABELS]
    assert reading.logprobs == pytest.approx(expected, abs=1e-6)
    server.quirks = replace(server.quirks, switch=None)
    later = to(server, probe_cache=str(cache))  # takes the handshake from the cache
    with unavailable(IGNORED):
        later.read_labels(questions(1), LABELS)
    assert json.loads(cache.read_text()) == {}


def test_token_ids_that_do_not_show_the_switch_are_not_used():
    class Deaf(ToyServer):
        """Its /tokenize takes no chat_template_kwargs."""

        def _tokenize(self, sent):
            return super()._tokenize({**sent, "chat_template_kwargs": None})

    with Deaf(replace(VLLM, thinks=True, switch=OF_THE_TEMPLATE)) as server:
        backend = to(server)
        assert " thoughts:off(enable_thinking) " in backend.fingerprint
        assert " top20" in backend.fingerprint
        refused = "exact: its prompts are the same with and without enable_thinking"
        assert backend.capabilities.refused == (refused,)


def test_a_model_that_refuses_log_probabilities_anyway_is_asked_as_before(serve):
    server = serve(replace(OPENAI, chat_logprobs="refused"))
    backend = to(server)
    assert " thoughts:" not in backend.fingerprint
    assert " sample20" in backend.fingerprint
    server.asked.clear()
    backend.read_labels(questions(1), LABELS)
    assert not any("reasoning_effort" in body for _, body in server.asked)
