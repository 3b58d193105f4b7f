"""Answers that begin with the prefix of their template, on servers that continue a message and on those that do not."""

import json
import math
from dataclasses import replace

import pytest
from asked import LABELS, questions, to, unavailable
from toy_model import PREFIX, encode, render
from toy_server import LLAMA_SERVER, OPENAI, SGLANG, TEXT_ONLY, VLLM, RefusedError

from refladder.backends.openai.client import Client

TOP = replace(VLLM, tokenize="", completions=False)
SAYS = replace(TEXT_ONLY, continues=True)  # continues a message, and gives no log-probabilities
NO_LONGER = "it no longer continues an answer"
CHANGED = (
    rf"/v1: {NO_LONGER} that was begun, as it did in the handshake \(prefix:on\), so no more rows are read; run the "
    "same command again to test what it can do now$"
)


def begun(number):
    return [replace(prompt, prefix=PREFIX) for prompt in questions(number)]


def prefix_of(backend):
    return next(word for word in backend.fingerprint.split() if word.startswith("prefix:"))


def together(server, ids, words):
    """The log-probability of all these words after a prompt."""
    return math.log(math.fsum(math.exp(server.model.label(ids, word)) for word in words))


@pytest.mark.parametrize("quirks", [VLLM, SGLANG, LLAMA_SERVER])
def test_exact_readings_are_those_of_prompt_and_prefix_and_label_as_one_text(serve, quirks):
    server = serve(quirks)
    backend = to(server)
    assert prefix_of(backend) == "prefix:on"
    for prompt, reading in zip(begun(4), backend.read_labels(begun(4), LABELS), strict=True):
        ids = encode(render(prompt.messages) + PREFIX)
        # ` Worse` is three tokens here, so that no label counts with a space before it
        expected = [server.model.label(ids, label) for label in LABELS]
        assert reading.logprobs == pytest.approx(expected, abs=1e-6)
        assert reading.exactness == "exact"


def test_top_adds_up_the_spellings_after_the_prefix(serve):
    server = serve(TOP)
    backend = to(server)
    assert backend.fingerprint.endswith(" prefix:on top20-completed")
    (prompt,) = begun(1)
    (reading,) = backend.read_labels([prompt], LABELS)
    ids = encode(render(prompt.messages) + PREFIX)
    better = together(server, ids, ("Better", "better", " Better", "BETTER"))
    worse = together(server, ids, ("Worse", "worse"))
    assert reading.logprobs[:2] == pytest.approx([better, worse], abs=1e-2)
    sent = [body for path, body in server.asked if path.endswith("/chat/completions")][-1]
    assert sent["messages"][-1] == {"role": "assistant", "content": PREFIX + "W"}
    assert (sent["add_generation_prompt"], sent["continue_final_message"]) == (False, True)


def test_a_sampled_answer_is_begun_where_messages_are_continued(serve):
    server = serve(SAYS)
    backend = to(server, samples=3)
    assert backend.fingerprint.endswith(" prefix:on sample3-shares")
    server.asked.clear()
    assert backend.read_labels(begun(1), LABELS)[0].exactness == "sampled"
    assert {body["messages"][-1]["content"] for _, body in server.asked} == {PREFIX}


@pytest.mark.parametrize(
    "quirks", [OPENAI, TEXT_ONLY, replace(TOP, continues=False), replace(VLLM, thinks=True)]
)
def test_a_server_that_ignores_a_beginning_or_thinks_gets_none(serve, quirks):
    server = serve(quirks)
    backend = to(server, samples=2)
    assert prefix_of(backend) == "prefix:unsupported"
    server.asked.clear()
    plain, prefixed = (backend.read_labels(rows, LABELS) for rows in (questions(2), begun(2)))
    assert plain == prefixed
    assert all(body["messages"][-1]["role"] == "user" for _, body in server.asked)


@pytest.mark.parametrize("quirks", [VLLM, TOP, SAYS])
def test_the_option_turns_it_off(serve, quirks):
    backend = to(serve(quirks), prefix="none")
    assert prefix_of(backend) == "prefix:off"
    assert backend.read_labels(questions(2), LABELS) == backend.read_labels(begun(2), LABELS)


