"""Servers in a process of their own, so that a benchmark's client has its interpreter to itself.

One is the fault server of the tests. The other, for rates, answers every request at once with the same tokens and does
no more than find where a request ends.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

TOPS = [
    {"token": text, "logprob": -1.7} for text in ("Better", "Worse", "Similar", "other", "another")
]
CHOICE = {
    "index": 0,
    "message": {"role": "assistant", "content": "Better"},
    "finish_reason": "stop",
    "logprobs": {"content": [{**TOPS[0], "top_logprobs": TOPS}]},
}
USAGE = {"prompt_tokens": 10, "completion_tokens": 1}
SERVERS = Path(__file__).parents[1] / "tests/support/openai"


class QuickServer(asyncio.Protocol):
    """One connection. Every answer has an id of its own, as real ones have."""

    ids = itertools.count()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:  # noqa: D102  asyncio's
        self._transport = transport
        self._received = b""

    def data_received(self, data: bytes) -> None:  # noqa: D102  asyncio's
        self._received += data
        while (end := self._received.find(b"\r\n\r\n") + 4) > 3:
            head = self._received[:end].lower()
            _, _, length = head.partition(b"content-length:")
            whole = end + int(length.split(b"\r\n", 1)[0] or 0)
            if len(self._received) < whole:
                return
            number, self._received, body = (
                next(self.ids),
                self._received[whole:],
                self._received[end:whole],
            )
            if not head.startswith(b"post /v1/completions "):
                self._transport.write(quick_answer(number))
                continue
            self._transport.write(completions(number, json.loads(body)))


def quick_answer(number: int) -> bytes:
    """An answer with its head; all have the same length."""
    body = b'{"id": "chatcmpl-%032d", %b' % (number, _REST)
    return _HEAD + body


def completions(number: int, sent: dict[str, Any]) -> bytes:
    """An answer to one prompt of token ids or many, with the log-probabilities of the tokens that are named."""
    prompts = len(sent["prompt"]) if isinstance(sent["prompt"][0], list) else 1
    tops = {f"token_id:{token}": -1.7 for token in sent.get("logprob_token_ids", ())} or {
        "Better": -1.7
    }
    choice = b', "text": "Better", "logprobs": {"top_logprobs": [%b]}}' % json.dumps(tops).encode()
    choices = b", ".join(b'{"index": %d%b' % (place, choice) for place in range(prompts))
    usage = b'{"prompt_tokens": %d, "completion_tokens": %d}' % (10 * prompts, prompts)
    body = b'{"id": "cmpl-%032d", "choices": [%b], "usage": %b}' % (number, choices, usage)
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (
        len(body),
        body,
    )


_REST = json.dumps({"object": "chat.completion", "choices": [CHOICE], "usage": USAGE}).encode()[1:]
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % (
    len(_REST) + len(b'{"id": "chatcmpl-", ') + 32
)


async def _serve_quickly() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(QuickServer, "127.0.0.1", 0, backlog=1024)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    await loop.run_in_executor(None, sys.stdin.readline)  # until `stop`
    server.close()


@contextmanager
def served(faults: dict[str, Any] | None) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A server's URL and process: the fault server, or without `faults` the quick one.

    The fault server's process answers `stats` with what it saw.
    """
    command = [sys.executable, __file__, json.dumps(faults)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None  # noqa: S101  PIPE above
        assert process.stdout is not None  # noqa: S101
        try:
            yield process.stdout.readline().strip(), process
        finally:
            process.stdin.write("stop\n")
            process.stdin.close()


def tell(process: subprocess.Popen[str], word: str) -> dict[str, Any]:
    assert process.stdin is not None  # noqa: S101  PIPE
    assert process.stdout is not None  # noqa: S101
    process.stdin.write(word + "\n")
    process.stdin.flush()
    return json.loads(process.stdout.readline())


def _main() -> None:
    sys.path.insert(0, str(SERVERS))
    from fault_server import Faults, FaultServer

    faults = json.loads(sys.argv[1])
    if faults is None:
        asyncio.run(_serve_quickly())
        return
    with FaultServer(Faults(**faults)) as server:
        print(server.url, flush=True)
        for line in sys.stdin:
            if line.strip() == "stop":
                break
            if line.strip() == "start":
                server.start_clock()
            seen = {
                "late": server.late,
                "busy": server.busy,
                "asked": sum(server.asked.values()),
                "rows": len(server.answered),
                "most": max(server.answered.values(), default=0),
                "kinds": dict(server.kinds),
            }
            print(json.dumps(seen), flush=True)


if __name__ == "__main__":
    _main()
