"""Servers as people have them: each row is one that answers as its documentation says, and how it is then read."""

import json
import math
from dataclasses import replace
from typing import NamedTuple

import pytest
from asked import LABELS, questions, to
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
from refladder.errors import BackendUnavailableError, UsageError
from refladder.records import Sampling

QWEN_OFF = {"chat_template_kwargs": {"enable_thinking": False}}
ONLY_THIS_PROVIDER = '{"provider": {"require_parameters": true, "allow_fallbacks": false}}'
OPENROUTER = Quirks(completions=False, several="one", routed=json.loads(ONLY_THIS_PROVIDER))
AWS = replace(OPENAI, unknown=403)
GPT_5 = replace(
    OPENAI,
    chat_logprobs="forbidden",
    length_field="max_completion_tokens",
    tempered=False,
    strict=True,
    thinks=True,
    thoughts="hidden",
)
GEMINI = replace(OPENAI, most_answers=8, strict=True, thinks=True, thoughts="hidden")


class Row(NamedTuple):
    quirks: Quirks
    mode: str  # the end of the fingerprint
    told: str  # what the notice says of it, or why no better mode is used
    requests: int  # for one row of three labels, `Worse` of two tokens, without /tokenize
    exactness: str = "exact"
    options: dict = {}  # noqa: RUF012  never changed


SERVERS = {
    "OpenAI gpt-4.1": Row(
        OPENAI, "prefix:unsupported top20", "from the 20 most probable tokens", 1, "bounded"
    ),
    "OpenAI o3, gpt-5": Row(
        GPT_5,
        "prefix:unsupported sample20-shares",
        "label shares of 20 sampled answers, each after a thought: 20 thoughts for each comparison of a text",
        20,  # answers whose tokens were used up by thoughts cannot show that n answers differ
        "sampled",
    ),
    "OpenAI gpt-4.1, logprobs forbidden": Row(
        replace(OPENAI, chat_logprobs="forbidden"),
        "prefix:unsupported sample20-shares",
        "top: the server answered 403: You are not allowed to request logprobs from this model",
        1,
        "sampled",
    ),
    "OpenAI gpt-5.1 to 5.4": Row(
        replace(OPENAI, effort=True, strict=True, length_field="max_completion_tokens"),
        "thoughts:off(reasoning_effort) prefix:unsupported top20",
        "its thoughts switched off (reasoning_effort)",
        1,
        "bounded",
    ),
    "a gateway of AWS": Row(
        AWS,
        "prefix:unsupported top20",
        "no token ids of prompts: the server answered 403",
        1,
        "bounded",
    ),
    "vLLM": Row(
        VLLM,
        "prefix:on exact:token-ids",
        "exact label probabilities",
        2,
    ),
    "vLLM 0.8": Row(
        VLLM_OLDER, "prefix:on top20-completed", "exact: token-ids: no log-probability of token", 2
    ),
    "vLLM, Qwen 3": Row(
        replace(VLLM, thinks=True, switch=QWEN_OFF),
        "thoughts:off(enable_thinking) prefix:on exact:token-ids",
        "exact label probabilities, its thoughts switched off (enable_thinking)",
        2,
    ),
    "vLLM behind a proxy of /v1": Row(
        replace(VLLM, under_v1=True),
        "prefix:on exact:token-ids",
        "exact label probabilities",
        2,
    ),
    "SGLang": Row(SGLANG, "prefix:on exact:score", "exact label probabilities", 1),
    "SGLang, DeepSeek V3.1": Row(
        replace(SGLANG, thinks=True, switch={"chat_template_kwargs": {"thinking": False}}),
        "thoughts:off(template-thinking) prefix:on exact:score",
        "its thoughts switched off (template-thinking)",
        1,
    ),
    "llama-server": Row(LLAMA_SERVER, "prefix:on exact:vocabulary", "exact label probabilities", 2),
    "llama-cpp-python": Row(
        LLAMA_CPP_PYTHON,
        "prefix:unsupported top115-completed",
        "the 115 most probable tokens",
        2,
    ),
    "DeepSeek": Row(
        Quirks(
            completions=False,
            several="one",
            thinks=True,
            thoughts="reasoning_content",
            switch={"thinking": {"type": "disabled"}},
        ),
        "thoughts:off(thinking) prefix:unsupported top20",
        "its thoughts switched off (thinking)",
        1,
        "bounded",
    ),
    "Ollama": Row(
        Quirks(token_prompts=False, completion_logprobs="silent", several="one"),
        "prefix:unsupported top20",
        "no token ids of prompts: the server answered 404",
        1,
        "bounded",
    ),
    "Ollama, a model that thinks": Row(
        Quirks(
            token_prompts=False,
            completion_logprobs="silent",
            several="one",
            thinks=True,
            thoughts="reasoning",
            switch={"reasoning_effort": "none"},
        ),
        "thoughts:off(reasoning_effort) prefix:unsupported top20",
        "its thoughts switched off (reasoning_effort)",
        1,
        "bounded",
    ),
    "Claude": Row(
        replace(TEXT_ONLY, several="refused", header="anthropic-workspace-id"),
        "prefix:unsupported sample20-shares",
        "label shares of 20 sampled answers",
        20,
        "sampled",
    ),
    "Gemini 2.5 on Vertex": Row(
        replace(GEMINI, switch={"reasoning_effort": "none"}),
        "thoughts:off(reasoning_effort) prefix:unsupported top20",
        "its thoughts switched off (reasoning_effort)",
        1,
        "bounded",
    ),
    "Gemini 3.5 Flash": Row(
        replace(GEMINI, chat_logprobs="refused"),
        "prefix:unsupported sample20-shares",
        "each after a thought: 20 thoughts for each comparison of a text",
        20,
        "sampled",
    ),
    "OpenRouter": Row(
        OPENROUTER,
        "prefix:unsupported sample20-shares",
        "top: log-probabilities were asked for and not returned",
        20,
        "sampled",
    ),
    "OpenRouter, by its recipe": Row(
        OPENROUTER,
        "prefix:unsupported top20 extra=[('provider', {'require_parameters': True, 'allow_fallbacks': False})]",
        "label probabilities from the 20 most probable tokens",
        1,
        "bounded",
        {"extra": ONLY_THIS_PROVIDER},
    ),
    "OpenRouter, a model that thinks": Row(
        replace(
            OPENROUTER,
            thinks=True,
            thoughts="reasoning",
            switch={"reasoning": {"effort": "none"}},
            routed=None,
        ),
        "thoughts:off(reasoning) prefix:unsupported top20",
        "its thoughts switched off (reasoning)",
        1,
        "bounded",
    ),
    "Azure": Row(
        replace(OPENAI, header="api-key"),
        "prefix:unsupported top20",
        "/v1?api-version=2024-10-21:",
        1,
        "bounded",
    ),
    "transformers serve": Row(
        TRANSFORMERS,
        "prefix:unsupported sample1-fixed-shares",
        "votes, not probabilities",
        1,
        "sampled",
    ),
    "one that refuses a temperature": Row(
        replace(OPENAI, tempered=False),
        "prefix:unsupported top20",
        "the 20 most probable tokens",
        1,
        "bounded",
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
    assert backend.fingerprint == f"openai:toy@127.0.0.1:{server.port}/v1{version} {row.mode}"
    assert row.told in f"{backend.notice}, {'; '.join(backend.read_mode['not_better'])}"
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
    with pytest.raises(
        BackendUnavailableError, match=r"sent no key \(401: anthropic-workspace-id is required\)"
    ):
        _ = to(serve(SERVERS["Claude"].quirks)).fingerprint


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
