"""Every error refladder raises on purpose.

RefladderError
├── UsageError (ValueError)       the call asks for something impossible
│   ├── JudgeRefusedError         the judge does not distinguish the best rung of ladders from the worst
│   ├── InUseError                another process is writing a file
│   ├── OtherRunError             a file of judgments is that of another run
│   ├── UnknownNameError          a name that does not exist; the message suggests a similar one
│   └── ShapeError                an array with the wrong axes
├── DataError                     a file or a row does not follow its schema; text starts with path:line
│   ├── ChangedInputError         stored judgments are of another text than the input has
│   └── NoRowsError               a table has a header and no rows
├── PromptError                   a template or its slots are invalid
├── BackendError                  the writer or the judge failed
│   ├── BackendUnavailableError   it cannot be reached or loaded
│   │   └── MissingPackageError   a package is not installed
│   ├── AnswersAwaitedError       answers through files have not arrived yet; nothing failed
│   ├── LabelsUnavailableError    it does not give label probabilities
│   ├── BadCompletionError        its answer is unusable
│   └── PlugInError               the code of another package raised an error
└── NotConvergedError             an iteration ended before its tolerance

A message is one sentence: what is wrong and where, the rule, the value found, the next step.
"""

from __future__ import annotations

import re
import traceback
from contextlib import contextmanager
from contextvars import ContextVar
from difflib import SequenceMatcher, get_close_matches
from enum import IntEnum
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence


# Largest number of names that a message lists.
_SHOWN = 40

# Zeros before a number.
_ZEROS = re.compile(r"(?<!\d)0+(?=\d)")
_OURS = Path(__file__).parent
T = TypeVar("T")
# The parameter of the current call for each option that messages name, without dashes.
_PARAMETERS: ContextVar[Mapping[str, str] | None] = ContextVar("parameters", default=None)
_HIDDEN = "***"
# Names of options and fields that hold a secret.
_NAME = (
    r"(?:[\w-]*[_-])?(?:api|access|secret|private|subscription|account)[_-]?key|apikey|(?:[\w-]*[_-])?(?:password|passwd)"
    r"|passphrase|(?:client[_-]?)?secret|authorization|(?:(?:access|api|auth|bearer|hf|refresh|security|session)[_-]?)?token"
)
# Further names of secrets in URLs.
_IN_URL = r"(?:[\w.-]*[_.-])?(?:signature|sig|credential|key|token)|awsaccesskeyid"
_FIELD = re.compile(_NAME, re.IGNORECASE)
# The first is the user and the password in a URL.
_SECRETS = (
    re.compile(r"(://)[^/?#\s]*(?=@)"),
    re.compile(rf"""([?&;](?:{_NAME}|{_IN_URL})=)[^&;#\s'"]+""", re.IGNORECASE),
    re.compile(rf"""((?:^|(?<=[\s'"]))(?:{_NAME})=)[^\s'"]+""", re.IGNORECASE),
    re.compile(rf"""((["'])(?:{_NAME})\2\s*[:,]\s*(["']))(?:\\.|(?!\3).)*(?=\3)""", re.IGNORECASE),
)


@contextmanager
def in_call(parameters: Mapping[str, str]) -> Iterator[None]:
    """Write messages in the words of a Python call: `parameters` holds what it calls an option, such as `yes-no`."""
    token = _PARAMETERS.set(parameters)
    try:
        yield
    finally:
        _PARAMETERS.reset(token)


def interrupted(arguments: Sequence[str]) -> str:
    """Say how a command line that was interrupted is continued."""
    name = next((each for each in arguments if not each.startswith("-")), "")
    resumes = name in {"build", "certify", "compete", "score", "watch"} or (
        name == "evaluate" and any(each.startswith("--work") for each in arguments)
    )
    again = " to resume" if resumes else ""
    return f"refladder: interrupted; run the same {f'{name} ' if name else ''}command again{again}"


