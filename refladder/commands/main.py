"""The command line. A command is a module in the folder of its feature, imported only when it is named."""

from __future__ import annotations

import codecs
import errno
import gc
import io
import itertools
import os
import sys
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from refladder.cli import helping
from refladder.cli.options import options, options_of
from refladder.display.rendering import printable
from refladder.errors import (
    DataError,
    ExitCode,
    RefladderError,
    UnknownNameError,
    UsageError,
    interrupted,
)
from refladder.options import like
from refladder.parsing import parse_toml
from refladder.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from refladder.options import Option

# The commands under each heading of the help, with the folder of each.
HEADINGS = {
    "Score and filter": {
        "score": "commands",
        "filter": "calibration",
        "jury": "comparison",
        "pairs": "calibration",
        "rescore": "jobs",
        "show": "jobs",
    },
    "Build and share ladders": {"build": "ladders", "publish": "ladders"},
    "Trust": {
        "calibrate": "calibration",
        "certify": "ladders",
        "audit": "comparison",
        "link": "comparison",
        "watch": "comparison",
    },
    "Compare and measure": {
        "compare": "comparison",
        "evaluate": "evaluation",
        "compete": "contest",
        "review": "contest",
    },
    "Tools": {
        "demo": "commands",
        "list": "commands",
        "distil": "students",
        "export": "evaluation",
        "store": "commands",
    },
}
_FOLDERS = dict(itertools.chain.from_iterable(each.items() for each in HEADINGS.values()))
COMMANDS = tuple(sorted(_FOLDERS))


def command_of(name: str) -> click.Command:
    """Import a command."""
    folder = _FOLDERS[name]
    module = name if folder == "commands" else f"{name}_command"
    return cast("click.Command", import_module(f"refladder.{folder}.{module}").command)


class _OutputFailedError(Exception):
    """Standard output cannot be written; click would leave with a code of its own for a closed pipe."""

    exit_code = ExitCode.MISUSED


@contextmanager
def _printing() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.EPIPE, errno.ENOSPC, errno.EBADF):
            raise
        raise _OutputFailedError(
            f"standard output: cannot be written ({error.strerror}); free space or choose another place"
        ) from error