@pytest.mark.parametrize("quirks", [TOP, SAYS])
def test_a_server_that_stops_to_continue_ends_the_run_before_a_row_is_read(serve, quirks, tmp_path):
    server = serve(quirks)
    cache = tmp_path / "probes.json"
    assert prefix_of(to(server, probe_cache=str(cache))) == "prefix:on"
    server.quirks = replace(quirks, continues=False)
    backend = to(server, probe_cache=str(cache))  # takes the handshake from the cache
    with unavailable(CHANGED):
        backend.read_labels(begun(1), LABELS)
    assert json.loads(cache.read_text()) == {}
    assert prefix_of(to(server, probe_cache=str(cache))) == "prefix:unsupported"


def test_it_must_show_again_from_time_to_time_that_it_continues(serve, monkeypatch):
    monkeypatch.setattr("refladder.backends.openai.backend.PROVEN_FOR", 4)
    server = serve(TOP)
    backend = to(server)
    assert all(reading.logprobs for reading in backend.read_labels(begun(4), LABELS))
    server.quirks = replace(TOP, continues=False)
    with unavailable(NO_LONGER):
        backend.read_labels(begun(1), LABELS)


@pytest.mark.parametrize("quirks", [VLLM, SGLANG])
def test_exact_modes_read_no_row_behind_a_prefix_that_is_not_there(serve, quirks):
    server = serve(quirks)
    backend = to(server)
    assert prefix_of(backend) == "prefix:on"
    expected = backend.read_labels(begun(2), LABELS)
    assert all(reading.logprobs for reading in expected)
    server.quirks = replace(quirks, tokenizes_begun=False)
    with unavailable(NO_LONGER):
        backend.read_labels(begun(2), LABELS)
    assert " exact" not in to(server).fingerprint  # a new handshake does not believe it


def test_within_a_batch_every_row_must_end_in_the_tokens_of_the_prefix(serve, monkeypatch):
    server = serve(VLLM)
    backend = to(server)
    _ = backend.fingerprint
    known = Client._label_ids

    async def labels_then_a_change(client, labels, prefix):
        found = await known(client, labels, prefix)
        server.quirks = replace(VLLM, tokenizes_begun=False)
        return found

    monkeypatch.setattr(Client, "_label_ids", labels_then_a_change)
    with unavailable(NO_LONGER):
        backend.read_labels(begun(2), LABELS)


def anew(_messages, _seed):
    return {"message": {"content": 'Answer: "Better"'}, "finish_reason": "stop"}


def refused(_messages, _seed):
    raise RefusedError(400, "Unrecognized request argument supplied: continue_final_message")


@pytest.mark.parametrize("answer", [anew, refused])
def test_an_answer_that_begins_anew_is_no_reading(serve, answer):
    server = serve(SAYS)
    backend = to(server, samples=2)
    _ = backend.fingerprint
    server.quirks = replace(SAYS, answer=answer)
    with unavailable(CHANGED):
        backend.read_labels(begun(1), LABELS)


def test_a_refusal_of_one_row_for_another_reason_is_that_of_the_row(serve):
    def long(messages, _seed):
        if "number 1" in messages[0]["content"]:
            raise RefusedError(400, "the prompt is too long")
        return {"message": {"content": 'Better"'}, "finish_reason": "stop"}

    server = serve(SAYS)
    backend = to(server, samples=2)
    _ = backend.fingerprint
    server.quirks = replace(SAYS, answer=long)
    one, two = backend.read_labels(begun(2), LABELS)
    assert (one.mass, two.reason) == (1.0, "the server answered 400: the prompt is too long")


def test_a_prefix_that_merges_with_a_label_is_shortened(serve):
    # `"Better` is one token of this server's tokenizer, so that nothing of it could be read after a quote
    server = serve(VLLM)
    backend = to(server)
    tokenize = server._tokenize

    def merging(sent):
        text = sent["messages"][-1]["content"]
        found = tokenize(sent)
        quoted = encode('"Better')
        if text.endswith('"Better') and found["tokens"][-2:] == quoted:
            found["tokens"][-2:] = [len(quoted)]
        return found

    server._tokenize = merging
    (prompt,) = begun(1)
    (reading,) = backend.read_labels([prompt], LABELS)
    ids = encode(render(prompt.messages) + "Answer:")
    expected = [server.model.label(ids, f" {label}") for label in LABELS]
    assert reading.logprobs == pytest.approx(expected, abs=1e-6)


def test_tokens_counted_before_a_run_are_the_tokens_sent(serve):
    backend = to(serve(VLLM))
    counted = sum(backend.count_tokens(begun(3)))
    before = backend.counts["prompt tokens"]
    assert all(reading.logprobs is not None for reading in backend.read_labels(begun(3), LABELS))
    assert counted == backend.counts["prompt tokens"] - before
