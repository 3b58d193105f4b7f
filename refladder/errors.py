"""Every error refladder raises on purpose.

RefladderError
├── UsageError (ValueError)       the call asks for something that cannot be done
│   ├── UnknownNameError          a name that stands in no table; carries the near name
│   └── ShapeError                an array whose axes are not what the docstring says
├── DataError                     a file or a row is not what its schema says; text starts with path:line
├── PromptError                   a template or its slots are wrong
├── BackendError                  the writer or the judge
│   ├── BackendUnavailableError   it cannot be reached or loaded
│   ├── LabelsUnavailableError    it cannot give label probabilities
│   └── BadCompletionError        it answered with something unusable
└── NotConvergedError             an iteration ended before its tolerance

A message is one sentence: what, rule, what was there, next step.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


_SHOWN = 40  # names that a message lists


class RefladderError(Exception):
    """Base of every error that refladder raises on purpose."""


class UsageError(RefladderError, ValueError):
    """The call asks for something that cannot be done."""


class UnknownNameError(UsageError):
    """A name that stands in no table.

    Args:
        kind: what is named, in the singular ("benchmark").
        name: the name that was asked for.
        known: the names that exist.
    """

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        names = sorted(known)
        near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
        hint = f"; did you mean {near[0]!r}?" if near else ";"
        shown = ", ".join(names[:_SHOWN]) or "none"
        more = f", and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
        super().__init__(f"unknown {kind} {name!r}{hint} Known: {shown}{more}")
        self.kind = kind
        self.name = name


class ShapeError(UsageError):
    """An array whose axes are not what the docstring says."""


class DataError(RefladderError):
    """A file or a row is not what its schema says; the text starts with path:line."""


class PromptError(RefladderError):
    """A prompt template, or what is put in its slots, is wrong."""


class BackendError(RefladderError):
    """The writer or the judge failed."""


class BackendUnavailableError(BackendError):
    """The backend cannot be reached or loaded."""


class LabelsUnavailableError(BackendError):
    """The backend cannot give the label probabilities that were asked for."""


class BadCompletionError(BackendError):
    """The backend answered with something unusable."""


class NotConvergedError(RefladderError):
    """An iteration ended before its tolerance was met."""