class _Lazy(click.Group):
    """Imports a command when it is asked for, so that --help and completion stay quick."""

    context_class = helping.Context

    def invoke(self, context: click.Context) -> object:
        with _printing():
            result = super().invoke(context)
            sys.stdout.flush()
        return result

    def parse_args(self, context: click.Context, arguments: list[str]) -> list[str]:
        # --help and --version print here.
        with _printing():
            return super().parse_args(context, arguments)

    def list_commands(self, _context: click.Context) -> list[str]:
        return list(COMMANDS)

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        for heading, names in HEADINGS.items():
            rows = []
            for name in names:
                command = cast("click.Command", self.get_command(context, name))
                rows.append((name, command.short_help or ""))
            with formatter.section(heading):
                formatter.write_dl(rows, max(map(len, COMMANDS)))

    def get_command(self, _context: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        return command_of(name)

    def resolve_command(
        self, context: click.Context, arguments: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if arguments[0] == "help":
            raise UsageError(f"run `refladder {' '.join([*arguments[1:2], '--help'])}`")
        if arguments[0] not in COMMANDS and not arguments[0].startswith("-"):
            raise UnknownNameError("command", arguments[0], COMMANDS)
        return super().resolve_command(context, arguments)


@click.group(
    cls=_Lazy,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "show_default": True,
        "max_content_width": 100,
    },
    epilog='Shell completion: eval "$(_REFLADDER_COMPLETE=bash_source refladder)"; also zsh_source, fish_source.',
)
@click.version_option(__version__, prog_name="refladder")
@options(like("config_file", type=click.Path(dir_okay=False, path_type=Path)))
@click.pass_context
def cli(context: click.Context, config_file: Path | None) -> None:
    """Score generated text by comparison with ladders of reference texts of rising quality.

    Start with `refladder demo`, which runs every step on shipped data. For the options of a command, run
    `refladder COMMAND --help`.
    """
    if config_file is not None:
        context.default_map = _defaults(context, config_file)


def _defaults(context: click.Context, path: Path) -> dict[str, dict[str, object]]:
    from refladder.files.jsonl import read_bytes

    tables = parse_toml(read_bytes(path), str(path))
    defaults: dict[str, dict[str, object]] = {}
    for name, table in tables.items():
        if name not in COMMANDS:
            raise UnknownNameError(f"table in {path}", name, COMMANDS)
        if not isinstance(table, dict):
            raise DataError(f"{path}: {name!r} must be a table, [{name}], found {table!r:.60}")
        command = cast("click.Command", cast("_Lazy", context.command).get_command(context, name))
        names = _options_by_key(command)
        chosen = defaults.setdefault(name, {})
        for key, given in table.items():
            if key not in names:
                raise UnknownNameError(f"option in {path} [{name}]", key, names)
            values = given if isinstance(given, list) else [given]
            if isinstance(given, list) and not names[key].multiple:
                raise DataError(f"{path}: [{name}] {key} must be one value, found {given!r:.60}")
            for value in values:
                _check_value(f"{path}: [{name}] {key}", names[key], value)
            chosen[names[key].name] = values if names[key].multiple else given
    return defaults


def _options_by_key(command: click.Command) -> dict[str, Option]:
    """Return the options of a command by their keys in a configuration file."""
    by_key = {}
    for option in options_of(command):
        for flag in (option.flag, option.alias):
            if flag.startswith("--"):
                by_key[flag.lstrip("-")] = option
    return by_key


def _check_value(where: str, option: Option, value: object) -> None:
    """Refuse what no command line could say in the place of an option's value."""
    if option.is_text and not isinstance(value, str):
        raise DataError(f"{where} must be a string, found {value!r:.60}")
    if option.type is bool and not isinstance(value, bool):
        raise DataError(f"{where} must be true or false, found {value!r:.60}")
    if not isinstance(value, str | int | float):
        raise DataError(f"{where} must be a string, a number, true or false, found {value!r:.60}")
    if isinstance(value, str) and "\0" in value:
        raise DataError(f"{where} holds a NUL character, which no value can; take it out")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    _open_streams()
    code = run(arguments)
    # The end of the interpreter then does not search the objects of all packages: a tenth of a second.
    gc.freeze()
    sys.exit(code)


class _Messages(io.FileIO):
    """Standard error; a message that it cannot take is lost, and the run continues."""

    def write(self, data: Any, /) -> int:
        with suppress(OSError):
            return super().write(data)
        return len(data)


def _open_streams() -> None:
    """Open the streams that the shell has closed, so that no file gets their numbers; messages cannot fail."""
    # Any of the three can be None, despite their annotations.
    if sys.stdin is None:
        os.open(os.devnull, os.O_RDONLY)
    # It is opened for reading, so that writing fails.
    if sys.stdout is None:
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w", encoding="utf-8")
    # A text that the encoding of the terminal does not have is printed as escapes.
    if codecs.lookup(sys.stdout.encoding).name != "utf-8":
        cast("io.TextIOWrapper", sys.stdout).reconfigure(errors="backslashreplace")
    closed = sys.stderr is None
    number = os.open(os.devnull, os.O_WRONLY) if closed else sys.stderr.fileno()
    stream = io.BufferedWriter(_Messages(number, "w", closefd=False))
    encoding = "utf-8" if closed else sys.stderr.encoding
    sys.stderr = io.TextIOWrapper(
        stream, encoding=encoding, errors="backslashreplace", line_buffering=True
    )


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; every error of ours becomes one line on standard error and an exit code."""
    try:
        result = cli.main(args=arguments, prog_name="refladder", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return ExitCode.MISUSED
    except click.ClickException as error:
        shown = io.StringIO()
        helping.explain(error).show(shown)
        # A value may come from a configuration file.
        click.echo(printable(shown.getvalue()), err=True, nl=False)
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo(interrupted(sys.argv[1:] if arguments is None else arguments), err=True)
        return ExitCode.INTERRUPTED
    except (RefladderError, _OutputFailedError) as error:
        return _told(error)
    except (MemoryError, OSError) as error:
        return _told(_of_the_system(error))
    return result if isinstance(result, int) else ExitCode.DONE


def _of_the_system(error: MemoryError | OSError) -> RefladderError:
    if isinstance(error, MemoryError):
        return RefladderError("not enough memory; read a smaller file, or fewer rows at a time")
    if error.errno == errno.ENAMETOOLONG:
        return UsageError(f"{str(error.filename)[:60]}...: {error.strerror}; choose a shorter path")
    # From os.getcwd, which every relative path needs.
    if error.errno == errno.ENOENT and error.filename is None:
        return UsageError(
            "the current working folder no longer exists; change to another one and run the command again"
        )
    raise error


def _told(error: RefladderError | _OutputFailedError) -> ExitCode:
    if isinstance(error, _OutputFailedError):
        # What is still held back for standard output goes nowhere, so that leaving does not fail on it again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        # The reader of a pipe has had enough.
        if isinstance(error.__cause__, BrokenPipeError):
            return ExitCode.PIPE_CLOSED
    click.echo(f"refladder: {printable(' '.join(str(error).split(chr(10))))}", err=True)
    return error.exit_code
