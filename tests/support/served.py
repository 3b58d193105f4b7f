"""A server that others wrote, in a process of its own."""

import os
import socket
import subprocess
import urllib.request
from contextlib import contextmanager
from functools import partial

import pytest
from waiting import until


@contextmanager
def started(command, log, health="/health"):
    """Start it on a free port until it answers; yields the base URL of its API."""
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    for _ in range(3):  # another program may take the port before the server does
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            port = listener.getsockname()[1]
        with log.open("wb") as out:
            process = subprocess.Popen(
                [*command, "--port", str(port)], stdout=out, stderr=out, env=environment
            )
        try:
            if until(partial(_state, process, f"http://127.0.0.1:{port}{health}")) == "ready":
                yield f"http://127.0.0.1:{port}/v1"
                return
        finally:
            process.kill()
            process.wait()
    pytest.fail(f"the server ended: {log.read_text()[-2000:]}")


def _state(process, url):
    if process.poll() is not None:
        return "ended"
    try:
        with urllib.request.urlopen(url, timeout=60):  # noqa: S310  on loopback
            return "ready"
    except OSError:
        return None
