"""The client's own cost: prompts a second and processor time a prompt, beside bare aiohttp, openai and lm-eval.

All ask a server that answers at once, in a process of its own, with 64 connections; their rounds take turns. What the
server alone can do is measured first, by sockets that send one ready request again and again. Of lm-evaluation-harness
its API model for chat is measured, `local-chat-completions`, from requests to answers. Packages that are not installed
(openai, lm-eval) are left out, and the table says so. The rows `exact` read labels from prompts of token ids, as on
vLLM, one prompt a request and many; a small tokenizer in the client makes the ids.

    python bench/endpoint_overhead.py [ROWS A ROUND]
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests/support/openai"))

import aiohttp
from asked import LABELS, questions
from endpoint_servers import quick_answer, served

from refladder.backends import connect

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from lm_eval.models.openai_completions import LocalChatCompletion

    from refladder.backends.openai import OpenAIBackend
    from refladder.records import Prompt

CONNECTIONS = 64
ROUNDS = 5
ASKED = {"max_tokens": 1, "temperature": 0, "logprobs": True, "top_logprobs": 5}
OURS = "refladder openai:MODEL"
EXACT = "refladder openai:MODEL, exact, {} a request"
TEMPLATE = "{% for message in messages %}user {{ message.content }} assistant {% endfor %}"


def _body(prompt: Prompt) -> dict[str, object]:
    return {"model": "quick", "messages": prompt.messages, **ASKED}


async def _sockets(url: str, prompts: list[Prompt]) -> None:
    host, _, port = url.removeprefix("http://").removesuffix("/v1").partition(":")
    body = json.dumps(_body(prompts[0])).encode()
    request = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b" % (
        len(body),
        body,
    )
    rows = iter(prompts)
    size = len(quick_answer(0))

    async def work() -> None:
        reader, writer = await asyncio.open_connection(host, int(port))
        for _ in rows:
            writer.write(request)
            await reader.readexactly(size)
        writer.close()

    await asyncio.gather(*(work() for _ in range(CONNECTIONS)))


async def _aiohttp(url: str, prompts: list[Prompt]) -> None:
    rows = iter(prompts)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def work() -> None:
            for prompt in rows:
                async with session.post(f"{url}/chat/completions", json=_body(prompt)) as response:
                    await response.json()

        await asyncio.gather(*(work() for _ in range(CONNECTIONS)))


async def _openai(url: str, prompts: list[Prompt]) -> None:
    from openai import AsyncOpenAI

    rows = iter(prompts)
    async with AsyncOpenAI(api_key="none", base_url=url, max_retries=0) as client:

        async def work() -> None:
            for prompt in rows:
                await client.chat.completions.create(
                    model="quick", messages=prompt.messages, **ASKED
                )

        await asyncio.gather(*(work() for _ in range(CONNECTIONS)))


def _asked(
    client: Callable[[str, list[Prompt]], Awaitable[None]], url: str, prompts: list[Prompt]
) -> None:
    asyncio.run(client(url, prompts))


def _ours(backend: OpenAIBackend, prompts: list[Prompt]) -> None:
    if any(reading.logprobs is None for reading in backend.read_labels(prompts, LABELS)):
        raise RuntimeError("the benchmark's server must answer everything")


def _lm_eval(model: LocalChatCompletion, prompts: list[Prompt]) -> None:
    from lm_eval.api.instance import Instance

    requests = [
        Instance(
            "generate_until", {}, (model.apply_chat_template(prompt.messages), dict(ASKED)), number
        )
        for number, prompt in enumerate(prompts)
    ]
    if model.generate_until(requests) != ["Better"] * len(prompts):
        raise RuntimeError("the benchmark's server must answer everything")


def _clients(
    url: str, backend: OpenAIBackend
) -> tuple[dict[str, Callable[[list[Prompt]], None]], list[str]]:
    """What asks a list of prompts, by name; and the clients that are not installed."""
    clients: dict[str, Callable[[list[Prompt]], None]] = {
        "the server alone: sockets with a ready request": partial(_asked, _sockets, url),
        f"aiohttp {version('aiohttp')} in a loop": partial(_asked, _aiohttp, url),
        OURS: partial(_ours, backend),
    }
    absent = []
    try:
        clients[f"AsyncOpenAI {version('openai')} in a loop"] = partial(_asked, _openai, url)
    except ModuleNotFoundError:
        absent.append("openai")
    try:
        from lm_eval.models.openai_completions import LocalChatCompletion

        model = LocalChatCompletion(
            base_url=f"{url}/chat/completions", model="quick", num_concurrent=CONNECTIONS
        )
        clients[f"lm-eval {version('lm-eval')} local-chat-completions"] = partial(_lm_eval, model)
    except ModuleNotFoundError:  # lm-eval itself, or what lm-eval[api] adds to it
        absent.append("lm-eval[api]")
    return clients, absent


def _tokenizer(folder: str, prompts: list[Prompt]) -> None:
    """A tokenizer of the words of some prompts, in a folder."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    split = pre_tokenizers.WhitespaceSplit()
    texts = [
        *LABELS,
        "unknown",
        "user",
        "assistant",
        *(prompt.messages[-1]["content"] for prompt in prompts),
    ]
    words = dict.fromkeys(word for text in texts for word, _ in split.pre_tokenize_str(text))
    numbers = {word: number for number, word in enumerate(words)}
    tokenizer = Tokenizer(models.WordLevel(numbers, unk_token="unknown"))  # noqa: S106  a word
    tokenizer.pre_tokenizer = split
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, chat_template=TEMPLATE).save_pretrained(
        folder
    )


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    prompts = questions(rows)
    load = [os.getloadavg()[0]]
    with served(None) as (url, _), tempfile.TemporaryDirectory() as folder:
        backend = connect(
            "openai:quick", base_url=url, mode="top", max_concurrency=str(CONNECTIONS)
        )
        _ours(backend, prompts)  # the handshake, and the growth to 64 in flight
        clients, absent = _clients(url, backend)
        _tokenizer(folder, prompts)
        for name, together in (("one prompt", False), ("many prompts", True)):
            exact = connect(
                "openai:quick", base_url=url, mode="exact", prefix="none", tokenizer=folder
            )
            if exact.capabilities.name(1) != "exact:token-ids" or not exact.capabilities.together:
                raise RuntimeError(exact.notice)
            exact._capabilities = replace(exact.capabilities, together=together)  # noqa: SLF001  the only difference
            clients[EXACT.format(name)] = partial(_ours, exact)
        for ask in clients.values():
            ask(prompts[:200])
        taken: dict[str, list[tuple[float, float]]] = {client: [] for client in clients}
        for _ in range(ROUNDS):
            for client, ask in clients.items():
                begun, processor = time.perf_counter(), time.process_time()
                ask(prompts)
                taken[client].append((time.perf_counter() - begun, time.process_time() - processor))
    load.append(os.getloadavg()[0])
    lines = [
        "# Client overhead",
        "",
        (
            f"`python bench/endpoint_overhead.py {rows}`: {ROUNDS} rounds in turn, {rows:,} prompts each, "
            f"{CONNECTIONS} connections, one client process, a server that answers at once in another process of the "
            "same machine; medians, with the smallest and largest."
        ),
        (
            f"The machine has {os.cpu_count()} processors. Its load average was {load[0]:.1f} before the run and "
            f"{load[1]:.1f} after it; client and server make about 2 of that."
        ),
        "",
        "| client | prompts/s | processor ms a prompt |",
        "|---|---|---|",
    ]
    rate = {}
    for client, rounds in taken.items():
        rates = [rows / seconds for seconds, _ in rounds]
        costs = [1e3 * processor / rows for _, processor in rounds]
        rate[client] = statistics.median(rates)
        lines.append(
            f"| {client} | {rate[client]:,.0f} ({min(rates):,.0f}-{max(rates):,.0f}) "
            f"| {statistics.median(costs):.2f} ({min(costs):.2f}-{max(costs):.2f}) |"
        )
    lines += [f"| {package} | not measured: not installed | |" for package in absent]
    lines += [
        "",
        (
            "All clients ask for the same token and log-probabilities. They differ in what they do with an answer: "
            "refladder paces and counts requests and reads the labels' probabilities, lm-eval reads the text, the "
            "loops parse the JSON. The rows `exact` read labels from prompts of token ids, whose tokenizer runs in the "
            "client too; with many prompts a request, up to 32 share one."
        ),
    ]
    print("\n".join(lines))
    (Path(__file__).parent / "results/endpoint_overhead.md").write_text(
        "\n".join(lines) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    main()
