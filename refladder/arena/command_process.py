"""A refladder command as a process of its own."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_POLL = 0.05  # seconds between two looks at a process


class Process:
    """`refladder ARGUMENTS`, started in this environment, its output in two files; no shell reads the arguments."""

    def __init__(self, arguments: Sequence[str], out: Path, err: Path) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        self._process = os.posix_spawn(
            sys.executable,
            [sys.executable, "-m", "refladder", *arguments],
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, str(out), flags, 0o600),
                (os.POSIX_SPAWN_OPEN, 2, str(err), flags, 0o600),
            ],
        )
        self._code: int | None = None
        self._lock = threading.Lock()

    @property
    def exitcode(self) -> int | None:
        """How the command ended; None while it runs."""
        with self._lock:
            if self._code is None:
                ended, status = os.waitpid(self._process, os.WNOHANG)
                if ended:
                    self._code = os.waitstatus_to_exitcode(status)
            return self._code

    def terminate(self) -> None:
        """End the command; what it wrote stays."""
        if self.exitcode is None:
            with suppress(ProcessLookupError):
                os.kill(self._process, signal.SIGTERM)

    def join(self, timeout: float) -> int | None:
        """Wait for the end, for a number of seconds at most; the exit code, None while it runs."""
        ends = time.monotonic() + timeout
        while self.exitcode is None and time.monotonic() < ends:
            time.sleep(_POLL)
        return self.exitcode
