"""The client's own cost: requests a second and processor time a request, beside a bare AsyncOpenAI loop and lm-eval.

All ask a server that answers at once, in a process of its own, with 64 connections; their rounds take turns. The one of
lm-evaluation-harness is its API model for chat, `local-chat-completions`, from requests to answers, and needs
lm-eval[api]; without it the table says so.

    python bench/endpoint_overhead.py [ROWS A ROUND]
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests/backends/endpoint"))

from asked import LABELS, questions
from endpoint_servers import served
from openai import AsyncOpenAI

from refladder.backends import connect

if TYPE_CHECKING:
    from collections.abc import Callable

    from lm_eval.models.openai_completions import LocalChatCompletion

    from refladder.backends.openai import Endpoint
    from refladder.records import Prompt

CONNECTIONS = 64
ROUNDS = 5
ASKED = {"max_tokens": 1, "temperature": 0, "logprobs": True, "top_logprobs": 5}
QUIET = dict.fromkeys(("service", "server_error", "reset", "half", "no_json", "drip", "stall", "twice"), 0.0)


async def _bare(url: str, prompts: list[Prompt]) -> None:
    rows = iter(prompts)
    async with AsyncOpenAI(api_key="none", base_url=url, max_retries=0) as client:

        async def work() -> None:
            for prompt in rows:
                await client.chat.completions.create(
                    model="faulty",
                    messages=prompt.messages,
                    **ASKED,
                )

        await asyncio.gather(*(work() for _ in range(CONNECTIONS)))


def _bare_round(url: str, prompts: list[Prompt]) -> tuple[float, float]:
    begun, processor = time.perf_counter(), time.process_time()
    asyncio.run(_bare(url, prompts))
    return time.perf_counter() - begun, time.process_time() - processor


def _our_round(backend: Endpoint, prompts: list[Prompt]) -> tuple[float, float]:
    begun, processor = time.perf_counter(), time.process_time()
    readings = backend.read_labels(prompts, LABELS)
    taken = time.perf_counter() - begun, time.process_time() - processor
    if any(reading.logprobs is None for reading in readings):
        raise RuntimeError("the benchmark's server must answer everything")
    return taken


def _lm_eval(url: str) -> LocalChatCompletion | None:
    try:
        from lm_eval.models.openai_completions import LocalChatCompletion  # noqa: PLC0415  may be absent

        return LocalChatCompletion(base_url=f"{url}/chat/completions", model="faulty", num_concurrent=CONNECTIONS)
    except ModuleNotFoundError:  # lm-eval itself, or what lm-eval[api] adds to it
        return None


def _lm_eval_round(model: LocalChatCompletion, prompts: list[Prompt]) -> tuple[float, float]:
    from lm_eval.api.instance import Instance  # noqa: PLC0415

    begun, processor = time.perf_counter(), time.process_time()
    requests = [
        Instance("generate_until", {}, (model.apply_chat_template(prompt.messages), dict(ASKED)), place)
        for place, prompt in enumerate(prompts)
    ]
    texts = model.generate_until(requests)
    taken = time.perf_counter() - begun, time.process_time() - processor
    if texts != ["Better"] * len(prompts):
        raise RuntimeError("the benchmark's server must answer everything")
    return taken


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    prompts = questions(rows)
    with served(QUIET) as (url, _):
        backend = connect("openai:faulty", base_url=url, mode="top", max_concurrency=str(CONNECTIONS))
        clients: dict[str, Callable[[list[Prompt]], tuple[float, float]]] = {
            "AsyncOpenAI in a loop": partial(_bare_round, url),
            "refladder openai:MODEL": partial(_our_round, backend),
        }
        model = _lm_eval(url)
        if model:
            clients[f"lm-eval {version('lm-eval')} local-chat-completions"] = partial(_lm_eval_round, model)
        _our_round(backend, prompts)  # the handshake, and the growth to 64 in flight
        for ask in clients.values():
            ask(prompts[:200])
        taken: dict[str, list[tuple[float, float]]] = {client: [] for client in clients}
        for _ in range(ROUNDS):
            for client, ask in clients.items():
                taken[client].append(ask(prompts))
    lines = [
        "# Client overhead",
        "",
        (
            f"`python bench/endpoint_overhead.py {rows}`: {ROUNDS} rounds in turn, {rows:,} requests each, "
            f"{CONNECTIONS} connections, a server that answers at once on the same machine; "
            "medians, with the smallest and largest."
        ),
        "",
        "| client | requests/s | processor ms a request |",
        "|---|---|---|",
    ]
    rate = {}
    for client, found in taken.items():
        rates = [rows / seconds for seconds, _ in found]
        costs = [1e3 * processor / rows for _, processor in found]
        rate[client] = statistics.median(rates)
        lines.append(
            f"| {client} | {rate[client]:,.0f} ({min(rates):,.0f}-{max(rates):,.0f}) "
            f"| {statistics.median(costs):.2f} ({min(costs):.2f}-{max(costs):.2f}) |"
        )
    if not model:
        lines.append("| lm-eval local-chat-completions | not measured: lm-eval[api] is not installed | |")
    ours = rate.pop("refladder openai:MODEL")
    beside = " and ".join(f"{ours / other:.0%} of that of {client}" for client, other in rate.items())
    lines += ["", f"The rate of refladder is {beside}."]
    if model:
        lines.append(
            "All three ask for the same token and log probabilities. They differ in what they do with an answer: "
            "refladder reads the labels' probabilities, lm-eval the text alone, the loop nothing; lm-eval sends over "
            "aiohttp, the others through the openai library."
        )
    print("\n".join(lines))
    (Path(__file__).parent / "results/endpoint_overhead.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
