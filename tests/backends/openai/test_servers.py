"""Servers as people have them: each row is one that answers as its documentation says, and how it is then read."""

import json
import math
from dataclasses import replace
from typing import NamedTuple

import pytest
from asked import LABELS, questions, to, unavailable
from toy_server import (
    LLAMA_CPP_PYTHON,
    LLAMA_SERVER,
    MODEL,
    OPENAI,
    SGLANG,
    TEXT_ONLY,
    TRANSFORMERS,
    VLLM,
    VLLM_OLDER,
    Quirks,
)

from refladder.backends import connect
from refladder.errors import UsageError
from refladder.records import Sampling


class Row(NamedTuple):
    quirks: Quirks
    mode: str  # the end of the fingerprint
    told: str  # what the notice says of it, or why no better mode is used
    requests: int = 1  # for one row of three labels, `Worse` of two tokens, without /tokenize
    exactness: str = "exact"
    options: dict = {}  # noqa: RUF012  never changed


TOP, SAMPLED = "prefix:unsupported top20", "prefix:unsupported sample20-shares"
OFF = "its thoughts switched off ({})"
AFTER_THOUGHTS = "each after a thought: 20 thoughts for each comparison of a text"
FORBIDDEN = replace(OPENAI, chat_logprobs="forbidden")
GPT_5 = replace(
    FORBIDDEN,
    length_field="max_completion_tokens",
    tempered=False,
    strict=True,
    thinks=True,
    thoughts="hidden",
)
GPT_5_1 = replace(OPENAI, effort=True, strict=True, length_field="max_completion_tokens")
QWEN_3 = replace(VLLM, thinks=True, switch={"chat_template_kwargs": {"enable_thinking": False}})
DEEPSEEK_V3 = replace(SGLANG, thinks=True, switch={"chat_template_kwargs": {"thinking": False}})
DEEPSEEK = Quirks(
    completions=False,
    several="one",
    thinks=True,
    thoughts="reasoning_content",
    switch={"thinking": {"type": "disabled"}},
)
OLLAMA = Quirks(token_prompts=False, completion_logprobs="silent", several="one")
OLLAMA_THINKS = replace(
    OLLAMA, thinks=True, thoughts="reasoning", switch={"reasoning_effort": "none"}
)
CLAUDE = replace(TEXT_ONLY, several="refused", header="anthropic-workspace-id")
GEMINI = replace(OPENAI, most_answers=8, strict=True, thinks=True, thoughts="hidden")
GEMINI_VERTEX = replace(GEMINI, switch={"reasoning_effort": "none"})
ONLY_THIS_PROVIDER = '{"provider": {"require_parameters": true, "allow_fallbacks": false}}'
OPENROUTER = Quirks(completions=False, several="one", routed=json.loads(ONLY_THIS_PROVIDER))
OPENROUTER_EXTRA = (
    f"{TOP} extra=[('provider', {{'require_parameters': True, 'allow_fallbacks': False}})]"
)
OPENROUTER_THINKS = replace(
    OPENROUTER,
    thinks=True,
    thoughts="reasoning",
    switch={"reasoning": {"effort": "none"}},
    routed=None,
)
NO_LOGPROBS = "top: log-probabilities were asked for and not returned"
NOT_ALLOWED = "the server answered 403: You are not allowed to request logprobs from this model"
SERVERS = {
    "OpenAI gpt-4.1": Row(OPENAI, TOP, "from the 20 most probable tokens", 1, "bounded"),
    # answers whose tokens were used up by thoughts cannot show that n answers differ
    "OpenAI o3, gpt-5": Row(GPT_5, SAMPLED, AFTER_THOUGHTS, 20, "sampled"),
    "OpenAI, logprobs forbidden": Row(FORBIDDEN, SAMPLED, f"top: {NOT_ALLOWED}", 1, "sampled"),
    "OpenAI gpt-5.1 to 5.4": Row(
        GPT_5_1,
        f"thoughts:off(reasoning_effort) {TOP}",
        OFF.format("reasoning_effort"),
        1,
        "bounded",
    ),
    "a gateway of AWS": Row(
        replace(OPENAI, unknown=403),
        TOP,
        "no token ids of prompts: the server answered 403",
        1,
        "bounded",
    ),
    "vLLM": Row(VLLM, "prefix:on exact:token-ids", "exact label probabilities", 2),
    "vLLM 0.8": Row(
        VLLM_OLDER, "prefix:on top20-completed", "exact: token-ids: no log-probability of token", 2
    ),
    "vLLM, Qwen 3": Row(
        QWEN_3,
        "thoughts:off(enable_thinking) prefix:on exact:token-ids",
        f"exact label probabilities, {OFF.format('enable_thinking')}",
        2,
    ),
    "vLLM behind a proxy of /v1": Row(
        replace(VLLM, under_v1=True), "prefix:on exact:token-ids", "exact label probabilities", 2
    ),
    "SGLang": Row(SGLANG, "prefix:on exact:score", "exact label probabilities"),
    "SGLang, DeepSeek V3.1": Row(
        DEEPSEEK_V3,
        "thoughts:off(template-thinking) prefix:on exact:score",
        OFF.format("template-thinking"),
    ),
    "llama-server": Row(LLAMA_SERVER, "prefix:on exact:vocabulary", "exact label probabilities", 2),
    "llama-cpp-python": Row(
        LLAMA_CPP_PYTHON,
        "prefix:unsupported top115-completed",
        "the 115 most probable tokens",
        2,
    ),
    "DeepSeek": Row(
        DEEPSEEK, f"thoughts:off(thinking) {TOP}", OFF.format("thinking"), 1, "bounded"
    ),
    "Ollama": Row(OLLAMA, TOP, "no token ids of prompts: the server answered 404", 1, "bounded"),
    "Ollama, a model that thinks": Row(
        OLLAMA_THINKS,
        f"thoughts:off(reasoning_effort) {TOP}",
        OFF.format("reasoning_effort"),
        1,
        "bounded",
    ),
    "Claude": Row(CLAUDE, SAMPLED, "label shares of 20 sampled answers", 20, "sampled"),
    "Gemini 2.5 on Vertex": Row(
        GEMINI_VERTEX,
        f"thoughts:off(reasoning_effort) {TOP}",
        OFF.format("reasoning_effort"),
        1,
        "bounded",
    ),
    "Gemini 3.5 Flash": Row(
        replace(GEMINI, chat_logprobs="refused"), SAMPLED, AFTER_THOUGHTS, 20, "sampled"
    ),
    "OpenRouter": Row(OPENROUTER, SAMPLED, NO_LOGPROBS, 20, "sampled"),
    "OpenRouter, by its recipe": Row(
        OPENROUTER,
        OPENROUTER_EXTRA,
        "label probabilities from the 20 most probable tokens",
        1,
        "bounded",
        {"extra": ONLY_THIS_PROVIDER},
    ),
    "OpenRouter, a model that thinks": Row(
        OPENROUTER_THINKS, f"thoughts:off(reasoning) {TOP}", OFF.format("reasoning"), 1, "bounded"
    ),
    "Azure": Row(
        replace(OPENAI, header="api-key"), TOP, "/v1?api-version=2024-10-21:", 1, "bounded"
    ),
    "transformers serve": Row(
        TRANSFORMERS,
        "prefix:unsupported sample1-fixed-shares",
        "votes, not probabilities",
        1,
        "sampled",
    ),
    "one that refuses a temperature": Row(
        replace(OPENAI, tempered=False), TOP, "the 20 most probable tokens", 1, "bounded"
    ),
}