def plural(count: int, noun: str) -> str:
    """Write a number with its noun, such as `1 label` and `2 labels`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def meant_share(value: float) -> str:
    """Return what to give for a share that was given as a percentage, such as `; give 0.8 for 80 %`; else nothing."""
    return f"; give {value / 100:g} for {value:g} %" if 1 < value <= 100 else ""


def agreeing(count: int, one: str, many: str) -> str:
    """Return the words that agree with a number, such as `has` or `have`."""
    return one if count == 1 else many


def either(command: str, call: str) -> str:
    """Choose the words of a message that differ between the command line and a Python call."""
    return command if _PARAMETERS.get() is None else call


def option(name: str) -> str:
    """Write a setting as the user does: `--both-orders`, or in a Python call `both_orders`.

    Args:
        name: name of the option, without its dashes. If the call has no parameter for it, it stays an option.
    """
    name = name.replace("_", "-")
    return (_PARAMETERS.get() or {}).get(name, f"--{name}")


def column_option(field: str, name: str) -> str:
    """Write the option that names the column of a field: `--column FIELD=NAME`, or `columns={'FIELD': 'NAME'}`."""
    return either(f"--column {field}={name}", f"columns={{{field!r}: {name!r}}}")


def redacted(value: T) -> T:
    """Remove passwords, keys and signatures from a text, or from the texts in lists, tuples and dicts.

    It is for whatever is printed or written to a file: URLs, also of several file systems in a chain, and options.
    """
    shown: object = value
    if isinstance(value, str):
        shown = value
        for secret in _SECRETS:
            shown = secret.sub(rf"\g<1>{_HIDDEN}", shown)
    elif isinstance(value, dict):
        fields = {}
        for key, item in value.items():
            is_secret = item and isinstance(key, str) and _FIELD.fullmatch(key)
            fields[redacted(key)] = _HIDDEN if is_secret else redacted(item)
        shown = fields
    elif isinstance(value, list | tuple):
        shown = type(value)(map(redacted, value))
    return shown  # type: ignore[return-value]


def similar(name: str, names: Iterable[object], cutoff: float = 0.6) -> str | None:
    """Find the name that is most like a name, if one is at least as similar as `cutoff` (0 to 1).

    A name with other zeros before a number (`a01` of `a1`) is most alike, then one of equal letters in another order. Of
    equally similar names it is that with the longest equal beginning. A name with this one as a part (`base_url` of
    `url`) is least alike.
    """
    known = list(map(str, names))

    def likeness(other: str) -> tuple[float, int]:
        start = takewhile(lambda pair: pair[0] == pair[1], zip(name, other, strict=False))
        return SequenceMatcher(None, other, name).ratio(), len(list(start))

    near = [each for each in known if _ZEROS.sub("", each) == _ZEROS.sub("", name)]
    near = near or [each for each in known if sorted(each) == sorted(name)]
    near = near or get_close_matches(name, known, len(known) or 1, cutoff)
    near.sort(key=likeness, reverse=True)
    return next(iter(near or [each for each in known if name in re.split(r"[\W_]+", each)]), None)


def did_you_mean(name: str, names: Iterable[object], end: str = ".") -> str:
    """Write `; did you mean 'NAME'?` for a message, or `end` if no name is similar; a comma may separate two names."""
    names = list(names)
    near = {similar(part, names): None for part in name.split(",")}
    near.pop(None, None)
    if len(near) > 1:
        return f"; did you mean {' and '.join(map(repr, near))}, given one by one?"
    match = similar(name, names) or next(iter(near), None)
    return end if match is None else f"; did you mean {match!r}?"


def raised(error: BaseException) -> str:
    """Write an error of another author's code: `raised KeyError: 'a' (file.py:3)`, with the first line outside of refladder."""
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [frame for frame in frames if not Path(frame.filename).is_relative_to(_OURS)]
    frame = (theirs or frames)[0]
    words = " ".join(str(error).split())
    where = f"{Path(frame.filename).name}:{frame.lineno}"
    return f"raised {type(error).__name__}: {words:.200} ({where})"


class ExitCode(IntEnum):
    """Exit codes of the commands."""

    DONE = 0
    FAILED = 1
    # The call or its data must be mended.
    MISUSED = 2
    # The command finished, and some outputs have no score, or a promise or a certificate is refused.
    INCOMPLETE = 3
    AWAITED = 4
    # A shell reports the signals SIGINT and SIGPIPE by these numbers.
    INTERRUPTED = 130
    PIPE_CLOSED = 141

    @classmethod
    def of(cls, *, complete: object) -> ExitCode:
        """Return the exit code of a command that has finished."""
        return cls.DONE if complete else cls.INCOMPLETE


class RefladderError(Exception):
    """Base of every error that refladder raises on purpose; its text shows no secret."""

    exit_code = ExitCode.FAILED

    def __str__(self) -> str:
        return redacted(super().__str__())


class UsageError(RefladderError, ValueError):
    """The call asks for something impossible."""

    exit_code = ExitCode.MISUSED


class JudgeRefusedError(UsageError):
    """The judge does not distinguish the best rung of ladders from the worst."""


class InUseError(UsageError):
    """Another process is writing a file."""


class OtherRunError(UsageError):
    """A file of judgments belongs to another run."""


class UnknownNameError(UsageError):
    """A name that does not exist.

    Args:
        kind: what is named, in the singular ("benchmark").
        name: the requested name.
        available: the names that exist.
        meant: the name that was probably meant, if known; None looks for a similar name.
    """

    def __init__(
        self, kind: str, name: str, available: Iterable[str], meant: str | None = None
    ) -> None:
        names = sorted(available)
        hint = f"; did you mean {meant!r}?" if meant else did_you_mean(name, names)
        shown = ", ".join(names[:_SHOWN]) or "none"
        more = f", and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
        super().__init__(f"unknown {kind} {name!r}{hint} Known: {shown}{more}")
        self.kind = kind
        self.name = name


class ShapeError(UsageError):
    """An array with other axes than the docstring requires."""


class DataError(RefladderError):
    """A file or a row does not follow its schema; the text starts with path:line."""

    exit_code = ExitCode.MISUSED


class ChangedInputError(DataError):
    """Stored judgments are of another text than the input has; those before `line` of their file still fit."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


class PromptError(RefladderError):
    """A prompt template, or a value for its slots, is invalid."""

    exit_code = ExitCode.MISUSED


class BackendError(RefladderError):
    """The writer or the judge failed."""


class BackendUnavailableError(BackendError):
    """The backend cannot be reached or loaded."""


class NoRowsError(DataError):
    """A table has no rows; nothing is wrong with it, and nothing can be done."""

    exit_code = ExitCode.INCOMPLETE


class MissingPackageError(BackendUnavailableError):
    """The backend needs a package that is not installed."""

    exit_code = ExitCode.MISUSED


class AnswersAwaitedError(BackendError):
    """Requests were written to a folder and wait for their answers; an equal call continues once they exist."""

    exit_code = ExitCode.AWAITED


class LabelsUnavailableError(BackendError):
    """The backend does not give the requested label probabilities."""


class BadCompletionError(BackendError):
    """The answer of the backend is unusable."""


class PlugInError(BackendError):
    """The code of another package, a backend or a method, raised an error that is none of refladder's."""


class NotConvergedError(RefladderError):
    """An iteration ended before its tolerance was met."""
