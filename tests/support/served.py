"""A server that others wrote, in a process of its own."""

import os
import socket
import subprocess
import urllib.request
from contextlib import contextmanager

import pytest
from waiting import until


@contextmanager
def started(command, log, health="/health"):
    """Start it on a free port until it answers; yields the base URL of its API."""
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    with socket.socket() as holder, log.open("wb") as out:
        # While this socket is bound and does not listen, no other program gets the port. Servers share it, as they set
        # one of these options.
        for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
            holder.setsockopt(socket.SOL_SOCKET, option, 1)
        holder.bind(("127.0.0.1", 0))
        port = holder.getsockname()[1]
        command = [*command, "--port", str(port)]
        process = subprocess.Popen(command, stdout=out, stderr=out, env=environment)
        try:
            url = f"http://127.0.0.1:{port}"
            if until(lambda: _state(process, url + health)) == "ended":
                pytest.fail(f"the server ended: {log.read_text()[-2000:]}")
            yield f"{url}/v1"
        finally:
            process.kill()
            process.wait()


def _state(process, url):
    if process.poll() is not None:
        return "ended"
    try:
        with urllib.request.urlopen(url, timeout=60):  # noqa: S310  on loopback
            return "ready"
    except OSError:
        return None
