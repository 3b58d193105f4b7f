"""Build and run in the browser: a form becomes arguments of `refladder compete`, which runs as its own process."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from refladder.backends.metered import Plan
from refladder.cli.inventory import inventory
from refladder.contest.compete import GENERATED
from refladder.contest.task_prompt import parse_task_prompt, read_instances
from refladder.errors import DataError, UsageError
from refladder.evaluation.results import RESULTS
from refladder.files.jsonl import read_bytes
from refladder.parsing import parse_as
from refladder.scoring.summary import cost_words

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from refladder.contest.workspace import Workspace

_NAME = re.compile(r"\w[\w .-]{0,59}")
_KIND = re.compile(r"(\w+)(?::(.*))?", re.DOTALL)
# A command that wrote its results ends with one of these codes.
_FINISHED = (0, 3)
# A dry run may take these seconds.
_PLANNING = 120.0
# This number of the last messages of a run is shown.
_SHOWN = 12
# A process is checked after these seconds again.
_POLL = 0.05


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
        """Return the exit code of the command; None while it runs."""
        with self._lock:
            if self._code is None:
                ended, status = os.waitpid(self._process, os.WNOHANG)
                if ended:
                    self._code = os.waitstatus_to_exitcode(status)
            return self._code

    def terminate(self) -> None:
        """Stop the command; its files stay."""
        if self.exitcode is None:
            with suppress(ProcessLookupError):
                os.kill(self._process, signal.SIGTERM)

    def join(self, timeout: float) -> int | None:
        """Wait for the end, at most this many seconds. Return the exit code, None while the command runs."""
        ends = time.monotonic() + timeout
        while self.exitcode is None and time.monotonic() < ends:
            time.sleep(_POLL)
        return self.exitcode


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """A run that was started: its name, its folder, and how much it has to do."""

    name: str
    folder: Path
    texts: int
    judgments: int
    command: str
    process: Process


class Builder:
    """Starts one contest at a time, as its own process."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._logs: Path | None = None
        self._lock = threading.Lock()
        self._run: _Run | None = None
        self._stopped = False

    def choices(self) -> dict[str, object]:
        """List tables, backends and folders that the form offers."""
        return {
            "tables": self._workspace.tables(),
            "backends": inventory("backends"),
            "folders": list(map(str, self._workspace.folders)),
            "runs": self._workspace.runs(),
        }

    def fill(self, form: object) -> dict[str, object]:
        """Fill the prompt with the first rows of a table, and list the variables that are not columns of it."""
        fields = _fields(form)
        preview = self._workspace.preview(_text(fields, "table"))
        prompt = parse_task_prompt(_text(fields, "prompt"), "prompt")
        columns = preview["columns"]
        unknown = [name for name in dict.fromkeys(prompt.names) if name not in columns]
        filled = []
        if not unknown:
            rows = [dict(zip(columns, row, strict=True)) for row in preview["rows"]]
            filled = [prompt.filled(values).text for values in rows]
        return {"unknown": unknown, "columns": columns, "filled": filled}

    def arguments(self, form: object) -> list[str]:
        """Return the arguments of `refladder compete` that a form asks for; paths are under the named folders."""
        fields = _fields(form)
        if not self._workspace.folders:
            raise UsageError(
                "no folder was named at the start; start `refladder review` with --folder FOLDER"
            )
        name = _text(fields, "out")
        if not _NAME.fullmatch(name):
            raise UsageError(
                f"run name {name!r:.80}: use letters, digits, spaces, dots and dashes, 60 at most"
            )
        out = self._workspace.allowed(name)
        for path in out.glob("*"):
            self._workspace.allowed(str(path))
        arguments = ["compete", f"--prompt-text={_text(fields, 'prompt')}", f"--out={out}"]
        for model in _list(fields, "models"):
            backend = self._backend(_text(model, "backend"))
            arguments.append(f"--model={_label(model)}={backend}")
        arguments.append(f"--judge={self._backend(_text(fields, 'judge'))}")
        arguments += _criteria(_list(fields, "criteria"))
        if fields.get("explain") is True:
            arguments.append("--explain")
        return [*arguments, "--", str(self._workspace.file(_text(fields, "table")))]

    def plan(self, form: object) -> dict[str, object]:
        """Return what a run would ask and cost, and the command, without asking a model."""
        arguments = self.arguments(form)
        with tempfile.TemporaryDirectory(prefix="refladder-plan-") as folder:
            out = Path(folder) / "out"
            err = Path(folder) / "err"
            process = Process([arguments[0], "--dry-run", "--json", *arguments[1:]], out, err)
            code = process.join(_PLANNING)
            if code is None:
                process.terminate()
                raise DataError(
                    f"the dry run took longer than {_PLANNING:g} s; run the command in a shell"
                )
            if code != 0:
                raise DataError(" ".join(_last_lines(err)) or f"the dry run ended with code {code}")
            plan = parse_as(Plan, read_bytes(out), "dry run", "not the plan of a run")
        return {
            "cost": [cost_words(costs) for costs in plan.backends],
            "kept": plan.kept_judgments,
            "command": shlex.join(["refladder", *arguments]),
        }

    def start(self, form: object) -> dict[str, object]:
        """Start or resume a run."""
        arguments = self.arguments(form)
        fields = _fields(form)
        prompt = parse_task_prompt(_text(fields, "prompt"), "prompt")
        instances = read_instances(arguments[-1], prompt)
        rows = sum(instance.prompt is not None for instance in instances)
        models = len(_list(fields, "models"))
        criteria = len(_list(fields, "criteria"))
        with self._lock:
            if self._run is not None and self._run.process.exitcode is None:
                raise UsageError("a run is under way; stop it first, or wait for its end")
            self._stopped = False
            name = _text(fields, "out")
            self._run = _Run(
                name=name,
                folder=self._workspace.allowed(name),
                texts=rows * models,
                judgments=rows * models * (models - 1) * criteria,
                command=shlex.join(["refladder", *arguments]),
                process=Process(arguments, *self._files()),
            )
        return self.progress()

    def stop(self) -> dict[str, object]:
        """Stop the run; what it wrote stays, and starting it again resumes it."""
        with self._lock:
            if self._run is not None and self._run.process.exitcode is None:
                self._stopped = True
                self._run.process.terminate()
                self._run.process.join(10)
        return self.progress()

    def progress(self) -> dict[str, object]:
        """Report how far the run is, from the files that it has written."""
        run = self._run
        if run is None:
            return {"state": "none"}
        code = run.process.exitcode
        if code is None:
            state = "running"
        elif self._stopped:
            state = "stopped"
        elif code in _FINISHED and (run.folder / RESULTS).is_file():
            state = "finished"
        else:
            state = "failed"
        judged = sum(max(0, _count_lines(path) - 1) for path in run.folder.glob("pairwise-*.jsonl"))
        return {
            "state": state,
            "run": run.name,
            "texts": run.texts,
            "judgments": run.judgments,
            "command": run.command,
            "written": min(_count_lines(run.folder / GENERATED), run.texts),
            "judged": min(judged, run.judgments),
            "messages": _last_lines(self._files()[1]),
        }

    def close(self) -> None:
        """Stop the run and remove its messages."""
        self.stop()
        if self._logs is not None:
            shutil.rmtree(self._logs, ignore_errors=True)

    def _files(self) -> tuple[Path, Path]:
        if self._logs is None:
            self._logs = Path(tempfile.mkdtemp(prefix="refladder-review-"))
        return self._logs / "out", self._logs / "err"

    def _backend(self, name: str) -> str:
        """Check that the page may name a backend: paths in it are under the named folders."""
        match = _KIND.fullmatch(name)
        kinds = [entry["name"] for entry in inventory("backends")]
        if match is None or match[1] not in kinds:
            raise UsageError(f"backend {name!r:.80} is unknown; choose one of {', '.join(kinds)}")
        kind = match[1]
        target = match[2] or ""
        is_path = target.startswith((".", "/", "~")) or Path(target).exists()
        if kind == "scripted" or (kind == "hf" and is_path):
            return f"{kind}:{self._workspace.allowed(target)}"
        return name


