"""A small HTTP server on loopback, in a thread of its own: enough of HTTP/1.1 to misbehave on purpose."""

import asyncio
import contextlib
import json
import threading
from dataclasses import dataclass, field

ENDS = (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError)


@dataclass
class Reply:
    """What is sent back; `body` is JSON unless it is bytes. The faults are those of real servers and networks."""

    body: object = None
    status: int = 200
    headers: dict = field(default_factory=dict)
    wait: float = 0.0  # seconds before the first byte
    fault: str = ""  # reset: no answer; half: the body breaks off; drip: a few bytes at a time; repeat: the whole answer twice
    drip: float = 0.0  # seconds between the pieces of a drip


class HttpServer:
    """Serves `answer(method, path, headers, body) -> Reply`, a plain or an async function; `ssl` for https."""

    def __init__(self, answer, ssl=None):
        self._answer, self._ssl = answer, ssl
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()), daemon=True)

    def __enter__(self):
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(self, *_):
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    @property
    def url(self):
        return f"{'https' if self._ssl else 'http'}://127.0.0.1:{self.port}/v1"

    async def _main(self):
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        self._open = set()
        server = await asyncio.start_server(
            self._connection, "127.0.0.1", 0, limit=2**26, backlog=1024, ssl=self._ssl
        )
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        server.close()
        # A connection that was accepted last begins its task, so that it is closed with the others.
        for _ in range(5):
            await asyncio.sleep(0)
        for task in list(self._open):
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _connection(self, reader, writer):
        task = asyncio.current_task()
        self._open.add(task)
        try:
            with contextlib.suppress(*ENDS):
                while await self._exchange(reader, writer):
                    pass
        finally:
            self._open.discard(task)
            writer.close()

    async def _exchange(self, reader, writer):
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, path, _ = head[0].split(" ")
        fields = [line.partition(":") for line in head[1:] if line]
        headers = {name.lower(): value.strip() for name, _, value in fields}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        reply = self._answer(method, path, headers, body)
        if asyncio.iscoroutine(reply):
            reply = await reply
        if reply.wait:
            await asyncio.sleep(reply.wait)
        if reply.fault == "reset":
            writer.transport.abort()
            return False
        content = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
        usual = {"content-type": "application/json", "content-length": str(len(content))}
        sent = [f"{name}: {value}" for name, value in {**usual, **reply.headers}.items()]
        head = "\r\n".join([f"HTTP/1.1 {reply.status} X", *sent, "", ""]).encode("latin-1")
        writer.write(head)
        if reply.fault == "half":
            writer.write(content[: len(content) // 2])
            await writer.drain()
            return False
        if reply.fault == "drip":
            for start in range(0, len(content), 16):
                writer.write(content[start : start + 16])
                await writer.drain()
                await asyncio.sleep(reply.drip)
            return True
        writer.write(content)
        if reply.fault == "repeat":  # the same answer again, that nobody asked for
            writer.write(head + content)
        await writer.drain()
        return True
