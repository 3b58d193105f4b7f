"""The backends of a public call: opened by name, with the response store and the counts of the command line."""

from __future__ import annotations

import functools
import logging
import os
import sys
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from refladder.backends import Backend, connect
from refladder.backends.cache.cached import Stored
from refladder.backends.cache.store import ResponseStore
from refladder.backends.metered import Metered
from refladder.backends.plain_function import FunctionJudge
from refladder.errors import UsageError, redacted
from refladder.files.ladder_sets import LadderSet
from refladder.prompts import check_folder
from refladder.scoring.recorded import read_recorded
from refladder.version import __version__

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from refladder.backends.plain_function import Judge
    from refladder.scoring.recorded import Recorded

COSTLY = ("openai",)  # kinds of backends whose answers are stored unless the user says no: they cost money
_LOG = logging.getLogger("refladder")


def default_store() -> Path:
    """Where answers are stored when no file is named: in the user's cache folder."""
    if sys.platform == "win32":
        home = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        home = Path.home() / "Library" / "Caches"
    else:
        home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "refladder" / "responses.sqlite"


class Backends:
    """The backends of one call. Each is opened once; `close` closes the response store.

    Args:
        store: file of the response store; None for the default of the command line (the variable REFLADDER_STORE, else
            a file in the user's cache folder for `openai`, else no store); False for no store.
    """

    def __init__(self, store: str | Path | bool | None = None) -> None:
        if store is True:
            raise UsageError("store=True names no file; give a path, None for the default, or False for no store")
        self._store: str | Path | bool | None = store
        self._opened: dict[tuple[str, tuple[tuple[str, str], ...]], Backend] = {}
        self._meters: list[Metered] = []
        self._stores: dict[Path, ResponseStore] = {}

    def open(self, backend: Backend | Judge | str, options: Mapping[str, object] | None = None) -> Backend:
        """Open and load a backend by name, or take one that is open, or a function that judges.

        Args:
            backend: a name as on the command line (`builtin`, `hf:ORG/MODEL`, `openai:MODEL`), a backend or a function.
            options: options of a named backend, such as `{"base_url": ..., "dtype": "bfloat16"}`.

        Raises:
            UsageError, UnknownNameError: options for an open backend, or no such backend or option.
            BackendUnavailableError: the backend cannot be opened.
            DataError: the response store cannot be used.
        """
        if not isinstance(backend, str):
            backend = as_backend(backend)
            if options:
                names = ", ".join(options)
                raise UsageError(f"options {names} for a backend that is open already; give them to `connect`")
            backend.load()
            return self._metered(backend)
        texts = {name.replace("-", "_"): _option_text(value) for name, value in (options or {}).items()}
        key = (backend, tuple(sorted(texts.items())))
        if key not in self._opened:
            connected = connect(backend, **texts)
            if connected.notice is not None:
                _warn_once(connected.notice)
            metered = self._metered(connected)
            store = self._store_for(backend.partition(":")[0])
            self._opened[key] = metered if store is None else Stored(metered, store)
            self._opened[key].load()
        return self._opened[key]

    def under_way(self) -> tuple[int, int | None]:
        """Prompts answered so far, and tokens that models ran for them; None where no backend counts them."""
        run_tokens = [meter.usage.run_tokens for meter in self._meters if meter.usage.run_tokens is not None]
        return sum(meter.answered for meter in self._meters), sum(run_tokens) if run_tokens else None

    def close(self) -> None:
        """Close the response store, if one is open."""
        while self._stores:
            self._stores.popitem()[1].close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _metered(self, backend: Backend) -> Metered:
        self._meters.append(Metered(backend))
        return self._meters[-1]

    def _store_for(self, kind: str) -> ResponseStore | None:
        if self._store is False:
            return None
        path = self._store or os.environ.get("REFLADDER_STORE") or (default_store() if kind in COSTLY else None)
        if path is None:
            return None
        file = Path(str(path))
        if file not in self._stores:
            self._stores[file] = ResponseStore(file)
        return self._stores[file]


def as_backend(judge: Backend | Judge) -> Backend:
    """A backend, or the backend of a function.

    Raises:
        UsageError: it is neither, or the function needs a name.
    """
    if isinstance(judge, Backend):
        return judge
    if not callable(judge):
        raise UsageError(f"judge={judge!r:.60}: must be a name, a backend or a function")
    return FunctionJudge(judge)


def check_asking(*, least_mass: float, answers: int = 0, prompts: str | Path | None = None) -> None:
    """Check how a call asks a judge and what it trusts, before a judge is opened.

    Raises:
        UsageError: a number is out of range.
        PromptError: the folder of templates is wrong.
    """
    if not 0 <= least_mass <= 1:
        raise UsageError(f"least_mass={least_mass:g}: must be a probability from 0 to 1")
    if answers < 0:
        raise UsageError(f"answers={answers}: must be 0 or more")
    if prompts is not None:
        check_folder(Path(prompts))


def open_recorded(path: str | Path, asking: Mapping[str, object]) -> Recorded:
    """The judgments of another program, in the place of a judge.

    Args:
        path: their table.
        asking: the arguments of the call that say how a judge is asked; none of them may be given.

    Raises:
        UsageError: one of them is given.
        DataError: the table is wrong.
    """
    for name, value in asking.items():
        if value not in (None, 0, False, "builtin") and value != {}:
            raise UsageError(f"judgments_from asks no model, and {name} is for asking one; give one of them")
    recorded = read_recorded(str(path))
    _LOG.info("%s", recorded.notice)
    return recorded


def resolved(command: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration of a call, as the command line stores it with its output."""
    options = {
        name: _plain(as_backend(value) if name == "judge" and callable(value) else value)
        for name, value in given.items()
    }
    return {"command": command, "refladder": __version__, "options": redacted(options)}


def _plain(value: object) -> object:
    """A value as JSON can hold it; an object that was opened is named."""
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, LadderSet | Backend):
        return f"{value.name}@{value.digest}" if isinstance(value, LadderSet) else value.fingerprint
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    return str(value) if isinstance(value, Path) else type(value).__name__


def _option_text(value: object) -> str:
    """An option's value as on the command line."""
    return str(value).lower() if isinstance(value, bool) else str(value)


@functools.cache
def _warn_once(notice: str) -> None:
    _LOG.warning("%s", notice)
