"""The client's own cost: requests a second and processor time a request, beside a bare AsyncOpenAI loop.

Both ask a server that answers at once, in a process of its own, with 64 connections; rounds of the two take turns.

    python bench/endpoint_overhead.py [ROWS A ROUND]
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests/backends/endpoint"))

from asked import LABELS, questions
from endpoint_servers import served
from openai import AsyncOpenAI

from refladder.backends import connect

if TYPE_CHECKING:
    from refladder.backends.endpoint import Endpoint
    from refladder.records import Prompt

CONNECTIONS = 64
ROUNDS = 5
QUIET = dict.fromkeys(("service", "server_error", "reset", "half", "no_json", "drip", "stall", "twice"), 0.0)


async def _bare(url: str, prompts: list[Prompt]) -> None:
    rows = iter(prompts)
    async with AsyncOpenAI(api_key="none", base_url=url, max_retries=0) as client:

        async def work() -> None:
            for prompt in rows:
                await client.chat.completions.create(
                    model="faulty",
                    messages=prompt.messages,
                    max_tokens=1,
                    temperature=0,
                    logprobs=True,
                    top_logprobs=5,
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


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    prompts = questions(rows)
    with served(QUIET) as (url, _):
        backend = connect("openai:faulty", base_url=url, mode="top", max_concurrency=str(CONNECTIONS))
        _our_round(backend, prompts)  # the handshake, and the growth to 64 in flight
        _bare_round(url, prompts[:200])
        bare, ours = [], []
        for _ in range(ROUNDS):
            bare.append(_bare_round(url, prompts))
            ours.append(_our_round(backend, prompts))
    rates = {name: [rows / seconds for seconds, _ in taken] for name, taken in (("bare", bare), ("ours", ours))}
    costs = {
        name: [1e3 * processor / rows for _, processor in taken] for name, taken in (("bare", bare), ("ours", ours))
    }
    rate = {name: statistics.median(found) for name, found in rates.items()}
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
    for name, title in (("bare", "AsyncOpenAI in a loop"), ("ours", "refladder openai:MODEL")):
        low, high = min(rates[name]), max(rates[name])
        lines.append(f"| {title} | {rate[name]:,.0f} ({low:,.0f}-{high:,.0f}) | {statistics.median(costs[name]):.2f} |")
    lines += ["", f"The rate is {rate['ours'] / rate['bare']:.0%} of the bare client's."]
    print("\n".join(lines))
    (Path(__file__).parent / "results/endpoint_overhead.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
