"""Reward models on servers: the forms of SGLang and vLLM, and servers that give no rewards."""

import json
import math

import pytest
from asked import unavailable
from http_server import HttpServer, Reply

from refladder.backends import connect
from refladder.prompts import fill, load_template

ASSISTANT = "<|im_start|>assistant\n"


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    pytest.importorskip("transformers")
    import tiny_models

    folder = tmp_path_factory.mktemp("tokenizer")
    tiny_models.byte_level().save_pretrained(folder)
    return str(folder)


def reward(text):
    """What the imitated model gives: a tenth for each character, around 0."""
    return len(text) / 10 - 2


class Rewards(HttpServer):
    """An imitation; `kinds` are the requests that it knows, `paths` counts them."""

    def __init__(self, *kinds, squashes=False, outputs=1, status=404, entries=1):
        super().__init__(self._answer_http)
        self.kinds, self.squashes, self.outputs, self.status = kinds, squashes, outputs, status
        self.entries = entries
        self.asked = []

    def _answer_http(self, method, path, _headers, body):
        if method == "GET":
            return Reply({"data": [{"id": "rm"}]})
        request = json.loads(body)
        field = next((name for name in ("text", "messages", "input") if name in request), None)
        if (path, field) not in self.kinds:
            return Reply({"error": {"message": f"{path} takes no {field}"}}, status=self.status)
        self.asked.append(request)
        if field == "messages":
            assert [turn["role"] for turn in request["messages"]] == ["user", "assistant"]
            text = request["messages"][1]["content"]
        else:
            [rendered] = request[field]
            text = rendered.split(ASSISTANT)[1].removesuffix("<|im_end|>\n")
        value = None if text == "nothing" else reward(text)
        if text == "broken":
            return Reply({"error": {"message": "out of range"}}, status=400)
        if field != "text" and value is not None and (self.squashes or request["use_activation"]):
            value = 1 / (1 + math.exp(-value))
        numbers = [value] * self.outputs
        if field == "text":
            return Reply([{"embedding": numbers, "meta_info": {"prompt_tokens": 7}}])
        key = "data" if path == "/pooling" else "probs"
        data = [{"index": number, key: numbers} for number in range(self.entries)]
        return Reply({"data": data, "usage": {"prompt_tokens": 7, "completion_tokens": 0}})


SGLANG, INPUT = ("/classify", "text"), ("/classify", "input")
POOLING, CLASSIFY = ("/pooling", "messages"), ("/classify", "messages")


def shown(*texts):
    template = load_template("open", "reward")
    slots = dict.fromkeys(template.names, "x")
    return [fill(template, {**slots, "output": text}) for text in texts]


def read(server, *texts, **options):
    backend = connect("reward:rm", base_url=server.url, attempts="1", **options)
    return backend, backend.read_labels(shown(*texts), ("win", "loss"))


@pytest.mark.parametrize(
    ("kinds", "way"),
    [
        ((SGLANG,), "classify:text"),
        ((POOLING, CLASSIFY), "pooling"),
        ((CLASSIFY,), "classify"),
        ((INPUT,), "classify:input"),
    ],
)
def test_the_forms_of_sglang_and_vllm(tokenizer, kinds, way):
    texts = ("good", "a much longer text that gets more")
    with Rewards(*kinds) as server:
        backend, readings = read(server, *texts, tokenizer=tokenizer)
    assert backend.fingerprint == f"reward:rm@localhost {way}"
    # 4 and 33 characters: -1.6 and 1.3; log s(r) = -log(1 + e^-r).
    rewards = [reading.logprobs[0] - reading.logprobs[1] for reading in readings]
    assert rewards == pytest.approx([-1.6, 1.3])
    assert readings[0].logprobs[0] == pytest.approx(-math.log(1 + math.exp(1.6)))
    assert [reading.mass for reading in readings] == [None, None]
    asked = server.asked[-1]
    assert asked["model"] == "rm"
    assert asked.get("use_activation") is (None if way == "classify:text" else False)


def test_vllm_needs_no_tokenizer_and_sglang_says_that_it_does():
    with Rewards(POOLING) as server:
        assert read(server, "good")[1][0].logprobs is not None
    with Rewards(SGLANG) as server:
        message = r"'rm' gives no reward there \(classify:text: it takes texts in the chat template, and no tok"
        with unavailable(message):
            read(server, "good")


@pytest.mark.parametrize("status", [404, 400, 422])
def test_a_server_without_such_a_path(tokenizer, status):
    message = (
        r"^http://127.0.0.1:\d+/v1: 'rm' gives no reward there \(classify:text: the server answered \d+: "
        r"/classify takes no text; pooling: .*\); serve a reward model with vLLM, or with SGLang and .* tokenizer=PATH$"
    )
    with Rewards(status=status) as server, unavailable(message):
        read(server, "good", tokenizer=tokenizer)


def test_no_server_there():
    with unavailable(r"the connection failed: .*; start the server, or check"):
        _ = connect("reward:rm", base_url="http://127.0.0.1:9/v1", attempts="1").fingerprint


def test_a_server_that_squashes_is_refused_where_its_answers_prove_it():
    # s(31 / 10 - 2) = s(1.1) and s(11 / 10 - 2) = s(-0.9), with use_activation true and false.
    message = r"it ignores use_activation: two answers get 0.75 and 0.289 with true and with false, so these are no raw "
    with Rewards(CLASSIFY, squashes=True) as server, unavailable(message):
        read(server, "good")


def test_a_model_with_two_outputs_on_a_server(tokenizer):
    message = "/classify gave 2 numbers for a text, and a reward model gives one"
    with Rewards(SGLANG, outputs=2) as server, unavailable(message):
        read(server, "good", tokenizer=tokenizer)


def test_an_answer_without_a_number_loses_its_text_only():
    with Rewards(POOLING) as server:
        _, readings = read(server, "good", "nothing", "broken", "better")
    assert [reading.logprobs is not None for reading in readings] == [True, False, False, True]
    assert readings[1].reason == "/pooling gave no number for a text, and a reward model gives one"
    assert readings[2].reason == "the server answered 400: out of range"


def test_two_entries_for_one_text_are_no_reward():
    with Rewards(POOLING) as server:
        backend, [first] = read(server, "good")
        server.entries = 2
        [second] = backend.read_labels(shown("good"), ("win", "loss"))
    assert first.logprobs is not None
    assert second.logprobs is None
    assert "2 entries of data with the indices 0, 1 for 1 text" in second.reason


def test_a_server_that_begins_to_squash_rewards_ends_the_run(monkeypatch):
    monkeypatch.setattr("refladder.backends.openai.backend.PROVEN_FOR", 2)
    monkeypatch.setattr("refladder.backends.openai.reward_backend.PROVEN_FOR", 2)
    with Rewards(POOLING) as server:
        backend, readings = read(server, "good", "better")
        assert all(reading.logprobs for reading in readings)
        server.squashes = True
        with unavailable("it ignores use_activation"):
            backend.read_labels(shown("another"), ("win", "loss"))
