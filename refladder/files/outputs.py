"""Output files that a command may replace: those that `FILE.run.json` says the same command wrote."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from refladder.errors import UsageError
from refladder.files.jsonl import read_bytes, write_json
from refladder.parsing import parse_json

if TYPE_CHECKING:
    from collections.abc import Mapping

NEXT_STEP = "name another file, or delete it"


def holds_data(path: str | Path) -> bool:
    """Return whether a path is a file that is not empty; standard output, a pipe and a device hold nothing."""
    return Path(path).is_file() and Path(path).stat().st_size > 0


def record_of(out: str) -> dict[str, Any]:
    """Return the record of the run that wrote a file; empty if there is none."""
    path = Path(f"{out}.run.json")
    record = parse_json(read_bytes(path), str(path), whole_file=True) if path.is_file() else None
    return record if isinstance(record, dict) else {}


def check_own(out: str, command: str | None) -> None:
    """Check that a file may be written: it is absent or empty, or the same command wrote it. None for any command."""
    if command and holds_data(out) and record_of(out).get("command") != command:
        raise UsageError(f"{out}: exists, and `refladder {command}` did not write it; {NEXT_STEP}")


def write_run(out: str, record: Mapping[str, Any] | None) -> None:
    """Write the record of a run beside its output, if there is one; a pipe and a device get none."""
    if record is not None and (not Path(out).exists() or Path(out).is_file()):
        write_json(Path(f"{out}.run.json"), dict(record))