@pytest.fixture
def judge(serve, tmp_path):
    """A function from a row to its server and the backend for it."""

    def opened(row):
        server = serve(row.quirks)
        options = dict(row.options)
        if row.quirks.header:
            headers = tmp_path / "headers.json"
            headers.write_text(json.dumps({row.quirks.header: "x"}))
            options["headers_file"] = str(headers)
        version = "?api-version=2024-10-21" if row.quirks.header == "api-key" else ""
        return server, connect(f"openai:{MODEL}", base_url=server.url + version, **options)

    return opened


@pytest.mark.parametrize("name", SERVERS)
def test_each_server_is_read_in_its_best_way_and_says_so(name, judge):
    row = SERVERS[name]
    server, backend = judge(row)
    version = "?api-version=2024-10-21" if name == "Azure" else ""
    assert backend.fingerprint == f"openai:toy@localhost{version} {row.mode}"
    assert backend.stored_as == f"openai:toy@127.0.0.1:{server.port}/v1{version} {row.mode}"
    assert row.told in f"{backend.notice}, {'; '.join(backend.read_mode.not_better)}"
    backend.read_labels(questions(1), LABELS)  # the tokens of the labels are asked for once
    server.asked.clear()
    (reading,) = backend.read_labels(questions(1), LABELS)
    assert reading.exactness == row.exactness
    assert sum(map(math.exp, reading.logprobs)) == pytest.approx(
        reading.mass if row.exactness != "sampled" else 1
    )
    assert (
        sum("tokenize" not in path and "template" not in path for path, _ in server.asked)
        == row.requests
    )


def test_a_key_header_that_is_missing_is_named_in_the_servers_words(serve):
    with unavailable(r"sent no key \(401: anthropic-workspace-id is required\)"):
        _ = to(serve(CLAUDE)).fingerprint


@pytest.mark.parametrize(
    ("name", "most", "temperature"),
    [
        ("OpenAI o3, gpt-5", 4096, 1.0),
        ("one that refuses a temperature", 300, 1.0),
        ("vLLM", 300, 0.0),
    ],
)
def test_one_answer_has_room_for_thoughts_and_the_temperature_that_a_server_takes(
    name, most, temperature, judge
):
    server, backend = judge(SERVERS[name])
    assert backend.answering == Sampling(max_tokens=most, temperature=temperature)
    backend.write(questions(1), backend.answering)
    asked = server.asked[-1][1]
    assert asked.get("max_tokens", asked.get("max_completion_tokens")) == most
    assert asked.get("temperature", 1.0) == temperature


@pytest.mark.parametrize("name", ["OpenAI o3, gpt-5", "one that refuses a temperature"])
def test_a_writer_without_a_temperature_writes_with_none_and_refuses_another(name, judge):
    server, backend = judge(SERVERS[name])
    (text,) = backend.write(questions(1), Sampling(max_tokens=200))
    assert text.finish == "stop"
    assert not {"temperature", "top_p"} & server.asked[-1][1].keys()
    for given in ({"temperature": 0.5}, {"top_p": 0.9}, {"temperature": 0.0}):
        with pytest.raises(UsageError) as error:
            backend.write(questions(1), Sampling(**given))
        assert str(error.value) == (
            f"toy at {server.url} takes no temperature and no top-p, so its texts are drawn with 1 and 1; leave out "
            "--temperature and --top-p"
        )
