"""Output files that a command may replace: those that `FILE.run.json` says the same command wrote."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from refladder.errors import UsageError
from refladder.files.jsonl import check_name, read_bytes, write_json
from refladder.parsing import each_leaf, parse_as
from refladder.records import JudgeCheck  # noqa: TC001  pydantic reads the annotation
from refladder.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping

NEXT_STEP = "name another file, or delete it"


def holds_data(path: str | Path) -> bool:
    """Return whether a path is a file that is not empty; standard output, a pipe and a device hold nothing."""
    return Path(path).is_file() and Path(path).stat().st_size > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConfig:
    """The configuration of a run, as it is stored with its output: every option with its value."""

    command: str | None = None
    refladder: str = __version__
    options: dict[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_options(self.options)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What is read of the options of a run; a command has `column` (FIELD=NAME), and a call `columns`."""

    column: list[str] = field(default_factory=list)
    columns: dict[str, str] | None = None
    context_id: str | None = None
    ladders: str | None = None
    judgments: str | None = None
    out: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """What is read of the run.json of a file, or of a folder of scored files, which has `settings` for `options`.

    `above_top` and `below_bottom` count the texts beyond the ladders, by dimension.
    """

    command: str | None = None
    signature: str | None = None
    options: RunOptions = RunOptions()
    settings: RunOptions | None = None
    scales: dict[str, tuple[float, float]] | None = None
    judge_check: list[JudgeCheck] | None = None
    above_top: dict[str, int] = field(default_factory=dict)
    below_bottom: dict[str, int] = field(default_factory=dict)

    @property
    def columns(self) -> dict[str, str]:
        """Return the column of each field that the run was given."""
        given = self.settings or self.options
        return given.columns or dict(pair.split("=", 1) for pair in given.column if "=" in pair)

    @property
    def context_id(self) -> str | None:
        """Return the context of all rows, if the run was given one."""
        return (self.settings or self.options).context_id


def read_record(path: Path) -> RunRecord:
    """Read a run.json; the record is empty if there is none."""
    if not path.is_file():
        return RunRecord()
    what, step = "not the record of a run", "delete it, or run the command again that wrote it"
    return parse_as(RunRecord, read_bytes(path), str(path), what, step, extra="ignore")


def record_of(out: str) -> RunRecord:
    """Read the record of the run that wrote a file."""
    return read_record(Path(f"{out}.run.json"))


def check_own(out: str, command: str | None) -> None:
    """Check that a file may be written: it is absent or empty, or the same command wrote it. None for any command."""
    if command and holds_data(out) and record_of(out).command != command:
        raise UsageError(f"{out}: exists, and `refladder {command}` did not write it; {NEXT_STEP}")


def check_options(options: object) -> None:
    """Check that every path and name among the options of a run can be stored."""
    each_leaf(options, lambda leaf: check_name(str(leaf), "the records of a run"))


def write_run(out: str, record: Mapping[str, Any] | None) -> None:
    """Write the record of a run beside its output, if there is one; a pipe and a device get none."""
    if record is not None and (not Path(out).exists() or Path(out).is_file()):
        write_json(Path(f"{out}.run.json"), dict(record))
