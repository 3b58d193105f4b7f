"""Backends as the public calls take them: a name with options, or an open backend."""

from __future__ import annotations

import functools
import logging
from typing import TYPE_CHECKING

from refladder.backends import Backend, connect
from refladder.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

_LOG = logging.getLogger("refladder")


def opened(backend: Backend | str, options: Mapping[str, object] | None = None) -> Backend:
    """Open a backend by name, or take one that is open.

    Args:
        backend: a name as on the command line (`builtin`, `hf:ORG/MODEL`, `openai:MODEL`), or a backend.
        options: options of a named backend, such as `{"base_url": ..., "dtype": "bfloat16"}`.

    Raises:
        UsageError, UnknownNameError: options for an open backend, or no such backend or option.
        BackendUnavailableError: the backend cannot be opened.
    """
    if isinstance(backend, Backend):
        if options:
            raise UsageError(f"options {', '.join(options)} for a backend that is open already; give them to `connect`")
        return backend
    connected = connect(backend, **{name.replace("-", "_"): _text(value) for name, value in (options or {}).items()})
    if connected.notice is not None:
        _warn_once(connected.notice)
    return connected


def _text(value: object) -> str:
    """An option's value as on the command line."""
    return str(value).lower() if isinstance(value, bool) else str(value)


@functools.cache
def _warn_once(notice: str) -> None:
    _LOG.warning("%s", notice)