def _criteria(criteria: Sequence[Mapping[str, object]]) -> Iterator[str]:
    """Yield the options that describe criteria."""
    for criterion in criteria:
        label = _label(criterion)
        yield f"--criterion={label}={_text(criterion, 'description')}"
        for end in ("worst", "best"):
            if criterion.get(end):
                yield f"--{end}={label}={_text(criterion, end)}"
        weight = criterion.get("weight", 1)
        if weight != 1:
            if isinstance(weight, bool) or not isinstance(weight, int | float):
                raise UsageError(
                    f"weight {weight!r:.80} of {label!r:.80} is not a number; give one"
                )
            yield f"--weight={label}={weight}"


def _label(fields: Mapping[str, object]) -> str:
    label = _text(fields, "name")
    if "=" in label:
        raise UsageError(f"name {label!r:.80} contains '='; choose another name")
    return label


def _count_lines(path: Path) -> int:
    with suppress(OSError):
        return path.read_bytes().count(b"\n")
    return 0


def _last_lines(path: Path) -> list[str]:
    with suppress(OSError):
        return path.read_text(encoding="utf-8", errors="replace").splitlines()[-_SHOWN:]
    return []


def _fields(form: object) -> Mapping[str, object]:
    if not isinstance(form, dict):
        raise UsageError("the form is not a JSON object")
    return form


def _text(fields: Mapping[str, object], name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise UsageError(f"fill in {name!r}")
    return value


def _list(fields: Mapping[str, object], name: str) -> list[Mapping[str, object]]:
    value = fields.get(name)
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
        raise UsageError(f"fill in {name!r}")
    return value
