"""A backend for `recorded_runs.py`: another backend that counts what it is asked, and kills its process if told so.

`counted` is `builtin`, and `counted:NAME` the backend NAME. An answered call adds a line to the file `asked`.
With the variable STOP, the process kills itself when it is called for the STOP-th time.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from refladder.backends import Backend

ENTRY_POINTS = "[refladder.backend]\ncounted = recorded_judge:open_counted\n"
METADATA = "Metadata-Version: 2.1\nName: recorded-judge\nVersion: 1\n"
ASKED = Path("asked").absolute()
calls = 0


def open_counted(target: str) -> Backend:
    """The backend, with its two methods counted."""
    from refladder import connect

    backend = connect(target or "builtin")
    for name in ("read_labels", "write"):
        setattr(backend, name, _counted(name, getattr(backend, name)))
    return backend


def _counted(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    def counted(prompts: list[Any], *rest: Any) -> Any:
        global calls  # noqa: PLW0603  of the process
        calls += 1
        if calls == int(os.environ.get("STOP", "0")):
            os.kill(os.getpid(), signal.SIGKILL)
        answers = method(prompts, *rest)
        with ASKED.open("a") as file:
            file.write(f"{name} {len(prompts)}\n")
        return answers

    return counted


def install(folder: Path) -> None:
    """Make the folder one that, on PYTHONPATH, has this backend installed."""
    record = folder / "recorded_judge-1.dist-info"
    record.mkdir(parents=True)
    (record / "entry_points.txt").write_text(ENTRY_POINTS, "utf-8")
    (record / "METADATA").write_text(METADATA, "utf-8")
    (folder / "recorded_judge.py").write_text(Path(__file__).read_text("utf-8"), "utf-8")
