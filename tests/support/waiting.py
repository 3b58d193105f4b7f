"""Waiting for what another process or thread does, however slow the machine is."""

from __future__ import annotations

import time

HANG = 300  # seconds after which something hangs; no test measures time with it


def until(condition, process=None):
    """Wait until a condition is true, and return its value. A process that ends before it is true fails the test."""
    deadline = time.monotonic() + HANG
    while not (value := condition()):
        if process is not None and process.poll() is not None:
            assert condition(), process.communicate()
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.005)
    return value


def count_lines(path):
    """The whole lines of a file, 0 if there is none yet."""
    return path.read_bytes().count(b"\n") if path.exists() else 0
